//! Processes of this machine, as `/proc` shows them.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use super::wait;

/// Time for stopped processes to stand still: a sync on a busy disk takes its time.
const STILL_MAX: Duration = Duration::from_secs(60);
/// Time for killed processes to end.
const END_MAX: Duration = Duration::from_secs(60);

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.filter_map(Result::ok);
    let lists = lists.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Stops a process and all that come from it. Returns when each stands still: who is stopped in the middle of beginning another process
/// or of a sync does that first.
pub(crate) fn pause_tree(first: u32) -> BTreeSet<u32> {
    let mut paused = BTreeSet::new();
    let still = wait::until(STILL_MAX, || {
        let (mut waiting, mut is_still) = (vec![first], true);
        while let Some(pid) = waiting.pop() {
            is_still &= !paused.insert(pid) && matches!(state(pid), None | Some('T' | 'Z' | 'X'));
            sys::process::pause(pid).unwrap();
            waiting.extend(children(pid));
        }
        is_still
    });
    assert!(still, "processes do not stand still");
    paused
}

/// Kills processes and waits until they have let go of their files; who is to wait for them does not matter.
pub(crate) fn kill_all(pids: &BTreeSet<u32>) {
    pids.iter().for_each(|pid| sys::process::kill(*pid).unwrap());
    let is_running = |pid: &u32| !matches!(state(*pid), None | Some('Z' | 'X'));
    let ended = wait::until(END_MAX, || !pids.iter().any(is_running));
    assert!(ended, "killed processes do not end");
}

/// The letter of a process's state, e.g. `T` if it is stopped; `None` if it is gone.
fn state(pid: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit(") ").next()?.chars().next()
}

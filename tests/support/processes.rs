//! Processes of this machine, as `/proc` shows them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
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

/// Stops a process. Returns when it stands still: until the thread that takes the signal has run, the others go on.
pub(crate) fn pause(pid: u32) {
    sys::process::pause(pid).unwrap();
    let still = wait::until(STILL_MAX, || all_threads(pid, &['T', 'Z', 'X']));
    assert!(still, "process {pid} does not stand still");
}

/// Stops a process and all that come from it. Returns when each stands still: who is stopped in the middle of beginning another process
/// or of a sync does that first.
pub(crate) fn pause_tree(first: u32) -> BTreeSet<u32> {
    let mut paused = BTreeSet::new();
    let still = wait::until(STILL_MAX, || {
        let (mut waiting, mut is_still) = (vec![first], true);
        while let Some(pid) = waiting.pop() {
            is_still &= !paused.insert(pid) && all_threads(pid, &['T', 'Z', 'X']);
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
    let ended = wait::until(END_MAX, || pids.iter().copied().all(has_ended));
    assert!(ended, "killed processes do not end");
}

/// True if a process is over; who is to wait for it does not matter.
pub(crate) fn has_ended(pid: u32) -> bool {
    all_threads(pid, &['Z', 'X'])
}

/// True if each thread of a process is in one of these states, or gone. One that waits for a disk is not, whatever the first one is.
fn all_threads(pid: u32, states: &[char]) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state = |place: &Path| {
        let text = fs::read_to_string(place.join("stat")).ok()?;
        text.rsplit(") ").next()?.chars().next()
    };
    threads.filter_map(|thread| state(&thread.path())).all(|state| states.contains(&state))
}

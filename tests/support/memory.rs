//! Memory of processes, looked at from outside.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::processes::children;

/// How often a [`Watch`] looks: a task that needs much needs it for longer.
const LOOK: Duration = Duration::from_millis(20);

/// What a process has of its own (`RssAnon`), KiB; `None` if it is gone.
pub(crate) fn own_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// The most that processes and their children had while it was there, looked at all the time.
pub(crate) struct Watch {
    /// Dropped when enough was seen.
    going: Sender<()>,
    looking: JoinHandle<BTreeMap<&'static str, u64>>,
}

impl Watch {
    /// Watches processes, each under a name, and all children of each together under another.
    pub(crate) fn begin(processes: Vec<(u32, &'static str, &'static str)>) -> Self {
        let (going, is_going) = mpsc::channel::<()>();
        let looking = thread::spawn(move || {
            let mut most = BTreeMap::new();
            loop {
                for (pid, name, name_of_children) in &processes {
                    let of_children =
                        children(*pid).into_iter().map(|child| (child, *name_of_children));
                    for (pid, name) in of_children.chain([(*pid, *name)]) {
                        let now = own_kib(pid).unwrap_or_default();
                        let most = most.entry(name).or_insert(now);
                        *most = now.max(*most);
                    }
                }
                if is_going.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                    return most;
                }
            }
        });
        Watch { going, looking }
    }

    /// The most that one process of each name had, KiB.
    pub(crate) fn end(self) -> BTreeMap<&'static str, u64> {
        drop(self.going);
        self.looking.join().unwrap()
    }
}

//! Processes that escaped from their family: children of ended parents, in sessions of their own, without the variables of their environment. They become
//! children of this process once it adopts them, so each has a known parent.
//!
//! Invariants: a process started with [`start`] never counts as an orphan. Nor does a child of this process that is confined no more tightly than this process
//! itself: all tasks are, so other code started that child.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use rustix::process::{Pid, WaitOptions};

use crate::family::{PROC, Table, kill_exactly};

/// Rounds of listing and killing: each finds what was forked while the previous one killed.
const ROUNDS_MAX: u32 = 200;
/// Time for killed processes to go.
const ROUND_PAUSE: Duration = Duration::from_millis(5);

/// Processes started here, by any part of this process, and not yet waited for.
static STARTED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// From now on descendants of this process whose parents end become its children.
///
/// # Errors
/// The system's error.
pub fn adopt() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Calls `start`, which starts a process and returns its id: the process does not count as an orphan until [`ended`].
///
/// # Errors
/// Those of `start`.
pub fn start<T>(start: impl FnOnce() -> io::Result<(u32, T)>) -> io::Result<T> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let (process, result) = start()?;
    started.insert(process);
    Ok(result)
}

/// Reports that a process of [`start`] has been waited for.
pub fn ended(process: u32) {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).remove(&process);
}

/// Ends all orphans and their descendants, except those whose process `is_somebodys`; true if the last listing found none.
///
/// # Errors
/// If `/proc` cannot be read or a process cannot be killed.
pub fn end_all(is_somebodys: impl Fn(u32, &Table) -> bool) -> io::Result<bool> {
    for _ in 0..ROUNDS_MAX {
        let table = {
            // A process being started is a child of this one before its id is known.
            let _started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
            Table::read()?
        };
        reap(&table);
        let orphans = orphans(table.children(std::process::id()));
        let lost: Vec<u32> = orphans.filter(|process| !is_somebodys(*process, &table)).collect();
        if lost.is_empty() {
            return Ok(true);
        }
        for process in table.with_descendants(lost) {
            kill_exactly(process, table.started(process))?;
        }
        std::thread::sleep(ROUND_PAUSE);
    }
    Ok(false)
}

/// Waits for orphans that have ended.
fn reap(table: &Table) {
    for process in orphans(table.dead_children(std::process::id())) {
        if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
            // Somebody else may already have waited for it.
            let _ = rustix::process::waitpid(Some(process), WaitOptions::NOHANG);
        }
    }
}

fn orphans<'a>(children: &'a [u32]) -> impl Iterator<Item = u32> + use<'a> {
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let own = Hold::of("self").unwrap_or_default();
    children.iter().copied().filter(move |process| {
        !started.contains(process)
            && Hold::of(&process.to_string()).is_some_and(|hold| hold.is_tighter_than(own))
    })
}

/// How a process is confined.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Hold {
    is_without_new_privileges: bool,
    filter_count: u64,
}

impl Hold {
    fn of(process: &str) -> Option<Hold> {
        let status = fs::read(format!("{PROC}/{process}/status")).ok()?;
        let status = String::from_utf8_lossy(&status);
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        Some(Hold {
            is_without_new_privileges: field("NoNewPrivs:") == Some(1),
            filter_count: field("Seccomp_filters:").unwrap_or(0),
        })
    }

    fn is_tighter_than(self, other: Hold) -> bool {
        self.filter_count > other.filter_count
            || (self.is_without_new_privileges && !other.is_without_new_privileges)
    }
}

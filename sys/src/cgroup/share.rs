//! Version 2 hands controllers down from above: a group that does so for its children may have no processes itself. If Hanno's own processes are in the way,
//! they move into a group of their own beside the others.
//!
//! Invariants: no process of somebody else is moved, unless the group was delegated as a whole (systemd's `Delegate=`, a container). What cannot be handed down
//! is reported with its reason. The place of a process in the group that [`LEAF`] names is the group above it, so several daemons share one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::getuid;

use super::files::{is, make, members_of, put, words};
use super::place::Own;
use crate::family::PROC;

/// The group of Hanno's own processes while tasks have limits.
pub(super) const LEAF: &str = "hanno-daemons";
/// Attempts to move all processes; each finds those forked during the previous one.
const MOVES_MAX: u32 = 20;
/// How systemd marks a delegated group: by the manager of the machine, and by that of a user.
const GIVEN_AWAY: [&str; 2] = ["trusted.delegate", "user.delegate"];

/// The group below which this process makes its own.
pub(super) fn base(own: Own) -> Own {
    match own.directory.parent() {
        Some(above) if own.directory.ends_with(LEAF) => {
            Own { directory: above.to_owned(), is_top: false }
        }
        _ => own,
    }
}

/// Makes `controller` available to groups below `place`, which lies in `base`.
pub(super) fn hand_down(base: &Own, place: &Path, controller: &str) -> io::Result<()> {
    let directory = &base.directory;
    if !words(&directory.join("cgroup.controllers"))?.iter().any(|word| word == controller) {
        let text = format!("{} has no controller {controller}", directory.display());
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    make_room(base)?;
    let refused = |directory: &Path, error: &io::Error| {
        let text = format!("{} does not hand down {controller}: {error}", directory.display());
        io::Error::new(error.kind(), text)
    };
    enable(directory, controller).map_err(|error| refused(directory, &error))?;
    enable(place, controller).map_err(|error| refused(place, &error))
}

fn enable(directory: &Path, controller: &str) -> io::Result<()> {
    let shared = directory.join("cgroup.subtree_control");
    if words(&shared)?.iter().any(|word| word == controller) {
        return Ok(());
    }
    put(&shared, &format!("+{controller}"))
}

/// Moves the processes in `base` out of the way, all or none. The kernel does not refuse every controller while there are some: with threaded controllers it
/// would turn the groups below into groups of threads instead, which no process can enter.
fn make_room(base: &Own) -> io::Result<()> {
    let directory = &base.directory;
    // The machine's root group may have processes, and has no type.
    if !directory.join("cgroup.type").try_exists()? {
        return Ok(());
    }
    for _ in 0..MOVES_MAX {
        let members = members_of(directory)?;
        if members.is_empty() {
            return Ok(());
        }
        if let Some(stranger) = stranger(base, &members) {
            let text = format!("the process {stranger} is in {}, too", directory.display());
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        let leaf = directory.join(LEAF);
        make(&leaf)?;
        for pid in members {
            match put(&leaf.join("cgroup.procs"), &pid.to_string()) {
                // The process has ended.
                Err(error) if is(&error, Errno::SRCH) => {}
                moved => moved?,
            }
        }
    }
    let text = format!("there are ever new processes in {}", directory.display());
    Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
}

/// A process that must not be moved.
fn stranger(base: &Own, members: &BTreeSet<u32>) -> Option<u32> {
    // A process that this one cannot see has no number here.
    if members.contains(&0) {
        return Some(0);
    }
    if base.is_top || is_given_away(&base.directory) {
        return None;
    }
    let own = program("self");
    members.iter().copied().find(|pid| {
        let program = program(&pid.to_string());
        program.is_some() && program != own
    })
}

/// The user and the program of a process; `None` if it is gone.
fn program(process: &str) -> Option<(u32, Option<PathBuf>)> {
    use std::os::unix::fs::MetadataExt;
    let path = Path::new(PROC).join(process);
    let user = match process {
        "self" => getuid().as_raw(),
        _ => path.metadata().ok()?.uid(),
    };
    Some((user, fs::read_link(path.join("exe")).ok()))
}

fn is_given_away(directory: &Path) -> bool {
    let mut value = [0; 1];
    let is_marked = |name: &&str| {
        matches!(rustix::fs::getxattr(directory, *name, &mut value), Ok(1)) && value == *b"1"
    };
    GIVEN_AWAY.iter().any(is_marked)
}

/// True if groups in `directory` have `controller`: already, or enabled now in the machine's root group.
#[cfg(test)]
pub(super) fn hands_down(directory: &Path, controller: &str) -> bool {
    let is_done = words(&directory.join("cgroup.subtree_control"))
        .is_ok_and(|shared| shared.iter().any(|word| word == controller));
    let is_top = matches!(directory.join("cgroup.type").try_exists(), Ok(false));
    is_done || (is_top && enable(directory, controller).is_ok())
}

//! Version 2 shares out controllers from above to below: a group that does so for those below it may have no processes itself. So where Hanno's processes are in the
//! way, they move into a group of their own beside the others.
//!
//! Invariants: no process of somebody else is moved, unless the group was given away as a whole (systemd's `Delegate=`, a container); what cannot be shared out is told
//! with its reason; a process in the group that [`LEAF`] names has the one above it for its place, so that several daemons share one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::getuid;

use super::files::{is, make, members_of, put, words};
use super::place::Own;
use crate::family::PROC;

/// Where Hanno's own processes are while those of tasks are bounded.
pub(super) const LEAF: &str = "hanno-daemons";
/// Tries of moving all processes; each finds what was forked during the one before.
const MOVES_MAX: u32 = 20;
/// What systemd marks a group with that it has given away: by its manager of the machine, by that of a user.
const GIVEN_AWAY: [&str; 2] = ["trusted.delegate", "user.delegate"];

/// The group below which this process has its own.
pub(super) fn base(own: Own) -> Own {
    match own.directory.parent() {
        Some(above) if own.directory.ends_with(LEAF) => {
            Own { directory: above.to_owned(), is_top: false }
        }
        _ => own,
    }
}

/// Lets groups below `place`, which lies in `base`, have `controller`.
pub(super) fn hand_down(base: &Own, place: &Path, controller: &str) -> io::Result<()> {
    let directory = &base.directory;
    if !words(&directory.join("cgroup.controllers"))?.iter().any(|word| word == controller) {
        let text = format!("{} has no controller {controller}", directory.display());
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    make_room(base)?;
    let told = |directory: &Path, error: &io::Error| {
        let text = format!("{} does not hand down {controller}: {error}", directory.display());
        io::Error::new(error.kind(), text)
    };
    enable(directory, controller).map_err(|error| told(directory, &error))?;
    enable(place, controller).map_err(|error| told(place, &error))
}

fn enable(directory: &Path, controller: &str) -> io::Result<()> {
    let shared = directory.join("cgroup.subtree_control");
    if words(&shared)?.iter().any(|word| word == controller) {
        return Ok(());
    }
    put(&shared, &format!("+{controller}"))
}

/// Moves the processes in `base` out of the way, all or none. Not every controller is refused while there are some: with those that know threads, the kernel would take
/// the groups below for groups of threads instead, which no process can enter.
fn make_room(base: &Own) -> io::Result<()> {
    let directory = &base.directory;
    // The machine's own top may have processes, and has no type.
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
                // It has ended.
                Err(error) if is(&error, Errno::SRCH) => {}
                moved => moved?,
            }
        }
    }
    let text = format!("there are ever new processes in {}", directory.display());
    Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
}

/// A process that is not to be moved.
fn stranger(base: &Own, members: &BTreeSet<u32>) -> Option<u32> {
    // Whom this process cannot see has no number here.
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

/// Whose a process is and what it runs; `None` if it is gone.
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

/// True if groups in `directory` have `controller`: now, or made so at the machine's top.
#[cfg(test)]
pub(super) fn hands_down(directory: &Path, controller: &str) -> bool {
    let is_done = words(&directory.join("cgroup.subtree_control"))
        .is_ok_and(|shared| shared.iter().any(|word| word == controller));
    let is_top = matches!(directory.join("cgroup.type").try_exists(), Ok(false));
    is_done || (is_top && enable(directory, controller).is_ok())
}

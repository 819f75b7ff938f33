//! The files that a confined process can reach, and the processes that it can signal (landlock).
//!
//! Invariant: the places are opened by who builds the sandbox, with its rights, so what is confined needs none of them.

#![allow(unsafe_code, reason = "a call that no library has by itself; the proof is at the call")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::place::{Access, AllowedPath};
use super::powers::on_a_thread;

/// The rights that are handled: those of the newest kernel tested. Older ones know fewer.
const RIGHTS: ABI = ABI::V6;
/// The oldest landlock version in use: earlier ones cannot allow renames between directories.
const RIGHTS_MIN: ABI = ABI::V2;
/// The first landlock that keeps signals inside.
const SIGNALS_MIN: ABI = ABI::V6;

/// Whether this kernel limits access to files, and signals, found by trying it on a thread.
pub(super) fn support() -> (bool, bool) {
    let status =
        on_a_thread(|| Ok(ruleset(&[])?.restrict_self().map_err(io::Error::other)?.landlock));
    let abi = match status {
        Ok(LandlockStatus::Available { effective_abi, .. }) => effective_abi,
        _ => ABI::Unsupported,
    };
    (abi >= RIGHTS_MIN, abi >= SIGNALS_MIN)
}

/// The rules that leave these places open. Places that do not exist are left out.
pub(super) fn rules(places: &[AllowedPath]) -> io::Result<OwnedFd> {
    let rules: Option<OwnedFd> = ruleset(places)?.into();
    rules.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

fn ruleset(places: &[AllowedPath]) -> io::Result<RulesetCreated> {
    let all = AccessFs::from_all(RIGHTS);
    let ruleset = Ruleset::default().handle_access(all).map_err(io::Error::other)?;
    let ruleset = ruleset.scope(Scope::Signal).map_err(io::Error::other)?;
    let mut ruleset = ruleset.create().map_err(io::Error::other)?;
    for place in places {
        let Ok(metadata) = place.path.metadata() else { continue };
        let rights = match metadata.is_dir() {
            true => rights(place.access),
            false => rights(place.access) & AccessFs::from_file(RIGHTS),
        };
        let opened = PathFd::new(&place.path).map_err(io::Error::other)?;
        ruleset = ruleset.add_rule(PathBeneath::new(opened, rights)).map_err(io::Error::other)?;
    }
    Ok(ruleset)
}

fn rights(access: Access) -> BitFlags<AccessFs> {
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
    match access {
        Access::Read => AccessFs::from_read(RIGHTS),
        Access::Use => {
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
        }
        Access::Change => AccessFs::from_all(RIGHTS) & !devices,
    }
}

/// Confines this thread and all its descendants by `rules`. It may gain no new privileges already.
pub(super) fn hold(rules: &OwnedFd) -> io::Result<()> {
    // SAFETY: the call takes two numbers and touches no memory of this process.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

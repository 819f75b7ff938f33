//! Bounds on what a task and all that came of it may take together, which the kernel holds at every fork and every page, and an end for all of them: control groups.
//!
//! | | forks | memory | end |
//! |---|---|---|---|
//! | version 2, controllers handed down (`share`) | `pids.max` | `memory.max` | `cgroup.kill`, before Linux 5.14 frozen and killed |
//! | version 1, `pids` | `pids.max` | | no forks, and killed |
//! | version 2 without controllers | | | as above |
//!
//! The first of these that this process may use is taken; where none is, whoever asked has to look for processes by other means.
//!
//! Invariants: what is started in a group is in it before its first instruction; a group that is emptied takes no new process from the first look on, so that a task
//! that forks faster than it is killed ends too; all of it lies below the group that this process was put into, so that bounds on that hold for tasks as well.

mod enter;
mod files;
mod place;
mod share;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use self::files::{make, members_of, open, put};
use crate::sandbox::User;

pub use self::place::Version;

/// Rounds of killing what is in a group; each finds only what was there, as nothing is added.
const ROUNDS_MAX: u32 = 200;
/// Time for killed processes to go.
const ROUND_PAUSE: Duration = Duration::from_millis(10);
/// The group with which a place is tried.
const PROBE: &str = "probe";
/// Of version 2, by their names in the kernel.
const FORKS: &str = "pids";
const MEMORY: &str = "memory";

/// What groups bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Support {
    /// Their version.
    pub version: Version,
    /// The number of processes and threads; else why not.
    pub forks: Result<(), String>,
    /// Memory of every kind, that of sockets and pipes too; else why not.
    pub memory: Result<(), String>,
}

/// Bounds of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// Processes and threads.
    pub threads: Option<u64>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
}

/// A place for groups, of one daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Groups {
    directory: PathBuf,
    support: Support,
}

impl Groups {
    /// The place called `name` below the group of this process, empty: what is left there of an earlier daemon is ended and removed. Processes can be started there
    /// as `user`.
    ///
    /// # Errors
    /// Why there are none: of each version what it lacks, or what the system says.
    pub fn open(name: &str, user: Option<User>) -> io::Result<Groups> {
        let second = Groups::open_second(name, user);
        if second.as_ref().is_ok_and(|groups| groups.support.forks.is_ok()) {
            return second;
        }
        match (Groups::open_first(name, user), second) {
            (Ok(first), second) => {
                // An empty place that stays harms nobody, and the next daemon takes it.
                let _ = second.map(|second| second.clear());
                Ok(first)
            }
            (Err(_), Ok(second)) => Ok(second),
            (Err(first), Err(second)) => {
                let text = format!("version 2: {second}; version 1: {first}");
                Err(io::Error::new(second.kind(), text))
            }
        }
    }

    fn open_first(name: &str, user: Option<User>) -> io::Result<Groups> {
        let memory = Err("cgroups of version 1".to_owned());
        let support = Support { version: Version::First, forks: Ok(()), memory };
        let directory = place::own(Version::First)?.directory.join(name);
        let groups = Groups { directory, support };
        groups.begin()?;
        groups.probe(user)
    }

    fn open_second(name: &str, user: Option<User>) -> io::Result<Groups> {
        let base = share::base(place::own(Version::Second)?);
        let directory = base.directory.join(name);
        let support = Support { version: Version::Second, forks: Ok(()), memory: Ok(()) };
        let mut groups = Groups { directory, support };
        groups.begin()?;
        let handed = |controller| {
            share::hand_down(&base, &groups.directory, controller).map_err(|e| e.to_string())
        };
        (groups.support.forks, groups.support.memory) = (handed(FORKS), handed(MEMORY));
        groups.probe(user)
    }

    fn begin(&self) -> io::Result<()> {
        self.clear()?;
        make(&self.directory)
    }

    /// Itself, if groups here can be entered; else nothing is left of it.
    fn probe(self, user: Option<User>) -> io::Result<Groups> {
        let tried = self.enter_one(user);
        match tried {
            Ok(()) => Ok(self),
            Err(error) => {
                // Who comes next clears it.
                let _ = self.clear();
                Err(error)
            }
        }
    }

    fn enter_one(&self, user: Option<User>) -> io::Result<()> {
        let group = self.group(PROBE, &Bounds { threads: Some(1), memory_bytes: None })?;
        let mut command = Command::new(group.directory.join("nothing"));
        group.enter(&mut command)?;
        let tried = match user {
            Some(user) => user.act(|| command.spawn()),
            None => command.spawn(),
        };
        match tried {
            // It got as far as its program, which there is none of.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(io::Error::other("a group runs what is not there")),
        }
    }

    /// What groups here bound.
    pub fn support(&self) -> &Support {
        &self.support
    }

    /// A group with those of the `bounds` that are supported here. One of that name that was dropped and could not be removed, as what was in it was
    /// still on its way out, is taken again.
    ///
    /// # Errors
    /// What the system says.
    pub fn group(&self, name: &str, bounds: &Bounds) -> io::Result<Group> {
        let directory = self.directory.join(name);
        make(&directory)?;
        let version = self.support.version;
        let group = Group { directory, version };
        if version == Version::Second {
            // Nobody in there makes groups of its own, of whatever user.
            put(&group.directory.join("cgroup.max.descendants"), "0")?;
            group.freeze(false)?;
        }
        if self.support.forks.is_ok()
            && let Some(threads) = bounds.threads
        {
            put(&group.directory.join("pids.max"), &threads.to_string())?;
        }
        if self.support.memory.is_ok()
            && let Some(bytes) = bounds.memory_bytes
        {
            put(&group.directory.join("memory.max"), &bytes.to_string())?;
            // A task without some of its processes might go on and be wrong.
            put(&group.directory.join("memory.oom.group"), "1")?;
        }
        Ok(group)
    }

    /// Ends and removes everything here, the place too.
    ///
    /// # Errors
    /// What the system says.
    pub fn clear(&self) -> io::Result<()> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                let group = Group { directory: entry.path(), version: self.support.version };
                group.end()?;
            }
        }
        fs::remove_dir(&self.directory)
    }
}

/// A bounded set of processes with all that come from them. Removed when it is dropped, if it is empty.
#[derive(PartialEq, Eq, Debug)]
pub struct Group {
    directory: PathBuf,
    version: Version,
}

impl Group {
    /// Lets `command` start a process in this group.
    pub(crate) fn enter(&self, command: &mut Command) -> io::Result<()> {
        enter::enter(command, self.door()?);
        Ok(())
    }

    /// Whoever writes `0` here is in the group from then on, by the rights of who opened it.
    fn door(&self) -> io::Result<File> {
        let name = match self.version {
            // For one thread, which spares the kernel to stop all forks of the machine meanwhile.
            Version::First => "tasks",
            Version::Second => "cgroup.procs",
        };
        open(&self.directory.join(name))
    }

    /// Ends everything in the group. True if nothing was left at the last look.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(&self) -> io::Result<bool> {
        match self.version {
            Version::First => {
                put(&self.directory.join("pids.max"), "0")?;
                self.end_by_rounds()
            }
            Version::Second => match put(&self.directory.join("cgroup.kill"), "1") {
                // Kernels before 5.14.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.freeze(true)?;
                    self.end_by_rounds()
                }
                Err(error) => Err(error),
                Ok(()) => self.until_empty(),
            },
        }
    }

    /// What is frozen does not fork, and can be killed.
    fn freeze(&self, is_frozen: bool) -> io::Result<()> {
        let state = if is_frozen { "1" } else { "0" };
        match put(&self.directory.join("cgroup.freeze"), state) {
            // Kernels before 5.2, where it ends as far as rounds end it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn until_empty(&self) -> io::Result<bool> {
        for _ in 0..ROUNDS_MAX {
            if self.count("cgroup.events", "populated")? == 0 {
                return Ok(true);
            }
            std::thread::sleep(ROUND_PAUSE);
        }
        Ok(false)
    }

    fn end_by_rounds(&self) -> io::Result<bool> {
        for _ in 0..ROUNDS_MAX {
            let members = self.members()?;
            if members.is_empty() {
                return Ok(true);
            }
            let mut opened = Vec::new();
            for pid in members {
                let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { continue };
                match pidfd_open(id, PidfdFlags::empty()) {
                    Ok(process) => opened.push((pid, process)),
                    Err(Errno::SRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            // An id in the group now was in it when it was opened, as none joins: it is not another's that has the id of one that is gone.
            let still = self.members()?;
            for (_, process) in opened.iter().filter(|(pid, _)| still.contains(pid)) {
                match pidfd_send_signal(process, Signal::KILL) {
                    Ok(()) | Err(Errno::SRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            std::thread::sleep(ROUND_PAUSE);
        }
        Ok(false)
    }

    /// The processes in it.
    ///
    /// # Errors
    /// What the system says.
    pub fn members(&self) -> io::Result<BTreeSet<u32>> {
        members_of(&self.directory)
    }

    /// True if the kernel has ended processes in it for its bound of memory.
    ///
    /// # Errors
    /// What the system says.
    pub fn was_ended_for_memory(&self) -> io::Result<bool> {
        match self.count("memory.events", "oom_kill") {
            // It has no such bound.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            count => Ok(count? > 0),
        }
    }

    /// A number that the kernel tells by a name.
    fn count(&self, file: &str, name: &str) -> io::Result<u64> {
        let text = fs::read_to_string(self.directory.join(file))?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{file}: {text}")))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // One that is not empty stays; the next daemon clears it.
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests;

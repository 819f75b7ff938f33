//! Control groups: limits on what a task and all its descendants may use together, which the kernel enforces at every fork and every page, and a way to end
//! them all.
//!
//! | | forks | memory | end |
//! |---|---|---|---|
//! | version 2, controllers handed down (`share`) | `pids.max` | `memory.max` | `cgroup.kill`, before Linux 5.14 frozen and killed |
//! | version 1, `pids` | `pids.max` | | no forks, and killed |
//! | version 2 without controllers | | | as above |
//!
//! The first of these that this process may use is used; where there is none, the caller must find processes by other means.
//!
//! Invariants: a process started in a group is in it before its first instruction. A group that is being emptied accepts no new process from the first listing
//! on, so even a task that forks faster than it is killed ends. All groups are below the group that this process was put into, so the limits of that group hold
//! for tasks as well.

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

/// Rounds of killing the processes in a group; each finds only those left over, as none are added.
const ROUNDS_MAX: u32 = 200;
/// Time for killed processes to go.
const ROUND_PAUSE: Duration = Duration::from_millis(10);
/// The group for trying a place.
const PROBE: &str = "probe";
/// Controllers of version 2, by their names in the kernel.
const FORKS: &str = "pids";
const MEMORY: &str = "memory";

/// What groups can limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Support {
    /// Their version.
    pub version: Version,
    /// The number of processes and threads, or the reason why not.
    pub forks: Result<(), String>,
    /// Memory of every kind, including that of sockets and pipes, or the reason why not.
    pub memory: Result<(), String>,
}

/// Limits of a group.
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
    /// The place called `name` below the group of this process, empty: the remains of an earlier daemon are ended and removed. Processes can be started there
    /// as `user`.
    ///
    /// Why there are no groups: for each version, what it lacks, or the system's error.
    /// Why there are none: of each version what it lacks, or what the system says.
    pub fn open(name: &str, user: Option<User>) -> io::Result<Groups> {
        let second = Groups::open_second(name, user);
        if second.as_ref().is_ok_and(|groups| groups.support.forks.is_ok()) {
            return second;
        }
        match (Groups::open_first(name, user), second) {
            (Ok(first), second) => {
                // An empty place that stays does no harm, and the next daemon uses it.
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

    /// Returns itself if groups here can be entered; otherwise removes everything.
    fn probe(self, user: Option<User>) -> io::Result<Groups> {
        let tried = self.enter_one(user);
        match tried {
            Ok(()) => Ok(self),
            Err(error) => {
                // The next daemon clears it.
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
            // The process got as far as its program, which does not exist.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(io::Error::other("a group runs what is not there")),
        }
    }

    /// What groups here can limit.
    pub fn support(&self) -> &Support {
        &self.support
    }

    /// A group with those of the `bounds` that are supported here. If a dropped group of that name could not be removed, because its processes were still
    /// ending, it is reused.
    ///
    /// # Errors
    /// The system's error.
    pub fn group(&self, name: &str, bounds: &Bounds) -> io::Result<Group> {
        let directory = self.directory.join(name);
        make(&directory)?;
        let version = self.support.version;
        let group = Group { directory, version };
        if version == Version::Second {
            // Nobody in there, of whatever user, can make groups of its own.
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
            // A task without some of its processes might continue with wrong results.
            put(&group.directory.join("memory.oom.group"), "1")?;
        }
        Ok(group)
    }

    /// Ends and removes everything here, including the place itself.
    ///
    /// # Errors
    /// The system's error.
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

/// A limited set of processes with all their descendants. Dropping this removes the group, if it is empty.
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

    /// A file for entering: whoever writes `0` to it is in the group from then on, by the rights of whoever opened it.
    fn door(&self) -> io::Result<File> {
        let name = match self.version {
            // Moves one thread only: then the kernel need not stop all forks of the machine meanwhile.
            Version::First => "tasks",
            Version::Second => "cgroup.procs",
        };
        open(&self.directory.join(name))
    }

    /// Ends everything in the group. True if the last listing found nothing.
    ///
    /// # Errors
    /// The system's error.
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

    /// Frozen processes do not fork, and can be killed.
    fn freeze(&self, is_frozen: bool) -> io::Result<()> {
        let state = if is_frozen { "1" } else { "0" };
        match put(&self.directory.join("cgroup.freeze"), state) {
            // Kernels before 5.2: there, the rounds alone must end it.
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
            // An id in the group now was in it when it was opened, as no process joins: so it has not been reused from one that is gone.
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
    /// The system's error.
    pub fn members(&self) -> io::Result<BTreeSet<u32>> {
        members_of(&self.directory)
    }

    /// True if the kernel has ended processes in it because of its memory limit.
    ///
    /// # Errors
    /// The system's error.
    pub fn was_ended_for_memory(&self) -> io::Result<bool> {
        match self.count("memory.events", "oom_kill") {
            // It has no memory limit.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            count => Ok(count? > 0),
        }
    }

    /// A number from one of the kernel's files, by its name there.
    fn count(&self, file: &str, name: &str) -> io::Result<u64> {
        let text = fs::read_to_string(self.directory.join(file))?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{file}: {text}")))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that is not empty stays; the next daemon clears it.
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests;

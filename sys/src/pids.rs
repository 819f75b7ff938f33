//! A bound on the number of processes and threads of a task that the kernel holds at every fork, and an end for all of them: a group of the
//! `pids` hierarchy of version 1 cgroups.
//!
//! Invariant: a group that is emptied takes no new process from the first look on, so that a task that forks faster than it is killed ends too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Rounds of killing what is in a group; each finds only what was there, as nothing is added.
const ROUNDS_MAX: u32 = 200;
/// Time for killed processes to go.
const ROUND_PAUSE: Duration = Duration::from_millis(10);

/// A place for groups, of one daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Groups {
    directory: PathBuf,
}

impl Groups {
    /// The place called `name` below the group of this process, empty: what is left there of an earlier daemon is ended and removed.
    ///
    /// # Errors
    /// `Unsupported` where there is no such hierarchy; else what the system says, such as that it may not be changed.
    pub fn open(name: &str) -> io::Result<Groups> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let parent = place(&mounts, &own).ok_or(io::ErrorKind::Unsupported)?;
        let groups = Groups { directory: parent.join(name) };
        groups.clear()?;
        match fs::create_dir(&groups.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // A group that cannot hold is of no use.
        let probe = groups.group("probe", 1)?;
        drop(probe);
        Ok(groups)
    }

    /// A group of at most `limit` processes and threads. One of that name that was dropped and could not be removed, as what was in it was
    /// still on its way out, is taken again.
    ///
    /// # Errors
    /// What the system says.
    pub fn group(&self, name: &str, limit: u64) -> io::Result<Group> {
        let directory = self.directory.join(name);
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let group = Group { directory };
        fs::write(group.directory.join("pids.max"), limit.to_string())?;
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
                Group { directory: entry.path() }.end()?;
            }
        }
        fs::remove_dir(&self.directory)
    }
}

/// A bounded set of processes with all that come from them. Removed when it is dropped, if it is empty.
#[derive(PartialEq, Eq, Debug)]
pub struct Group {
    directory: PathBuf,
}

impl Group {
    /// Puts the calling thread in; a process that it starts is in from its first moment.
    ///
    /// # Errors
    /// What the system says.
    pub fn enter(&self) -> io::Result<()> {
        fs::write(self.directory.join("tasks"), "0")
    }

    /// Ends everything in the group. True if nothing was left at the last look.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(&self) -> io::Result<bool> {
        fs::write(self.directory.join("pids.max"), "0")?;
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
        let members = fs::read_to_string(self.directory.join("cgroup.procs"))?;
        Ok(members.lines().filter_map(|line| line.parse().ok()).collect())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // One that is not empty stays; the next daemon clears it.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Where the group of this process lies, by `/proc/self/mountinfo` and `/proc/self/cgroup`.
fn place(mounts: &str, own: &str) -> Option<PathBuf> {
    let own = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let is_pids = fields.next()?.split(',').any(|name| name == "pids");
        fields.next().filter(|_| is_pids)
    })?;
    mounts.lines().find_map(|line| {
        // id parent device ROOT POINT options … - type source OPTIONS
        let (before, after) = line.split_once(" - ")?;
        let (mut before, mut after) = (before.split(' ').skip(3), after.split(' '));
        let (root, point) = (before.next()?, before.next()?);
        let is_pids =
            after.next()? == "cgroup" && after.nth(1)?.split(',').any(|option| option == "pids");
        let below = Path::new(own).strip_prefix(root).ok().filter(|_| is_pids)?;
        Some(Path::new(point).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_place_is_found_in_what_the_kernel_tells() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n\
                      31 30 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                      32 30 0:28 /docker/x /sys/fs/cgroup/pids rw - cgroup cgroup rw,foo,pids\n\
                      33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        for (own, found) in [
            ("9:memory:/a\n8:pids:/docker/x\n0::/u\n", Some("/sys/fs/cgroup/pids/")),
            ("8:foo,pids:/docker/x/y:z\n", Some("/sys/fs/cgroup/pids/y:z")),
            ("8:pids:/elsewhere\n", None),
            ("9:memory:/a\n0::/u\n", None),
            ("", None),
        ] {
            assert_eq!(place(mounts, own), found.map(PathBuf::from), "{own}");
        }
        assert_eq!(place("", "8:pids:/docker/x"), None);
    }

    /// Its children leave the process group and the session, drop their environment and fork on.
    #[test]
    fn a_task_that_forks_for_ever_meets_the_bound_and_is_ended_whole() {
        let groups = match Groups::open(&format!("hanno-test-{}", std::process::id())) {
            Ok(groups) => groups,
            Err(error) => {
                eprintln!("not tested, there are no groups here: {error}");
                return;
            }
        };
        const LIMIT: u64 = 60;
        let group = groups.group("task", LIMIT).unwrap();
        let script = "b() { b & b & }; (exec 2>/dev/null; while :; do setsid -f env -i sleep 1000; b; done) & wait";
        let mut child = std::thread::scope(|scope| {
            let start = || {
                group.enter().unwrap();
                let mut command = Command::new("sh");
                command.args(["-c", script]).stderr(Stdio::null()).spawn().unwrap()
            };
            scope.spawn(start).join().unwrap()
        });
        let read = |name: &str| fs::read_to_string(group.directory.join(name)).unwrap();
        let number = |text: String| text.trim().parse::<u64>().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while !read("pids.events").lines().any(|line| line.starts_with("max ") && line != "max 0") {
            assert!(std::time::Instant::now() < deadline, "it never met its bound");
            assert!(number(read("pids.current")) <= LIMIT);
            std::thread::sleep(ROUND_PAUSE);
        }
        // The child's zombie is looked at by this process only.
        let ended = std::thread::scope(|scope| {
            let ending = scope.spawn(|| group.end().unwrap());
            child.wait().unwrap();
            ending.join().unwrap()
        });
        assert!(ended);
        assert_eq!(read("cgroup.procs"), "");
        drop(group);
        groups.clear().unwrap();
        assert!(!groups.directory.is_dir());
    }

    #[test]
    fn a_group_that_could_not_be_removed_is_taken_again() {
        let name = format!("hanno-test-again-{}", std::process::id());
        let Ok(groups) = Groups::open(&name) else { return };
        let mut child = std::thread::scope(|scope| {
            let start = || {
                let group = groups.group("task", 10).unwrap();
                group.enter().unwrap();
                Command::new("sleep").arg("1000").spawn().unwrap()
            };
            scope.spawn(start).join().unwrap()
        });
        let again = groups.group("task", 7).unwrap();
        assert_eq!(fs::read_to_string(again.directory.join("pids.max")).unwrap(), "7\n");
        assert!(again.members().unwrap().contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        drop(again);
        groups.clear().unwrap();
    }

    #[test]
    fn what_an_earlier_daemon_left_is_ended() {
        let name = format!("hanno-test-left-{}", std::process::id());
        let Ok(groups) = Groups::open(&name) else { return };
        let group = groups.group("task", 10).unwrap();
        let mut child = std::thread::scope(|scope| {
            let start = || {
                group.enter().unwrap();
                Command::new("sleep").arg("1000").spawn().unwrap()
            };
            scope.spawn(start).join().unwrap()
        });
        let waiting = std::thread::spawn(move || child.wait().unwrap());
        let again = Groups::open(&name).unwrap();
        assert!(!waiting.join().unwrap().success());
        again.clear().unwrap();
    }
}

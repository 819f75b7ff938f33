//! User ids that belong to nobody: numbers without a name. Every set of processes that must not touch another's gets one.
//!
//! Invariants: a process of such a user has no groups but the one of the same number, no capabilities, and no way back. A [`User`] is never root, nor the
//! number that means "nobody in particular", so ending all processes of one can never end the machine's.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Signal, Uid};
use rustix::thread::{CapabilitySet, capabilities};

use super::powers::{drop_bounding_set, drop_capabilities, on_a_thread};
use crate::family::PROC;

/// The capabilities needed to run processes as others, to give them files, and to measure, end and remove all of it afterwards.
const NEEDED: [(CapabilitySet, &str); 7] = [
    (CapabilitySet::SETUID, "CAP_SETUID"),
    (CapabilitySet::SETGID, "CAP_SETGID"),
    (CapabilitySet::CHOWN, "CAP_CHOWN"),
    (CapabilitySet::FOWNER, "CAP_FOWNER"),
    (CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
    (CapabilitySet::KILL, "CAP_KILL"),
    (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE"),
];
/// Files that assign numbers to users, groups and containers' users. For each: the file, the index of the colon-separated field with the first number, and
/// whether the next field is a count.
const GIVEN: [(&str, usize, bool); 4] = [
    ("/etc/passwd", 2, false),
    ("/etc/group", 2, false),
    ("/etc/subuid", 1, true),
    ("/etc/subgid", 1, true),
];
/// Rounds of ending all processes of a user: one is enough, unless a kernel ends only those that it has seen so far.
const ENDINGS_MAX: u32 = 3;

/// A user id that belongs to nobody: a number without a name, and the group of the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct User(u32);

impl User {
    /// `None` for root, and for the number by which calls mean "no change".
    pub fn new(number: u32) -> Option<User> {
        (number != 0 && number != u32::MAX).then_some(User(number))
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn ids(self) -> (Uid, Gid) {
        (Uid::from_raw(self.0), Gid::from_raw(self.0))
    }

    /// Calls `act` on a thread that acts as this user.
    ///
    /// # Errors
    /// If this process may not become that user, or `act` fails.
    pub fn act<T: Send>(self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_a_thread(|| {
            self.become_for_good()?;
            act()
        })
    }

    /// From now on this thread acts as this user, for good, in no group but that user's own, without capabilities.
    pub(super) fn become_for_good(self) -> io::Result<()> {
        let (user, group) = self.ids();
        // The user that it becomes may not drop anything from this set.
        drop_bounding_set()?;
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)?;
        drop_capabilities()
    }

    /// Ends all processes of this user, wherever they are, in a single call, so none can escape by forking.
    ///
    /// # Errors
    /// The system's error.
    pub fn end_all(self) -> io::Result<()> {
        self.act(|| {
            for _ in 0..ENDINGS_MAX {
                // A kill of the group of the first process reaches all processes that the caller may signal, which are this user's; this very process is
                // spared.
                match rustix::process::kill_process_group(Pid::INIT, Signal::KILL) {
                    Ok(()) => {}
                    Err(Errno::SRCH) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        })
    }
}

/// Checks that this process can run others as `user`, and that the user can pass through these directories.
///
/// # Errors
/// The reason; [`io::ErrorKind::PermissionDenied`] names the missing capability, or the closed directory.
pub fn try_user(user: User, directories: &[&Path]) -> io::Result<()> {
    let denied = |text: String| io::Error::new(io::ErrorKind::PermissionDenied, text);
    if !rustix::process::geteuid().is_root() {
        return Err(denied("it does not run as root".to_owned()));
    }
    let held = capabilities(None)?.effective;
    let lacking = NEEDED.iter().filter(|(needed, _)| !held.contains(*needed));
    let lacking: Vec<&str> = lacking.map(|(_, name)| *name).collect();
    if !lacking.is_empty() {
        return Err(denied(format!("it has no {}", lacking.join(", "))));
    }
    let closed = user.act(|| Ok(directories.iter().find_map(|path| closed_part(path))));
    let closed = closed.map_err(|error| {
        denied(format!("this machine or container has no user {}: {error}", user.number()))
    })?;
    match closed {
        None => Ok(()),
        Some(path) => Err(denied(format!("{} is closed to other users", path.display()))),
    }
}

/// Those of `directories` that a user may pass through.
///
/// # Errors
/// If this process may not become that user.
pub fn open_to(user: User, directories: Vec<PathBuf>) -> io::Result<Vec<PathBuf>> {
    user.act(|| Ok(directories.into_iter().filter(|path| closed_part(path).is_none()).collect()))
}

/// The first directory on the path, itself included, that this user may not pass through.
fn closed_part(path: &Path) -> Option<PathBuf> {
    let mut parts: Vec<&Path> = path.ancestors().collect();
    parts.reverse();
    let is_closed = |part: &&Path| rustix::fs::access(*part, Access::EXEC_OK).is_err();
    parts.into_iter().find(is_closed).map(Path::to_owned)
}

/// Numbers of `range` in use: by users, groups, containers, or processes that run now. Users that only a directory service knows are not included.
///
/// # Errors
/// If the files that assign numbers, or the processes, cannot be read.
pub fn numbers_in_use(range: &RangeInclusive<u32>) -> io::Result<Vec<RangeInclusive<u32>>> {
    let mut used = Vec::new();
    for (file, field, is_counted) in GIVEN {
        let text = match fs::read(file) {
            // On a machine without the file, it assigns no numbers.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text?,
        };
        // People's names in it may not be UTF-8.
        let text = String::from_utf8_lossy(&text);
        used.extend(text.lines().filter_map(|line| given(line, field, is_counted)));
    }
    for entry in fs::read_dir(PROC)? {
        let path = entry?.path();
        if path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()).is_none() {
            continue;
        }
        // The process may be gone, and the name in it may not be UTF-8.
        let status = fs::read(path.join("status")).unwrap_or_default();
        used.extend(numbers_of(&String::from_utf8_lossy(&status)).map(|number| number..=number));
    }
    used.retain(|used| used.start() <= range.end() && used.end() >= range.start());
    Ok(used)
}

fn given(line: &str, field: usize, is_counted: bool) -> Option<RangeInclusive<u32>> {
    let mut fields = line.split(':').skip(field);
    let first: u32 = fields.next()?.parse().ok()?;
    let count: u32 = if is_counted { fields.next()?.trim().parse().ok()? } else { 1 };
    (count > 0).then(|| first..=first.saturating_add(count - 1))
}

/// The users and groups that a process acts as, by its `/proc/PID/status`.
fn numbers_of(status: &str) -> impl Iterator<Item = u32> {
    let lines = status.lines().filter_map(|line| {
        line.strip_prefix("Uid:").or(line.strip_prefix("Gid:")).or(line.strip_prefix("Groups:"))
    });
    lines.flat_map(str::split_whitespace).filter_map(|number| number.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    /// One of the unassigned numbers that the tests of this crate use.
    fn user(number: u32) -> User {
        User::new(1_900_000_000 + number).unwrap()
    }

    fn is_possible() -> bool {
        let possible = try_user(user(0), &[]);
        if let Err(error) = &possible {
            needs::lacks(needs::Need::Users, error);
        }
        possible.is_ok()
    }

    fn sleeper(user: User) -> Child {
        user.act(|| Command::new("sleep").arg("1000").spawn()).unwrap()
    }

    #[test]
    fn root_and_nobody_in_particular_are_no_such_users() {
        assert_eq!((User::new(0), User::new(u32::MAX)), (None, None));
    }

    #[test]
    fn a_process_of_a_user_has_that_users_number_and_nothing_else() {
        if !is_possible() {
            return;
        }
        let output = user(1).act(|| Command::new("cat").arg("/proc/self/status").output()).unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let number = user(1).number().to_string();
        assert_eq!(field("Uid:"), vec![number.clone(); 4]);
        assert_eq!(field("Gid:"), vec![number; 4]);
        assert_eq!(field("Groups:"), Vec::<String>::new());
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(u64::from_str_radix(&field(set)[0], 16), Ok(0), "{set}");
        }
        assert_eq!(rustix::process::geteuid().as_raw(), 0, "this process is who it was");
    }

    #[test]
    fn all_processes_of_a_user_end_and_nobody_elses() {
        if !is_possible() {
            return;
        }
        let mut own = [sleeper(user(2)), sleeper(user(2))];
        let mut other = sleeper(user(3));
        user(2).end_all().unwrap();
        for child in &mut own {
            assert!(!child.wait().unwrap().success());
        }
        assert!(other.try_wait().unwrap().is_none());
        // With no process left, there is nothing to do.
        user(2).end_all().unwrap();
        user(3).end_all().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_directory_that_is_closed_is_named() {
        if !is_possible() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("below");
        fs::create_dir(&below).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let closed = try_user(user(4), &[&below]).unwrap_err().to_string();
        assert_eq!(closed, format!("{} is closed to other users", directory.path().display()));
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o711)).unwrap();
        try_user(user(4), &[&below]).unwrap();
        let closed = directory.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let missing = directory.path().join("missing");
        let open = open_to(user(4), vec![closed, below.clone(), missing]).unwrap();
        assert_eq!(open, std::slice::from_ref(&below));
        assert_eq!(below.metadata().unwrap().uid(), 0);
    }

    #[test]
    fn numbers_of_processes_and_of_containers_are_in_use() {
        assert_eq!(given("ann:x:1000:1000::/:/bin/sh", 2, false), Some(1000..=1000));
        assert_eq!(given("ann:100000:65536", 1, true), Some(100_000..=165_535));
        for broken in ["", "ann", "ann:x", "ann:-1:2", "ann:1:0", "ann:1:x"] {
            assert_eq!(given(broken, 1, true), None, "{broken}");
        }
        if !is_possible() {
            return;
        }
        let mut child = sleeper(user(5));
        let number = user(5).number();
        let used = numbers_in_use(&(number - 1..=number + 1)).unwrap();
        assert!(used.contains(&(number..=number)), "{used:?}");
        user(5).end_all().unwrap();
        child.wait().unwrap();
        assert_eq!(numbers_in_use(&(number..=number)).unwrap(), []);
        // A process that hides behind a name that is not UTF-8.
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let program = directory.path().join(OsStr::from_bytes(b"\xff\xfe"));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let hides = || Command::new(&program).arg0("sleep").arg("1000").spawn();
        let mut child = user(5).act(hides).unwrap();
        let used = numbers_in_use(&(number..=number)).unwrap();
        assert!(used.contains(&(number..=number)), "{used:?}");
        user(5).end_all().unwrap();
        child.wait().unwrap();
    }
}

//! Keeps a process that is about to start, and all its descendants, away from what is not theirs: files (landlock), processes outside (landlock), calls that no
//! ordinary program makes (seccomp), root's powers (capabilities), and new ones (`no_new_privs`). Its temporary files are its own (mounts).
//!
//! Invariants: the new process confines itself before it becomes a program, so nothing of this one is confined; what the kernel lacks is left out and reported by
//! [`support`], never pretended; nothing inside can leave or widen the sandbox.

#![allow(unsafe_code, reason = "what runs between fork and exec; the proof is at the call")]

mod calls;
mod files;
mod place;
mod powers;
mod public;
mod temporary;
mod user;

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use self::powers::{drop_bounding_set, drop_capabilities, on_a_thread};
use self::temporary::{Own, Way};

pub use place::{Access, AllowedPath};
pub use public::public_places;
pub use user::{User, numbers_in_use, open_to, try_user};

/// The limits inside the sandbox besides the refused calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Walls {
    /// Everything that processes inside can reach.
    pub places: Vec<AllowedPath>,
    /// The user they run as; `None`: that of the process that starts them.
    pub user: Option<User>,
    /// Their directory in place of those for temporary files that all processes of a machine share. `None`: there they reach what `places` say.
    pub temporary: Option<PathBuf>,
}

/// The abilities of this kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Support {
    /// Access to files can be limited.
    pub files: bool,
    /// Signals to processes outside can be refused.
    pub signals: bool,
    /// Calls can be refused.
    pub calls: bool,
}

/// The abilities of this kernel, found by trying them on a thread.
pub fn support() -> Support {
    static SUPPORT: OnceLock<Support> = OnceLock::new();
    *SUPPORT.get_or_init(|| {
        let (files, signals) = files::support();
        Support { files, signals, calls: on_a_thread(|| calls::refuse(calls::programs()?)).is_ok() }
    })
}

/// Whether processes of `user` can have temporary directories of their own; tried with a directory of this process.
///
/// # Errors
/// Why not.
pub fn try_temporary(user: Option<User>, directory: &Path) -> io::Result<()> {
    way(user, directory).map(drop)
}

fn way(user: Option<User>, directory: &Path) -> io::Result<Way> {
    static WAY: OnceLock<Result<Way, String>> = OnceLock::new();
    let way = WAY.get_or_init(|| temporary::support(directory).map_err(|error| error.to_string()));
    match way {
        // There is no other user in a namespace of users that this process may make.
        Ok(Way::UserAndMounts) if user.is_some() => Err(io::ErrorKind::PermissionDenied.into()),
        Ok(way) => Ok(*way),
        Err(text) => Err(io::Error::other(text.as_str())),
    }
}

/// Lets `command` start a process that is confined by `walls` as far as the kernel supports it, with all its descendants. Places that do not exist are left out.
/// The directory that it works in is to be set before.
///
/// # Errors
/// If the kernel refuses something that it supports.
pub fn confine(command: &mut Command, walls: &Walls) -> io::Result<()> {
    let support = support();
    let mut places = walls.places.clone();
    let mut own = None;
    if let Some(directory) = &walls.temporary
        && let Ok(way) = way(walls.user, directory)
    {
        let working = command.get_current_dir();
        own = Some(Own::prepare(way, directory, &places, working)?);
        places.push(AllowedPath::new(directory.clone(), Access::Change));
    }
    let files = support.files.then(|| files::rules(&places)).transpose()?;
    let calls = support.calls.then(calls::programs).transpose()?;
    let user = walls.user;
    let enter = move || {
        own.iter_mut().try_for_each(Own::enter)?;
        rustix::thread::set_no_new_privs(true)?;
        files.iter().try_for_each(files::hold)?;
        match user {
            Some(user) => user.become_for_good()?,
            None => {
                drop_bounding_set()?;
                drop_capabilities()?;
            }
        }
        calls.iter().try_for_each(|calls| calls::refuse(calls))
    };
    // SAFETY: runs in the child of a fork of a process with threads, so it may do nothing that waits for another thread. It makes system calls on values that were
    // made before the fork; it takes no lock, and neither allocates nor frees.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Output;

    /// The system and these.
    fn system_places(places: &[AllowedPath]) -> Vec<AllowedPath> {
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc"];
        let mut all: Vec<AllowedPath> =
            system.map(|path| AllowedPath::new(path, Access::Read)).into();
        all.push(AllowedPath::new("/dev/null", Access::Use));
        all.extend(places.iter().cloned());
        all
    }

    /// Runs a script inside; it can see the system and these places.
    fn run(places: &[AllowedPath], script: &str) -> Output {
        let walls = Walls { places: system_places(places), user: None, temporary: None };
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        confine(&mut command, &walls).unwrap();
        command.output().unwrap()
    }

    #[track_caller]
    fn check(places: &[AllowedPath], script: &str, succeeds: bool) {
        let output = run(places, script);
        assert_eq!(output.status.success(), succeeds, "{script}: {output:?}");
    }

    #[test]
    fn this_machine_has_everything() {
        // On a kernel without these, the tests below would prove nothing.
        assert_eq!(support(), Support { files: true, signals: true, calls: true });
    }

    #[test]
    fn only_the_places_can_be_reached_and_only_as_they_say() {
        let directory = tempfile::tempdir().unwrap();
        let [own, seen, other] = ["own", "seen", "other"].map(|name| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), name).unwrap();
            path
        });
        let missing = directory.path().join("missing");
        let places = [
            AllowedPath::new(&own, Access::Change),
            AllowedPath::new(&seen, Access::Read),
            AllowedPath::new(missing, Access::Change),
        ];
        let [own, seen, other] = [own, seen, other].map(|path| path.display().to_string());
        for (script, succeeds) in [
            (format!("cat {own}/file && echo x >{own}/new && rm {own}/file"), true),
            (format!("mkdir {own}/a {own}/b && echo x >{own}/a/f && mv {own}/a/f {own}/b/f"), true),
            (format!("cat {seen}/file >/dev/null"), true),
            (format!("echo x >{seen}/file"), false),
            (format!("rm {seen}/file"), false),
            (format!("cat {other}/file"), false),
            (format!("ls {other}"), false),
            (format!("echo x >{other}/file"), false),
            (format!("ln -s {other}/file {own}/link && cat {own}/link"), false),
            (format!("mv {own}/new {other}/"), false),
            (format!("mknod {own}/disk b 8 0"), false),
            (format!("cp /bin/true {own}/tool && {own}/tool"), true),
        ] {
            check(&places, &script, succeeds);
        }
        assert_eq!(fs::read_to_string(format!("{other}/file")).unwrap(), "other");
        // This process is not confined.
        fs::write(format!("{other}/file"), "changed").unwrap();
    }

    #[test]
    fn temporary_files_are_its_own_and_what_it_may_reach_keeps_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let [own, work, other] = ["own", "work", "other"].map(|name| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), name).unwrap();
            path
        });
        if let Err(error) = try_temporary(None, &own) {
            return needs::lacks(needs::Need::Mounts, error);
        }
        let name = directory.path().file_name().unwrap().display().to_string();
        let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
        let before = mounts();
        let [file, work_text, other_text] =
            [work.join("file"), work.clone(), other.clone()].map(|path| path.display().to_string());
        for (script, succeeds) in [
            (format!("echo x >/tmp/{name}.new && grep -q x /var/tmp/{name}.new"), true),
            (format!("echo x >/dev/shm/{name}.shared && cat /tmp/{name}.shared"), true),
            // The directory of this test lies below /tmp.
            (format!("grep -q work {file}"), true),
            (format!("echo more >>{work_text}/file"), false),
            (
                format!(
                    "cd {work_text} && test \"$(pwd -P)\" = {work_text} && ls ../.. | grep -c own"
                ),
                false,
            ),
            (format!("cat {other_text}/file || ls {other_text}"), false),
            ("ls -A /tmp | grep -q hanno".to_owned(), false),
        ] {
            let places = system_places(&[AllowedPath::new(&work, Access::Read)]);
            let walls = Walls { places, user: None, temporary: Some(own.clone()) };
            let mut command = Command::new("sh");
            command.args(["-c", &script]).current_dir(&work);
            confine(&mut command, &walls).unwrap();
            let output = command.output().unwrap();
            assert_eq!(output.status.success(), succeeds, "{script}: {output:?}");
        }
        for made in ["new", "shared"] {
            let made = format!("{name}.{made}");
            assert!(own.join(&made).try_exists().unwrap(), "{made}");
            assert!(
                ["/tmp", "/dev/shm"]
                    .iter()
                    .all(|at| !Path::new(at).join(&made).try_exists().unwrap())
            );
        }
        assert_eq!(fs::read_to_string(work.join("file")).unwrap(), "work");
        assert_eq!(mounts(), before, "the machine sees nothing of it");
    }

    #[test]
    fn a_shared_directory_that_was_opened_is_the_machines() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("own");
        fs::create_dir(&own).unwrap();
        let mut places = system_places(&[AllowedPath::new("/tmp", Access::Read)]);
        places.push(AllowedPath::new(&own, Access::Change));
        let walls = Walls { places, user: None, temporary: Some(own.clone()) };
        let mut command = Command::new("ls");
        confine(command.args(["-A", "/tmp"]), &walls).unwrap();
        let listed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let name = directory.path().file_name().unwrap().to_str().unwrap();
        assert!(listed.lines().any(|line| line == name), "{listed}");
    }

    #[test]
    fn processes_outside_can_be_neither_ended_nor_looked_into() {
        let mut other = Command::new("sleep").arg("1000").env("MARK", "1").spawn().unwrap();
        let pid = other.id();
        for script in [
            format!("kill -0 {pid}"),
            format!("kill -9 {pid}"),
            format!("cat /proc/{pid}/environ"),
            format!("cat /proc/{pid}/maps"),
        ] {
            check(&[], &script, false);
        }
        check(&[], "sleep 1000 & kill -9 $! && ! wait $!", true);
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn calls_of_no_ordinary_program_are_refused_and_others_are_not() {
        for (script, succeeds) in [
            ("unshare -r true", false),
            ("unshare -m true", false),
            ("chroot / true", false),
            ("grep -q 'NoNewPrivs:.1' /proc/self/status", true),
            ("grep -q 'Seccomp:.2' /proc/self/status", true),
            ("(sleep 0 & wait) | cat", true),
        ] {
            check(&[], script, succeeds);
        }
        let status = String::from_utf8(run(&[], "cat /proc/self/status").stdout).unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let held = u64::from_str_radix(held.trim(), 16).unwrap();
        assert_eq!(held, 0, "{held:x}");
    }
}

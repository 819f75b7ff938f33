//! Keeps a process that is about to start, and all its descendants, away from what is not theirs: files (landlock), processes outside (landlock), calls that no
//! ordinary program makes (seccomp), root's powers (capabilities), and new ones (`no_new_privs`).
//!
//! Invariants: the thread that starts the process enters first and ends with it, so no other thread of this process is confined; what the kernel lacks is left
//! out and reported by [`support`], never pretended; nothing inside can leave or widen the sandbox.

mod calls;
mod powers;
mod user;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, LandlockStatus, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, Scope,
};

use self::powers::{drop_bounding_set, drop_capabilities, on_a_thread};

pub use user::{User, numbers_in_use, open_to, try_user};

/// The rights that are handled: those of the newest kernel tested. Older ones know fewer.
const RIGHTS: ABI = ABI::V6;
/// The oldest landlock version in use: earlier ones cannot allow renames between directories.
const RIGHTS_MIN: ABI = ABI::V2;
/// The first landlock that keeps signals inside.
const SIGNALS_MIN: ABI = ABI::V6;

/// The allowed access to a place and everything below it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Access {
    /// Read, list, execute.
    Read,
    /// Read and write what exists, as for devices.
    Use,
    /// Everything but devices.
    Change,
}

/// A path that is open inside the sandbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowedPath {
    /// A file or directory.
    pub path: PathBuf,
    /// The allowed access.
    pub access: Access,
}

impl AllowedPath {
    /// See the fields.
    pub fn new(path: impl Into<PathBuf>, access: Access) -> Self {
        AllowedPath { path: path.into(), access }
    }
}

/// The limits inside the sandbox besides the refused calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Walls {
    /// Everything that processes inside can reach.
    pub places: Vec<AllowedPath>,
    /// The user they run as; `None`: that of the process that starts them.
    pub user: Option<User>,
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
        let abi = on_a_thread(|| Ok(hold_files(&[])?.landlock)).map_or(ABI::Unsupported, abi);
        Support {
            files: abi >= RIGHTS_MIN,
            signals: abi >= SIGNALS_MIN,
            calls: on_a_thread(calls::refuse).is_ok(),
        }
    })
}

/// Calls `start` on a thread that is confined by `walls` as far as the kernel supports it; a process started there is confined like the thread. Places that do
/// not exist are left out.
///
/// # Errors
/// If the kernel refuses something that it supports, or `start` fails.
pub fn inside<T: Send>(
    walls: &Walls,
    start: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let support = support();
    on_a_thread(|| {
        let Walls { places, user } = walls;
        rustix::thread::set_no_new_privs(true)?;
        // This opens the places before the thread loses any of its rights to reach them.
        if support.files {
            hold_files(places)?;
        }
        match user {
            Some(user) => user.become_for_good()?,
            None => {
                drop_bounding_set()?;
                drop_capabilities()?;
            }
        }
        if support.calls {
            calls::refuse()?;
        }
        start()
    })
}

fn abi(status: LandlockStatus) -> ABI {
    match status {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => ABI::Unsupported,
    }
}

fn hold_files(places: &[AllowedPath]) -> io::Result<RestrictionStatus> {
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
    ruleset.restrict_self().map_err(io::Error::other)
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

/// The places below `directory` that anybody may read: as few as possible.
pub fn public_places(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if is_public(directory, &mut found) {
        return vec![directory.to_owned()];
    }
    found
}

/// True if everything below `path` is public; otherwise adds its public parts to `found`. A place that cannot be read counts as private. A link is as public as
/// its target, which is judged at its own path: the link by itself reveals nothing.
fn is_public(path: &Path, found: &mut Vec<PathBuf>) -> bool {
    use std::os::unix::fs::MetadataExt;
    const OTHERS_READ: u32 = 0o4;
    const OTHERS_ENTER: u32 = 0o1;
    let Ok(metadata) = path.symlink_metadata() else { return false };
    if metadata.is_symlink() {
        return true;
    }
    if !metadata.is_dir() {
        return metadata.mode() & OTHERS_READ != 0;
    }
    let wanted = OTHERS_READ | OTHERS_ENTER;
    let Some(entries) = path.read_dir().ok().filter(|_| metadata.mode() & wanted == wanted) else {
        return false;
    };
    let (mut all, mut public, mut below) = (true, Vec::new(), Vec::new());
    for entry in entries {
        let Ok(entry) = entry else {
            all = false;
            continue;
        };
        match is_public(&entry.path(), &mut below) {
            true => public.push(entry.path()),
            false => all = false,
        }
    }
    if !all {
        found.append(&mut public);
        found.append(&mut below);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Output};

    /// Runs a script inside; it can see the system and these places.
    fn run(places: &[AllowedPath], script: &str) -> Output {
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc"];
        let mut all: Vec<AllowedPath> =
            system.map(|path| AllowedPath::new(path, Access::Read)).into();
        all.push(AllowedPath::new("/dev/null", Access::Use));
        all.extend(places.iter().cloned());
        let walls = Walls { places: all, user: None };
        inside(&walls, || Command::new("sh").args(["-c", script]).output()).unwrap()
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
        // This thread is not confined.
        fs::write(format!("{other}/file"), "changed").unwrap();
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

    #[test]
    fn what_is_public_is_found_in_few_places() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let make = |name: &str, mode: u32| {
            let path = root.join(name);
            match name.strip_suffix('/') {
                Some(_) => fs::create_dir(&path).unwrap(),
                None => fs::write(&path, "").unwrap(),
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
        make("open/", 0o755);
        make("open/a", 0o644);
        make("open/b", 0o444);
        assert_eq!(public_places(root), [root]);
        make("mixed/", 0o755);
        make("mixed/key", 0o600);
        make("mixed/cert", 0o644);
        make("closed/", 0o700);
        make("closed/file", 0o644);
        std::os::unix::fs::symlink("mixed/key", root.join("link")).unwrap();
        let mut found = public_places(root);
        found.sort();
        assert_eq!(found, ["link", "mixed/cert", "open"].map(|name| root.join(name)));
    }
}

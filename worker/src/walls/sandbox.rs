//! What a task can reach on this machine: its job's files, its program, and the system's files that everybody may read. [`sys::sandbox`]
//! and [`sys::cgroup`] build the walls, [`super::users`] provides the users behind them; this module decides where the walls are.
//!
//! Invariants: no job can reach another job's files or the worker's, nor end their processes. The worker logs once what the kernel lacks,
//! and [`Sandbox::describe`] lists it with everything that holds. With `task_sandbox = "required"` a worker without walls does not start.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use sys::cgroup::{Bounds, Group, Groups, Version};
use sys::sandbox::{Access, AllowedPath, Support, User, Walls};

use super::users::Users;
use crate::config::{Config, TaskSandbox};
use crate::directories::Directories;
use crate::error::Error;

/// Directories of programs and their libraries.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/proc",
    "/sys",
    "/run/systemd/resolve",
    "/run/resolvconf",
];
/// Directory of settings: only files that everybody may read are open.
const SETTINGS: &str = "/etc";
/// Devices without hardware behind them.
const DEVICES: &[&str] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"].as_slice();
/// Entries beside a directory of the search path that belong to its programs.
const BESIDE_PROGRAMS: &[&str] = &["lib", "lib64", "libexec", "versions", "pyvenv.cfg"];
/// Threads that the kernel lets a task have for each allowed process. Most programs have a few threads; a program with more starts fewer
/// processes.
const THREADS_PER_PROCESS: u64 = 8;

/// The requirement for cgroups that bound everything.
const GROUPS_REMEDY: &str = "a cgroup of version 2 with the controllers pids and memory, which the worker may share out: a service with Delegate=yes, \
     or `systemd-run --user --scope -p Delegate=yes`";

/// One barrier around tasks, which holds or does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wall {
    /// The subject of the wall.
    pub name: &'static str,
    /// True if it holds.
    pub is_held: bool,
    /// What it means for tasks.
    pub text: String,
    /// How to get it where it does not hold.
    pub remedy: &'static str,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// Open to all tasks; `None` if tasks are not confined.
    places: Option<Vec<AllowedPath>>,
    support: Support,
    /// Temporary directories of tasks, or why they have none of their own.
    temporary: Result<(), String>,
    /// Users of jobs, or why they have none.
    users: Result<Users, String>,
    /// Cgroups of tasks, or why they have none.
    groups: Result<Groups, String>,
    /// Bounds of a task, for all its processes together.
    bounds: Bounds,
    /// Why its memory has no bound.
    unbounded_memory: Option<&'static str>,
    slots: u64,
    search_path: Option<OsString>,
}

impl Sandbox {
    /// Finds out what the kernel supports.
    pub(crate) fn open(config: &Config, directories: &Directories) -> Result<Self, Error> {
        if let Err(error) = sys::detach::keep_inherited() {
            tracing::warn!(%error, "cannot look for what this worker was started with");
        }
        let places = (config.task_sandbox != TaskSandbox::Off).then(|| places(config));
        let users = match places {
            None => Err("task_sandbox is off".to_owned()),
            Some(_) => {
                let Directories { jobs, outputs, binaries, data, .. } = directories;
                Users::open(config, jobs, &[data, outputs, binaries])
            }
        };
        let threads = (config.task_processes_max > 0)
            .then(|| u64::from(config.task_processes_max) * THREADS_PER_PROCESS);
        let data = &directories.data.path;
        let groups = groups(data, users.as_ref().ok());
        let user = users.as_ref().ok().and_then(Users::any);
        let temporary = sys::sandbox::try_temporary(user, data).map_err(|error| error.to_string());
        let (memory_bytes, unbounded_memory) = match config.task_memory_limit_bytes {
            0 => (None, Some("task_memory_limit_bytes is 0")),
            // Map outputs would count as long as they are kept.
            _ if sys::holding::is_memory(data).unwrap_or(true) => {
                (None, Some("files in the data directory are memory"))
            }
            bytes => (Some(bytes), None),
        };
        let sandbox = Sandbox {
            places,
            support: sys::sandbox::support(),
            temporary,
            search_path: search_path(users.as_ref().ok()),
            users,
            groups,
            bounds: Bounds { threads, memory_bytes },
            unbounded_memory,
            slots: u64::from(config.slots()),
        };
        if !sandbox.holds_groups()
            && let Err(error) = sys::orphans::adopt()
        {
            tracing::warn!(%error, "processes that leave their tasks are not found");
        }
        sandbox.judge(config)?;
        Ok(sandbox)
    }

    /// Checks whether the walls are enough for the configuration.
    fn judge(&self, config: &Config) -> Result<(), Error> {
        let mut lacking = Vec::new();
        let Support { files, signals, calls } = self.support;
        if !(files && signals && calls) {
            lacking
                .push("this kernel lacks landlock with signals (Linux 6.12) or seccomp".to_owned());
        }
        // An ordinary user's worker has no users to give.
        let has_power = sys::host::user_id() == 0 && config.task_user_count > 0;
        if let Err(reason) = &self.users
            && has_power
        {
            lacking.push(format!("jobs get no users of their own: {reason}"));
        }
        match config.task_sandbox {
            TaskSandbox::Required if !lacking.is_empty() => {
                return Err(Error::Walls { lacking: lacking.join("; ") });
            }
            TaskSandbox::Available => {
                lacking.iter().for_each(|lacking| {
                    tracing::warn!(
                        "tasks are not held fully, as the page of workers shows: {lacking}"
                    );
                });
            }
            TaskSandbox::Required | TaskSandbox::Off => {}
        }
        Ok(())
    }

    /// The search path of tasks for programs.
    pub(crate) fn search_path(&self) -> Option<&OsStr> {
        self.search_path.as_deref()
    }

    /// Users for jobs, if this worker has any.
    pub(crate) fn users(&self) -> Option<&Users> {
        self.users.as_ref().ok()
    }

    /// Makes a cgroup for a process about to start and all its descendants.
    pub(crate) fn group(&self, name: &str) -> io::Result<Option<Group>> {
        self.groups.as_ref().ok().map(|groups| groups.group(name, &self.bounds)).transpose()
    }

    /// Lets `command` start a process inside the walls: as the user of a job, with its files, its directory for temporary files and its readable paths.
    pub(crate) fn confine(
        &self,
        command: &mut std::process::Command,
        (job_directory, user): (&Path, Option<User>),
        temporary: &Path,
        readable: &[&PathBuf],
    ) -> io::Result<()> {
        let Some(places) = &self.places else { return Ok(()) };
        let readable = readable.iter().map(|path| AllowedPath::new(*path, Access::Read));
        let own = std::iter::once(AllowedPath::new(job_directory, Access::Change)).chain(readable);
        let places = places.iter().cloned().chain(own).collect();
        let walls = Walls { places, user, temporary: Some(temporary.to_owned()) };
        sys::sandbox::confine(command, &walls)
    }

    /// The bound of threads of a task's user, if no cgroup bounds forks. It covers all tasks together, and if the user is the worker's,
    /// also what runs now. The kernel does not apply it to root.
    pub(crate) fn user_threads_max(&self, user: Option<User>) -> io::Result<Option<u64>> {
        let (false, Some(threads)) = (self.bounds_forks(), self.bounds.threads) else {
            return Ok(None);
        };
        let besides = match user {
            Some(_) => 0,
            None => sys::process::user_threads()?,
        };
        Ok(Some(besides.saturating_add(threads * self.slots)))
    }

    /// True if a task may not open another worker's files.
    pub(crate) fn hides_files(&self) -> bool {
        self.holds_files() || self.users.is_ok()
    }

    /// True if a task has a cgroup that it cannot leave, because it cannot write to the cgroup's files.
    pub(crate) fn holds_groups(&self) -> bool {
        self.groups.is_ok() && self.hides_files()
    }

    fn bounds_forks(&self) -> bool {
        self.groups.as_ref().is_ok_and(|groups| groups.support().forks.is_ok())
    }

    /// True if a task sees only the files of its own job.
    pub(crate) fn holds_files(&self) -> bool {
        self.places.is_some() && self.support.files
    }

    /// The walls around tasks here.
    pub(crate) fn walls(&self) -> Vec<Wall> {
        let wall = |name, is_held, yes: &str, no: &str, remedy| Wall {
            name,
            is_held,
            text: if is_held { yes } else { no }.to_owned(),
            remedy,
        };
        let mut walls = Vec::new();
        if self.places.is_none() {
            let text = "no sandbox (task_sandbox is off)";
            walls.push(wall("sandbox", false, "", text, "set task_sandbox to \"available\""));
        } else {
            let Support { files, signals, calls } = self.support;
            walls.push(wall(
                "files",
                files,
                "no files but its job's and the system's",
                "no sandbox for files (this kernel has no landlock)",
                "Linux 5.19 or later with landlock among its security modules (lsm=landlock,...)",
            ));
            walls.push(wall(
                "signals",
                signals,
                "no signals to others",
                "signals to others (this kernel's landlock is too old)",
                "Linux 6.12 or later with landlock",
            ));
            walls.push(wall(
                "calls",
                calls,
                "no Unix sockets, no calls for namespaces, mounts, terminals, other processes",
                "all calls (this kernel has no seccomp)",
                "a kernel with seccomp filters",
            ));
            walls.push(wall("privileges", true, "no new privileges", "", ""));
            walls.push(self.temporary_wall());
            walls.push(self.user_wall());
        }
        walls.extend(self.group_walls());
        walls
    }

    /// What cgroups enforce, and what is left to periodic checks.
    fn group_walls(&self) -> Vec<Wall> {
        let wall = |name, held: Result<String, String>| Wall {
            name,
            is_held: held.is_ok(),
            text: held.unwrap_or_else(|text| text),
            remedy: GROUPS_REMEDY,
        };
        let support = self.groups.as_ref().map(Groups::support).map_err(Clone::clone);
        let held = |bound: Result<(), String>, what: &str, otherwise: &str| match bound {
            Ok(()) => Ok(format!("{what} bounded by a cgroup")),
            Err(reason) => Err(format!("{what} bounded by {otherwise} ({reason})")),
        };
        let mut walls = Vec::new();
        if self.bounds.threads.is_some() {
            let bound = support.clone().and_then(|support| support.forks.clone());
            walls.push(wall("forks", held(bound, "forks", "looks and the user's limit")));
        }
        if let Some(reason) = self.unbounded_memory {
            walls.push(wall("memory", held(Err(reason.to_owned()), "memory", "looks")));
        } else {
            let bound = support.clone().and_then(|support| support.memory.clone());
            walls.push(wall("memory", held(bound, "memory", "looks")));
        }
        let ends = match support {
            Ok(support) => Ok(match support.version {
                Version::First => "ended as a cgroup of version 1".to_owned(),
                Version::Second => "ended as a cgroup of version 2".to_owned(),
            }),
            Err(reason) => Err(format!("ended by looks, orphans adopted ({reason})")),
        };
        walls.push(wall("ends", ends));
        walls
    }

    fn temporary_wall(&self) -> Wall {
        let text = match &self.temporary {
            Ok(()) => "temporary directories of their own".to_owned(),
            Err(reason) => format!("nothing of /tmp, /var/tmp, /dev/shm ({reason})"),
        };
        let remedy = "a worker that runs as root with CAP_SYS_ADMIN, or a kernel that lets its user make namespaces; scripts find a directory in TMPDIR";
        Wall { name: "temporary", is_held: self.temporary.is_ok(), text, remedy }
    }

    fn user_wall(&self) -> Wall {
        let text = match &self.users {
            Ok(users) => users.describe(),
            Err(reason) => format!("the worker's user ({reason})"),
        };
        let remedy = "a worker that runs as root with the capabilities that it has by default, on directories that other users may pass through (chmod o+x)";
        Wall { name: "users", is_held: self.users.is_ok(), text, remedy }
    }

    /// Describes the walls for people.
    pub(crate) fn describe(&self) -> String {
        let texts: Vec<String> = self.walls().into_iter().map(|wall| wall.text).collect();
        texts.join(", ")
    }

    /// Call it when no process of a task runs any more.
    pub(crate) fn close(&self) {
        self.users.iter().for_each(Users::end_all);
        if let Ok(Err(error)) = self.groups.as_ref().map(Groups::clear) {
            tracing::warn!(%error, "the groups of tasks are left");
        }
    }
}

/// Cgroups for the tasks of the worker with this directory; otherwise why there are none.
fn groups(data: &Path, users: Option<&Users>) -> Result<Groups, String> {
    use std::os::unix::fs::MetadataExt;
    let metadata = data.metadata().map_err(|error| error.to_string())?;
    let name = format!("hanno-worker-{:x}-{:x}", metadata.dev(), metadata.ino());
    Groups::open(&name, users.and_then(Users::any))
        .inspect_err(|error| tracing::info!(%error, "no cgroups for tasks: looks bound them"))
        .map_err(|error| format!("no cgroups: {error}"))
}

/// The directories of the worker's search path that the users of jobs may read: a search in another one would end with "permission denied"
/// even where no such program exists.
fn search_path(users: Option<&Users>) -> Option<OsString> {
    let path = std::env::var_os("PATH")?;
    let Some(users) = users else { return Some(path) };
    let open = users.open_to(std::env::split_paths(&path).collect());
    let joined = open.and_then(|open| std::env::join_paths(open).map_err(io::Error::other));
    Some(joined.unwrap_or_else(|error| {
        tracing::warn!(%error, "tasks search all directories of PATH");
        path
    }))
}

fn places(config: &Config) -> Vec<AllowedPath> {
    let own = |path: &PathBuf, access| AllowedPath::new(path.clone(), access);
    let mut places = system_places();
    places.extend(config.task_readable_paths.iter().map(|path| own(path, Access::Read)));
    places.extend(config.task_writable_paths.iter().map(|path| own(path, Access::Change)));
    places
}

fn system_places() -> Vec<AllowedPath> {
    let mut places: Vec<AllowedPath> =
        SYSTEM.iter().map(|path| AllowedPath::new(*path, Access::Read)).collect();
    places.extend(DEVICES.iter().map(|path| AllowedPath::new(*path, Access::Use)));
    let settings = sys::sandbox::public_places(Path::new(SETTINGS));
    places.extend(settings.into_iter().map(|path| AllowedPath::new(path, Access::Read)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    for directory in std::env::split_paths(&path).filter(|directory| directory.is_absolute()) {
        places.extend(
            programs(&directory).into_iter().map(|path| AllowedPath::new(path, Access::Read)),
        );
    }
    places
}

/// What the programs of a directory of the search path need: themselves and the files installed with them (an interpreter's library), but
/// nothing else beside them, which could be somebody's home.
fn programs(directory: &Path) -> Vec<PathBuf> {
    let mut places = vec![directory.to_owned()];
    if let Some(prefix) = directory.parent() {
        places.extend(BESIDE_PROGRAMS.iter().map(|name| prefix.join(name)));
    }
    places
}

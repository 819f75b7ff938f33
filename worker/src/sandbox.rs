//! What a task can reach on this machine: its job's files, its program, what everybody may read of the system. The walls themselves are
//! [`sys::sandbox`] and [`sys::pids`]; this says where they stand.
//!
//! Invariants: of two jobs none can reach the other's files, nor those of the worker, nor end its processes; what the kernel lacks is logged
//! once and told with everything else that holds ([`Sandbox::describe`]); with `task_sandbox = "required"` a worker without walls does not start.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sys::pids::{Group, Groups};
use sys::sandbox::{Access, Place, Support, Walls};

use crate::config::Config;
use crate::error::Error;

/// Where programs and their libraries lie.
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
/// Where settings lie, of which only what everybody may read is open.
const SETTINGS: &str = "/etc";
/// Devices without a machine behind them.
const DEVICES: &[&str] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"].as_slice();
/// What belongs to the programs of a directory of the search path, beside that directory.
const BESIDE_PROGRAMS: &[&str] = &["lib", "lib64", "libexec", "versions", "pyvenv.cfg"];
/// Threads that the kernel lets a task have for each process it may have: programs have some, and those that have more have fewer processes.
const THREADS_PER_PROCESS: u64 = 8;

/// Whether tasks are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSandbox {
    /// As far as the kernel can; what it lacks is logged and shown.
    Available,
    /// In full: a worker on a kernel that lacks something does not start.
    Required,
    /// Not: tasks see what the worker's user sees.
    Off,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// Open to all tasks; `None` if they are not held.
    places: Option<Vec<Place>>,
    support: Support,
    groups: Option<Groups>,
    /// Threads of a task, all its processes together.
    threads: Option<u64>,
    slots: u64,
}

impl Sandbox {
    /// Finds out what the kernel can do. `data` is the worker's locked directory.
    pub(crate) fn open(config: &Config, data: &Path) -> Result<Self, Error> {
        if let Err(error) = sys::detach::keep_inherited() {
            tracing::warn!(%error, "cannot look for what this worker was started with");
        }
        let support = sys::sandbox::support();
        let is_whole = support.files && support.signals && support.calls;
        match config.task_sandbox {
            TaskSandbox::Required if !is_whole => {
                return Err(Error::Setting {
                    key: "task_sandbox",
                    reason: "it is `required`, and this kernel lacks landlock with signals (Linux 6.12) or seccomp",
                });
            }
            TaskSandbox::Available if !is_whole => {
                tracing::warn!(
                    ?support,
                    "this kernel cannot hold tasks fully: look at the page of workers"
                );
            }
            _ => {}
        }
        let places = (config.task_sandbox != TaskSandbox::Off).then(|| {
            let own = |path: &PathBuf, access| Place::new(path.clone(), access);
            let mut places = system_places();
            places.extend(config.task_readable_paths.iter().map(|path| own(path, Access::Read)));
            places.extend(config.task_writable_paths.iter().map(|path| own(path, Access::Change)));
            places
        });
        let threads = (config.task_processes_max > 0)
            .then(|| u64::from(config.task_processes_max) * THREADS_PER_PROCESS);
        let groups = threads.and_then(|_| groups(data));
        if groups.is_none()
            && let Err(error) = sys::orphans::adopt()
        {
            tracing::warn!(%error, "processes that leave their tasks are not found");
        }
        Ok(Sandbox { places, support, groups, threads, slots: u64::from(config.slots()) })
    }

    /// Calls `start`, which starts a process, inside: with the files of a job, and what it may read besides. The group has the process and what comes of it.
    pub(crate) fn start<T: Send>(
        &self,
        name: &str,
        job_directory: &Path,
        readable: &[&PathBuf],
        start: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<(T, Option<Group>)> {
        let walls = self.places.as_ref().map(|places| {
            let readable = readable.iter().map(|path| Place::new(*path, Access::Read));
            let own = std::iter::once(Place::new(job_directory, Access::Change)).chain(readable);
            Walls { places: places.iter().cloned().chain(own).collect(), user: None }
        });
        let group = match (&self.groups, self.threads) {
            (Some(groups), Some(threads)) => Some(groups.group(name, threads)?),
            _ => None,
        };
        let started = sys::sandbox::inside(walls.as_ref(), group.as_ref(), start)?;
        Ok((started, group))
    }

    /// Where there are no groups, the bound of threads of the worker's user, what runs now included: that of all tasks together. The kernel
    /// does not hold root to it.
    pub(crate) fn user_threads_max(&self) -> io::Result<Option<u64>> {
        match (&self.groups, self.threads) {
            (None, Some(threads)) => {
                Ok(Some(sys::process::user_threads()?.saturating_add(threads * self.slots)))
            }
            _ => Ok(None),
        }
    }

    /// True if a task sees only the files of its own job.
    pub(crate) fn holds_files(&self) -> bool {
        self.places.is_some() && self.support.files
    }

    /// What holds for tasks here, for people.
    pub(crate) fn describe(&self) -> String {
        let held = |is_held: bool, yes: &'static str, no: &'static str| match is_held {
            true => yes,
            false => no,
        };
        let mut parts = match &self.places {
            None => vec!["no sandbox (task_sandbox is off)"],
            Some(_) => vec![
                held(
                    self.support.files,
                    "no files but its job's and the system's",
                    "no sandbox for files (this kernel has no landlock)",
                ),
                held(
                    self.support.signals,
                    "no signals to others",
                    "signals to others (this kernel's landlock is too old)",
                ),
                held(
                    self.support.calls,
                    "no Unix sockets, no calls for namespaces, mounts, terminals, other processes",
                    "all calls (this kernel has no seccomp)",
                ),
                "no new privileges",
            ],
        };
        if self.threads.is_some() {
            parts.push(held(
                self.groups.is_some(),
                "forks bounded by a cgroup",
                "forks bounded by looks and the user's limit",
            ));
        }
        parts.push(held(
            self.groups.is_some(),
            "ended as a cgroup",
            "ended by looks, orphans adopted (no cgroup)",
        ));
        parts.join(", ")
    }

    /// Nothing runs any more.
    pub(crate) fn close(&self) {
        if let Some(Err(error)) = self.groups.as_ref().map(Groups::clear) {
            tracing::warn!(%error, "the groups of tasks are left");
        }
    }
}

/// Groups for the tasks of the worker whose directory this is; `None` where the kernel has none for us.
fn groups(data: &Path) -> Option<Groups> {
    use std::os::unix::fs::MetadataExt;
    let metadata = data.metadata().ok()?;
    let name = format!("hanno-worker-{:x}-{:x}", metadata.dev(), metadata.ino());
    Groups::open(&name)
        .inspect_err(
            |error| tracing::info!(%error, "no cgroups for tasks: looks bound their forks"),
        )
        .ok()
}

fn system_places() -> Vec<Place> {
    let mut places: Vec<Place> =
        SYSTEM.iter().map(|path| Place::new(*path, Access::Read)).collect();
    places.extend(DEVICES.iter().map(|path| Place::new(*path, Access::Use)));
    let settings = sys::sandbox::public_places(Path::new(SETTINGS));
    places.extend(settings.into_iter().map(|path| Place::new(path, Access::Read)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    for directory in std::env::split_paths(&path).filter(|directory| directory.is_absolute()) {
        places.extend(programs(&directory).into_iter().map(|path| Place::new(path, Access::Read)));
    }
    places
}

/// What programs of a directory of the search path need: themselves and what was installed with them (an interpreter's library), but not
/// whatever else lies beside, which may be somebody's home.
fn programs(directory: &Path) -> Vec<PathBuf> {
    let mut places = vec![directory.to_owned()];
    if let Some(prefix) = directory.parent() {
        places.extend(BESIDE_PROGRAMS.iter().map(|name| prefix.join(name)));
    }
    places
}

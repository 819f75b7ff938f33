//! Configuration of a worker.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use daemon::serve::door::CertificateFiles;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Settings of a worker. Every key has a default.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Directory for job files, logs and cached executables; created if missing. Default `worker`.
    pub data: PathBuf,
    /// `host:port` to listen on for reduces and log readers. Default `127.0.0.1:0`: only this machine, any port.
    pub bind: String,
    /// `host:port` under which others reach `bind`. Default empty: the address listened on.
    pub advertise: String,
    /// Names that HTTP requests to this worker may use besides `localhost`, its machine's name and `advertise`. Default none; `"*"` allows
    /// all.
    pub hosts: Vec<String>,
    /// Name of this machine, compared with the machines that hold input. Default empty: the network name.
    pub host: String,
    /// Rack of this machine. Default `/default-rack`.
    pub rack: String,
    /// Let reduces of other workers on this machine open map outputs directly. Default true. Set it to false if workers have file systems
    /// of their own (containers): reduces then fetch over HTTP as from another machine.
    pub shared_outputs: bool,
    /// `http://host:port` of the JobTracker. Default `http://127.0.0.1:8088`.
    pub jobtracker: String,
    /// `http://host:port` of the NameNode. Default `http://127.0.0.1:9870`.
    pub namenode: String,
    /// File that holds the cluster secret; must exist. Default `secret`.
    pub secret_file: PathBuf,
    /// Certificate and key of an authority, for other clients than Hanno's: `{ certificate = "FILE", key = "FILE" }`. Absent: one that it makes at each start.
    pub tls: Option<CertificateFiles>,
    /// Serves plain requests of other machines, too, for clients that cannot encrypt. Default false.
    pub allow_unencrypted: bool,
    /// Tasks run at once. Default 0: as many as cores.
    pub slot_count: u32,
    /// Bytes of memory for sort buffers and shuffle of one task. Default 256 MiB: one sort handles the map output of a block.
    pub task_memory_bytes_max: u64,
    /// Bytes of private memory that a task process with its children may use, sort buffers included; beyond it the task fails. Default 4
    /// GiB; 0 is no limit.
    pub task_memory_limit_bytes: u64,
    /// Processes that a task may have at once, including itself. Default 512: a pipeline of scripts needs a dozen; 0 is no limit.
    pub task_processes_max: u32,
    /// Files that a task process may have open. Default 65,536; 0 is no limit.
    pub task_open_files_max: u64,
    /// Seconds of processor time of each process of a task. Default 0: no limit. With a limit, every attempt gets its own process.
    pub task_cpu_seconds_max: u64,
    /// Bytes of a single file that a task writes on this machine. Default 0: no limit.
    pub task_file_bytes_max: u64,
    /// Bytes on disk that a task may hold in its own directories, all its files together. Default 64 GiB: a task that spills endlessly
    /// cannot fill a whole disk, and no honest map or reduce comes near; 0 is no limit.
    pub task_disk_bytes_max: u64,
    /// Free bytes on the disk of `data` below which the worker ends the task that holds most there, if it holds at least as much as this:
    /// the others can go on. Default 1 GiB: what a few tasks write before the next check; 0 is never.
    pub disk_reserve_bytes: u64,
    /// `available`: keeps tasks from files that are neither their job's nor the system's, and from foreign processes and calls, as far as
    /// the kernel can; `required`: also refuses to start on a kernel that cannot; `off`. Default `available`.
    pub task_sandbox: TaskSandbox,
    /// For a worker that runs as root: the first of the numbers from which each job gets its own user (and group). Tasks of different jobs
    /// then cannot touch each other, whatever the kernel lacks. Default 2,100,000,000: above the numbers of accounts, directory services
    /// and containers; numbers in use are skipped.
    pub task_user_first: u32,
    /// How many such numbers there are; each worker of a machine takes up to 4096 of them. Default 1,048,576: 256 workers; 0 is none: tasks
    /// run as the worker's user.
    pub task_user_count: u32,
    /// Files and directories that tasks may also read and execute. Default none; e.g. a directory of programs outside `/usr` and `/opt`.
    pub task_readable_paths: Vec<PathBuf>,
    /// Files and directories that tasks may also change. Default none: tasks can leave nothing outside their directories.
    pub task_writable_paths: Vec<PathBuf>,
    /// Milliseconds without a sign of life after which a task is ended. Default 600,000, as in Hadoop; 0 is never.
    pub task_timeout_ms: u64,
    /// Milliseconds without a sign of life after which a task process is ended that is not ready yet: it starts, or rebuilds its job. It shows life while
    /// it fetches side files. Default 60,000: enough for a loaded machine and a large program.
    pub runner_start_timeout_ms: u64,
    /// Milliseconds after which a task process without work is ended. Default 30,000: long enough for the next wave of a job.
    pub runner_idle_ms: u64,
    /// Bytes kept per attempt of each of standard output and error. Default 10 MiB: a task that floods its log fills no disk.
    pub log_bytes_max: u64,
    /// Milliseconds for which logs of attempts are kept. Default 86,400,000: a day.
    pub log_retention_ms: u64,
    /// Bytes of cached executables; the least recently used are removed first. Default 2 GiB.
    pub binary_cache_bytes_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            data: PathBuf::from("worker"),
            bind: "127.0.0.1:0".to_owned(),
            advertise: String::new(),
            hosts: Vec::new(),
            host: String::new(),
            rack: "/default-rack".to_owned(),
            shared_outputs: true,
            jobtracker: "http://127.0.0.1:8088".to_owned(),
            namenode: "http://127.0.0.1:9870".to_owned(),
            secret_file: PathBuf::from("secret"),
            tls: None,
            allow_unencrypted: false,
            slot_count: 0,
            task_memory_bytes_max: 256 << 20,
            task_memory_limit_bytes: 4 << 30,
            task_processes_max: 512,
            task_open_files_max: 65_536,
            task_cpu_seconds_max: 0,
            task_file_bytes_max: 0,
            task_disk_bytes_max: 64 << 30,
            disk_reserve_bytes: 1 << 30,
            task_sandbox: TaskSandbox::Available,
            task_user_first: 2_100_000_000,
            task_user_count: 1 << 20,
            task_readable_paths: Vec::new(),
            task_writable_paths: Vec::new(),
            task_timeout_ms: 600_000,
            runner_start_timeout_ms: 60_000,
            runner_idle_ms: 30_000,
            log_bytes_max: 10 << 20,
            log_retention_ms: 86_400_000,
            binary_cache_bytes_max: 2 << 30,
        }
    }
}

impl Config {
    /// Keys that may be absent and have no default.
    pub const OPTIONAL: [&'static str; 1] = ["tls"];

    pub(crate) fn check(&self) -> Result<(), Error> {
        if !self.rack.starts_with('/') {
            return Err(Error::Setting { key: "rack", reason: "it must start with a slash" });
        }
        if self.task_memory_bytes_max < (1 << 20) {
            return Err(Error::Setting {
                key: "task_memory_bytes_max",
                reason: "a task needs at least 1 MiB (1048576)",
            });
        }
        if self.task_memory_limit_bytes > 0
            && self.task_memory_limit_bytes / 2 < self.task_memory_bytes_max
        {
            return Err(Error::Setting {
                key: "task_memory_limit_bytes",
                reason: "it must be at least twice task_memory_bytes_max: a task needs more than its buffers",
            });
        }
        if self.task_user_count > 0
            && (self.task_user_first == 0
                || self.task_user_first.checked_add(self.task_user_count).is_none())
        {
            return Err(Error::Setting {
                key: "task_user_first or task_user_count",
                reason: "the numbers must lie between 1 and 4294967294",
            });
        }
        let extra = self.task_readable_paths.iter().chain(&self.task_writable_paths);
        if extra.into_iter().any(|path| !path.is_absolute()) {
            return Err(Error::Setting {
                key: "task_readable_paths or task_writable_paths",
                reason: "each must be an absolute path",
            });
        }
        Ok(())
    }

    /// The range of user numbers for jobs.
    pub(crate) fn task_users(&self) -> Option<RangeInclusive<u32>> {
        let after_first = self.task_user_count.checked_sub(1)?;
        Some(self.task_user_first..=self.task_user_first.checked_add(after_first)?)
    }

    pub(crate) fn slots(&self) -> u32 {
        if self.slot_count > 0 {
            return self.slot_count;
        }
        std::thread::available_parallelism()
            .ok()
            .and_then(|cores| u32::try_from(cores.get()).ok())
            .unwrap_or(1)
    }
}

/// Whether tasks are confined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSandbox {
    /// As far as the kernel can; the worker logs and displays what is missing.
    Available,
    /// Fully: a worker on a kernel that lacks something does not start.
    Required,
    /// Not at all: tasks see what the worker's user sees.
    Off,
}

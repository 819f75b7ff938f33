//! The limits of tasks, and when a task exceeds them.
//!
//! The kernel enforces limits for each process. The worker checks the sums over a task with its children regularly ([`super::watch`]), and
//! ends a task that exceeds them.

use std::fmt;

use sys::process::Limits;

use crate::config::Config;

/// See the module. `None` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Confinement {
    /// Of a task with its children.
    pub(crate) memory_bytes: Option<u64>,
    /// Of a task with its children.
    pub(crate) processes: Option<u32>,
    /// Of a task, in its directories.
    pub(crate) disk_bytes: Option<u64>,
    /// Free space on the disk below which the task that holds most is ended.
    pub(crate) disk_reserve_bytes: Option<u64>,
    /// Of each process.
    pub(crate) limits: Limits,
}

/// A limit for which a task is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Excess {
    /// Processes.
    Processes { count: usize, limit: u32 },
    /// Memory.
    Memory { used: u64, limit: u64 },
    /// Memory: the kernel gave the task no more and ended it.
    MemoryBound { limit: u64 },
    /// Files of its own.
    Disk { used: u64, limit: u64 },
    /// Files of its own, on a disk that is almost full.
    DiskFull { used: u64, free: u64, reserve: u64 },
    /// Processes that cannot be inspected: their use is unknown.
    HiddenProcesses,
    /// Files that cannot be inspected.
    HiddenFiles,
}

impl Confinement {
    /// The limits in a worker's configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let some = |value: u64| (value > 0).then_some(value);
        Confinement {
            memory_bytes: some(config.task_memory_limit_bytes),
            processes: (config.task_processes_max > 0).then_some(config.task_processes_max),
            disk_bytes: some(config.task_disk_bytes_max),
            disk_reserve_bytes: some(config.disk_reserve_bytes),
            limits: Limits {
                data_bytes: some(config.task_memory_limit_bytes),
                open_files: some(config.task_open_files_max),
                cpu_seconds: some(config.task_cpu_seconds_max),
                file_bytes: some(config.task_file_bytes_max),
                user_threads: None,
            },
        }
    }

    /// The excess of processes, if any.
    pub(crate) fn processes(&self, count: usize) -> Option<Excess> {
        let limit = self.processes.filter(|limit| count > *limit as usize)?;
        Some(Excess::Processes { count, limit })
    }

    /// The excess of memory, if any.
    pub(crate) fn memory(&self, used: u64) -> Option<Excess> {
        let limit = self.memory_bytes.filter(|limit| used > *limit)?;
        Some(Excess::Memory { used, limit })
    }

    /// The excess on disk, if any.
    pub(crate) fn disk(&self, used: u64) -> Option<Excess> {
        let limit = self.disk_bytes.filter(|limit| used > *limit)?;
        Some(Excess::Disk { used, limit })
    }

    /// Why to end the task that holds most, `used` bytes, on a disk with `free` bytes. `None` if ending it would not help: then others fill
    /// the disk.
    pub(crate) fn disk_full(&self, used: u64, free: u64) -> Option<Excess> {
        let reserve =
            self.disk_reserve_bytes.filter(|reserve| free < *reserve && used >= *reserve)?;
        Some(Excess::DiskFull { used, free, reserve })
    }

    /// Describes the limits for people.
    pub(crate) fn describe(&self) -> String {
        let mut parts = vec!["own process group, environment and directory".to_owned()];
        let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
        parts.extend(self.memory_bytes.map(|bytes| format!("{} memory", mebibytes(bytes))));
        parts.extend(self.processes.map(|count| format!("{count} processes")));
        parts.extend(self.disk_bytes.map(|bytes| format!("{} on disk", mebibytes(bytes))));
        parts.extend(self.limits.open_files.map(|count| format!("{count} open files")));
        parts.extend(self.limits.cpu_seconds.map(|count| format!("{count} s of processor time")));
        parts.extend(self.limits.file_bytes.map(|bytes| format!("files of {}", mebibytes(bytes))));
        parts.join(", ")
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excess::Processes { count, limit } => write!(
                f,
                "the task has {count} processes, more than its limit of {limit} (task_processes_max)"
            ),
            Excess::Memory { used, limit } => write!(
                f,
                "the task uses {used} bytes of memory, more than its limit of {limit} (task_memory_limit_bytes)"
            ),
            Excess::MemoryBound { limit } => write!(
                f,
                "the task needed more than its limit of {limit} bytes of memory (task_memory_limit_bytes), and the kernel ended it"
            ),
            Excess::Disk { used, limit } => write!(
                f,
                "the task holds {used} bytes on disk, more than its limit of {limit} (task_disk_bytes_max)"
            ),
            Excess::DiskFull { used, free, reserve } => write!(
                f,
                "the task holds {used} bytes on a disk with {free} bytes left, fewer than the reserve of {reserve} (disk_reserve_bytes), \
                 and it holds most of all tasks; free space there, or give the worker a `data` directory on a larger disk"
            ),
            Excess::HiddenProcesses => f.write_str(
                "the task has processes that cannot be looked at, so its limits could not be held: they run a program that nobody may read, or hold too much open",
            ),
            Excess::HiddenFiles => f.write_str(
                "the task has files that cannot be looked at, so its limits could not be held: directories too deep within each other, or shut by somebody else",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let confinement = Confinement {
            memory_bytes: Some(2 << 20),
            processes: Some(2),
            disk_bytes: Some(3 << 20),
            disk_reserve_bytes: Some(100),
            limits: Limits { open_files: Some(9), ..Limits::default() },
        };
        assert_eq!((confinement.processes(2), confinement.memory(2 << 20)), (None, None));
        let text = |excess: Option<Excess>| excess.unwrap().to_string();
        assert!(text(confinement.processes(3)).contains("3 processes"));
        assert!(text(confinement.memory((2 << 20) + 1)).contains("2097153 bytes"));
        assert_eq!(confinement.disk(3 << 20), None);
        assert!(text(confinement.disk((3 << 20) + 1)).contains("3145729 bytes on disk"));
        assert_eq!(confinement.disk_full(1000, 100), None, "there is room");
        assert_eq!(confinement.disk_full(99, 99), None, "its end would not help");
        assert!(text(confinement.disk_full(100, 99)).contains("99 bytes left"));
        assert_eq!(
            confinement.describe(),
            "own process group, environment and directory, 2 MiB memory, 2 processes, 3 MiB on disk, 9 open files"
        );
    }
}

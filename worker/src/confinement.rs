//! What a task may use, and when it has used more.
//!
//! Limits of the kernel hold for each process; the sums over a task with its children are looked at now and then ([`crate::watch`]), and a
//! task beyond them is ended.

use std::fmt;

use sys::process::Limits;

/// See the module. `None` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Confinement {
    /// Of a task with its children.
    pub(crate) memory_bytes: Option<u64>,
    /// Of a task with its children.
    pub(crate) processes: Option<u32>,
    /// Of each process.
    pub(crate) limits: Limits,
}

/// A sum that a task is ended for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Excess {
    /// Processes.
    Processes { count: usize, limit: u32 },
    /// Memory.
    Memory { used: u64, limit: u64 },
}

impl Confinement {
    /// Too many processes, if there are.
    pub(crate) fn processes(&self, count: usize) -> Option<Excess> {
        let limit = self.processes.filter(|limit| count > *limit as usize)?;
        Some(Excess::Processes { count, limit })
    }

    /// Too much memory, if it is.
    pub(crate) fn memory(&self, used: u64) -> Option<Excess> {
        let limit = self.memory_bytes.filter(|limit| used > *limit)?;
        Some(Excess::Memory { used, limit })
    }

    /// What holds for tasks here, for people.
    pub(crate) fn describe(&self) -> String {
        let mut parts = vec!["own process group, environment and directory".to_owned()];
        let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
        parts.extend(self.memory_bytes.map(|bytes| format!("{} memory", mebibytes(bytes))));
        parts.extend(self.processes.map(|count| format!("{count} processes")));
        parts.extend(self.limits.open_files.map(|count| format!("{count} open files")));
        parts.extend(self.limits.cpu_seconds.map(|count| format!("{count} s of processor time")));
        parts.extend(self.limits.file_bytes.map(|bytes| format!("files of {}", mebibytes(bytes))));
        parts.push("no sandbox for files".to_owned());
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
            limits: Limits { open_files: Some(9), ..Limits::default() },
        };
        assert_eq!((confinement.processes(2), confinement.memory(2 << 20)), (None, None));
        let text = |excess: Option<Excess>| excess.unwrap().to_string();
        assert!(text(confinement.processes(3)).contains("3 processes"));
        assert!(text(confinement.memory((2 << 20) + 1)).contains("2097153 bytes"));
        assert_eq!(
            confinement.describe(),
            "own process group, environment and directory, 2 MiB memory, 2 processes, 9 open files, \
             no sandbox for files"
        );
    }
}

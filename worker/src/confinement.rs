//! What a task may use, and what is done about one that uses more.
//!
//! Limits of the kernel hold for each process; the sums over a task with its children are looked at now and then, and a task beyond them is
//! ended.

use std::time::Duration;

use sys::family::Family;
use sys::process::Limits;

/// How often the sums are looked at: a task that allocates a gigabyte a second is caught half a gigabyte late.
pub(crate) const LOOK_PERIOD: Duration = Duration::from_millis(500);

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

impl Confinement {
    /// True if sums are to be looked at.
    pub(crate) fn is_watching(&self) -> bool {
        self.memory_bytes.is_some() || self.processes.is_some()
    }

    /// Why a task has too much, if it has.
    pub(crate) fn verdict(&self, family: &Family) -> Option<String> {
        let count = family.members.len();
        if let Some(limit) = self.processes.filter(|limit| count > *limit as usize) {
            return Some(format!(
                "the task has {count} processes, more than its limit of {limit} (task_processes_max)"
            ));
        }
        let used = family.memory_bytes;
        let limit = self.memory_bytes.filter(|limit| used > *limit)?;
        Some(format!(
            "the task uses {used} bytes of memory, more than its limit of {limit} (task_memory_limit_bytes)"
        ))
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
        let verdict = |members: u32, memory_bytes| {
            confinement.verdict(&Family { members: (1..=members).collect(), memory_bytes })
        };
        assert_eq!(verdict(2, 2 << 20), None);
        assert!(verdict(3, 0).unwrap().contains("3 processes"));
        assert!(verdict(1, (2 << 20) + 1).unwrap().contains("2097153 bytes"));
        assert_eq!(
            confinement.describe(),
            "own process group, environment and directory, 2 MiB memory, 2 processes, 9 open files, \
             no sandbox for files"
        );
    }
}

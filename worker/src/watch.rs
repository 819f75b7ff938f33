//! Looks at what the tasks here use with their children, all in one pass over the process table, and tells the runners of those beyond
//! a limit.
//!
//! Invariants: memory is judged by what processes have of their own: the quick sum, which counts what forked processes share several times, only
//! says when it is worth to ask the kernel. A task is ended for memory only if two successive looks find too much, as a child between fork and exec
//! shows all the memory of its parent.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sys::family::{self, Table};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use crate::confinement::{Confinement, Excess};

/// How often tasks are looked at: one that allocates a gigabyte a second is caught a gigabyte late.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

/// The tasks that are looked at. Cheap to clone; clones share.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    confinement: Confinement,
    tasks: Arc<Mutex<BTreeMap<u64, Task>>>,
    seen: Arc<Mutex<Seen>>,
}

/// What looks have found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// Memory of all tasks at the last look; what forked processes share may count several times where no limit is near.
    pub(crate) memory_bytes: u64,
    /// Tasks ended for their memory so far.
    pub(crate) too_much_memory: u64,
    /// Tasks ended for the number of their processes so far.
    pub(crate) too_many_processes: u64,
}

#[derive(Debug)]
struct Task {
    /// Leader of its group.
    root: u32,
    /// At the last look its memory was beyond the limit.
    is_suspect: bool,
    /// Taken when it is used.
    verdict: Option<oneshot::Sender<Excess>>,
}

/// A task under watch, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    watch: Watch,
    id: u64,
    /// Resolves when the task is to be ended.
    pub(crate) verdict: oneshot::Receiver<Excess>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.tasks.lock().remove(&self.id);
    }
}

impl Watch {
    /// A watch over nothing yet.
    pub(crate) fn new(confinement: Confinement) -> Self {
        Watch { confinement, tasks: Arc::default(), seen: Arc::default() }
    }

    /// What tasks may use.
    pub(crate) fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// What looks have found.
    pub(crate) fn seen(&self) -> Seen {
        *self.seen.lock()
    }

    /// Adds the runner `id`, whose process group is led by `root`.
    pub(crate) fn over(&self, id: u64, root: u32) -> Watched {
        let (sender, verdict) = oneshot::channel();
        self.tasks.lock().insert(id, Task { root, is_suspect: false, verdict: Some(sender) });
        Watched { watch: self.clone(), id, verdict }
    }

    /// Looks again and again, for as long as it is polled. A series of looks that fail is logged once.
    pub(crate) async fn run(self) {
        let mut ticks = tokio::time::interval(LOOK_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_blind = false;
        loop {
            ticks.tick().await;
            let watch = self.clone();
            match tokio::task::spawn_blocking(move || watch.look()).await {
                Ok(Ok(())) => is_blind = false,
                Ok(Err(error)) if !is_blind => {
                    is_blind = true;
                    tracing::warn!(%error, "cannot look at what tasks use: limits of memory and processes do not hold");
                }
                Ok(Err(_)) => {}
                // The runtime ends.
                Err(_) => return,
            }
        }
    }

    fn look(&self) -> io::Result<()> {
        let roots: Vec<(u64, u32)> =
            self.tasks.lock().iter().map(|(id, task)| (*id, task.root)).collect();
        let table = if roots.is_empty() { Table::default() } else { Table::read()? };
        let mut memory_bytes: u64 = 0;
        for (id, root) in roots {
            let members = table.family(root);
            let used = self.memory_bytes(&members)?;
            memory_bytes = memory_bytes.saturating_add(used);
            let processes = self.confinement.processes(members.len());
            let memory = self.confinement.memory(used);
            let mut tasks = self.tasks.lock();
            if let Some(excess) = tasks.get_mut(&id).and_then(|task| task.judge(processes, memory))
            {
                let mut seen = self.seen.lock();
                match excess {
                    Excess::Memory { .. } => seen.too_much_memory += 1,
                    Excess::Processes { .. } => seen.too_many_processes += 1,
                }
            }
        }
        self.seen.lock().memory_bytes = memory_bytes;
        Ok(())
    }

    /// Memory of a task: what it is at most, unless that is too much.
    fn memory_bytes(&self, members: &BTreeSet<u32>) -> io::Result<u64> {
        let most = family::memory_bytes_max(members)?;
        match self.confinement.memory(most) {
            Some(_) => family::memory_bytes(members),
            None => Ok(most),
        }
    }
}

impl Task {
    /// Why the task is to be ended from now on, if it is.
    fn judge(&mut self, processes: Option<Excess>, memory: Option<Excess>) -> Option<Excess> {
        let was_suspect = std::mem::replace(&mut self.is_suspect, memory.is_some());
        let excess = processes.or(memory.filter(|_| was_suspect))?;
        // A runner that does not listen any more is ending its task for another reason.
        self.verdict.take()?.send(excess).ok()?;
        Some(excess)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::process::Limits;

    #[test]
    fn memory_takes_two_looks_in_a_row_and_processes_one() {
        let memory = Some(Excess::Memory { used: 2, limit: 1 });
        let processes = Some(Excess::Processes { count: 2, limit: 1 });
        for (looks, verdict) in [
            (&[(None, memory), (None, memory)][..], memory),
            (&[(None, memory), (None, None), (None, memory)], None),
            (&[(None, None), (processes, None)], processes),
            (&[(None, None), (None, memory)], None),
        ] {
            let (sender, mut receiver) = oneshot::channel();
            let mut task = Task { root: 1, is_suspect: false, verdict: Some(sender) };
            let found: Vec<Excess> = looks
                .iter()
                .filter_map(|(processes, memory)| task.judge(*processes, *memory))
                .collect();
            assert_eq!(found, verdict.into_iter().collect::<Vec<_>>());
            assert_eq!(receiver.try_recv().ok(), verdict, "{looks:?}");
        }
    }

    #[test]
    fn only_who_uses_too_much_hears_of_it_and_who_left_is_not_looked_at() {
        let limits = Limits::default();
        let watch = Watch::new(Confinement { memory_bytes: Some(1), processes: None, limits });
        watch.look().unwrap();
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let group = own.rsplit_once(')').unwrap().1.split_whitespace().nth(2).unwrap();
        let mut own = watch.over(1, group.parse().unwrap());
        let mut other = watch.over(2, u32::MAX);
        watch.look().unwrap();
        assert!(own.verdict.try_recv().is_err(), "one look is not enough");
        watch.look().unwrap();
        assert!(matches!(own.verdict.try_recv(), Ok(Excess::Memory { limit: 1, .. })));
        assert!(other.verdict.try_recv().is_err());
        let seen = watch.seen();
        assert!(seen.memory_bytes > 0, "{seen:?}");
        assert_eq!((seen.too_much_memory, seen.too_many_processes), (1, 0));
        drop((own, other));
        watch.look().unwrap();
        assert_eq!(watch.seen().memory_bytes, 0);
    }
}

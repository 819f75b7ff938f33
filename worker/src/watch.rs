//! Looks at what the tasks here use with their children, all in one pass over the process table, and at what lies in their directories, and
//! tells the runners of those beyond a limit.
//!
//! Invariants: memory is judged by what processes have of their own: the quick sum, which counts what forked processes share several times, only
//! says when it is worth to ask the kernel. A task is ended for memory only if two successive looks find too much, as a child between fork and exec
//! shows all the memory of its parent.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sys::beneath::Dir;
use sys::family::{self, Table};
use sys::pids::Group;
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use crate::confinement::{Confinement, Excess};
use crate::scratch;

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
    /// Tasks ended for what they held on disk so far.
    pub(crate) too_much_disk: u64,
}

impl Seen {
    fn count(&mut self, excess: Excess) {
        let count = match excess {
            Excess::Memory { .. } => &mut self.too_much_memory,
            Excess::Processes { .. } => &mut self.too_many_processes,
            Excess::Disk { .. } | Excess::DiskFull { .. } => &mut self.too_much_disk,
        };
        *count += 1;
    }
}

#[derive(Debug)]
struct Task {
    /// Leader of its group.
    root: u32,
    /// Where there are cgroups, its own: those who are in it belong to the task whatever they did to hide it.
    pids: Option<Arc<Group>>,
    /// What it holds on disk lies here.
    directories: Vec<Arc<Dir>>,
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

impl Watched {
    /// Who is in this cgroup belongs to the task.
    pub(crate) fn count_in(&self, pids: Arc<Group>) {
        if let Some(task) = self.watch.tasks.lock().get_mut(&self.id) {
            task.pids = Some(pids);
        }
    }

    /// From now on what lies in these directories counts.
    pub(crate) fn look_into(&self, directories: Vec<Arc<Dir>>) {
        if let Some(task) = self.watch.tasks.lock().get_mut(&self.id) {
            task.directories = directories;
        }
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
        let task = Task {
            root,
            pids: None,
            directories: Vec::new(),
            is_suspect: false,
            verdict: Some(sender),
        };
        self.tasks.lock().insert(id, task);
        Watched { watch: self.clone(), id, verdict }
    }

    /// Looks again and again, for as long as it is polled. Many files make the look at disks slow, which keeps no other look waiting.
    pub(crate) async fn run(self) {
        tokio::join!(
            self.repeat(Watch::look, "limits of memory and processes do not hold"),
            self.repeat(Watch::look_at_disk, "limits of disk space do not hold"),
        );
    }

    /// A series of looks that fail is logged once.
    async fn repeat(&self, look: fn(&Watch) -> io::Result<()>, consequence: &'static str) {
        let mut ticks = tokio::time::interval(LOOK_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_blind = false;
        loop {
            ticks.tick().await;
            let watch = self.clone();
            match tokio::task::spawn_blocking(move || look(&watch)).await {
                Ok(Ok(())) => is_blind = false,
                Ok(Err(error)) if !is_blind => {
                    is_blind = true;
                    tracing::warn!(%error, "cannot look at what tasks use: {consequence}");
                }
                Ok(Err(_)) => {}
                // The runtime ends.
                Err(_) => return,
            }
        }
    }

    fn look(&self) -> io::Result<()> {
        let roots: Vec<(u64, u32, Option<Arc<Group>>)> = {
            let tasks = self.tasks.lock();
            tasks.iter().map(|(id, task)| (*id, task.root, task.pids.clone())).collect()
        };
        let table = if roots.is_empty() { Table::default() } else { Table::read()? };
        let mut memory_bytes: u64 = 0;
        for (id, root, pids) in roots {
            let mut members = table.family(root);
            if let Some(pids) = pids {
                members.extend(scratch::unless_gone(pids.members())?.unwrap_or_default());
            }
            let used = self.memory_bytes(&members)?;
            memory_bytes = memory_bytes.saturating_add(used);
            let processes = self.confinement.processes(members.len());
            let memory = self.confinement.memory(used);
            let mut tasks = self.tasks.lock();
            let excess = tasks.get_mut(&id).and_then(|task| task.judge(processes, memory));
            excess.into_iter().for_each(|excess| self.seen.lock().count(excess));
        }
        self.seen.lock().memory_bytes = memory_bytes;
        Ok(())
    }

    fn look_at_disk(&self) -> io::Result<()> {
        self.judge_disk(Dir::available_bytes)
    }

    /// `free` tells the bytes left on the disk of a directory. A task that cannot be looked at keeps none of the others from being judged.
    fn judge_disk(&self, free: impl Fn(&Dir) -> io::Result<u64>) -> io::Result<()> {
        let places: Vec<(u64, Vec<Arc<Dir>>)> = {
            let tasks = self.tasks.lock();
            tasks.iter().map(|(id, task)| (*id, task.directories.clone())).collect()
        };
        let mut outcome = Ok(());
        let mut most: Option<(u64, u64, &Dir)> = None;
        for (id, directories) in &places {
            let used = directories
                .iter()
                .try_fold(0u64, |used, directory| Ok(used.saturating_add(directory.used_bytes()?)));
            let used = match used {
                Ok(used) => used,
                Err(error) => {
                    outcome = Err(error);
                    continue;
                }
            };
            self.end(*id, self.confinement.disk(used));
            if let Some(directory) = directories.first()
                && most.is_none_or(|(_, other, _)| used > other)
            {
                most = Some((*id, used, directory));
            }
        }
        if let Some((id, used, directory)) = most
            && let Some(free) = scratch::unless_gone(free(directory))?
        {
            self.end(id, self.confinement.disk_full(used, free));
        }
        outcome
    }

    /// Ends a task for what it holds on disk, if it is too much.
    fn end(&self, id: u64, excess: Option<Excess>) {
        let mut tasks = self.tasks.lock();
        let told = tasks.get_mut(&id).zip(excess).and_then(|(task, excess)| task.tell(excess));
        told.into_iter().for_each(|excess| self.seen.lock().count(excess));
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
        self.tell(processes.or(memory.filter(|_| was_suspect))?)
    }

    /// Tells its runner, once.
    fn tell(&mut self, excess: Excess) -> Option<Excess> {
        // A runner that does not listen any more is ending its task for another reason.
        self.verdict.take()?.send(excess).ok()?;
        Some(excess)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::process::Limits;

    const NOTHING: Confinement = Confinement {
        memory_bytes: None,
        processes: None,
        disk_bytes: None,
        disk_reserve_bytes: None,
        limits: Limits {
            data_bytes: None,
            open_files: None,
            cpu_seconds: None,
            file_bytes: None,
            user_threads: None,
        },
    };

    fn open(path: &std::path::Path) -> Arc<Dir> {
        Arc::new(Dir::open(path).unwrap())
    }

    #[test]
    fn files_count_only_where_the_task_holds_them_and_only_now() {
        let directory = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
        for place in [&first, &second] {
            std::fs::create_dir(place).unwrap();
            std::fs::write(place.join("file"), vec![7; 300_000]).unwrap();
        }
        let watch = Watch::new(Confinement { disk_bytes: Some(500_000), ..NOTHING });
        let mut task = watch.over(1, u32::MAX);
        watch.look_at_disk().unwrap();
        task.look_into(vec![open(&first)]);
        watch.look_at_disk().unwrap();
        assert!(task.verdict.try_recv().is_err());
        let gone = directory.path().join("gone");
        std::fs::create_dir(&gone).unwrap();
        task.look_into(vec![open(&first), open(&second), open(&gone)]);
        std::fs::remove_dir(gone).unwrap();
        watch.look_at_disk().unwrap();
        assert!(matches!(task.verdict.try_recv(), Ok(Excess::Disk { limit: 500_000, .. })));
        watch.look_at_disk().unwrap();
        assert_eq!(watch.seen().too_much_disk, 1);
    }

    #[test]
    fn on_a_full_disk_the_task_that_holds_most_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let watch = Watch::new(Confinement { disk_reserve_bytes: Some(50_000), ..NOTHING });
        let mut tasks: Vec<Watched> = [10, 90_000, 500]
            .into_iter()
            .enumerate()
            .map(|(number, bytes)| {
                let place = directory.path().join(number.to_string());
                std::fs::create_dir(&place).unwrap();
                std::fs::write(place.join("file"), vec![7; bytes]).unwrap();
                let task = watch.over(number as u64, u32::MAX);
                task.look_into(vec![open(&place)]);
                task
            })
            .collect();
        let mut ended = |free| -> Vec<usize> {
            watch.judge_disk(|_| Ok(free)).unwrap();
            let told = |task: &mut Watched| task.verdict.try_recv();
            let verdicts = tasks.iter_mut().map(told).enumerate();
            verdicts.filter_map(|(number, verdict)| verdict.is_ok().then_some(number)).collect()
        };
        assert!(ended(50_000).is_empty(), "there is room");
        assert_eq!(ended(49_999), [1]);
        assert!(ended(0).is_empty(), "it is told once, and the others hold too little");
        assert_eq!(watch.seen().too_much_disk, 1);
    }

    #[test]
    fn a_task_that_cannot_be_looked_at_does_not_hide_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let [bottomless, large] = ["bottomless", "large"].map(|name| directory.path().join(name));
        for place in [&bottomless, &large] {
            std::fs::create_dir(place).unwrap();
        }
        let mut here = Dir::open(&bottomless).unwrap();
        (0..1_100).for_each(|_| here = here.make_dir("deeper").unwrap());
        std::fs::write(large.join("file"), vec![7; 100_000]).unwrap();
        let watch = Watch::new(Confinement { disk_bytes: Some(50_000), ..NOTHING });
        let (locked, mut full) = (watch.over(1, u32::MAX), watch.over(2, u32::MAX));
        locked.look_into(vec![open(&bottomless)]);
        full.look_into(vec![open(&large)]);
        watch.look_at_disk().unwrap_err();
        assert!(matches!(full.verdict.try_recv(), Ok(Excess::Disk { .. })));
    }

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
            let mut task = Task {
                root: 1,
                pids: None,
                directories: Vec::new(),
                is_suspect: false,
                verdict: Some(sender),
            };
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
        let watch = Watch::new(Confinement { memory_bytes: Some(1), ..NOTHING });
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

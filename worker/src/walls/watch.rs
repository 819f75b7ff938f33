//! Measures what the tasks here use with their children, in one pass over the process table, and the size of their directories. Notifies
//! the runners of tasks beyond a limit.
//!
//! Invariants: memory is judged by the private memory of processes. The quick sum, which counts memory shared by forked processes several
//! times, only decides when to ask the kernel. A task is ended for memory only if two successive checks find too much, because a child
//! between fork and exec appears with all the memory of its parent. A task that cannot be inspected may hold anything: the second such
//! check in a row ends it. Files in the directory of a job that belong to no attempt there, such as files in `$HOME`, count for each of its
//! tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sys::cgroup::Group;
use sys::family::{self, Table};
use sys::holding;
use sys::measure::measure;
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use super::confinement::{Confinement, Excess};
use crate::scratch;

/// Interval of checks: a task that allocates a gigabyte a second is caught within a gigabyte.
const CHECK_PERIOD: Duration = Duration::from_millis(500);
/// How old the process table of a check may be: checks that begin together share one.
const TABLE_AGE_MAX: Duration = Duration::from_millis(100);

/// The watched tasks. Cheap to clone; clones share.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    confinement: Confinement,
    tasks: Arc<Mutex<BTreeMap<u64, Task>>>,
    /// Directories of attempts that are being deleted: they count for no task.
    leaving: Arc<Mutex<BTreeSet<OsString>>>,
    seen: Arc<Mutex<Seen>>,
    latest: Arc<Mutex<Option<Reading>>>,
}

/// A process table and when it was read.
#[derive(Clone, Debug)]
struct Reading {
    at: Instant,
    table: Arc<Table>,
}

/// The results of the checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// Memory of all tasks at the last check; memory that forked processes share can count several times while no limit is near.
    pub(crate) memory_bytes: u64,
    /// Tasks ended for their memory so far.
    pub(crate) too_much_memory: u64,
    /// Tasks ended for the number of their processes so far.
    pub(crate) too_many_processes: u64,
    /// Tasks ended for what they held on disk so far.
    pub(crate) too_much_disk: u64,
    /// Tasks ended because they could not be inspected so far.
    pub(crate) hidden: u64,
}

impl Seen {
    fn count(&mut self, excess: Excess) {
        let count = match excess {
            Excess::Memory { .. } | Excess::MemoryBound { .. } => &mut self.too_much_memory,
            Excess::Processes { .. } => &mut self.too_many_processes,
            Excess::Disk { .. } | Excess::DiskFull { .. } => &mut self.too_much_disk,
            Excess::HiddenProcesses | Excess::HiddenFiles => &mut self.hidden,
        };
        *count += 1;
    }
}

#[derive(Debug)]
struct Task {
    /// Leader of its process group.
    root: u32,
    /// Its cgroup, if there are cgroups: a process in it belongs to the task whatever it did to hide that.
    pids: Option<Arc<Group>>,
    /// The mark in the environment of its descendants.
    mark: String,
    /// The directory that it can write to.
    job: PathBuf,
    /// The entries in there that are its own.
    own: BTreeSet<OsString>,
    /// The findings of the last checks.
    suspicion: Suspicion,
    /// Taken when it is sent.
    verdict: Option<oneshot::Sender<Excess>>,
}

/// Findings that count only twice in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Suspicion {
    /// Memory beyond the limit.
    memory: bool,
    /// Processes that could not be inspected.
    processes: bool,
    /// Files that could not be inspected.
    files: bool,
}

/// The state of a task before a check.
struct Known {
    id: u64,
    root: u32,
    pids: Option<Arc<Group>>,
    job: PathBuf,
    own: BTreeSet<OsString>,
}

impl Known {
    /// Its processes.
    fn members(&self, table: &Table) -> io::Result<BTreeSet<u32>> {
        let mut members = table.family(self.root);
        if let Some(pids) = &self.pids {
            members.extend(scratch::unless_gone(pids.members())?.unwrap_or_default());
        }
        Ok(members)
    }
}

/// A task under watch, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    watch: Watch,
    id: u64,
    /// Resolves when the task must end.
    pub(crate) verdict: oneshot::Receiver<Excess>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.tasks.lock().remove(&self.id);
    }
}

/// See [`Watch::leaving`].
#[derive(Debug)]
pub(crate) struct Leaving {
    watch: Watch,
    name: OsString,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.watch.leaving.lock().remove(&self.name);
    }
}

impl Watched {
    /// From now on, every process in this cgroup belongs to the task.
    pub(crate) fn count_in(&self, pids: Arc<Group>) {
        if let Some(task) = self.watch.tasks.lock().get_mut(&self.id) {
            task.pids = Some(pids);
        }
    }

    /// From now on these entries of its job's directory belong to this task alone.
    pub(crate) fn owns(&self, names: impl IntoIterator<Item = OsString>) {
        if let Some(task) = self.watch.tasks.lock().get_mut(&self.id) {
            task.own = names.into_iter().collect();
        }
    }
}

impl Watch {
    /// A watch without tasks yet.
    pub(crate) fn new(confinement: Confinement) -> Self {
        Watch {
            confinement,
            tasks: Arc::default(),
            leaving: Arc::default(),
            seen: Arc::default(),
            latest: Arc::default(),
        }
    }

    /// The limits of tasks.
    pub(crate) fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// The results of the checks so far.
    pub(crate) fn seen(&self) -> Seen {
        *self.seen.lock()
    }

    /// Why a task in this cgroup ended, if the kernel ended it for its memory.
    pub(crate) fn ended_for_memory(&self, group: &Group) -> Option<Excess> {
        let limit = self.confinement.memory_bytes?;
        match group.was_ended_for_memory() {
            Ok(true) => {
                let excess = Excess::MemoryBound { limit };
                self.seen.lock().count(excess);
                Some(excess)
            }
            Ok(false) => None,
            Err(error) => {
                tracing::warn!(%error, "cannot tell whether a task was ended for its memory");
                None
            }
        }
    }

    /// Adds the runner `id`, whose job has the directory `job` and whose session is led by `root`; its descendants have `mark` in their
    /// environment.
    pub(crate) fn over(&self, id: u64, root: u32, mark: &str, job: PathBuf) -> Watched {
        let (sender, verdict) = oneshot::channel();
        let task = Task {
            root,
            pids: None,
            mark: mark.to_owned(),
            job,
            own: BTreeSet::new(),
            suspicion: Suspicion::default(),
            verdict: Some(sender),
        };
        self.tasks.lock().insert(id, task);
        Watched { watch: self.clone(), id, verdict }
    }

    /// Marks the entry of this name, unique among the directories of jobs, as being deleted. It counts for no task until the returned value
    /// is dropped.
    pub(crate) fn leaving(&self, name: &str) -> Leaving {
        self.leaving.lock().insert(name.into());
        Leaving { watch: self.clone(), name: name.into() }
    }

    /// Repeats the checks for as long as it is polled. Many files make the check of disks slow, which delays no other check.
    pub(crate) async fn run(self) {
        tokio::join!(
            self.repeat(Watch::check_processes, "limits of memory and processes do not hold"),
            self.repeat(Watch::check_disk, "limits of disk space do not hold"),
            self.repeat(
                |watch| watch.end_orphans(None).map(drop),
                "processes that left their tasks are not ended"
            ),
        );
    }

    /// Logs a series of failed checks once.
    async fn repeat(&self, check: fn(&Watch) -> io::Result<()>, consequence: &'static str) {
        let mut ticks = tokio::time::interval(CHECK_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_blind = false;
        loop {
            ticks.tick().await;
            let watch = self.clone();
            match tokio::task::spawn_blocking(move || check(&watch)).await {
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

    fn known(&self) -> Vec<Known> {
        let known = |(id, task): (&u64, &Task)| Known {
            id: *id,
            root: task.root,
            pids: task.pids.clone(),
            job: task.job.clone(),
            own: task.own.clone(),
        };
        self.tasks.lock().iter().map(known).collect()
    }

    /// The process table of this check or of another one at about the same time.
    fn table(&self) -> io::Result<Arc<Table>> {
        let mut latest = self.latest.lock();
        if let Some(Reading { at, table }) = latest.as_ref()
            && at.elapsed() < TABLE_AGE_MAX
        {
            return Ok(Arc::clone(table));
        }
        let at = Instant::now();
        let table = Arc::new(Table::read()?);
        *latest = Some(Reading { at, table: Arc::clone(&table) });
        Ok(table)
    }

    /// Whether a task has too many processes at this moment.
    pub(crate) fn has_too_many_processes(&self, id: u64) -> io::Result<Option<Excess>> {
        let Some(task) = self.known().into_iter().find(|task| task.id == id) else {
            return Ok(None);
        };
        let excess = self.confinement.processes(task.members(&Table::read()?)?.len());
        excess.iter().for_each(|excess| self.seen.lock().count(*excess));
        Ok(excess)
    }

    fn check_processes(&self) -> io::Result<()> {
        let known = self.known();
        let table = if known.is_empty() { Arc::default() } else { self.table()? };
        let mut memory_bytes: u64 = 0;
        let mut outcome = Ok(());
        for task in known {
            let inspected = task.members(&table).and_then(|members| {
                let used = holding::memory_bytes(&members, self.confinement.memory_bytes)?;
                Ok((members.len(), used))
            });
            let found = match inspected {
                Ok((count, used)) => {
                    memory_bytes = memory_bytes.saturating_add(used);
                    (self.confinement.processes(count), self.confinement.memory(used), false)
                }
                Err(error) if is_hidden(&error) => {
                    (None, None, self.confinement.memory_bytes.is_some())
                }
                Err(error) => {
                    outcome = Err(error);
                    continue;
                }
            };
            let mut tasks = self.tasks.lock();
            let excess = tasks.get_mut(&task.id).and_then(|task| task.judge(found));
            excess.into_iter().for_each(|excess| self.seen.lock().count(excess));
        }
        self.seen.lock().memory_bytes = memory_bytes;
        outcome
    }

    /// Ends processes that left their task, their session and their environment behind: their owner is unknown. `over`: the task that ends.
    pub(crate) fn end_orphans(&self, over: Option<u64>) -> io::Result<bool> {
        let tasks = self.tasks.lock();
        let others = tasks.iter().filter(|(id, _)| Some(**id) != over);
        let others: Vec<(u32, String)> =
            others.map(|(_, task)| (task.root, task.mark.clone())).collect();
        drop(tasks);
        sys::orphans::end_all(|process, table| {
            others.iter().any(|(root, mark)| {
                table.family(*root).contains(&process) || family::carries(process, mark)
            })
        })
    }

    fn check_disk(&self) -> io::Result<()> {
        self.judge_disk(sys::measure::available_bytes)
    }

    /// `free` returns the bytes left on the disk of a directory. A task that cannot be inspected prevents no check of the others.
    fn judge_disk(&self, free: impl Fn(&Path) -> io::Result<u64>) -> io::Result<()> {
        let known = self.known();
        let table = if known.is_empty() { Arc::default() } else { self.table()? };
        let mut outcome = Ok(());
        let mut most: Option<(&Known, u64)> = None;
        for tasks in by_job(&known) {
            let job = measure(&tasks[0].job);
            let leaving = self.leaving.lock().clone();
            let owned = tasks.iter().flat_map(|task| &task.own).chain(&leaving);
            let owned: BTreeSet<&OsString> = owned.collect();
            for task in tasks {
                let used = match &job {
                    Ok(job) => task.members(&table).and_then(|members| {
                        let named = job
                            .entries
                            .iter()
                            .filter(|(name, _)| task.own.contains(*name) || !owned.contains(name));
                        let named = named.fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
                        Ok(named.saturating_add(holding::deleted_bytes(&members)?))
                    }),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                };
                let hidden = used.as_ref().err().is_some_and(is_hidden);
                self.end(task.id, |suspicion| suspicion.of_files(hidden));
                match used {
                    Ok(used) => {
                        self.end(task.id, |_| self.confinement.disk(used));
                        if most.is_none_or(|(_, other)| used > other) {
                            most = Some((task, used));
                        }
                    }
                    Err(_) if hidden => {}
                    Err(error) => outcome = Err(error),
                }
            }
        }
        if let Some((task, used)) = most
            && let Some(free) = scratch::unless_gone(free(&task.job))?
        {
            self.end(task.id, |_| self.confinement.disk_full(used, free));
        }
        outcome
    }

    /// Ends a task for its use of the disk, if that is too much.
    fn end(&self, id: u64, judge: impl FnOnce(&mut Suspicion) -> Option<Excess>) {
        let mut tasks = self.tasks.lock();
        let sent = tasks.get_mut(&id).and_then(|task| {
            let excess = judge(&mut task.suspicion)?;
            task.notify(excess)
        });
        sent.into_iter().for_each(|excess| self.seen.lock().count(excess));
    }
}

/// The tasks of each job.
fn by_job(known: &[Known]) -> Vec<Vec<&Known>> {
    let mut jobs: BTreeMap<&Path, Vec<&Known>> = BTreeMap::new();
    for task in known {
        jobs.entry(task.job.as_path()).or_default().push(task);
    }
    jobs.into_values().collect()
}

/// True if the task caused the failure of an inspection, and not the state of this machine.
fn is_hidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData)
}

impl Suspicion {
    /// Why to end a task whose files could not be inspected, now and at the check before.
    fn of_files(&mut self, is_hidden: bool) -> Option<Excess> {
        let was_hidden = std::mem::replace(&mut self.files, is_hidden);
        (is_hidden && was_hidden).then_some(Excess::HiddenFiles)
    }
}

impl Task {
    /// Why to end the task from now on, if there is a reason: too many processes, too much memory, or processes that could not be
    /// inspected.
    fn judge(
        &mut self,
        (processes, memory, is_hidden): (Option<Excess>, Option<Excess>, bool),
    ) -> Option<Excess> {
        let now = Suspicion { memory: memory.is_some(), processes: is_hidden, ..self.suspicion };
        let before = std::mem::replace(&mut self.suspicion, now);
        let hidden = (is_hidden && before.processes).then_some(Excess::HiddenProcesses);
        self.notify(processes.or(memory.filter(|_| before.memory)).or(hidden)?)
    }

    /// Notifies its runner, once.
    fn notify(&mut self, excess: Excess) -> Option<Excess> {
        // A runner that no longer listens is already ending its task for another reason.
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

    /// Makes the directory of a job, with a file of this many bytes in each of these entries.
    fn job(directory: &Path, entries: &[(&str, usize)]) -> PathBuf {
        for (name, bytes) in entries {
            std::fs::create_dir(directory.join(name)).unwrap();
            std::fs::write(directory.join(name).join("file"), vec![7; *bytes]).unwrap();
        }
        directory.to_owned()
    }

    fn owns(task: &Watched, names: &[&str]) {
        task.owns(names.iter().map(OsString::from));
    }

    #[test]
    fn files_count_where_the_task_may_have_put_them_and_not_what_is_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let job = job(directory.path(), &[("first", 300_000), ("second", 300_000)]);
        let watch = Watch::new(Confinement { disk_bytes: Some(500_000), ..NOTHING });
        let mut one = watch.over(1, u32::MAX, "", job.clone());
        let mut other = watch.over(2, u32::MAX, "", job.clone());
        owns(&one, &["first"]);
        owns(&other, &["second", "missing"]);
        watch.check_disk().unwrap();
        assert!(one.verdict.try_recv().is_err() && other.verdict.try_recv().is_err());
        // In `$HOME`, a file that either task may have written.
        std::fs::write(directory.path().join("stray"), vec![7; 300_000]).unwrap();
        let leaving = watch.leaving("stray");
        watch.check_disk().unwrap();
        drop(leaving);
        assert!(one.verdict.try_recv().is_err() && other.verdict.try_recv().is_err());
        watch.check_disk().unwrap();
        for task in [&mut one, &mut other] {
            assert!(matches!(task.verdict.try_recv(), Ok(Excess::Disk { limit: 500_000, .. })));
        }
        watch.check_disk().unwrap();
        assert_eq!(watch.seen().too_much_disk, 2);
    }

    #[test]
    fn on_a_full_disk_the_task_that_holds_most_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let job = job(directory.path(), &[("0", 10), ("1", 90_000), ("2", 500)]);
        let watch = Watch::new(Confinement { disk_reserve_bytes: Some(50_000), ..NOTHING });
        let mut tasks: Vec<Watched> = (0..3)
            .map(|number| {
                let task = watch.over(number, u32::MAX, "", job.clone());
                owns(&task, &[&number.to_string()]);
                task
            })
            .collect();
        let mut ended = |free| -> Vec<usize> {
            watch.judge_disk(|_| Ok(free)).unwrap();
            let verdict = |task: &mut Watched| task.verdict.try_recv();
            let verdicts = tasks.iter_mut().map(verdict).enumerate();
            verdicts.filter_map(|(number, verdict)| verdict.is_ok().then_some(number)).collect()
        };
        assert!(ended(50_000).is_empty(), "there is room");
        assert_eq!(ended(49_999), [1]);
        assert!(ended(0).is_empty(), "it is told once, and the others hold too little");
        assert_eq!(watch.seen().too_much_disk, 1);
    }

    #[test]
    fn a_task_that_cannot_be_looked_at_is_ended_and_does_not_hide_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let [bottomless, large] = ["bottomless", "large"].map(|name| directory.path().join(name));
        for place in [&bottomless, &large] {
            std::fs::create_dir(place).unwrap();
        }
        let (bottomless, large) = (job(&bottomless, &[]), job(&large, &[("file", 100_000)]));
        let mut deep = bottomless.clone();
        (0..300).for_each(|_| deep.push("deeper"));
        std::fs::create_dir_all(deep).unwrap();
        let watch = Watch::new(Confinement { disk_bytes: Some(50_000), ..NOTHING });
        let mut hiding = watch.over(1, u32::MAX, "", bottomless);
        let mut full = watch.over(2, u32::MAX, "", large);
        watch.check_disk().unwrap();
        assert!(matches!(full.verdict.try_recv(), Ok(Excess::Disk { .. })));
        assert!(hiding.verdict.try_recv().is_err(), "one check is not enough");
        watch.check_disk().unwrap();
        assert!(matches!(hiding.verdict.try_recv(), Ok(Excess::HiddenFiles)));
        assert_eq!(watch.seen().hidden, 1);
    }

    #[test]
    fn memory_and_what_hides_take_two_looks_in_a_row_and_processes_one() {
        let directory = tempfile::tempdir().unwrap();
        let memory = Some(Excess::Memory { used: 2, limit: 1 });
        let processes = Some(Excess::Processes { count: 2, limit: 1 });
        let hidden = Some(Excess::HiddenProcesses);
        for (checks, verdict) in [
            (&[(None, memory, false), (None, memory, false)][..], memory),
            (&[(None, memory, false), (None, None, false), (None, memory, false)], None),
            (&[(None, None, false), (processes, None, false)], processes),
            (&[(None, None, false), (None, memory, false)], None),
            (&[(None, None, true), (None, None, true)], hidden),
            (&[(None, None, true), (None, memory, false), (None, None, true)], None),
        ] {
            let (sender, mut receiver) = oneshot::channel();
            let mut task = Task {
                root: 1,
                pids: None,
                mark: String::new(),
                job: job(directory.path(), &[]),
                own: BTreeSet::new(),
                suspicion: Suspicion::default(),
                verdict: Some(sender),
            };
            let found: Vec<Excess> = checks.iter().filter_map(|check| task.judge(*check)).collect();
            assert_eq!(found, verdict.into_iter().collect::<Vec<_>>());
            assert_eq!(receiver.try_recv().ok(), verdict, "{checks:?}");
        }
    }

    #[test]
    fn only_who_uses_too_much_hears_of_it_and_who_left_is_not_looked_at() {
        let watch = Watch::new(Confinement { memory_bytes: Some(1), ..NOTHING });
        watch.check_processes().unwrap();
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let group = own.rsplit_once(')').unwrap().1.split_whitespace().nth(2).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let job = job(directory.path(), &[]);
        let mut own = watch.over(1, group.parse().unwrap(), "", job.clone());
        let mut other = watch.over(2, u32::MAX, "", job);
        watch.check_processes().unwrap();
        assert!(own.verdict.try_recv().is_err(), "one check is not enough");
        watch.check_processes().unwrap();
        assert!(matches!(own.verdict.try_recv(), Ok(Excess::Memory { limit: 1, .. })));
        assert!(other.verdict.try_recv().is_err());
        let seen = watch.seen();
        assert!(seen.memory_bytes > 0, "{seen:?}");
        assert_eq!((seen.too_much_memory, seen.too_many_processes), (1, 0));
        drop((own, other));
        watch.check_processes().unwrap();
        assert_eq!(watch.seen().memory_bytes, 0);
    }
}

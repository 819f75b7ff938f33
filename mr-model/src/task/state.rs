//! What an attempt's [`Context`](super::Context) shares with whoever runs the attempt: what the runner sets for user code, and what it
//! reports of it.
//!
//! Invariant: another thread can read counters and progress at any time (life signs are sent this way while user code runs); they only
//! grow.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use protocol::counters::CountersError;
use protocol::jobs::Counters;
use protocol::phase::{self, Phase};
use protocol::property::{Key, Properties, PropertyError, Value};
use protocol::tracker::HotKey;
use protocol::{AttemptId, TaskKind};
use shuffle::Life;

use super::counters::{Amounts, Counter};
use crate::error::Result;

/// Opens a file of the job's file system.
pub type OpenFile = dyn Fn(&str) -> Result<Box<dyn Read>> + Send + Sync;

/// Group of the engine's counters, under Hadoop's class name.
pub const TASK_COUNTERS: &str = "org.apache.hadoop.mapreduce.TaskCounter";
/// Group of bytes read by input formats.
pub const INPUT_COUNTERS: &str = "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter";
/// Group of bytes written by output formats.
pub(crate) const OUTPUT_COUNTERS: &str =
    "org.apache.hadoop.mapreduce.lib.output.FileOutputFormatCounter";
/// The groups in which the engine counts.
#[cfg(test)]
pub(super) const ENGINE_GROUPS: [&str; 4] =
    [TASK_COUNTERS, INPUT_COUNTERS, OUTPUT_COUNTERS, phase::GROUP];

/// What a map reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskInput {
    /// The file.
    pub path: String,
    /// First byte of the split.
    pub start: u64,
    /// Bytes of the split.
    pub length: u64,
    /// Which of the job's inputs it belongs to, in the order in which they were added.
    pub number: u32,
}

/// How many tasks the job has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskCounts {
    /// Map tasks.
    pub maps: u32,
    /// Reduce tasks.
    pub reduces: u32,
}

/// The state of an attempt, which its contexts share.
pub struct TaskState {
    pub(super) attempt: AttemptId,
    pub(super) properties: BTreeMap<String, String>,
    pub(super) counters: Mutex<BTreeMap<(String, String), Counter>>,
    /// The first counter that user code requested beyond the limits.
    pub(super) beyond: OnceLock<CountersError>,
    pub(super) surroundings: Surroundings,
    /// 0 to 1, as the bits of an `f32`.
    progress: AtomicU32,
    /// Index of the phase in [`Phase::ALL`].
    phase: AtomicU8,
    /// Shown by everything that the task does.
    life: Life,
    /// Looks at it that found it shown.
    life_signs: AtomicU64,
    /// Set when a reduce is done.
    hot_keys: OnceLock<Vec<HotKey>>,
    /// What the task says that it does.
    status: Mutex<String>,
}

/// What the engine sets for the task before user code runs.
#[derive(Default)]
pub(super) struct Surroundings {
    pub(super) directory: OnceLock<PathBuf>,
    pub(super) side_files: OnceLock<BTreeMap<String, PathBuf>>,
    pub(super) input: Mutex<Option<Arc<TaskInput>>>,
    pub(super) counts: OnceLock<TaskCounts>,
    pub(super) output_directory: OnceLock<String>,
    user: OnceLock<String>,
    pub(super) open: OnceLock<Arc<OpenFile>>,
    services: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// The values of a task's counters at some time.
#[derive(Debug)]
pub struct Mark(BTreeMap<(String, String), Amounts>);

impl TaskState {
    pub(super) fn new(attempt: AttemptId, properties: BTreeMap<String, String>) -> Self {
        let first = match attempt.task.kind {
            TaskKind::Map => Phase::Map,
            TaskKind::Reduce => Phase::Shuffle,
        };
        TaskState {
            attempt,
            properties,
            counters: Mutex::new(BTreeMap::new()),
            beyond: OnceLock::new(),
            surroundings: Surroundings::default(),
            progress: AtomicU32::new(0),
            phase: AtomicU8::new(first as u8),
            life: Life::default(),
            life_signs: AtomicU64::new(0),
            hot_keys: OnceLock::new(),
            status: Mutex::default(),
        }
    }

    /// The value of a property that the engine knows.
    ///
    /// # Errors
    /// If the property does not accept its value.
    pub fn value<T: Value>(&self, key: Key<T>) -> Result<Option<T>, PropertyError> {
        key.get(&self.properties)
    }

    /// All properties of the job.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Sets how user code opens files.
    pub fn set_open(&self, open: Arc<OpenFile>) {
        let _ = self.surroundings.open.set(open);
    }

    /// Gives the task what its runner has beyond what authors may use, for jobs that are built into the runner's program.
    pub fn set_services(&self, services: Arc<dyn Any + Send + Sync>) {
        let _ = self.surroundings.services.set(services);
    }

    /// What [`TaskState::set_services`] gave, if it is a `T`.
    pub fn services<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.surroundings.services.get()?).downcast().ok()
    }

    /// The job's owner.
    pub fn user(&self) -> Option<&str> {
        self.surroundings.user.get().map(String::as_str)
    }

    /// Sets the job's owner.
    pub fn set_user(&self, user: String) {
        let _ = self.surroundings.user.set(user);
    }

    /// Sets what a map reads from now on.
    pub fn set_input(&self, input: TaskInput) {
        let mut current = self.surroundings.input.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Some(Arc::new(input));
    }

    /// Sets how many tasks the job has.
    pub fn set_task_counts(&self, counts: TaskCounts) {
        let _ = self.surroundings.counts.set(counts);
    }

    /// Sets where the attempt's output files are until the job commits.
    pub fn set_output_directory(&self, directory: String) {
        let _ = self.surroundings.output_directory.set(directory);
    }

    /// The attempt's directory and the side files of its job, which get links there.
    pub fn set_directory(&self, directory: PathBuf, side_files: BTreeMap<String, PathBuf>) {
        let _ = self.surroundings.directory.set(directory);
        let _ = self.surroundings.side_files.set(side_files);
    }

    /// Whether user code has stayed within the limits of counters so far.
    ///
    /// # Errors
    /// The first limit that it exceeded.
    pub fn check_counters(&self) -> Result<(), CountersError> {
        self.beyond.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// What the task has counted under these names so far.
    pub fn counted(&self, group: &str, name: &str) -> u64 {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.get(&(group.to_owned(), name.to_owned())).map_or(0, Counter::value)
    }

    /// Adds to a counter of the engine, which exists however many counters the user code has.
    pub fn add_to(&self, group: &str, name: &str, amount: u64) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.entry((group.to_owned(), name.to_owned())).or_default().add(amount);
    }

    /// A counter of the engine's own group, to keep.
    pub fn engine_counter(&self, name: &str) -> Counter {
        self.counter_of(phase::GROUP, name)
    }

    /// A counter of the engine in any group, to keep.
    pub(crate) fn counter_of(&self, group: &str, name: &str) -> Counter {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.entry((group.to_owned(), name.to_owned())).or_default().clone()
    }

    /// What the task says that it does; empty if it has said nothing.
    pub fn status(&self) -> String {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_status(&self, text: &str) {
        self.show_life();
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        text.clone_into(&mut status);
    }

    /// Adds to a counter of [`TASK_COUNTERS`].
    pub fn add(&self, name: &str, amount: u64) {
        if amount > 0 {
            self.add_to(TASK_COUNTERS, name, amount);
        }
    }

    /// Sets the share of the work that is done, 0 to 1.
    pub fn set_progress(&self, progress: f64) {
        self.show_life();
        // Shares that are not negative sort as their bits do, so progress never goes back.
        let bits = (progress.clamp(0.0, 1.0) as f32).to_bits();
        self.progress.fetch_max(bits, Ordering::Relaxed);
    }

    /// Sets the phase that begins now.
    pub fn enter(&self, phase: Phase) {
        self.show_life();
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// The phase that the attempt is in.
    pub fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Ordering::Relaxed))]
    }

    pub(super) fn show_life(&self) {
        self.life.show();
    }

    /// The attempt's sign of life, for what shows it with every record.
    pub fn life(&self) -> Life {
        self.life.clone()
    }

    /// Sets the keys with a large share of the records of a finished reduce.
    pub(crate) fn set_hot_keys(&self, hot_keys: Vec<HotKey>) {
        let _ = self.hot_keys.set(hot_keys);
    }

    /// The keys with a large share of the records of a finished reduce.
    pub fn hot_keys(&self) -> Vec<HotKey> {
        self.hot_keys.get().cloned().unwrap_or_default()
    }

    /// Has grown since the last call if the attempt has shown life since then.
    pub fn life_signs(&self) -> u64 {
        let shown = u64::from(self.life.take());
        self.life_signs.fetch_add(shown, Ordering::Relaxed) + shown
    }

    /// The share of the work that is done, 0 to 1.
    pub fn progress(&self) -> f32 {
        f32::from_bits(self.progress.load(Ordering::Relaxed))
    }

    /// The values of all counters now.
    pub fn mark(&self) -> Mark {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        Mark(counters.iter().map(|(name, counter)| (name.clone(), counter.amounts())).collect())
    }

    /// Sets all counters to what they were: what was done since then does not count, because it is done again.
    pub fn return_to(&self, Mark(values): &Mark) {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, counter) in &*counters {
            counter.set(values.get(name).copied().unwrap_or_default());
        }
    }

    /// All counters so far.
    pub fn counters(&self) -> Counters {
        let mut sums = Counters::default();
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        for ((group, name), counter) in &*counters {
            sums.add(group, name, counter.value());
        }
        sums
    }
}

//! What a task knows about itself, and its counters.
//!
//! Invariant: another thread can read counters and progress at any time (life signs are sent this way while user code runs); they only
//! grow.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use protocol::counters::{COUNTERS_MAX, CountersError, check_name};
use protocol::jobs::Counters;
use protocol::phase::Phase;
use protocol::property::{Key, Properties, PropertyError, Value};
use protocol::tracker::HotKey;
use protocol::{AttemptId, TaskKind};

use super::counters::{Counter, CounterGroup, Tally};
use super::upstream::JobOutput;
use crate::console::say;
use crate::error::{Error, Result};

/// Opens a file of the job's file system.
pub(crate) type OpenFile = dyn Fn(&str) -> Result<Box<dyn Read>> + Send + Sync;

/// Group of the engine's counters, under Hadoop's class name.
pub(crate) const TASK_COUNTERS: &str = "org.apache.hadoop.mapreduce.TaskCounter";
/// Group of bytes read by input formats.
pub(crate) const INPUT_COUNTERS: &str =
    "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter";
/// Group of bytes written by output formats.
pub(crate) const OUTPUT_COUNTERS: &str =
    "org.apache.hadoop.mapreduce.lib.output.FileOutputFormatCounter";

/// A task's context: ids, job properties, counters, status. Clones share it.
#[derive(Clone)]
pub struct Context {
    shared: Arc<Shared>,
}

struct Shared {
    attempt: AttemptId,
    properties: BTreeMap<String, String>,
    counters: Mutex<BTreeMap<(String, String), Counter>>,
    /// The first counter that user code requested beyond the limits.
    beyond: OnceLock<CountersError>,
    surroundings: Surroundings,
    /// 0 to 1, as the bits of an `f32`.
    progress: AtomicU32,
    /// Index of the phase in [`Phase::ALL`].
    phase: AtomicU8,
    /// Grows with every sign that the task is alive.
    life_signs: AtomicU64,
    /// Set when a reduce is done.
    hot_keys: OnceLock<Vec<HotKey>>,
}

/// What the engine sets for the task before user code runs.
#[derive(Default)]
struct Surroundings {
    directory: OnceLock<PathBuf>,
    side_files: OnceLock<BTreeMap<String, PathBuf>>,
    input: OnceLock<TaskInput>,
    counts: OnceLock<TaskCounts>,
    output_directory: OnceLock<String>,
    user: OnceLock<String>,
    open: OnceLock<Arc<OpenFile>>,
}

/// What a map reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskInput {
    /// The file.
    pub path: String,
    /// First byte of the split.
    pub start: u64,
    /// Bytes of the split.
    pub length: u64,
}

/// How many tasks the job has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskCounts {
    /// Map tasks.
    pub maps: u32,
    /// Reduce tasks.
    pub reduces: u32,
}

impl Context {
    pub(crate) fn new(attempt: AttemptId, properties: BTreeMap<String, String>) -> Self {
        let counters = Mutex::new(BTreeMap::new());
        let first = match attempt.task.kind {
            TaskKind::Map => Phase::Map,
            TaskKind::Reduce => Phase::Shuffle,
        };
        let shared = Shared {
            attempt,
            properties,
            counters,
            beyond: OnceLock::new(),
            surroundings: Surroundings::default(),
            progress: AtomicU32::new(0),
            phase: AtomicU8::new(first as u8),
            life_signs: AtomicU64::new(0),
            hot_keys: OnceLock::new(),
        };
        Context { shared: Arc::new(shared) }
    }

    /// The running attempt; it includes task and job.
    pub fn attempt(&self) -> AttemptId {
        self.shared.attempt
    }

    /// The value given with `-D name=value`.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.shared.properties.get(name).map(String::as_str)
    }

    /// The value of a property that the engine knows.
    pub(crate) fn value<T: Value>(&self, key: Key<T>) -> Result<Option<T>, PropertyError> {
        key.get(&self.shared.properties)
    }

    /// All of them, by name.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.shared.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A directory only for this attempt, on local disk; removed when the attempt is over.
    pub fn directory(&self) -> &Path {
        self.shared.surroundings.directory.get().map_or(Path::new("."), PathBuf::as_path)
    }

    /// The path of the side file `name` on this machine (`--files`, [`crate::Job::side_file`]).
    ///
    /// # Errors
    /// If the job has no such file.
    pub fn side_file(&self, name: &str) -> Result<&Path> {
        let found = self.shared.surroundings.side_files.get().and_then(|files| files.get(name));
        let missing = || Error::NoSideFile { name: name.to_owned() };
        Ok(found.map(PathBuf::as_path).ok_or_else(missing)?)
    }

    /// File and range that a map reads; `None` in a reduce.
    pub fn input(&self) -> Option<&TaskInput> {
        self.shared.surroundings.input.get()
    }

    /// How many tasks the job has.
    pub fn task_counts(&self) -> Option<TaskCounts> {
        self.shared.surroundings.counts.get().copied()
    }

    /// The path of the output of another job of the plan, one that this job waits for.
    ///
    /// # Errors
    /// If this job does not wait for it.
    pub fn output_of(&self, job: JobOutput) -> Result<&str> {
        let path = self.property(&job.property());
        path.ok_or_else(|| Error::NoPrevious.into())
    }

    /// Reads a file of the job's file system: of the cluster, or of this machine with `--local`.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn open(&self, path: &str) -> Result<Box<dyn Read>> {
        let open = self.shared.surroundings.open.get();
        open.ok_or_else(|| Error::NoInput { path: path.to_owned() })?(path)
    }

    pub(crate) fn set_open(&self, open: Arc<OpenFile>) {
        let _ = self.shared.surroundings.open.set(open);
    }

    /// Where this attempt's output files are until the job commits.
    pub fn output_directory(&self) -> Option<&str> {
        self.shared.surroundings.output_directory.get().map(String::as_str)
    }

    /// The job's owner.
    pub(crate) fn user(&self) -> Option<&str> {
        self.shared.surroundings.user.get().map(String::as_str)
    }

    pub(crate) fn set_user(&self, user: String) {
        let _ = self.shared.surroundings.user.set(user);
    }

    pub(crate) fn set_input(&self, input: TaskInput) {
        // Set once per attempt; a second value would be the same.
        let _ = self.shared.surroundings.input.set(input);
    }

    pub(crate) fn set_task_counts(&self, counts: TaskCounts) {
        let _ = self.shared.surroundings.counts.set(counts);
    }

    pub(crate) fn set_output_directory(&self, directory: String) {
        let _ = self.shared.surroundings.output_directory.set(directory);
    }

    /// The attempt's directory and the side files of its job, which get links there.
    pub(crate) fn set_directory(&self, directory: PathBuf, side_files: BTreeMap<String, PathBuf>) {
        let _ = self.shared.surroundings.directory.set(directory);
        let _ = self.shared.surroundings.side_files.set(side_files);
    }

    /// The counter of this name, to keep (look it up in `setup`, not per record).
    ///
    /// A job has at most [`COUNTERS_MAX`] different counters, with names of at most [`NAME_BYTES_MAX`] bytes. An attempt that requests more
    /// continues with a counter that nobody sees, and fails when it ends.
    ///
    /// [`NAME_BYTES_MAX`]: protocol::counters::NAME_BYTES_MAX
    pub fn counter(&self, group: &str, name: &str) -> Counter {
        let mut counters = self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = counters.get(&(group.to_owned(), name.to_owned())) {
            return counter.clone();
        }
        let within = if counters.len() >= COUNTERS_MAX {
            Err(CountersError::TooMany)
        } else {
            check_name(group).and_then(|()| check_name(name))
        };
        if let Err(error) = within {
            // Only the first error is reported.
            let _ = self.shared.beyond.set(error);
            return Counter::default();
        }
        counters.entry((group.to_owned(), name.to_owned())).or_default().clone()
    }

    /// Adds one to a counter of a [`counters!`](crate::counters) enum. Looks it up by name each time; see [`Context::tally`].
    pub fn count<G: CounterGroup>(&self, counter: G) {
        self.counter(G::GROUP, G::NAMES[counter.index()]).increment();
    }

    /// All counters of a group, to keep (look them up in `setup`).
    pub fn tally<G: CounterGroup>(&self) -> Tally<G> {
        Tally::of(|name| self.counter(G::GROUP, name))
    }

    /// Whether user code has stayed within the limits of counters so far.
    pub(crate) fn check_counters(&self) -> Result<(), CountersError> {
        self.shared.beyond.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Adds to a counter of the engine, which exists however many counters the user code has.
    pub(crate) fn add_to(&self, group: &str, name: &str, amount: u64) {
        let mut counters = self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.entry((group.to_owned(), name.to_owned())).or_default().add(amount);
    }

    /// Sets the text of what the task is doing; it goes to the task's log.
    pub fn status(&self, text: &str) {
        say(format_args!("{}: {text}\n", self.shared.attempt));
    }

    pub(crate) fn add(&self, name: &str, amount: u64) {
        if amount > 0 {
            self.add_to(TASK_COUNTERS, name, amount);
        }
    }

    pub(crate) fn set_progress(&self, progress: f64) {
        self.show_life();
        // Shares that are not negative sort as their bits do, so progress never goes back.
        let bits = (progress.clamp(0.0, 1.0) as f32).to_bits();
        self.shared.progress.fetch_max(bits, Ordering::Relaxed);
    }

    /// Sets the phase that begins now.
    pub(crate) fn enter(&self, phase: Phase) {
        self.show_life();
        self.shared.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(crate) fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.shared.phase.load(Ordering::Relaxed))]
    }

    /// Reports that the task is alive without progress; needed where it waits for others.
    pub fn show_life(&self) {
        self.shared.life_signs.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the keys with a large share of the records of a finished reduce.
    pub(crate) fn set_hot_keys(&self, hot_keys: Vec<HotKey>) {
        let _ = self.shared.hot_keys.set(hot_keys);
    }

    pub(crate) fn hot_keys(&self) -> Vec<HotKey> {
        self.shared.hot_keys.get().cloned().unwrap_or_default()
    }

    pub(crate) fn all_properties(&self) -> &Properties {
        &self.shared.properties
    }

    pub(crate) fn life_signs(&self) -> u64 {
        self.shared.life_signs.load(Ordering::Relaxed)
    }

    pub(crate) fn progress(&self) -> f32 {
        f32::from_bits(self.shared.progress.load(Ordering::Relaxed))
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut sums = Counters::default();
        let counters = self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner);
        for ((group, name), counter) in &*counters {
            sums.add(group, name, counter.value());
        }
        sums
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("attempt", &self.shared.attempt).finish_non_exhaustive()
    }
}

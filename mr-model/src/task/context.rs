//! What a task knows about itself, and its counters.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use protocol::AttemptId;
use protocol::counters::{COUNTERS_MAX, CountersError, check_group, check_name};

use super::counters::{Counter, CounterGroup, Tally};
use super::state::{TaskCounts, TaskInput, TaskState};
use super::upstream::{JobOutput, output_property};
use crate::console::say;
use crate::error::{Error, Result};

/// A task's context: ids, job properties, counters, status. Clones share it.
#[derive(Clone)]
pub struct Context {
    state: Arc<TaskState>,
}

impl TaskState {
    /// The state of the attempt of a context.
    pub fn of(context: &Context) -> &TaskState {
        &context.state
    }
}

impl Context {
    /// The context of an attempt of a job with these properties.
    pub fn new(attempt: AttemptId, properties: BTreeMap<String, String>) -> Self {
        Context { state: Arc::new(TaskState::new(attempt, properties)) }
    }

    /// The running attempt; it includes task and job.
    pub fn attempt(&self) -> AttemptId {
        self.state.attempt
    }

    /// The value given with `-D name=value`.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.state.properties.get(name).map(String::as_str)
    }

    /// All of them, by name.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.state.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A directory only for this attempt, on local disk; removed when the attempt is over.
    pub fn directory(&self) -> &Path {
        self.state.surroundings.directory.get().map_or(Path::new("."), PathBuf::as_path)
    }

    /// The path of the side file `name` on this machine (`--files`, [`crate::Job::side_file`]).
    ///
    /// # Errors
    /// If the job has no such file.
    pub fn side_file(&self, name: &str) -> Result<&Path> {
        let found = self.state.surroundings.side_files.get().and_then(|files| files.get(name));
        let missing = || Error::NoSideFile { name: name.to_owned() };
        Ok(found.map(PathBuf::as_path).ok_or_else(missing)?)
    }

    /// File and range that a map reads; `None` in a reduce. A task may read several small files, one after the other: this is the one that
    /// the mapper was set up for. Of files that one mapper reads together ([`CombinedLines`](mr_formats::CombinedLines)) it is the first.
    pub fn input(&self) -> Option<Arc<TaskInput>> {
        let current = &self.state.surroundings.input;
        current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many tasks the job has.
    pub fn task_counts(&self) -> Option<TaskCounts> {
        self.state.surroundings.counts.get().copied()
    }

    /// The path of the output of another job of the plan, one that this job waits for.
    ///
    /// # Errors
    /// If this job does not wait for it.
    pub fn output_of(&self, job: JobOutput) -> Result<&str> {
        let path = self.property(&output_property(job.0));
        path.ok_or_else(|| Error::NoPrevious.into())
    }

    /// Reads a file of the job's file system: of the cluster, or of this machine with `--local`.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn open(&self, path: &str) -> Result<Box<dyn Read>> {
        let open = self.state.surroundings.open.get();
        open.ok_or_else(|| Error::NoInput { path: path.to_owned() })?(path)
    }

    /// Where this attempt's output files are until the job commits.
    pub fn output_directory(&self) -> Option<&str> {
        self.state.surroundings.output_directory.get().map(String::as_str)
    }

    /// The counter of this name, to keep (look it up in `setup`, not per record).
    ///
    /// A job has at most [`COUNTERS_MAX`] different counters, with names of at most [`NAME_BYTES_MAX`] bytes, in groups that are not the engine's
    /// own. An attempt that requests others continues with a counter that nobody sees, and fails when it ends.
    ///
    /// [`NAME_BYTES_MAX`]: protocol::counters::NAME_BYTES_MAX
    pub fn counter(&self, group: &str, name: &str) -> Counter {
        let mut counters = self.state.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (group.to_owned(), name.to_owned());
        let named =
            check_group(group).and_then(|()| check_name(group)).and_then(|()| check_name(name));
        let within = named.and_then(|()| match counters.len() >= COUNTERS_MAX {
            true if !counters.contains_key(&key) => Err(CountersError::TooMany),
            _ => Ok(()),
        });
        if let Err(error) = within {
            // Only the first error is reported.
            let _ = self.state.beyond.set(error);
            return Counter::default();
        }
        counters.entry(key).or_default().clone()
    }

    /// Adds one to a counter of a [`counters!`](crate::counters) enum. Looks it up by name each time; see [`Context::tally`].
    pub fn count<G: CounterGroup>(&self, counter: G) {
        self.counter(G::GROUP, G::NAMES[counter.index()]).increment();
    }

    /// All counters of a group, to keep (look them up in `setup`).
    pub fn tally<G: CounterGroup>(&self) -> Tally<G> {
        Tally::of(|name| self.counter(G::GROUP, name))
    }

    /// Sets the text of what the task is doing. Pages and `job -status` show its first [`STATUS_CHARS_MAX`] characters while the task runs;
    /// all of it goes to the task's log. A task that sets it is alive.
    ///
    /// [`STATUS_CHARS_MAX`]: protocol::tracker::STATUS_CHARS_MAX
    pub fn status(&self, text: &str) {
        self.state.set_status(&protocol::tracker::status_text(text));
        say(format_args!("{}: {text}\n", self.state.attempt));
    }

    /// Reports that the task is alive without progress; needed where it waits for others.
    pub fn show_life(&self) {
        self.state.show_life();
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("attempt", &self.state.attempt).finish_non_exhaustive()
    }
}

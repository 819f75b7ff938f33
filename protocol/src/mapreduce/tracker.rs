//! Workers' requests to the JobTracker: `POST /rpc/worker` with a [`Request`], answered by `Result<Reply, RemoteError>`.
//!
//! A worker registers and keeps one [`Request::Poll`] open, which the JobTracker answers the moment there is something to do. It sends [`Request::Report`] at
//! once when an attempt ends, and every second while one runs. [`crate::ErrorKind::Fenced`] means: register again (naming the attempts that still run and the
//! map outputs that it holds).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::counters::Counters;
use super::map_output::{as_list, at_most_shared};
use super::phase::Phase;
use super::rounds::{RoundWork, Summary};
use super::split::Split;
use crate::level::{FeatureLevel, Supported};
use crate::wire::{ENTRIES_MAX, at_most};
use crate::{AttemptId, BinaryHash, DfsPath, Epoch, JobId, RecordAt, RemoteError, WorkerId};

pub use super::map_output::MapOutput;

/// Version of this conversation; both sides must agree.
pub const VERSION: u16 = 3;
/// Most arguments of a program: as many as the system allows on a command line.
pub const ARGS_MAX: usize = 100_000;
/// Most properties of a job.
pub const PROPERTIES_MAX: usize = 100_000;
/// Longest text for people in a report, bytes: the cause and the stack of a failure fit, and a journal holds thousands.
pub const DIAGNOSTICS_BYTES_MAX: usize = 8 << 10;
/// Longest text of what a task says that it does, characters: a line of a page.
pub const STATUS_CHARS_MAX: usize = 120;
/// Longest path of a map output, bytes: the kernel's limit.
pub const PATH_BYTES_MAX: usize = 4096;
/// Most bytes of one report; a worker splits a longer one. That is far more than one update can have, and little for the JobTracker.
pub const REPORT_BYTES_MAX: usize = 8 << 20;

/// The answer to a [`Request`].
pub type Answer = Result<Reply, RemoteError>;

/// The requests of a worker. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// First contact, and again after being fenced. -> [`Reply::Registered`]
    Register(Register),
    /// Waits for work. -> [`Reply::Actions`]
    Poll {
        /// Sender.
        worker: WorkerId,
        /// Epoch it registered under.
        epoch: Epoch,
        /// Number of the last actions received; they are not sent again.
        received: u64,
    },
    /// News of attempts. -> [`Reply::Done`]
    Report {
        /// Sender.
        worker: WorkerId,
        /// Epoch it registered under.
        epoch: Epoch,
        /// Attempts whose state changed or progressed.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        updates: Vec<AttemptUpdate>,
        /// Map outputs that reduces on this worker could not fetch.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        fetch_failures: Vec<FetchFailure>,
    },
}

/// First contact.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Register {
    /// [`VERSION`].
    pub version: u16,
    /// The feature levels that it supports.
    pub levels: Supported,
    /// Drawn at the start of the worker process.
    pub worker: WorkerId,
    /// Name of its machine, compared with the hosts of splits.
    pub host: String,
    /// `/rack`.
    pub rack: String,
    /// Boot id of its kernel: map outputs of workers on the same machine are opened directly.
    pub boot_id: String,
    /// `host:port` of its HTTP service (shuffle, logs).
    pub http_address: String,
    /// Tasks it runs at once.
    pub slot_count: u32,
    /// How this worker isolates and limits its tasks, for people.
    pub isolation: String,
    /// Attempts still running here.
    #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
    pub running: Vec<AttemptId>,
    /// Finished map attempts whose output is held here.
    #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
    pub held_outputs: Vec<MapOutput>,
}

/// Answers. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Done.
    Done,
    /// Welcome.
    Registered {
        /// This start of the JobTracker.
        epoch: Epoch,
        /// How long a poll may be held, milliseconds.
        poll_ms: u64,
        /// The feature level of the JobTracker's log.
        level: FeatureLevel,
    },
    /// What to do.
    Actions {
        /// Number of this answer, to be named in the next poll.
        number: u64,
        /// In order.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        actions: Vec<Action>,
    },
}

/// Orders to a worker. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Action {
    /// Run an attempt.
    Launch(Box<Launch>),
    /// Stop an attempt.
    Kill(AttemptId),
    /// News of map outputs for the reduces of a job that run here.
    MapOutputs {
        /// The job.
        job: JobId,
        /// Newly available.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        available: Vec<MapOutput>,
        /// No longer valid: forget them; another attempt will follow.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        obsolete: Vec<AttemptId>,
    },
    /// The job is over: end its runners, delete its files.
    ForgetJob(JobId),
    /// Run reduces of a job: their lists are the same and long, so they are sent once.
    LaunchReduces {
        /// The attempts; their own lists are empty.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        launches: Vec<Launch>,
        /// The map outputs known so far.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        outputs: Vec<MapOutput>,
    },
    /// No task needs these outputs of a job's rounds any more: delete them.
    DropOutputs {
        /// The attempts that made them, all of one job.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        attempts: Vec<AttemptId>,
    },
}

/// What a worker needs to run an attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// The attempt.
    pub attempt: AttemptId,
    /// Program and options of its job. Launches that are in memory together share it.
    #[serde(serialize_with = "as_program", deserialize_with = "own_program")]
    pub program: Arc<Program>,
    /// Its work.
    pub work: Work,
}

fn as_program<S: Serializer>(program: &Arc<Program>, serializer: S) -> Result<S::Ok, S::Error> {
    Program::serialize(program, serializer)
}

fn own_program<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Program>, D::Error> {
    Program::deserialize(deserializer).map(Arc::new)
}

/// The part that all attempts of a job share.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Program {
    /// Acting user.
    pub user: String,
    /// The executable.
    pub binary: BinaryHash,
    /// Its arguments.
    #[serde(deserialize_with = "at_most::<ARGS_MAX, _, _>")]
    pub args: Vec<String>,
    /// Number of the job within its program.
    pub stage: u32,
    /// The fingerprint of the job; the runner must compute the same.
    pub fingerprint: u64,
    /// Everything given with `-D`.
    #[serde(deserialize_with = "at_most::<PROPERTIES_MAX, _, _>")]
    pub properties: BTreeMap<String, String>,
    /// Number of partitions that a map cuts its output into; 0 for a map-only job.
    pub partition_count: u32,
    /// Reduces are not chosen yet: maps report the sizes of their partitions.
    pub sizes_wanted: bool,
    /// Number of map tasks.
    pub map_count: u32,
    /// Output directory of the job.
    pub output: DfsPath,
}

/// The work of an attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Map one split.
    Map {
        /// Its input.
        split: Split,
        /// Records to skip, since earlier attempts ended in them; ascending.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        skip: Vec<RecordAt>,
    },
    /// Reduce neighbouring partitions.
    Reduce(ReduceWork),
    /// Take a partition through a round.
    Round(Box<RoundWork>),
}

/// The work of a reduce.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReduceWork {
    /// The partitions to reduce; only its own index unless the reduces of the job were chosen by size.
    pub partitions: Range<u32>,
    /// Number of reduces of the job.
    pub reduce_count: u32,
    /// The map outputs known so far ([`Action::LaunchReduces`] has them once for all). Reduces that start at once share the list.
    #[serde(serialize_with = "as_list", deserialize_with = "at_most_shared::<ENTRIES_MAX, _>")]
    pub outputs: Arc<Vec<MapOutput>>,
}

/// News of an attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptUpdate {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its state.
    pub state: AttemptState,
    /// 0 to 1; for an attempt without a result, how far it got.
    pub progress: f32,
    /// Its phase, or its last one; `None` until its process has reported one.
    pub phase: Option<Phase>,
    /// Its counters so far.
    #[serde(deserialize_with = "crate::counters::bounded")]
    pub counters: Counters,
    /// For a map that failed: the record it was in.
    pub record: Option<RecordAt>,
    /// What it says that it does, as [`status_text`] leaves it; empty if it runs no more.
    pub status: String,
}

/// The state of an attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum AttemptState {
    /// It runs.
    Running,
    /// A map is done; its output is served by this worker.
    MapDone {
        /// Absolute path of the data file.
        data_path: String,
        /// Bytes of each partition before compression, as the worker read them from the index, if [`Program::sizes_wanted`].
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        partition_bytes: Vec<u64>,
    },
    /// A reduce (or a map of a map-only job) is done: its files are complete in its attempt directory.
    OutputDone {
        /// Directory of the attempt, below `_temporary` of the output.
        directory: DfsPath,
        /// For a reduce, the keys with a large share of its records.
        #[serde(deserialize_with = "at_most::<{ HotKey::COUNT_MAX }, _, _>")]
        hot_keys: Vec<HotKey>,
    },
    /// It failed; this counts against the limit of attempts.
    Failed {
        /// For people: cause, with file and byte offset of the record where there is one.
        diagnostics: String,
    },
    /// It was stopped.
    Killed,
    /// A task of a round that is not the last is done; its output is served by this worker.
    RoundDone {
        /// Absolute path of the data file.
        data_path: String,
        /// What the next round learns of this one.
        summary: Summary,
        /// How far the job had come after the round before, in the job's own measure; `None` if it has none, and in round 0.
        measure: Option<f64>,
        /// Directory of the attempt in the file system, if it keeps the state of its keys there.
        kept: Option<DfsPath>,
    },
}

/// A key with a large share of a reduce's records.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HotKey {
    /// For people: shortened, and without unprintable characters.
    pub text: String,
    /// The number of its records.
    pub records: u64,
}

impl HotKey {
    /// Most hot keys that one reduce reports.
    pub const COUNT_MAX: usize = 5;
    /// Most characters of a text.
    pub const CHARS_MAX: usize = 80;
}

/// A map output that could not be fetched.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FetchFailure {
    /// The reduce attempt that tried.
    pub reduce: AttemptId,
    /// The map attempt whose output it is.
    pub map: AttemptId,
    /// What happened.
    pub diagnostics: String,
}

/// What may be shown of a task's own word on what it does: its first [`STATUS_CHARS_MAX`] characters, in one line.
pub fn status_text(text: &str) -> String {
    let printable = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.trim().chars().take(STATUS_CHARS_MAX).map(printable).collect()
}

/// The first [`DIAGNOSTICS_BYTES_MAX`] bytes of a text for people.
pub fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(DIAGNOSTICS_BYTES_MAX));
    text
}

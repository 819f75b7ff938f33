//! What the JobTracker must never forget, as records of its journal.
//!
//! Invariants: an [`Edit`] carries everything decided (ids, times, names), so replaying the edits in order rebuilds exactly
//! the state that made them; the order of variants and fields is the disk format, so both are only appended to. Edits of different
//! jobs are independent of each other.

use protocol::jobs::{Counters, JobSpec, JobState, Priority};
use protocol::phase::Phase;
use protocol::tracker::{HotKey, MapOutput};
use protocol::{AttemptId, CallId, DfsPath, Epoch, JobId, RecordAt, WorkerId};
use serde::{Deserialize, Serialize};

use super::level::Level;

/// A durable fact. Append only.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Edit {
    /// The JobTracker's first start on this state.
    Founded {
        /// `yyyyMMddHHmm` in UTC as a number: first half of every job id.
        cluster_start: u64,
    },
    /// A job was taken.
    Submitted(Box<Submitted>),
    /// Its output directory could not be made: it never was a job.
    Refused {
        /// The job.
        job: JobId,
    },
    /// A task is done: for tasks that write files this is their commit.
    AttemptSucceeded {
        /// The winner.
        attempt: AttemptId,
        /// Where and when it ran.
        ran: Ran,
        /// What it made.
        made: Made,
        /// Its final counters.
        counters: Counters,
    },
    /// An attempt counts against its task's limit.
    AttemptFailed {
        /// The attempt.
        attempt: AttemptId,
        /// Where and when it ran.
        ran: Ran,
        /// Why.
        diagnostics: String,
        /// Of a map: the record it was in.
        record: Option<RecordAt>,
        /// How far it came.
        reached: Reached,
    },
    /// The output of a finished map is gone; the map runs again.
    OutputLost {
        /// The attempt that had made it.
        attempt: AttemptId,
        /// Why, if that counts as a failure of the attempt.
        failed: Option<String>,
    },
    /// All tasks are done and the winners are fixed; the output is being published.
    Committing {
        /// The job.
        job: JobId,
    },
    /// The job will fail or was killed; what it wrote is being removed.
    Ending {
        /// The job.
        job: JobId,
        /// `Failed` or `Killed`.
        outcome: JobState,
        /// Why.
        diagnostics: String,
    },
    /// Nothing more will happen.
    Ended {
        /// The job.
        job: JobId,
        /// A final state.
        state: JobState,
        /// When, milliseconds since the epoch.
        finished_ms: u64,
        /// Sums over the winning attempts and over the job.
        counters: Counters,
    },
    /// The job left the history.
    Retired {
        /// The job.
        job: JobId,
    },
    /// A user made the job more or less urgent.
    Prioritized {
        /// The job.
        job: JobId,
        /// From now on.
        priority: Priority,
    },
    /// A user asked for the end of the job while its output directory was being made.
    KillAsked {
        /// The job.
        job: JobId,
        /// Who asked.
        user: String,
    },
    /// A user asked for the end of an attempt.
    StopAsked {
        /// The attempt.
        attempt: AttemptId,
        /// It counts against its task's limit.
        fail: bool,
    },
    /// An attempt ended without a result and without fault of its own. For the history alone: a restart may find it running again.
    AttemptKilled {
        /// The attempt.
        attempt: AttemptId,
        /// Where and when it ran.
        ran: Ran,
        /// Why.
        diagnostics: String,
        /// How far it came.
        reached: Reached,
    },
    /// All maps are done, and by the sizes of their outputs it was decided which partitions are reduced together.
    ReducesChosen {
        /// The job.
        job: JobId,
        /// The partition behind the last of each reduce.
        ends: Vec<u32>,
    },
}

impl Edit {
    /// The job it is about; `None` for the JobTracker itself.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self {
            Edit::Founded { .. } => None,
            Edit::Submitted(submitted) => Some(submitted.job),
            Edit::AttemptSucceeded { attempt, .. }
            | Edit::AttemptFailed { attempt, .. }
            | Edit::AttemptKilled { attempt, .. }
            | Edit::OutputLost { attempt, .. }
            | Edit::StopAsked { attempt, .. } => Some(attempt.task.job),
            Edit::Refused { job }
            | Edit::Committing { job }
            | Edit::Ending { job, .. }
            | Edit::Ended { job, .. }
            | Edit::Retired { job }
            | Edit::KillAsked { job, .. }
            | Edit::ReducesChosen { job, .. }
            | Edit::Prioritized { job, .. } => Some(*job),
        }
    }
}

/// A job as it was taken.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Submitted {
    /// Its id.
    pub(crate) job: JobId,
    /// The call that submitted it.
    pub(crate) call: CallId,
    /// Acting user.
    pub(crate) user: String,
    /// When, milliseconds since the epoch.
    pub(crate) submitted_ms: u64,
    /// Start of the JobTracker that took it; later starts raise attempt numbers by a thousand each.
    pub(crate) epoch: Epoch,
    /// Queue that it waits in.
    pub(crate) queue: String,
    /// What to run.
    pub(crate) spec: JobSpec,
}

/// Where and when an attempt ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Ran {
    /// The worker process.
    pub(crate) worker: WorkerId,
    /// Name of its machine.
    pub(crate) host: String,
    /// `host:port` of its HTTP service.
    pub(crate) http_address: String,
    /// Start, milliseconds since the epoch.
    pub(crate) started_ms: u64,
    /// End, milliseconds since the epoch.
    pub(crate) finished_ms: u64,
    /// Started beside another that was slow.
    pub(crate) speculative: bool,
    /// How near its input it was started; `None` for reduces, and where that was before a restart.
    pub(crate) nearness: Option<Level>,
}

/// How far an attempt came that made nothing.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reached {
    /// What it was at, if that was told.
    pub(crate) phase: Option<Phase>,
    /// 0 to 1.
    pub(crate) progress: f32,
}

/// What a successful attempt made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Made {
    /// A map output, kept by its worker.
    MapOutput {
        /// Where.
        output: MapOutput,
        /// Bytes of each partition, while reduces are yet to be chosen by them.
        partition_bytes: Vec<u64>,
    },
    /// Complete files in this directory below `_temporary`.
    Files {
        /// Directory of the attempt.
        directory: DfsPath,
        /// Of a reduce, the keys with a good part of its records.
        hot_keys: Vec<HotKey>,
    },
}

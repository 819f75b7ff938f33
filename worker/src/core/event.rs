//! What the core learns, one event at a time.

use protocol::jobs::Counters;
use protocol::phase::Phase;
use protocol::tracker::{AttemptState, FetchFailure, Reply, Work};
use protocol::{AttemptId, BinaryHash, JobId, RecordAt};

/// A runner of this worker, by number; numbers are not used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunnerId(pub u64);

/// A call to the JobTracker, by number; numbers are not used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallNumber(pub u64);

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The time of [`super::Core::wake_at`] has come.
    Tick,
    /// The worker is to stop.
    Shutdown,
    /// A call is over.
    Answered {
        /// Which.
        call: CallNumber,
        /// How.
        answer: Answer,
    },
    /// The directories of an attempt exist, or cannot be made; the reason, for people.
    Prepared(AttemptId, Result<(), String>),
    /// An executable is in the cache, or cannot be obtained; the reason, for people.
    Fetched(BinaryHash, Result<(), String>),
    /// Of the outputs to link, these now have a name here.
    Linked(Vec<AttemptId>),
    /// A runner reports.
    Runner(RunnerId, News),
    /// A runner was over before it got this attempt.
    Undelivered {
        /// The runner.
        runner: RunnerId,
        /// The attempt.
        attempt: AttemptId,
        /// Its work.
        work: Work,
    },
    /// The output of a map was checked and moved out of reach of tasks, or cannot be used. Bytes of each partition before compression, as
    /// its index says; or the reason, for people.
    OutputTaken(AttemptId, Result<Vec<u64>, String>),
    /// The record that the process of a map named last, if any.
    RecordRead(AttemptId, Option<RecordAt>),
    /// Bytes that the files of jobs use on disk; `None` if they cannot be measured.
    DiskMeasured(Option<u64>),
    /// The files of a job are deleted, or cannot be.
    JobDeleted(JobId),
}

/// How a call ended.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The JobTracker replied.
    Reply(Reply),
    /// It asks to register again; its reason.
    Fenced(String),
    /// It will never take this message; its reason.
    Refused(String),
    /// It may or may not have received the message; the reason.
    Lost(String),
}

/// A runner's report.
#[derive(Clone, PartialEq, Debug)]
pub enum News {
    /// A sign of life.
    Progress {
        /// The attempt.
        attempt: AttemptId,
        /// 0 to 1.
        progress: f32,
        /// Its phase.
        phase: Phase,
        /// Its counters so far.
        counters: Counters,
    },
    /// What an attempt says that it does.
    Status {
        /// The attempt.
        attempt: AttemptId,
        /// For people.
        text: String,
    },
    /// A map output could not be fetched.
    FetchFailed(FetchFailure),
    /// The attempt ended; the runner is free.
    Ended {
        /// The attempt.
        attempt: AttemptId,
        /// Its result, as its process reports it.
        state: AttemptState,
        /// Its counters.
        counters: Counters,
        /// 0 to 1.
        progress: f32,
        /// Its last phase.
        phase: Phase,
    },
    /// The process is over, with all its descendants.
    Gone {
        /// Why, for the attempt that it ran.
        diagnostics: String,
    },
}

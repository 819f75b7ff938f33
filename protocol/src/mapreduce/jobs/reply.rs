//! The answers as the wire has them, and the type of each.

use serde::{Deserialize, Serialize};

use super::reports::{JobReport, QueueReport, Replay, TaskReport, TrackerStatus, WorkerReport};
use crate::error::UnexpectedReply;
use crate::table::replies;
use crate::wire::{ENTRIES_MAX, at_most};
use crate::{JobId, RemoteError};

/// The answer to a request.
pub type Answer = Result<Reply, RemoteError>;

/// A reply of another call.
const UNEXPECTED: UnexpectedReply = UnexpectedReply { daemon: "JobTracker" };

/// Answers. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Done.
    Done,
    /// The new job.
    Submitted(JobId),
    /// All jobs.
    Jobs(#[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<JobReport>),
    /// One job.
    Job(Box<JobReport>),
    /// Tasks of one job.
    Tasks(#[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<TaskReport>),
    /// State of the JobTracker.
    Tracker(TrackerStatus),
    /// All queues.
    Queues(#[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<QueueReport>),
    /// All workers.
    Workers(#[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<WorkerReport>),
    /// An attempt.
    Replay(Box<Replay>),
    /// Names.
    Names(#[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<String>),
}

replies! {
    Submitted(JobId), Jobs(Vec<JobReport>), Tasks(Vec<TaskReport>), Tracker(TrackerStatus),
    Queues(Vec<QueueReport>), Workers(Vec<WorkerReport>), Names(Vec<String>),
}

replies! {
    (): () => Reply::Done, Reply::Done => ();
    JobReport: report => Reply::Job(Box::new(report)), Reply::Job(report) => *report;
    Replay: replay => Reply::Replay(Box::new(replay)), Reply::Replay(replay) => *replay;
}

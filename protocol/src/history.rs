//! The history of a job as events, one JSON object a line, under Hadoop's event names.
//!
//! ```text
//! {"type":"HISTORY_VERSION","event":{"version":1}}
//! {"type":"JOB_SUBMITTED","event":{"jobid":"job_…",…}}
//! …
//! {"type":"JOB_FINISHED","event":{…}}
//! ```
//!
//! Written by the JobTracker when a job is over (then whole, and never changed), and told by it of a job that runs; read by `hanno job
//! -history`. A reader skips events of a type it does not know and refuses a version it does not know. Times are milliseconds since the
//! epoch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of these lines.
pub const VERSION: u16 = 1;

/// An event. Append only.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", content = "event", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HistoryEvent {
    /// First line.
    HistoryVersion {
        /// [`VERSION`].
        version: u16,
    },
    /// The job was taken.
    JobSubmitted(JobSubmitted),
    /// Its tasks are known.
    JobInited(JobInited),
    /// The first attempt of a task starts.
    TaskStarted(TaskStarted),
    /// A map attempt starts.
    MapAttemptStarted(AttemptStarted),
    /// A reduce attempt starts.
    ReduceAttemptStarted(AttemptStarted),
    /// A map attempt won.
    MapAttemptFinished(AttemptEnded),
    /// A reduce attempt won.
    ReduceAttemptFinished(AttemptEnded),
    /// A map attempt counts against its task's limit.
    MapAttemptFailed(AttemptEnded),
    /// A reduce attempt counts against its task's limit.
    ReduceAttemptFailed(AttemptEnded),
    /// A map attempt was stopped.
    MapAttemptKilled(AttemptEnded),
    /// A reduce attempt was stopped.
    ReduceAttemptKilled(AttemptEnded),
    /// A task is done.
    TaskFinished(TaskFinished),
    /// The job succeeded.
    JobFinished(JobEnded),
    /// The job failed.
    JobFailed(JobEnded),
    /// The job was killed.
    JobKilled(JobEnded),
}

/// See [`HistoryEvent::JobSubmitted`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSubmitted {
    /// The job.
    pub jobid: String,
    /// Its name.
    pub job_name: String,
    /// Who submitted it.
    pub user_name: String,
    /// When.
    pub submit_time: u64,
    /// Its queue.
    pub job_queue_name: String,
    /// Its priority at the time of writing.
    pub priority: String,
    /// Output directory.
    pub output: String,
    /// Arguments of its program.
    pub arguments: Vec<String>,
    /// Everything given with `-D`.
    pub properties: BTreeMap<String, String>,
}

/// See [`HistoryEvent::JobInited`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobInited {
    /// The job.
    pub jobid: String,
    /// Start of its first attempt, or its submission.
    pub launch_time: u64,
    /// Map tasks.
    pub total_maps: u32,
    /// Reduce tasks.
    pub total_reduces: u32,
}

/// See [`HistoryEvent::TaskStarted`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStarted {
    /// The task.
    pub taskid: String,
    /// `MAP` or `REDUCE`.
    pub task_type: String,
    /// Start of its first attempt.
    pub start_time: u64,
}

/// Start of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptStarted {
    /// Its task.
    pub taskid: String,
    /// The attempt.
    pub attempt_id: String,
    /// When.
    pub start_time: u64,
    /// Machine of its worker.
    pub hostname: String,
    /// `host:port` of its worker.
    pub tracker_name: String,
}

/// End of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptEnded {
    /// Its task.
    pub taskid: String,
    /// The attempt.
    pub attempt_id: String,
    /// When.
    pub finish_time: u64,
    /// Machine of its worker.
    pub hostname: String,
    /// `SUCCEEDED`, `FAILED` or `KILLED`.
    pub status: String,
    /// Why; empty if it succeeded.
    pub error: String,
}

/// See [`HistoryEvent::TaskFinished`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskFinished {
    /// The task.
    pub taskid: String,
    /// `MAP` or `REDUCE`.
    pub task_type: String,
    /// When.
    pub finish_time: u64,
    /// The attempt that counts.
    pub successful_attempt: String,
}

/// End of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobEnded {
    /// The job.
    pub jobid: String,
    /// When.
    pub finish_time: u64,
    /// Map tasks done.
    pub finished_maps: u32,
    /// Reduce tasks done.
    pub finished_reduces: u32,
    /// Map attempts that failed.
    pub failed_maps: u32,
    /// Reduce attempts that failed.
    pub failed_reduces: u32,
    /// `SUCCEEDED`, `FAILED` or `KILLED`.
    pub job_status: String,
    /// Why it failed; empty otherwise.
    pub diagnostics: String,
    /// Sums over the attempts that count, by group and name.
    pub total_counters: BTreeMap<String, BTreeMap<String, u64>>,
}

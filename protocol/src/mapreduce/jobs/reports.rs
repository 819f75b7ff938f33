//! Reports for clients on jobs, attempts, queues and workers.

use serde::{Deserialize, Serialize};

use super::super::counters::Counters;
use super::super::splits::Splits;
use super::super::tracker::Launch;
use super::spec::Priority;
use crate::wire::{ENTRIES_MAX, at_most};
use crate::{DfsPath, TaskId};

/// An attempt, for anyone who wants to run it again and watch it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// Its program and its work; for a reduce, with the map outputs available now.
    pub launch: Launch,
    /// For a reduce, the splits of all maps of its job.
    pub splits: Splits,
    /// Why the attempt failed, if it has.
    pub diagnostics: String,
}

/// Life of a job.
///
/// ```text
/// Running -> Committing -> Succeeded
///    |           |
///    +-----------+--> Failed | Killed
/// ```
///
/// In JSON its name is in capitals, as in Hadoop's; older histories have it in small letters, which are still read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobState {
    /// Tasks run or wait.
    #[serde(alias = "Running")]
    Running,
    /// All tasks are done; the output is being published.
    #[serde(alias = "Committing")]
    Committing,
    /// The output is published.
    #[serde(alias = "Succeeded")]
    Succeeded,
    /// A task failed too often, or the commit failed; no output.
    #[serde(alias = "Failed")]
    Failed,
    /// Ended by a user; no output.
    #[serde(alias = "Killed")]
    Killed,
}

impl JobState {
    /// True if the state will not change any more.
    pub fn is_final(self) -> bool {
        matches!(self, JobState::Succeeded | JobState::Failed | JobState::Killed)
    }
}

/// A job as clients and pages see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobReport {
    /// The job, as `job_…`.
    pub id: String,
    /// Name given by the driver.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// Its state.
    pub state: JobState,
    /// Map tasks.
    pub maps: TaskCounts,
    /// Reduce tasks.
    pub reduces: TaskCounts,
    /// Mean progress of maps, 0 to 1.
    pub map_progress: f32,
    /// Mean progress of reduces, 0 to 1.
    pub reduce_progress: f32,
    /// Submission, milliseconds since the epoch.
    pub submitted_ms: u64,
    /// End, milliseconds since the epoch; 0 while it runs.
    pub finished_ms: u64,
    /// Sums over the winning attempts; while the job runs, with what running attempts have counted so far.
    pub counters: Counters,
    /// Records that running maps read in a second.
    pub read_records_per_s: u64,
    /// Bytes that running maps read in a second.
    pub read_bytes_per_s: u64,
    /// Why it failed; empty otherwise.
    pub diagnostics: String,
    /// Output directory.
    pub output: DfsPath,
    /// Queue that it waits in.
    pub queue: String,
    /// Its urgency there.
    pub priority: Priority,
    /// Slots it holds now.
    pub slot_count: u32,
    /// True if the reader may not view the job: name, counters, diagnostics and output are then left out.
    pub is_outline: bool,
    /// How far a job in rounds has come; `None` for other jobs.
    pub rounds: Option<RoundsReport>,
}

/// How far a job in rounds has come.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RoundsReport {
    /// The newest round, from 0.
    pub newest: u32,
    /// The last round that there may be.
    pub last: u32,
    /// What the job itself measured, in the order of rounds.
    #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
    pub measures: Vec<RoundMeasure>,
}

/// What a job measured after a round.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RoundMeasure {
    /// From 0.
    pub round: u32,
    /// In the job's own measure.
    pub measure: f64,
}

impl JobReport {
    /// The part that every known user may see of a job: its use of the cluster.
    pub fn outline(self) -> JobReport {
        JobReport {
            name: String::new(),
            counters: Counters::default(),
            diagnostics: String::new(),
            output: DfsPath::root(),
            is_outline: true,
            rounds: None,
            ..self
        }
    }
}

/// Tasks by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TaskCounts {
    /// All.
    pub total: u32,
    /// Waiting for a slot.
    pub pending: u32,
    /// With a running attempt.
    pub running: u32,
    /// Done.
    pub completed: u32,
    /// Attempts that failed.
    pub failed_attempts: u32,
    /// Attempts that were killed.
    pub killed_attempts: u32,
}

/// A task and its attempts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskReport {
    /// The task.
    pub id: TaskId,
    /// Progress of the best attempt, 0 to 1.
    pub progress: f32,
    /// All attempts, oldest first.
    #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
    pub attempts: Vec<AttemptReport>,
}

/// One attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptReport {
    /// As `attempt_…`.
    pub id: String,
    /// `RUNNING`, `SUCCEEDED`, `FAILED`, `KILLED`.
    pub state: String,
    /// Machine of its worker.
    pub host: String,
    /// Path of its log at the JobTracker, which fetches it from the worker.
    pub log_url: String,
    /// Start, milliseconds since the epoch.
    pub started_ms: u64,
    /// End, milliseconds since the epoch; 0 while it runs.
    pub finished_ms: u64,
    /// Why it failed; empty otherwise.
    pub diagnostics: String,
    /// 0 to 1; for an attempt without a result, how far it got.
    pub progress: f32,
    /// `map`, `merge`, `shuffle`, `reduce`: its phase now, or when it ended without a result; empty if that is not known.
    pub phase: String,
    /// What it says that it does while it runs; empty otherwise.
    pub status: String,
}

/// State of the JobTracker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TrackerStatus {
    /// Live workers.
    pub worker_count: u32,
    /// Slots of all live workers.
    pub slot_count: u32,
    /// Slots in use.
    pub busy_slot_count: u32,
    /// Jobs not yet final.
    pub running_job_count: u32,
    /// Machines of registered workers.
    pub host_count: u32,
}

/// A queue (pool) of jobs. Limits that are not set are 0.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QueueReport {
    /// Its name.
    pub name: String,
    /// True if it takes jobs.
    pub running: bool,
    /// `fair` or `fifo`: how its jobs share its slots.
    pub policy: String,
    /// Its weight in the sharing, relative to the other queues.
    pub weight: u32,
    /// Slots that it gets first if it can use them.
    pub slots_min: u32,
    /// Most slots of its jobs together.
    pub slots_max: u32,
    /// Most slots of one user's jobs in it together.
    pub user_slots_max: u32,
    /// Most of its jobs that run at once.
    pub running_jobs_max: u32,
    /// Slots that it would have now if all queues had their fair share, in thousandths.
    pub share_permille: u64,
    /// Slots that its jobs hold.
    pub slot_count: u32,
    /// Slots that its jobs could use, those they hold included.
    pub demand: u32,
    /// Jobs in it that are not over.
    pub job_count: u32,
    /// Those of them that have started a task.
    pub started_job_count: u32,
}

/// A worker as clients and pages see it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Its machine.
    pub host: String,
    /// `host:port` of its HTTP service.
    pub http_address: String,
    /// Its rack.
    pub rack: String,
    /// Tasks it runs at once.
    pub slot_count: u32,
    /// Tasks it runs now.
    pub running_count: u32,
    /// How its tasks are isolated and limited, for people.
    pub isolation: String,
    /// Late: gets no new work.
    pub suspect: bool,
    /// Being drained: gets no new work.
    pub excluded: bool,
    /// Being drained, and nothing runs there or is needed from there any more.
    pub drained: bool,
    /// Jobs that failed on it too often and succeeded elsewhere, less those forgiven.
    pub faults: u32,
    /// Too many faults: gets no new work until some are forgiven.
    pub blacklisted: bool,
    /// Time since its last message, milliseconds.
    pub silent_ms: u64,
    /// Attempts that got a slot there since the worker registered or the JobTracker started.
    pub launched_count: u64,
    /// Those of them that were their tasks' winners.
    pub succeeded_count: u64,
    /// Those of them that failed.
    pub failed_count: u64,
}

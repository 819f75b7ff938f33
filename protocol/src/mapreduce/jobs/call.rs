//! The table of calls: one row for each, append only. Its form is explained in [`crate::table`], its columns in [`super::table`].

use serde::{Deserialize, Serialize};

use super::reply::{Answer, Reply};
use super::reports::{JobReport, QueueReport, Replay, TaskReport, TrackerStatus, WorkerReport};
use super::spec::{JobSpec, Priority};
use super::table::By::{Administrator, Anyone, Modifier, Viewer};
use super::table::{By, Logged, alone, named, on};
use crate::table::Kind::{Change, Order, Read};
use crate::table::calls;
use crate::{AttemptId, JobId};

calls! {
    types AttemptId, JobId, JobSpec, Priority;
    columns {
        /// Who may make it.
        by: By = Anyone;
        /// What the audit log says of it; `None` for reads.
        logged: Option<Logged<'_>> = None;
    }
    also []

    /// Starts a job. A repeated submission gets the first answer.
    0: Submit(spec: Box<JobSpec>) -> JobId = Change, logged named("submitJob", &spec.name);

    /// All jobs known, newest first.
    1: List -> Vec<JobReport> = Read;

    /// One job.
    2: Status(job: JobId) -> JobReport = Read, by Viewer(*job);

    /// Asks a job to end.
    3: Kill(job: JobId) -> () = Change, by Modifier(*job), logged alone("killJob");

    /// Tasks with their attempts.
    4: Tasks(job: JobId) -> Vec<TaskReport> = Read, by Viewer(*job);

    /// Workers and slots.
    5: TrackerStatus -> TrackerStatus = Read;

    /// Gives a job another priority.
    6: SetPriority {
        /// Which.
        job: JobId,
        /// Its priority from now on.
        priority: Priority,
    } -> () = Change, by Modifier(*job), logged named("setJobPriority", priority.name());

    /// Queues with their limits and load, by name.
    7: Queues -> Vec<QueueReport> = Read;

    /// Ends an attempt; another follows.
    8: StopAttempt {
        /// Which; it must run.
        attempt: AttemptId,
        /// Count it as a failure of its task.
        fail: bool,
    } -> () = Change, by Modifier(attempt.task.job),
        logged on(if *fail { "failTask" } else { "killTask" }, *attempt);

    /// Workers, by machine.
    9: Workers -> Vec<WorkerReport> = Read;

    /// Reads the list of workers to be drained again.
    10: RefreshNodes -> () = Change, by Administrator("refreshNodes"),
        logged alone("refreshNodes");

    /// Reads the rules of the queues again; invalid rules change nothing.
    11: RefreshQueues -> () = Change, by Administrator("refreshQueues"),
        logged alone("refreshQueues");

    /// Everything needed to run an attempt again elsewhere.
    12: Replay(attempt: AttemptId) -> Replay = Read, by Viewer(attempt.task.job);

    /// Forgets which groups users belong to, and asks the system again.
    13: RefreshGroups -> () = Order, by Administrator("refreshUserToGroupsMappings"),
        logged alone("refreshUserToGroupsMappings");

    /// Queues whose jobs the caller may view and change, whoever owns the jobs.
    14: AdministeredQueues -> Vec<String> = Read;
}

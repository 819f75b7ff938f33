//! The data of one worker's page.

use protocol::{AttemptId, WorkerId};

use super::picture::{AttemptRow, row};
use super::report::WorkerRow;
use crate::core::rights::{Caller, Operation};
use crate::core::workers::Liveness;
use crate::core::{Core, Now};

/// A worker and its attempts.
#[derive(Debug)]
pub(crate) struct WorkerPicture {
    pub(crate) row: WorkerRow,
    /// Map outputs that jobs still need from it.
    pub(crate) held_count: usize,
    /// Attempts that hold its slots, oldest first, of jobs that the viewer may see.
    pub(crate) running: Vec<RunningAttempt>,
    /// Attempts of other jobs there.
    pub(crate) hidden_count: usize,
    /// The last attempts that failed there, newest first, of jobs that are known and that the viewer may see.
    pub(crate) failed: Vec<FailedAttempt>,
}

/// An attempt that failed.
#[derive(Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) id: AttemptId,
    pub(crate) job_name: String,
    pub(crate) user: String,
    pub(crate) finished_ms: u64,
    pub(crate) diagnostics: String,
}

/// An attempt that holds a slot.
#[derive(Debug)]
pub(crate) struct RunningAttempt {
    pub(crate) id: AttemptId,
    pub(crate) job_name: String,
    pub(crate) user: String,
    pub(crate) row: AttemptRow,
}

impl Core {
    /// The worker at an address.
    pub(crate) fn worker_picture(
        &self,
        caller: &Caller<'_>,
        http_address: &str,
        now: Now,
    ) -> Option<WorkerPicture> {
        let worker = self.workers.iter().find(|worker| {
            worker.liveness != Liveness::Expected && worker.http_address == http_address
        })?;
        let mut running: Vec<RunningAttempt> =
            worker.running.iter().filter_map(|id| self.running_attempt(caller, *id)).collect();
        let hidden_count = worker.running.len() - running.len();
        running.sort_by_key(|attempt| (attempt.row.started_ms, attempt.id));
        let held_count = self.held_count(worker.id);
        let failed = worker.recent.failures();
        let failed = failed.filter_map(|id| self.failed_attempt(caller, id)).collect();
        let row = self.worker_row(worker, now);
        Some(WorkerPicture { row, held_count, running, hidden_count, failed })
    }

    fn failed_attempt(&self, caller: &Caller<'_>, id: AttemptId) -> Option<FailedAttempt> {
        let job = self.jobs.get(&id.task.job)?;
        if !self.may(caller, Operation::View, job) {
            return None;
        }
        let attempt = job.attempt(id)?;
        Some(FailedAttempt {
            id,
            job_name: job.spec.name.clone(),
            user: job.user.clone(),
            finished_ms: attempt.finished_ms,
            diagnostics: attempt.diagnostics.clone(),
        })
    }

    fn running_attempt(&self, caller: &Caller<'_>, id: AttemptId) -> Option<RunningAttempt> {
        let job = self.jobs.get(&id.task.job)?;
        if !self.may(caller, Operation::View, job) {
            return None;
        }
        let attempt = job.attempt(id)?;
        Some(RunningAttempt {
            id,
            job_name: job.spec.name.clone(),
            user: job.user.clone(),
            row: row(id.task.kind, id.task.index, attempt, 0),
        })
    }

    fn held_count(&self, worker: WorkerId) -> usize {
        self.map_outputs.held_by(worker).len()
    }
}

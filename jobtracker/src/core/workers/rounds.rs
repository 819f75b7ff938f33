//! What workers report of tasks of rounds, and what follows for the outputs that they hold.

use protocol::rounds::Summary;
use protocol::tracker::Action;
use protocol::{AttemptId, DfsPath, JobId, TaskKind, WorkerId};

use super::tracker::is_attempt_directory;
use crate::core::edit::Made;
use crate::core::jobs::{StopReason, TooLong};
use crate::core::{Core, Output};

impl Core {
    /// The part of a summary to record.
    pub(super) fn admit_summary(
        &self,
        id: AttemptId,
        summary: Summary,
    ) -> Result<Summary, TooLong> {
        let rounds = self.jobs.get(&id.task.job).and_then(|job| job.rounds.as_ref());
        match (rounds, id.task.kind) {
            (Some(rounds), TaskKind::Reduce) => rounds.admit(id.task.index, summary),
            _ => Ok(Summary::default()),
        }
    }

    /// What a task of a round made, or why its report is wrong.
    pub(super) fn round_output(
        &self,
        worker: WorkerId,
        id: AttemptId,
        data_path: String,
        (summary, measure, kept): (Summary, Option<f64>, Option<DfsPath>),
    ) -> Result<Made, String> {
        let job = &self.jobs[&id.task.job];
        let (Some(rounds), TaskKind::Reduce) = (&job.rounds, id.task.kind) else {
            return Err("reported the end of a round, and is of no round".to_owned());
        };
        rounds.check_end(id.task.index, false)?;
        if let Some(directory) = &kept {
            if !is_attempt_directory(&job.spec.output, id, directory) {
                return Err(format!("reported {directory}, which is not its directory"));
            }
            rounds.check_kept(id.task.index)?;
        }
        let output = self.output(worker, id, data_path)?;
        let measure = measure.filter(|measure| measure.is_finite());
        Ok(Made::RoundOutput { output, summary, measure, kept })
    }

    /// Removes what an attempt of a round made that did not win its task.
    pub(super) fn discard_round(
        &mut self,
        worker: WorkerId,
        id: AttemptId,
        kept: Option<DfsPath>,
        out: &mut Output,
    ) {
        if let Some(directory) = kept {
            self.discard(id, directory, out);
        }
        let needs = self.jobs.get(&id.task.job);
        if needs.is_some_and(|job| !job.is_winner(id) || !job.needs_output(id.task)) {
            self.order_worker(worker, Action::DropOutputs { attempts: vec![id] }, out);
        }
    }

    /// Stops the attempts whose inputs are lost; their tasks wait until these have been made again.
    pub(super) fn stop_without_inputs(&mut self, id: JobId, out: &mut Output) {
        let stopped = self.jobs.get(&id).map(|job| job.without_inputs()).unwrap_or_default();
        for attempt in stopped {
            self.stop_attempt(attempt, StopReason::InputLost, out);
        }
    }

    /// All tasks of a round have kept their state: nobody needs what lies before.
    pub(super) fn drop_outputs(&mut self, id: JobId, out: &mut Output) {
        let Some(job) = self.jobs.get(&id) else { return };
        let is_needed = |output: AttemptId| output.task.job != id || job.needs_output(output.task);
        for (worker, attempts) in self.map_outputs.drop_outputs(is_needed) {
            self.order_worker(worker, Action::DropOutputs { attempts }, out);
        }
    }
}

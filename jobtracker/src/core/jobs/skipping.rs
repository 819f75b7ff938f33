//! Records that maps skip, if their job allows it, because attempts ended in them.
//!
//! Invariants: the skipped records follow from the task's failed attempts alone, so each later attempt skips the same records and more,
//! even after a restart. An attempt that found a record to skip does not count against the limit of attempts. A task therefore ends after
//! at most that limit plus the number of records allowed.

use protocol::{AttemptId, DfsPath, RecordAt, TaskId, TaskKind};

use super::job::{Job, TEMPORARY};
use super::task::{AttemptState, Task, TaskOutput};

impl Job {
    /// The records that attempt `number` of a map skips, ascending.
    pub(crate) fn skip_list(&self, task: TaskId, number: u32) -> Vec<RecordAt> {
        let mut records = self.ended_in(task, number);
        let failed = self.failed_before(task, number);
        if self.settings.skip_max == 0 || failed < self.settings.skip_start {
            return Vec::new();
        }
        records.truncate(self.settings.skip_max as usize);
        records.sort_unstable();
        records
    }

    /// Records in which attempts of a task ended, each once, in that order.
    pub(crate) fn bad_records(&self, task: TaskId) -> Vec<RecordAt> {
        self.ended_in(task, u32::MAX)
    }

    /// True if a failure in `record` only costs that record: it is new, and the limit allows one more. Call it before recording the
    /// failure.
    pub(crate) fn is_excused(&self, task: TaskId, record: Option<RecordAt>) -> bool {
        let known = self.bad_records(task);
        let is_new = record.is_some_and(|record| !known.contains(&record));
        is_new && known.len() < self.settings.skip_max as usize
    }

    /// True if a task may not be tried again.
    pub(crate) fn is_exhausted(&self, task: TaskId) -> bool {
        let (failed, bad) = (self.failed_before(task, u32::MAX), self.bad_records(task));
        let skip_max = self.settings.skip_max;
        let bad = u32::try_from(bad.len()).unwrap_or(u32::MAX);
        (skip_max > 0 && bad > skip_max)
            || failed - bad.min(skip_max) >= self.attempts_max(task.kind)
    }

    /// Attempts of a task of this kind before the job fails.
    pub(crate) fn attempts_max(&self, kind: TaskKind) -> u32 {
        self.settings.attempts_max(kind).unwrap_or(self.spec.attempts_max)
    }

    /// Directories of finished maps that wrote their skipped records, beside a map output.
    pub(crate) fn skip_logs(&self) -> Vec<DfsPath> {
        if self.settings.skip_max == 0 {
            return Vec::new();
        }
        let wrote = |(index, task): (u32, &Task)| {
            let winner = task.winner.as_ref()?;
            let id = self.task_id(TaskKind::Map, index);
            let is_map_output = matches!(winner.output, TaskOutput::Map(_));
            if !is_map_output || self.skip_list(id, winner.number).is_empty() {
                return None;
            }
            let attempt = AttemptId { task: id, number: winner.number };
            self.spec.output.join(&format!("{TEMPORARY}/{attempt}")).ok()
        };
        self.maps.iter().filter_map(wrote).collect()
    }

    fn ended_in(&self, task: TaskId, before: u32) -> Vec<RecordAt> {
        let mut records = Vec::new();
        for attempt in self.task(task).into_iter().flat_map(|task| &task.attempts) {
            let is_failed = attempt.state == AttemptState::Failed && attempt.number < before;
            if let Some(record) = attempt.record.filter(|_| is_failed)
                && !records.contains(&record)
            {
                records.push(record);
            }
        }
        records
    }

    fn failed_before(&self, task: TaskId, before: u32) -> u32 {
        let attempts = self.task(task).into_iter().flat_map(|task| &task.attempts);
        let failed = attempts
            .filter(|attempt| attempt.state == AttemptState::Failed && attempt.number < before);
        u32::try_from(failed.count()).unwrap_or(u32::MAX)
    }
}

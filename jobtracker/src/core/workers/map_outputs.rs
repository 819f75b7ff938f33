//! Which worker holds which map outputs, and which of them reduces could not fetch.
//!
//! Invariant: holds only outputs of jobs that still need them; an entry is dropped with the output or the job.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{AttemptId, JobId, WorkerId};

/// Reports by this many different reduce attempts (or repeats by the only one that runs) give an output up.
const REPORTS_MAX: usize = 3;

/// The workers with finished map outputs, and the failed fetches of these.
#[derive(Debug, Default)]
pub(crate) struct MapOutputs {
    by_worker: BTreeMap<WorkerId, BTreeSet<AttemptId>>,
    reports: BTreeMap<AttemptId, BTreeMap<AttemptId, usize>>,
}

impl MapOutputs {
    /// `worker` holds the output of `map`.
    pub(crate) fn insert(&mut self, worker: WorkerId, map: AttemptId) {
        self.by_worker.entry(worker).or_default().insert(map);
    }

    /// The output is gone.
    pub(crate) fn remove(&mut self, worker: WorkerId, map: AttemptId) {
        self.reports.remove(&map);
        if let Some(held) = self.by_worker.get_mut(&worker) {
            held.remove(&map);
            if held.is_empty() {
                self.by_worker.remove(&worker);
            }
        }
    }

    /// Removes the outputs that are not needed, and returns them by worker.
    pub(crate) fn drop_outputs(
        &mut self,
        is_needed: impl Fn(AttemptId) -> bool,
    ) -> BTreeMap<WorkerId, Vec<AttemptId>> {
        let mut dropped = BTreeMap::new();
        for (worker, held) in &self.by_worker {
            let gone: Vec<AttemptId> =
                held.iter().copied().filter(|attempt| !is_needed(*attempt)).collect();
            if !gone.is_empty() {
                dropped.insert(*worker, gone);
            }
        }
        for (worker, gone) in &dropped {
            gone.iter().for_each(|attempt| self.remove(*worker, *attempt));
        }
        dropped
    }

    /// The job needs no map outputs any more.
    pub(crate) fn forget_job(&mut self, job: JobId) {
        self.reports.retain(|map, _| map.task.job != job);
        self.by_worker.retain(|_, held| {
            held.retain(|map| map.task.job != job);
            !held.is_empty()
        });
    }

    /// Everything that `worker` holds.
    pub(crate) fn held_by(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.by_worker.get(&worker).into_iter().flatten().copied().collect()
    }

    /// Workers that hold anything.
    pub(crate) fn holders(&self) -> impl Iterator<Item = WorkerId> {
        self.by_worker.keys().copied()
    }

    /// `reduce` could not fetch the output of `map`. True if the output must be given up: three different attempts report it, or at least
    /// half of the `running` reduces, or the only one for the third time.
    pub(crate) fn report_failure(
        &mut self,
        map: AttemptId,
        reduce: AttemptId,
        running: u32,
    ) -> bool {
        let reports = self.reports.entry(map).or_default();
        let repeats = reports.entry(reduce).or_default();
        *repeats += 1;
        let repeats = *repeats;
        if running <= 1 {
            return repeats >= REPORTS_MAX || reports.len() >= REPORTS_MAX;
        }
        reports.len() >= REPORTS_MAX || 2 * reports.len() >= running as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{TaskId, TaskKind};

    fn attempt(job: u32, kind: TaskKind, index: u32) -> AttemptId {
        let job = JobId { cluster_start: 1, number: job };
        AttemptId { task: TaskId { job, kind, index }, number: 0 }
    }

    #[test]
    fn an_output_is_given_up_after_enough_reports() {
        let map = attempt(1, TaskKind::Map, 0);
        let reduce = |index| attempt(1, TaskKind::Reduce, index);
        for (running, reporters, given_up_at) in [
            (1, vec![0, 0, 0], 2),
            (2, vec![0], 0),
            (4, vec![0, 0, 1], 2),
            (100, vec![0, 0, 1, 1, 2], 4),
        ] {
            let mut outputs = MapOutputs::default();
            let last = reporters.len() - 1;
            assert_eq!(last, given_up_at);
            for (position, reporter) in reporters.into_iter().enumerate() {
                let given_up = outputs.report_failure(map, reduce(reporter), running);
                assert_eq!(given_up, position == last, "{running} running, report {position}");
            }
        }
    }

    #[test]
    fn what_a_worker_holds() {
        let mut outputs = MapOutputs::default();
        let (a, b) = (WorkerId([1; 16]), WorkerId([2; 16]));
        outputs.insert(a, attempt(1, TaskKind::Map, 0));
        outputs.insert(a, attempt(2, TaskKind::Map, 0));
        outputs.insert(b, attempt(1, TaskKind::Map, 1));
        outputs.remove(b, attempt(1, TaskKind::Map, 1));
        assert_eq!(outputs.holders().collect::<Vec<_>>(), [a]);
        outputs.insert(b, attempt(2, TaskKind::Reduce, 5));
        let dropped = outputs.drop_outputs(|output| output.task.kind == TaskKind::Map);
        assert_eq!(dropped, [(b, vec![attempt(2, TaskKind::Reduce, 5)])].into());
        outputs.forget_job(JobId { cluster_start: 1, number: 1 });
        assert_eq!(outputs.held_by(a), [attempt(2, TaskKind::Map, 0)]);
    }
}

//! Jobs in rounds: what holds of them in every history, and scenes.

use std::collections::BTreeMap;

use protocol::rounds::{RoundWork, RoundsSpec, Summary};
use protocol::{AttemptId, DfsPath, JobId, TaskKind};

use crate::core::edit::{Edit, Made};
use crate::core::jobs::{AttemptState, Job, Standing};

/// What the journal says of rounds, read for itself.
#[derive(Default)]
pub(super) struct RoundLaws {
    /// The first summary of each task.
    summaries: BTreeMap<(JobId, u32), Summary>,
    /// Where each task kept its state first.
    kept: BTreeMap<(JobId, u32), DfsPath>,
}

impl RoundLaws {
    /// A fact is in the journal.
    pub(super) fn note(&mut self, edit: &Edit) {
        let Edit::AttemptSucceeded { attempt, made, .. } = edit else { return };
        let Made::RoundOutput { summary, kept, .. } = made else { return };
        let task = (attempt.task.job, attempt.task.index);
        self.summaries.entry(task).or_insert_with(|| summary.clone());
        if let Some(directory) = kept {
            self.kept.entry(task).or_insert_with(|| directory.clone());
        }
    }

    /// Attempts of rounds run only while their inputs are complete; tasks wait exactly if they may start; what is counted is right.
    pub(super) fn check(&self, job: &Job) {
        let Some(rounds) = &job.rounds else { return };
        let count = job.spec.reduce_count;
        let won = |index: u32| job.reduces.task(index).is_some_and(|task| task.winner.is_some());
        let missing = |round: u32| (0..count).filter(|at| !won(round * count + at)).count() as u32;
        let known: Vec<u32> = (0..job.reduces.len() / count).map(missing).collect();
        assert_eq!(rounds.missing(), known);
        if !job.is_active() {
            return;
        }
        let newest = job.reduces.len() / count - 1;
        for (index, task) in job.reduces.iter() {
            let (round, partition) = (index / count, index % count);
            let has_inputs = match round {
                0 => job.maps.is_done(),
                _ => {
                    let is_kept = self.kept.contains_key(&(job.id, index));
                    won(partition) && (is_kept || known[round as usize - 1] == 0)
                }
            };
            let runs = task.live().any(|attempt| attempt.state == AttemptState::Running);
            assert!(!runs || has_inputs, "{index} runs without its inputs");
            let is_offered = rounds.offered().contains(&index);
            assert!(!is_offered || has_inputs && task.winner.is_none(), "{index} is offered");
            let must = task.winner.is_none() && has_inputs && (round == newest || round == 0);
            assert!(!must || is_offered, "{index} could start");
        }
        let pending = |index: &&u32| {
            job.reduces.task(**index).is_some_and(|task| task.standing() == Standing::Pending)
        };
        let waiting = rounds.offered().iter().filter(pending).count();
        assert_eq!(job.reduces.waiting() as usize, waiting);
    }

    /// The work of an attempt of a round is complete and in order.
    pub(super) fn check_work(&self, attempt: AttemptId, work: &RoundWork) {
        let (job, count) = (attempt.task.job, work.partition_count);
        assert_eq!(attempt.task.index, work.round * count + work.partition);
        let tasks: Vec<u32> = work.inputs.iter().map(|input| input.attempt.task.index).collect();
        let of = |kind| work.inputs.iter().all(|input| input.attempt.task.kind == kind);
        let fixed = work.fixed.as_ref().map(|output| output.attempt.task.index);
        let Some(before) = work.round.checked_sub(1) else {
            assert!(of(TaskKind::Map) && tasks.is_sorted() && work.summaries.is_empty());
            return assert_eq!((fixed, &work.kept), (None, &None));
        };
        let all: Vec<u32> = (before * count..work.round * count).collect();
        match &work.kept {
            Some(directory) => {
                assert!(tasks.is_empty() && !work.keeps);
                assert_eq!(self.kept.get(&(job, attempt.task.index)), Some(directory));
            }
            None => assert!(of(TaskKind::Reduce) && tasks == all, "{tasks:?}"),
        }
        assert_eq!(fixed, Some(work.partition));
        let told: Vec<&Summary> = all.iter().map(|task| &self.summaries[&(job, *task)]).collect();
        assert_eq!(work.summaries.iter().collect::<Vec<_>>(), told, "the same for all");
    }
}

/// Rounds for a random job.
pub(super) fn random_rounds(random: &mut needs::random::Random) -> RoundsSpec {
    let below =
        |random: &mut needs::random::Random, bound| u32::try_from(random.below(bound)).unwrap();
    RoundsSpec { last: 1 + below(random, 5), keep_every: below(random, 4) }
}

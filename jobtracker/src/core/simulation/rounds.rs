//! Jobs in rounds: what holds of them in every history, and scenes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::jobs::{JobSpec, JobState};
use protocol::rounds::{
    PARTITIONS_MAX, ROUNDS_MAX, RoundWork, RoundsSpec, SUMMARY_BYTES_MAX, Summary,
};
use protocol::sizing::ReduceSizing;
use protocol::tracker::AttemptState as Reported;
use protocol::{AttemptId, DfsPath, JobId, TaskKind, WorkerId};

use super::world::{World, spec};
use crate::core::edit::{Edit, Made};
use crate::core::jobs::{AttemptState, Job, Standing, StopReason, TEMPORARY, Task};

/// How often something was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Seen {
    /// Jobs that ended before their last round.
    pub(super) ended_early: usize,
    /// Attempts that began with kept state.
    pub(super) from_kept: usize,
    /// Outputs that were dropped.
    pub(super) dropped: usize,
    /// Tasks of rounds whose output was lost.
    pub(super) lost: usize,
    /// Attempts that were stopped because their inputs were lost.
    pub(super) stopped: usize,
}

impl Seen {
    pub(super) fn add(&mut self, other: Seen) {
        self.ended_early += other.ended_early;
        self.from_kept += other.from_kept;
        self.dropped += other.dropped;
        self.lost += other.lost;
        self.stopped += other.stopped;
    }

    /// True if all of it was seen.
    pub(super) fn is_all(self) -> bool {
        let Seen { ended_early, from_kept, dropped, lost, stopped } = self;
        [ended_early, from_kept, dropped, lost, stopped].iter().all(|count| *count > 0)
    }
}

/// What the journal says of rounds, read for itself.
#[derive(Default)]
pub(super) struct RoundLaws {
    pub(super) seen: Seen,
    /// The first summary of each task.
    summaries: BTreeMap<(JobId, u32), Summary>,
    /// Where each task kept its state first.
    kept: BTreeMap<(JobId, u32), DfsPath>,
}

impl RoundLaws {
    /// A fact is in the journal.
    pub(super) fn note(&mut self, edit: &Edit) {
        match edit {
            Edit::OutputLost { attempt, .. } => {
                self.seen.lost += usize::from(attempt.task.kind == TaskKind::Reduce);
            }
            Edit::AttemptKilled { diagnostics, .. } => {
                let is_stopped = diagnostics == StopReason::InputLost.text();
                self.seen.stopped += usize::from(is_stopped);
            }
            _ => {}
        }
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
    pub(super) fn check_work(&mut self, attempt: AttemptId, work: &RoundWork) {
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
                self.seen.from_kept += 1;
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

/// A job with these rounds and a map on each of two machines; it ends after the round `stop_at`, if it comes to that.
fn in_rounds(partitions: u32, rounds: RoundsSpec, stop_at: u64) -> JobSpec {
    JobSpec { rounds: Some(rounds), fingerprint: stop_at, ..spec(1, &["a", "bb"], partitions) }
}

/// Two workers, on a machine each.
fn two_workers(slot_count: u32) -> (World, [WorkerId; 2]) {
    let mut world = World::new();
    let workers = ["a", "bb"].map(|host| world.add_worker(host, slot_count));
    (world, workers)
}

/// All that runs succeeds, until `is_over`.
fn drive(world: &mut World, is_over: impl Fn(&World) -> bool) {
    for _ in 0..500 {
        if is_over(world) {
            return;
        }
        world.advance(Duration::from_millis(100));
        world.do_all_effects();
        for id in world.workers.keys().copied().collect::<Vec<_>>() {
            world.contact(id, true);
        }
        for id in world.workers.keys().copied().collect::<Vec<_>>() {
            world.running(id).into_iter().for_each(|attempt| world.succeed(id, attempt));
            world.contact(id, true);
        }
        world.check_replay();
    }
    panic!("{:#?}", world.core.jobs.values().map(|job| &job.rounds).collect::<Vec<_>>());
}

fn newest(world: &World, job: JobId) -> u32 {
    world.core.job(job).and_then(Job::rounds_report).expect("it goes in rounds").newest
}

#[test]
fn a_job_goes_from_round_to_round_near_what_is_fixed_until_the_summaries_end_it() {
    let (mut world, _) = two_workers(2);
    let spec = in_rounds(4, RoundsSpec { last: 9, keep_every: 0 }, 3);
    let id = world.submit(1, spec).unwrap();
    drive(&mut world, |world| world.state(id).is_some());
    assert_eq!(world.state(id), Some(JobState::Succeeded));
    let job = world.core.job(id).unwrap();
    let report = job.rounds_report().unwrap();
    assert_eq!((report.newest, report.last), (4, 9), "one round after the one that said so");
    let measured: Vec<u32> = report.measures.iter().map(|at| at.round).collect();
    assert_eq!(measured, [0, 1, 2], "each round tells of the one before, and the last of none");
    assert_eq!((job.reduces.len(), job.reduce_progress()), (20, 1.0));
    for (index, task) in job.reduces.iter() {
        let host = |task: &Task| task.attempts[0].host.clone();
        let fixed = job.reduces.task(index % 4).unwrap();
        assert_eq!((task.attempts.len(), host(task)), (1, host(fixed)), "{index}");
    }
}

#[test]
fn after_a_loss_a_job_goes_on_from_the_kept_state_and_nothing_before_it_is_made_again() {
    let (mut world, [first, _]) = two_workers(2);
    let spec = in_rounds(2, RoundsSpec { last: 6, keep_every: 2 }, 99);
    let id = world.submit(1, spec).unwrap();
    drive(&mut world, |world| newest(world, id) == 3);
    let held = |world: &World| -> BTreeSet<u32> {
        let held = world.workers.values().flat_map(|worker| &worker.held);
        let held = held.filter(|attempt| attempt.task.kind == TaskKind::Reduce);
        held.map(|attempt| attempt.task.index / 2).collect()
    };
    for worker in world.workers.keys().copied().collect::<Vec<_>>() {
        world.contact(worker, true);
    }
    let kept = held(&world);
    assert!(!kept.contains(&1) && kept.contains(&0) && kept.contains(&2), "{kept:?}");
    world.workers.remove(&first);
    world.launched.clear();
    drive(&mut world, |world| world.state(id).is_some());
    assert_eq!(world.state(id), Some(JobState::Succeeded));
    let again: BTreeSet<u32> = world
        .launched
        .iter()
        .filter(|attempt| attempt.task.kind == TaskKind::Reduce)
        .map(|attempt| attempt.task.index / 2)
        .collect();
    assert!(!again.contains(&1), "{again:?}");
    assert!(world.rounds.seen.from_kept > 0 && world.rounds.seen.lost > 0);
}

#[test]
fn tasks_of_a_round_end_alike_or_fail() {
    let (mut world, workers) = two_workers(2);
    let spec = in_rounds(2, RoundsSpec { last: 3, keep_every: 0 }, 99);
    let output = spec.output.clone();
    let id = world.submit(1, spec).unwrap();
    drive(&mut world, |world| newest(world, id) == 1);
    workers.iter().for_each(|worker| world.contact(*worker, true));
    let running = |world: &World| -> Vec<(WorkerId, AttemptId)> {
        let of = |worker: &WorkerId| {
            let worker = *worker;
            world.running(worker).into_iter().map(move |id| (worker, id))
        };
        workers.iter().flat_map(of).collect::<Vec<_>>()
    };
    let [(at, one), (other, two)] = running(&world)[..] else { panic!() };
    world.succeed(at, one);
    world.contact(at, true);
    let directory = output.join(&format!("{TEMPORARY}/{two}")).unwrap();
    let files = Reported::OutputDone { directory, hot_keys: Vec::new() };
    world.end_as(other, two, files);
    world.contact(other, true);
    let failed = world.core.job(id).unwrap().attempt(two).unwrap();
    assert_eq!(failed.state, AttemptState::Failed);
    assert!(failed.diagnostics.contains("by the summaries alone"), "{}", failed.diagnostics);
    drive(&mut world, |world| world.state(id).is_some());
    assert_eq!(world.state(id), Some(JobState::Succeeded));
}

#[test]
fn summaries_that_are_too_long_fail_the_job() {
    let (mut world, workers) = two_workers(4);
    let id = world.submit(1, in_rounds(5, RoundsSpec { last: 3, keep_every: 0 }, 99)).unwrap();
    drive(&mut world, |world| world.core.job(id).unwrap().reduces.running() == 5);
    for worker in workers {
        for attempt in world.running(worker) {
            let done = Reported::RoundDone {
                data_path: "/data".to_owned(),
                summary: Summary { bytes: vec![0; SUMMARY_BYTES_MAX] },
                measure: Some(f64::NAN),
                kept: None,
            };
            world.end_as(worker, attempt, done);
        }
        world.contact(worker, true);
    }
    drive(&mut world, |world| world.state(id).is_some());
    let job = world.core.job(id).unwrap();
    assert_eq!(job.final_state(), Some(JobState::Failed));
    assert!(job.diagnostics.starts_with("Too long summaries"), "{}", job.diagnostics);
}

#[test]
fn what_no_job_in_rounds_can_be_is_refused() {
    let good = in_rounds(2, RoundsSpec { last: 3, keep_every: 0 }, 0);
    let with = |last, partitions| JobSpec {
        rounds: Some(RoundsSpec { last, keep_every: 0 }),
        reduce_count: partitions,
        ..good.clone()
    };
    let sizing = Some(ReduceSizing { slot_count: 1 });
    for (spec, reason) in [
        (with(3, 0), "its number of reduces is above 0"),
        (JobSpec { sizing, ..good.clone() }, "not chosen by size"),
        (with(0, 2), "between 1 and 10000, not 0"),
        (with(ROUNDS_MAX + 1, 2), "between 1 and 10000, not 10001"),
        (with(1, PARTITIONS_MAX + 1), "at most 4096 partitions, not 4097"),
        (with(ROUNDS_MAX, 100), "this one may have 1000100"),
    ] {
        let refused = World::new().submit(1, spec).unwrap_err();
        assert!(refused.message.contains(reason), "{refused}");
    }
    assert!(World::new().submit(1, good).is_ok());
}

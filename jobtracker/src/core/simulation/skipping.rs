//! Records that maps skip, through failures, a restart and a lost output.

use std::time::Duration;

use protocol::jobs::JobState;
use protocol::{AttemptId, JobId, RecordAt, TaskId, TaskKind, WorkerId};

use super::world::{World, spec};
use crate::core::winners;

/// Seconds that a task may wait for a worker on which it has not failed.
const WAITS_MAX: u32 = 10;

const fn at(offset: u64) -> RecordAt {
    RecordAt { part: 0, offset }
}

/// A job of one map and one reduce that may skip two records, and its worker.
fn start(properties: &[(&str, &str)]) -> (World, JobId, WorkerId) {
    let mut world = World::new();
    let worker = world.add_worker("a", 1);
    world.contact(worker, true);
    let mut spec = spec(1, &["a"], 1);
    let first = ("mapreduce.map.skip.maxrecords", "2");
    for (name, value) in [&[first][..], properties].concat() {
        spec.properties.insert(name.to_owned(), value.to_owned());
    }
    spec.attempts_max = 2;
    let job = world.submit(1, spec).unwrap();
    world.do_all_effects();
    world.contact(worker, true);
    (world, job, worker)
}

/// The running attempt fails in a record; returns the records that the next one skips.
fn fail_in(
    world: &mut World,
    job: JobId,
    worker: WorkerId,
    record: Option<RecordAt>,
) -> Vec<RecordAt> {
    let attempt = world.running(worker)[0];
    world.fail(worker, attempt);
    world.workers.get_mut(&worker).unwrap().unconfirmed.last_mut().unwrap().record = record;
    world.contact(worker, true);
    // The task waits a little for another worker.
    for _ in 0..WAITS_MAX {
        if world.running(worker).is_empty() {
            world.advance(Duration::from_secs(1));
            world.contact(worker, true);
        }
    }
    skips(world, job)
}

fn skips(world: &World, job: JobId) -> Vec<RecordAt> {
    let task = TaskId { job, kind: TaskKind::Map, index: 0 };
    world.core.job(job).unwrap().skip_list(task, u32::MAX)
}

#[test]
fn bad_records_cost_no_attempts_until_there_are_too_many() {
    let (mut world, job, worker) = start(&[]);
    assert_eq!(fail_in(&mut world, job, worker, Some(at(70))), [at(70)]);
    assert_eq!(fail_in(&mut world, job, worker, Some(at(7))), [at(7), at(70)]);
    assert!(world.core.job(job).unwrap().failures.is_empty(), "no fault of the worker");
    assert_eq!(fail_in(&mut world, job, worker, None), [at(7), at(70)], "one of two attempts");
    assert_eq!(world.state(job), None);
    fail_in(&mut world, job, worker, Some(at(8)));
    world.do_all_effects();
    assert_eq!(world.state(job), Some(JobState::Failed));
    let reason = &world.core.job(job).unwrap().diagnostics;
    assert!(reason.contains("met 3 bad records and may leave out 2"), "{reason}");
}

#[test]
fn what_is_left_out_survives_a_restart_and_its_list_is_published() {
    let (mut world, job, worker) = start(&[]);
    fail_in(&mut world, job, worker, Some(at(5)));
    world.restart();
    world.contact(worker, true);
    assert_eq!(skips(&world, job), [at(5)]);
    world.do_all_effects();
    for _ in 0..3 {
        world.running(worker).into_iter().for_each(|attempt| world.succeed(worker, attempt));
        world.contact(worker, true);
    }
    let found = world.core.job(job).unwrap();
    let map = found.maps.task(0).unwrap().winner.as_ref().unwrap().number;
    let id = AttemptId { task: TaskId { job, kind: TaskKind::Map, index: 0 }, number: map };
    let wanted = found.spec.output.join(&format!("_temporary/{id}")).unwrap();
    assert!(winners(found).contains(&wanted), "{:?}", winners(found));
}

#[test]
fn a_record_may_be_given_another_try() {
    let (mut world, job, worker) = start(&[("mapreduce.task.skip.start.attempts", "2")]);
    assert_eq!(fail_in(&mut world, job, worker, Some(at(5))), Vec::new());
    assert_eq!(fail_in(&mut world, job, worker, Some(at(5))), [at(5)]);
    let failed = fail_in(&mut world, job, worker, Some(at(5)));
    assert_eq!((failed, world.state(job).is_some()), (vec![at(5)], false));
    world.do_all_effects();
    assert_eq!(world.state(job), Some(JobState::Failed), "it fails there all the same");
}

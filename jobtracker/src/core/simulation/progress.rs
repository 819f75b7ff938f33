//! The progress of attempts: what workers report, and what is kept of it.

use std::time::Duration;

use protocol::AttemptId;
use protocol::jobs::Counters;
use protocol::phase::Phase;
use protocol::tracker::{AttemptState as Reported, AttemptUpdate};

use super::world::{ROOT, World, spec};
use crate::core::jobs::AttemptState;

#[test]
fn where_an_attempt_ended_is_known_after_a_restart() {
    let mut world = World::new();
    let worker = world.add_worker("a", 2);
    let job = world.submit(1, spec(1, &["a", "a"], 0)).unwrap();
    world.do_all_effects();
    for _ in 0..2 {
        world.contact(worker, true);
        world.advance(Duration::from_millis(1));
    }
    let running = world.running(worker);
    assert_eq!(running.len(), 2);
    let tell = |world: &mut World, attempt, state, progress, phase| {
        let (counters, record) = (Counters::default(), None);
        let update = AttemptUpdate { attempt, state, progress, phase, counters, record };
        let epoch = world.core.epoch();
        let out = world.core.report(worker, epoch, vec![update], Vec::new(), world.now).unwrap();
        world.take(out);
    };
    let seen = |world: &World, id: AttemptId| {
        let row = world.core.attempt_picture(id).unwrap().row;
        (row.state, row.phase, row.progress)
    };
    tell(&mut world, running[0], Reported::Running, 0.4, Some(Phase::Map));
    tell(&mut world, running[1], Reported::Running, f32::NAN, Some(Phase::Shuffle));
    assert_eq!(seen(&world, running[0]), (AttemptState::Running, Some(Phase::Map), 0.4));
    assert_eq!(seen(&world, running[1]), (AttemptState::Running, None, 0.0), "no phase of a map");
    let failed = Reported::Failed { diagnostics: "disk full".to_owned() };
    tell(&mut world, running[0], failed, 0.6, Some(Phase::Merge));
    tell(&mut world, running[1], Reported::Killed, 0.5, Some(Phase::Map));
    let report = world.core.worker_reports(world.now).remove(0);
    assert_eq!((report.succeeded_count, report.failed_count), (0, 1));
    assert!(report.launched_count >= 2, "{report:?}");
    world.restart();
    assert_eq!(seen(&world, running[0]), (AttemptState::Failed, Some(Phase::Merge), 0.6));
    assert_eq!(seen(&world, running[1]), (AttemptState::Killed, Some(Phase::Map), 0.5));
    assert!(world.core.job(job).is_some());
}

#[test]
fn a_worker_is_found_by_its_address() {
    let mut world = World::new();
    let worker = world.add_worker("a", 2);
    let job = world.submit(1, spec(1, &["a", "a", "a"], 0)).unwrap();
    world.do_all_effects();
    for _ in 0..2 {
        world.contact(worker, true);
        world.advance(Duration::from_millis(1));
    }
    let address = world.snapshot(worker).http_address;
    let picture = world.core.worker_picture(&ROOT, &address, world.now).unwrap();
    let running: Vec<AttemptId> = picture.running.iter().map(|attempt| attempt.id).collect();
    assert_eq!(running, world.running(worker));
    assert!(running.iter().all(|id| id.task.job == job));
    assert_eq!(picture.report.running_count, 2);
    assert!(world.core.worker_picture(&ROOT, "elsewhere:1", world.now).is_none());
}

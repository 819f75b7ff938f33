//! The progress of attempts: what workers report, and what is kept of it.

use std::time::Duration;

use protocol::AttemptId;
use protocol::jobs::Counters;
use protocol::phase::Phase;
use protocol::tracker::{AttemptState as Reported, AttemptUpdate, STATUS_CHARS_MAX};

use super::world::{ROOT, World, spec};
use crate::core::jobs::AttemptState;
use crate::core::rights::Caller;
use crate::core::workers::Lately;

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
        let status = String::new();
        let update = AttemptUpdate { attempt, state, progress, phase, counters, record, status };
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
    let picture = world.core.worker_picture(&ROOT, &report.http_address, world.now).unwrap();
    assert_eq!(picture.row.lately, Lately { ended: 1, failed: 1 });
    let failed: Vec<_> = picture.failed.iter().map(|one| (one.id, &*one.diagnostics)).collect();
    assert_eq!(failed, [(running[0], "disk full")]);
    let stranger = Caller { user: "eve", groups: &[], is_superuser: false };
    let seen_by_others =
        world.core.worker_picture(&stranger, &report.http_address, world.now).unwrap();
    assert!(seen_by_others.failed.is_empty() && seen_by_others.row.lately == picture.row.lately);
    world.restart();
    assert_eq!(seen(&world, running[0]), (AttemptState::Failed, Some(Phase::Merge), 0.6));
    assert_eq!(seen(&world, running[1]), (AttemptState::Killed, Some(Phase::Map), 0.5));
    assert!(world.core.job(job).is_some());
}

#[test]
fn what_running_attempts_have_counted_is_seen_until_they_end_and_counts_once() {
    let mut world = World::new();
    let worker = world.add_worker("a", 2);
    let job = world.submit(1, spec(1, &["a", "a"], 0)).unwrap();
    world.do_all_effects();
    for _ in 0..2 {
        world.contact(worker, true);
        world.advance(Duration::from_millis(1));
    }
    let running = world.running(worker);
    let say = |world: &mut World, attempt, state, count, status: &str| {
        let update = AttemptUpdate {
            attempt,
            state,
            progress: 0.5,
            phase: None,
            counters: Counters::from_iter([("G", "seen", count)]),
            record: None,
            status: status.to_owned(),
        };
        let epoch = world.core.epoch();
        let out = world.core.report(worker, epoch, vec![update], Vec::new(), world.now).unwrap();
        world.take(out);
    };
    let seen = |world: &World| world.core.job_report(job).unwrap().counters.value("G", "seen");
    say(&mut world, running[0], Reported::Running, 5, &format!("a\nb{}", "c".repeat(500)));
    say(&mut world, running[1], Reported::Running, 1, "");
    say(&mut world, running[1], Reported::Running, 2, "");
    assert_eq!(seen(&world), 7);
    let status = world.core.attempt_picture(running[0]).unwrap().status;
    assert!(status.starts_with("a bccc") && status.len() == STATUS_CHARS_MAX, "{status}");
    let failed = || Reported::Failed { diagnostics: "broken".to_owned() };
    say(&mut world, running[1], failed(), 3, "");
    assert_eq!(seen(&world), 5, "what a failed attempt counted does not count");
    let directory = spec(1, &[], 0).output.join("_temporary").unwrap();
    let directory = directory.join(&running[0].to_string()).unwrap();
    let done = Reported::OutputDone { directory, hot_keys: Vec::new() };
    say(&mut world, running[0], done, 6, "");
    assert_eq!(seen(&world), 6, "it counts once");
    assert_eq!(world.core.attempt_picture(running[0]).unwrap().status, "");
    world.restart();
    assert_eq!(seen(&world), 6);
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
    assert_eq!(picture.row.report.running_count, 2);
    assert!(world.core.worker_picture(&ROOT, "elsewhere:1", world.now).is_none());
}

#[test]
fn a_job_without_reduces_has_no_progress_of_them() {
    let mut world = World::new();
    let job = world.submit(1, spec(1, &["a"], 0)).unwrap();
    world.do_all_effects();
    assert_eq!(world.core.job(job).unwrap().reduce_progress(), 0.0);
    let job = world.submit(2, spec(2, &["a"], 1)).unwrap();
    assert_eq!(world.core.job(job).unwrap().reduce_progress(), 0.0);
}

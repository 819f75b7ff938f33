//! Single rules, each in a small history.

use std::time::Duration;

use protocol::jobs::{JobSpec, JobState};
use protocol::level::Supported;
use protocol::tracker::{Action, Register};
use protocol::{AttemptId, ErrorKind, FeatureLevel, JobId, RemoteError, TaskKind, WorkerId};

use super::world::{ROOT, RULES, World, spec};
use crate::core::jobs::Phase;
use crate::core::slots::QueueRules;
use crate::core::unfinished::Load;
use crate::core::{EffectDone, Rules};

fn kinds(world: &World, worker: WorkerId) -> String {
    world.running(worker).iter().map(|attempt| attempt.task.kind.letter()).collect()
}

fn start(world: &mut World, number: u64, hosts: &[&str], reduces: u32) -> JobId {
    let job = world.submit(number, spec(number, hosts, reduces)).unwrap();
    world.do_all_effects();
    job
}

fn succeed_all(world: &mut World, worker: WorkerId) {
    world.running(worker).into_iter().for_each(|attempt| world.succeed(worker, attempt));
    world.contact(worker, true);
}

#[test]
fn tasks_go_to_their_data() {
    let mut world = World::new();
    let workers = ["a", "bb", "c"].map(|host| (host, world.add_worker(host, 2)));
    for (_, worker) in workers {
        world.contact(worker, true);
    }
    let job = start(&mut world, 1, &["c", "bb", "a", "a", "bb", "c"], 0);
    for (host, worker) in workers {
        world.contact(worker, true);
        let splits = &world.core.job(job).unwrap().spec.splits;
        for attempt in world.running(worker) {
            assert!(splits.hosts_of(attempt.task.index as usize).eq([host]));
        }
        assert_eq!(world.running(worker).len(), 2);
    }
    assert_eq!(world.core.job(job).unwrap().launched.node_local, 6);
}

#[test]
fn a_worker_that_does_not_support_the_feature_level_is_refused() {
    let mut world = World::new();
    let worker = world.add_worker("a", 2);
    let register = world.snapshot(worker);
    let now = world.now;
    assert!(world.core.register(&register, now).is_ok());
    let levels = Supported { oldest: FeatureLevel(300), newest: FeatureLevel(300) };
    let refused = world.core.register(&Register { levels, ..register }, now).unwrap_err();
    let unsupported = levels.check(FeatureLevel::FIRST).unwrap_err();
    assert_eq!(refused, RemoteError::new(ErrorKind::InvalidArgument, unsupported.to_string()));
}

#[test]
fn reduces_do_not_keep_maps_from_running() {
    let mut world = World::new();
    let worker = world.add_worker("a", 2);
    world.contact(worker, true);
    start(&mut world, 1, &["a"; 8], 4);
    let mut seen = Vec::new();
    for _ in 0..20 {
        world.contact(worker, true);
        seen.push(kinds(&world, worker));
        if let Some(first) = world.running(worker).first() {
            world.succeed(worker, *first);
        }
    }
    assert_eq!(
        seen[..13],
        ["mm", "mm", "mm", "mm", "mm", "mm", "mm", "mr", "rr", "rr", "rr", "r", ""],
    );
}

#[test]
fn the_overview_looks_different_when_something_happened_and_not_as_time_passes() {
    let mut world = World::new();
    let mut seen = vec![world.core.fingerprint()];
    let worker = world.add_worker("a", 1);
    world.contact(worker, true);
    seen.push(world.core.fingerprint());
    let job = start(&mut world, 1, &["a"], 0);
    seen.push(world.core.fingerprint());
    world.contact(worker, true);
    world.advance(Duration::from_secs(1));
    assert_eq!(world.core.fingerprint(), *seen.last().unwrap(), "only time has passed");
    succeed_all(&mut world, worker);
    world.do_all_effects();
    assert_eq!(world.state(job), Some(JobState::Succeeded));
    seen.push(world.core.fingerprint());
    world.workers.remove(&worker);
    world.advance(Duration::from_secs(15));
    seen.push(world.core.fingerprint());
    assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "{seen:?}");
}

/// Two workers with a slot each: one of two maps runs on the first, the reduce on the second.
fn with_a_map_and_a_reduce() -> (World, JobId, [WorkerId; 2]) {
    let mut world = World::new();
    let [first, second] = ["a", "bb"].map(|host| world.add_worker(host, 1));
    world.contact(first, true);
    world.contact(second, true);
    let job = start(&mut world, 1, &["a", "bb"], 1);
    world.contact(first, true);
    world.contact(second, true);
    world.succeed(second, world.running(second)[0]);
    world.contact(second, true);
    assert_eq!((kinds(&world, first), kinds(&world, second)), ("m".to_owned(), "r".to_owned()));
    (world, job, [first, second])
}

#[test]
fn a_reduce_gives_way_to_a_map_that_must_run_again() {
    let (mut world, job, [first, second]) = with_a_map_and_a_reduce();
    succeed_all(&mut world, first);
    world.workers.remove(&first);
    for _ in 0..40 {
        world.advance(Duration::from_secs(1));
        world.contact(second, true);
    }
    assert_eq!(kinds(&world, second), "m", "the lost map runs, the reduce was stopped");
    for _ in 0..4 {
        succeed_all(&mut world, second);
    }
    world.do_all_effects();
    assert_eq!(world.state(job), Some(JobState::Succeeded));
    let counts = world.core.job_report(job).unwrap().reduces;
    assert_eq!((counts.failed_attempts, counts.killed_attempts), (0, 1));
}

#[test]
fn a_reduce_gives_way_to_a_map_where_its_user_may_have_no_more_slots() {
    let one = QueueRules { user_slots_max: 1, ..QueueRules::default() };
    let mut world = World::with(Rules { queues: [("ann".to_owned(), one)].into(), ..RULES });
    let workers = ["a", "bb", "c"].map(|host| world.add_worker(host, 1));
    let contact = |world: &mut World| {
        workers[1..].iter().for_each(|worker| world.contact(*worker, true));
    };
    world.contact(workers[0], true);
    let job = start(&mut world, 1, &["a"], 1);
    world.contact(workers[0], true);
    contact(&mut world);
    world.exclude(&["a"]);
    succeed_all(&mut world, workers[0]);
    contact(&mut world);
    assert_eq!(workers[1..].iter().map(|worker| kinds(&world, *worker)).collect::<String>(), "r");
    world.workers.remove(&workers[0]);
    for _ in 0..40 {
        world.advance(Duration::from_secs(1));
        contact(&mut world);
    }
    assert_eq!(workers[1..].iter().map(|worker| kinds(&world, *worker)).collect::<String>(), "m");
    for _ in 0..2 {
        workers[1..].iter().for_each(|worker| succeed_all(&mut world, *worker));
        contact(&mut world);
    }
    world.do_all_effects();
    assert_eq!(world.state(job), Some(JobState::Succeeded));
}

#[test]
fn a_reduce_gives_way_to_a_map_that_failed_on_the_only_free_worker() {
    let (mut world, job, [first, second]) = with_a_map_and_a_reduce();
    world.fail(first, world.running(first)[0]);
    for _ in 0..4 {
        world.contact(first, true);
        world.contact(second, true);
    }
    assert_eq!(kinds(&world, second), "m", "the map runs where it has not failed");
    for _ in 0..4 {
        succeed_all(&mut world, second);
        succeed_all(&mut world, first);
        world.contact(first, true);
        world.contact(second, true);
    }
    world.do_all_effects();
    assert_eq!(world.state(job), Some(JobState::Succeeded));
}

#[test]
fn a_failed_task_does_not_wait_for_another_worker_for_ever() {
    wait_for_another_worker(0);
}

#[test]
fn a_failed_task_does_not_wait_for_a_clock_that_was_set_back() {
    wait_for_another_worker(900_000);
}

/// A task fails, and the wall clock is set back by so many milliseconds while it waits. All slots of the other worker have tasks that take
/// hours.
fn wait_for_another_worker(set_back_ms: u64) {
    let mut world = World::new();
    let (first, second) = (world.add_worker("a", 1), world.add_worker("bb", 1));
    world.contact(second, true);
    let long = start(&mut world, 1, &["bb"], 0);
    world.contact(second, true);
    assert_eq!(world.running(second).len(), 1);
    world.contact(first, true);
    let job = start(&mut world, 2, &["a"], 0);
    world.contact(first, true);
    world.fail(first, world.running(first)[0]);
    let mut elsewhere = Duration::ZERO;
    while world.running(first).is_empty() {
        assert!(elsewhere < Duration::from_secs(60), "a slot is free and a task waits");
        for worker in [first, second] {
            world.contact(worker, true);
        }
        if elsewhere == Duration::from_secs(22) {
            world.now.wall_ms -= set_back_ms;
        }
        world.advance(Duration::from_secs(1));
        elsewhere += Duration::from_secs(1);
    }
    assert!(elsewhere > Duration::from_secs(20), "it waits a while for another worker");
    succeed_all(&mut world, first);
    world.do_all_effects();
    assert_eq!(world.state(job), Some(JobState::Succeeded));
    assert_eq!(world.state(long), None, "it still runs");
}

#[test]
fn failures_count_and_go_elsewhere() {
    let mut world = World::new();
    let (first, second) = (world.add_worker("a", 1), world.add_worker("bb", 1));
    world.contact(first, true);
    world.contact(second, true);
    let job = start(&mut world, 1, &["a"], 0);
    let mut hosts = Vec::new();
    for _ in 0..4 {
        for worker in [first, second] {
            world.contact(worker, true);
        }
        for (name, worker) in [("a", first), ("bb", second)] {
            for attempt in world.running(worker) {
                hosts.push(name);
                world.fail(worker, attempt);
                world.contact(worker, true);
            }
        }
    }
    world.do_all_effects();
    assert_eq!(hosts.len(), 4);
    assert_ne!(hosts[0], hosts[1], "the second try is elsewhere");
    assert_eq!(world.state(job), Some(JobState::Failed));
    let report = world.core.job_report(job).unwrap();
    assert!(
        report.diagnostics.contains("failed 4 times")
            && report.diagnostics.contains("poison record")
    );
}

#[test]
fn committed_tasks_survive_a_restart_and_running_ones_go_on() {
    let mut world = World::new();
    let worker = world.add_worker("a", 2);
    world.contact(worker, true);
    let job = start(&mut world, 1, &["a", "a", "a"], 1);
    world.contact(worker, true);
    let before = world.running(worker);
    world.succeed(worker, before[0]);
    world.contact(worker, true);
    assert_eq!(world.running(worker).len(), 2);
    let going = world.running(worker);
    world.restart();
    world.do_all_effects();
    world.contact(worker, true);
    assert_eq!(world.running(worker), going, "running attempts re-attach");
    let launched = world.launched.len();
    for _ in 0..10 {
        world.advance(Duration::from_secs(1));
        world.do_all_effects();
        succeed_all(&mut world, worker);
    }
    assert_eq!(world.state(job), Some(JobState::Succeeded));
    let later: Vec<String> = world.launched[launched..].iter().map(ToString::to_string).collect();
    assert_eq!(later.len(), 1, "only the reduce was still to be started: {later:?}");
    assert!(later[0].contains("_r_000000_1000"), "{later:?}");
}

#[test]
fn a_name_that_would_forge_lines_is_refused() {
    let mut world = World::new();
    for name in ["a\nJob: done", "a\u{2028}b", "a\tb"] {
        let mut forged = spec(1, &["a"], 0);
        forged.name = name.to_owned();
        let error = world.submit(1, forged).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{name:?}: {}", error.message);
    }
    let mut plain = spec(1, &["a"], 0);
    plain.name = "Tägliche Zählung – #1".to_owned();
    world.submit(1, plain).unwrap();
}

#[test]
fn outputs_and_calls_are_taken_once() {
    let mut world = World::new();
    let job = start(&mut world, 1, &["a"], 0);
    assert_eq!(
        world.submit(1, spec(1, &["a"], 0)),
        Ok(job),
        "a repeated call gets the first answer"
    );
    let mut other = spec(2, &["a"], 0);
    other.output = spec(1, &[], 0).output;
    let error = world.submit(2, other).unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::AlreadyExists, "Output directory /out-1 already exists")
    );
}

#[test]
fn workers_that_could_not_be_heard_are_not_given_up() {
    let mut world = World::new();
    let worker = world.add_worker("a", 1);
    world.contact(worker, true);
    start(&mut world, 1, &["a"], 0);
    world.contact(worker, true);
    let attempt = world.running(worker)[0];
    world.stand_still(Duration::from_secs(600));
    world.advance(Duration::from_secs(29));
    assert_eq!(world.launched, [attempt]);
    world.contact(worker, true);
    assert_eq!(world.running(worker), [attempt]);
    world.advance(Duration::from_secs(31));
    assert!(world.core.workers.worker(worker).is_none(), "one that is silent is");
}

#[test]
fn whoever_is_heard_first_after_a_standstill_is_not_the_only_one_excused() {
    let mut world = World::new();
    let (first, second) = (world.add_worker("a", 1), world.add_worker("bb", 1));
    world.contact(first, true);
    world.contact(second, true);
    world.pass(Duration::from_secs(600));
    world.contact(first, true);
    world.advance(Duration::from_secs(29));
    assert!(world.core.workers.worker(second).is_some());
    // A loop too busy to check the time still receives messages: a worker that is silent meanwhile is gone at the next check.
    for _ in 0..31 {
        world.pass(Duration::from_secs(1));
        world.contact(first, true);
    }
    world.advance(Duration::from_millis(1));
    assert!(world.core.workers.worker(second).is_none());
}

#[test]
fn a_loser_is_told_to_stop_and_its_files_go() {
    let mut world = World::new();
    let (first, second) = (world.add_worker("a", 1), world.add_worker("bb", 1));
    world.contact(first, true);
    let job = start(&mut world, 1, &["a"], 0);
    world.contact(first, true);
    let slow = world.running(first)[0];
    world.advance(Duration::from_secs(31));
    world.contact(second, true);
    let fast = world.running(second)[0];
    assert!(fast != slow && fast.task == slow.task);
    world.contact(first, true);
    world.contact(first, true);
    assert_eq!(world.running(first), [slow], "it is back and goes on");
    world.succeed(second, fast);
    world.succeed(first, slow);
    world.contact(second, true);
    world.contact(first, true);
    world.do_all_effects();
    assert_eq!(world.state(job), Some(JobState::Succeeded));
    let files = |attempt: AttemptId| format!("/out-1/_temporary/{attempt}");
    assert_eq!(
        world.published[&job].iter().map(|p| p.to_string()).collect::<Vec<_>>(),
        [files(fast)]
    );
    assert_eq!(world.core.job_report(job).unwrap().maps.killed_attempts, 1);
    assert_eq!(world.core.job_report(job).unwrap().counters.value("test", "attempts"), 1);
    assert_eq!(fast.task.kind, TaskKind::Map);
}

#[test]
fn a_kill_waits_for_attempts_then_cleans_up() {
    let mut world = World::new();
    let worker = world.add_worker("a", 1);
    world.contact(worker, true);
    let job = start(&mut world, 1, &["a", "a"], 0);
    world.contact(worker, true);
    let out = world.core.kill(job, "ann", world.now).unwrap();
    world.take(out);
    world.do_all_effects();
    assert_eq!(world.state(job), None, "an attempt still runs");
    world.contact(worker, true);
    world.do_all_effects();
    assert_eq!(world.state(job), Some(JobState::Killed));
    assert_eq!(world.core.job_report(job).unwrap().diagnostics, "Job killed by ann");
    assert!(!world.published.contains_key(&job));
}

/// Whoever is told that a job is killed finds it killed.
#[test]
fn a_kill_is_granted_only_if_the_job_ends_as_killed() {
    for fails in [false, true] {
        let mut world = World::new();
        let worker = world.add_worker("a", 1);
        world.contact(worker, true);
        let job = start(&mut world, 1, &["a"], 0);
        world.contact(worker, true);
        let refused = |world: &mut World, why: &str| {
            let error = world.core.kill(job, "ann", world.now).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidArgument);
            assert!(error.message.contains(why), "{error}");
        };
        let attempt = world.running(worker)[0];
        world.succeed(worker, attempt);
        world.contact(worker, true);
        assert_eq!(world.core.job(job).unwrap().phase, Phase::Committing);
        refused(&mut world, "it is publishing its output");
        if fails {
            let refusal = RemoteError::new(ErrorKind::SpaceQuotaExceeded, "no room");
            let done = EffectDone::Commit(Err(refusal));
            let out = world.core.effect_done(job, done, world.now);
            world.effects.clear();
            world.take(out);
            refused(&mut world, "it has already failed");
        }
        world.do_all_effects();
        let (state, why) = match fails {
            true => (JobState::Failed, "it has already failed"),
            false => (JobState::Succeeded, "it has already succeeded"),
        };
        assert_eq!(world.state(job), Some(state));
        refused(&mut world, why);
    }
}

#[test]
fn an_attempt_that_is_being_killed_cannot_be_failed() {
    let mut world = World::new();
    let worker = world.add_worker("a", 1);
    world.contact(worker, true);
    start(&mut world, 1, &["a"], 0);
    world.contact(worker, true);
    let attempt = world.running(worker)[0];
    for (fail, is_granted) in [(false, true), (false, true), (true, false)] {
        let done = world.core.stop_by_user(attempt, fail, world.now);
        assert_eq!(done.is_ok(), is_granted);
        done.into_iter().for_each(|out| world.take(out));
    }
}

/// A short submission asks for a million tasks: the sum over jobs is bounded, also after a restart, and what is over does not count.
#[test]
fn unfinished_jobs_are_bounded() {
    let mut rules = RULES;
    rules.bounds.user = Load { jobs: 2, tasks: 1_500 };
    let mut world = World::with(rules);
    let big = world.submit(1, spec(1, &["a"], 1_000)).unwrap();
    for _ in 0..2 {
        let refused = world.submit(2, spec(2, &["a"], 1_000)).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::LimitExceeded);
        assert!(refused.message.contains("user_task_count_max"), "{refused}");
        world.restart();
    }
    assert_eq!(world.submit(1, spec(1, &["a"], 1_000)), Ok(big), "it is a repeat");
    world.submit_as("bob", 9, spec(9, &["a"], 1_000)).unwrap();
    world.submit(3, spec(3, &["a"], 1)).unwrap();
    let refused = world.submit(4, spec(4, &["a"], 1)).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::LimitExceeded);
    assert!(refused.message.contains("user_job_count_max"), "{refused}");
    let out = world.core.kill(big, "ann", world.now).unwrap();
    world.take(out);
    world.do_all_effects();
    assert_eq!(world.state(big), Some(JobState::Killed));
    world.submit(2, spec(2, &["a"], 1_000)).unwrap();
}

#[test]
fn a_journal_from_a_backup_names_no_job_like_one_that_ran_since() {
    let mut world = World::new();
    let first = world.submit(1, spec(1, &["a"], 0)).unwrap();
    let backup = world.edits.clone();
    let mut lost = Vec::new();
    for call in 2..5 {
        world.restart();
        lost.push(world.submit(call, spec(call, &["a"], 0)).unwrap());
    }
    world.edits = backup;
    world.restart();
    let new = world.submit(9, spec(9, &["a"], 0)).unwrap();
    assert!(!lost.contains(&new) && new > first, "{new} beside {lost:?}");
    assert_eq!(new.number, first.number + 1, "numbers go on");
}

#[test]
fn a_kill_is_not_forgotten_in_a_restart() {
    let mut world = World::new();
    let worker = world.add_worker("a", 1);
    let young = world.submit(1, spec(1, &["a"], 0)).unwrap();
    let kill = |world: &mut World, job| {
        let out = world.core.kill(job, "ann", world.now).unwrap();
        world.take(out);
        world.check_replay();
    };
    kill(&mut world, young);
    kill(&mut world, young);
    world.restart();
    assert_eq!(world.core.job(young).unwrap().phase, Phase::Ending(JobState::Killed));
    let running = start(&mut world, 2, &["a", "a"], 0);
    world.contact(worker, true);
    assert_eq!(world.core.job(running).unwrap().live_count(), 1);
    world.restart();
    kill(&mut world, running);
    let phase = world.core.job(running).unwrap().phase;
    assert_eq!(phase, Phase::Ending(JobState::Killed), "it does not wait for the file system");
    assert_eq!(world.submissions[&running], Ok(()));
    world.restart();
    for _ in 0..3 {
        world.contact(worker, true);
        world.do_all_effects();
    }
    for job in [young, running] {
        assert_eq!(world.state(job), Some(JobState::Killed));
    }
    assert_eq!(world.launched.len(), 1);
}

#[test]
fn what_a_user_asked_of_an_attempt_is_not_forgotten_in_a_restart() {
    for (fail, expected) in [(false, (0, 1)), (true, (1, 0))] {
        let mut world = World::new();
        let worker = world.add_worker("a", 1);
        world.contact(worker, true);
        let job = start(&mut world, 1, &["a"], 0);
        world.contact(worker, true);
        let out = world.core.stop_by_user(world.running(worker)[0], fail, world.now).unwrap();
        world.take(out);
        world.restart();
        world.do_all_effects();
        for _ in 0..2 {
            world.contact(worker, true);
            world.check_replay();
        }
        let counts = world.core.job_report(job).unwrap().maps;
        assert_eq!((counts.failed_attempts, counts.killed_attempts), expected);
    }
}

#[test]
fn reduces_that_go_on_after_a_restart_are_told_of_each_map_output_once() {
    let mut world = World::new();
    let worker = world.add_worker("a", 3);
    world.contact(worker, true);
    let job = start(&mut world, 1, &["a", "a"], 3);
    world.contact(worker, true);
    succeed_all(&mut world, worker);
    assert_eq!(kinds(&world, worker), "rrr");
    world.restart();
    world.core.register(&world.snapshot(worker), world.now).unwrap();
    let (_, actions) = world.core.take_actions(worker, 0).unwrap();
    let [Action::MapOutputs { job: told, available, obsolete }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!((*told, available.len(), obsolete.len()), (job, 2, 0));
}

#[test]
fn the_history_is_bounded() {
    let mut world = World::new();
    for number in 1..=30 {
        start(&mut world, number, &[], 0);
    }
    assert_eq!(world.core.job_reports(&ROOT).len(), RULES.history_job_count_max);
    world.check_replay();
}

#[test]
fn other_runs_have_the_same_name_and_the_newest_come_first() {
    let mut world = World::new();
    let jobs: Vec<JobId> = ["x", "y", "x", "x"]
        .iter()
        .zip(1..)
        .map(|(name, number)| {
            let asked = JobSpec { name: (*name).to_owned(), ..spec(number, &["a"], 0) };
            let job = world.submit(number, asked).unwrap();
            world.do_all_effects();
            job
        })
        .collect();
    let runs = |job: JobId, count_max| -> Vec<String> {
        let runs = world.core.other_runs(&ROOT, job, count_max).unwrap();
        runs.into_iter().map(|run| run.id).collect()
    };
    let name = |index: usize| jobs[index].to_string();
    assert_eq!(runs(jobs[0], 5), [name(3), name(2)]);
    assert_eq!(runs(jobs[3], 1), [name(2)]);
    assert!(runs(jobs[1], 5).is_empty());
    let unknown = JobId { number: 99, ..jobs[0] };
    assert!(world.core.other_runs(&ROOT, unknown, 5).is_err());
}

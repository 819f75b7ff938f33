//! Which jobs get slots: queues, priorities, preemption, waiting for near input, backups, bad workers.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::jobs::{JobState, Priority};
use protocol::tracker::{AttemptState as Reported, AttemptUpdate};
use protocol::{AttemptId, JobId, WorkerId};

use super::world::{RULES, World, spec};
use crate::core::jobs::AttemptState;
use crate::core::rights::Administrators;
use crate::core::slots::{Policy, QueueRules};
use crate::core::{Core, Rules};

const SECOND: Duration = Duration::from_secs(1);

fn cluster(world: &mut World, hosts: &[&str], slots: u32) -> Vec<WorkerId> {
    let workers: Vec<WorkerId> = hosts.iter().map(|host| world.add_worker(host, slots)).collect();
    contact(world, &workers);
    workers
}

fn contact(world: &mut World, workers: &[WorkerId]) {
    workers.iter().for_each(|worker| world.contact(*worker, true));
}

fn start_as(
    world: &mut World,
    user: &str,
    number: u64,
    maps: usize,
    pairs: &[(&str, &str)],
) -> JobId {
    let mut spec = spec(number, &vec!["a"; maps], 0);
    spec.splits.forget_places();
    spec.properties =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let job = world.submit_as(user, number, spec).unwrap();
    world.do_all_effects();
    job
}

/// Slots by job.
fn held(world: &World, jobs: &[JobId]) -> Vec<u32> {
    jobs.iter().map(|job| world.core.job(*job).map_or(0, |job| job.live_count())).collect()
}

fn succeed_first(world: &mut World, worker: WorkerId) {
    if let Some(first) = world.running(worker).first().copied() {
        world.succeed(worker, first);
    }
    world.contact(worker, true);
}

#[test]
fn a_small_job_beside_ten_thousand_tasks_does_not_wait_for_them() {
    let alone = rounds_of_small_job(0);
    let beside = rounds_of_small_job(10_000);
    assert!(beside <= alone * 3, "{beside} rounds beside a large job, {alone} alone");
}

/// In each round every worker ends one task.
fn rounds_of_small_job(large: usize) -> u32 {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb", "c", "dd"], 2);
    if large > 0 {
        start_as(&mut world, "ann", 1, large, &[]);
        contact(&mut world, &workers);
    }
    let small = start_as(&mut world, "ann", 2, 8, &[]);
    for round in 1..1_000 {
        contact(&mut world, &workers);
        for worker in &workers {
            for attempt in world.running(*worker) {
                world.succeed(*worker, attempt);
            }
            world.contact(*worker, true);
        }
        world.do_all_effects();
        if world.state(small) == Some(JobState::Succeeded) {
            return round;
        }
    }
    panic!("the small job starves");
}

#[test]
fn many_users_share_within_a_slot_and_nobody_starves() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb", "c", "dd"], 5);
    let mut jobs = Vec::new();
    for user in 0..5u64 {
        // The first users have many jobs, the last have one.
        for number in 0..5 - user {
            jobs.push((
                user,
                start_as(&mut world, &format!("user-{user}"), user * 10 + number, 200, &[]),
            ));
        }
    }
    let mut done = BTreeMap::<JobId, u32>::new();
    for round in 0..60 {
        contact(&mut world, &workers);
        if round > 10 {
            let mut by_user = BTreeMap::<u64, u32>::new();
            for (user, job) in &jobs {
                *by_user.entry(*user).or_default() += held(&world, &[*job])[0];
            }
            assert!(
                by_user.values().all(|slots| (3..=5).contains(slots)),
                "{by_user:?} of 20 slots"
            );
        }
        for worker in &workers {
            let attempts = world.running(*worker);
            if let Some(next) = attempts.get(round % attempts.len().max(1)) {
                *done.entry(next.task.job).or_default() += 1;
                world.succeed(*worker, *next);
            }
            world.contact(*worker, true);
        }
    }
    assert_eq!(done.len(), jobs.len(), "every job gets on: {done:?}");
}

#[test]
fn a_priority_can_be_changed_while_it_waits_and_survives_a_restart() {
    let fifo = QueueRules { policy: Policy::Fifo, ..QueueRules::default() };
    let queues: BTreeMap<String, QueueRules> = [("line".to_owned(), fifo)].into();
    let mut world = World::with(Rules { queues, ..RULES });
    let workers = cluster(&mut world, &["a"], 1);
    let line = [("mapreduce.job.queuename", "line")];
    let jobs: Vec<JobId> =
        (1..=3).map(|number| start_as(&mut world, "ann", number, 3, &line)).collect();
    contact(&mut world, &workers);
    assert_eq!(held(&world, &jobs), [1, 0, 0]);
    let out = world.core.set_priority(jobs[2], Priority::High, world.now).unwrap();
    world.take(out);
    world.check_replay();
    succeed_first(&mut world, workers[0]);
    contact(&mut world, &workers);
    assert_eq!(held(&world, &jobs), [0, 0, 1], "the urgent one goes first");
    world.restart();
    world.do_all_effects();
    let report = world.core.job_report(jobs[2]).unwrap();
    assert_eq!((report.priority, report.queue.as_str()), (Priority::High, "line"));
    let over = start_as(&mut world, "ann", 9, 0, &[]);
    world.do_all_effects();
    assert!(world.core.set_priority(over, Priority::Low, world.now).is_err());
}

#[test]
fn limits_of_a_job_and_wrong_properties() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb"], 4);
    let limited = start_as(&mut world, "ann", 1, 20, &[("mapreduce.job.running.map.limit", "3")]);
    contact(&mut world, &workers);
    assert_eq!(held(&world, &[limited]), [3]);
    let mut wrong = spec(2, &["a"], 0);
    wrong.properties = [("mapreduce.job.queuename".to_owned(), "nowhere".to_owned())].into();
    let error = world.submit(2, wrong.clone()).unwrap_err();
    assert!(error.message.starts_with("Queue nowhere does not exist"), "{error}");
    wrong.properties = [("mapreduce.job.priority".to_owned(), "soon".to_owned())].into();
    assert!(world.submit(2, wrong).unwrap_err().message.contains("VERY_HIGH"));
}

#[test]
fn what_is_beyond_a_share_is_taken_back_after_a_time() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb"], 4);
    let large = start_as(&mut world, "ann", 1, 100, &[]);
    contact(&mut world, &workers);
    world.advance(SECOND);
    let late = start_as(&mut world, "bob", 2, 100, &[]);
    let jobs = [large, late];
    let pass = |world: &mut World, seconds: u32| {
        for _ in 0..seconds {
            world.advance(SECOND);
            contact(world, &workers);
            contact(world, &workers);
        }
    };
    pass(&mut world, 9);
    assert_eq!(held(&world, &jobs), [8, 0], "nothing is stopped before its time");
    pass(&mut world, 4);
    assert_eq!(held(&world, &jobs), [4, 4], "then just what is bob's");
    pass(&mut world, 60);
    assert_eq!(held(&world, &jobs), [4, 4], "and no more");
    let counts = world.core.job_report(large).unwrap().maps;
    assert_eq!((counts.failed_attempts, counts.killed_attempts), (0, 4));
    let queues = world.core.queue_reports();
    let shown: Vec<(&str, u64, u32)> =
        queues.iter().map(|q| (q.name.as_str(), q.share_permille, q.slot_count)).collect();
    assert_eq!(shown, [("ann", 4000, 4), ("bob", 4000, 4), ("default", 0, 0)]);
}

#[test]
fn slots_that_nobody_can_use_are_neither_shared_nor_taken_back() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb"], 4);
    let large = start_as(&mut world, "ann", 1, 8, &[]);
    contact(&mut world, &workers);
    world.exclude(&["bb"]);
    world.advance(SECOND);
    let late = start_as(&mut world, "bob", 2, 100, &[]);
    for _ in 0..60 {
        world.advance(SECOND);
        contact(&mut world, &workers);
    }
    assert_eq!(held(&world, &[large, late]), [6, 2], "half of what `a` has");
    assert_eq!(world.running(workers[1]).len(), 4, "nothing is stopped on `bb`");
    let counts = world.core.job_report(large).unwrap().maps;
    assert_eq!((counts.running, counts.killed_attempts), (6, 2));
}

#[test]
fn nothing_more_is_taken_back_while_attempts_that_were_told_to_stop_go_on() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb"], 4);
    let large = start_as(&mut world, "ann", 1, 100, &[]);
    contact(&mut world, &workers);
    start_as(&mut world, "bob", 2, 100, &[]);
    for _ in 0..60 {
        world.advance(SECOND);
        for worker in &workers {
            world.core.contact(*worker, world.core.epoch(), world.now).unwrap();
        }
    }
    let job = world.core.job(large).unwrap();
    let attempts = job.live_attempts();
    let states = attempts.iter().map(|attempt| job.attempt(*attempt).unwrap().state);
    let stopping = states.filter(|state| *state == AttemptState::Killing).count();
    assert_eq!((attempts.len(), stopping), (8, 4));
}

#[test]
fn a_queue_at_its_own_limit_takes_nothing_back() {
    const ETL: (&str, &str) = ("mapreduce.job.queuename", "etl");
    let limits = [
        QueueRules { running_jobs_max: 1, ..QueueRules::default() },
        QueueRules { user_slots_max: 1, ..QueueRules::default() },
        QueueRules { user_percent_max: 10, ..QueueRules::default() },
    ];
    for rules in limits {
        let queues = [("etl".to_owned(), rules)].into();
        let mut world = World::with(Rules { queues, ..RULES });
        let workers = cluster(&mut world, &["a", "bb"], 5);
        let long = start_as(&mut world, "bob", 1, 1, &[ETL]);
        let kept_out = start_as(&mut world, "bob", 2, 100, &[ETL]);
        let large = start_as(&mut world, "ann", 3, 100, &[]);
        let jobs = [long, kept_out, large];
        for _ in 0..60 {
            world.advance(SECOND);
            contact(&mut world, &workers);
        }
        assert_eq!(held(&world, &jobs), [1, 0, 9], "{rules:?}");
        assert_eq!(world.core.job_report(large).unwrap().maps.killed_attempts, 0, "{rules:?}");
        let queues = world.core.queue_reports();
        let etl = queues.iter().find(|queue| queue.name == "etl").unwrap();
        assert_eq!((etl.demand, etl.share_permille), (1, 1000), "{rules:?}");
    }
}

#[test]
fn a_job_at_its_own_limit_takes_nothing_back() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb"], 5);
    let large = start_as(&mut world, "ann", 1, 200, &[]);
    contact(&mut world, &workers);
    let mut limited = spec(2, &["a"; 50], 50);
    limited.slow_start_permille = 0;
    limited.properties = [
        ("mapreduce.job.running.map.limit".to_owned(), "2".to_owned()),
        ("locality_wait".to_owned(), "0".to_owned()),
    ]
    .into();
    let limited = world.submit_as("bob", 2, limited).unwrap();
    world.do_all_effects();
    for _ in 0..30 {
        world.advance(SECOND);
        contact(&mut world, &workers);
    }
    assert_eq!(held(&world, &[large, limited]), [8, 2], "its reduces wait for its maps");
    assert_eq!(world.core.job_report(large).unwrap().maps.killed_attempts, 2);
}

#[test]
fn a_map_waits_a_little_for_its_machine_then_for_its_rack_then_goes_anywhere() {
    let mut world = World::new();
    // Racks are by length of the name: a and c share one.
    let workers = cluster(&mut world, &["a", "bb", "c"], 1);
    let busy = world.submit(1, spec(1, &["a", "bb", "c"], 0)).unwrap();
    world.do_all_effects();
    contact(&mut world, &workers);
    let job = world.submit(2, spec(2, &["a", "a", "a"], 0)).unwrap();
    world.do_all_effects();
    world.core.kill(busy, "ann", world.now).map(|out| world.take(out)).unwrap();
    contact(&mut world, &workers);
    contact(&mut world, &workers);
    assert_eq!(held(&world, &[job]), [1], "only the slot on `a` is taken at once");
    let mut seen = Vec::new();
    for _ in 0..6 {
        world.advance(Duration::from_millis(250));
        contact(&mut world, &workers);
        seen.push(workers.iter().map(|worker| world.running(*worker).len()).collect::<Vec<_>>());
    }
    assert_eq!(seen[0], [1, 0, 0]);
    assert_eq!(seen[2], [1, 0, 1], "after half a second in the rack: {seen:?}");
    assert_eq!(seen[5], [1, 1, 1], "after a second anywhere: {seen:?}");
    let launched = world.core.job(job).unwrap().launched;
    assert_eq!((launched.node_local, launched.rack_local, launched.other_local), (1, 1, 1));
}

#[test]
fn input_on_no_worker_is_not_waited_for() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a"], 2);
    let job = world.submit(1, spec(1, &["elsewhere", "nowhere"], 0)).unwrap();
    world.do_all_effects();
    contact(&mut world, &workers);
    world.advance(Duration::from_millis(1));
    contact(&mut world, &workers);
    assert_eq!(held(&world, &[job]), [2]);
}

fn progress(world: &mut World, worker: WorkerId, attempt: AttemptId, progress: f32) {
    let update = AttemptUpdate {
        attempt,
        state: Reported::Running,
        progress,
        phase: None,
        counters: protocol::jobs::Counters::default(),
        record: None,
        status: String::new(),
    };
    let epoch = world.core.epoch();
    let out = world.core.report(worker, epoch, vec![update], Vec::new(), world.now).unwrap();
    world.take(out);
}

#[test]
fn a_slow_attempt_gets_a_backup_which_wins_once() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb", "c"], 1);
    let job = start_as(&mut world, "ann", 1, 3, &[]);
    contact(&mut world, &workers);
    let slow = world.running(workers[0])[0];
    for second in 1..=10u8 {
        world.advance(SECOND);
        progress(&mut world, workers[0], slow, f32::from(second) / 100.0);
        contact(&mut world, &workers);
        if second == 6 {
            succeed_first(&mut world, workers[1]);
            succeed_first(&mut world, workers[2]);
        }
        if second == 7 {
            assert_eq!(held(&world, &[job]), [2], "a backup runs: it was slow by a margin");
        }
    }
    let backup: Vec<(WorkerId, AttemptId)> = workers[1..]
        .iter()
        .flat_map(|worker| world.running(*worker).into_iter().map(|attempt| (*worker, attempt)))
        .collect();
    let [(worker, backup)] = backup[..] else { panic!("one backup: {backup:?}") };
    assert!(backup.task == slow.task && backup != slow);
    world.succeed(worker, backup);
    world.contact(worker, true);
    world.contact(workers[0], true);
    world.do_all_effects();
    assert_eq!(world.state(job), Some(JobState::Succeeded));
    let report = world.core.job_report(job).unwrap();
    assert_eq!((report.maps.killed_attempts, report.maps.failed_attempts), (1, 0));
    assert_eq!(report.counters.value("test", "attempts"), 3, "a loser's counters do not count");
    for (name, value) in [("SPECULATIVE_LAUNCHED", 1), ("SPECULATIVE_WON", 1)] {
        assert_eq!(report.counters.value("Engine", name), value, "{name}");
    }
    assert!(world.running(workers[0]).is_empty(), "the loser was stopped");
}

#[test]
fn no_backup_where_it_is_not_wanted() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb"], 1);
    let job = start_as(&mut world, "ann", 1, 2, &[("mapreduce.map.speculative", "false")]);
    contact(&mut world, &workers);
    world.advance(SECOND);
    succeed_first(&mut world, workers[1]);
    for _ in 0..20 {
        world.advance(SECOND);
        contact(&mut world, &workers);
    }
    assert_eq!(held(&world, &[job]), [1]);
}

/// For this many seconds the first two maps of a job make no progress while all others succeed.
fn stand_still(world: &mut World, workers: &[WorkerId], job: JobId, seconds: u32) {
    for _ in 0..seconds {
        world.advance(SECOND);
        for worker in workers {
            for attempt in world.running(*worker) {
                if attempt.task.job == job && attempt.task.index >= 2 {
                    world.succeed(*worker, attempt);
                }
            }
        }
        contact(world, workers);
    }
}

#[test]
fn backups_keep_to_the_limit_of_their_job() {
    for (limit, expected) in [("0", 4), ("3", 3)] {
        let mut world = World::new();
        let workers = cluster(&mut world, &["a", "bb", "c", "dd"], 1);
        let limit = [("mapreduce.job.running.map.limit", limit)];
        let job = start_as(&mut world, "ann", 1, 6, &limit);
        contact(&mut world, &workers);
        stand_still(&mut world, &workers, job, 20);
        assert_eq!(held(&world, &[job]), [expected], "{limit:?}");
    }
}

#[test]
fn a_slot_that_is_let_go_for_the_sake_of_nearness_is_not_for_backups() {
    for (wait, expected) in [("60000", [2, 0]), ("0", [3, 1])] {
        let mut world = World::new();
        let workers = cluster(&mut world, &["a", "bb", "c", "dd"], 1);
        let slow = start_as(&mut world, "ann", 1, 4, &[]);
        contact(&mut world, &workers);
        stand_still(&mut world, &workers, slow, 3);
        assert_eq!(world.running(workers[0]).len(), 1, "the machine of the input is busy");
        let mut near = spec(2, &["a"], 0);
        near.properties = [("locality_wait".to_owned(), wait.to_owned())].into();
        let near = world.submit_as("bob", 2, near).unwrap();
        world.do_all_effects();
        stand_still(&mut world, &workers, slow, 20);
        assert_eq!(held(&world, &[slow, near]), expected, "{wait} milliseconds");
    }
}

/// Four workers; the third fails every task it gets.
fn run_with_a_bad_worker(world: &mut World, workers: &[WorkerId], number: u64) -> u32 {
    let job = start_as(world, "ann", number, 40, &[]);
    let mut failures = 0;
    for _ in 0..60 {
        contact(world, workers);
        for worker in workers {
            for attempt in world.running(*worker) {
                if *worker == workers[2] {
                    failures += 1;
                    world.fail(*worker, attempt);
                } else {
                    world.succeed(*worker, attempt);
                }
            }
            world.contact(*worker, true);
        }
        world.do_all_effects();
    }
    assert_eq!(world.state(job), Some(JobState::Succeeded));
    failures
}

#[test]
fn a_bad_worker_is_avoided_by_a_job_then_by_all_then_forgiven() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb", "c", "dd"], 1);
    assert_eq!(run_with_a_bad_worker(&mut world, &workers, 1), 3, "then the job goes around it");
    let barred = |core: &Core, world: &World| {
        let reports = core.worker_reports(world.now);
        reports.iter().map(|report| (report.faults, report.blacklisted)).collect::<Vec<_>>()
    };
    assert_eq!(barred(&world.core, &world)[2], (1, false));
    assert_eq!(run_with_a_bad_worker(&mut world, &workers, 2), 3);
    assert_eq!(barred(&world.core, &world)[2], (2, true), "two jobs had to go around it");
    assert_eq!(run_with_a_bad_worker(&mut world, &workers, 3), 0, "no job uses it");
    for _ in 0..3_700 {
        world.advance(SECOND);
        contact(&mut world, &workers);
    }
    assert_eq!(barred(&world.core, &world)[2], (1, false), "one fault is forgiven");
    assert_eq!(run_with_a_bad_worker(&mut world, &workers, 4), 3);
}

#[test]
fn the_only_usable_worker_is_not_avoided() {
    for what in ["excluded", "late"] {
        let mut world = World::new();
        let workers = cluster(&mut world, &["a", "bb"], 4);
        let job = start_as(&mut world, "ann", 1, 8, &[]);
        contact(&mut world, &workers);
        for attempt in world.running(workers[0]).into_iter().take(3) {
            world.fail(workers[0], attempt);
        }
        contact(&mut world, &workers);
        contact(&mut world, &workers);
        assert_eq!(world.running(workers[0]).len(), 1, "avoided after three failures");
        match what {
            "excluded" => world.exclude(&["bb"]),
            _ => {
                for _ in 0..RULES.suspect_after.as_secs() {
                    world.advance(SECOND);
                    world.contact(workers[0], true);
                }
            }
        }
        for _ in 0..8 {
            for attempt in world.running(workers[0]) {
                world.succeed(workers[0], attempt);
            }
            world.advance(Duration::from_millis(1));
            world.contact(workers[0], true);
        }
        let counts = world.core.job_report(job).unwrap().maps;
        assert!(counts.completed >= 4 && counts.pending == 0, "other is {what}: {counts:?}");
    }
}

#[test]
fn the_last_workers_that_are_not_emptied_are_not_all_listed() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb", "c", "dd"], 1);
    world.exclude(&["a", "bb"]);
    for worker in [workers[2], workers[3]] {
        (0..4).for_each(|_| world.core.workers.add_fault(worker, world.now.at, 2));
    }
    let barred = world.core.worker_reports(world.now);
    assert_eq!(barred.iter().filter(|report| report.blacklisted).count(), 1);
}

#[test]
fn a_bad_job_harms_no_worker() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb"], 2);
    let job = start_as(&mut world, "ann", 1, 30, &[]);
    for _ in 0..120 {
        contact(&mut world, &workers);
        for worker in &workers {
            for attempt in world.running(*worker) {
                world.fail(*worker, attempt);
            }
        }
    }
    contact(&mut world, &workers);
    world.do_all_effects();
    let job = world.core.job(job).unwrap();
    assert_eq!(
        job.final_state(),
        Some(JobState::Failed),
        "{:?} {:?}",
        job.phase,
        job.maps.counts()
    );
    assert!(world.core.worker_reports(world.now).iter().all(|worker| worker.faults == 0));
}

#[test]
fn an_excluded_worker_is_emptied_and_may_come_back() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a", "bb"], 2);
    let job = start_as(&mut world, "ann", 1, 50, &[]);
    contact(&mut world, &workers);
    world.exclude(&["bb"]);
    let drained = |world: &World| world.core.worker_reports(world.now)[1].drained;
    assert!(!drained(&world), "its tasks go on");
    for _ in 0..4 {
        succeed_first(&mut world, workers[0]);
        succeed_first(&mut world, workers[1]);
    }
    assert_eq!((world.running(workers[0]).len(), world.running(workers[1]).len()), (2, 0));
    assert!(drained(&world));
    world.exclude(&[]);
    contact(&mut world, &workers);
    assert_eq!(held(&world, &[job]), [4]);
}

#[test]
fn a_user_kills_or_fails_an_attempt() {
    let mut world = World::new();
    let workers = cluster(&mut world, &["a"], 1);
    let job = start_as(&mut world, "ann", 1, 1, &[]);
    contact(&mut world, &workers);
    for (fail, expected) in [(false, (0, 1)), (true, (1, 1)), (true, (2, 1))] {
        let attempt = world.running(workers[0])[0];
        let out = world.core.stop_by_user(attempt, fail, world.now).unwrap();
        world.take(out);
        world.check_replay();
        contact(&mut world, &workers);
        contact(&mut world, &workers);
        let counts = world.core.job_report(job).unwrap().maps;
        assert_eq!((counts.failed_attempts, counts.killed_attempts), expected);
        let error = world.core.stop_by_user(attempt, fail, world.now).unwrap_err();
        assert!(error.message.contains("does not run"), "{error}");
    }
    let attempts = world.core.task_reports(job).unwrap().remove(0).attempts;
    let told: Vec<&str> = attempts.iter().map(|attempt| attempt.diagnostics.as_str()).collect();
    assert_eq!(told, ["killed by a user", "failed by a user", "failed by a user", ""]);
}

/// Reloaded rules apply to running jobs; a queue with jobs stays.
#[test]
fn rules_of_queues_change_while_jobs_run() {
    let one = QueueRules { slots_max: 1, ..QueueRules::default() };
    let etl = |rules| [("etl".to_owned(), rules)].into();
    let mut world = World::with(Rules { queues: etl(one), ..RULES });
    let worker = world.add_worker("a", 4);
    world.contact(worker, true);
    let mut asked = spec(1, &["a"; 6], 0);
    asked.properties.insert("mapreduce.job.queuename".to_owned(), "etl".to_owned());
    world.submit(1, asked).unwrap();
    world.do_all_effects();
    world.contact(worker, true);
    assert_eq!(world.running(worker).len(), 1);
    let set = |world: &mut World, rules| {
        let out = world.core.set_queues(rules, Administrators::default(), world.now)?;
        world.take(out);
        world.contact(worker, true);
        Ok::<usize, String>(world.running(worker).len())
    };
    let three = QueueRules { slots_max: 3, policy: Policy::Fifo, ..QueueRules::default() };
    assert_eq!(set(&mut world, etl(three)), Ok(3));
    let refused = set(&mut world, BTreeMap::new()).unwrap_err();
    assert!(refused.contains("etl has 1 jobs"), "{refused}");
    assert_eq!(set(&mut world, etl(one)), Ok(3), "what runs goes on");
    world.check_replay();
    let names: Vec<String> = world.core.queue_reports().into_iter().map(|q| q.name).collect();
    assert_eq!(names, ["default", "etl"]);
    let more = [("etl".to_owned(), one), ("new".to_owned(), one)].into();
    set(&mut world, more).unwrap();
    assert!(world.core.queue_reports().iter().any(|queue| queue.name == "new"));
}

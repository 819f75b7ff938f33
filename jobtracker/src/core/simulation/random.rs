//! Random histories: jobs of several users in queues with limits, changed priorities, failures, duplicate and late reports, workers that
//! die or are drained, restarts at any moment.

use std::collections::BTreeMap;
use std::time::Duration;

use needs::random::Random;
use protocol::jobs::{JobSpec, JobState, Priority};
use protocol::sizing::ReduceSizing;
use protocol::{AttemptId, JobId, WorkerId};

use super::rounds::random_rounds;
use super::world::{ROOT, RULES, World, spec};
use crate::core::Rules;
use crate::core::jobs::StopReason;
use crate::core::slots::{Policy, QueueRules};
use crate::core::workers::{FreeSlots, Worker};

const HOSTS: [&str; 4] = ["a", "bb", "c", "dd"];
const USERS: [&str; 3] = ["ann", "bob", "cid"];
/// Longer than workers that are gone count, then a job avoids one, and its maps wait for a near slot.
const WAIT_MAX: Duration = Duration::from_secs(65);

/// Two queues that together use every rule.
fn rules() -> Rules {
    let etl = QueueRules {
        weight: 3,
        slots_min: 2,
        slots_max: 5,
        user_slots_max: 2,
        running_jobs_max: 2,
        ..QueueRules::default()
    };
    let line = QueueRules {
        policy: Policy::Fifo,
        percent_max: 60,
        user_percent_max: 30,
        ..QueueRules::default()
    };
    let queues = [("etl".to_owned(), etl), ("line".to_owned(), line)].into();
    Rules { queues, preemption_timeout: Duration::from_secs(1), ..RULES }
}

fn random_spec(random: &mut Random, number: u64) -> JobSpec {
    let hosts: Vec<&str> = (0..random.below(6)).map(|_| HOSTS[random.below(HOSTS.len())]).collect();
    let reduces = u32::try_from(random.below(4)).unwrap();
    let mut spec = spec(number, &hosts, reduces);
    if random.one_in(3) {
        spec.reduce_count = 1 + u32::try_from(random.below(4)).unwrap();
        spec.rounds = Some(random_rounds(random));
        // The round after which it ends, if it comes to that.
        spec.fingerprint = random.below(8) as u64;
        return in_a_queue(random, spec);
    }
    // Partitions so large that they give several reduces, or so small that they give one.
    if reduces > 0 && random.one_in(2) {
        spec.reduce_count = 1 + u32::try_from(random.below(40)).unwrap();
        spec.sizing = Some(ReduceSizing { slot_count: u32::try_from(random.below(5)).unwrap() });
    }
    in_a_queue(random, spec)
}

fn in_a_queue(random: &mut Random, mut spec: JobSpec) -> JobSpec {
    let mut set = |name: &str, value: String| spec.properties.insert(name.to_owned(), value);
    if let Some(queue) = [None, Some("etl"), Some("line")][random.below(3)] {
        set("mapreduce.job.queuename", queue.to_owned());
    }
    set("mapreduce.job.priority", random_priority(random).name().to_owned());
    set("mapreduce.job.running.map.limit", random.below(4).to_string());
    set("mapreduce.job.maxtaskfailures.per.tracker", (1 + random.below(2)).to_string());
    spec
}

fn random_priority(random: &mut Random) -> Priority {
    Priority::ALL[random.below(Priority::ALL.len())]
}

struct History {
    world: World,
    random: Random,
    submitted: BTreeMap<u64, JobId>,
    next_call: u64,
    killed: Vec<JobId>,
}

impl History {
    fn step(&mut self) {
        let (world, random) = (&mut self.world, &mut self.random);
        let ids: Vec<WorkerId> = world.workers.keys().copied().collect();
        match random.below(22) {
            0..=1 => self.people(),
            2 => {
                if let Some(worker) = random.pick(&ids).filter(|_| random.one_in(4)) {
                    world.workers.remove(&worker);
                } else if let Some(worker) = random.pick(&ids) {
                    let held: Vec<AttemptId> =
                        world.workers[&worker].held.iter().copied().collect();
                    if let Some(attempt) = random.pick(&held) {
                        world.lose_output(worker, attempt);
                    }
                }
            }
            3 if ids.len() < 4 => {
                let slots = u32::try_from(1 + random.below(3)).unwrap();
                world.add_worker(HOSTS[random.below(HOSTS.len())], slots);
            }
            4 if random.one_in(5) => world.restart(),
            5 => {
                let milliseconds = u64::try_from(random.below(3_000)).unwrap();
                for _ in 0..1 + random.below(3) {
                    world.advance(Duration::from_millis(milliseconds));
                }
            }
            6..=8 => {
                let jobs: Vec<JobId> = world.effects.keys().copied().collect();
                if let Some(job) = random.pick(&jobs) {
                    world.do_effect(job);
                }
            }
            9..=13 => {
                if let Some(worker) = random.pick(&ids) {
                    let confirm = !random.one_in(4);
                    world.contact(worker, confirm);
                }
            }
            _ => {
                if let Some(worker) = random.pick(&ids)
                    && let Some(attempt) = random.pick(&world.running(worker))
                {
                    if random.one_in(8) {
                        world.fail(worker, attempt);
                    } else {
                        world.succeed(worker, attempt);
                    }
                }
            }
        }
        self.world.check_replay();
    }

    /// A user or an operator makes a request.
    fn people(&mut self) {
        let (world, random) = (&mut self.world, &mut self.random);
        let jobs: Vec<JobId> = self.submitted.values().copied().collect();
        let workers: Vec<WorkerId> = world.workers.keys().copied().collect();
        let job = random.pick(&jobs);
        let (core, now) = (&mut world.core, world.now);
        let done = match random.below(24) {
            0..=11 if self.submitted.len() < 12 => {
                self.next_call += 1;
                let spec = random_spec(random, self.next_call);
                let user = USERS[random.below(USERS.len())];
                let job = world.submit_as(user, self.next_call, spec).unwrap();
                self.submitted.insert(self.next_call, job);
                None
            }
            12 => job.and_then(|job| {
                self.killed.push(job);
                core.kill(job, "ann", now).ok()
            }),
            13..=15 => {
                job.and_then(|job| core.set_priority(job, random_priority(random), now).ok())
            }
            16..=17 => {
                let attempts = random.pick(&workers).map(|worker| world.running(worker));
                let attempt = attempts.and_then(|attempts| random.pick(&attempts));
                attempt.and_then(|attempt| {
                    world.core.stop_by_user(attempt, random.one_in(2), now).ok()
                })
            }
            18..=20 => {
                let hosts: Vec<&str> = HOSTS.into_iter().filter(|_| random.one_in(3)).collect();
                world.exclude(&hosts);
                None
            }
            _ => None,
        };
        done.into_iter().for_each(|out| world.take(out));
    }

    /// Of a few jobs that are left no task ends: each waits only until its preferences are over, while a slot is free that it may have.
    fn stand_still(&mut self) {
        let world = &mut self.world;
        let left = 1 + self.random.below(3);
        let over: Vec<JobId> = world.core.runnable.iter().skip(left).copied().collect();
        for job in over {
            self.killed.push(job);
            let out = world.core.kill(job, "ann", world.now).unwrap();
            world.take(out);
        }
        for _ in 0..WAIT_MAX.as_secs() {
            world.advance(Duration::from_secs(1));
            world.do_all_effects();
            for id in world.workers.keys().copied().collect::<Vec<_>>() {
                world.contact(id, true);
            }
        }
        let waiting: Vec<JobId> = world.core.queues.next_jobs().collect();
        let free = world.core.workers.free(&FreeSlots::Everywhere);
        assert!(waiting.is_empty() || free.is_empty(), "{waiting:?} wait, {free:?} have slots");
        let is_usable =
            |id: &WorkerId| world.core.workers.worker(*id).is_some_and(Worker::is_usable);
        let is_drained =
            |id: &WorkerId| world.core.workers.worker(*id).is_some_and(|worker| worker.excluded);
        let mut ids = world.workers.keys();
        assert!(ids.clone().any(is_usable) || ids.all(is_drained), "no worker may get work");
    }

    /// Without further faults every job ends.
    fn settle(&mut self) {
        let world = &mut self.world;
        world.exclude(&[]);
        if world.workers.is_empty() {
            world.add_worker("a", 1);
        }
        for _ in 0..2_000 {
            let world = &mut self.world;
            world.advance(Duration::from_millis(700));
            world.do_all_effects();
            let ids: Vec<WorkerId> = world.workers.keys().copied().collect();
            for id in ids {
                world.contact(id, true);
                world.running(id).into_iter().for_each(|attempt| world.succeed(id, attempt));
                world.contact(id, true);
            }
            world.check_replay();
            let known = self.submitted.values().filter_map(|job| world.core.job(*job));
            if known.into_iter().all(|job| job.final_state().is_some()) {
                return;
            }
        }
        panic!("not all jobs end: {:#?}", self.world.core.job_reports(&ROOT));
    }
}

#[test]
fn every_history_ends_right() {
    let (mut count, mut preempted) = (0, 0);
    needs::seeds::for_each(150, |seed| {
        count += 1;
        preempted += history(seed);
    });
    assert!(preempted > 0 || count < 100, "in some of them slots are taken back");
}

/// Runs a history; returns how many attempts gave their slots to other queues.
fn history(seed: u64) -> usize {
    let mut history = History {
        world: World::with(rules()),
        random: Random::new(seed),
        submitted: BTreeMap::new(),
        next_call: 0,
        killed: Vec::new(),
    };
    for _ in 0..400 {
        history.step();
    }
    history.stand_still();
    history.settle();
    let world = &history.world;
    for job in history.submitted.values().filter_map(|job| world.core.job(*job)) {
        match job.final_state() {
            Some(JobState::Succeeded) => assert!(world.published.contains_key(&job.id)),
            Some(JobState::Failed) => assert!(!job.diagnostics.is_empty()),
            Some(JobState::Killed) => assert!(history.killed.contains(&job.id)),
            state => panic!("{state:?}"),
        }
    }
    assert!(world.core.workers.iter().all(|worker| worker.running.is_empty()), "no slot leaks");
    let jobs = history.submitted.values().filter_map(|job| world.core.job(*job));
    let tasks = jobs.flat_map(|job| job.maps.iter().chain(job.reduces.iter()));
    let attempts = tasks.flat_map(|(_, task)| &task.attempts);
    let preempted =
        attempts.filter(|attempt| attempt.diagnostics == StopReason::Preempted.text()).count();
    assert_eq!(world.core.map_outputs.holders().count(), 0, "no output is remembered for nothing");
    preempted
}

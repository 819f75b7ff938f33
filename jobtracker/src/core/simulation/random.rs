//! Random histories: jobs, failures, duplicate and late reports, dying workers, restarts at any moment.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::jobs::JobState;
use protocol::{JobId, WorkerId};

use super::world::{World, spec};

/// A small generator, so that a seed means the same for ever.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % limit
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len())].clone())
    }
}

const HOSTS: [&str; 4] = ["a", "bb", "c", "dd"];

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
        match random.below(20) {
            0 if self.submitted.len() < 12 => {
                let hosts: Vec<&str> =
                    (0..random.below(6)).map(|_| HOSTS[random.below(HOSTS.len())]).collect();
                let reduces = u32::try_from(random.below(4)).unwrap();
                self.next_call += 1;
                let job =
                    world.submit(self.next_call, spec(self.next_call, &hosts, reduces)).unwrap();
                self.submitted.insert(self.next_call, job);
            }
            1 => {
                if let Some(worker) = random.pick(&ids).filter(|_| random.one_in(4)) {
                    world.workers.remove(&worker);
                }
            }
            2 if ids.len() < 4 => {
                let slots = u32::try_from(1 + random.below(3)).unwrap();
                world.add_worker(HOSTS[random.below(HOSTS.len())], slots);
            }
            3 if random.one_in(5) => world.restart(),
            4 => {
                let milliseconds = u64::try_from(random.below(9_000)).unwrap();
                world.advance(Duration::from_millis(milliseconds));
            }
            5 if random.one_in(12) => {
                let jobs: Vec<JobId> = self.submitted.values().copied().collect();
                if let Some(job) = random.pick(&jobs)
                    && let Ok(out) = world.core.kill(job, world.now)
                {
                    self.killed.push(job);
                    world.take(out);
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
        world.check_replay();
    }

    /// Without further faults everything comes to its end.
    fn settle(&mut self) {
        if self.world.workers.is_empty() {
            self.world.add_worker("a", 1);
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
        panic!("not all jobs end: {:#?}", self.world.core.job_reports());
    }
}

#[test]
fn every_history_ends_right() {
    for seed in 1..=150u64 {
        let run = std::panic::catch_unwind(|| history(seed));
        assert!(run.is_ok(), "seed {seed}");
    }
}

fn history(seed: u64) {
    let mut history = History {
        world: World::new(),
        random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        submitted: BTreeMap::new(),
        next_call: 0,
        killed: Vec::new(),
    };
    for _ in 0..400 {
        history.step();
    }
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
    assert_eq!(world.core.map_outputs.holders().count(), 0, "no output is remembered for nothing");
}

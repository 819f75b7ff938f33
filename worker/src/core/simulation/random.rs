//! Random histories: orders, stops and ends of jobs; runners that die, hang, report twice or of what is not theirs; fetches, links and
//! directories that fail; lost, late and repeated messages; restarts of the JobTracker at any moment; a stop of the worker.
//!
//! `HANNO_TEST_SEED` names the first seed, `HANNO_TEST_SEEDS` how many follow.

use std::collections::BTreeMap;
use std::time::Duration;

use needs::random::Random;
use protocol::pass::PASS_RENEWAL;
use protocol::tracker::Action;
use protocol::{AttemptId, JobId, RecordAt, TaskKind};

use super::super::event::{Event, RunnerId};
use super::jobtracker::attempt;
use super::machine::rules;
use super::world::World;

/// Seeds of a run that names none: some seconds.
const SEEDS: u64 = 2_000;
/// Steps of a history.
const STEPS: usize = 600;
/// Rounds, of a second each, after which everything has ended: idle jobs are forgotten after two minutes.
const ROUNDS_MAX: usize = 200;

/// What must happen in some history, lest a law holds because nothing tries it.
const SIGHTS: &[&str] = &[
    "a job comes back while its files go",
    "a kill comes late",
    "a pass is renewed",
    "a poll is lost",
    "a reduce gets news",
    "a registration is lost",
    "a runner ends before it begins",
    "a report is kept",
    "a report is refused",
    "an attempt comes back",
    "an end is replaced",
    "an older jobtracker",
    "an output is taken",
    "fenced",
    "orders wait behind links",
    "registered",
    "runners are left",
];

struct History {
    world: World,
    random: Random,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut rules = rules();
        rules.reuses_runners = !random.one_in(4);
        rules.links_outputs = !random.one_in(4);
        History { world: World::with(rules), random }
    }

    fn step(&mut self) {
        match self.random.below(32) {
            0..=5 => self.jobtracker(),
            6..=14 => self.network(),
            15..=20 => self.disk(),
            21..=29 => self.runner(),
            _ => {
                let milliseconds = [1, 50, 300, 1_500, 7_000][self.random.below(5)];
                let is_long = self.random.one_in(20);
                let time = if is_long { PASS_RENEWAL } else { Duration::from_millis(milliseconds) };
                self.world.advance(time);
            }
        }
    }

    fn job(&mut self) -> JobId {
        JobId { cluster_start: 1, number: u32::try_from(self.random.below(3)).unwrap() }
    }

    fn jobtracker(&mut self) {
        let job = self.job();
        let (world, random) = (&mut self.world, &mut self.random);
        let live: Vec<AttemptId> = world.jobtracker.live.iter().copied().collect();
        match random.below(40) {
            0..=21 if world.jobtracker.has_slot() => {
                let kind = if random.one_in(2) { TaskKind::Map } else { TaskKind::Reduce };
                let binary = u8::try_from(random.below(2)).unwrap();
                let id = world.jobtracker.launch(job, kind, binary);
                if random.one_in(20) {
                    world.jobtracker.poison.insert(id);
                }
            }
            22..=25 => {
                if let Some(id) = random.pick(&live) {
                    world.jobtracker.order(Action::Kill(id));
                }
            }
            // An order that comes late.
            26 => {
                let all: Vec<AttemptId> = world.jobtracker.ordered.iter().copied().collect();
                if let Some(id) = random.pick(&all) {
                    world.jobtracker.order(Action::Kill(id));
                }
            }
            27..=31 => world.jobtracker.announce(job, random.one_in(2)),
            32..=33 => world.jobtracker.revoke(job),
            34..=35 => {
                let is_quiet = !live.iter().any(|attempt| attempt.task.job == job);
                if is_quiet || random.one_in(6) {
                    world.jobtracker.forget(job);
                }
            }
            36 => match random.one_in(2) {
                true => world.jobtracker.restart(),
                false => world.jobtracker.drop_outputs(job),
            },
            37 if random.one_in(3) => world.jobtracker.fence(),
            _ => {}
        }
    }

    fn network(&mut self) {
        let (world, random) = (&mut self.world, &mut self.random);
        if random.one_in(12)
            && let Some((call, answer)) = world.echo.take()
        {
            world.feed(Event::Answered { call, answer });
        }
        if random.one_in(6) && !world.strays.is_empty() {
            let stray = world.strays.swap_remove(random.below(world.strays.len()));
            // Nobody waits for the answer.
            world.jobtracker.answer(&stray, &mut || true);
        }
        if world.flights.is_empty() {
            return;
        }
        let index = random.below(world.flights.len());
        match random.below(12) {
            0 => world.give_up(index, random.one_in(2)),
            1 if random.one_in(8) => world.answer_as_older(index),
            1..=5 => world.arrive(index, &mut || !random.one_in(5)),
            _ if world.flights[index].answer.is_some() => world.answer(index),
            _ => {}
        }
    }

    /// One of the results that the disk owes is there, in any order; some are failures.
    fn disk(&mut self) {
        let (world, random) = (&mut self.world, &mut self.random);
        if world.files.results.is_empty() {
            return;
        }
        let index = random.below(world.files.results.len());
        let event = world.files.results.remove(index);
        let fails = random.one_in(10);
        let event = match event {
            Event::Prepared(id, Ok(())) if fails => Event::Prepared(id, Err("full".to_owned())),
            Event::Fetched(binary, Ok(())) if fails => {
                Event::Fetched(binary, Err("not there".to_owned()))
            }
            Event::OutputTaken(id, Ok(_)) if fails => {
                world.files.held.remove(&id);
                Event::OutputTaken(id, Err("it is cut off".to_owned()))
            }
            Event::RecordRead(id, None) if !fails => {
                let part = u32::try_from(random.below(3)).unwrap();
                Event::RecordRead(id, Some(RecordAt { part, offset: 7 }))
            }
            Event::Linked(mut attempts) => {
                attempts.retain(|_| !random.one_in(3));
                world.files.linked.extend(&attempts);
                Event::Linked(attempts)
            }
            event => event,
        };
        world.feed(event);
    }

    fn runner(&mut self) {
        let ids: Vec<RunnerId> = self.world.runners.keys().copied().collect();
        let Some(id) = self.random.pick(&ids) else { return };
        let foreign = attempt(self.job(), TaskKind::Map, 1);
        let (world, random) = (&mut self.world, &mut self.random);
        let Some(runner) = world.runners.get_mut(&id) else { return };
        if runner.is_dead {
            // Its worker learns of it some time later.
            if random.one_in(4) {
                world.deliver(id);
            }
            return;
        }
        match random.below(20) {
            0..=6 if !runner.hangs || runner.is_killed => runner.obey(),
            7..=12 => world.deliver(id),
            13..=16 if !runner.hangs => {
                if let Some(current) = runner.current {
                    runner.end(current, !random.one_in(5));
                    // A process that reports twice; its worker would end it.
                    if random.one_in(6) {
                        runner.end(current, random.one_in(2));
                    }
                    runner.current = None;
                }
            }
            17 if !runner.hangs => runner.progress(),
            18 if !runner.hangs => {
                runner.fail_to_fetch(foreign);
                // A report for an attempt that is over, or another's.
                if random.one_in(4) {
                    let ended: Vec<AttemptId> = world.laws.confirmed.keys().copied().collect();
                    let of = random.pick(&ended).unwrap_or(foreign);
                    runner.end(of, true);
                }
            }
            19 if random.one_in(4) => runner.die("it crashed"),
            19 if runner.given.is_none() && random.one_in(2) => runner.die("it left"),
            19 if random.one_in(4) => runner.hangs = true,
            _ => {}
        }
    }

    /// Without further faults everything ends.
    fn settle(&mut self) {
        self.world.jobtracker.poison.clear();
        for round in 0..ROUNDS_MAX {
            let world = &mut self.world;
            world.strays.clear();
            for _ in 0..50 {
                while let Some(event) = world.files.results.pop() {
                    if let Event::Linked(attempts) = &event {
                        world.files.linked.extend(attempts);
                    }
                    world.feed(event);
                }
                let ids: Vec<RunnerId> = world.runners.keys().copied().collect();
                for id in ids {
                    let runner = world.runners.get_mut(&id).unwrap();
                    if runner.hangs && !runner.is_killed {
                        runner.die("the task gave no sign of life");
                    }
                    runner.obey();
                    if let Some(current) = runner.current.take() {
                        runner.end(current, true);
                    }
                    world.deliver(id);
                }
                for index in (0..world.flights.len()).rev() {
                    world.arrive(index, &mut || true);
                    world.answer(index);
                }
            }
            if round == 5 {
                (0..3).for_each(|number| {
                    world.jobtracker.forget(JobId { cluster_start: 1, number });
                });
            }
            world.advance(Duration::from_secs(1));
            if round > 5 && world.memory() == 0 && world.jobtracker.is_idle() {
                assert!(world.jobtracker.live.is_empty(), "slots leak");
                assert!(world.files.held.is_empty(), "outputs are held for nothing");
                assert!(world.files.attempts.is_empty() && world.files.jobs.is_empty());
                assert!(world.laws.unconfirmed.is_empty());
                return;
            }
        }
        panic!("it does not end: {:#?}", self.world.core);
    }

    /// The worker stops; runners may or may not end in time.
    fn stop(&mut self) {
        let world = &mut self.world;
        world.feed(Event::Shutdown);
        let begin = world.now;
        let all_hang = self.random.one_in(4);
        for _ in 0..200 {
            if self.world.has_ended {
                break;
            }
            if self.random.one_in(8) {
                self.world.advance(Duration::from_millis(300));
            }
            if !all_hang {
                self.runner();
            }
            let (world, random) = (&mut self.world, &mut self.random);
            if !world.flights.is_empty() && random.one_in(4) {
                world.give_up(0, false);
            }
        }
        let world = &mut self.world;
        assert!(world.runners.values().all(|runner| runner.is_killed), "all are asked to end");
        world.advance(super::super::STOP_TIMEOUT);
        assert!(world.has_ended && world.now <= begin + Duration::from_secs(60));
    }
}

/// Runs a history; returns how often what happened in it.
fn history(seed: u64) -> BTreeMap<&'static str, u64> {
    let mut history = History::new(seed);
    (0..STEPS).for_each(|_| history.step());
    if history.random.one_in(4) {
        history.stop();
    } else {
        history.settle();
    }
    let World { mut seen, laws, jobtracker, .. } = history.world;
    let [replaced, late, going] = laws.oddities;
    seen.extend([
        ("ordered", jobtracker.ordered.len() as u64),
        ("confirmed", laws.confirmed.len() as u64),
        ("an end is replaced", replaced),
        ("a kill comes late", late),
        ("a job comes back while its files go", going),
    ]);
    seen
}

#[test]
fn every_history_ends_and_keeps_the_laws() {
    let mut count = 0;
    let mut seen: BTreeMap<&str, u64> = SIGHTS.iter().map(|sight| (*sight, 0)).collect();
    needs::seeds::for_each(SEEDS, |seed| {
        count += 1;
        for (what, count) in history(seed) {
            *seen.entry(what).or_default() += count;
        }
    });
    println!("{seen:#?}");
    let is_complete = seen.values().all(|count| *count > 0);
    assert!(is_complete || count < SEEDS, "something never happens: {seen:#?}");
    assert!(seen["confirmed"] > seen["ordered"] / 3, "most attempts end: {seen:#?}");
}

#[test]
fn a_seed_is_one_history() {
    let run = |seed| {
        let mut history = History::new(seed);
        history.world.record = Some(Vec::new());
        (0..STEPS).for_each(|_| history.step());
        history.settle();
        history.world.record.unwrap()
    };
    let first = run(3);
    assert!(first.len() > 100, "something happens: {first:?}");
    assert_eq!(first, run(3));
    assert_ne!(first, run(4));
}

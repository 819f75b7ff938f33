//! The process of a task, as a worker sees it: it gets an attempt, works for a while and reports progress; a reduce fetches the outputs of maps before that. Who
//! writes files makes them in the directory of its attempt, as a job's own program does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use needs::random::Random;
use protocol::jobs::Counters;
use protocol::phase::Phase;
use protocol::tracker::{MapOutput, Program, Work};
use protocol::{AttemptId, ClientId, InodeId, TaskKind};
use worker::core::News;

/// Steps of an attempt's work; after each it reports.
const STEPS: u32 = 4;

/// A process.
pub(super) struct Runner {
    pub(super) program: Box<Program>,
    /// By which the NameNode knows it.
    pub(super) client: ClientId,
    pub(super) calls: u64,
    pub(super) task: Option<Task>,
    /// What the worker has not received.
    pub(super) news: VecDeque<News>,
    pub(super) is_dead: bool,
}

/// How an attempt ends if nothing stops it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Done,
    Fails,
    Dies,
}

/// Where an attempt stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// A reduce gets the outputs of maps.
    Shuffling,
    /// So many steps are left.
    Working(u32),
    /// Its file is being made.
    Creating,
    Completing(InodeId),
}

/// What a process works on.
pub(super) struct Task {
    pub(super) attempt: AttemptId,
    pub(super) stage: Stage,
    fate: Fate,
    pace: Duration,
    pub(super) records: u64,
    /// Map outputs that a reduce knows, by map.
    outputs: BTreeMap<u32, MapOutput>,
    fetched: BTreeSet<u32>,
}

impl Runner {
    pub(super) fn new(program: Box<Program>, client: ClientId) -> Self {
        let (calls, task, news, is_dead) = (0, None, VecDeque::new(), false);
        Runner { program, client, calls, task, news, is_dead }
    }

    /// True if its process works on this attempt.
    pub(super) fn has(&self, attempt: AttemptId) -> bool {
        !self.is_dead && self.task.as_ref().is_some_and(|task| task.attempt == attempt)
    }

    /// Its process ends. Returns the attempt that it had not done.
    pub(super) fn die(&mut self, why: &str) -> Option<AttemptId> {
        if !std::mem::replace(&mut self.is_dead, true) {
            self.news.push_back(News::Gone { diagnostics: why.to_owned() });
        }
        self.task.take().map(|task| task.attempt)
    }

    pub(super) fn progress(&mut self) {
        let Some(task) = &self.task else { return };
        let (attempt, phase) = (task.attempt, task.phase());
        let left = match task.stage {
            Stage::Shuffling => STEPS,
            Stage::Working(left) => left,
            Stage::Creating | Stage::Completing(_) => 0,
        };
        let progress = 1.0 - (left + 1) as f32 / (STEPS + 2) as f32;
        let counters = Counters::from_iter([("Simulated", "seen", 1)]);
        self.news.push_back(News::Progress { attempt, progress, phase, counters });
    }
}

impl Task {
    pub(super) fn new(attempt: AttemptId, work: Work, random: &mut Random) -> Self {
        let slow = if random.one_in(12) { 12 } else { 1 };
        let outputs = match work {
            Work::Map { .. } => Vec::new(),
            Work::Reduce(work) => Arc::unwrap_or_clone(work.outputs),
            Work::Round(_) => unreachable!("no job that is submitted here goes in rounds"),
        };
        let stage = match attempt.task.kind {
            TaskKind::Map => Stage::Working(STEPS),
            TaskKind::Reduce => Stage::Shuffling,
        };
        let fate = match random.below(24) {
            0 => Fate::Fails,
            1 => Fate::Dies,
            _ => Fate::Done,
        };
        let pace = random.millis(20..500) * slow;
        let records = random.within(1..1000);
        let fetched = BTreeSet::new();
        let mut task =
            Task { attempt, stage, fate, pace, records, outputs: BTreeMap::new(), fetched };
        task.announced(outputs, &[]);
        task
    }

    /// The job has new outputs of maps, and others no longer.
    pub(super) fn announced(&mut self, available: Vec<MapOutput>, obsolete: &[AttemptId]) {
        self.outputs.retain(|_, output| !obsolete.contains(&output.attempt));
        let indexed = available.into_iter().map(|output| (output.attempt.task.index, output));
        self.outputs.extend(indexed.filter(|(_, output)| !obsolete.contains(&output.attempt)));
    }

    /// The next output to fetch.
    pub(super) fn wanted(&self) -> Option<&MapOutput> {
        let is_missing = |(map, _): &(&u32, &MapOutput)| !self.fetched.contains(map);
        self.outputs.iter().find(is_missing).map(|(_, output)| output)
    }

    /// An output has come.
    pub(super) fn fetched(&mut self, map: AttemptId) {
        self.fetched.insert(map.task.index);
    }

    pub(super) fn has_all(&self, map_count: u32) -> bool {
        self.fetched.len() >= map_count as usize
    }

    pub(super) fn begin_work(&mut self) {
        self.stage = Stage::Working(STEPS);
    }

    /// The time until its next step.
    pub(super) fn pace(&self) -> Duration {
        self.pace
    }

    /// A step is done. What comes of the attempt, if that was the last one.
    pub(super) fn step(&mut self) -> Option<Fate> {
        let Stage::Working(left) = &mut self.stage else { return None };
        *left = left.saturating_sub(1);
        (*left == 0).then_some(self.fate)
    }

    pub(super) fn phase(&self) -> Phase {
        match (self.attempt.task.kind, self.stage) {
            (TaskKind::Map, _) => Phase::Map,
            (TaskKind::Reduce, Stage::Shuffling) => Phase::Shuffle,
            (TaskKind::Reduce, _) => Phase::Reduce,
        }
    }
}

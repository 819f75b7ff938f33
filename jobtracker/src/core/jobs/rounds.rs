//! The rounds of a job: which of its tasks may start, what they are given, what is still needed, and when the job is done.
//!
//! The tasks of round `r` are the reduces `r × partitions` and on. A round's tasks appear when the round before is complete.
//!
//! Invariants: all of this follows from the job's edits alone. The first summary of a task stays, although its task may run again, so all tasks of a round get
//! the same summaries. A task waits for a slot exactly while it has no winner, all that it needs has been made, and somebody needs it. An output that is lost
//! is made again only if a task without a winner needs it; those of round 0, which hold what is fixed, are always needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol::DfsPath;
use protocol::rounds::{RoundsSpec, SUMMARIES_BYTES_MAX, SUMMARY_BYTES_MAX, Summary};
use protocol::tracker::MapOutput;

use super::task_set::TaskSet;
use crate::core::edit::Made;

/// Most bytes of all summaries of a job: they stay in the journal for as long as the job does. 256 MB are 25 kB for each of the most rounds.
const SUMMARIES_OF_JOB_BYTES_MAX: usize = 256 << 20;

/// Summaries that are longer than allowed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooLong {
    /// That of one task.
    #[error(
        "Too long a summary: {bytes} bytes, and a task of a round may give {SUMMARY_BYTES_MAX}"
    )]
    Task {
        /// Its length.
        bytes: usize,
    },
    /// Those of a round.
    #[error("Too long summaries: those of round {round} exceed {SUMMARIES_BYTES_MAX} bytes")]
    Round {
        /// From 0.
        round: u32,
    },
    /// Those of all rounds.
    #[error("Too long summaries: those of all rounds exceed {SUMMARIES_OF_JOB_BYTES_MAX} bytes")]
    Job,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Rounds {
    pub(crate) spec: RoundsSpec,
    pub(super) partition_count: u32,
    /// The rounds whose tasks exist.
    pub(super) rounds: Vec<Round>,
    summary_bytes: usize,
    /// The job's own measure after each round.
    pub(super) measures: BTreeMap<u32, f64>,
    /// The round that is the last, as one of its tasks has decided.
    last: Option<u32>,
    /// Where tasks kept their state.
    pub(super) kept: BTreeMap<u32, DfsPath>,
    /// The outputs of the rounds before this one are needed no more, except those of round 0.
    pub(super) needed_from: u32,
    /// Tasks that may start and have no winner.
    pub(super) offered: BTreeSet<u32>,
    /// The inputs of the last task that started, and its round: the others of its round get the same.
    pub(super) inputs: Option<(u32, Arc<Vec<MapOutput>>)>,
}

/// A round whose tasks exist.
#[derive(Debug)]
pub(super) struct Round {
    /// Tasks without a winner.
    missing: u32,
    /// By partition; nothing once no task needs them.
    pub(super) summaries: Vec<Option<Summary>>,
    bytes: usize,
}

impl Round {
    fn new(partition_count: u32) -> Self {
        let summaries = vec![None; partition_count as usize];
        Round { missing: partition_count, summaries, bytes: 0 }
    }

    /// True if a task of it has said that another round follows.
    fn is_followed(&self) -> bool {
        self.summaries.iter().any(Option::is_some)
    }
}

impl Rounds {
    /// Those of a new job: round 0 alone.
    pub(crate) fn new(spec: RoundsSpec, partition_count: u32) -> Self {
        Rounds {
            spec,
            partition_count,
            rounds: vec![Round::new(partition_count)],
            summary_bytes: 0,
            measures: BTreeMap::new(),
            last: None,
            kept: BTreeMap::new(),
            needed_from: 0,
            offered: BTreeSet::new(),
            inputs: None,
        }
    }

    /// The newest round whose tasks exist.
    pub(crate) fn newest(&self) -> u32 {
        u32::try_from(self.rounds.len()).expect("rounds are limited").saturating_sub(1)
    }

    /// Number of tasks if no round ends the job early.
    pub(crate) fn task_count_max(&self) -> u64 {
        (u64::from(self.spec.last) + 1) * u64::from(self.partition_count)
    }

    /// Round and partition of a task.
    pub(crate) fn place(&self, index: u32) -> (u32, u32) {
        (index / self.partition_count, index % self.partition_count)
    }

    /// True if all work is done.
    pub(crate) fn is_done(&self) -> bool {
        self.last == Some(self.newest()) && self.is_complete(self.newest())
    }

    pub(super) fn is_complete(&self, round: u32) -> bool {
        self.rounds.get(round as usize).is_some_and(|round| round.missing == 0)
    }

    /// True if the output of a task may be needed again.
    pub(crate) fn needs_output(&self, index: u32) -> bool {
        let (round, _) = self.place(index);
        round == 0 || round >= self.needed_from
    }

    /// True if a task keeps the state of its keys, unless an earlier attempt did.
    pub(super) fn keeps(&self, index: u32) -> bool {
        let (round, _) = self.place(index);
        let is_due = round.checked_rem(self.spec.keep_every) == Some(0);
        round > 0 && is_due && round != self.spec.last
    }

    /// Checks how a task ends: all of a round end alike. The error is for people.
    pub(crate) fn check_end(&self, index: u32, is_last: bool) -> Result<(), String> {
        let (number, _) = self.place(index);
        let is_followed = number < self.newest()
            || self.rounds.get(number as usize).is_some_and(Round::is_followed);
        match is_last {
            true if is_followed => Err(format!(
                "ended the job in round {number}, where other tasks did not: tasks must decide by the summaries alone"
            )),
            false if self.last == Some(number) => Err(format!(
                "wants a round after round {number}, where other tasks ended the job: tasks must decide by the summaries alone"
            )),
            false if number >= self.spec.last => {
                Err(format!("wants a round after round {number}, which is the last"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a task kept its state where and when it should. The error is for people.
    pub(crate) fn check_kept(&self, index: u32) -> Result<(), String> {
        match self.keeps(index) {
            true => Ok(()),
            false => Err("kept the state of its keys, which nobody ordered".to_owned()),
        }
    }

    /// The part of a summary to record: nothing if an earlier attempt gave the task's summary.
    pub(crate) fn admit(&self, index: u32, summary: Summary) -> Result<Summary, TooLong> {
        let (number, partition) = self.place(index);
        let Some(round) = self.rounds.get(number as usize) else { return Ok(Summary::default()) };
        // A round without a list is long over.
        let is_told = round.summaries.get(partition as usize).is_none_or(Option::is_some);
        let bytes = summary.bytes.len();
        if is_told {
            return Ok(Summary::default());
        }
        if bytes > SUMMARY_BYTES_MAX {
            return Err(TooLong::Task { bytes });
        }
        if round.bytes + bytes > SUMMARIES_BYTES_MAX {
            return Err(TooLong::Round { round: number });
        }
        if self.summary_bytes + bytes > SUMMARIES_OF_JOB_BYTES_MAX {
            return Err(TooLong::Job);
        }
        Ok(summary)
    }

    /// A task has a winner.
    pub(super) fn won(&mut self, index: u32, made: &Made) {
        let (number, partition) = self.place(index);
        let Some(round) = self.rounds.get_mut(number as usize) else { return };
        round.missing = round.missing.saturating_sub(1);
        match made {
            Made::MapOutput { .. } => {}
            Made::Files { .. } => self.last = Some(number),
            Made::RoundOutput { summary, measure, kept, .. } => {
                if let Some(told @ None) = round.summaries.get_mut(partition as usize) {
                    *told = Some(summary.clone());
                    round.bytes += summary.bytes.len();
                    self.summary_bytes += summary.bytes.len();
                }
                if let (Some(before), Some(measure)) = (number.checked_sub(1), measure) {
                    self.measures.entry(before).or_insert(*measure);
                }
                if let Some(directory) = kept {
                    self.kept.entry(index).or_insert_with(|| directory.clone());
                    self.forget_before(number);
                }
            }
        }
    }

    /// If all tasks of a round kept their state, what came before it is needed no more.
    fn forget_before(&mut self, number: u32) {
        let tasks = number * self.partition_count..(number + 1) * self.partition_count;
        let all_kept = self.kept.range(tasks.clone()).count() == self.partition_count as usize;
        if !all_kept || number <= self.needed_from {
            return;
        }
        self.needed_from = number;
        self.kept = self.kept.split_off(&tasks.start);
        // Its own tasks still get the summaries of the round before.
        for round in self.rounds.iter_mut().take(number.saturating_sub(1) as usize) {
            round.summaries = Vec::new();
        }
    }

    /// The output of a task is lost.
    pub(super) fn lost(&mut self, index: u32) {
        let (number, _) = self.place(index);
        if let Some(round) = self.rounds.get_mut(number as usize) {
            round.missing += 1;
        }
    }

    /// The job is over: forgets what only its tasks needed.
    pub(super) fn end(&mut self) {
        self.rounds.iter_mut().for_each(|round| round.summaries = Vec::new());
        (self.kept, self.offered, self.inputs) = Default::default();
    }

    /// Begins the next round if it is time. True if so.
    pub(super) fn begin_next(&mut self) -> bool {
        let newest = self.newest();
        let is_time = self.is_complete(newest) && self.last.is_none() && newest < self.spec.last;
        if is_time {
            self.rounds.push(Round::new(self.partition_count));
        }
        is_time
    }

    /// True if all that a task needs has been made.
    pub(super) fn has_inputs(&self, index: u32, maps: &TaskSet, reduces: &TaskSet) -> bool {
        let (round, partition) = self.place(index);
        let Some(before) = round.checked_sub(1) else { return maps.is_done() };
        let has_fixed = reduces.task(partition).is_some_and(|task| task.winner.is_some());
        has_fixed && (self.kept.contains_key(&index) || self.is_complete(before))
    }

    /// Tasks without a winner that may start, and that somebody needs.
    pub(super) fn startable(&self, maps: &TaskSet, reduces: &TaskSet) -> BTreeSet<u32> {
        let mut startable = BTreeSet::new();
        let mut number = self.newest();
        loop {
            let tasks = number * self.partition_count..(number + 1) * self.partition_count;
            let mut needs_before = false;
            let is_open =
                |index: &u32| reduces.task(*index).is_some_and(|task| task.winner.is_none());
            let open = match self.is_complete(number) {
                true => Vec::new(),
                false => tasks.filter(is_open).collect(),
            };
            for index in open {
                needs_before |= !self.kept.contains_key(&index);
                if self.has_inputs(index, maps, reduces) {
                    startable.insert(index);
                }
            }
            number = match number {
                0 => return startable,
                number if needs_before => number - 1,
                // What is fixed is always needed.
                _ => 0,
            };
        }
    }
}

#[cfg(test)]
impl Rounds {
    /// What follows from edits, as text.
    pub(crate) fn digest(&self) -> String {
        let Rounds { rounds, measures, last, kept, needed_from, offered, .. } = self;
        format!("{rounds:?} {measures:?} {last:?} {kept:?} {needed_from} {offered:?}")
    }

    /// Tasks without a winner in each round.
    pub(crate) fn missing(&self) -> Vec<u32> {
        self.rounds.iter().map(|round| round.missing).collect()
    }

    /// Tasks that may start and have no winner.
    pub(crate) fn offered(&self) -> &BTreeSet<u32> {
        &self.offered
    }
}

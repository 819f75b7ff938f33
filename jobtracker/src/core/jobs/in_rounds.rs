//! A job that goes in rounds: what its [`rounds`](super::rounds) mean for its tasks, and the work of an attempt.
//!
//! Invariant: tasks of rounds are held back exactly while they are not offered.

use std::sync::Arc;

use protocol::jobs::{RoundMeasure, RoundsReport};
use protocol::rounds::RoundWork;
use protocol::tracker::MapOutput;
use protocol::{AttemptId, DfsPath, TaskId, TaskKind};

use super::job::{Job, Patience};
use super::task::{AttemptState, Task, TaskOutput};
use crate::core::edit::Made;

impl Job {
    /// Tasks of round 0 wait for the maps.
    pub(super) fn begin_rounds(&mut self) {
        if self.rounds.is_some() {
            (0..self.reduces.len()).for_each(|index| self.reduces.hold(index, true));
            self.arrange_rounds();
        }
    }

    /// A task has a winner, which made this.
    pub(super) fn note_won(&mut self, kind: TaskKind, index: u32, made: &Made) {
        let maps_done = self.maps.is_done();
        let Some(rounds) = &mut self.rounds else { return };
        match kind {
            TaskKind::Map if !maps_done => return,
            TaskKind::Map => {}
            TaskKind::Reduce => {
                rounds.won(index, made);
                let (number, _) = rounds.place(index);
                // Others of the newest round go on as they are.
                if number == rounds.newest() && !rounds.is_complete(number) {
                    rounds.offered.remove(&index);
                    self.reduces.hold(index, true);
                    return;
                }
            }
        }
        self.arrange_rounds();
    }

    /// The output of a task is lost.
    pub(super) fn note_lost(&mut self, kind: TaskKind, index: u32) {
        let Some(rounds) = &mut self.rounds else { return };
        rounds.inputs = None;
        if kind == TaskKind::Reduce {
            rounds.lost(index);
        }
        self.arrange_rounds();
    }

    /// Begins the next round if it is time, and lets those tasks wait for slots that may start.
    fn arrange_rounds(&mut self) {
        let Some(rounds) = &mut self.rounds else { return };
        if rounds.begin_next() {
            self.reduces.grow(rounds.partition_count);
        }
        let startable = rounds.startable(&self.maps, &self.reduces);
        for index in rounds.offered.difference(&startable) {
            self.reduces.hold(*index, true);
        }
        for index in startable.difference(&rounds.offered) {
            let (round, partition) = rounds.place(*index);
            let host = (round > 0).then(|| host_of(self.reduces.task(partition))).flatten();
            self.reduces.set_host(*index, host.as_deref());
            self.reduces.hold(*index, false);
            // Slots near what is fixed are worth waiting for again.
            self.patience = Patience::Fresh;
        }
        rounds.offered = startable;
    }

    /// How far it has come, if it goes in rounds.
    pub(crate) fn rounds_report(&self) -> Option<RoundsReport> {
        let rounds = self.rounds.as_ref()?;
        let measure =
            |(round, measure): (&u32, &f64)| RoundMeasure { round: *round, measure: *measure };
        Some(RoundsReport {
            newest: rounds.newest(),
            last: rounds.spec.last,
            measures: rounds.measures.iter().map(measure).collect(),
        })
    }

    /// The first round after round 0 whose outputs are still needed.
    pub(crate) fn needed_from(&self) -> u32 {
        self.rounds.as_ref().map_or(0, |rounds| rounds.needed_from)
    }

    /// True if a directory holds the state of a task of a round.
    pub(crate) fn is_kept(&self, task: TaskId, directory: &DfsPath) -> bool {
        let rounds = self.rounds.as_ref().filter(|_| task.kind == TaskKind::Reduce);
        rounds.is_some_and(|rounds| rounds.kept.get(&task.index) == Some(directory))
    }

    /// True if a task of a round has all that it needs; other tasks wait for nothing.
    pub(crate) fn has_inputs(&self, kind: TaskKind, index: u32) -> bool {
        match (&self.rounds, kind) {
            (Some(rounds), TaskKind::Reduce) => rounds.has_inputs(index, &self.maps, &self.reduces),
            _ => true,
        }
    }

    /// Attempts that run and whose inputs are lost: they got their lists at their start, and wait for no news.
    pub(crate) fn without_inputs(&self) -> Vec<AttemptId> {
        let lacks = |index: &u32| !self.has_inputs(TaskKind::Reduce, *index);
        let live = self.reduces.live().filter(|(index, _)| lacks(index));
        let attempts = live.flat_map(|(index, task)| {
            let running = task.live().filter(|attempt| attempt.state == AttemptState::Running);
            running.map(move |attempt| (index, attempt.number))
        });
        attempts
            .map(|(index, number)| AttemptId {
                task: self.task_id(TaskKind::Reduce, index),
                number,
            })
            .collect()
    }

    /// The work of a task of a round; `None` if this job has none.
    ///
    /// REQUIRES: it has its inputs.
    pub(crate) fn round_work(&mut self, index: u32) -> Option<RoundWork> {
        let rounds = self.rounds.as_ref()?;
        let (round, partition) = rounds.place(index);
        let before = round.checked_sub(1);
        let kept = rounds.kept.get(&index).cloned();
        let fixed = before.and_then(|_| output_of(self.reduces.task(partition)?).cloned());
        let known = rounds.inputs.as_ref().filter(|(of, _)| *of == round);
        let inputs = match (&kept, before, known) {
            (Some(_), ..) => Arc::default(),
            (None, _, Some((_, inputs))) => Arc::clone(inputs),
            (None, None, None) => Arc::new(self.map_outputs()),
            (None, Some(before), None) => {
                let count = rounds.partition_count;
                let tasks = (before * count..round * count).map(|index| self.reduces.task(index));
                Arc::new(tasks.filter_map(|task| output_of(task?).cloned()).collect())
            }
        };
        let before = before.and_then(|before| rounds.rounds.get(before as usize));
        let summaries = before.map(|before| before.summaries.iter().flatten().cloned().collect());
        let work = RoundWork {
            round,
            partition,
            partition_count: rounds.partition_count,
            is_last: round >= rounds.spec.last,
            keeps: rounds.keeps(index) && kept.is_none(),
            inputs: Arc::clone(&inputs),
            fixed,
            summaries: summaries.unwrap_or_default(),
            kept,
        };
        if let (Some(rounds), None) = (&mut self.rounds, &work.kept) {
            rounds.inputs = Some((round, inputs));
        }
        Some(work)
    }
}

/// The output that a task's winner left on its worker.
fn output_of(task: &Task) -> Option<&MapOutput> {
    match &task.winner.as_ref()?.output {
        TaskOutput::Map(output) => Some(output),
        TaskOutput::Files(_) => None,
    }
}

/// The machine of a task's winner.
fn host_of(task: Option<&Task>) -> Option<String> {
    let task = task?;
    let winner = task.attempt(task.winner.as_ref()?.number)?;
    Some(winner.host.clone())
}

//! The figures of attempts, for monitors.

use std::collections::BTreeMap;

use protocol::TaskKind;
use protocol::tracker::AttemptState;

/// How many attempts run and ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attempts {
    /// Attempts here, including those that wait for their executable.
    pub running: BTreeMap<TaskKind, u64>,
    /// Attempts that ended here so far.
    pub ended: Ended,
    /// Bytes on disk below the directory of jobs, at the last measurement.
    pub disk_bytes: u64,
}

/// How attempts ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ended {
    counts: BTreeMap<(TaskKind, &'static str), u64>,
}

impl Ended {
    /// Counts one more end.
    pub fn count(&mut self, kind: TaskKind, state: &AttemptState) {
        *self.counts.entry((kind, name(state))).or_default() += 1;
    }

    /// Ends so far of a kind of task in a state: `succeeded`, `failed` or `killed`.
    pub fn of(&self, kind: TaskKind, state: &'static str) -> u64 {
        self.counts.get(&(kind, state)).copied().unwrap_or(0)
    }
}

fn name(state: &AttemptState) -> &'static str {
    match state {
        AttemptState::MapDone { .. }
        | AttemptState::OutputDone { .. }
        | AttemptState::RoundDone { .. } => "succeeded",
        // An end without a result.
        AttemptState::Failed { .. } | AttemptState::Running => "failed",
        AttemptState::Killed => "killed",
    }
}

//! Tasks and their attempts.
//!
//! Invariants: a task has at most one winner; attempt numbers only grow; [`Standing`] is derived from the attempts, never stored beside
//! them.

use std::time::Duration;

use protocol::phase::Phase;
use protocol::tracker::MapOutput;
use protocol::{DfsPath, RecordAt, WorkerId};

use super::counters::Tally;
use crate::core::level::Level;

/// Life of an attempt.
///
/// ```text
/// Running --> Succeeded | Failed | Killed
///    |   ^                           |
///    |   +--- its lost worker is back
///    +-> Killing --> Succeeded | Killed
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttemptState {
    /// Its worker has it, or is about to get it.
    Running,
    /// Its worker has the order to stop it; it holds its slot until the worker confirms.
    Killing,
    /// It is the winner, or was until its output got lost.
    Succeeded,
    /// It counts against the limit.
    Failed,
    /// Stopped, superseded, or its worker is lost.
    Killed,
}

impl AttemptState {
    /// The name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            AttemptState::Running | AttemptState::Killing => "RUNNING",
            AttemptState::Succeeded => "SUCCEEDED",
            AttemptState::Failed => "FAILED",
            AttemptState::Killed => "KILLED",
        }
    }

    /// True while it holds a slot.
    pub(crate) fn is_live(self) -> bool {
        matches!(self, AttemptState::Running | AttemptState::Killing)
    }
}

/// Why an attempt was ordered to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StopReason {
    /// Another attempt of its task won.
    Rival,
    /// Its job is over.
    JobOver,
    /// A reduce made room for a map of its job.
    Room,
    /// Its queue has more than its share, another much less.
    Preempted,
    /// What another task had made for it is lost.
    InputLost,
    /// A user asked for it.
    User,
    /// A user asked for it, as a failure.
    UserFails,
}

impl StopReason {
    /// The reason for people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            StopReason::Rival => "another attempt was faster",
            StopReason::JobOver => "the job is over",
            StopReason::Room => "made room for a map that its job must run again",
            StopReason::Preempted => "its slot went to a queue that had much less than its share",
            StopReason::InputLost => "its input is lost",
            StopReason::User => "killed by a user",
            StopReason::UserFails => "failed by a user",
        }
    }
}

/// One try at a task.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Attempt {
    pub(crate) number: u32,
    pub(crate) state: AttemptState,
    pub(crate) worker: WorkerId,
    pub(crate) host: String,
    pub(crate) http_address: String,
    pub(crate) started_ms: u64,
    pub(crate) finished_ms: u64,
    pub(crate) diagnostics: String,
    pub(crate) progress: f32,
    /// When its progress last changed, milliseconds since the epoch.
    pub(crate) progressed_ms: u64,
    /// Set with [`AttemptState::Killing`].
    pub(crate) stop: Option<StopReason>,
    /// Started beside another that was slow.
    pub(crate) speculative: bool,
    /// How near it started to its input; `None` for reduces, and for attempts from before a restart.
    pub(crate) nearness: Option<Level>,
    /// For a failed map: the record it was in.
    pub(crate) record: Option<RecordAt>,
    /// Its phase, or the last one if it ended without a result; `None` if none was reported.
    pub(crate) phase: Option<Phase>,
}

impl Attempt {
    /// Begins an attempt on a worker, at its host and address.
    pub(crate) fn begin(
        number: u32,
        worker: WorkerId,
        (host, http_address): (&str, &str),
        started_ms: u64,
    ) -> Self {
        Attempt {
            number,
            state: AttemptState::Running,
            worker,
            host: host.to_owned(),
            http_address: http_address.to_owned(),
            started_ms,
            finished_ms: 0,
            diagnostics: String::new(),
            progress: 0.0,
            progressed_ms: started_ms,
            stop: None,
            speculative: false,
            nearness: None,
            record: None,
            phase: None,
        }
    }
}

/// The output of a task's winner.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TaskOutput {
    /// The output of a map, or of a task of a round, on a worker.
    Map(MapOutput),
    /// Files below `_temporary`.
    Files(DfsPath),
}

/// The attempt that decided a task.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Winner {
    pub(crate) number: u32,
    pub(crate) output: TaskOutput,
    pub(crate) tally: Tally,
}

/// Life of a task.
///
/// ```text
/// Pending <-> Running -> Completed
///    ^                       |
///    +--- map output lost ---+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Waits for a slot.
    Pending,
    /// Has an attempt that holds a slot.
    Running,
    /// Has a winner.
    Completed,
}

/// One map or reduce.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Task {
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) winner: Option<Winner>,
}

impl Task {
    /// Its state.
    pub(crate) fn standing(&self) -> Standing {
        if self.winner.is_some() {
            Standing::Completed
        } else if self.attempts.iter().any(|attempt| attempt.state.is_live()) {
            Standing::Running
        } else {
            Standing::Pending
        }
    }

    /// Attempts that hold a slot.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.state.is_live())
    }

    /// Attempts in `state`.
    pub(crate) fn count(&self, state: AttemptState) -> u32 {
        let count = self.attempts.iter().filter(|attempt| attempt.state == state).count();
        u32::try_from(count).expect("attempt numbers are u32")
    }

    /// Progress of the best attempt.
    pub(crate) fn progress(&self) -> f32 {
        if self.winner.is_some() {
            return 1.0;
        }
        let live = self.attempts.iter().filter(|attempt| attempt.state.is_live());
        live.map(|attempt| attempt.progress).fold(0.0, f32::max)
    }

    /// How long its winner took, milliseconds.
    pub(crate) fn winner_ms(&self) -> Option<u64> {
        let winner = self.attempt(self.winner.as_ref()?.number)?;
        Some(winner.finished_ms.saturating_sub(winner.started_ms))
    }

    /// How long its attempts that are over took together, milliseconds.
    pub(crate) fn spent_ms(&self) -> u64 {
        let over = self.attempts.iter().filter(|attempt| !attempt.state.is_live());
        over.map(|attempt| attempt.finished_ms.saturating_sub(attempt.started_ms))
            .fold(0, u64::saturating_add)
    }

    /// The number of its next attempt, at least `base`.
    pub(crate) fn next_number(&self, base: u32) -> u32 {
        self.attempts.iter().map(|attempt| attempt.number + 1).max().unwrap_or(0).max(base)
    }

    pub(crate) fn attempt(&self, number: u32) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.number == number)
    }

    pub(crate) fn attempt_mut(&mut self, number: u32) -> Option<&mut Attempt> {
        self.attempts.iter_mut().find(|attempt| attempt.number == number)
    }

    /// True if an attempt failed less than `span` before `now_ms`, milliseconds since the epoch. A time that is still to come does not count:
    /// the clock was set back.
    pub(crate) fn failed_within(&self, span: Duration, now_ms: u64) -> bool {
        let failed = |attempt: &Attempt| {
            let age = now_ms.checked_sub(attempt.finished_ms);
            attempt.state == AttemptState::Failed
                && age.is_some_and(|age| Duration::from_millis(age) < span)
        };
        self.attempts.iter().any(failed)
    }

    /// True if an attempt failed on `worker`.
    pub(crate) fn failed_on(&self, worker: WorkerId) -> bool {
        let failed =
            |attempt: &Attempt| attempt.state == AttemptState::Failed && attempt.worker == worker;
        self.attempts.iter().any(failed)
    }
}

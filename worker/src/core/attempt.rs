//! An attempt that is here.
//!
//! ```text
//! preparing -> fetching -> running on a runner -> concluding -> ended: in the outbox
//! ```

use std::sync::Arc;

use protocol::AttemptId;
use protocol::jobs::Counters;
use protocol::phase::Phase;
use protocol::tracker::{AttemptState, Launch, MapOutput, Work};

use super::event::RunnerId;

/// See the module.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Its order. While a runner has it, the lists of a reduce or of a task of a round are empty.
    pub(super) launch: Box<Launch>,
    pub(super) stage: Stage,
    /// It is being stopped; its runner is asked to end.
    pub(super) killing: bool,
    /// Its job is over: nothing that it made is kept.
    pub(super) is_forgotten: bool,
    pub(super) reached: Reached,
    /// What it has counted so far.
    pub(super) counters: Counters,
    /// What it says that it does.
    pub(super) status: String,
}

/// See the module.
#[derive(Debug)]
pub(super) enum Stage {
    /// Its directory is being made.
    Preparing,
    /// It waits for its executable.
    Fetching,
    /// A runner has it.
    Running(RunnerId),
    /// Its process has ended it; what it left is being checked.
    Concluding(Box<Ending>),
}

/// The end of an attempt, as far as it is known.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) state: AttemptState,
    pub(super) counters: Counters,
    pub(super) reached: Reached,
    /// Its process died, and did not report the failure itself.
    pub(super) has_died: bool,
}

/// The progress of an attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reached {
    /// 0 to 1.
    pub(super) progress: f32,
    /// The current phase; `None` until its process reports one.
    pub(super) phase: Option<Phase>,
}

impl Ending {
    /// The end that an attempt reports or gets, without counters.
    pub(super) fn new(state: AttemptState, reached: Reached) -> Self {
        Ending { state, counters: Counters::default(), reached, has_died: false }
    }
}

impl Attempt {
    pub(super) fn new(launch: Box<Launch>) -> Self {
        Attempt {
            launch,
            stage: Stage::Preparing,
            killing: false,
            is_forgotten: false,
            reached: Reached::default(),
            counters: Counters::default(),
            status: String::new(),
        }
    }

    /// The work for a runner.
    pub(super) fn hand_over(&mut self) -> Work {
        let work = self.launch.work.clone();
        match &mut self.launch.work {
            Work::Map { .. } => {}
            Work::Reduce(work) => work.outputs = Arc::default(),
            Work::Round(work) => (work.inputs, work.summaries) = (Arc::default(), Vec::new()),
        }
        work
    }

    /// Its runner.
    pub(super) fn runner(&self) -> Option<RunnerId> {
        match self.stage {
            Stage::Running(runner) => Some(runner),
            Stage::Preparing | Stage::Fetching | Stage::Concluding(_) => None,
        }
    }

    /// True until it is given to a runner.
    pub(super) fn waits(&self) -> bool {
        matches!(self.stage, Stage::Preparing | Stage::Fetching)
    }
}

/// Merges news of map outputs into a list of them; those who share it keep it as it was.
pub(crate) fn merge_outputs(
    outputs: &mut Arc<Vec<MapOutput>>,
    available: Vec<MapOutput>,
    obsolete: &[AttemptId],
) {
    let outputs = Arc::make_mut(outputs);
    outputs.extend(available);
    outputs.retain(|output| !obsolete.contains(&output.attempt));
}

//! What a runner is given: how it is started and watched, and the orders that it gets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::AttemptId;
use protocol::pass::Pass;
use protocol::runner::Setup;
use protocol::tracker::{MapOutput, Work};
use sys::sandbox::User;

use crate::scratch::Place;
use crate::walls::{Sandbox, Watch};

/// How a runner is started and watched.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The executable.
    pub(crate) binary: PathBuf,
    /// Its working directory.
    pub(crate) job: Place,
    /// Whose its processes are; `None`: the worker's.
    pub(crate) user: Option<User>,
    /// Where it finds the map outputs of its job.
    pub(crate) outputs: PathBuf,
    /// Directory of the logs of all attempts.
    pub(crate) logs: Place,
    /// What it is told first.
    pub(crate) setup: Setup,
    /// Time to start and rebuild the job.
    pub(crate) start_timeout: Duration,
    /// Time without a sign of life of an attempt; zero is for ever.
    pub(crate) silence_max: Duration,
    /// Limit of each log.
    pub(crate) log_bytes_max: u64,
    /// Knows what it may use, and looks whether it does.
    pub(crate) watch: Watch,
    /// What it can reach.
    pub(crate) sandbox: Arc<Sandbox>,
}

/// Orders for a runner.
#[derive(Debug)]
pub(crate) enum Order {
    /// Run an attempt; the runner has none.
    Launch { attempt: AttemptId, work: Work, place: Place },
    /// News for the running reduce.
    MapOutputs { available: Vec<MapOutput>, obsolete: Vec<AttemptId> },
    /// Another pass in the place of the one it has.
    Pass(Pass),
    /// Exit when idle.
    Exit,
    /// End at once.
    Kill,
}

/// Joins news of map outputs into a list of them.
pub(crate) fn merge_outputs(
    outputs: &mut Vec<MapOutput>,
    available: Vec<MapOutput>,
    obsolete: &[AttemptId],
) {
    outputs.extend(available);
    outputs.retain(|output| !obsolete.contains(&output.attempt));
}

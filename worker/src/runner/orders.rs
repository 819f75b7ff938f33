//! A runner's input: how it is started and watched, and the orders that it gets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::AttemptId;
use protocol::pass::Pass;
use protocol::runner::Setup;
use protocol::tracker::{MapOutput, Work};
use sys::sandbox::User;

use crate::scratch::OpenDir;
use crate::walls::{Sandbox, Watch};

/// How a runner is started and watched.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The executable.
    pub(crate) binary: PathBuf,
    /// Its working directory.
    pub(crate) job: OpenDir,
    /// The user of its processes; `None`: the worker's.
    pub(crate) user: Option<User>,
    /// The path at which it finds the map outputs of its job.
    pub(crate) outputs: PathBuf,
    /// Directory of the logs of all attempts.
    pub(crate) logs: OpenDir,
    /// The first message it gets.
    pub(crate) setup: Setup,
    /// Time to start and rebuild the job.
    pub(crate) start_timeout: Duration,
    /// Time without a sign of life of an attempt; zero means no limit.
    pub(crate) silence_max: Duration,
    /// Limit of each log.
    pub(crate) log_bytes_max: u64,
    /// Knows the limits of tasks and checks them.
    pub(crate) watch: Watch,
    /// The files and processes it can reach.
    pub(crate) sandbox: Arc<Sandbox>,
}

/// Orders for a runner.
#[derive(Debug)]
pub(crate) enum Order {
    /// Run an attempt; the runner has none.
    Launch { attempt: AttemptId, work: Work, place: OpenDir },
    /// News for the running reduce.
    MapOutputs { available: Vec<MapOutput>, obsolete: Vec<AttemptId> },
    /// A new pass that replaces the current one.
    Pass(Pass),
    /// Exit when idle.
    Exit,
    /// End at once.
    Kill,
}

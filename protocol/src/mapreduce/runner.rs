//! Messages between a worker and the job process it started, in frames ([`crate::frame`]) over a Unix socket that the process inherits. Descriptors 0 to 2 stay
//! the task's own.
//!
//! The worker starts the job's executable with the job's arguments and two variables. `HANNO_TASK_DESCRIPTORS` names that socket and the one on which the
//! process asks for connections to DataNodes (`sys::broker`). `HANNO_TASK_COOKIE` holds the hexadecimal mark of the process, which it sends first. Whoever
//! starts a process under a debugger, which may close descriptors, names an abstract socket in `HANNO_TASK_SOCKET` instead. One runner runs one attempt at a
//! time and serves further attempts of its job.
//!
//! ```text
//! runner -> Hello -> (worker) Setup -> runner Preparing* -> Ready | Refused
//! worker Launch -> runner (Progress | Status)* -> Ended    (again and again)
//! worker Pass* now and then, MapOutputs* while a reduce runs; FetchFailed* from it
//! ```

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::phase::Phase;
use super::tracker::{AttemptState, FetchFailure, MapOutput, Program, Work};
use crate::AttemptId;
use crate::pass::Pass;
use crate::wire::{ENTRIES_MAX, at_most};

/// Environment variable: the numbers of two descriptors, separated by a comma: the socket to the worker, and the one to its broker.
pub const DESCRIPTORS_VARIABLE: &str = "HANNO_TASK_DESCRIPTORS";
/// Environment variable: the name of an abstract socket to connect to, where no descriptors are given.
pub const SOCKET_VARIABLE: &str = "HANNO_TASK_SOCKET";
/// Environment variable: the cookie that the runner sends in [`FromRunner::Hello`].
pub const COOKIE_VARIABLE: &str = "HANNO_TASK_COOKIE";
/// Property of the program in [`ToRunner::Setup`]: how long an attempt may be silent, milliseconds; 0 is for ever. An older worker does not set it.
pub const SILENCE_PROPERTY: &str = "hanno.task.silence.ms";
/// Longest message of a runner, bytes: all counters that a job may have fit twice.
pub const FROM_RUNNER_BYTES_MAX: usize = 6 << 20;

/// From the worker. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToRunner {
    /// First message.
    Setup(Box<Setup>),
    /// Run this attempt.
    Launch {
        /// The attempt.
        attempt: AttemptId,
        /// Its work.
        work: Work,
        /// Directory for its spills and map output; exists, private to the attempt.
        directory: String,
    },
    /// More map outputs for the running reduce.
    MapOutputs {
        /// Newly available.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        available: Vec<MapOutput>,
        /// Forget these.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        obsolete: Vec<AttemptId>,
    },
    /// Exit.
    Exit,
    /// A pass to replace the current one.
    Pass(Pass),
}

/// The part that all attempts of a job share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Program and options.
    pub program: Program,
    /// `http://host:port` of the NameNode.
    pub namenode: String,
    /// The pass for calls to the file system and the shuffle; [`ToRunner::Pass`] renews it before it expires.
    pub pass: Pass,
    /// Name of this machine.
    pub host: String,
    /// Boot id of this machine's kernel.
    pub boot_id: String,
    /// Memory for sort buffers and shuffle of one attempt, bytes.
    pub memory_bytes_max: u64,
    /// Directory on this machine for output files, instead of the job's directory in the file system; only for an attempt that repeats another.
    pub local_output: Option<String>,
}

/// From the runner. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromRunner {
    /// First message.
    Hello {
        /// Value of [`COOKIE_VARIABLE`].
        cookie: String,
    },
    /// The job was rebuilt and is the same.
    Ready,
    /// The job cannot run here (a different fingerprint, bad arguments), or its attempt cannot go on; the process ends.
    Refused {
        /// Why.
        diagnostics: String,
    },
    /// A sign of life from the running attempt, at most four a second.
    Progress {
        /// The attempt.
        attempt: AttemptId,
        /// 0 to 1.
        progress: f32,
        /// Its phase.
        phase: Phase,
        /// Counters so far.
        #[serde(deserialize_with = "crate::counters::bounded")]
        counters: Counters,
    },
    /// A map output could not be fetched.
    FetchFailed(FetchFailure),
    /// The attempt ended: `MapDone`, `OutputDone` or `Failed`.
    Ended {
        /// The attempt.
        attempt: AttemptId,
        /// The final state.
        state: AttemptState,
        /// Final counters.
        #[serde(deserialize_with = "crate::counters::bounded")]
        counters: Counters,
        /// 0 to 1: how far it got.
        progress: f32,
        /// Its last phase.
        phase: Phase,
    },
    /// What the running attempt says that it does.
    Status {
        /// The attempt.
        attempt: AttemptId,
        /// For people.
        text: String,
    },
    /// A sign of life before it is ready, at most four a second beside the beginning of each step. A process that fetches nothing sends none.
    Preparing {
        /// What it does, for people: "fetching …".
        step: String,
    },
}

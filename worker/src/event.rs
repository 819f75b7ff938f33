//! The worker's events: everything that its loop waits for, whoever sends it.

use std::path::PathBuf;

use protocol::jobs::Counters;
use protocol::phase::Phase;
use protocol::tracker::{Action, AttemptState, FetchFailure, Register};
use protocol::{AttemptId, BinaryHash, Epoch, JobId};
use tokio::sync::oneshot;

use crate::metrics::Attempts;

/// Events that can wait for the loop; beyond that, runners wait.
pub(crate) const EVENTS_MAX: usize = 4096;

/// An event for the loop.
pub(crate) enum Event {
    /// Orders of the JobTracker.
    Actions(Vec<Action>),
    /// The session wants to register.
    Snapshot(oneshot::Sender<Register>),
    /// It has registered.
    Registered(Epoch),
    /// An executable is there, or cannot be obtained.
    Binary(BinaryHash, Result<PathBuf, String>),
    /// A runner reports something.
    Runner(u64, News),
    /// A monitor asks for the figures of attempts.
    Figures(oneshot::Sender<Attempts>),
    /// Bytes that the files of jobs use on disk; `None` if they cannot be measured.
    Disk(Option<u64>),
    /// The result of a report.
    Reported(Outcome),
    /// The files of a job are deleted, or cannot be.
    Deleted(JobId),
}

/// A runner's report.
#[derive(Debug)]
pub(crate) enum News {
    /// A sign of life.
    Progress { attempt: AttemptId, progress: f32, phase: Phase },
    /// A map output could not be fetched.
    FetchFailed(FetchFailure),
    /// The attempt ended; the runner is free.
    Ended {
        attempt: AttemptId,
        state: AttemptState,
        counters: Counters,
        progress: f32,
        phase: Phase,
    },
    /// The process is over; the reason, for the attempt that it ran.
    Gone { diagnostics: String },
}

/// The result of a report.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The JobTracker has it.
    Taken,
    /// It may or may not have it.
    Lost,
    /// It will never take it; the reason.
    Refused(String),
}

//! What happens to the worker: everything that its loop waits for, by whoever sees it.

use std::path::PathBuf;

use protocol::jobs::Counters;
use protocol::phase::Phase;
use protocol::tracker::{Action, AttemptState, FetchFailure, Register};
use protocol::{AttemptId, BinaryHash, Epoch, JobId};
use tokio::sync::oneshot;

use crate::metrics::Attempts;

/// Events that wait for the loop; beyond it runners wait.
pub(crate) const EVENTS_MAX: usize = 4096;

/// Something for the loop.
pub(crate) enum Event {
    /// Orders of the JobTracker.
    Actions(Vec<Action>),
    /// The session wants to register.
    Snapshot(oneshot::Sender<Register>),
    /// It has registered.
    Registered(Epoch),
    /// An executable is there, or cannot be had.
    Binary(BinaryHash, Result<PathBuf, String>),
    /// A runner tells something.
    Runner(u64, News),
    /// What is known of attempts, for monitors.
    Figures(oneshot::Sender<Attempts>),
    /// What the files of jobs use on disk, bytes; `None` if they cannot be looked at.
    Disk(Option<u64>),
    /// What became of a report.
    Reported(Outcome),
    /// The files of a job are gone, or cannot be deleted.
    Deleted(JobId),
}

/// What a runner tells.
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
    /// The process is over; why, for the attempt it ran.
    Gone { diagnostics: String },
}

/// What became of a report.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The JobTracker has it.
    Taken,
    /// It may have it or not.
    Lost,
    /// It will never take it; why.
    Refused(String),
}

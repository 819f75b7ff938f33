//! The columns of the table of calls ([`super::Call`]) beside those that all tables have ([`crate::table`]).
//!
//! A row may leave them out: everybody may make the call, and the audit log does not have it. It has every refused view of a job, without a column.

use crate::{AttemptId, JobId};

/// Who may make a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Everybody; of jobs that a user may not view, the answer has outlines.
    Anyone,
    /// Who may view this job.
    Viewer(JobId),
    /// Who may change this job.
    Modifier(JobId),
    /// The administrators of the cluster; a refusal has Hadoop's name of the call.
    Administrator(&'static str),
}

impl By {
    /// The job that the call is about.
    pub fn job(self) -> Option<JobId> {
        match self {
            By::Viewer(job) | By::Modifier(job) => Some(job),
            By::Anyone | By::Administrator(_) => None,
        }
    }
}

/// What the audit log says of a call besides its job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Logged<'a> {
    /// Hadoop's name of the call.
    pub command: &'static str,
    /// Its argument.
    pub argument: Argument<'a>,
}

/// An argument in the audit log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument<'a> {
    /// None.
    Nothing,
    /// A name.
    Name(&'a str),
    /// An attempt.
    Attempt(AttemptId),
}

/// A call without an argument.
pub(super) fn alone(command: &'static str) -> Logged<'static> {
    Logged { command, argument: Argument::Nothing }
}

/// A call with the name of something.
pub(super) fn named<'a>(command: &'static str, name: &'a str) -> Logged<'a> {
    Logged { command, argument: Argument::Name(name) }
}

/// A call about an attempt.
pub(super) fn on(command: &'static str, attempt: AttemptId) -> Logged<'static> {
    Logged { command, argument: Argument::Attempt(attempt) }
}

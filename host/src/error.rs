//! Why a host does not start, and how it ends.

use std::io;

use thiserror::Error;

/// Why a host accepts nothing any more. It is final.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum End {
    /// It was stopped on request.
    #[error("it is stopping")]
    Stopping,
    /// Its log failed. What was not committed may or may not be there after the next start.
    #[error("{reason}")]
    Stopped {
        /// The error of the log and its causes.
        reason: String,
    },
    /// Another process leads: what was not committed here may never have happened.
    #[error("another process leads")]
    Lost,
}

/// Why a host did not start, or did not end as requested.
#[derive(Debug, Error)]
pub enum Failure<D: std::error::Error + 'static> {
    /// Nothing is committed any more. The next start decides what was.
    #[error("the log ended: {0}")]
    Log(End),
    /// A defect of the machine: its state and its log may differ.
    #[error("the machine cannot go on")]
    Machine(#[source] D),
    /// The host's thread cannot be started.
    #[error("cannot start the host's thread")]
    Thread(#[source] io::Error),
    /// The host's thread panicked.
    #[error("the host panicked")]
    Panicked,
}

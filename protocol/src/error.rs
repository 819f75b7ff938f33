//! The answer of a daemon that refuses a call: a stable kind and a sentence for people.

use std::error::Error;

use serde::{Deserialize, Serialize};

/// Why a daemon refused. The order is the wire format: append only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The path does not exist.
    NotFound,
    /// The path exists already.
    AlreadyExists,
    /// A directory where a file is needed.
    IsDirectory,
    /// The path itself is a file where a directory is needed.
    NotDirectory,
    /// A non-empty directory and no `recursive`.
    NotEmpty,
    /// The caller lacks the right.
    PermissionDenied,
    /// The NameNode is in safe mode.
    SafeMode,
    /// The file is open for writing by another client.
    AlreadyBeingCreated,
    /// The writer no longer holds the file's lease.
    LeaseExpired,
    /// A lease recovery is under way; try again.
    RecoveryInProgress,
    /// Not enough DataNodes, or none with room.
    NoDatanodes,
    /// The replicas written so far are not enough; try again.
    NotReplicatedYet,
    /// No replica of a block can be read.
    MissingBlock,
    /// The message breaks a rule.
    InvalidArgument,
    /// A quota or limit is exceeded.
    LimitExceeded,
    /// The daemon is overloaded, starting or stopping; try again.
    Unavailable,
    /// The request's signature is wrong, missing or expired.
    Unauthenticated,
    /// The sender acts for an older epoch or is unknown: register again.
    Fenced,
    /// The job, task or attempt is unknown.
    UnknownJob,
    /// The disk is full or failed.
    Storage,
    /// A defect in the daemon; its log has more.
    Internal,
    /// The NameNode has just started and does not know enough replicas yet; try again.
    StartupSafeMode,
    /// A directory would have more files and directories than its quota.
    NamespaceQuotaExceeded,
    /// A directory would have more bytes than its space quota.
    SpaceQuotaExceeded,
    /// A snapshot is in the way, or is not there.
    Snapshot,
    /// A file lies above the path; the message names it.
    ParentNotDirectory,
    /// A change of what a snapshot holds.
    ReadOnlySnapshot,
    /// A value has more bytes than it may have.
    TooLarge,
    /// A name breaks a rule for names.
    InvalidName,
    /// A name is longer than names may be.
    NameTooLong,
}

impl ErrorKind {
    /// True if the same call may succeed a little later.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            ErrorKind::Unavailable
                | ErrorKind::NotReplicatedYet
                | ErrorKind::RecoveryInProgress
                | ErrorKind::StartupSafeMode
        )
    }
}

/// An error as it is sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RemoteError {
    /// For programs.
    pub kind: ErrorKind,
    /// For people: one line in Hadoop's words where Hadoop has them.
    pub message: String,
}

impl RemoteError {
    /// Joins the two.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        RemoteError { kind, message: message.into() }
    }

    /// Checks that both sides of a conversation mean the same.
    ///
    /// # Errors
    /// A refusal, if the message was made for another version of it.
    pub fn check_version(sent: u16, own: u16) -> Result<(), RemoteError> {
        if sent == own {
            return Ok(());
        }
        let (age, remedy) = match sent < own {
            true => ("older", "install here the version that the daemon has"),
            false => ("newer", "upgrade the daemon, or install here the version that it has"),
        };
        let text = format!(
            "this program is {age} than the daemon that it calls (version {sent} of the protocol, not {own}): {remedy}"
        );
        Err(RemoteError::new(ErrorKind::InvalidArgument, text))
    }
}

/// A daemon answered a call with the answer of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the {daemon} answered something that was not asked for")]
pub struct UnexpectedReply {
    /// Its name.
    pub daemon: &'static str,
}

impl From<UnexpectedReply> for RemoteError {
    fn from(error: UnexpectedReply) -> Self {
        RemoteError::new(ErrorKind::Internal, error.to_string())
    }
}

/// An error and its causes in one line, for people.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_which_side_is_older() {
        assert_eq!(RemoteError::check_version(5, 5), Ok(()));
        for (sent, expected) in [
            (
                4,
                "this program is older than the daemon that it calls (version 4 of the protocol, not 5): install here the version that the daemon has",
            ),
            (
                6,
                "this program is newer than the daemon that it calls (version 6 of the protocol, not 5): upgrade the daemon, or install here the version that it has",
            ),
        ] {
            let refusal = RemoteError::check_version(sent, 5).unwrap_err();
            assert_eq!(
                (refusal.kind, refusal.message.as_str()),
                (ErrorKind::InvalidArgument, expected)
            );
        }
    }
}

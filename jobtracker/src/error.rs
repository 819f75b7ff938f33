//! Why a JobTracker cannot start or continue.

use std::convert::Infallible;
use std::io;

use daemon::ServeError;
use host::Failure;
use journal::JournalError;
use protocol::wire::WireError;

/// A JobTracker that ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting contradicts another.
    #[error("{key} cannot be used: {reason}")]
    Setting {
        /// Its name.
        key: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// The configuration file cannot be used.
    #[error(transparent)]
    Config(#[from] daemon::ConfigError),
    /// The address or the secret cannot be used.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The journal cannot be opened, or stopped.
    #[error("the JobTracker's journal does not work")]
    Journal(#[source] JournalError),
    /// The journal stopped while running; the log has the reason. The supervisor starts the daemon again, and recovery decides.
    #[error("the JobTracker's journal stopped: {reason}")]
    JournalStopped {
        /// The journal's reason.
        reason: String,
    },
    /// A thread of the JobTracker panicked.
    #[error("the JobTracker's loop panicked")]
    HostPanicked,
    /// The NameNode's address is invalid.
    #[error(transparent)]
    Namenode(#[from] transport::RpcError),
    /// The system refused a thread, timer or address.
    #[error("cannot {action}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl From<Failure<Infallible>> for Error {
    fn from(failure: Failure<Infallible>) -> Self {
        match failure {
            Failure::Log(end) => Error::JournalStopped { reason: end.to_string() },
            Failure::Machine(never) => match never {},
            Failure::Thread(source) => Error::System { action: "start the host's thread", source },
            Failure::Panicked => Error::HostPanicked,
        }
    }
}

/// A record of the journal that is not an edit.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    /// A newer program wrote it.
    #[error(
        "an edit has version {version}, which this program does not know: a newer one wrote it"
    )]
    Version {
        /// The record's version.
        version: u8,
    },
    /// It is damaged.
    #[error(transparent)]
    Malformed(WireError),
}

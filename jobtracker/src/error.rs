//! Why a JobTracker cannot start or go on.

use std::io;

use daemon::ServeError;
use journal::JournalError;

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
        /// As the journal told it.
        reason: String,
    },
    /// The NameNode's address is none.
    #[error(transparent)]
    Namenode(#[from] client::RpcError),
    /// The system refused a thread, timer or address.
    #[error("cannot {action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Its answer.
        #[source]
        source: io::Error,
    },
}

//! Why a worker cannot start, and why it cannot run a program.

use std::io;
use std::path::PathBuf;

use daemon::ServeError;
use protocol::BinaryHash;

/// A worker that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid setting.
    #[error("{key} cannot be used: {reason}")]
    Setting {
        /// Its name.
        key: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// The configuration requires full confinement of tasks, and it is impossible.
    #[error("task_sandbox cannot be used: it is `required`, and {lacking}")]
    Walls {
        /// The missing confinement, and why.
        lacking: String,
    },
    /// The address or the secret cannot be used.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A daemon's address is invalid.
    #[error(transparent)]
    Address(#[from] transport::RpcError),
    /// The file system's client cannot be set up.
    #[error(transparent)]
    Dfs(#[from] client::dfs::DfsError),
    /// Another worker runs on the directory, or it is not a worker's.
    #[error("data: {0}")]
    Claim(#[from] sys::fs::claim::ClaimError),
    /// A file or directory cannot be used.
    #[error("cannot {action} {}", path.display())]
    Disk {
        /// The attempted action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The system refused a socket.
    #[error("cannot {action}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Adds the attempted action and its path to an `io::Error`.
pub(crate) fn disk(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> Error {
    let path = path.into();
    move |source| Error::Disk { action, path, source }
}

/// An executable that cannot be obtained.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BinaryError {
    /// The file system did not deliver it.
    #[error("cannot fetch the job's executable {hash}: {reason}")]
    Fetch { hash: BinaryHash, reason: String },
    /// The file system delivered other bytes.
    #[error("the job's executable has hash {found} where {expected} is due")]
    Hash { expected: BinaryHash, found: BinaryHash },
    /// The cache cannot be written.
    #[error("cannot {action} {}", path.display())]
    Disk {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

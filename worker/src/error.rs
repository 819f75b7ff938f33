//! Why a worker cannot start, and why it cannot run something.

use std::io;
use std::path::PathBuf;

use daemon::ServeError;
use protocol::BinaryHash;

/// A worker that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that cannot be.
    #[error("{key} cannot be used: {reason}")]
    Setting {
        /// Its name.
        key: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// Tasks must be held in full, and cannot be.
    #[error("task_sandbox cannot be used: it is `required`, and {lacking}")]
    Walls {
        /// What is not held here, and why.
        lacking: String,
    },
    /// The address or the secret cannot be used.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// An address of a daemon is none.
    #[error(transparent)]
    Address(#[from] client::RpcError),
    /// The file system's client cannot be set up.
    #[error(transparent)]
    Dfs(#[from] client::dfs::DfsError),
    /// Another worker runs on the directory.
    #[error(transparent)]
    Locked(#[from] sys::fs::LockError),
    /// A file or directory cannot be used.
    #[error("cannot {action} {}", path.display())]
    Disk {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The system refused a socket.
    #[error("cannot {action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Its answer.
        #[source]
        source: io::Error,
    },
}

/// Adds what was tried, and on what, to an `io::Error`.
pub(crate) fn disk(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> Error {
    let path = path.into();
    move |source| Error::Disk { action, path, source }
}

/// An executable that cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BinaryError {
    /// The file system did not give it.
    #[error("cannot fetch the job's executable {hash}: {reason}")]
    Fetch { hash: BinaryHash, reason: String },
    /// What the file system gave is something else.
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

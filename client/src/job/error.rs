//! What can go wrong between a driver and the JobTracker.

use std::path::PathBuf;

use protocol::{DfsPath, ErrorKind};

use transport::RpcError;

/// A call about jobs without a usable answer.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// No JobTracker is configured.
    #[error("no JobTracker is configured: set HANNO_JOBTRACKER")]
    NoJobtracker,
    /// The JobTracker refused or could not be reached.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The executable cannot be read.
    #[error("cannot read the executable {}", path.display())]
    Executable {
        /// Its path.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The executable cannot be stored in the file system.
    #[error("cannot upload the executable to {path}")]
    Upload {
        /// Its destination.
        path: DfsPath,
        /// Cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl JobError {
    /// The JobTracker's reason if it refused.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            JobError::Rpc(error) => error.kind(),
            _ => None,
        }
    }

    /// The HTTP status if a page was refused.
    pub fn status(&self) -> Option<u16> {
        match self {
            JobError::Rpc(RpcError::Status { status, .. }) => Some(*status),
            _ => None,
        }
    }
}

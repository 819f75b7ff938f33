//! What can go wrong between a driver and the JobTracker.

use std::path::PathBuf;

use protocol::{DfsPath, ErrorKind, PathError};

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
    /// What stands where a file of the job belongs is another one, or somebody else's.
    #[error(
        "{path} is not what a job would have stored there: whoever owns it, or the superuser, must delete it first"
    )]
    Taken {
        /// Its path.
        path: DfsPath,
    },
    /// The user's name makes no path.
    #[error("the user's name cannot be the name of a directory")]
    Name(#[source] PathError),
    /// The executable or another file of the job cannot be stored in the file system.
    #[error("cannot upload to {path}")]
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

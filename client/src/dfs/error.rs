//! What can go wrong with files.

use std::io;

use protocol::error::UnexpectedReply;
use protocol::{BlockId, DfsPath, ErrorKind, PathError};

use transport::RpcError;
use transport::TransferFailure;

/// A file system operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum DfsError {
    /// No NameNode is configured.
    #[error(
        "no NameNode is configured: set HANNO_NAMENODE=http://host:port or `namenode` in hanno.toml"
    )]
    NoNamenode,
    /// The NameNode refused or cannot be reached.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// Not a path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// An answer to something else.
    #[error("the NameNode answered something that was not asked for")]
    Unexpected,
    /// A directory where a file is needed.
    #[error("{path} is a directory")]
    IsDirectory {
        /// The path.
        path: DfsPath,
    },
    /// A block could not be written, whatever was tried.
    #[error("cannot write block blk_{block} of {path}: {}", protocol::error::chain(failure))]
    Write {
        /// The file.
        path: DfsPath,
        /// The block.
        block: BlockId,
        /// The last failure; the message tells its causes.
        failure: MemberFailure,
    },
    /// No replica of a block can be read.
    #[error(
        "cannot read block blk_{block} of {path} at offset {offset}: no replica can be reached ({reason})"
    )]
    Unreachable {
        /// The file.
        path: DfsPath,
        /// The block.
        block: BlockId,
        /// Offset in the file.
        offset: u64,
        /// The last replica's failure, or that there is none.
        reason: String,
    },
    /// Every replica of a block is damaged at the same place.
    #[error("block blk_{block} of {path} is corrupt at offset {offset} on every replica")]
    Corrupt {
        /// The file.
        path: DfsPath,
        /// The block.
        block: BlockId,
        /// Offset in the file of the first byte that is lost.
        offset: u64,
    },
    /// The file is shorter than when it was opened.
    #[error("{path} ended at offset {offset}, before its length")]
    Short {
        /// The file.
        path: DfsPath,
        /// Offset in the file.
        offset: u64,
    },
    /// The writer has failed before or was closed.
    #[error("{path} is not open for writing any more")]
    Closed {
        /// The file.
        path: DfsPath,
    },
}

/// Why a member of a pipeline was given up.
#[derive(Debug, thiserror::Error)]
pub enum MemberFailure {
    /// The conversation with it failed.
    #[error(transparent)]
    Transfer(#[from] TransferFailure),
    /// It works, but holds up everybody else.
    #[error("DataNode is much slower than the others of its pipeline")]
    Slow,
}

impl DfsError {
    /// The NameNode's reason if it refused.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            DfsError::Rpc(error) => error.kind(),
            DfsError::IsDirectory { .. } => Some(ErrorKind::IsDirectory),
            _ => None,
        }
    }
}

impl From<UnexpectedReply> for DfsError {
    fn from(_: UnexpectedReply) -> Self {
        DfsError::Unexpected
    }
}

impl From<DfsError> for io::Error {
    fn from(error: DfsError) -> Self {
        let kind = match error.kind() {
            Some(ErrorKind::NotFound) => io::ErrorKind::NotFound,
            Some(ErrorKind::AlreadyExists) => io::ErrorKind::AlreadyExists,
            Some(ErrorKind::PermissionDenied) => io::ErrorKind::PermissionDenied,
            _ => match error {
                DfsError::Corrupt { .. } => io::ErrorKind::InvalidData,
                DfsError::Short { .. } => io::ErrorKind::UnexpectedEof,
                _ => io::ErrorKind::Other,
            },
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use transport::Silent;

    use super::*;

    #[test]
    fn the_failure_of_a_write_is_told_once() {
        let silent = Silent { peer: "DataNode d:1".to_owned(), limit: Duration::from_secs(60) };
        let path = DfsPath::parse("/f").unwrap();
        let failure = TransferFailure::from(io::Error::new(io::ErrorKind::TimedOut, silent));
        let error = DfsError::Write { path, block: BlockId(7), failure: failure.into() };
        assert_eq!(
            protocol::error::chain(&error),
            "cannot write block blk_7 of /f: DataNode d:1 did not answer within 60 s"
        );
    }
}

//! What can go wrong in a DataNode.

use std::io;
use std::path::PathBuf;

use daemon::ServeError;
use protocol::BlockId;
use protocol::meta::MetaError;
use protocol::token::TokenError;
use protocol::transfer::Status;
use protocol::{ErrorKind, RemoteError};
use sys::fs::claim::ClaimError;
use transport::RpcError;
use transport::TransferFailure;

use crate::core::replica::Refusal;

/// Why a DataNode cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration contradicts itself.
    #[error("configuration: {key} {reason}")]
    Config {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Two data directories are one.
    #[error(
        "configuration: data_directories names one directory twice, as {first} and as {again}: name it once"
    )]
    SameDirectory {
        /// Its first name.
        first: String,
        /// Its other name.
        again: String,
    },
    /// The services cannot be started.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// WebHDFS cannot be offered.
    #[error("cannot offer WebHDFS")]
    Web {
        /// Cause.
        #[source]
        source: client::dfs::DfsError,
    },
    /// A data directory is in use, or not a DataNode's.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// Nobody can say whose blocks a data directory holds.
    #[error("data directory {}: the VERSION file is damaged", path.display())]
    DamagedVersion {
        /// The directory.
        path: PathBuf,
    },
    /// A data directory cannot be used.
    #[error("data directory {}: {reason}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A disk operation failed at start.
    #[error("cannot use {}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The NameNode cannot be called at all.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The NameNode will never accept this DataNode.
    #[error("NameNode refuses this DataNode: {0}")]
    Refused(RemoteError),
    /// All data directories have failed.
    #[error("all data directories have failed")]
    NoVolumes,
}

/// Why the store cannot carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No such replica.
    #[error("block {0} has no replica here under that generation stamp")]
    NotFound(BlockId),
    /// Its file existed, and somebody has deleted it.
    #[error("block {0}: its file is gone from the disk")]
    Vanished(BlockId),
    /// The process or the machine lacks the resources to open or read a file; this is no fault of the disk.
    #[error("block {block}: out of descriptors or memory")]
    Shortage {
        /// The block.
        block: BlockId,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The replica's state does not permit it.
    #[error("block {block}: {refusal}")]
    Refused {
        /// The block.
        block: BlockId,
        /// Why.
        refusal: Refusal,
    },
    /// Its present writer does not stop.
    #[error("block {0} is held by a writer that does not stop")]
    WriterStuck(BlockId),
    /// No volume has room.
    #[error("no data directory has room")]
    Full,
    /// The disk failed.
    #[error("block {block}: disk failed")]
    Io {
        /// The block.
        block: BlockId,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// Block and checksums disagree.
    #[error("block {block} is corrupt at offset {offset}")]
    Corrupt {
        /// The block.
        block: BlockId,
        /// Start of the chunk with the first bad byte.
        offset: u64,
    },
    /// Its meta file cannot be used.
    #[error("block {block}: {source}")]
    Meta {
        /// The block.
        block: BlockId,
        /// Cause.
        #[source]
        source: MetaError,
    },
    /// A packet that does not continue the replica.
    #[error("block {block}: data for offset {offset} where {length} bytes are there")]
    Gap {
        /// The block.
        block: BlockId,
        /// Where the packet begins.
        offset: u64,
        /// Bytes in the replica.
        length: u64,
    },
    /// A packet that repeats complete bytes otherwise.
    #[error("block {block}: data for offset {offset} differs from what is complete")]
    Differs {
        /// The block.
        block: BlockId,
        /// Where the packet begins.
        offset: u64,
    },
    /// An earlier write of this writer failed.
    #[error("block {0}: an earlier write failed")]
    Broken(BlockId),
}

impl StoreError {
    /// Puts an error of the disk in context.
    pub fn io(block: BlockId, source: io::Error) -> Self {
        if sys::fs::is_full(&source) {
            StoreError::Full
        } else if sys::fs::is_shortage(&source) {
            StoreError::Shortage { block, source }
        } else {
            StoreError::Io { block, source }
        }
    }

    /// The status that a pipeline member reports for it.
    pub fn status(&self) -> Status {
        match self {
            StoreError::Full => Status::Full,
            StoreError::NotFound(_) | StoreError::Refused { .. } | StoreError::WriterStuck(_) => {
                Status::Refused
            }
            StoreError::Vanished(_)
            | StoreError::Shortage { .. }
            | StoreError::Io { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Meta { .. }
            | StoreError::Gap { .. }
            | StoreError::Differs { .. }
            | StoreError::Broken(_) => Status::Failed,
        }
    }

    /// True if the replica itself is damaged or unreadable.
    pub fn is_bad_replica(&self) -> bool {
        matches!(self, StoreError::Io { .. } | StoreError::Corrupt { .. } | StoreError::Meta { .. })
    }

    /// True if the disk failed to return what may be there.
    pub fn is_failed_read(&self) -> bool {
        use std::io::ErrorKind::{NotFound, UnexpectedEof};
        matches!(self, StoreError::Io { source, .. } if !matches!(source.kind(), NotFound | UnexpectedEof))
    }

    fn kind(&self) -> ErrorKind {
        match self {
            StoreError::NotFound(_) | StoreError::Vanished(_) => ErrorKind::NotFound,
            StoreError::Shortage { .. } => ErrorKind::Unavailable,
            StoreError::Refused { refusal: Refusal::Exists, .. } => ErrorKind::AlreadyExists,
            StoreError::Refused { .. } | StoreError::WriterStuck(_) => {
                ErrorKind::RecoveryInProgress
            }
            StoreError::Gap { .. } | StoreError::Differs { .. } => ErrorKind::InvalidArgument,
            StoreError::Full
            | StoreError::Io { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Meta { .. }
            | StoreError::Broken(_) => ErrorKind::Storage,
        }
    }
}

/// Why an operation of a peer is not carried out.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// Its token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The connection that it arrived on, or one to another DataNode.
    #[error(transparent)]
    Transfer(#[from] TransferFailure),
    /// Too many transfers run.
    #[error("too many transfers, at most {max}")]
    Busy {
        /// The limit.
        max: usize,
    },
    /// As many transfers of this user run as may beside those of others.
    #[error("too many transfers of one user: {max} at most, and fewer while others need some")]
    Share {
        /// What one user gets where nobody else has any.
        max: usize,
    },
    /// An invalid request.
    #[error("invalid request: {0}")]
    Invalid(&'static str),
}

impl OperationError {
    /// The error as sent to the peer.
    pub fn to_remote(&self) -> RemoteError {
        let kind = match self {
            OperationError::Token(_) => ErrorKind::Unauthenticated,
            OperationError::Store(error) => error.kind(),
            OperationError::Transfer(_)
            | OperationError::Busy { .. }
            | OperationError::Share { .. } => ErrorKind::Unavailable,
            OperationError::Invalid(_) => ErrorKind::InvalidArgument,
        };
        RemoteError::new(kind, protocol::error::chain(self))
    }
}

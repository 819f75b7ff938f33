//! The errors of conversations with DataNodes.

use std::io;

use protocol::RemoteError;
use protocol::checksum::ChecksumError;
use protocol::frame::FrameError;
use protocol::transfer::TransferError;

/// Why an operation with a DataNode failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferFailure {
    /// No connection.
    #[error("cannot connect to DataNode {address}")]
    Connect {
        /// The address.
        address: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// Something else listens in its place.
    #[error("what listens at {address} is not the DataNode that should be there")]
    Impostor {
        /// The address.
        address: String,
    },
    /// The connection broke or a timeout passed.
    #[error("connection to the DataNode failed")]
    Io(#[from] io::Error),
    /// A message could not be read.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A packet or ack breaks the rules.
    #[error(transparent)]
    Malformed(#[from] TransferError),
    /// Data does not match its checksums.
    #[error(transparent)]
    Checksum(#[from] ChecksumError),
    /// The DataNode refused.
    #[error("DataNode refused: {0}")]
    Remote(#[from] RemoteError),
    /// It works, but holds up everybody else.
    #[error("DataNode is much slower than the others of its pipeline")]
    Slow,
    /// An answer to something else, or data that was not asked for.
    #[error("DataNode answered something that was not asked for")]
    Unexpected,
}

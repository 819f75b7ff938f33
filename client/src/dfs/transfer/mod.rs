//! One side of the block transfer conversation ([`protocol::transfer`]): connections that carry operations one after the
//! other, packets in reused buffers, idle connections kept per DataNode. Used by clients and by DataNodes among themselves.

mod connection;
mod packet;
mod pool;
mod stream;

use std::io;
use std::time::Duration;

use protocol::RemoteError;
use protocol::checksum::ChecksumError;
use protocol::frame::FrameError;
use protocol::transfer::TransferError;

pub use connection::{Asked, Connection};
pub use packet::{Packet, PacketPool, PooledPacket};
pub use pool::ConnectionPool;
pub(crate) use stream::Local;
pub use stream::Stream;

/// Time limits for a peer.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// To establish a connection.
    pub connect: Duration,
    /// For a read or write to make progress; also limits how long a pipeline can take to sync the end of a block.
    pub io: Duration,
    /// How long an idle connection is kept. Shorter than the server's limit, so a connection is rarely lost in use.
    pub idle: Duration,
}

impl Default for Timeouts {
    /// 5 s to connect on a local network; 60 s for progress as HDFS; 20 s idle.
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(5),
            io: Duration::from_secs(60),
            idle: Duration::from_secs(20),
        }
    }
}

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

//! How bytes get from one process to another: signed calls to daemons ([`rpc`]), plain
//! requests that follow a redirect ([`web`]), and streams of blocks.
//!
//! What leaves the machine is encrypted: calls and requests ([`rpc`]), streams to DataNodes.
//!
//! The streams are one side of the block transfer conversation ([`protocol::transfer`]): connections over TCP or a Unix socket that carry operations one after
//! the other, packets in reused buffers, idle connections kept per DataNode, and the listeners at the other end. Clients use them, and DataNodes among
//! themselves.
//!
//! Nothing above this crate makes a connection, touches a socket's descriptor or knows whether bytes are encrypted.

mod connection;
mod error;
mod listener;
mod packet;
mod pipe;
mod pool;
pub mod rpc;
mod secure;
mod stream;
mod wait;
pub mod web;

use std::time::Duration;

pub use connection::{Asked, Connection, Ready, wait_for_any};
pub use error::{RpcError, Silent, TransferFailure};
pub use listener::{Listener, Origin};
pub use packet::{Packet, PacketPool, PooledPacket};
pub use pipe::Pipe;
pub use pool::ConnectionPool;
pub use stream::{Local, Stream};

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

/// A member of a pipeline waits longer by this part of its time for each member behind it, as in HDFS (5 s of 60 s): whoever is nearest to one that hangs gives up
/// first, and says who it is, before those in front of it take their neighbour for it.
const PIPELINE_PART: u32 = 12;

/// How long a part of a pipeline waits for `members` behind it, if one without any waits for `io`.
pub fn behind_timeout(io: Duration, members: usize) -> Duration {
    let members = u32::try_from(members).unwrap_or(u32::MAX);
    io.saturating_add((io / PIPELINE_PART).saturating_mul(members))
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

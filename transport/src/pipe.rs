//! The way to the next member of a pipeline: for a client the first one, for a DataNode the one behind it.
//!
//! Invariants: the operation leaves with the first packet, so a small block takes one message; its answer is read before the first ack. Whoever waits at it waits
//! longer than the members behind.

use std::time::Duration;

use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::transfer::{Ack, MoreBlock, Operation, Reply, Write, WriteMany};
use protocol::{BlockId, GenerationStamp};

use crate::{Connection, ConnectionPool, Packet, TransferFailure, behind_timeout};

/// See the module.
#[derive(Debug)]
pub struct Pipe {
    connection: Connection,
    /// The operation's frame, until it is sent.
    before: Vec<u8>,
    is_answered: bool,
    /// For other uses of the connection.
    timeout: Duration,
}

impl Pipe {
    /// Connects; the operation, which `token` permits, waits for the first packet.
    ///
    /// # Errors
    /// [`TransferFailure`]: the DataNode cannot be reached, or does not prove who it is.
    pub fn open(
        pool: &ConnectionPool,
        target: &DatanodeInfo,
        token: &BlockToken,
        write: Write,
    ) -> Result<Self, TransferFailure> {
        let mut connection = pool.take(target, (write.block, write.stamp, token))?;
        let members = write.pipeline.len();
        let before = connection.sealed(&Operation::Write(write), token);
        Pipe::with(connection, before, (pool, members))
    }

    /// Connects for several new blocks, whose packets follow in the order of `writes`. All go the same way, which the first names; each has its own token.
    ///
    /// # Errors
    /// As [`Pipe::open`].
    pub fn open_many(
        pool: &ConnectionPool,
        target: &DatanodeInfo,
        (first, token): (Write, &BlockToken),
        more: &[(BlockId, GenerationStamp, BlockToken)],
    ) -> Result<Self, TransferFailure> {
        let mut connection = pool.take(target, (first.block, first.stamp, token))?;
        let members = first.pipeline.len();
        let more = more.iter().map(|(block, stamp, token)| {
            let permit = connection.permit(token, *block, *stamp)?;
            Some(MoreBlock { block: *block, stamp: *stamp, token: token.name, permit })
        });
        let more = more.collect::<Option<_>>().ok_or(TransferFailure::Unexpected)?;
        let before = connection.sealed(&Operation::WriteMany(WriteMany { first, more }), token);
        Pipe::with(connection, before, (pool, members))
    }

    /// To a target with so many members behind it.
    fn with(
        connection: Connection,
        before: Vec<u8>,
        (pool, members): (&ConnectionPool, usize),
    ) -> Result<Self, TransferFailure> {
        let timeout = pool.timeouts().io;
        connection.stream().set_timeouts(behind_timeout(timeout, members + 1))?;
        Ok(Pipe { connection, before, is_answered: false, timeout })
    }

    /// Sends a packet; returns how long the member kept it waiting.
    ///
    /// # Errors
    /// [`TransferFailure`]; the member may have said why before ([`Pipe::take_answer`], [`Pipe::take_ack`]).
    pub fn send(&mut self, packet: &Packet) -> Result<Duration, TransferFailure> {
        let waited = self.connection.send_packet(&self.before, packet)?;
        self.before = Vec::new();
        Ok(waited)
    }

    /// Waits until the member has taken the operation, unless it is known.
    ///
    /// # Errors
    /// [`TransferFailure`], of a member that refuses it [`TransferFailure::Remote`].
    pub fn take_answer(&mut self) -> Result<(), TransferFailure> {
        if !self.is_answered {
            match self.connection.read_answer()? {
                Reply::Writing => self.is_answered = true,
                _ => return Err(TransferFailure::Unexpected),
            }
        }
        Ok(())
    }

    /// Waits for the next ack.
    ///
    /// # Errors
    /// As [`Pipe::take_answer`].
    pub fn take_ack(&mut self) -> Result<Ack, TransferFailure> {
        self.take_answer()?;
        self.connection.read_ack()
    }

    /// To wait for what comes.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The connection, on which nothing is in transit any more.
    pub fn into_connection(self) -> Connection {
        // One whose time cannot be set has failed, which its next use notices.
        let _ = self.connection.stream().set_timeouts(self.timeout);
        self.connection
    }
}

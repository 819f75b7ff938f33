//! [`Pipe`]: the connection to the first member of a pipeline.

use std::time::Duration;

use protocol::namenode::{DatanodeInfo, LocatedBlock};
use protocol::transfer::{Ack, Operation, Reply};

use transport::{Connection, ConnectionPool, Packet, TransferFailure};

/// See the module.
#[derive(Debug)]
pub(super) struct Pipe {
    connection: Connection,
    /// The operation's frame, until it is sent with the first packet.
    before: Vec<u8>,
    answered: bool,
}

impl Pipe {
    pub(super) fn open(
        datanodes: &ConnectionPool,
        first: &DatanodeInfo,
        block: &LocatedBlock,
        operation: &Operation,
    ) -> Result<Self, TransferFailure> {
        let mut connection = datanodes.take(first, block.permit())?;
        let before = connection.sealed(operation, &block.token);
        Ok(Pipe { connection, before, answered: false })
    }

    /// Sends a packet; returns how long the member kept it waiting.
    pub(super) fn send(&mut self, packet: &Packet) -> Result<Duration, TransferFailure> {
        let waited = self.connection.send_packet(&self.before, packet)?;
        self.before = Vec::new();
        Ok(waited)
    }

    /// Takes an ack, and returns how long it waited for it; without waiting, `None` if none has arrived.
    pub(super) fn take_ack(
        &mut self,
        waits: bool,
    ) -> Result<Option<(Ack, Duration)>, TransferFailure> {
        let waited = match waits {
            true => self.connection.wait_readable()?,
            false if self.connection.is_readable() => Duration::ZERO,
            false => return Ok(None),
        };
        if !self.answered {
            match self.connection.read_answer()? {
                Reply::Writing => self.answered = true,
                _ => return Err(TransferFailure::Unexpected),
            }
        }
        Ok(Some((self.connection.read_ack()?, waited)))
    }

    /// The connection, on which nothing is in transit any more.
    pub(super) fn into_connection(self) -> Connection {
        self.connection
    }
}

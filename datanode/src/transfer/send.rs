//! Sending replicas to other DataNodes, as [`core::copy`](crate::core::copy) decides. Data is verified here before it is sent, so corruption does not spread.

use protocol::meta::Layout;
use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::transfer::PACKET_DATA_BYTES;
use protocol::{ErrorKind, RemoteError};
use transport::{Packet, Pipe, TransferFailure};

use super::{Service, serve};
use crate::core::copy::{Failure, Order, Piece, Source, Step, Unfit};
use crate::core::replica::Replica;
use crate::error::{OperationError, StoreError};
use crate::store::{OpenReplica, Store};

/// The replica that is sent.
#[derive(Debug)]
pub struct OpenSource {
    replica: OpenReplica,
    layout: Layout,
}

impl OpenSource {
    /// Opens it, and checks the header of its checksums.
    ///
    /// # Errors
    /// [`StoreError`]; a replica that its disk does not return has been reported.
    pub fn open(store: &Store, source: Source) -> Result<Self, StoreError> {
        let replica = match source {
            Source::Stamped(block, stamp) => store.open_replica(block, stamp)?,
            Source::Stopped(block, stamps) => store.open_stopped(block, stamps)?,
        };
        let layout = serve::check_meta(store, &replica)?;
        Ok(OpenSource { replica, layout })
    }

    /// What was opened.
    pub fn replica(&self) -> &Replica {
        &self.replica.replica
    }

    /// Reads a packet, verifying whole chunks of the replica; a truncated chunk gets a new checksum.
    ///
    /// # Errors
    /// [`StoreError`]; a bad replica has been reported.
    pub fn read(
        &self,
        store: &Store,
        Piece { header, read }: Piece,
        packet: &mut Packet,
    ) -> Result<(), StoreError> {
        let replica = self.replica();
        packet.reset(read);
        let filled = serve::fill(&self.replica, self.layout, packet).and_then(|()| {
            packet.verify().map_err(|error| StoreError::Corrupt {
                block: replica.block,
                offset: header.offset + error.offset,
            })
        });
        filled.inspect_err(|error| store.note_unread(replica, error))?;
        if read.data_bytes != header.data_bytes {
            packet.header = header;
            packet.seal();
        }
        Ok(())
    }
}

impl Service {
    /// Sends what is ordered to `targets` through a pipeline; at the balancer's rate if it is for the balancer. Blocks until all of them have it.
    ///
    /// # Errors
    /// [`OperationError`]; a source that turns out to be bad has been reported.
    pub fn send(
        &self,
        order: &Order,
        targets: &[DatanodeInfo],
        (token, balancing): (&BlockToken, bool),
    ) -> Result<(), OperationError> {
        let source = OpenSource::open(&self.store, order.source())?;
        let mut copying = order.begin(source.replica(), PACKET_DATA_BYTES as u64)?;
        let [first, behind @ ..] = targets else { return Ok(()) };
        let mut pipe = Pipe::open(&self.peers, first, token, order.write(behind, token.name))?;
        let mut packet = self.packets.take();
        loop {
            match copying.next_step() {
                Step::Send(piece) => match source.read(&self.store, piece, &mut packet) {
                    Ok(()) => {
                        if balancing {
                            self.balancing.pace(u64::from(piece.header.data_bytes));
                        }
                        let sent = pipe.send(&packet);
                        if sent.is_ok() {
                            self.traffic.note_sent(piece.header.data_bytes);
                        }
                        copying.sent(sent.map(drop).map_err(OperationError::from));
                    }
                    Err(error) => copying.unread(error.into()),
                },
                Step::TakeAck => copying.acked(pipe.take_ack().map_err(OperationError::from)),
                Step::Done(Ok(())) => {
                    self.peers.give_back(first, pipe.into_connection());
                    return Ok(());
                }
                Step::Done(Err(failure)) => return Err(failure.into()),
            }
        }
    }
}

impl From<Unfit> for OperationError {
    fn from(Unfit(reason): Unfit) -> Self {
        OperationError::Invalid(reason)
    }
}

impl From<Failure<OperationError>> for OperationError {
    fn from(failure: Failure<OperationError>) -> Self {
        match failure {
            Failure::Fault(error) => error,
            Failure::Refused(member, status) => {
                let message =
                    format!("member {member} of the pipeline could not write: {status:?}");
                TransferFailure::Remote(RemoteError::new(ErrorKind::Storage, message)).into()
            }
        }
    }
}

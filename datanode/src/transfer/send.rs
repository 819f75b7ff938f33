//! Sending replicas to other DataNodes: whole ones on the NameNode's orders, prefixes to new members of a pipeline. Data is verified here before it is sent, so
//! corruption does not spread.

use std::ops::Range;
use std::sync::Arc;

use protocol::checksum::CHUNK_BYTES;
use protocol::meta::Layout;
use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::transfer::{PACKET_DATA_BYTES, PacketHeader, Resume, Status, Write};
use protocol::{BlockId, ClientId, ErrorKind, GenerationStamp};
use transport::{Packet, Pipe, TransferFailure};

use super::part::{Cut, Prefix, Rest};
use super::{Service, serve};
use crate::error::{OperationError, StoreError};
use crate::store::OpenReplica;

/// Packets sent ahead of their acks.
const WINDOW: u32 = 4;

/// Copies a finalized replica to `targets` through a pipeline; all of them sync it. Blocks.
///
/// # Errors
/// [`OperationError`]; a replica that turns out to be bad has been reported.
pub fn replicate(
    service: &Arc<Service>,
    block: BlockId,
    stamp: GenerationStamp,
    targets: &[DatanodeInfo],
    (token, balancing): (BlockToken, bool),
) -> Result<(), OperationError> {
    let replica = service.store.open_replica(block, stamp)?;
    if !replica.replica.is_finalized() {
        return Err(OperationError::Invalid("only finalized replicas are copied"));
    }
    let [first, rest @ ..] = targets else { return Ok(()) };
    let write = write_to(rest, block, stamp, &token);
    service.send(&replica, first, (write, &token), (0..replica.replica.length, balancing))
}

/// Creates the block on `targets` through a pipeline; all of them sync it. Blocks.
///
/// # Errors
/// [`OperationError`]; a source that turns out to be bad has been reported.
pub fn cut(
    service: &Arc<Service>,
    cut: &Cut,
    targets: &[DatanodeInfo],
    token: BlockToken,
) -> Result<(), OperationError> {
    let replica = service.store.open_replica(cut.source, cut.source_stamp)?;
    if !replica.replica.is_finalized() || replica.replica.length < cut.length {
        return Err(OperationError::Invalid("only what a finalized replica has can be copied"));
    }
    let [first, rest @ ..] = targets else { return Ok(()) };
    let write = write_to(rest, cut.block, cut.stamp, &token);
    service.send(&replica, first, (write, &token), (0..cut.length, false))
}

impl Service {
    pub(super) fn send_prefix(
        &self,
        prefix: &Prefix,
        target: &DatanodeInfo,
        token: BlockToken,
    ) -> Result<(), OperationError> {
        let &Prefix { block, prior, stamp, length } = prefix;
        let replica = self.store.open_stopped(block, prior..=stamp)?;
        if replica.replica.length < length {
            return Err(OperationError::Invalid("the replica is shorter than the prefix wanted"));
        }
        let write = Write { prefix_only: true, durable: 0, ..write_to(&[], block, stamp, &token) };
        self.send(&replica, target, (write, &token), (0..length, false))
    }

    /// Sends a member of a recovery the bytes it lacks; the member finalizes its replica on disk.
    pub(super) fn send_rest(
        &self,
        rest: &Rest,
        target: &DatanodeInfo,
        token: BlockToken,
    ) -> Result<(), OperationError> {
        let &Rest { block, prior, stamp, offset } = rest;
        let replica = self.store.open_replica(block, stamp)?;
        let length = replica.replica.length;
        if !replica.replica.is_finalized() || offset >= length {
            return Err(OperationError::Invalid("only what a finalized replica has can be sent"));
        }
        let resume = Some(Resume { prior, offset, after_break: true });
        let write = Write { resume, ..write_to(&[], block, stamp, &token) };
        // Packets begin at chunk boundaries.
        let begin = offset - offset % CHUNK_BYTES as u64;
        self.send(&replica, target, (write, &token), (begin..length, false))
    }

    /// Sends these bytes, up to the end of the write, and waits until everyone has them; at the balancer's rate if they are for the balancer.
    fn send(
        &self,
        replica: &OpenReplica,
        target: &DatanodeInfo,
        (write, token): (Write, &BlockToken),
        (range, balancing): (Range<u64>, bool),
    ) -> Result<(), OperationError> {
        let layout = serve::check_meta(&self.store, replica)?;
        let mut pipe = Pipe::open(&self.peers, target, token, write)?;
        let mut packet = self.packets.take();
        let (mut sequence, mut acked, mut at, length) = (0, 0, range.start, range.end);
        loop {
            let data_bytes = (length - at).min(PACKET_DATA_BYTES as u64);
            let last = at + data_bytes == length;
            let header = PacketHeader {
                data_bytes: data_bytes as u32,
                sequence,
                offset: at,
                last,
                sync: false,
            };
            self.fill_verified((replica, layout), &mut packet, header)?;
            if balancing {
                self.balancing.pace(data_bytes);
            }
            let sent = pipe.send(&packet);
            sequence += 1;
            while sent.is_err() || sequence - acked >= WINDOW || (last && acked < sequence) {
                take_ack(&mut pipe, acked)?;
                acked += 1;
            }
            if last {
                self.peers.give_back(target, pipe.into_connection());
                return Ok(());
            }
            at += data_bytes;
        }
    }

    /// Reads the packet that `header` describes, verifying whole chunks of the replica; a truncated chunk gets a new checksum.
    fn fill_verified(
        &self,
        (replica, layout): (&OpenReplica, Layout),
        packet: &mut Packet,
        header: PacketHeader,
    ) -> Result<(), StoreError> {
        let id = replica.replica.block;
        let whole_end =
            header.end().next_multiple_of(CHUNK_BYTES as u64).min(replica.replica.length);
        let whole = PacketHeader { data_bytes: (whole_end - header.offset) as u32, ..header };
        packet.reset(whole);
        let filled = serve::fill(replica, layout, packet).and_then(|()| {
            packet.verify().map_err(|error| StoreError::Corrupt {
                block: id,
                offset: header.offset + error.offset,
            })
        });
        filled.inspect_err(|error| self.store.note_unread(&replica.replica, error))?;
        if whole.data_bytes != header.data_bytes {
            packet.header = header;
            packet.seal();
        }
        Ok(())
    }
}

/// A new replica on the receiver and on the `rest` of a pipeline; all of them sync it.
fn write_to(
    rest: &[DatanodeInfo],
    block: BlockId,
    stamp: GenerationStamp,
    token: &BlockToken,
) -> Write {
    Write {
        block,
        stamp,
        token: token.name,
        client: ClientId::default(),
        resume: None,
        prefix_only: false,
        pipeline: rest.to_vec(),
        durable: u16::try_from(rest.len() + 1).unwrap_or(u16::MAX),
        cached: false,
    }
}

fn take_ack(pipe: &mut Pipe, expected: u32) -> Result<(), TransferFailure> {
    let ack = pipe.take_ack()?;
    if ack.sequence == expected && ack.failure().is_none() {
        return Ok(());
    }
    let (at, status) = ack.failure().unwrap_or((0, Status::Failed));
    let message = format!("member {at} of the pipeline could not write: {status:?}");
    Err(TransferFailure::Remote(protocol::RemoteError::new(ErrorKind::Storage, message)))
}

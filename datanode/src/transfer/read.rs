//! Serving replicas: packets with checksums for any reader, descriptors for readers on this machine.

use protocol::checksum::{self, CHUNK_BYTES, CRC_BYTES};
use protocol::frame;
use protocol::meta::Layout;
use protocol::transfer::{Answer, PACKET_DATA_BYTES, PacketHeader, Read, Reply};
use protocol::{BlockId, GenerationStamp};
use transport::{Connection, Packet};

use super::{After, Service};
use crate::error::{OperationError, StoreError};
use crate::store::OpenReplica;

impl Service {
    pub(super) fn read(
        &self,
        connection: &mut Connection,
        read: &Read,
    ) -> Result<After, OperationError> {
        let replica = self.store.open_at_least(read.block, read.stamp)?;
        let layout = self.check_meta(&replica)?;
        let length = replica.replica.length;
        let wanted_end = read.offset.saturating_add(read.length).min(length);
        let end = wanted_end.next_multiple_of(CHUNK_BYTES as u64).min(length);
        let mut at = read.offset.min(length) / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
        let answer: Answer = Ok(Reply::Reading { length });
        let mut before = frame::encode(&answer);
        let mut packet = self.packets.take();
        let mut sequence = 0;
        loop {
            let data_bytes = end.saturating_sub(at).min(PACKET_DATA_BYTES as u64);
            let last = at + data_bytes >= end;
            packet.reset(PacketHeader {
                data_bytes: data_bytes as u32,
                sequence,
                offset: at,
                last,
                sync: false,
            });
            if let Err(error) = fill(&replica, layout, &mut packet) {
                self.note_bad(&replica, &error);
                // There is no room for an answer within a stream: the reader sees it end.
                return if sequence == 0 { Err(error.into()) } else { Ok(After::Close) };
            }
            if replica.is_tail_open {
                seal_tail(&mut packet);
            }
            connection.send_packet(&before, &packet)?;
            if last {
                return Ok(After::Keep);
            }
            before.clear();
            at += data_bytes;
            sequence += 1;
        }
    }

    pub(super) fn pass_descriptors(
        &self,
        connection: &mut Connection,
        block: BlockId,
        stamp: GenerationStamp,
    ) -> Result<After, OperationError> {
        let opened = self.store.open_at_least(block, stamp).map_err(OperationError::from);
        let usable = opened.and_then(|replica| {
            if !replica.replica.is_finalized() {
                return Err(OperationError::Invalid("only finalized replicas may be mapped"));
            }
            self.check_meta(&replica)?;
            Ok(replica)
        });
        let usable = usable.and_then(|replica| match connection.passes_files() {
            true => Ok(replica),
            false => Err(OperationError::Invalid("descriptors need a Unix socket")),
        });
        let replica = match usable {
            Ok(replica) => replica,
            Err(error) => return self.answer(connection, Err(error)),
        };
        let length = replica.replica.length;
        let files = replica.block.real().and_then(|data| Ok([data, replica.meta.real()?]));
        match files {
            Ok(files) => connection.send_descriptors(length, files)?,
            Err(source) => {
                return self.answer(connection, Err(StoreError::io(block, source)));
            }
        }
        Ok(After::Keep)
    }

    fn check_meta(&self, replica: &OpenReplica) -> Result<Layout, OperationError> {
        let id = replica.replica.block;
        let checked = crate::store::check_meta_header(id, &replica.meta);
        checked.inspect_err(|error| self.note_bad(replica, error)).map_err(OperationError::from)
    }

    /// Reports a replica that its disk does not return intact.
    pub(super) fn note_bad(&self, replica: &OpenReplica, error: &StoreError) {
        if error.is_bad_replica() && replica.replica.is_finalized() {
            tracing::warn!(error = %client::error::chain(error), "cannot read a replica");
            self.store.report_bad(&replica.replica);
        }
    }
}

/// Recomputes the checksum of the last chunk if it is partial: the one on disk may cover a longer chunk. Bytes before the replica's length do not change.
fn seal_tail(packet: &mut Packet) {
    let begin = packet.data().len() / CHUNK_BYTES * CHUNK_BYTES;
    let mut crc = Vec::with_capacity(CRC_BYTES);
    checksum::append_crcs(&packet.data()[begin..], &mut crc);
    let crcs = packet.crcs_mut();
    let at = crcs.len() - crc.len();
    crcs[at..].copy_from_slice(&crc);
}

/// Reads from the files what the packet's header announces; verifies nothing.
pub(super) fn fill(
    replica: &OpenReplica,
    layout: Layout,
    packet: &mut Packet,
) -> Result<(), StoreError> {
    let offset = packet.header.offset;
    let read = replica
        .block
        .read_exact_at(packet.data_mut(), offset)
        .and_then(|()| replica.meta.read_exact_at(packet.crcs_mut(), layout.crc_position(offset)));
    read.map_err(|source| StoreError::Io { block: replica.replica.block, source })
}

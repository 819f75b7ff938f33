//! What a reader gets of a replica, packet by packet: whole chunks with the checksums that the disk has for them.
//!
//! Whole chunks are not verified here: the reader does that. The last chunk of a replica that is being written is: what is sent of it gets a checksum of its
//! own. What the disk does not return is reported.

use protocol::checksum::{self, CHUNK_BYTES, CRC_BYTES};
use protocol::meta::Layout;
use protocol::transfer::{PACKET_DATA_BYTES, PacketHeader, Read};
use transport::Packet;

use crate::error::StoreError;
use crate::store::{OpenReplica, Store, check_meta_header, read_open_chunk};

/// A replica that is being read.
#[derive(Debug)]
pub struct Serving<'a> {
    store: &'a Store,
    replica: OpenReplica,
    layout: Layout,
    at: u64,
    end: u64,
    sequence: u32,
}

impl<'a> Serving<'a> {
    /// Opens the replica that is wanted.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn begin(store: &'a Store, read: &Read) -> Result<Self, StoreError> {
        let replica = store.open_at_least(read.block, read.stamp)?;
        let layout = check_meta(store, &replica)?;
        let length = replica.replica.length;
        let wanted_end = read.offset.saturating_add(read.length).min(length);
        let end = wanted_end.next_multiple_of(CHUNK_BYTES as u64).min(length);
        let at = read.offset.min(length) / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
        Ok(Serving { store, replica, layout, at, end, sequence: 0 })
    }

    /// Bytes of the replica that readers may see.
    pub fn length(&self) -> u64 {
        self.replica.replica.length
    }

    /// Fills in the next packet; the last one is marked.
    ///
    /// # Errors
    /// [`StoreError`]; a replica that its disk does not return has been reported.
    pub fn next_packet(&mut self, packet: &mut Packet) -> Result<(), StoreError> {
        let data_bytes = self.end.saturating_sub(self.at).min(PACKET_DATA_BYTES as u64);
        packet.reset(PacketHeader {
            data_bytes: data_bytes as u32,
            sequence: self.sequence,
            offset: self.at,
            last: self.at + data_bytes >= self.end,
            sync: false,
        });
        let mut filled = fill(&self.replica, self.layout, packet);
        if self.replica.is_tail_open {
            filled = filled.and_then(|()| seal_tail(&self.replica, self.layout, packet));
        }
        filled.inspect_err(|error| self.store.note_unread(&self.replica.replica, error))?;
        self.at += data_bytes;
        self.sequence += 1;
        Ok(())
    }
}

/// Checks the header of the replica's checksums.
pub(super) fn check_meta(store: &Store, replica: &OpenReplica) -> Result<Layout, StoreError> {
    let checked = check_meta_header(replica.replica.block, &replica.meta);
    checked.inspect_err(|error| store.note_unread(&replica.replica, error))
}

/// Verifies the last chunk if it is partial, and gives it a checksum of its own: the one on disk may cover a longer chunk. Bytes before the replica's length do
/// not change.
fn seal_tail(replica: &OpenReplica, layout: Layout, packet: &mut Packet) -> Result<(), StoreError> {
    let begin = packet.data().len() / CHUNK_BYTES * CHUNK_BYTES;
    let at = packet.header.offset + begin as u64;
    let tail = &mut packet.data_mut()[begin..];
    if tail.is_empty() {
        return Ok(());
    }
    let files = (&replica.block, &replica.meta);
    read_open_chunk((replica.replica.block, layout), files, at, tail)?;
    let mut crc = Vec::with_capacity(CRC_BYTES);
    checksum::append_crcs(tail, &mut crc);
    let crcs = packet.crcs_mut();
    let at = crcs.len() - crc.len();
    crcs[at..].copy_from_slice(&crc);
    Ok(())
}

/// Reads from the files what the packet's header announces.
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

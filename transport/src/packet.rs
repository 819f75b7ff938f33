//! Packets in reused buffers.
//!
//! Memory that was touched once stays allocated: on virtual machines the first touch of a page can cost more than all other work on it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::checksum::{self, CHUNK_BYTES, ChecksumError};
use protocol::transfer::PacketHeader;
use sys::fs::DIRECT_ALIGNMENT_BYTES;

/// Buffers that a pool keeps for reuse; more are made when needed and freed afterwards.
const KEPT_MAX: usize = 64;

/// A packet: header, checksums, data.
#[derive(Debug, Default)]
pub struct Packet {
    /// Its header; `data_bytes` is the length of [`Packet::data`].
    pub header: PacketHeader,
    crcs: Vec<u8>,
    data: Aligned,
}

/// Bytes at an aligned address, as direct writes that bypass the page cache need.
#[derive(Debug, Default)]
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    fn grow(&mut self, len: usize) {
        if self.len() >= len {
            return;
        }
        let mut bytes = vec![0; len + DIRECT_ALIGNMENT_BYTES - 1];
        let start = bytes.as_ptr().align_offset(DIRECT_ALIGNMENT_BYTES);
        bytes[start..start + self.len()].copy_from_slice(self);
        bytes.truncate(start + len);
        *self = Aligned { bytes, start };
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

impl Packet {
    /// Sets the header and makes room for the data that it announces. Checksums and data keep their old contents.
    pub fn reset(&mut self, header: PacketHeader) {
        self.header = header;
        self.crcs.resize(header.crc_bytes(), 0);
        self.data.grow(header.data_bytes as usize);
    }

    /// The data.
    pub fn data(&self) -> &[u8] {
        &self.data[..self.header.data_bytes as usize]
    }

    /// The data, to fill in.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.data[..self.header.data_bytes as usize]
    }

    /// The checksums of the data's chunks.
    pub fn crcs(&self) -> &[u8] {
        &self.crcs
    }

    /// The checksums, to fill in.
    pub fn crcs_mut(&mut self) -> &mut [u8] {
        &mut self.crcs
    }

    /// Room behind the data up to `limit` bytes of data in all.
    pub fn room(&mut self, limit: usize) -> &mut [u8] {
        self.data.grow(limit);
        &mut self.data[self.header.data_bytes as usize..limit]
    }

    /// Records that `count` bytes of the room were filled.
    pub fn advance(&mut self, count: usize) {
        let data_bytes = self.header.data_bytes as usize + count;
        assert!(data_bytes <= self.data.len(), "only room that was handed out can be filled");
        self.header.data_bytes = data_bytes as u32;
    }

    /// Appends as much of `bytes` as fits into `limit` bytes of data in all; returns how much.
    pub fn append(&mut self, bytes: &[u8], limit: usize) -> usize {
        let used = self.header.data_bytes as usize;
        let count = bytes.len().min(limit - used);
        self.grow_for(used + count, limit);
        self.data[used..used + count].copy_from_slice(&bytes[..count]);
        self.header.data_bytes += count as u32;
        count
    }

    /// Computes the checksums of the data.
    pub fn seal(&mut self) {
        self.crcs.clear();
        checksum::append_crcs(&self.data[..self.header.data_bytes as usize], &mut self.crcs);
    }

    /// Compares data and checksums.
    ///
    /// # Errors
    /// [`ChecksumError`] with the offset within the data.
    pub fn verify(&self) -> Result<(), ChecksumError> {
        checksum::verify(self.data(), &self.crcs)
    }

    /// Chunk `index` of the data if it matches its checksum.
    pub fn good_chunk(&self, index: usize) -> Option<&[u8]> {
        let chunk = self.data().chunks(CHUNK_BYTES).nth(index)?;
        let crc = self.crcs.chunks(checksum::CRC_BYTES).nth(index)?;
        checksum::verify(chunk, crc).is_ok().then_some(chunk)
    }

    /// Chunk `index` of the data, whatever its checksum says.
    pub fn chunk(&self, index: usize) -> Option<&[u8]> {
        self.data().chunks(CHUNK_BYTES).nth(index)
    }

    fn grow_for(&mut self, len: usize, limit: usize) {
        if self.data.len() < len {
            self.data.grow((2 * len).min(limit));
        }
    }
}

/// Keeps the buffers of packets for reuse. Cheap to clone; clones share the buffers.
#[derive(Clone, Debug, Default)]
pub struct PacketPool {
    kept: Arc<Mutex<Vec<Packet>>>,
}

impl PacketPool {
    /// An empty packet, in a used buffer if there is one.
    pub fn take(&self) -> PooledPacket {
        let mut packet = self.kept.lock().pop().unwrap_or_default();
        packet.header = PacketHeader::default();
        packet.crcs.clear();
        PooledPacket { packet, pool: self.clone() }
    }
}

/// A packet whose buffer goes back to its pool.
#[derive(Debug)]
pub struct PooledPacket {
    packet: Packet,
    pool: PacketPool,
}

impl Deref for PooledPacket {
    type Target = Packet;

    fn deref(&self) -> &Packet {
        &self.packet
    }
}

impl DerefMut for PooledPacket {
    fn deref_mut(&mut self) -> &mut Packet {
        &mut self.packet
    }
}

impl Drop for PooledPacket {
    fn drop(&mut self) {
        let mut kept = self.pool.kept.lock();
        if kept.len() < KEPT_MAX {
            kept.push(std::mem::take(&mut self.packet));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_filled_sealed_and_reused() {
        let pool = PacketPool::default();
        let mut packet = pool.take();
        assert_eq!(packet.append(&[7; 700], 1000), 700);
        assert_eq!(packet.append(&[8; 700], 1000), 300);
        packet.seal();
        assert_eq!((packet.data().len(), packet.crcs().len()), (1000, 8));
        assert_eq!(packet.verify(), Ok(()));
        assert_eq!(packet.good_chunk(1), Some(&packet.data()[512..]));
        packet.data_mut()[600] ^= 1;
        assert_eq!(packet.verify(), Err(ChecksumError { offset: 512 }));
        assert_eq!((packet.good_chunk(0).is_some(), packet.good_chunk(1)), (true, None));
        assert_eq!(packet.good_chunk(2), None);
        drop(packet);
        let mut packet = pool.take();
        assert!(packet.data().is_empty() && packet.crcs().is_empty());
        packet.room(2000)[..5].copy_from_slice(b"hello");
        packet.advance(5);
        assert_eq!(packet.data(), b"hello");
    }
}

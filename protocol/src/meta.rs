//! The meta file of a replica: the checksums of its block file. Written by DataNodes, mapped by readers on the same machine.
//!
//! ```text
//! magic      4 bytes  "hnmt"
//! version    u16 LE   2
//! algorithm  u8       1: CRC-32 (IEEE), as HDFS numbers it
//! zero       u8
//! chunk      u32 LE   bytes of data per checksum: 512
//! crc        u32 LE   CRC-32 of the 12 bytes before
//! tails      2 × 16   what was synced in the middle of a chunk, below; version 1 has none
//! crcs       4 bytes each, big-endian, one per chunk of the block file, in order
//!
//! tail       length   u64 LE   bytes of the block; not a multiple of 512
//!            crc      u32 LE   CRC-32 of those of them that are in the last, partial chunk
//!            seal     u32 LE   CRC-32 of the 12 bytes before
//! ```
//!
//! When a chunk that is not full grows, its checksum is replaced in place. The disk may then take the new bytes of one file and not of the other. A tail is not
//! replaced before another is on disk, and bytes of a block never change once written. So a tail proves its bytes whatever happened to those behind them.

use crate::checksum::{CHUNK_BYTES, CRC_BYTES, chunk_count};

/// Bytes that identify the format of the rest: the same in all versions.
pub const PREAMBLE_BYTES: usize = 16;
/// Bytes of a tail.
pub const TAIL_BYTES: usize = 16;
/// Tails in a header: one is on disk while the other is written.
pub const TAILS: usize = 2;
/// Bytes before the first checksum, in the version that is written.
pub const HEADER_BYTES: usize = PREAMBLE_BYTES + TAILS * TAIL_BYTES;

const MAGIC: [u8; 4] = *b"hnmt";
const ALGORITHM_CRC32: u8 = 1;

/// A meta file that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// The header is cut off, damaged or belongs to something else.
    #[error("meta file has no valid header")]
    Header,
    /// A version, algorithm or chunk size this program does not know.
    #[error(
        "meta file has version {version}, algorithm {algorithm}, chunks of {chunk} bytes, which are not supported"
    )]
    Unsupported {
        /// Version of the format.
        version: u16,
        /// Number of the algorithm.
        algorithm: u8,
        /// Bytes per checksum.
        chunk: u32,
    },
}

/// Where things are in a meta file, by its version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Version 1: no tails. Read, never written.
    V1,
    /// Version 2.
    V2,
}

impl Layout {
    /// The layout that is written.
    pub const CURRENT: Layout = Layout::V2;
    /// All layouts that can be read.
    pub const ALL: [Layout; 2] = [Layout::V1, Layout::V2];

    fn version(self) -> u16 {
        match self {
            Layout::V1 => 1,
            Layout::V2 => 2,
        }
    }

    fn preamble(self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.version().to_le_bytes());
        bytes[6] = ALGORITHM_CRC32;
        bytes[8..12].copy_from_slice(&(CHUNK_BYTES as u32).to_le_bytes());
        let crc = crc32fast::hash(&bytes[..12]);
        bytes[12..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Bytes before the first checksum.
    pub fn header_bytes(self) -> usize {
        match self {
            Layout::V1 => PREAMBLE_BYTES,
            Layout::V2 => HEADER_BYTES,
        }
    }

    /// Position in the meta file of the checksum of the chunk that begins at `offset` of the block.
    pub fn crc_position(self, offset: u64) -> u64 {
        self.header_bytes() as u64 + offset / CHUNK_BYTES as u64 * CRC_BYTES as u64
    }

    /// Bytes of the meta file of a block of `length` bytes.
    pub fn file_bytes(self, length: u64) -> u64 {
        self.header_bytes() as u64 + chunk_count(length) * CRC_BYTES as u64
    }

    /// The positions of the tails.
    pub fn tail_positions(self) -> impl Iterator<Item = u64> {
        let tails = (self.header_bytes() - PREAMBLE_BYTES) / TAIL_BYTES;
        (0..tails).map(|slot| (PREAMBLE_BYTES + slot * TAIL_BYTES) as u64)
    }
}

/// The header that every meta file begins with; it has no tails yet.
pub fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..PREAMBLE_BYTES].copy_from_slice(&Layout::CURRENT.preamble());
    bytes
}

/// Checks the first bytes of a meta file, at least [`PREAMBLE_BYTES`], and returns the layout of the rest.
///
/// # Errors
/// [`MetaError`].
pub fn check_header(bytes: &[u8]) -> Result<Layout, MetaError> {
    let bytes: &[u8; PREAMBLE_BYTES] = bytes.first_chunk().ok_or(MetaError::Header)?;
    if bytes[..4] != MAGIC || crc32fast::hash(&bytes[..12]).to_le_bytes() != bytes[12..] {
        return Err(MetaError::Header);
    }
    let known = Layout::ALL.into_iter().find(|layout| layout.preamble() == *bytes);
    known.ok_or(MetaError::Unsupported {
        version: u16::from_le_bytes([bytes[4], bytes[5]]),
        algorithm: bytes[6],
        chunk: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
    })
}

/// States that the first bytes of a block end in the middle of a chunk, and proves that part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    /// Bytes of the block; not a multiple of [`CHUNK_BYTES`].
    pub length: u64,
    /// CRC-32 of those bytes that lie in the last chunk.
    pub crc: u32,
}

impl Tail {
    /// The tail of a block of `length` bytes whose last chunk has this checksum; `None` if that chunk is full.
    pub fn of(length: u64, crc: u32) -> Option<Tail> {
        (!length.is_multiple_of(CHUNK_BYTES as u64)).then_some(Tail { length, crc })
    }

    /// Where its chunk begins in the block.
    pub fn chunk_begin(self) -> u64 {
        self.length - self.length % CHUNK_BYTES as u64
    }

    /// Bytes of its chunk that it proves.
    pub fn chunk_bytes(self) -> usize {
        (self.length % CHUNK_BYTES as u64) as usize
    }

    /// True if `bytes`, from the start of its chunk to its length, are the bytes it was made from.
    pub fn proves(self, bytes: &[u8]) -> bool {
        bytes.len() == self.chunk_bytes() && crc32fast::hash(bytes) == self.crc
    }

    /// Its bytes in the file.
    pub fn encode(self) -> [u8; TAIL_BYTES] {
        let mut bytes = [0; TAIL_BYTES];
        bytes[..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.crc.to_le_bytes());
        let seal = crc32fast::hash(&bytes[..12]);
        bytes[12..].copy_from_slice(&seal.to_le_bytes());
        bytes
    }

    /// Reads a tail; `None` if there is none, or if writing it was cut off.
    pub fn decode(bytes: [u8; TAIL_BYTES]) -> Option<Tail> {
        let (body, seal) = bytes.split_at(12);
        if crc32fast::hash(body).to_le_bytes() != seal {
            return None;
        }
        let (length, crc) = body.split_at(8);
        let length = u64::from_le_bytes(length.try_into().ok()?);
        Tail::of(length, u32::from_le_bytes(crc.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let bytes = header();
        assert_eq!(bytes[..12], *b"hnmt\x02\x00\x01\x00\x00\x02\x00\x00");
        assert_eq!(bytes[12..16], crc32fast::hash(&bytes[..12]).to_le_bytes());
        assert_eq!(bytes[16..], [0; 32]);
        let v2 = Layout::CURRENT;
        assert_eq!((v2.crc_position(1024), v2.file_bytes(1025), v2.file_bytes(0)), (56, 60, 48));
        assert_eq!(v2.tail_positions().collect::<Vec<_>>(), [16, 32]);

        let tail = Tail::of(0x0102_0304_0506_0708, 0x0a0b_0c0d).unwrap().encode();
        assert_eq!(tail[..12], [8, 7, 6, 5, 4, 3, 2, 1, 0x0d, 0x0c, 0x0b, 0x0a]);
        assert_eq!(tail[12..], crc32fast::hash(&tail[..12]).to_le_bytes());
    }

    #[test]
    fn files_of_the_first_version_are_read() {
        let old = *b"hnmt\x01\x00\x01\x00\x00\x02\x00\x00";
        let old = [&old[..], &crc32fast::hash(&old).to_le_bytes()].concat();
        let v1 = check_header(&old).unwrap();
        assert_eq!(v1, Layout::V1);
        assert_eq!((v1.crc_position(1024), v1.file_bytes(1025), v1.file_bytes(0)), (24, 28, 16));
        assert_eq!(v1.tail_positions().count(), 0);
    }

    #[test]
    fn truncation_damage_and_other_versions_are_told_apart() {
        let good = header();
        assert_eq!(check_header(&good), Ok(Layout::V2));
        for end in 0..PREAMBLE_BYTES {
            assert_eq!(check_header(&good[..end]), Err(MetaError::Header));
        }
        for bit in 0..PREAMBLE_BYTES * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check_header(&bad), Err(MetaError::Header), "bit {bit}");
        }
        let mut newer = good;
        newer[4] = 3;
        let crc = crc32fast::hash(&newer[..12]);
        newer[12..16].copy_from_slice(&crc.to_le_bytes());
        let unsupported = MetaError::Unsupported { version: 3, algorithm: 1, chunk: 512 };
        assert_eq!(check_header(&newer), Err(unsupported));
    }

    #[test]
    fn a_tail_proves_its_bytes_and_damage_leaves_none() {
        let chunk = [7; 100];
        let tail = Tail::of(1124, crc32fast::hash(&chunk)).unwrap();
        assert_eq!((tail.chunk_begin(), tail.chunk_bytes()), (1024, 100));
        assert!(tail.proves(&chunk) && !tail.proves(&chunk[..99]) && !tail.proves(&[8; 100]));
        assert_eq!(Tail::decode(tail.encode()), Some(tail));
        for bit in 0..TAIL_BYTES * 8 {
            let mut bad = tail.encode();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Tail::decode(bad), None, "bit {bit}");
        }
        // Half of one and half of another, and a place that was never written.
        let other = Tail::of(1200, 5).unwrap().encode();
        for end in 1..TAIL_BYTES {
            let torn = [&other[..end], &tail.encode()[end..]].concat();
            assert_eq!(Tail::decode(torn.try_into().unwrap()), None, "torn at {end}");
        }
        assert_eq!(Tail::decode([0; TAIL_BYTES]), None);
        assert_eq!(Tail::of(1024, 5), None, "its checksum is not replaced");
    }
}

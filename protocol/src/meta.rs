//! The meta file of a replica: the checksums of its block file. Written by DataNodes, mapped by readers on the same machine.
//!
//! ```text
//! magic      4 bytes  "hnmt"
//! version    u16 LE   1
//! algorithm  u8       1: CRC-32 (IEEE), as HDFS numbers it
//! zero       u8
//! chunk      u32 LE   bytes of data per checksum: 512
//! crc        u32 LE   CRC-32 of the 12 bytes before
//! crcs       4 bytes each, big-endian, one per chunk of the block file, in order
//! ```

use crate::checksum::{CHUNK_BYTES, CRC_BYTES, chunk_count};

/// Bytes before the first checksum.
pub const HEADER_BYTES: usize = 16;

const MAGIC: [u8; 4] = *b"hnmt";
const VERSION: u16 = 1;
const ALGORITHM_CRC32: u8 = 1;

/// A meta file that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// The header is cut off, damaged or of something else.
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

/// The header that every meta file begins with.
pub fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes[6] = ALGORITHM_CRC32;
    bytes[8..12].copy_from_slice(&(CHUNK_BYTES as u32).to_le_bytes());
    let crc = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks the first bytes of a meta file.
///
/// # Errors
/// [`MetaError`].
pub fn check_header(bytes: &[u8]) -> Result<(), MetaError> {
    let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(MetaError::Header)?;
    if bytes[..4] != MAGIC || crc32fast::hash(&bytes[..12]).to_le_bytes() != bytes[12..] {
        return Err(MetaError::Header);
    }
    if *bytes == header() {
        return Ok(());
    }
    Err(MetaError::Unsupported {
        version: u16::from_le_bytes([bytes[4], bytes[5]]),
        algorithm: bytes[6],
        chunk: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
    })
}

/// Where the checksum of the chunk that begins at `offset` of the block is in the meta file.
pub fn crc_position(offset: u64) -> u64 {
    HEADER_BYTES as u64 + offset / CHUNK_BYTES as u64 * CRC_BYTES as u64
}

/// Bytes of the meta file of a block of `length` bytes.
pub fn file_bytes(length: u64) -> u64 {
    HEADER_BYTES as u64 + chunk_count(length) * CRC_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let bytes = header();
        assert_eq!(bytes[..12], *b"hnmt\x01\x00\x01\x00\x00\x02\x00\x00");
        assert_eq!(bytes[12..], crc32fast::hash(&bytes[..12]).to_le_bytes());
        assert_eq!((crc_position(1024), file_bytes(1025), file_bytes(0)), (24, 28, 16));
    }

    #[test]
    fn truncation_damage_and_other_versions_are_told_apart() {
        let good = header();
        assert_eq!(check_header(&good), Ok(()));
        for end in 0..good.len() {
            assert_eq!(check_header(&good[..end]), Err(MetaError::Header));
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check_header(&bad), Err(MetaError::Header), "bit {bit}");
        }
        let mut newer = good;
        newer[4] = 2;
        let crc = crc32fast::hash(&newer[..12]);
        newer[12..].copy_from_slice(&crc.to_le_bytes());
        let unsupported = MetaError::Unsupported { version: 2, algorithm: 1, chunk: 512 };
        assert_eq!(check_header(&newer), Err(unsupported));
    }
}

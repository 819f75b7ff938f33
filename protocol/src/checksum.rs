//! Checksums of block data: one CRC-32 (IEEE) per chunk.
//!
//! Chunks are 512 bytes as in HDFS, so that HDFS's file checksum (`MD5-of-…MD5-of-512CRC32`) can be derived from a meta file
//! without reading the block.

/// Bytes of data that one checksum covers. The last chunk of a block may be shorter.
pub const CHUNK_BYTES: usize = 512;
/// Bytes of one checksum.
pub const CRC_BYTES: usize = 4;

/// Checksums needed for `data_bytes` of data that begins at a chunk boundary.
pub fn chunk_count(data_bytes: u64) -> u64 {
    data_bytes.div_ceil(CHUNK_BYTES as u64)
}

/// Appends the big-endian checksum of each chunk of `data` to `out`.
pub fn append_crcs(data: &[u8], out: &mut Vec<u8>) {
    out.reserve(data.len().div_ceil(CHUNK_BYTES) * CRC_BYTES);
    for chunk in data.chunks(CHUNK_BYTES) {
        out.extend_from_slice(&crc32fast::hash(chunk).to_be_bytes());
    }
}

/// Compares `data` with its checksums.
///
/// # Errors
/// [`ChecksumError`] with the offset of the first bad chunk within `data`; also if there are too few or too many checksums.
pub fn verify(data: &[u8], crcs: &[u8]) -> Result<(), ChecksumError> {
    let mut expected = crcs.chunks_exact(CRC_BYTES);
    for (index, chunk) in data.chunks(CHUNK_BYTES).enumerate() {
        let crc = expected.next();
        if crc != Some(&crc32fast::hash(chunk).to_be_bytes()[..]) {
            return Err(ChecksumError { offset: (index * CHUNK_BYTES) as u64 });
        }
    }
    match (expected.next(), expected.remainder()) {
        (None, []) => Ok(()),
        _ => Err(ChecksumError { offset: data.len() as u64 }),
    }
}

/// Data that does not match its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("checksum mismatch at offset {offset}")]
pub struct ChecksumError {
    /// Offset of the bad chunk in the data that was checked, bytes.
    pub offset: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_is_ieee() {
        let mut crcs = Vec::new();
        append_crcs(b"123456789", &mut crcs);
        assert_eq!(crcs, 0xcbf4_3926_u32.to_be_bytes());
    }

    #[test]
    fn every_flipped_bit_is_found_in_its_chunk() {
        let data: Vec<u8> = (0..1300u32).map(|n| (n * 7) as u8).collect();
        let mut crcs = Vec::new();
        append_crcs(&data, &mut crcs);
        assert_eq!(crcs.len(), 12);
        assert_eq!(verify(&data, &crcs), Ok(()));
        for byte in [0, 511, 512, 1023, 1024, 1299] {
            let mut bad = data.clone();
            bad[byte] ^= 4;
            assert_eq!(
                verify(&bad, &crcs),
                Err(ChecksumError { offset: (byte / 512 * 512) as u64 })
            );
        }
        assert!(verify(&data, &crcs[..8]).is_err());
        assert!(verify(&data[..512], &crcs).is_err());
    }
}

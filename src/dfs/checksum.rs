//! HDFS's file checksum: MD5 of MD5s of CRC-32s.
//!
//! ```text
//! chunk        512 bytes (the last of a block may be short) -> CRC-32, big-endian
//! block digest MD5 of its chunks' CRCs
//! file digest  MD5 of all block digests, padded with zeros to 32, 64, 128 … bytes
//! printed      u32 512 | u64 chunks in a full block (0 for one block) | file digest, big-endian, in hexadecimal
//! ```

use std::fmt::Write;

use md5::{Digest, Md5};
use protocol::checksum::{CHUNK_BYTES, append_crcs, chunk_count};

/// Smallest buffer that HDFS hashes.
const PADDED_BYTES_MIN: usize = 32;
/// What HDFS prints for an empty file.
const EMPTY_ALGORITHM: &str = "MD5-of-0MD5-of-0CRC32";

/// A checksum being computed.
pub(super) struct FileChecksum {
    block_size: u64,
    /// Bytes of the current block so far.
    in_block: u64,
    /// Start of a chunk whose end has not come yet.
    partial: Vec<u8>,
    crcs: Vec<u8>,
    block: Md5,
    digests: Vec<u8>,
}

impl FileChecksum {
    pub(super) fn new(block_size: u64) -> Self {
        FileChecksum {
            block_size: block_size.max(1),
            in_block: 0,
            partial: Vec::with_capacity(CHUNK_BYTES),
            crcs: Vec::new(),
            block: Md5::new(),
            digests: Vec::new(),
        }
    }

    /// Adds the next bytes of the file.
    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = usize::try_from(self.block_size - self.in_block).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.in_block += now.len() as u64;
            self.chunks(now);
            bytes = later;
            if self.in_block == self.block_size {
                self.end_block();
            }
        }
    }

    fn chunks(&mut self, mut bytes: &[u8]) {
        if !self.partial.is_empty() {
            let missing = CHUNK_BYTES - self.partial.len();
            let (now, later) = bytes.split_at(bytes.len().min(missing));
            self.partial.extend_from_slice(now);
            bytes = later;
            if self.partial.len() == CHUNK_BYTES {
                append_crcs(&self.partial, &mut self.crcs);
                self.partial.clear();
            }
        }
        let whole = bytes.len() / CHUNK_BYTES * CHUNK_BYTES;
        append_crcs(&bytes[..whole], &mut self.crcs);
        self.partial.extend_from_slice(&bytes[whole..]);
        self.block.update(&self.crcs);
        self.crcs.clear();
    }

    fn end_block(&mut self) {
        append_crcs(&self.partial, &mut self.crcs);
        self.block.update(&self.crcs);
        self.digests.extend_from_slice(&self.block.finalize_reset());
        self.partial.clear();
        self.crcs.clear();
        self.in_block = 0;
    }

    /// Algorithm and checksum as HDFS prints them.
    pub(super) fn finish(mut self) -> (String, String) {
        if self.in_block > 0 {
            self.end_block();
        }
        let several = self.digests.len() > 16;
        let per_block = if several { chunk_count(self.block_size) } else { 0 };
        let (chunk, algorithm) = match self.digests.len() {
            0 => (0, EMPTY_ALGORITHM.to_owned()),
            _ => {
                let chunk = u32::try_from(CHUNK_BYTES).expect("512 fits");
                (chunk, format!("MD5-of-{per_block}MD5-of-{CHUNK_BYTES}CRC32"))
            }
        };
        let padded = self.digests.len().next_power_of_two().max(PADDED_BYTES_MIN);
        self.digests.resize(padded, 0);
        let mut bytes = chunk.to_be_bytes().to_vec();
        bytes.extend_from_slice(&per_block.to_be_bytes());
        bytes.extend_from_slice(&Md5::digest(&self.digests));
        let mut hex = String::new();
        for byte in bytes {
            write!(hex, "{byte:02x}").expect("writing into memory cannot fail");
        }
        (algorithm, hex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(data: &[u8], block_size: u64, piece: usize) -> (String, String) {
        let mut sum = FileChecksum::new(block_size);
        data.chunks(piece).for_each(|piece| sum.update(piece));
        sum.finish()
    }

    /// The definition, word for word.
    fn slow(data: &[u8], block_size: usize) -> String {
        let mut digests = Vec::new();
        for block in data.chunks(block_size) {
            let crcs: Vec<u8> = block
                .chunks(512)
                .flat_map(|chunk| {
                    let mut crc = Vec::new();
                    append_crcs(chunk, &mut crc);
                    crc
                })
                .collect();
            digests.extend_from_slice(&Md5::digest(&crcs));
        }
        let mut capacity = 32;
        while capacity < digests.len() {
            capacity *= 2;
        }
        digests.resize(capacity, 0);
        Md5::digest(&digests).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn pieces_do_not_matter() {
        let data: Vec<u8> = (0..10_000u32).map(|n| ((n * 31) >> 3) as u8).collect();
        for block_size in [512, 1024, 4096, 1_000_000] {
            let expected = slow(&data, block_size);
            for piece in [1, 7, 512, 513, 5000, 10_000] {
                let (algorithm, hex) = sum(&data, block_size as u64, piece);
                assert_eq!(hex[24..], expected, "{block_size} {piece}");
                let per_block = if block_size < data.len() { block_size / 512 } else { 0 };
                assert_eq!(algorithm, format!("MD5-of-{per_block}MD5-of-512CRC32"));
                assert_eq!(&hex[..8], "00000200");
            }
        }
    }

    #[test]
    fn an_empty_file_has_hdfss_value() {
        let (algorithm, hex) = sum(b"", 1 << 27, 1);
        assert_eq!(algorithm, "MD5-of-0MD5-of-0CRC32");
        assert_eq!(hex, "00000000000000000000000070bc8f4b72a86921468bf8e8441dce51");
    }
}

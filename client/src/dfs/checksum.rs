//! HDFS's file checksum, exact to the bit: MD5 of MD5s of CRC-32Cs.
//!
//! ```text
//! chunk        512 bytes (the last of a block may be short) -> CRC-32C, big-endian
//! block digest MD5 of its chunks' CRCs
//! file digest  MD5 of all block digests, padded with zeros to 32, 64, 128 … bytes
//! bytes        u32 512 | u64 chunks in the first block (0 if it is the only one) | file digest, big-endian
//! ```
//!
//! Replicas are kept with CRC-32 (IEEE), which many processors compute just as fast. HDFS's checksum uses CRC-32C, so it is computed from the data, which is
//! verified as it is read.

use std::fmt::Write;

use md5::{Digest, Md5};
use protocol::DfsPath;
use protocol::checksum::{CHUNK_BYTES, chunk_count};

use super::client::DfsClient;
use super::error::DfsError;
use super::reader::DfsReader;

/// Smallest buffer that HDFS hashes.
const PADDED_BYTES_MIN: usize = 32;
/// HDFS's algorithm name for an empty file.
const EMPTY_ALGORITHM: &str = "MD5-of-0MD5-of-0CRC32";
/// Bytes read in one step: a multiple of a chunk.
const STEP_BYTES: usize = 1 << 20;

/// The digest of one block.
pub type BlockDigest = [u8; 16];

/// A file's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileChecksum {
    chunk_bytes: u32,
    crcs_per_block: u64,
    digest: [u8; 16],
}

impl FileChecksum {
    /// Bytes of its binary form.
    pub const BYTES: usize = 28;

    /// The checksum of the file at `path`.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn of(client: &DfsClient, path: &DfsPath) -> Result<Self, DfsError> {
        let mut summing = Summing::begin(client, path)?;
        loop {
            if let Some(sum) = summing.step()? {
                return Ok(sum);
            }
        }
    }

    /// Combines the digests of a file's blocks. `first_length` is the length of the first block.
    pub fn of_blocks(digests: &[BlockDigest], first_length: u64) -> Self {
        let mut padded = digests.concat();
        padded.resize(padded.len().next_power_of_two().max(PADDED_BYTES_MIN), 0);
        let digest = Md5::digest(&padded).into();
        let chunk_bytes = match digests {
            [] => 0,
            _ => u32::try_from(CHUNK_BYTES).expect("512 fits"),
        };
        let crcs_per_block = if digests.len() > 1 { chunk_count(first_length) } else { 0 };
        FileChecksum { chunk_bytes, crcs_per_block, digest }
    }

    /// Name of the algorithm, with the block's and chunk's size in it.
    pub fn algorithm(&self) -> String {
        match self.chunk_bytes {
            0 => EMPTY_ALGORITHM.to_owned(),
            chunk => format!("MD5-of-{}MD5-of-{chunk}CRC32C", self.crcs_per_block),
        }
    }

    /// Its binary form in hexadecimal.
    pub fn hex(&self) -> String {
        let mut hex = String::with_capacity(2 * FileChecksum::BYTES);
        let head =
            self.chunk_bytes.to_be_bytes().into_iter().chain(self.crcs_per_block.to_be_bytes());
        for byte in head.chain(self.digest) {
            write!(hex, "{byte:02x}").expect("writing into memory cannot fail");
        }
        hex
    }
}

/// A file's checksum being computed, a piece at a time: whoever waits for it can stop after each.
#[derive(Debug)]
pub struct Summing {
    reader: DfsReader,
    path: DfsPath,
    /// Offset and length of the blocks that have bytes.
    blocks: Vec<(u64, u64)>,
    /// Of the blocks before the present one.
    digests: Vec<BlockDigest>,
    /// Of the present block.
    sum: BlockSum,
    /// Bytes of the present block that were read.
    done: u64,
}

impl Summing {
    /// Opens the file at `path`; nothing of it is read yet.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn begin(client: &DfsClient, path: &DfsPath) -> Result<Self, DfsError> {
        let reader = client.open(path)?;
        let blocks = reader.blocks().filter(|block| block.length > 0);
        let blocks = blocks.map(|block| (block.offset, block.length)).collect();
        let (path, sum) = (path.clone(), BlockSum::new());
        Ok(Summing { reader, path, blocks, digests: Vec::new(), sum, done: 0 })
    }

    /// Reads the next piece, at most 1 MiB; the checksum when all was read.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn step(&mut self) -> Result<Option<FileChecksum>, DfsError> {
        let Some(&(start, length)) = self.blocks.get(self.digests.len()) else {
            let first_length = self.blocks.first().map_or(0, |block| block.1);
            return Ok(Some(FileChecksum::of_blocks(&self.digests, first_length)));
        };
        let slice = self.reader.next_slice(start + self.done, STEP_BYTES)?;
        if slice.is_empty() {
            return Err(DfsError::Short { path: self.path.clone(), offset: start + self.done });
        }
        self.sum.update(&slice);
        self.done += slice.len() as u64;
        if self.done >= length {
            self.digests.push(std::mem::take(&mut self.sum).finish());
            self.done = 0;
        }
        Ok(None)
    }
}

/// The digest of a block being computed.
#[derive(Debug, Default)]
pub struct BlockSum {
    /// Start of a chunk that is not complete yet.
    partial: Vec<u8>,
    crcs: Vec<u8>,
    md5: Md5,
}

impl BlockSum {
    /// The sum of no bytes yet.
    pub fn new() -> Self {
        BlockSum::default()
    }

    /// Adds the next bytes of the block.
    pub fn update(&mut self, mut bytes: &[u8]) {
        if !self.partial.is_empty() {
            let missing = CHUNK_BYTES - self.partial.len();
            let (now, later) = bytes.split_at(bytes.len().min(missing));
            self.partial.extend_from_slice(now);
            bytes = later;
            if self.partial.len() < CHUNK_BYTES {
                return;
            }
            let partial = std::mem::take(&mut self.partial);
            self.chunks(&partial);
        }
        let whole = bytes.len() / CHUNK_BYTES * CHUNK_BYTES;
        self.chunks(&bytes[..whole]);
        self.partial.extend_from_slice(&bytes[whole..]);
    }

    /// The digest.
    pub fn finish(mut self) -> BlockDigest {
        let partial = std::mem::take(&mut self.partial);
        self.chunks(&partial);
        self.md5.finalize().into()
    }

    fn chunks(&mut self, bytes: &[u8]) {
        self.crcs.clear();
        for chunk in bytes.chunks(CHUNK_BYTES) {
            self.crcs.extend_from_slice(&crc32c::crc32c(chunk).to_be_bytes());
        }
        self.md5.update(&self.crcs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(data: &[u8], block_size: usize, piece: usize) -> FileChecksum {
        let digests: Vec<BlockDigest> = data
            .chunks(block_size)
            .map(|block| {
                let mut sum = BlockSum::new();
                block.chunks(piece).for_each(|piece| sum.update(piece));
                sum.finish()
            })
            .collect();
        FileChecksum::of_blocks(&digests, data.len().min(block_size) as u64)
    }

    #[test]
    fn values_are_those_of_hadoops_own_tests() {
        for (repeats, digest) in [
            (1, "7267e9528002723a30939aefc238d665"),
            (2, "fc09371298117c4943cf089b4bd79c96"),
            (4, "009476431d851dd7b0a8d057a404d7b9"),
            (8, "a58cdc3c0967fc8cddb7fed5960d06f2"),
        ] {
            let data = b"12345678901234\n".repeat(repeats);
            let sum = sum(&data, 1 << 27, 7);
            assert_eq!(sum.hex(), format!("000002000000000000000000{digest}"));
            assert_eq!(sum.algorithm(), "MD5-of-0MD5-of-512CRC32C");
        }
        let empty = sum(b"", 1 << 27, 1);
        assert_eq!(empty.algorithm(), "MD5-of-0MD5-of-0CRC32");
        assert_eq!(empty.hex(), "00000000000000000000000070bc8f4b72a86921468bf8e8441dce51");
    }

    /// The definition, word for word.
    fn slow(data: &[u8], block_size: usize) -> String {
        let mut digests = Vec::new();
        for block in data.chunks(block_size) {
            let crcs: Vec<u8> = block
                .chunks(512)
                .flat_map(|chunk| {
                    let mut crc = u32::MAX;
                    for byte in chunk {
                        crc ^= u32::from(*byte);
                        for _ in 0..8 {
                            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
                        }
                    }
                    (!crc).to_be_bytes()
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
        for block_size in [512, 1000, 1024, 4096, 1_000_000] {
            let expected = slow(&data, block_size);
            for piece in [1, 7, 512, 513, 5000, 10_000] {
                let sum = sum(&data, block_size, piece);
                assert_eq!(sum.hex()[24..], expected, "{block_size} {piece}");
                let per_block = if block_size < data.len() { block_size.div_ceil(512) } else { 0 };
                assert_eq!(sum.algorithm(), format!("MD5-of-{per_block}MD5-of-512CRC32C"));
            }
        }
    }
}

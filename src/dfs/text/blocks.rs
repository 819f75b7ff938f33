//! Hadoop's block streams: how its snappy codec cuts a file.
//!
//! ```text
//! block   u32 uncompressed bytes (big-endian) | chunk, until that many bytes came out
//! chunk   u32 compressed bytes (big-endian) | compressed data
//! ```

use std::io::{self, Read};

/// Largest chunk that is accepted, compressed or not; Hadoop's buffers have 256 KiB.
const CHUNK_BYTES_MAX: u32 = 64 << 20;

/// Reads a snappy block stream.
pub(super) struct Snappy<R> {
    source: R,
    /// Bytes of the current block that are still to come out.
    block_rest: u32,
    chunk: Vec<u8>,
    given: usize,
    compressed: Vec<u8>,
}

impl<R: Read> Snappy<R> {
    pub(super) fn new(source: R) -> Self {
        Snappy { source, block_rest: 0, chunk: Vec::new(), given: 0, compressed: Vec::new() }
    }

    /// Decodes the next chunk; false at the end.
    fn next_chunk(&mut self) -> io::Result<bool> {
        while self.block_rest == 0 {
            match read_length(&mut self.source)? {
                Some(length) => self.block_rest = length,
                None => return Ok(false),
            }
        }
        let length = read_length(&mut self.source)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if length > CHUNK_BYTES_MAX {
            return Err(damaged("a snappy chunk is too large"));
        }
        self.compressed.clear();
        let taken =
            self.source.by_ref().take(u64::from(length)).read_to_end(&mut self.compressed)?;
        if taken != length as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.chunk = unpack(&self.compressed)?;
        self.given = 0;
        let count = u32::try_from(self.chunk.len()).unwrap_or(u32::MAX);
        self.block_rest = self
            .block_rest
            .checked_sub(count)
            .ok_or_else(|| damaged("a snappy block is longer than it says"))?;
        Ok(true)
    }
}

impl<R: Read> Read for Snappy<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.chunk.len() {
            if !self.next_chunk()? {
                return Ok(0);
            }
        }
        let rest = &self.chunk[self.given..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}

fn unpack(compressed: &[u8]) -> io::Result<Vec<u8>> {
    let length = snap::raw::decompress_len(compressed).map_err(io::Error::other)?;
    if length > CHUNK_BYTES_MAX as usize {
        return Err(damaged("a snappy chunk is too large"));
    }
    snap::raw::Decoder::new().decompress_vec(compressed).map_err(io::Error::other)
}

fn damaged(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Four bytes; `None` if the stream ends before them.
fn read_length(source: &mut impl Read) -> io::Result<Option<u32>> {
    let mut bytes = [0; 4];
    let mut have = 0;
    while have < bytes.len() {
        match source.read(&mut bytes[have..])? {
            0 if have == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => have += count,
        }
    }
    Ok(Some(u32::from_be_bytes(bytes)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A block stream as Hadoop writes it: blocks of `block` bytes in chunks of `chunk`.
    pub(crate) fn packed(data: &[u8], block: usize, chunk: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for block in data.chunks(block) {
            out.extend(u32::try_from(block.len()).unwrap().to_be_bytes());
            for chunk in block.chunks(chunk) {
                let compressed = snap::raw::Encoder::new().compress_vec(chunk).unwrap();
                out.extend(u32::try_from(compressed.len()).unwrap().to_be_bytes());
                out.extend(compressed);
            }
        }
        out
    }

    #[test]
    fn blocks_and_chunks_join() {
        let data: Vec<u8> = (0..10_000u32).map(|n| (n / 7) as u8).collect();
        for (block, chunk) in [(10_000, 10_000), (1000, 300), (7, 3)] {
            let mut out = Vec::new();
            Snappy::new(&packed(&data, block, chunk)[..]).read_to_end(&mut out).unwrap();
            assert!(out == data, "{block} {chunk}");
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let bytes = packed(b"some text that repeats, text that repeats", 20, 20);
        let mut out = Vec::new();
        for end in 1..bytes.len() {
            out.clear();
            let whole = Snappy::new(&bytes[..end]).read_to_end(&mut out).is_ok();
            assert!(!whole || out.len() % 20 == 0, "{end}");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0xff;
            // Some flips make other text; none may make trouble.
            let _ = Snappy::new(&bytes[..]).read_to_end(&mut Vec::new());
        }
    }
}

//! Avro data files as one line of JSON per record.
//!
//! ```text
//! file    "Obj" 1, metadata, sync mark (16 bytes), blocks
//! meta    a map of texts to bytes: `avro.schema` is JSON, `avro.codec` a name (without it `null`)
//! block   long records, long stored bytes, those, sync mark
//! long    zigzag, seven bits a byte, low first
//! ```
//!
//! Invariants: reading is total; memory grows with the bytes read, not with the announced lengths, up to named limits; a truncated or damaged file is an error,
//! and nothing is printed of the record in which the damage appears.

mod json;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, Read};

use flate2::read::DeflateDecoder;
use mr_api::codec::FileCodec;

use json::{EMPTY_MAX, Problem, long};
use schema::Schema;

/// First bytes of a data file.
pub(super) const MAGIC: &[u8] = b"Obj\x01";
/// Longest block, stored and decompressed: 256 MiB. Writers end one after 16 KiB to 1 MiB, or after a record that is longer.
const BLOCK_BYTES_MAX: usize = 256 << 20;
/// All metadata of a file: 16 MiB, four times the longest schema.
const METADATA_BYTES_MAX: usize = 16 << 20;
const SYNC_BYTES: usize = 16;
/// Bytes of the checksum after a snappy block.
const CRC_BYTES: usize = 4;

/// The compression of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Codec {
    Null,
    Deflate,
    Snappy,
    Bzip2,
    Zstandard,
}

const CODECS: [(&str, Codec); 5] = [
    ("null", Codec::Null),
    ("deflate", Codec::Deflate),
    ("snappy", Codec::Snappy),
    ("bzip2", Codec::Bzip2),
    ("zstandard", Codec::Zstandard),
];

/// The records of a data file as text.
pub(super) struct Records<R> {
    from: R,
    schema: Schema,
    codec: Codec,
    sync: [u8; SYNC_BYTES],
    block: Block,
}

/// A block in memory.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    /// How many of its bytes are used.
    at: usize,
    /// Records still to be read.
    left: u64,
    /// Records that took no byte.
    empty_count: u64,
}

impl<R: Read> Records<R> {
    /// Reads the header.
    pub(super) fn new(mut from: R) -> io::Result<Self> {
        let mut magic = [0; MAGIC.len()];
        from.read_exact(&mut magic)?;
        if magic != MAGIC {
            return Err(damaged("it does not begin as an Avro file"));
        }
        let metadata = metadata(&mut from)?;
        let mut sync = [0; SYNC_BYTES];
        from.read_exact(&mut sync)?;
        let schema = metadata.get(&b"avro.schema"[..]).ok_or_else(|| damaged("no schema"))?;
        let schema = Schema::parse(schema).map_err(|what| damaged(&what))?;
        let name = metadata.get(&b"avro.codec"[..]).map_or(&b"null"[..], |name| name);
        let codec = CODECS.iter().find(|(known, _)| known.as_bytes() == name);
        let (_, codec) = codec.ok_or_else(|| {
            damaged(&format!("its codec {} is not known", String::from_utf8_lossy(name)))
        })?;
        Ok(Records { from, schema, codec: *codec, sync, block: Block::default() })
    }

    /// Appends the next record; false at the end.
    pub(super) fn append(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        while self.block.left == 0 {
            if self.block.at < self.block.bytes.len() {
                return Err(damaged("a block is longer than its records"));
            }
            if !self.next_block()? {
                return Ok(false);
            }
        }
        let block = &mut self.block;
        let mut rest = &block.bytes[block.at..];
        let before = rest.len();
        json::append(&self.schema, &mut rest, line).map_err(|what| damaged(&what))?;
        block.left -= 1;
        block.at += before - rest.len();
        if before == rest.len() {
            block.empty_count += 1;
            if block.empty_count > EMPTY_MAX {
                return Err(damaged(&json::too_many_empty()));
            }
        }
        Ok(true)
    }

    fn next_block(&mut self) -> io::Result<bool> {
        let Some(count) = read_long(&mut self.from)? else { return Ok(false) };
        let bytes = read_long(&mut self.from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let count =
            u64::try_from(count).map_err(|_| damaged("a block of fewer than no records"))?;
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= BLOCK_BYTES_MAX);
        let bytes = bytes.ok_or_else(|| damaged("a block is longer than 256 MiB"))?;
        let stored = take(&mut self.from, bytes)?;
        let mut sync = [0; SYNC_BYTES];
        self.from.read_exact(&mut sync)?;
        if sync != self.sync {
            return Err(damaged("a sync mark is wrong"));
        }
        let bytes = self.codec.decompress(stored)?;
        self.block = Block { bytes, left: count, ..Block::default() };
        Ok(true)
    }
}

impl Codec {
    fn decompress(self, stored: Vec<u8>) -> io::Result<Vec<u8>> {
        let (mut raw, raw_bytes_max) = (Vec::new(), BLOCK_BYTES_MAX as u64);
        match self {
            Codec::Null => return Ok(stored),
            Codec::Deflate => {
                DeflateDecoder::new(&stored[..]).take(raw_bytes_max + 1).read_to_end(&mut raw)?;
                if raw.len() as u64 > raw_bytes_max {
                    return Err(damaged("a block is longer than 256 MiB"));
                }
            }
            Codec::Snappy => {
                let (packed, crc) = stored
                    .split_last_chunk::<CRC_BYTES>()
                    .ok_or_else(|| damaged("a block is cut off"))?;
                let length = snap::raw::decompress_len(packed).map_err(io::Error::other)?;
                if length > BLOCK_BYTES_MAX {
                    return Err(damaged("a block is longer than 256 MiB"));
                }
                let unpacked = snap::raw::Decoder::new().decompress_vec(packed);
                raw = unpacked.map_err(io::Error::other)?;
                if crc32fast::hash(&raw) != u32::from_be_bytes(*crc) {
                    return Err(damaged("a block's checksum is wrong"));
                }
            }
            Codec::Bzip2 => FileCodec::Bzip2.decompress(&stored, raw_bytes_max, &mut raw)?,
            Codec::Zstandard => FileCodec::Zstd.decompress(&stored, raw_bytes_max, &mut raw)?,
        }
        Ok(raw)
    }
}

/// The metadata of a file.
fn metadata(from: &mut impl Read) -> io::Result<HashMap<Vec<u8>, Vec<u8>>> {
    let (mut entries, mut left) = (HashMap::new(), METADATA_BYTES_MAX);
    loop {
        let count = expect_long(from)?;
        if count == 0 {
            return Ok(entries);
        }
        if count < 0 {
            // The length in bytes, for readers that skip them.
            expect_long(from)?;
        }
        for _ in 0..count.unsigned_abs() {
            let (key, value) = (run(from, &mut left)?, run(from, &mut left)?);
            entries.insert(key, value);
        }
    }
}

/// Bytes that follow their length.
fn run(from: &mut impl Read, left: &mut usize) -> io::Result<Vec<u8>> {
    let bytes = usize::try_from(expect_long(from)?).ok();
    let rest = bytes.and_then(|bytes| left.checked_sub(bytes)?.checked_sub(1));
    let (Some(bytes), Some(rest)) = (bytes, rest) else {
        return Err(damaged("its metadata is longer than 16 MiB"));
    };
    *left = rest;
    take(from, bytes)
}

/// Reads this many bytes; memory grows as they arrive.
fn take(from: &mut impl Read, bytes: usize) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if from.take(bytes as u64).read_to_end(&mut out)? < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(out)
}

fn expect_long(from: &mut impl Read) -> io::Result<i64> {
    Ok(read_long(from)?.ok_or(io::ErrorKind::UnexpectedEof)?)
}

/// The next number; `None` at the end of the file.
fn read_long(from: &mut impl Read) -> io::Result<Option<i64>> {
    let mut bytes = Vec::with_capacity(LONG_BYTES_MAX);
    loop {
        let mut byte = [0];
        match from.read(&mut byte) {
            Ok(0) if bytes.is_empty() => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => bytes.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if byte[0] & 0x80 == 0 || bytes.len() == LONG_BYTES_MAX {
            let number = long(&mut &bytes[..]);
            return number.map(Some).ok_or_else(|| damaged("a number is too large"));
        }
    }
}

/// Bytes of a number of 64 bits.
const LONG_BYTES_MAX: usize = 10;

fn damaged(what: &str) -> io::Error {
    let what: Problem = format!("Avro file: {what}");
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Takes any bytes as a file, and as the one block of a file of each type: its schema, up to a zero byte, and the block.
#[cfg(any(test, fuzzing))]
pub(crate) fn avro_files(bytes: &[u8]) {
    let read = |file: &[u8]| -> io::Result<()> {
        let (mut records, mut line) = (Records::new(file)?, Vec::new());
        while records.append(&mut line)? {
            serde_json::from_slice::<serde::de::IgnoredAny>(&line).expect("a record is JSON");
            line.clear();
        }
        Ok(())
    };
    let _ = read(bytes);
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (schema, block) = (&bytes[..at], bytes.get(at + 1..).unwrap_or_default());
    let number = |file: &mut Vec<u8>, number: usize| {
        let mut left = (number as u64) << 1;
        while left >= 0x80 {
            file.push(left as u8 | 0x80);
            left >>= 7;
        }
        file.push(left as u8);
    };
    let mut file = [MAGIC, b"\x02\x16avro.schema"].concat();
    number(&mut file, schema.len());
    file.extend_from_slice(schema);
    file.extend_from_slice(&[0; 1 + SYNC_BYTES]);
    number(&mut file, block.first().copied().unwrap_or_default().into());
    let block = block.get(1..).unwrap_or_default();
    number(&mut file, block.len());
    file.extend_from_slice(block);
    file.extend_from_slice(&[0; SYNC_BYTES]);
    let _ = read(&file);
}

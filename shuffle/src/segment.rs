//! Format of a segment: the records of one partition, in key order, as blocks and an end record.
//!
//! ```text
//! block*  end record            (both described in block.rs)
//! ```
//!
//! Invariants: keys never decrease; every block can be read without the one before it; the end record repeats the number of records and raw
//! bytes, which reveals a segment cut off between blocks; an empty segment is only an end record.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::block::{
    BLOCK_RAW_BYTES, HEADER_BYTES, Header, VARINT_BYTES_MAX, put_varint, take_varint,
};
use crate::codec::Codec;
use crate::error::{Damage, Error, Origin, RECORD_BYTES_MAX, Result, io_error};
use crate::key::{common_prefix, prefix};

/// The origin of one sorted segment.
#[derive(Debug)]
pub enum SegmentSource {
    /// A range of an open file, for instance a received descriptor. Errors name the position of the source.
    File {
        /// The file; it can be shared, because reads are positioned.
        file: Arc<File>,
        /// Offset of the segment.
        offset: u64,
        /// Its length as stored.
        stored: u64,
    },
    /// A range of a file that is opened only while it is merged. Errors name the path.
    Path {
        /// The file.
        path: PathBuf,
        /// Offset of the segment.
        offset: u64,
        /// Its length as stored.
        stored: u64,
    },
    /// As [`SegmentSource::Path`], but for a file that others made and can remove. Errors name the position of the source.
    Lent {
        /// The file.
        path: Arc<Path>,
        /// Offset of the segment.
        offset: u64,
        /// Its length as stored.
        stored: u64,
    },
    /// A fetched segment.
    Memory(Vec<u8>),
}

impl SegmentSource {
    pub(crate) fn stored(&self) -> u64 {
        match self {
            Self::File { stored, .. } | Self::Path { stored, .. } | Self::Lent { stored, .. } => {
                *stored
            }
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }
}

/// The totals of a whole segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentTotals {
    /// Records.
    pub records: u64,
    /// Bytes of the blocks before compression.
    pub raw: u64,
}

/// Reads a fetched segment completely, checks everything in it, and returns its totals.
///
/// Errors name [`Origin::Source`] 0 and the offset in `bytes`.
pub fn verify_segment(bytes: &[u8]) -> Result<SegmentTotals> {
    let mut reader =
        SegmentReader::over(Input::Borrowed(bytes), Origin::Source(0), 0, bytes.len() as u64);
    while reader.advance()? {}
    Ok(reader.totals)
}

/// Encodes one segment after the other into a byte buffer that its owner empties from time to time.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    codec: Codec,
    block: Vec<u8>,
    block_records: u32,
    key: Vec<u8>,
    totals: SegmentTotals,
}

impl SegmentWriter {
    pub(crate) fn new(codec: Codec) -> Self {
        Self {
            codec,
            block: Vec::new(),
            block_records: 0,
            key: Vec::new(),
            totals: SegmentTotals::default(),
        }
    }

    /// Adds a record whose key is not below the one before.
    #[inline]
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        let worst = key.len() + value.len() + 3 * VARINT_BYTES_MAX;
        if self.block.len() + worst > BLOCK_RAW_BYTES && self.block_records > 0 {
            self.close_block(out);
        }
        let shared = if self.block_records == 0 { 0 } else { common_prefix(&self.key, key) };
        debug_assert!(self.block_records == 0 || self.key.as_slice() <= key, "keys never decrease");
        self.key.truncate(shared);
        self.key.extend_from_slice(&key[shared..]);
        put_varint(&mut self.block, shared as u32);
        put_varint(&mut self.block, (key.len() - shared) as u32);
        put_varint(&mut self.block, value.len() as u32);
        self.block.extend_from_slice(&key[shared..]);
        self.block.extend_from_slice(value);
        self.block_records += 1;
    }

    /// Ends the segment; the writer is then ready for the next.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> SegmentTotals {
        if self.block_records > 0 {
            self.close_block(out);
        }
        let totals = std::mem::take(&mut self.totals);
        out.extend_from_slice(&Header::End { records: totals.records, raw: totals.raw }.encode());
        totals
    }

    fn close_block(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + HEADER_BYTES, 0);
        let codec = self.codec.compress(&self.block, out);
        let payload = &out[start + HEADER_BYTES..];
        let header = Header::Block {
            codec,
            raw: u32::try_from(self.block.len())
                .expect("a block holds 64 KiB or one record, which is limited"),
            stored: u32::try_from(payload.len()).expect("stored is never longer than raw"),
            records: self.block_records,
            crc: crc32fast::hash(payload),
        };
        out[start..start + HEADER_BYTES].copy_from_slice(&header.encode());
        self.totals.records += u64::from(self.block_records);
        self.totals.raw += self.block.len() as u64;
        self.block.clear();
        self.block.shrink_to(2 * BLOCK_RAW_BYTES);
        self.block_records = 0;
    }
}

/// The bytes of a segment.
#[derive(Debug)]
enum Input<'a> {
    File(Arc<File>),
    Memory(Vec<u8>),
    Borrowed(&'a [u8]),
}

/// Reads a segment record by record, checking all of it.
///
/// Memory: one block as stored (files only) and one raw, so about [`READER_BYTES`] unless a record is longer.
#[derive(Debug)]
pub(crate) struct SegmentReader<'a> {
    input: Input<'a>,
    origin: Origin,
    /// Offset of the next header, and of the end of the segment, in the file or memory.
    next: u64,
    end: u64,
    /// Offset of the header of the current block, for errors.
    block: u64,
    stored: Vec<u8>,
    raw: Vec<u8>,
    at: usize,
    records_left: u32,
    block_start: bool,
    done: bool,
    totals: SegmentTotals,
    key: Vec<u8>,
    prefix: u64,
    value: (usize, usize),
    same_key: bool,
}

/// Buffer memory of one open segment with records shorter than a block.
pub(crate) const READER_BYTES: usize = 2 * BLOCK_RAW_BYTES + (4 << 10);

impl SegmentReader<'static> {
    /// Opens `source`; `index` is its position in the caller's list.
    pub(crate) fn open(source: SegmentSource, index: usize) -> Result<Self> {
        Ok(match source {
            SegmentSource::File { file, offset, stored } => {
                Self::over(Input::File(file), Origin::Source(index), offset, stored)
            }
            SegmentSource::Path { path, offset, stored } => {
                let file = File::open(&path).map_err(io_error("open", &path))?;
                Self::over(Input::File(Arc::new(file)), Origin::File(path), offset, stored)
            }
            SegmentSource::Lent { path, offset, stored } => {
                let fail = |source| Error::SourceIo { index, offset, source };
                let file = Arc::new(File::open(&path).map_err(fail)?);
                Self::over(Input::File(file), Origin::Source(index), offset, stored)
            }
            SegmentSource::Memory(bytes) => {
                let stored = bytes.len() as u64;
                Self::over(Input::Memory(bytes), Origin::Source(index), 0, stored)
            }
        })
    }

    /// Opens a segment of a file of our own that is already open.
    pub(crate) fn in_file(file: Arc<File>, path: PathBuf, offset: u64, stored: u64) -> Self {
        Self::over(Input::File(file), Origin::File(path), offset, stored)
    }
}

impl<'a> SegmentReader<'a> {
    fn over(input: Input<'a>, origin: Origin, offset: u64, stored: u64) -> Self {
        Self {
            input,
            origin,
            next: offset,
            end: offset.saturating_add(stored),
            block: offset,
            stored: Vec::new(),
            raw: Vec::new(),
            at: 0,
            records_left: 0,
            block_start: false,
            done: false,
            totals: SegmentTotals::default(),
            key: Vec::new(),
            prefix: 0,
            value: (0, 0),
            same_key: false,
        }
    }

    /// Moves to the next record; false at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if self.records_left == 0 && !self.next_block()? {
            return Ok(false);
        }
        self.records_left -= 1;
        if self.decode_record().is_none() {
            Err(self.corrupt(self.block, Damage::Record))
        } else {
            Ok(true)
        }
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(crate) fn prefix(&self) -> u64 {
        self.prefix
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        &self.raw[self.value.0..self.value.1]
    }

    /// True if the record has the key of the one before it in this segment.
    #[inline]
    pub(crate) fn same_key(&self) -> bool {
        self.same_key
    }

    #[inline]
    fn decode_record(&mut self) -> Option<()> {
        let mut at = self.at;
        let shared = take_varint(&self.raw, &mut at)? as usize;
        let suffix_bytes = take_varint(&self.raw, &mut at)? as usize;
        let value_bytes = take_varint(&self.raw, &mut at)? as usize;
        let key_end = at.checked_add(suffix_bytes)?;
        let value_end = key_end.checked_add(value_bytes)?;
        let suffix = self.raw.get(at..key_end)?;
        if value_end > self.raw.len() || shared > self.key.len() || (self.block_start && shared > 0)
        {
            return None;
        }
        if self.block_start {
            self.block_start = false;
            self.same_key = self.key == suffix;
        } else {
            self.same_key = suffix_bytes == 0 && shared == self.key.len();
        }
        if !self.same_key {
            self.key.truncate(shared);
            self.key.extend_from_slice(suffix);
            if shared < 8 {
                self.prefix = prefix(&self.key);
            }
        }
        self.value = (key_end, value_end);
        self.at = value_end;
        Some(())
    }

    #[cold]
    fn next_block(&mut self) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        if self.at != self.raw.len() {
            return Err(self.corrupt(self.block, Damage::Record));
        }
        self.block = self.next;
        if self.end - self.next < HEADER_BYTES as u64 {
            return Err(self.corrupt(self.next, Damage::Truncated));
        }
        let header = self.header()?;
        let body = self.next + HEADER_BYTES as u64;
        match header {
            Header::End { records, raw } => {
                if (SegmentTotals { records, raw }) != self.totals {
                    return Err(self.corrupt(self.next, Damage::Totals));
                }
                if body != self.end {
                    return Err(self.corrupt(body, Damage::TrailingBytes));
                }
                self.done = true;
                Ok(false)
            }
            Header::Block { codec, raw, stored, records, crc } => {
                let damage = if records == 0 || raw as usize > BLOCK_RAW_BYTES_LIMIT {
                    Some(Damage::Length)
                } else if u64::from(stored) + HEADER_BYTES as u64 > self.end - body {
                    Some(Damage::Truncated)
                } else if !codec.lengths_possible(stored as usize, raw as usize) {
                    Some(Damage::Length)
                } else {
                    None
                };
                if let Some(damage) = damage {
                    return Err(self.corrupt(self.next, damage));
                }
                self.load_block(codec, raw as usize, stored as usize, crc)?;
                self.totals.records += u64::from(records);
                self.totals.raw += u64::from(raw);
                self.records_left = records;
                self.block_start = true;
                self.at = 0;
                self.next = body + u64::from(stored);
                Ok(true)
            }
        }
    }

    /// The header at `next`. In a file it was read together with the block before it.
    fn header(&mut self) -> Result<Header> {
        if let Input::File(_) = self.input
            && self.stored.is_empty()
        {
            self.read_file(self.next, HEADER_BYTES)?;
        }
        let bytes: Option<[u8; HEADER_BYTES]> = match &self.input {
            Input::File(_) => self.stored.last_chunk().copied(),
            Input::Memory(bytes) => bytes[self.next as usize..].first_chunk().copied(),
            Input::Borrowed(bytes) => bytes[self.next as usize..].first_chunk().copied(),
        };
        let bytes = bytes.ok_or_else(|| self.corrupt(self.next, Damage::Truncated))?;
        Header::decode(&bytes).map_err(|damage| self.corrupt(self.next, damage))
    }

    fn load_block(&mut self, codec: Codec, raw: usize, stored: usize, crc: u32) -> Result<()> {
        let start = self.next + HEADER_BYTES as u64;
        if let Input::File(_) = self.input {
            self.read_file(start, stored + HEADER_BYTES)?;
        }
        let payload = match &self.input {
            Input::File(_) => &self.stored[..stored],
            Input::Memory(bytes) => &bytes[start as usize..start as usize + stored],
            Input::Borrowed(bytes) => &bytes[start as usize..start as usize + stored],
        };
        let checked = if crc32fast::hash(payload) == crc {
            self.raw.shrink_to(raw.max(2 * BLOCK_RAW_BYTES));
            codec.decompress(payload, raw, &mut self.raw)
        } else {
            Err(Damage::PayloadChecksum)
        };
        checked.map_err(|damage| self.corrupt(self.next, damage))
    }

    fn read_file(&mut self, offset: u64, len: usize) -> Result<()> {
        let Input::File(file) = &self.input else { return Ok(()) };
        self.stored.resize(len, 0);
        self.stored.shrink_to(len.max(2 * BLOCK_RAW_BYTES));
        match file.read_exact_at(&mut self.stored, offset) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.corrupt(offset, Damage::Truncated))
            }
            Err(source) => Err(match &self.origin {
                Origin::File(path) => Error::Io { operation: "read", path: path.clone(), source },
                Origin::Source(index) => Error::SourceIo { index: *index, offset, source },
            }),
        }
    }

    fn corrupt(&self, offset: u64, damage: Damage) -> Error {
        Error::Corrupt { origin: self.origin.clone(), offset, damage }
    }
}

/// Longest accepted raw form of a block: one record of the greatest size.
const BLOCK_RAW_BYTES_LIMIT: usize = RECORD_BYTES_MAX + 3 * VARINT_BYTES_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(codec: Codec, records: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let (mut writer, mut out) = (SegmentWriter::new(codec), Vec::new());
        for (key, value) in records {
            writer.push(&mut out, key, value);
        }
        writer.finish(&mut out);
        out
    }

    fn read(source: SegmentSource) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut reader = SegmentReader::open(source, 3)?;
        let mut records: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        while reader.advance()? {
            assert_eq!(reader.prefix(), prefix(reader.key()));
            if let Some((key, _)) = records.last() {
                assert_eq!(reader.same_key(), key == reader.key());
            }
            records.push((reader.key().to_vec(), reader.value().to_vec()));
        }
        Ok(records)
    }

    fn small() -> Vec<(Vec<u8>, Vec<u8>)> {
        [("", ""), ("", "x"), ("abc", "1"), ("abd", ""), ("abd", "2")]
            .map(|(key, value)| (key.into(), value.into()))
            .to_vec()
    }

    /// Several blocks, a long record, and keys repeated across blocks.
    fn large() -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut records: Vec<_> = (0..9000u32)
            .map(|i| (format!("key {:05}", i / 700).into_bytes(), i.to_be_bytes().to_vec()))
            .collect();
        records.push((vec![b'z'; 1 << 20], vec![7; 3 << 16]));
        records.push((vec![b'z'; (1 << 20) + 1], vec![]));
        records
    }

    #[test]
    fn golden_segment() {
        let bytes = segment(Codec::None, &small());
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let (block, end) = (&hex[..2 * (HEADER_BYTES + 22)], &hex[2 * (HEADER_BYTES + 22)..]);
        assert_eq!(&block[..32], "53420100160000001600000005000000");
        assert_eq!(&block[48..], "0000000000017800030161626331020100640300".to_owned() + "0132");
        assert_eq!(end, "534201ff05000000000000001600000000000000b8529b7b");
        assert_eq!(segment(Codec::Lz4, &[]).len(), HEADER_BYTES);
    }

    #[test]
    fn round_trips_from_memory_and_files() {
        let dir = tempfile::tempdir().unwrap();
        for records in [vec![], small(), large()] {
            for codec in [Codec::None, Codec::Lz4] {
                let bytes = segment(codec, &records);
                let totals = verify_segment(&bytes).unwrap();
                assert_eq!(totals.records, records.len() as u64);
                let path = dir.path().join("segment");
                std::fs::write(&path, [b"before".as_slice(), &bytes, b"after"].concat()).unwrap();
                let (offset, stored) = (6, bytes.len() as u64);
                let file = Arc::new(File::open(&path).unwrap());
                assert_eq!(read(SegmentSource::File { file, offset, stored }).unwrap(), records);
                let lent = SegmentSource::Lent { path: path.as_path().into(), offset, stored };
                assert_eq!(read(lent).unwrap(), records);
                assert_eq!(read(SegmentSource::Path { path, offset, stored }).unwrap(), records);
                assert_eq!(read(SegmentSource::Memory(bytes)).unwrap(), records);
            }
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        for codec in [Codec::None, Codec::Lz4] {
            let mut records = small();
            records.push((vec![b'b'; 90], vec![b'b'; 90]));
            let good = segment(codec, &records);
            for bit in 0..good.len() * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(matches!(verify_segment(&bad), Err(Error::Corrupt { .. })), "bit {bit}");
            }
            for cut in 0..good.len() {
                assert!(
                    matches!(verify_segment(&good[..cut]), Err(Error::Corrupt { .. })),
                    "cut {cut}"
                );
            }
            let longer = [good.as_slice(), &[0]].concat();
            let error = verify_segment(&longer).unwrap_err();
            assert!(matches!(error, Error::Corrupt { damage: Damage::TrailingBytes, .. }));
        }
    }

    #[test]
    fn a_lent_file_that_was_taken_away_names_its_source() {
        let directory = tempfile::tempdir().unwrap();
        let lent = SegmentSource::Lent {
            path: directory.path().join("gone").into(),
            offset: 7,
            stored: 9,
        };
        let error = SegmentReader::open(lent, 3).unwrap_err();
        assert!(matches!(error, Error::SourceIo { index: 3, offset: 7, .. }), "{error}");
    }

    #[test]
    fn damage_names_file_and_offset() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map-7.data");
        let mut bytes = segment(Codec::None, &large());
        let stored = bytes.len() as u64;
        let inside = BLOCK_RAW_BYTES + 500; // the second block, as the first is closed below 64 KiB
        bytes[inside] ^= 4;
        std::fs::write(&path, [&[0; 100], bytes.as_slice()].concat()).unwrap();
        let source = || SegmentSource::Path { path: path.clone(), offset: 100, stored };
        match read(source()).unwrap_err() {
            Error::Corrupt {
                origin: Origin::File(named),
                offset,
                damage: Damage::PayloadChecksum,
            } => {
                assert_eq!(named, path);
                assert!((100 + HEADER_BYTES as u64..inside as u64).contains(&offset), "{offset}");
            }
            other => panic!("{other}"),
        }
        // The file itself is shorter than its index says.
        std::fs::write(&path, [&[0; 100], &bytes[..5000]].concat()).unwrap();
        assert!(matches!(read(source()), Err(Error::Corrupt { damage: Damage::Truncated, .. })));
        let memory = read(SegmentSource::Memory(bytes)).unwrap_err();
        assert!(memory.to_string().starts_with("shuffle source 3 is corrupt at byte "), "{memory}");
    }

    #[test]
    fn a_missing_block_is_noticed() {
        let bytes = segment(Codec::None, &large());
        let first: &[u8; HEADER_BYTES] = bytes.first_chunk().unwrap();
        let Ok(Header::Block { stored, .. }) = Header::decode(first) else { panic!("{first:?}") };
        let without = &bytes[HEADER_BYTES + stored as usize..];
        let error = verify_segment(without).unwrap_err();
        assert!(matches!(error, Error::Corrupt { damage: Damage::Totals, .. }), "{error}");
    }

    /// Matching checksums do not make a malformed block harmless.
    #[test]
    fn forged_blocks_are_refused() {
        let check = |raw: &[u8], records: u32, want: Damage| {
            let header = Header::Block {
                codec: Codec::None,
                raw: raw.len() as u32,
                stored: raw.len() as u32,
                records,
                crc: crc32fast::hash(raw),
            };
            let end = Header::End { records: records.into(), raw: raw.len() as u64 };
            let bytes = [&header.encode(), raw, &end.encode()].concat();
            match verify_segment(&bytes) {
                Err(Error::Corrupt { damage, .. }) => assert_eq!(damage, want, "{raw:?}"),
                other => panic!("{raw:?}: {other:?}"),
            }
        };
        check(&[1, 0, 0], 1, Damage::Record); // shares with a key that does not exist
        check(&[0, 5, 0, b'a'], 1, Damage::Record); // key beyond the block
        check(&[0, 0, 5], 1, Damage::Record); // value beyond the block
        check(&[0, 1, 0, b'a', 2, 0, 0], 2, Damage::Record); // shares more than there is
        check(&[0, 0, 0], 2, Damage::Record); // fewer records than announced
        check(&[0, 0, 0, 0], 1, Damage::Record); // bytes left over
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 1, Damage::Record);
        check(&[], 0, Damage::Length);
        let huge =
            Header::Block { codec: Codec::Lz4, raw: u32::MAX, stored: 1, records: 1, crc: 0 };
        let bytes = [huge.encode().as_slice(), &[0; 30]].concat();
        assert!(matches!(
            verify_segment(&bytes),
            Err(Error::Corrupt { damage: Damage::Length, .. })
        ));
    }
}

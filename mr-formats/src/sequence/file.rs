//! Hadoop's SequenceFile: binary pairs with sync marks, plain or compressed by record or by block; Hadoop can read our files and we can
//! read Hadoop's.
//!
//! ```text
//! header   "SEQ" 6, key class, value class (VInt length, UTF-8), compressed? block? (1 byte each), codec class if compressed,
//!          metadata (u32 count, pairs of text), sync mark (16 bytes)
//! record   u32 record length, u32 key length, key, value (compressed by itself if the file says so)
//! sync     u32 0xFFFFFFFF, sync mark; before a record when at least 2000 bytes lie since the last
//! block    sync, VInt count, then four times VInt stored length and compressed bytes: key lengths, keys, value lengths, values
//! ```
//!
//! Invariants: reading accepts any bytes and checks lengths before it allocates memory; a split owns the records after the first sync mark
//! at or after its start, up to the first mark at or after its end, so each record belongs to exactly one split.

use std::io::{self, Read, Write};

use crate::codec::FileCodec;
use crate::writable::{put_vint, take_vint, vint_rest};

/// First bytes of every file.
pub const MAGIC: [u8; 3] = *b"SEQ";
const VERSION: u8 = 6;
const SYNC_BYTES: usize = 16;
const ESCAPE: u32 = u32::MAX;
/// Bytes between sync marks in a written file: Hadoop's.
const SYNC_INTERVAL: u64 = 2000;
/// Raw bytes of a written block: Hadoop's `io.seqfile.compress.blocksize`.
const BLOCK_BYTES: usize = 1_000_000;
/// Longest accepted key, value, block or name (1 GiB).
const BYTES_MAX: usize = 1 << 30;
/// Longest name of a class or piece of metadata.
const NAME_BYTES_MAX: usize = 64 << 10;

/// How records are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not compressed.
    None,
    /// Each value by itself.
    Record(FileCodec),
    /// Many records together.
    Block(FileCodec),
}

/// The header of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Java class of keys.
    pub key_class: String,
    /// Java class of values.
    pub value_class: String,
    /// How records are compressed.
    pub compression: Compression,
    /// Arbitrary pairs.
    pub metadata: Vec<(String, String)>,
    sync: [u8; SYNC_BYTES],
}

/// Reads bytes in sequence and tracks the position.
struct Cursor<R> {
    from: R,
    /// Bytes read and not yet used: `buffer[start..]`.
    buffer: Vec<u8>,
    start: usize,
    /// Position of `start` in the file.
    at: u64,
}

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;

impl<R: Read> Cursor<R> {
    fn new(from: R, at: u64) -> Self {
        Cursor { from, buffer: Vec::new(), start: 0, at }
    }

    /// Reads until `count` bytes are available; false if the file ends earlier.
    fn fill(&mut self, count: usize) -> io::Result<bool> {
        if self.buffer.len() - self.start >= count {
            return Ok(true);
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        while self.buffer.len() < count {
            // Memory grows with the bytes that arrive, not with the claimed length.
            let wanted = CHUNK_BYTES as u64;
            if self.from.by_ref().take(wanted).read_to_end(&mut self.buffer)? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn advance(&mut self, count: usize) {
        self.start += count;
        self.at += count as u64;
    }

    fn exact(&mut self, count: usize, out: &mut Vec<u8>) -> io::Result<()> {
        if !self.fill(count)? {
            return Err(damaged("the file is cut off"));
        }
        out.clear();
        out.extend_from_slice(&self.buffer[self.start..self.start + count]);
        self.advance(count);
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        if !self.fill(N)? {
            return Err(damaged("the file is cut off"));
        }
        let bytes = *self.buffer[self.start..].first_chunk::<N>().expect("filled");
        self.advance(N);
        Ok(bytes)
    }

    /// The next four bytes; `None` at the end of the file.
    fn word(&mut self) -> io::Result<Option<u32>> {
        if !self.fill(1)? {
            return Ok(None);
        }
        Ok(Some(u32::from_be_bytes(self.array()?)))
    }

    fn vint(&mut self) -> io::Result<usize> {
        let first = self.array::<1>()?[0];
        let (count, negative) = vint_rest(first);
        let negative = negative || (count == 0 && (first as i8) < 0);
        if negative {
            return Err(damaged("a negative length"));
        }
        if count == 0 {
            return Ok(first.into());
        }
        let mut value = 0u64;
        for _ in 0..count {
            value = value << 8 | u64::from(self.array::<1>()?[0]);
        }
        length(value)
    }

    fn text(&mut self) -> io::Result<String> {
        let count = self.vint()?;
        if count > NAME_BYTES_MAX {
            return Err(damaged("a name is too long"));
        }
        let mut bytes = Vec::new();
        self.exact(count, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| damaged("a name is not UTF-8"))
    }
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("sequence file: {what}"))
}

fn length(value: u64) -> io::Result<usize> {
    match usize::try_from(value) {
        Ok(length) if length <= BYTES_MAX => Ok(length),
        _ => Err(damaged("a length is beyond 1 GiB")),
    }
}

fn read_header<R: Read>(cursor: &mut Cursor<R>) -> io::Result<Header> {
    if cursor.array::<3>()? != MAGIC {
        return Err(damaged("it does not begin with SEQ"));
    }
    if cursor.array::<1>()?[0] != VERSION {
        return Err(damaged("only version 6 is known"));
    }
    let (key_class, value_class) = (cursor.text()?, cursor.text()?);
    let [compressed, block] = cursor.array::<2>()?;
    let compression = if compressed != 0 {
        let class = cursor.text()?;
        let codec = FileCodec::of_class(&class).ok_or_else(|| damaged("an unknown codec"))?;
        if block != 0 { Compression::Block(codec) } else { Compression::Record(codec) }
    } else {
        Compression::None
    };
    let mut metadata = Vec::new();
    for _ in 0..u32::from_be_bytes(cursor.array()?) {
        metadata.push((cursor.text()?, cursor.text()?));
    }
    Ok(Header { key_class, value_class, compression, metadata, sync: cursor.array()? })
}

/// Reads the records of a file, or of a split of it.
pub struct SequenceReader<R> {
    cursor: Cursor<R>,
    header: Header,
    /// Where the split ends.
    end: u64,
    finished: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    stored: Vec<u8>,
    block: Block,
}

/// A block and how much of it has been handed out.
#[derive(Default)]
struct Block {
    left: usize,
    lengths: [Vec<u8>; 2],
    bytes: [Vec<u8>; 2],
    at: [(usize, usize); 2],
}

impl<R: Read> SequenceReader<R> {
    /// Reads all of a file.
    ///
    /// # Errors
    /// If it is not a SequenceFile.
    pub fn new(from: R) -> io::Result<Self> {
        let mut cursor = Cursor::new(from, 0);
        let header = read_header(&mut cursor)?;
        Ok(Self::with(cursor, header, u64::MAX))
    }

    /// Reads the records of the split `start..end`. `open` opens the file at an offset.
    ///
    /// # Errors
    /// If it is not a SequenceFile.
    pub fn split(start: u64, end: u64, mut open: impl FnMut(u64) -> R) -> io::Result<Self> {
        let mut cursor = Cursor::new(open(0), 0);
        let header = read_header(&mut cursor)?;
        let mut reader = Self::with(cursor, header, end);
        if start > reader.cursor.at {
            reader.cursor = Cursor::new(open(start), start);
        }
        if start > 0 {
            // This also applies if the split begins within the header: records before the first mark belong to the split before.
            reader.finished = !reader.find_sync()?;
        }
        Ok(reader)
    }

    fn with(cursor: Cursor<R>, header: Header, end: u64) -> Self {
        let (key, value, stored) = (Vec::new(), Vec::new(), Vec::new());
        let block = Block::default();
        SequenceReader { cursor, header, end, finished: false, key, value, stored, block }
    }

    /// The file's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where the next record (or its block) begins.
    pub fn position(&self) -> u64 {
        self.cursor.at
    }

    /// The next pair as serialised Writables; `None` at the end.
    ///
    /// # Errors
    /// If the file is damaged or cannot be read.
    pub fn next_pair(&mut self) -> io::Result<Option<(&[u8], &[u8])>> {
        if let Compression::Block(codec) = self.header.compression {
            while self.block.left == 0 {
                if self.finished || !self.next_block(codec)? {
                    return Ok(None);
                }
            }
            return self.block.next().map(Some);
        }
        if self.finished || !self.next_record()? {
            return Ok(None);
        }
        Ok(Some((&self.key, &self.value)))
    }

    fn next_record(&mut self) -> io::Result<bool> {
        let length = loop {
            let at = self.cursor.at;
            match self.cursor.word()? {
                None => return Ok(false),
                Some(ESCAPE) => {
                    self.expect_sync()?;
                    if at >= self.end {
                        self.finished = true;
                        return Ok(false);
                    }
                }
                Some(record) => break length(u64::from(record))?,
            }
        };
        let key = u32::from_be_bytes(self.cursor.array()?) as usize;
        let value =
            length.checked_sub(key).ok_or_else(|| damaged("a key is longer than its record"))?;
        self.cursor.exact(key, &mut self.key)?;
        match self.header.compression {
            Compression::Record(codec) => {
                self.cursor.exact(value, &mut self.stored)?;
                self.value.clear();
                codec.decompress(&self.stored, BYTES_MAX as u64, &mut self.value)?;
            }
            _ => self.cursor.exact(value, &mut self.value)?,
        }
        Ok(true)
    }

    fn next_block(&mut self, codec: FileCodec) -> io::Result<bool> {
        let at = self.cursor.at;
        match self.cursor.word()? {
            None => return Ok(false),
            Some(ESCAPE) => self.expect_sync()?,
            Some(_) => return Err(damaged("a block does not begin with a sync mark")),
        }
        if at >= self.end {
            self.finished = true;
            return Ok(false);
        }
        self.block.left = self.cursor.vint()?;
        self.block.at = [(0, 0); 2];
        for part in 0..2 {
            for target in [&mut self.block.lengths[part], &mut self.block.bytes[part]] {
                let count = self.cursor.vint()?;
                self.cursor.exact(count, &mut self.stored)?;
                target.clear();
                codec.decompress(&self.stored, BYTES_MAX as u64, target)?;
            }
        }
        Ok(true)
    }

    fn expect_sync(&mut self) -> io::Result<()> {
        if self.cursor.array::<SYNC_BYTES>()? == self.header.sync {
            Ok(())
        } else {
            Err(damaged("a sync mark is wrong"))
        }
    }

    /// Moves to the first sync mark at or after the current position; false if there is none before the end of the split.
    fn find_sync(&mut self) -> io::Result<bool> {
        let mark = [&ESCAPE.to_be_bytes()[..], &self.header.sync].concat();
        let finder = memchr::memmem::Finder::new(&mark);
        while self.cursor.fill(mark.len())? && self.cursor.at < self.end {
            let rest = &self.cursor.buffer[self.cursor.start..];
            if let Some(found) = finder.find(rest) {
                self.cursor.advance(found);
                return Ok(self.cursor.at < self.end);
            }
            let searched = rest.len() - (mark.len() - 1);
            self.cursor.advance(searched);
        }
        Ok(false)
    }
}

impl Block {
    fn next(&mut self) -> io::Result<(&[u8], &[u8])> {
        self.left -= 1;
        let mut ranges = [0..0, 0..0];
        for (part, range) in ranges.iter_mut().enumerate() {
            let (lengths_at, bytes_at) = self.at[part];
            let mut rest = &self.lengths[part][lengths_at..];
            let count = take_vint(&mut rest).map_err(|_| damaged("a block lacks lengths"))?;
            let count = u64::try_from(count).map_err(|_| damaged("a negative length"))?;
            let end = bytes_at.saturating_add(length(count)?);
            if end > self.bytes[part].len() {
                return Err(damaged("a record is longer than its block"));
            }
            self.at[part] = (self.lengths[part].len() - rest.len(), end);
            *range = bytes_at..end;
        }
        let [key, value] = ranges;
        Ok((&self.bytes[0][key], &self.bytes[1][value]))
    }
}

/// Writes a file.
pub struct SequenceWriter<W> {
    to: W,
    compression: Compression,
    sync: [u8; SYNC_BYTES],
    since_sync: u64,
    scratch: Vec<u8>,
    count: u64,
    lengths: [Vec<u8>; 2],
    bytes: [Vec<u8>; 2],
}

impl<W: Write> SequenceWriter<W> {
    /// Begins a file. `sync` should differ from file to file, because a mark must not occur in data by accident.
    ///
    /// # Errors
    /// Errors of the target.
    pub fn new(
        mut to: W,
        key_class: &str,
        value_class: &str,
        compression: Compression,
        sync: [u8; SYNC_BYTES],
    ) -> io::Result<Self> {
        let mut header = [&MAGIC[..], &[VERSION]].concat();
        let text = |text: &str, out: &mut Vec<u8>| {
            put_vint(text.len() as i64, out);
            out.extend_from_slice(text.as_bytes());
        };
        text(key_class, &mut header);
        text(value_class, &mut header);
        match compression {
            Compression::None => header.extend([0, 0]),
            Compression::Record(codec) => {
                header.extend([1, 0]);
                text(&codec.class(), &mut header);
            }
            Compression::Block(codec) => {
                header.extend([1, 1]);
                text(&codec.class(), &mut header);
            }
        }
        header.extend([0; 4]);
        header.extend(sync);
        to.write_all(&header)?;
        Ok(SequenceWriter {
            to,
            compression,
            sync,
            since_sync: 0,
            scratch: Vec::new(),
            count: 0,
            lengths: [Vec::new(), Vec::new()],
            bytes: [Vec::new(), Vec::new()],
        })
    }

    /// Adds a pair of serialised Writables.
    ///
    /// # Errors
    /// Errors of the target.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if key.len() + value.len() > BYTES_MAX {
            return Err(damaged("a record is longer than 1 GiB"));
        }
        let compressed;
        let value = match self.compression {
            Compression::None => value,
            Compression::Record(codec) => {
                compressed = codec.compress(value)?;
                &compressed
            }
            Compression::Block(_) => {
                for (part, bytes) in [key, value].into_iter().enumerate() {
                    put_vint(bytes.len() as i64, &mut self.lengths[part]);
                    self.bytes[part].extend_from_slice(bytes);
                }
                self.count += 1;
                let full = self.bytes[0].len() + self.bytes[1].len() >= BLOCK_BYTES;
                return if full { self.write_block() } else { Ok(()) };
            }
        };
        self.scratch.clear();
        if self.since_sync >= SYNC_INTERVAL {
            self.scratch.extend(ESCAPE.to_be_bytes());
            self.scratch.extend(self.sync);
            self.since_sync = 0;
        }
        self.scratch.extend(((key.len() + value.len()) as u32).to_be_bytes());
        self.scratch.extend((key.len() as u32).to_be_bytes());
        self.scratch.extend_from_slice(key);
        self.since_sync += (8 + key.len() + value.len()) as u64;
        self.to.write_all(&self.scratch)?;
        self.to.write_all(value)
    }

    /// Writes the records that wait for their block to fill.
    pub(crate) fn write_block(&mut self) -> io::Result<()> {
        let Compression::Block(codec) = self.compression else { return Ok(()) };
        if self.count == 0 {
            return Ok(());
        }
        self.scratch.clear();
        self.scratch.extend(ESCAPE.to_be_bytes());
        self.scratch.extend(self.sync);
        put_vint(self.count as i64, &mut self.scratch);
        for part in 0..2 {
            for raw in [&mut self.lengths[part], &mut self.bytes[part]] {
                let stored = codec.compress(raw)?;
                put_vint(stored.len() as i64, &mut self.scratch);
                self.scratch.extend(stored);
                raw.clear();
            }
        }
        self.count = 0;
        self.to.write_all(&self.scratch)
    }

    /// The target of the bytes written so far.
    pub(crate) fn target(&mut self) -> &mut W {
        &mut self.to
    }

    /// Writes the remaining records and returns the target.
    ///
    /// # Errors
    /// Errors of the target.
    pub fn end(mut self) -> io::Result<W> {
        self.write_block()?;
        Ok(self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "org.apache.hadoop.io.Text";
    const SYNC: [u8; 16] = *b"0123456789abcdef";

    fn compressions() -> Vec<Compression> {
        let codecs = [FileCodec::Deflate, FileCodec::Gzip, FileCodec::Bzip2, FileCodec::Snappy];
        let both = codecs.map(|codec| [Compression::Record(codec), Compression::Block(codec)]);
        [&[Compression::None][..], both.as_flattened()].concat()
    }

    fn file(compression: Compression, count: u32) -> Vec<u8> {
        let mut writer = SequenceWriter::new(Vec::new(), TEXT, TEXT, compression, SYNC).unwrap();
        for (key, value) in pairs(count) {
            writer.push(&key, &value).unwrap();
        }
        writer.end().unwrap()
    }

    fn pairs(count: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let value = |n: u32| vec![b'v'; (n * 37 % 900) as usize];
        (0..count).map(|n| (n.to_be_bytes().to_vec(), value(n))).collect()
    }

    fn read(mut reader: SequenceReader<&[u8]>) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut found = Vec::new();
        while let Some((key, value)) = reader.next_pair()? {
            found.push((key.to_vec(), value.to_vec()));
        }
        Ok(found)
    }

    #[test]
    fn every_compression_reads_back_whole_and_in_splits() {
        for compression in compressions() {
            let file = file(compression, 300);
            let reader = SequenceReader::new(&file[..]).unwrap();
            assert_eq!(reader.header().compression, compression);
            assert!(read(reader).unwrap() == pairs(300), "{compression:?}");
            for split in [61, 500, 2048, 5000] {
                let mut found = Vec::new();
                for start in (0..file.len()).step_by(split) {
                    let end = (start + split) as u64;
                    let open = |at: u64| &file[(at as usize).min(file.len())..];
                    found.extend(
                        read(SequenceReader::split(start as u64, end, open).unwrap()).unwrap(),
                    );
                }
                assert!(found == pairs(300), "{compression:?} in splits of {split}");
            }
        }
    }

    #[test]
    fn damage_is_an_error_or_fewer_records_never_a_panic() {
        for compression in compressions() {
            let whole = file(compression, 4);
            for cut in 0..whole.len() {
                if let Ok(reader) = SequenceReader::new(&whole[..cut]) {
                    let _ = read(reader);
                } else {
                    assert!(cut < 200);
                }
            }
            for at in 0..whole.len() {
                let mut bad = whole.clone();
                bad[at] ^= 0xff;
                if let Ok(reader) = SequenceReader::new(&bad[..]) {
                    let _ = read(reader);
                }
            }
        }
    }

    #[test]
    fn blocks_of_many_small_records_come_back() {
        // One block with the lengths of 450,000 keys and of as many values.
        let compression = Compression::Block(FileCodec::Snappy);
        let mut writer = SequenceWriter::new(Vec::new(), TEXT, TEXT, compression, SYNC).unwrap();
        for number in 0..450_000u32 {
            writer.push(&number.to_be_bytes()[2..], b"").unwrap();
        }
        let file = writer.end().unwrap();
        let mut reader = SequenceReader::new(&file[..]).unwrap();
        for number in 0..450_000u32 {
            let pair = reader.next_pair().unwrap();
            assert_eq!(pair, Some((&number.to_be_bytes()[2..], &b""[..])));
        }
        assert_eq!(reader.next_pair().unwrap(), None);
    }

    #[test]
    fn golden_bytes() {
        let mut writer =
            SequenceWriter::new(Vec::new(), "K", "V", Compression::None, SYNC).unwrap();
        writer.push(b"key", b"value").unwrap();
        let expected =
            b"SEQ\x06\x01K\x01V\0\0\0\0\0\x000123456789abcdef\0\0\0\x08\0\0\0\x03keyvalue";
        assert_eq!(writer.end().unwrap(), expected);
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x8f, 128]),
            (-112, &[0x90]),
            (256, &[0x8e, 1, 0]),
        ] {
            let mut out = Vec::new();
            put_vint(value, &mut out);
            assert_eq!(out, bytes, "{value}");
        }
    }
}

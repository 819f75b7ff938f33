//! Bzip2 files read from the middle, so that several maps can read one file.
//!
//! ```text
//! file:    stream*
//! stream:  "BZh" level | block* | 48 bits 0x177245385090 | CRC of all (32 bits) | zero bits to the next byte
//! block:   48 bits 0x314159265359 | CRC (32 bits) | data            — begins at any bit
//! ```
//!
//! A block is decoded alone: its bits are placed between a stream header and a stream end, and passed to the decoder.
//!
//! Invariants: a block belongs to the split in which it begins, the first one of the file to the split at 0. A split reads its blocks, and
//! after them the bytes through the first line end. A reader of lines that drops everything through the first line end of a split other
//! than the first (as [`Lines`](super::Lines) does) therefore gives each line of the file to exactly one split. Bits within a block can
//! look like the start of another: data that does not decode is joined with the data after it, up to the maximum length of a block. Damage
//! and a cut-off end are errors. So is a stream without all of its blocks, for a split that reads it from its header to its end; who reads a part of a stream
//! knows the checksums of those blocks alone.

use std::io::{self, Cursor, Read};

use bzip2::read::BzDecoder;
use memchr::memchr2;

use super::input::{Source, SplitRange};

/// The bits at the start of a block.
const BLOCK: u64 = 0x3141_5926_5359;
/// The bits at the end of a stream's blocks.
const END: u64 = 0x1772_4538_5090;
/// Bits of either mark.
const MARK_BITS: u64 = 48;
const MARK_MASK: u64 = (1 << MARK_BITS) - 1;
/// Bits of a checksum.
const CRC_BITS: u64 = 32;
/// Bytes of a stream's header; the first block of a file begins after it.
const HEADER_BYTES: u64 = 4;
/// Header of the largest level: a decoder for it takes blocks of all levels.
const HEADER: [u8; HEADER_BYTES as usize] = *b"BZh9";
/// Bytes of a stream without blocks.
const EMPTY_BYTES: usize = 14;
/// Longest block, compressed: 900,000 bytes that do not compress take a hundredth more, and tables.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// For the third byte from the end of the scanned bytes, the shifts at which a mark may end: bit `s` for [`BLOCK`], `8 + s` for [`END`].
const CANDIDATES: [u16; 256] = candidates();

const fn candidates() -> [u16; 256] {
    let mut table = [0; 256];
    let mut shift = 0;
    while shift < 8 {
        table[((BLOCK >> (16 - shift)) & 0xff) as usize] |= 1 << shift;
        table[((END >> (16 - shift)) & 0xff) as usize] |= 0x100 << shift;
        shift += 1;
    }
    table
}

/// The start of a block or the end of a stream, judging by its bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    /// Its first bit, from the beginning of the file.
    bit: u64,
    is_block: bool,
}

impl Mark {
    /// The byte it begins in.
    fn byte(self) -> u64 {
        self.bit / 8
    }
}

/// Finds marks and keeps the bytes since the oldest mark that is still needed.
struct Scanner<'a> {
    source: &'a mut dyn Source,
    bytes: Vec<u8>,
    /// Offset of `bytes` in the file.
    base: u64,
    /// How many of them were scanned.
    seen: usize,
    /// The last eight of these.
    last: u64,
    /// Total bytes scanned: `last` is not full at first.
    seen_all: u64,
}

impl<'a> Scanner<'a> {
    fn new(source: &'a mut dyn Source, start: u64) -> Self {
        Scanner { source, bytes: Vec::new(), base: start, seen: 0, last: 0, seen_all: 0 }
    }

    /// The next mark; `None` at the end of the file.
    fn next(&mut self) -> io::Result<Option<Mark>> {
        loop {
            while self.seen < self.bytes.len() {
                self.last = self.last << 8 | u64::from(self.bytes[self.seen]);
                self.seen += 1;
                self.seen_all += 1;
                let candidates = CANDIDATES[(self.last >> 16 & 0xff) as usize];
                if candidates != 0
                    && let Some(mark) = self.check(candidates)
                {
                    return Ok(Some(mark));
                }
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    fn check(&self, candidates: u16) -> Option<Mark> {
        let end = (self.base + self.seen as u64) * 8;
        (0..8).find_map(|shift| {
            let value = self.last >> shift & MARK_MASK;
            let is_block = candidates >> shift & 1 == 1 && value == BLOCK;
            let is_end = candidates >> (8 + shift) & 1 == 1 && value == END;
            let is_whole = self.seen_all * 8 >= MARK_BITS + shift;
            let bit = (end - shift).checked_sub(MARK_BITS)?;
            ((is_block || is_end) && is_whole).then_some(Mark { bit, is_block })
        })
    }

    /// Bytes of the streams without blocks from `offset` on.
    fn leading_bytes(&mut self, offset: u64) -> io::Result<u64> {
        let mut count = 0;
        loop {
            let mut stream = Vec::new();
            while stream.len() < EMPTY_BYTES {
                match self.source.slice(offset + count + stream.len() as u64)? {
                    [] => return Ok(count),
                    slice => stream.extend_from_slice(slice),
                }
            }
            // A slice may reach into what follows.
            stream.truncate(EMPTY_BYTES);
            let (header, rest) = stream.split_at(HEADER.len());
            // The checksum of no blocks is 0.
            if !is_header(header) || rest[..6] != END.to_be_bytes()[2..] || rest[6..] != [0; 4] {
                return Ok(count);
            }
            count += EMPTY_BYTES as u64;
        }
    }

    /// True if only streams without blocks come before `block` in the file.
    fn is_first_of_file(&mut self, block: Mark) -> io::Result<bool> {
        let header =
            (block.bit.is_multiple_of(8)).then(|| block.byte().checked_sub(HEADER_BYTES)).flatten();
        match header {
            Some(header) if header.is_multiple_of(EMPTY_BYTES as u64) => {
                Ok(self.leading_bytes(0)? == header)
            }
            _ => Ok(false),
        }
    }

    /// Reads more bytes; false at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        let slice = self.source.slice(self.base + self.bytes.len() as u64)?;
        self.bytes.extend_from_slice(slice);
        Ok(!slice.is_empty())
    }

    /// Drops the bytes before `offset`.
    fn forget(&mut self, offset: u64) {
        let count = offset.saturating_sub(self.base).min(self.seen as u64) as usize;
        self.bytes.drain(..count);
        (self.base, self.seen) = (self.base + count as u64, self.seen - count);
    }

    /// Up to `count` bytes from `offset` on, which must still be kept; fewer only at the end of the file.
    fn peek(&mut self, offset: u64, count: usize) -> io::Result<&[u8]> {
        let at = (offset - self.base) as usize;
        while self.bytes.len() < at + count && self.fill()? {}
        let rest = self.bytes.get(at..).unwrap_or_default();
        Ok(&rest[..rest.len().min(count)])
    }

    /// The checksum behind a mark, of a block or of a stream, whose bytes are kept.
    fn checksum(&self, mark: Mark) -> u32 {
        let first = mark.bit + MARK_BITS - self.base * 8;
        let (start, shift) = ((first / 8) as usize, first % 8);
        let bytes = self.bytes.iter().skip(start).chain(std::iter::repeat(&0)).take(5);
        let bits = bytes.fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        (bits >> (8 - shift)) as u32
    }

    /// The bits from one mark to another as a stream of one block.
    fn stream(&self, from: Mark, to: Mark) -> Vec<u8> {
        let bits = to.bit - from.bit;
        let first = (from.bit - self.base * 8) as usize;
        let (start, shift) = (first / 8, first % 8);
        let byte = |index: usize| {
            let pair = [self.bytes[index], self.bytes.get(index + 1).copied().unwrap_or_default()];
            (u16::from_be_bytes(pair) << shift >> 8) as u8
        };
        let whole = (bits / 8) as usize;
        let mut stream = Vec::with_capacity(whole + 20);
        stream.extend_from_slice(&HEADER);
        stream.extend((start..start + whole).map(byte));
        let block = &stream[HEADER.len()..];
        let crc = block
            .get(6..10)
            .map_or(0, |crc| crc.iter().fold(0u128, |crc, byte| crc << 8 | u128::from(*byte)));
        let rest_bits = bits % 8;
        let rest = if rest_bits == 0 { 0 } else { byte(start + whole) >> (8 - rest_bits) };
        let length = rest_bits + MARK_BITS + CRC_BITS;
        let tail = (u128::from(rest) << MARK_BITS | u128::from(END)) << CRC_BITS | crc;
        let tail = tail << (128 - length);
        stream.extend_from_slice(&tail.to_be_bytes()[..length.div_ceil(8) as usize]);
        stream
    }
}

/// The decoded bytes of a split, and the bytes after them through the first line end.
pub(crate) struct SplitReader<'a> {
    scanner: Scanner<'a>,
    /// Blocks that begin at or after this byte are not the split's.
    until: u64,
    /// The next block.
    next: Option<Mark>,
    /// The decoder of the current block.
    decoder: Option<BzDecoder<Cursor<Vec<u8>>>>,
    /// The current block is not the split's.
    is_beyond: bool,
    is_over: bool,
    /// Set while joining data that did not decode: the start of the block, and the mark that did not end it.
    tried: Option<(Mark, Mark)>,
    /// The checksum of the stream's blocks so far, if they were read from its first one on.
    combined: Option<u32>,
}

impl<'a> SplitReader<'a> {
    pub(crate) fn open(source: &'a mut dyn Source, split: SplitRange) -> io::Result<Self> {
        let mut reader = SplitReader {
            scanner: Scanner::new(source, split.start),
            until: split.end,
            next: None,
            decoder: None,
            is_beyond: false,
            is_over: split.end <= split.start,
            tried: None,
            combined: None,
        };
        if reader.is_over {
            return Ok(reader);
        }
        if split.start == 0 {
            reader.next = reader.first_block(0)?;
            let behind = reader.next.map_or(0, |first| first.byte() + 1);
            reader.until = split.end.max(behind);
        } else {
            reader.next = reader.next_block()?;
            if let Some(block) = reader.next
                && reader.scanner.is_first_of_file(block)?
            {
                reader.next = reader.next_block()?;
            }
        }
        reader.is_over = reader.next.is_none_or(|block| block.byte() >= reader.until);
        Ok(reader)
    }

    /// The next mark of a block. It begins a stream if only a header is between it and the end of another.
    fn next_block(&mut self) -> io::Result<Option<Mark>> {
        let mut behind = None;
        loop {
            match self.scanner.next()? {
                Some(mark) if !mark.is_block => behind = Some(behind_end(mark)),
                mark => {
                    let first = behind.map(|behind| (behind + HEADER_BYTES) * 8);
                    self.combined = None;
                    if let (Some(behind), Some(block)) = (behind, mark)
                        && first == Some(block.bit)
                        && is_header(self.scanner.peek(behind, HEADER.len())?)
                    {
                        self.combined = Some(0);
                    }
                    return Ok(mark);
                }
            }
            let reached = self.scanner.base + self.scanner.seen as u64;
            self.scanner.forget(reached.saturating_sub(8));
        }
    }

    /// The first block of the streams that begin at `offset`; `None` at the end of the file.
    fn first_block(&mut self, offset: u64) -> io::Result<Option<Mark>> {
        let header = self.scanner.peek(offset, HEADER.len())?;
        if header.is_empty() && offset > 0 {
            return Ok(None);
        }
        if !is_header(header) {
            return Err(damaged(match offset {
                0 => "this is not a bzip2 file",
                _ => "something else follows the end of a stream",
            }));
        }
        let stream = offset + self.scanner.leading_bytes(offset)?;
        let block = self.next_block()?;
        let length = self.scanner.base + self.scanner.bytes.len() as u64;
        match block {
            Some(block) if block.bit == (stream + HEADER_BYTES) * 8 => {
                self.combined = Some(0);
                Ok(Some(block))
            }
            None if stream == length => Ok(None),
            Some(_) => Err(damaged("no block follows the begin of a stream")),
            None => Err(damaged("cut off at the begin of a stream")),
        }
    }

    /// Prepares the next block, or joins the current one, whose data ended too early, with the data after it. False if there is none.
    fn advance(&mut self) -> io::Result<bool> {
        let (block, end) = match self.tried.take() {
            Some((block, _)) => (block, self.scanner.next()?),
            None => {
                let Some(block) = self.next else { return Ok(false) };
                self.is_beyond = block.byte() >= self.until;
                self.scanner.forget(block.byte());
                (block, self.scanner.next()?)
            }
        };
        let Some(end) = end else { return Err(damaged("cut off in a block")) };
        let length = (end.byte() - block.byte()) as usize;
        if length > BLOCK_BYTES_MAX {
            return Err(damaged("damaged, or longer than a block can be"));
        }
        self.decoder = Some(BzDecoder::new(Cursor::new(self.scanner.stream(block, end))));
        self.tried = Some((block, end));
        Ok(true)
    }

    /// Called when the block is decoded to its end.
    fn finish(&mut self) -> io::Result<()> {
        self.decoder = None;
        let Some((block, end)) = self.tried.take() else { return Ok(()) };
        let crc = self.scanner.checksum(block);
        self.combined = self.combined.map(|combined| combined.rotate_left(1) ^ crc);
        if end.is_block {
            self.next = Some(end);
            return Ok(());
        }
        let behind = behind_end(end);
        let length = (behind - end.byte()) as usize;
        if self.scanner.peek(end.byte(), length)?.len() < length {
            return Err(damaged("cut off at the end of a stream"));
        }
        let of_all = self.scanner.checksum(end);
        if self.combined.is_some_and(|combined| combined != of_all) {
            return Err(damaged("a stream has other blocks than its checksum says"));
        }
        self.next = self.first_block(behind)?;
        Ok(())
    }
}

impl Read for SplitReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut is_first = false;
        while !self.is_over && !buffer.is_empty() {
            let Some(decoder) = &mut self.decoder else {
                self.is_over = !self.advance()?;
                is_first = true;
                continue;
            };
            match decoder.read(buffer) {
                Ok(0) => self.finish()?,
                Ok(count) if self.is_beyond => {
                    let line_end = memchr2(b'\n', b'\r', &buffer[..count]);
                    self.is_over = line_end.is_some();
                    return Ok(line_end.map_or(count, |end| end + 1));
                }
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_first => {
                    self.decoder = None;
                    // Reports the first error, unless joining with the following data helps.
                    self.is_over = !self.advance().map_err(|_| error)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }
}

/// The first byte behind a stream that ends with this mark.
fn behind_end(end: Mark) -> u64 {
    (end.bit + MARK_BITS + CRC_BITS).div_ceil(8)
}

fn is_header(bytes: &[u8]) -> bool {
    matches!(bytes, [b'B', b'Z', b'h', b'1'..=b'9'])
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
#[path = "bzip2_split_tests.rs"]
mod tests;

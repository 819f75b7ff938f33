//! The sources that tasks read: local files, the contents of compressed files, and the empty source.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use crate::bzip2_split::SplitReader;
use crate::codec::FileCodec;
use crate::input::{Source, SplitRange};
use crate::text::TextRules;

/// Bytes decoded at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes read from a file at once: large enough that the call costs nothing, small enough for the second-level cache.
pub const READ_BYTES: usize = 256 << 10;

/// A local file, read with positioned reads into one buffer.
pub struct LocalSource {
    file: File,
    buffer: Vec<u8>,
}

impl LocalSource {
    /// Makes a source from an open file.
    pub fn new(file: File) -> Self {
        LocalSource { file, buffer: vec![0; READ_BYTES] }
    }
}

impl Source for LocalSource {
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
        loop {
            match self.file.read_at(&mut self.buffer, offset) {
                Ok(count) => return Ok(&self.buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn length(&self) -> Option<u64> {
        Some(self.file.metadata().ok()?.len())
    }
}

/// A source with the text rules of the job's properties.
pub struct Ruled<S> {
    /// The source of the bytes.
    pub source: S,
    /// How to cut its text.
    pub rules: TextRules,
}

impl<S: Source> Source for Ruled<S> {
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
        self.source.slice(offset)
    }

    fn length(&self) -> Option<u64> {
        self.source.length()
    }

    fn text(&self) -> TextRules {
        self.rules.clone()
    }
}

/// A source without bytes, for splits that are only numbers.
pub struct NoSource;

impl Source for NoSource {
    fn slice(&mut self, _: u64) -> io::Result<&[u8]> {
        Ok(&[])
    }

    fn length(&self) -> Option<u64> {
        Some(0)
    }
}

/// The raw bytes of a compressed file as a [`Source`]: forward only.
pub struct DecodedSource<'a> {
    decoder: Box<dyn Read + 'a>,
    buffer: Vec<u8>,
    /// Length of the part of `buffer` that was handed out last, and its position in the raw bytes.
    length: usize,
    offset: u64,
    rules: TextRules,
}

impl<'a> DecodedSource<'a> {
    /// Decodes a whole file.
    ///
    /// # Errors
    /// If no decoder can be made.
    pub fn open(codec: FileCodec, source: &'a mut dyn Source) -> io::Result<Self> {
        let rules = source.text();
        Ok(Self::new(codec.decoder(SourceReader::buffered(source))?, 0, rules))
    }

    /// Decodes the lines of a split of a bzip2 file. Positions begin at the split's start offset.
    ///
    /// # Errors
    /// Those of `source`, and damage at the start of the split.
    pub fn enter(split: SplitRange, source: &'a mut dyn Source) -> io::Result<Self> {
        let rules = source.text();
        Ok(Self::new(Box::new(SplitReader::open(source, split)?), split.start, rules))
    }

    fn new(decoder: Box<dyn Read + 'a>, offset: u64, rules: TextRules) -> Self {
        DecodedSource { decoder, buffer: vec![0; CHUNK_BYTES], length: 0, offset, rules }
    }
}

impl Source for DecodedSource<'_> {
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
        while offset >= self.offset + self.length as u64 {
            self.offset += self.length as u64;
            self.length = match self.decoder.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            };
            if self.length == 0 {
                return Ok(&[]);
            }
        }
        match offset.checked_sub(self.offset) {
            Some(skip) => Ok(&self.buffer[skip as usize..self.length]),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a compressed file is read forward only",
            )),
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn text(&self) -> TextRules {
        self.rules.clone()
    }
}

/// A [`Source`] read as a stream. Each read requests a slice, which can be long, so many short reads need a buffer in between.
pub(crate) struct SourceReader<'a> {
    pub(crate) source: &'a mut dyn Source,
    pub(crate) offset: u64,
}

impl<'a> SourceReader<'a> {
    /// Reads from the beginning.
    pub(crate) fn buffered(source: &'a mut dyn Source) -> BufReader<Self> {
        BufReader::with_capacity(READ_BYTES, SourceReader { source, offset: 0 })
    }
}

impl Read for SourceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let slice = self.source.slice(self.offset)?;
        let count = slice.len().min(buffer.len());
        buffer[..count].copy_from_slice(&slice[..count]);
        self.offset += count as u64;
        Ok(count)
    }
}

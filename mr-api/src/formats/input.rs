//! Where records come from: a [`Source`] of bytes and a [`Format`] that cuts them into records.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::text::TextRules;
use crate::error::Result;

/// Bytes of one file, read forward.
pub trait Source {
    /// Bytes from `offset` on, as many as are at hand; empty only at the end of the file. They live until the next call.
    ///
    /// # Errors
    /// What the file system says.
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]>;

    /// How its text is cut into records, by the job's properties.
    fn text(&self) -> TextRules {
        TextRules::default()
    }
}

/// A source of a job with such properties.
pub(crate) struct Ruled<S> {
    pub(crate) source: S,
    pub(crate) rules: TextRules,
}

impl<S: Source> Source for Ruled<S> {
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
        self.source.slice(offset)
    }

    fn text(&self) -> TextRules {
        self.rules.clone()
    }
}

/// The part of a file that one map task reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SplitRange {
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
}

/// How files are cut into splits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// At block boundaries, within `mapreduce.input.fileinputformat.split.minsize` and `.maxsize`.
    Blocks,
    /// As [`Cut::Blocks`], bzip2 files too. For formats whose records are lines: a split that does not begin at 0 drops everything through
    /// the first line end, and one reads through the first line end behind its end, as [`crate::Lines`] does.
    TextBlocks,
    /// Not at all.
    Whole,
    /// After so many lines.
    Lines {
        /// Lines of a split.
        count: u64,
    },
    /// Small files together make a split; large ones are cut at block boundaries.
    Combined {
        /// Bytes of a split at least, unless the input ends.
        bytes: u64,
    },
}

/// How the bytes of a split become records.
///
/// Reading pushes the records into a closure, so records may borrow from the source and the loop is compiled together with the
/// mapper.
pub trait Format: Clone + Send + Sync + 'static {
    /// A record; borrows from the source.
    type Record<'a>;

    /// How files are cut into splits. Compressed files are not cut, except those in bzip2 with [`Cut::TextBlocks`].
    fn cut(&self) -> Cut {
        Cut::Blocks
    }

    /// Calls `each` with the position and content of every record that belongs to `split`, in order.
    ///
    /// # Errors
    /// Those of `source` and of `each`.
    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Self::Record<'_>) -> Result<()>,
    ) -> Result<()>;

    /// The bytes of a record, to be shown where it is left out as a bad one (`--skip-bad`); `None` if it is not made of such.
    fn bytes<'r>(_record: &Self::Record<'r>) -> Option<&'r [u8]> {
        None
    }
}

/// Bytes read from a file at once: large enough that the call costs nothing, small enough for the second-level cache.
pub(crate) const READ_BYTES: usize = 256 << 10;

/// A local file, read with positioned reads into one buffer.
pub(crate) struct LocalSource {
    file: File,
    buffer: Vec<u8>,
}

impl LocalSource {
    pub(crate) fn new(file: File) -> Self {
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
}

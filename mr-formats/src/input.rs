//! The origin of records: a [`Source`] of bytes and a [`Format`] that cuts them into records.

use std::io;

use super::text::TextRules;
use crate::error::Result;

/// Bytes of one file. A compressed file is read forward only.
pub trait Source {
    /// Bytes from `offset` on, as many as are available; empty only at the end of the file. They are valid until the next call.
    ///
    /// # Errors
    /// Errors of the file system.
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]>;

    /// Length of the file in bytes, if known: unknown for a file that is decompressed while it is read. A source that wraps another must answer for it.
    fn length(&self) -> Option<u64>;

    /// How to cut its text into records, by the job's properties.
    fn text(&self) -> TextRules {
        TextRules::default()
    }
}

/// The part of a file that one map task reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SplitRange {
    /// First byte.
    pub start: u64,
    /// The position after the last byte.
    pub end: u64,
}

impl Cut {
    /// True if one mapper reads all files of a split. Otherwise each file has a mapper of its own, also if they share a task.
    pub fn is_read_together(self) -> bool {
        matches!(self, Cut::Combined { .. })
    }

    /// True if small files may share a task.
    pub fn may_be_packed(self) -> bool {
        !matches!(self, Cut::Combined { .. } | Cut::Lines { .. })
    }
}

/// How files are cut into splits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// At block boundaries, within `mapreduce.input.fileinputformat.split.minsize` and `.maxsize`.
    Blocks,
    /// As [`Cut::Blocks`], and bzip2 files too. For formats whose records are lines: a split that does not begin at 0 drops everything
    /// through the first line end. Each split reads through the first line end after its own end, as [`crate::Lines`] does.
    TextBlocks,
    /// Not at all.
    Whole,
    /// After this many lines.
    Lines {
        /// Lines of a split.
        count: u64,
    },
    /// Before groups of records, whose offsets [`Format::groups`] returns. A split gets as many groups as make it about as long as with
    /// [`Cut::Blocks`].
    Groups,
    /// Small files are combined into a split; large ones are cut at block boundaries.
    Combined {
        /// Least bytes of a split, unless the input ends.
        bytes: u64,
    },
}

/// How the bytes of a split become records.
///
/// Reading pushes the records into a closure, so records may borrow from the source and the loop is compiled together with the
/// mapper.
///
/// A format with an index at the end of its files reads the index first, through [`Source::length`]:
///
/// ```
/// use mr_api::formats::{Cut, Format, Source, SplitRange};
/// use mr_api::{Job, LocalRunner, Result, from_files, text_out};
///
/// /// Groups of bytes, then where each begins (u32, big endian), then how many there are.
/// #[derive(Clone)]
/// struct Groups;
///
/// fn number(source: &mut dyn Source, at: u64) -> Result<u64> {
///     let bytes = source.slice(at)?.first_chunk::<4>().ok_or("cut off")?;
///     Ok(u32::from_be_bytes(*bytes).into())
/// }
///
/// impl Format for Groups {
///     type Record<'a> = &'a [u8];
///
///     fn cut(&self) -> Cut {
///         Cut::Groups
///     }
///
///     fn groups(&self, source: &mut dyn Source) -> Result<Vec<u64>> {
///         let end = source.length().ok_or("compressed")?.checked_sub(4).ok_or("cut off")?;
///         let index = end.checked_sub(number(source, end)? * 4).ok_or("cut off")?;
///         (index..end).step_by(4).map(|at| number(source, at)).collect()
///     }
///
///     fn read(
///         &self,
///         split: SplitRange,
///         source: &mut dyn Source,
///         each: &mut impl FnMut(u64, &[u8]) -> Result<()>,
///     ) -> Result<()> {
///         let mut begins = self.groups(source)?;
///         begins.push(source.length().ok_or("compressed")? - 4 * begins.len() as u64 - 4);
///         for group in begins.windows(2).filter(|group| (split.start..split.end).contains(&group[0])) {
///             let bytes = source.slice(group[0])?.get(..(group[1] - group[0]) as usize);
///             each(group[0], bytes.ok_or("cut off")?)?;
///         }
///         Ok(())
///     }
/// }
///
/// # let scratch = tempfile::tempdir()?;
/// # let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
/// let numbers = [0, 5, 8, 3].map(u32::to_be_bytes).concat();
/// std::fs::write(path("in"), [b"firstandlast", &numbers[..]].concat())?;
/// let job = Job::new("groups")
///     .input(from_files([path("in")], Groups))
///     .map_fn::<Vec<u8>, (), _>(|group, out| out.emit(group, ()))
///     .output(text_out(path("out")));
/// LocalRunner::new().split_bytes(1).run(job)?;
/// let part = |number| std::fs::read_to_string(path(&format!("out/part-m-0000{number}")));
/// assert_eq!([part(0)?, part(1)?, part(2)?], ["first\n", "and\n", "last\n"]);
/// # Ok::<(), mr_api::BoxError>(())
/// ```
pub trait Format: Clone + Send + Sync + 'static {
    /// A record; borrows from the source.
    type Record<'a>;

    /// How files are cut into splits. Compressed files are not cut, except those in bzip2 with [`Cut::TextBlocks`].
    fn cut(&self) -> Cut {
        Cut::Blocks
    }

    /// Offsets of the groups of records of a file, ascending, for [`Cut::Groups`]. The driver calls this. Bytes before the first group, or
    /// after the last record, are part of the first or last split.
    ///
    /// # Errors
    /// Those of `source`, and any other: the driver then does not submit the job.
    fn groups(&self, _source: &mut dyn Source) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }

    /// Calls `each` with the position and content of every record that belongs to `split`, in order. An error of `each` ends the reading and is
    /// returned as it is: a mapper that has seen enough ends it so.
    ///
    /// # Errors
    /// Those of `source` and of `each`.
    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Self::Record<'_>) -> Result<()>,
    ) -> Result<()>;

    /// The bytes of a record, displayed if the record is skipped as a bad one (`--skip-bad`); `None` if the format has no such bytes.
    fn bytes<'r>(_record: &Self::Record<'r>) -> Option<&'r [u8]> {
        None
    }
}

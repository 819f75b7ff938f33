//! Where records come from: a [`Source`] of bytes and a [`Format`] that cuts them into records.

use std::io;

use super::text::TextRules;
use crate::error::Result;

/// Bytes of one file. A compressed file is read forward only.
pub trait Source {
    /// Bytes from `offset` on, as many as are at hand; empty only at the end of the file. They live until the next call.
    ///
    /// # Errors
    /// What the file system says.
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]>;

    /// Bytes of the file, where that is known: not of one that is decompressed while it is read.
    fn length(&self) -> Option<u64> {
        None
    }

    /// How its text is cut into records, by the job's properties.
    fn text(&self) -> TextRules {
        TextRules::default()
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
    /// Before groups of records, where [`Format::groups`] says that they begin: a split has so many groups that it is about as long as with
    /// [`Cut::Blocks`].
    Groups,
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
///
/// A format with an index at the end of its files reads that first, by [`Source::length`]:
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

    /// Where the groups of records of a file begin, for [`Cut::Groups`]: offsets one behind the other. The driver asks for it. What comes before the
    /// first, or behind the last record, is part of the first or last split.
    ///
    /// # Errors
    /// Those of `source`, and any other: the job is not submitted.
    fn groups(&self, _source: &mut dyn Source) -> Result<Vec<u64>> {
        Ok(Vec::new())
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

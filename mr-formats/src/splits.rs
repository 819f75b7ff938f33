//! Cutting files into splits: a pure function of sizes and limits.
//!
//! `split size = max(min, min(max, block size))`; a file is cut while more than 1.1 split sizes remain, so the last split may be
//! up to a tenth longer. An empty file is one empty split.

use std::io::{self, Read};

use memchr::memmem::Finder;
use protocol::jobs::{SPLIT_BYTES_MAX, SPLIT_PARTS_MAX};

use super::codec::FileCodec;
use super::input::Cut;
use super::text::TextRules;
use crate::error::{Error, Result};

/// The limits of split sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SplitLimits {
    /// `mapreduce.input.fileinputformat.split.minsize`, bytes; default 1.
    pub min: u64,
    /// `mapreduce.input.fileinputformat.split.maxsize`, bytes; unlimited by default.
    pub max: u64,
}

impl Default for SplitLimits {
    fn default() -> Self {
        SplitLimits { min: 1, max: u64::MAX }
    }
}

impl SplitLimits {
    /// Bytes of a split of a file with blocks of this size.
    pub fn split_bytes(self, block_bytes: u64) -> u64 {
        self.min.max(self.max.min(block_bytes)).max(1)
    }
}

/// `(offset, length)` of the splits of a file whose groups begin at `starts`.
fn join_groups(
    file: &FileToCut,
    starts: &[u64],
    limits: SplitLimits,
) -> Result<impl Iterator<Item = (u64, u64)>> {
    let are_within = starts.last().is_none_or(|last| *last <= file.length);
    if !are_within || !starts.is_sorted_by(|a, b| a < b) {
        return Err(Error::InputGroups { path: file.path.clone() }.into());
    }
    let split_bytes = limits.split_bytes(file.block_bytes);
    let mut begins = vec![0];
    for start in starts.iter().skip(1) {
        let begin = *begins.last().expect("it has the first");
        if start - begin >= split_bytes {
            begins.push(*start);
        }
    }
    let ends: Vec<u64> = begins.iter().skip(1).copied().chain([file.length]).collect();
    Ok(begins.into_iter().zip(ends).map(|(begin, end)| (begin, end - begin)))
}

/// `(offset, length)` of the splits of one file.
fn split_file(length: u64, block_bytes: u64, limits: SplitLimits) -> Vec<(u64, u64)> {
    let split = limits.split_bytes(block_bytes);
    let mut splits = Vec::new();
    let mut offset = 0;
    // remaining / split > 1.1, in whole numbers
    while (u128::from(length - offset)) * 10 > u128::from(split) * 11 {
        splits.push((offset, split));
        offset += split;
    }
    if offset < length || length == 0 {
        splits.push((offset, length - offset));
    }
    splits
}

/// A file to be cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileToCut {
    /// Its path; the extension shows whether it is compressed.
    pub path: String,
    /// Bytes.
    pub length: u64,
    /// Bytes of its blocks.
    pub block_bytes: u64,
}

/// Part of a split: number of the file, offset, length.
pub type Part = (usize, u64, u64);

/// Positions to find in a file before it can be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// The ends of lines, every so many lines.
    OfLines(u64),
    /// The starts of the groups of its format.
    OfGroups,
}

/// The splits of all files, in order. `find` finds the positions in the file with a given number.
///
/// # Errors
/// Those of `find`, and groups that are not parts of their file.
pub fn plan(
    files: &[FileToCut],
    cut: Cut,
    limits: SplitLimits,
    rules: &TextRules,
    mut find: impl FnMut(usize, Ends) -> Result<Vec<u64>>,
) -> Result<Vec<Vec<Part>>> {
    let can_cut = rules.can_cut();
    let mut splits = Vec::new();
    let mut combined = Combined::default();
    for (index, file) in files.iter().enumerate() {
        let whole = (index, 0, file.length);
        let codec = FileCodec::of_path(&file.path);
        let by_lines = rules.delimiter.is_none();
        let is_entered = cut == Cut::TextBlocks && codec == Some(FileCodec::Bzip2) && by_lines;
        let compressed = codec.is_some() && !is_entered;
        match cut {
            Cut::Combined { bytes } if file.length < bytes => {
                if !combined.takes(file) {
                    splits.push(std::mem::take(&mut combined).parts);
                }
                combined.parts.push(whole);
                combined.bytes += file.length;
                combined.path_bytes += file.path.len();
                if combined.bytes >= bytes {
                    splits.push(std::mem::take(&mut combined).parts);
                }
            }
            _ if compressed || cut == Cut::Whole => splits.push(vec![whole]),
            Cut::TextBlocks | Cut::Combined { .. } if !can_cut => splits.push(vec![whole]),
            Cut::Lines { count: 0 } => return Err(Error::NoLines.into()),
            Cut::Lines { count } => {
                let mut start = 0;
                for end in find(index, Ends::OfLines(count))? {
                    splits.push(vec![(index, start, end - start)]);
                    start = end;
                }
            }
            Cut::Groups => {
                let starts = find(index, Ends::OfGroups)?;
                let parts = join_groups(file, &starts, limits)?;
                splits.extend(parts.map(|(offset, length)| vec![(index, offset, length)]));
            }
            _ => {
                let parts = split_file(file.length, file.block_bytes, limits);
                splits.extend(
                    parts.into_iter().map(|(offset, length)| vec![(index, offset, length)]),
                );
            }
        }
    }
    if !combined.parts.is_empty() {
        splits.push(combined.parts);
    }
    Ok(splits)
}

/// Small files that become one split.
#[derive(Default)]
struct Combined {
    parts: Vec<Part>,
    bytes: u64,
    path_bytes: usize,
}

impl Combined {
    /// True if there is room for another file, within what a split may list.
    fn takes(&self, file: &FileToCut) -> bool {
        self.parts.len() < SPLIT_PARTS_MAX && self.path_bytes + file.path.len() <= SPLIT_BYTES_MAX
    }
}

/// The ends of every `count` lines (ended by a newline, or by `delimiter`) of a file, and the end of the file.
///
/// # Errors
/// Those of `file`.
pub fn line_ends(
    mut file: impl Read,
    count: u64,
    delimiter: Option<&[u8]>,
) -> io::Result<Vec<u64>> {
    let delimiter = delimiter.unwrap_or(b"\n");
    let finder = Finder::new(delimiter);
    let (mut ends, mut at, mut lines) = (Vec::new(), 0u64, 0);
    let (mut chunk, mut kept) = (vec![0; CHUNK_BYTES], 0);
    loop {
        let length = match file.read(&mut chunk[kept..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            length => length?,
        };
        let filled = kept + length;
        if length == 0 {
            at += kept as u64;
            break;
        }
        let mut seen = 0;
        while let Some(found) = finder.find(&chunk[seen..filled]) {
            seen += found + delimiter.len();
            lines += 1;
            if lines % count == 0 {
                ends.push(at + seen as u64);
            }
        }
        // A delimiter can begin in the kept bytes.
        let next = seen.max((filled + 1).saturating_sub(delimiter.len()));
        chunk.copy_within(next..filled, 0);
        kept = filled - next;
        at += next as u64;
    }
    if ends.last().is_none_or(|end| *end < at) {
        ends.push(at);
    }
    Ok(ends)
}

/// Bytes read at once while counting lines.
const CHUNK_BYTES: usize = 256 << 10;

/// True for files that are not input: `_SUCCESS`, `.crc`, ...
pub fn is_hidden(name: &str) -> bool {
    name.starts_with(['_', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_cut_by_the_rule() {
        let cut = |length, block| split_file(length, block, SplitLimits::default());
        assert_eq!(cut(0, 10), [(0, 0)]);
        assert_eq!(cut(10, 10), [(0, 10)]);
        assert_eq!(cut(11, 10), [(0, 11)], "a tenth more is no split of its own");
        assert_eq!(cut(12, 10), [(0, 10), (10, 2)]);
        assert_eq!(cut(31, 10), [(0, 10), (10, 10), (20, 11)]);
        assert_eq!(split_file(30, 10, SplitLimits { min: 20, max: u64::MAX }), [(0, 20), (20, 10)]);
        assert_eq!(split_file(6, 10, SplitLimits { min: 1, max: 3 }), [(0, 3), (3, 3)]);
        assert_eq!(split_file(6, 10, SplitLimits { min: 4, max: 3 }), [(0, 4), (4, 2)]);
        assert_eq!(split_file(u64::MAX, u64::MAX, SplitLimits::default()).len(), 1);
    }

    #[test]
    fn every_way_of_cutting() {
        let file = |path: &str, length| FileToCut { path: path.into(), length, block_bytes: 10 };
        let files = [file("a", 3), file("b", 25), file("c.gz", 30), file("d", 4), file("e", 0)];
        let plan = |cut| {
            plan(&files, cut, SplitLimits::default(), &TextRules::default(), |_, _| Ok(vec![1, 3]))
                .unwrap()
        };
        let flat = |splits: Vec<Vec<Part>>| splits.concat();
        assert_eq!(
            flat(plan(Cut::Blocks)),
            [(0, 0, 3), (1, 0, 10), (1, 10, 10), (1, 20, 5), (2, 0, 30), (3, 0, 4), (4, 0, 0)]
        );
        assert_eq!(plan(Cut::TextBlocks), plan(Cut::Blocks), "gzip is not cut");
        let bzip2 = [file("c.bz2", 21)];
        let parts = |cut| {
            super::plan(&bzip2, cut, SplitLimits::default(), &TextRules::default(), |_, _| {
                Ok(Vec::new())
            })
        };
        assert_eq!(flat(parts(Cut::TextBlocks).unwrap()), [(0, 0, 10), (0, 10, 11)]);
        assert_eq!(flat(parts(Cut::Blocks).unwrap()), [(0, 0, 21)]);
        assert_eq!(plan(Cut::Whole).len(), 5);
        assert_eq!(
            plan(Cut::Combined { bytes: 7 }),
            [
                vec![(1, 0, 10)],
                vec![(1, 10, 10)],
                vec![(1, 20, 5)],
                vec![(2, 0, 30)],
                vec![(0, 0, 3), (3, 0, 4)],
                vec![(4, 0, 0)]
            ]
        );
        assert_eq!(plan(Cut::Lines { count: 1 })[..2], [vec![(0, 0, 1)], vec![(0, 1, 2)]]);
        assert_eq!(line_ends(&b"a\nb\nc\nd"[..], 2, None).unwrap(), [4, 7]);
        assert_eq!(line_ends(&b"a\nb\n"[..], 2, None).unwrap(), [4]);
        assert_eq!(line_ends(&b""[..], 2, None).unwrap(), [0]);
    }

    #[test]
    fn small_files_of_one_split_are_no_more_than_a_split_lists() {
        let splits = |count: usize, path_bytes: usize| {
            let path = "p".repeat(path_bytes);
            let file = FileToCut { path, length: 1, block_bytes: 10 };
            let (files, cut) = (vec![file; count], Cut::Combined { bytes: u64::MAX });
            let find = |_, _| Ok(Vec::new());
            plan(&files, cut, SplitLimits::default(), &TextRules::default(), find).unwrap()
        };
        let sizes = |splits: Vec<Vec<Part>>| splits.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(splits(SPLIT_PARTS_MAX + 1, 9)), [SPLIT_PARTS_MAX, 1]);
        let fit = SPLIT_BYTES_MAX / 4096;
        assert_eq!(sizes(splits(fit + 1, 4096)), [fit, 1]);
    }

    #[test]
    fn groups_are_joined_to_splits_as_long_as_blocks() {
        let file = FileToCut { path: "a".into(), length: 100, block_bytes: 30 };
        let cut = |starts: &[u64], limits| -> Result<Vec<(u64, u64)>> {
            let find = |_, ends| {
                assert_eq!(ends, Ends::OfGroups);
                Ok(starts.to_vec())
            };
            let files = std::slice::from_ref(&file);
            let splits = plan(files, Cut::Groups, limits, &TextRules::default(), find)?;
            Ok(splits.concat().into_iter().map(|(_, offset, length)| (offset, length)).collect())
        };
        let blocks = SplitLimits::default();
        let each = SplitLimits { min: 1, max: 1 };
        assert_eq!(cut(&[4, 20, 40, 70, 80], blocks).unwrap(), [(0, 40), (40, 30), (70, 30)]);
        assert_eq!(cut(&[4, 50, 60], each).unwrap(), [(0, 50), (50, 10), (60, 40)]);
        assert_eq!(cut(&[], each).unwrap(), [(0, 100)], "a file without groups has a split");
        for starts in [&[4, 3][..], &[5, 5], &[4, 101]] {
            let error = cut(starts, blocks).unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(Error::InputGroups { .. })), "{error}");
        }
    }

    #[test]
    fn hidden_names() {
        assert!(is_hidden("_SUCCESS") && is_hidden(".x") && !is_hidden("part-r-00000"));
    }

    #[test]
    fn records_of_a_delimiter_are_counted_across_chunks() {
        let text = "a||b||c||".repeat(CHUNK_BYTES / 4);
        let ends = line_ends(text.as_bytes(), 3, Some(b"||")).unwrap();
        assert_eq!(ends.len(), CHUNK_BYTES / 4);
        assert!(ends.iter().zip(1..).all(|(end, n)| *end == 9 * n));
        assert_eq!(line_ends(&b"a|||b"[..], 1, Some(b"||")).unwrap(), [3, 5]);
    }
}

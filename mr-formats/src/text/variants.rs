//! Lines that are cut into key and value, or distributed to maps in another way.

use super::line::Line;
use super::reader::Lines;
use super::rules::TextRules;
use crate::error::Result;
use crate::input::{Cut, Format, Source, SplitRange};

/// Lines cut at the first separator into key and value; a line without a separator is all key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyValueLines {
    /// A tab is Hadoop's default.
    pub separator: u8,
}

impl Format for KeyValueLines {
    type Record<'a> = (&'a [u8], &'a [u8]);

    fn cut(&self) -> Cut {
        Cut::TextBlocks
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Self::Record<'_>) -> Result<()>,
    ) -> Result<()> {
        Lines.read(split, source, &mut |at, line| {
            let found = memchr::memchr(self.separator, line.bytes);
            each(
                at,
                found
                    .map_or((line.bytes, &[][..]), |at| (&line.bytes[..at], &line.bytes[at + 1..])),
            )
        })
    }
}

/// Lines of many small files: a map takes files until they have `split_bytes` together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CombinedLines {
    /// Least bytes of a split, unless the input ends.
    pub split_bytes: u64,
}

impl Format for CombinedLines {
    type Record<'a> = Line<'a>;

    fn cut(&self) -> Cut {
        Cut::Combined { bytes: self.split_bytes }
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Line<'_>) -> Result<()>,
    ) -> Result<()> {
        Lines.read(split, source, each)
    }

    fn bytes<'r>(record: &Self::Record<'r>) -> Option<&'r [u8]> {
        Some(record.bytes)
    }
}

/// Lines, a fixed number of them per map: for lists with much work per line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NLines {
    /// Lines per map.
    pub count: u64,
}

impl Format for NLines {
    type Record<'a> = Line<'a>;

    fn cut(&self) -> Cut {
        Cut::Lines { count: self.count }
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Line<'_>) -> Result<()>,
    ) -> Result<()> {
        // The split consists of whole lines: its first byte begins one, and its last one ends before the next split.
        let lines = SplitRange { start: 0, end: u64::MAX };
        let mut inner = Window { source, split };
        Lines.read(lines, &mut inner, &mut |at, line| {
            let offset = split.start + at;
            each(offset, Line { offset, bytes: line.bytes })
        })
    }

    fn bytes<'r>(record: &Self::Record<'r>) -> Option<&'r [u8]> {
        Some(record.bytes)
    }
}

/// A part of a source, presented as a whole source.
struct Window<'a> {
    source: &'a mut dyn Source,
    split: SplitRange,
}

impl Source for Window<'_> {
    fn slice(&mut self, offset: u64) -> std::io::Result<&[u8]> {
        let at = self.split.start.saturating_add(offset);
        if at >= self.split.end {
            return Ok(&[]);
        }
        let slice = self.source.slice(at)?;
        let rest = usize::try_from(self.split.end - at).unwrap_or(usize::MAX);
        Ok(&slice[..slice.len().min(rest)])
    }

    fn length(&self) -> Option<u64> {
        let end = self.source.length()?.min(self.split.end);
        Some(end.saturating_sub(self.split.start))
    }

    fn text(&self) -> TextRules {
        let rules = self.source.text();
        TextRules { keeps_mark: rules.keeps_mark || self.split.start > 0, ..rules }
    }
}

//! Cuts the bytes of a split into lines, by Hadoop's rules.
//!
//! Invariants: `\n`, `\r\n` and `\r` end a line; a split that does not begin at 0 drops everything through its first line end; it reads
//! every line that begins at or before its end. Each line of a file therefore belongs to exactly one split, wherever the cuts are. A byte
//! order mark before the first line is not part of it. A line borrows from its slice; only a line that straddles slices is copied. A split
//! within one line is read to its own end and no further, and nothing of that line is kept.

use memchr::memchr2;

use super::delimited;
use super::line::Line;
use super::rules::{LINE_BYTES_MAX, TextRules};
use crate::error::Error;
use crate::error::Result;
use crate::input::{Cut, Format, Source, SplitRange};

/// The format whose records are lines of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lines;

impl Format for Lines {
    type Record<'a> = Line<'a>;

    fn cut(&self) -> Cut {
        Cut::TextBlocks
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Line<'_>) -> Result<()>,
    ) -> Result<()> {
        let rules = source.text();
        if let Some(delimiter) = &rules.delimiter {
            return delimited::read(&rules, delimiter, split, source, each);
        }
        LineReader {
            split,
            start: split.start,
            carry: Vec::new(),
            dropped: 0,
            after_cr: false,
            drop: split.start > 0,
            bytes_max: LINE_BYTES_MAX,
            rules: &rules,
        }
        .run(source, each)
    }

    fn bytes<'r>(record: &Self::Record<'r>) -> Option<&'r [u8]> {
        Some(record.bytes)
    }
}

struct LineReader<'a> {
    split: SplitRange,
    /// Where the current line begins.
    start: u64,
    /// Its beginning, if that was in earlier slices.
    carry: Vec<u8>,
    /// How many of its bytes were in earlier slices and dropped.
    dropped: u64,
    /// The last line ended with `\r` at the end of a slice: a `\n` at the front of the next belongs to it.
    after_cr: bool,
    /// The current line belongs to the split before and is dropped.
    drop: bool,
    bytes_max: usize,
    rules: &'a TextRules,
}

impl LineReader<'_> {
    fn run(
        mut self,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Line<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut position = self.start;
        while self.start <= self.split.end {
            let slice = source.slice(position)?;
            if slice.is_empty() {
                return self.end_of_file(each);
            }
            position += slice.len() as u64;
            self.slice(slice, each)?;
            // Our first line would begin after the end.
            if self.drop && position >= self.split.end {
                break;
            }
        }
        Ok(())
    }

    fn slice(
        &mut self,
        mut rest: &[u8],
        each: &mut impl FnMut(u64, Line<'_>) -> Result<()>,
    ) -> Result<()> {
        if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
            rest = &rest[1..];
            self.start += 1;
        }
        while self.start <= self.split.end {
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                return self.keep(rest);
            };
            let end_bytes = match (rest[end], rest.get(end + 1)) {
                (b'\r', Some(b'\n')) => 2,
                (b'\r', None) => {
                    self.after_cr = true;
                    1
                }
                _ => 1,
            };
            let before = self.carry.len() as u64 + std::mem::take(&mut self.dropped);
            let length = before + (end + end_bytes) as u64;
            if std::mem::take(&mut self.drop) || self.rules.passes_over(self.start, length) {
                // Its kept bytes are of no use.
                self.carry.clear();
            } else if self.carry.is_empty() {
                let bytes = self.rules.unmarked(self.start, &rest[..end]);
                each(self.start, Line { offset: self.start, bytes })?;
            } else {
                self.keep(&rest[..end])?;
                let bytes = self.rules.unmarked(self.start, &self.carry);
                each(self.start, Line { offset: self.start, bytes })?;
                self.carry.clear();
            }
            self.start += length;
            rest = &rest[end + end_bytes..];
            if rest.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<()> {
        if self.drop || self.dropped > 0 {
            self.dropped += bytes.len() as u64;
            return Ok(());
        }
        let length = self.carry.len() as u64 + bytes.len() as u64;
        if self.rules.bytes_max.is_some_and(|most| length >= most) {
            // It will be skipped.
            self.dropped = length;
            self.carry.clear();
            return Ok(());
        }
        if self.carry.len() + bytes.len() > self.bytes_max {
            return Err(Error::LineTooLong { offset: self.start }.into());
        }
        self.carry.extend_from_slice(bytes);
        Ok(())
    }

    fn end_of_file(self, each: &mut impl FnMut(u64, Line<'_>) -> Result<()>) -> Result<()> {
        let length = self.carry.len() as u64 + self.dropped;
        let bytes = self.rules.unmarked(self.start, &self.carry);
        if self.drop
            || self.rules.passes_over(self.start, length)
            || bytes.is_empty() && self.dropped == 0
        {
            return Ok(());
        }
        each(self.start, Line { offset: self.start, bytes })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use proptest::prelude::*;

    use super::*;

    /// Hands out slices of at most `slice_bytes`.
    struct Chopped<'a> {
        file: &'a [u8],
        slice_bytes: usize,
    }

    impl Source for Chopped<'_> {
        fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
            let rest = &self.file[(offset as usize).min(self.file.len())..];
            Ok(&rest[..rest.len().min(self.slice_bytes)])
        }

        fn length(&self) -> Option<u64> {
            Some(self.file.len() as u64)
        }
    }

    fn lines(file: &[u8], start: u64, end: u64, slice_bytes: usize) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Vec::new();
        Lines
            .read(SplitRange { start, end }, &mut Chopped { file, slice_bytes }, &mut |at, line| {
                assert_eq!(at, line.offset);
                lines.push((at, line.to_vec()));
                Ok(())
            })
            .unwrap();
        lines
    }

    /// A reference implementation: one byte at a time, on the whole file.
    fn slow(file: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let (mut lines, mut line, mut start, mut at) = (Vec::new(), Vec::new(), 0, 0);
        while at < file.len() {
            let end_bytes = match (file[at], file.get(at + 1)) {
                (b'\r', Some(b'\n')) => 2,
                (b'\r' | b'\n', _) => 1,
                _ => 0,
            };
            if end_bytes == 0 {
                line.push(file[at]);
                at += 1;
                continue;
            }
            lines.push((start as u64, std::mem::take(&mut line)));
            at += end_bytes;
            start = at;
        }
        if start < file.len() {
            lines.push((start as u64, line));
        }
        lines
    }

    fn check(file: &[u8]) {
        let whole = slow(file);
        for slice_bytes in [1, 2, 3, 5, 1 << 20] {
            for split_bytes in 1..=file.len().max(1) as u64 {
                let mut found = Vec::new();
                let mut start = 0;
                while start < file.len() as u64 || start == 0 {
                    let end = (start + split_bytes).min(file.len() as u64);
                    found.extend(lines(file, start, end, slice_bytes));
                    start += split_bytes;
                }
                assert_eq!(
                    found, whole,
                    "{file:?} splits of {split_bytes}, slices of {slice_bytes}"
                );
            }
        }
    }

    #[test]
    fn every_split_size_reads_the_same_lines() {
        for file in [
            &b""[..],
            b"\n",
            b"\r",
            b"\r\n",
            b"a",
            b"a\n",
            b"\r\r\n\n\r",
            b"one\ntwo\r\nthree\rfour\n\nsix",
            b"x\r\n\r\ny\n\r\rz\r\n",
            b"no end of line at all in this one",
        ] {
            check(file);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_split_size_reads_the_same_random_lines(
            file in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..40),
        ) {
            check(&file);
        }
    }

    /// Bytes of a file that is one line, except for a short one before and after it; without allocating it.
    struct Giant {
        bytes: u64,
        asked: u64,
    }

    static X: [u8; 1 << 20] = [b'x'; 1 << 20];

    impl Source for Giant {
        fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
            let end = self.bytes - 3;
            self.asked = self.asked.max(offset);
            Ok(match offset {
                0..2 => &b"a\n"[offset as usize..],
                _ if offset < end => &X[..X.len().min((end - offset) as usize)],
                _ => &b"\nb\n"[(offset - end).min(3) as usize..],
            })
        }

        fn length(&self) -> Option<u64> {
            Some(self.bytes)
        }
    }

    #[test]
    fn of_a_line_of_ten_gigabytes_only_its_own_split_fails_and_nobody_reads_more_than_needed() {
        const SPLIT: u64 = 128 << 20;
        let bytes: u64 = 10 << 30;
        let read = |start: u64| {
            let (mut source, mut lines) = (Giant { bytes, asked: 0 }, Vec::new());
            let split = SplitRange { start, end: (start + SPLIT).min(bytes) };
            let (carry, drop) = (Vec::new(), start > 0);
            let reader = LineReader {
                split,
                start,
                carry,
                dropped: 0,
                after_cr: false,
                drop,
                bytes_max: 1 << 20,
                rules: &TextRules::default(),
            };
            let ran = reader.run(&mut source, &mut |at, line| {
                lines.push((at, line.to_vec()));
                Ok(())
            });
            (ran.map_err(|error| error.to_string()), lines, source.asked)
        };
        let (ran, lines, asked) = read(0);
        assert!(ran.unwrap_err().contains("offset 2 "), "it is named");
        assert_eq!(lines, [(0, b"a".to_vec())]);
        assert!(asked < 3 << 20, "read no further than the bound: {asked}");
        for start in (SPLIT..bytes).step_by(SPLIT as usize) {
            let (ran, lines, asked) = read(start);
            assert_eq!(ran, Ok(()));
            let last =
                if start + SPLIT == bytes { vec![(bytes - 2, b"b".to_vec())] } else { vec![] };
            assert_eq!(lines, last, "{start}");
            assert!(asked <= start + SPLIT);
        }
    }

    #[test]
    fn a_line_at_the_end_of_a_split_belongs_to_it() {
        let file = b"ab\ncd\nef\n";
        assert_eq!(lines(file, 0, 3, 100), [(0, b"ab".to_vec()), (3, b"cd".to_vec())]);
        assert_eq!(lines(file, 3, 9, 100), [(6, b"ef".to_vec())]);
    }
}

//! Records that end with a delimiter set by the job.
//!
//! Invariants: a record belongs to the split in which it begins, or at whose end it begins. The search for a record that begins within a
//! split starts one delimiter's length before the split, which is right as long as the delimiter cannot overlap itself
//! ([`TextRules::can_cut`]). Of a record that no mapper gets, only the bytes are kept in which a delimiter can begin.

use memchr::memmem::Finder;

use super::line::Line;
use super::rules::{LINE_BYTES_MAX, TextRules};
use crate::error::Error;
use crate::error::Result;
use crate::input::{Source, SplitRange};

/// Passes the records of `split` to `each`.
pub(super) fn read(
    rules: &TextRules,
    delimiter: &[u8],
    split: SplitRange,
    source: &mut dyn Source,
    each: &mut impl FnMut(u64, Line<'_>) -> Result<()>,
) -> Result<()> {
    let overlap = delimiter.len() - 1;
    let mut position = split.start.saturating_sub(overlap as u64);
    // Start of the current record; of its bytes in earlier slices, the number dropped and the bytes kept.
    let (mut start, mut dropped, mut carry) = (position, 0u64, Vec::new());
    let mut drop = split.start > 0;
    let finder = Finder::new(delimiter);
    let mut give = |start: u64, record: &[u8], length: u64| {
        if rules.passes_over(start, length) {
            return Ok(());
        }
        each(start, Line { offset: start, bytes: rules.unmarked(start, record) })
    };
    while start <= split.end {
        let slice = source.slice(position)?;
        if slice.is_empty() {
            let is_mark = dropped == 0 && rules.unmarked(start, &carry).is_empty();
            if drop || is_mark {
                return Ok(());
            }
            return give(start, &carry, dropped + carry.len() as u64);
        }
        position += slice.len() as u64;
        let mut rest = slice;
        while start <= split.end {
            let Some((record_end, rest_start)) = find(&finder, &carry, rest) else {
                let length = dropped + (carry.len() + rest.len()) as u64;
                if drop || rules.bytes_max.is_some_and(|most| length >= most) {
                    // No mapper gets it: keep only the bytes in which a delimiter can begin.
                    carry.extend_from_slice(&rest[rest.len().saturating_sub(overlap)..]);
                    carry.drain(..carry.len().saturating_sub(overlap));
                    dropped = length - carry.len() as u64;
                } else if length > LINE_BYTES_MAX as u64 {
                    return Err(Error::LineTooLong { offset: start }.into());
                } else {
                    carry.extend_from_slice(rest);
                }
                break;
            };
            let length = std::mem::take(&mut dropped) + (record_end + delimiter.len()) as u64;
            if drop {
                drop = false;
            } else if carry.is_empty() {
                give(start, &rest[..record_end], length)?;
            } else {
                carry.extend_from_slice(&rest[..rest_start]);
                give(start, &carry[..record_end], length)?;
            }
            carry.clear();
            start += length;
            rest = &rest[rest_start..];
            if rest.is_empty() {
                break;
            }
        }
        // Our first record would begin after the end.
        if drop && position >= split.end {
            break;
        }
    }
    Ok(())
}

/// End of the record, counted from its beginning in `carry`, and start of the next one in `rest`.
fn find(finder: &Finder<'_>, carry: &[u8], rest: &[u8]) -> Option<(usize, usize)> {
    let (length, before) = (finder.needle().len(), carry.len());
    let tail = before.saturating_sub(length - 1);
    if before > 0 && length > 1 {
        let mut seam = carry[tail..].to_vec();
        seam.extend_from_slice(&rest[..rest.len().min(length - 1)]);
        if let Some(at) = finder.find(&seam) {
            return Some((tail + at, tail + at + length - before));
        }
    }
    finder.find(rest).map(|at| (before + at, at + length))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// [`LONG`] bytes without an end after `before`, then `behind`; in small slices.
    struct Long<'a> {
        before: &'a [u8],
        behind: &'a [u8],
        slice: Vec<u8>,
    }

    const LONG: u64 = 1 << 20;
    const SLICE_BYTES: usize = 1000;

    impl Source for Long<'_> {
        fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
            let begin = self.before.len() as u64;
            match offset.checked_sub(begin) {
                None => Ok(&self.before[offset as usize..]),
                Some(at) if at < LONG => Ok(&self.slice[..SLICE_BYTES.min((LONG - at) as usize)]),
                Some(at) => Ok(self.behind.get((at - LONG) as usize..).unwrap_or_default()),
            }
        }

        fn length(&self) -> Option<u64> {
            None
        }
    }

    fn records(rules: &TextRules, before: &str, behind: &str) -> Result<Vec<(u64, String)>> {
        let (before, behind) = (before.as_bytes(), behind.as_bytes());
        let mut source = Long { before, behind, slice: vec![b'x'; SLICE_BYTES] };
        let (mut found, split) = (Vec::new(), SplitRange { start: 0, end: u64::MAX });
        let delimiter = rules.delimiter.as_deref().expect("there is one");
        read(rules, delimiter, split, &mut source, &mut |at, line| {
            found.push((at, line.to_str_lossy().into_owned()));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn a_record_that_is_passed_over_may_be_of_any_length() {
        for delimiter in ["|", "||", "<end>"] {
            let bounded = TextRules {
                delimiter: Some(delimiter.as_bytes().into()),
                bytes_max: Some(100),
                ..TextRules::default()
            };
            let before = format!("a{delimiter}");
            let behind = format!("{delimiter}b{delimiter}c");
            let at = (before.len() + delimiter.len()) as u64 + LONG;
            let expected = [(0, "a"), (at, "b"), (at + 1 + delimiter.len() as u64, "c")];
            let expected = expected.map(|(at, text)| (at, text.to_owned()));
            assert_eq!(records(&bounded, &before, &behind).unwrap(), expected, "{delimiter}");
            assert_eq!(records(&bounded, &before, "").unwrap(), expected[..1], "{delimiter}");
        }
        let unbounded = TextRules { delimiter: Some((*b"||").into()), ..TextRules::default() };
        let found = records(&unbounded, "a||", "||b").unwrap();
        let lengths: Vec<usize> = found.iter().map(|(_, text)| text.len()).collect();
        assert_eq!(lengths, [1, LONG as usize, 1]);
    }
}

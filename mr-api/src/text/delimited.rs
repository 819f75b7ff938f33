//! Records that end with a delimiter of the job's own.
//!
//! Invariants: a record belongs to the split in which it begins, or at whose end it begins; one that begins within a split is found by looking
//! from one delimiter's length before the split on, which is right as long as the delimiter cannot overlap itself ([`TextRules::can_cut`]).

use memchr::memmem::Finder;

use super::reader::LINE_BYTES_MAX;
use super::rules::TextRules;
use crate::Result;
use crate::error::Error;
use crate::input::{Source, SplitRange};
use crate::text::Line;

/// Hands the records of `split` to `each`.
pub(super) fn read(
    rules: &TextRules,
    delimiter: &[u8],
    split: SplitRange,
    source: &mut dyn Source,
    each: &mut impl FnMut(u64, Line<'_>) -> Result<()>,
) -> Result<()> {
    let overlap = delimiter.len() as u64 - 1;
    let mut position = split.start.saturating_sub(overlap);
    // Where the current record begins, and what of it lies in slices that are gone.
    let (mut start, mut carry) = (position, Vec::new());
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
            let is_mark = rules.unmarked(start, &carry).is_empty();
            if drop || is_mark {
                return Ok(());
            }
            return give(start, &carry, carry.len() as u64);
        }
        position += slice.len() as u64;
        let mut rest = slice;
        while start <= split.end {
            let Some((record_end, rest_start)) = find(&finder, &carry, rest) else {
                keep(&mut carry, rest, drop, delimiter.len(), &mut start, rules)?;
                break;
            };
            let length = record_end + delimiter.len();
            if drop {
                drop = false;
            } else if carry.is_empty() {
                give(start, &rest[..record_end], length as u64)?;
            } else {
                carry.extend_from_slice(&rest[..rest_start]);
                give(start, &carry[..record_end], length as u64)?;
            }
            carry.clear();
            start += length as u64;
            rest = &rest[rest_start..];
            if rest.is_empty() {
                break;
            }
        }
        // The first record of ours would begin behind the end.
        if drop && position >= split.end {
            break;
        }
    }
    Ok(())
}

/// Where the record ends, counted from its beginning in `carry`, and where the next begins in `rest`.
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

/// Keeps `rest` as part of the current record; of one that is dropped no more than a delimiter may begin in.
fn keep(
    carry: &mut Vec<u8>,
    rest: &[u8],
    drop: bool,
    delimiter_length: usize,
    start: &mut u64,
    rules: &TextRules,
) -> Result<()> {
    carry.extend_from_slice(rest);
    if drop {
        let gone = carry.len().saturating_sub(delimiter_length - 1);
        carry.drain(..gone);
        *start += gone as u64;
        return Ok(());
    }
    let is_passed_over = rules.bytes_max.is_some_and(|most| carry.len() as u64 >= most);
    if carry.len() > LINE_BYTES_MAX && !is_passed_over {
        return Err(Error::LineTooLong { offset: *start }.into());
    }
    Ok(())
}

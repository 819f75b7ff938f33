//! Reports to the worker which record a map is in, and skips the records to leave out.
//!
//! Invariant: the worker sees a record only while user code processes it, so no record is blamed for a failure between records, in `setup`
//! or in `cleanup`. A streaming map is in no record: its script reads ahead.

use std::cell::{Cell, RefCell};

use protocol::RecordAt;
use shuffle::Life;

/// Longest part of a record that is saved.
const SKIPPED_BYTES_MAX: usize = 4 << 10;
/// Skipped records saved by one task; later ones are only counted.
const SKIPPED_KEPT_MAX: usize = 10_000;

/// A skipped record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// Where it is.
    pub record: RecordAt,
    /// Its beginning, if the format knows its bytes.
    bytes: Option<Vec<u8>>,
    /// Its whole length, bytes.
    length: Option<u64>,
}

/// The position of a map in its input, over all its parts.
pub struct RecordCursor<'a> {
    /// See [`protocol::record`]: number of the part, offset.
    cells: [&'a Cell<u64>; 2],
    /// Position of the record handed out last; `None` if user code may be in another one.
    pub(crate) position: Cell<Option<u64>>,
    /// Records handed out.
    pub(crate) count: Cell<u64>,
    /// Records skipped.
    pub(crate) skip_count: Cell<u64>,
    /// The first of them.
    pub skipped: RefCell<Vec<Skipped>>,
    skip: &'a [RecordAt],
    /// Stops the process before the record at this offset.
    stop: fn(u64),
    /// Shown with every record.
    life: Life,
}

impl<'a> RecordCursor<'a> {
    /// Publishes the position in `cells`; skips the records in `skip`, which is ascending. `stop` stops the process before the record at an
    /// offset, where the job asks for that. `life` is the sign of life of the map.
    pub fn new(cells: [&'a Cell<u64>; 2], skip: &'a [RecordAt], stop: fn(u64), life: Life) -> Self {
        let (position, count, skip_count, skipped) = Default::default();
        RecordCursor { cells, position, count, skip_count, skipped, skip, stop, life }
    }

    /// For the records of one part.
    pub fn in_part(&'a self, part: u32, stop_before: u64) -> PartCursor<'a> {
        let (from, to) = (RecordAt { part, offset: 0 }, RecordAt { part, offset: u64::MAX });
        let first = self.skip.partition_point(|record| *record < from);
        let end = self.skip.partition_point(|record| *record <= to);
        PartCursor { cursor: self, part, stop_before, skip: &self.skip[first..end] }
    }

    /// User code is in no record, so a failure from now on is not a record's fault.
    pub(crate) fn leave(&self) {
        self.cells[0].set(0);
    }
}

/// The position of a map in one part of its split.
#[derive(Clone, Copy)]
pub struct PartCursor<'a> {
    cursor: &'a RecordCursor<'a>,
    part: u32,
    /// The process stops before the record that begins here; `u64::MAX` means never.
    stop_before: u64,
    skip: &'a [RecordAt],
}

impl PartCursor<'_> {
    /// Marks that user code is about to get the record at `at`; false if the record is skipped. `bytes` returns the record's bytes.
    #[inline]
    pub(crate) fn enter<'r>(&self, at: u64, bytes: impl FnOnce() -> Option<&'r [u8]>) -> bool {
        self.cursor.life.show();
        self.cursor.position.set(Some(at));
        if !self.skip.is_empty() && self.leaves_out(at, bytes) {
            return false;
        }
        self.publish(at);
        if at == self.stop_before {
            (self.cursor.stop)(at);
        }
        self.cursor.count.set(self.cursor.count.get() + 1);
        true
    }

    /// User code has finished the record.
    #[inline]
    pub(crate) fn leave(&self) {
        self.cursor.leave();
    }

    /// Publishes to the worker that user code is in the record at `at`.
    #[inline]
    pub(crate) fn publish(&self, at: u64) {
        let [part, offset] = self.cursor.cells;
        offset.set(at);
        part.set(u64::from(self.part) + 1);
    }

    /// Names the record in which user code failed, for the message.
    pub fn blame(&self, at: u64) {
        self.cursor.position.set(Some(at));
        self.publish(at);
    }

    /// User code failed in a record of this part, nobody knows in which.
    pub fn blame_none(&self) {
        self.cursor.position.set(None);
    }

    #[cold]
    fn leaves_out<'r>(&self, at: u64, bytes: impl FnOnce() -> Option<&'r [u8]>) -> bool {
        let record = RecordAt { part: self.part, offset: at };
        if self.skip.binary_search(&record).is_err() {
            return false;
        }
        let RecordCursor { skip_count, skipped, .. } = self.cursor;
        skip_count.set(skip_count.get() + 1);
        let mut skipped = skipped.borrow_mut();
        if skipped.len() < SKIPPED_KEPT_MAX {
            let bytes = bytes();
            let length = bytes.map(|bytes| bytes.len() as u64);
            let bytes = bytes.map(|bytes| bytes[..bytes.len().min(SKIPPED_BYTES_MAX)].to_vec());
            skipped.push(Skipped { record, bytes, length });
        }
        true
    }
}

impl Skipped {
    /// One line: file and offset, its length, its bytes with all but printable ASCII escaped. `path` is the file that it is in.
    pub fn line(&self, path: &str) -> String {
        let length = self.length.map_or_else(|| "-".to_owned(), |length| length.to_string());
        let bytes = self.bytes.as_deref().unwrap_or_default();
        let cut = self.length.is_some_and(|length| length > bytes.len() as u64);
        let more = if cut { "…" } else { "" };
        format!("{path}:{}\t{length}\t{}{more}\n", self.record.offset, bytes.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(part: u32, offset: u64) -> RecordAt {
        RecordAt { part, offset }
    }

    #[test]
    fn a_record_is_told_while_user_code_has_it_and_left_out_if_listed() {
        let cells = [Cell::new(0), Cell::new(0)];
        let skip = [at(0, 5), at(1, 0), at(1, 8), at(2, 3)];
        let cursor = RecordCursor::new([&cells[0], &cells[1]], &skip, |_| (), Life::default());
        let part = cursor.in_part(1, u64::MAX);
        assert!(!part.enter(0, || Some(b"a\xff\n")) && !part.enter(8, || None));
        assert_eq!(cells[0].get(), 0, "a record that is left out is in nobody's hands");
        assert!(part.enter(5, || None));
        assert_eq!((cells[0].get(), cells[1].get()), (2, 5));
        part.leave();
        assert_eq!((cells[0].get(), cursor.position.get()), (0, Some(5)));
        assert_eq!((cursor.count.get(), cursor.skip_count.get()), (1, 2));
        let skipped = cursor.skipped.borrow();
        assert_eq!(skipped[0].line("/in"), "/in:0\t3\ta\\xff\\n\n");
        assert_eq!(skipped[1].line("/in"), "/in:8\t-\t\n");
    }

    #[test]
    fn long_records_are_written_aside_in_part() {
        let cells = [Cell::new(0), Cell::new(0)];
        let (skip, long) = ([at(0, 0)], vec![b'x'; SKIPPED_BYTES_MAX + 1]);
        let cursor = RecordCursor::new([&cells[0], &cells[1]], &skip, |_| (), Life::default());
        assert!(!cursor.in_part(0, u64::MAX).enter(0, || Some(&long)));
        let text = cursor.skipped.borrow()[0].line("/in");
        assert!(text.starts_with("/in:0\t4097\txxx") && text.ends_with("x…\n"), "{text}");
        assert_eq!(text.matches('x').count(), SKIPPED_BYTES_MAX);
    }
}

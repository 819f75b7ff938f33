//! The records of a split, as a mapper receives them.

use mr_formats::{Format, Source, SplitRange};

use crate::error::Result;
use crate::task::PartCursor;

/// The records of one split, for [`crate::Mapper::run`].
pub struct Records<'a, F> {
    pub(super) format: &'a F,
    pub(super) split: SplitRange,
    pub(super) source: &'a mut dyn Source,
    /// The position of the reading, and the records to skip.
    pub(super) cursor: PartCursor<'a>,
    /// Which of the job's inputs these records belong to.
    pub(super) input: u32,
}

impl<'a, F> Records<'a, F> {
    /// The records of `split` that `format` makes of `source`, which belongs to the job's input number `input`.
    pub fn new(
        format: &'a F,
        (split, source): (SplitRange, &'a mut dyn Source),
        cursor: PartCursor<'a>,
        input: u32,
    ) -> Self {
        Records { format, split, source, cursor, input }
    }
}

impl<'a, F: Format> Records<'a, F> {
    /// Where the record is reported and, if the job asks for that, skipped.
    pub fn cursor(&self) -> PartCursor<'a> {
        self.cursor
    }

    /// Calls `each` for every record, in order.
    ///
    /// # Errors
    /// Those of the input and of `each`.
    #[inline]
    pub fn for_each(self, mut each: impl FnMut(F::Record<'_>) -> Result<()>) -> Result<()> {
        let Records { format, split, source, cursor, .. } = self;
        format.read(split, source, &mut |at, record| {
            if cursor.enter(at, || F::bytes(&record)) {
                each(record)?;
                cursor.leave();
            }
            Ok(())
        })
    }

    /// Calls `each` for every record with its position. The record counts as left before `each` runs, because the caller reads ahead.
    ///
    /// # Errors
    /// Those of the input and of `each`.
    pub fn feed(self, mut each: impl FnMut(u64, F::Record<'_>) -> Result<()>) -> Result<()> {
        let Records { format, split, source, cursor, .. } = self;
        format.read(split, source, &mut |at, record| {
            if cursor.enter(at, || F::bytes(&record)) {
                cursor.leave();
                each(at, record)?;
            }
            Ok(())
        })
    }
}

//! The records of a split, as a mapper receives them.

use crate::error::Result;
use crate::formats::{Format, Source, SplitRange};
use crate::task::PartCursor;

/// The records of one split, for [`crate::Mapper::run`].
pub struct Records<'a, F> {
    pub(crate) format: &'a F,
    pub(crate) split: SplitRange,
    pub(crate) source: &'a mut dyn Source,
    /// The position of the reading, and the records to skip.
    pub(crate) cursor: PartCursor<'a>,
    /// Which of the job's inputs these records belong to.
    pub(crate) input: u32,
}

impl<F: Format> Records<'_, F> {
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
    pub(crate) fn feed(self, mut each: impl FnMut(u64, F::Record<'_>) -> Result<()>) -> Result<()> {
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

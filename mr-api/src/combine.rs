//! Combiners that see the sorted output of a map: for those that are no [`Fold`](crate::Fold).
//!
//! Such a combiner runs over what is in the sort buffer whenever that is written; what it emits is sorted again, so it may emit in any
//! order. It may run any number of times, none included.

use shuffle::SortedRecords;

use crate::Result;
use crate::context::Context;

/// Sorted pairs of one filling of the sort buffer.
pub struct SortedPairs<'a>(SortedRecords<'a>);

impl<'a> SortedPairs<'a> {
    pub(crate) fn new(records: SortedRecords<'a>) -> Self {
        SortedPairs(records)
    }

    #[inline]
    pub(crate) fn peek_key(&self) -> Option<&[u8]> {
        self.0.peek_key()
    }

    #[inline]
    pub(crate) fn next_pair(&mut self) -> Option<(&[u8], &[u8])> {
        self.0.next_record()
    }
}

/// Takes the key and value of a combined pair.
pub(crate) type EmitPair<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + Send + 'a;

/// A combiner of sorted pairs.
pub trait CombineSorted: Send + Sync + Clone + 'static {
    fn combine(
        &self,
        context: &Context,
        pairs: &mut SortedPairs<'_>,
        emit: &mut EmitPair<'_>,
    ) -> Result<()>;
}

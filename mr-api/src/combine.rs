//! Combiners that see the sorted output of a map: for those that are no [`Fold`](crate::Fold).
//!
//! Such a combiner runs over what is in the sort buffer whenever that is written; what it emits is sorted again, so it may emit in any
//! order. It may run any number of times, none included.

use shuffle::{SortedCombine, SortedRecords};

use crate::Result;
use crate::context::Context;
use crate::error::BoxError;
use crate::mapper::{Mapper, Sink};
use crate::partition::Partition;
use crate::phases;
use crate::stage::{MapResult, MapSide, MapTarget, mismatch};

/// Sorted pairs of one filling of the sort buffer.
pub struct SortedPairs<'a>(SortedRecords<'a>);

impl SortedPairs<'_> {
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

/// The map side of a job with such a combiner.
pub(crate) struct CombiningSorted<C>(pub(crate) C);

pub(crate) struct CombiningSink<C: CombineSorted> {
    writer: shuffle::SortedCombiningWriter<Adapter<C>>,
    partition: Partition,
    partitions: u32,
}

struct Adapter<C> {
    combiner: C,
    context: Context,
    partition: Partition,
    partitions: u32,
}

impl<C: CombineSorted> SortedCombine for Adapter<C> {
    fn combine(
        &mut self,
        records: SortedRecords<'_>,
        emit: &mut shuffle::EmitCombined<'_>,
    ) -> Result<(), BoxError> {
        let mut pairs = SortedPairs(records);
        self.combiner.combine(&self.context, &mut pairs, &mut |key, value| {
            Ok(emit(self.partition.of(key, self.partitions), key, value)?)
        })
    }
}

impl<C: CombineSorted> Sink for CombiningSink<C> {
    #[inline]
    fn accept(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let partition = self.partition.of(key, self.partitions);
        Ok(self.writer.emit(partition, key, value)?)
    }
}

impl<M: Mapper, C: CombineSorted> MapSide<M> for CombiningSorted<C> {
    type Sink = CombiningSink<C>;

    fn open(
        &self,
        target: MapTarget,
        partition: &Partition,
        context: &Context,
    ) -> Result<Self::Sink> {
        let MapTarget::Shuffle { options, pool } = target else {
            return Err(mismatch("a job with reduces was run without"));
        };
        let partitions = options.partitions;
        let adapter = Adapter {
            combiner: self.0.clone(),
            context: context.clone(),
            partition: partition.clone(),
            partitions,
        };
        let writer = shuffle::SortedCombiningWriter::with_pool(options, adapter, &pool)?
            .with_clock(phases::clock);
        Ok(CombiningSink { writer, partition: partition.clone(), partitions })
    }

    fn close(sink: Self::Sink) -> Result<MapResult> {
        Ok(MapResult::Shuffle(sink.writer.finish()?))
    }
}

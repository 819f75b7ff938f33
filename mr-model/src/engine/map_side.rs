//! What runs between mapper and reducer: sorting, combining, or nothing.

use std::marker::PhantomData;

use mr_formats::ToText;
use shuffle::{
    BufferPool, Combine, CombiningWriter, DecodeError, EmitCombined, MapOutputOptions,
    MapOutputWriter, SortedCombine, SortedCombiningWriter, SortedRecords,
};

use super::stage::{MapResult, MapSide, MapTarget};
use crate::datum::{Datum, Put};
use crate::error::{BoxError, Error, Result};
use crate::map::{Mapper, Partition, Sink};
use crate::reduce::{CombineFilling, Fold, SortedPairs};
use crate::task::{Context, Output, TaskState, phases};

/// No combiner: every pair is sorted.
pub(crate) struct Sorting;

/// Combines before sorting.
pub(crate) struct Combining<F>(pub(crate) F);

/// No shuffle: pairs are the output.
pub(crate) struct Direct;

pub(crate) struct SortSink {
    writer: MapOutputWriter,
    partition: Partition,
    partitions: u32,
}

impl Sink for SortSink {
    #[inline]
    fn accept(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let partition = self.partition.of(key, self.partitions);
        Ok(self.writer.emit(partition, key, value)?)
    }
}

impl<M: Mapper> MapSide<M> for Sorting {
    type Sink = SortSink;

    fn open(
        &self,
        target: MapTarget,
        partition: &Partition,
        context: &Context,
    ) -> Result<SortSink> {
        let (options, pool) = shuffle_target(target)?;
        let partitions = options.partitions;
        let writer = MapOutputWriter::with_pool(options, &pool)?
            .watched(phases::clock, TaskState::of(context).life());
        Ok(SortSink { writer, partition: partition.clone(), partitions })
    }

    fn close(sink: SortSink) -> Result<MapResult> {
        Ok(MapResult::Shuffle(sink.writer.finish()?))
    }
}

/// A [`Fold`] as the engine's combiner.
pub(crate) struct FoldCombine<F, V> {
    fold: F,
    value: PhantomData<fn() -> V>,
}

impl<F: Fold<V>, V: Datum> Combine for FoldCombine<F, V> {
    type Acc = F::Acc;

    #[inline]
    fn encode(&self, acc: &F::Acc, out: &mut Vec<u8>) {
        acc.put(out);
    }

    #[inline]
    fn decode(&self, bytes: &[u8]) -> Result<F::Acc, DecodeError> {
        F::Acc::read(bytes).map(F::Acc::own)
    }

    #[inline]
    fn merge(&self, into: &mut F::Acc, from: F::Acc) {
        self.fold.merge(into, from);
    }
}

pub(crate) struct FoldSink<F: Fold<V>, V: Datum> {
    writer: CombiningWriter<FoldCombine<F, V>>,
    fold: F,
}

impl<F: Fold<V>, V: Datum> Sink for FoldSink<F, V> {
    #[inline]
    fn accept(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let acc = self.fold.lift(V::read(value)?);
        Ok(self.writer.emit(key, acc)?)
    }
}

impl<M: Mapper, F: Fold<M::Value>> MapSide<M> for Combining<F> {
    type Sink = FoldSink<F, M::Value>;

    fn open(
        &self,
        target: MapTarget,
        partition: &Partition,
        context: &Context,
    ) -> Result<Self::Sink> {
        let (options, pool) = shuffle_target(target)?;
        let partitioning = partition.to_shuffle(options.partitions);
        let combine = FoldCombine { fold: self.0.clone(), value: PhantomData };
        let writer = CombiningWriter::with_pool(options, combine, partitioning, &pool)?
            .watched(phases::clock, TaskState::of(context).life());
        Ok(FoldSink { writer, fold: self.0.clone() })
    }

    fn close(sink: Self::Sink) -> Result<MapResult> {
        Ok(MapResult::Shuffle(sink.writer.finish()?))
    }
}

/// Combines the contents of the sort buffer at each spill.
pub(crate) struct CombiningSorted<C>(pub(crate) C);

pub(crate) struct CombiningSink<C: CombineFilling> {
    writer: SortedCombiningWriter<Adapter<C>>,
    partition: Partition,
    partitions: u32,
}

struct Adapter<C> {
    combiner: C,
    context: Context,
    partition: Partition,
    partitions: u32,
}

impl<C: CombineFilling> SortedCombine for Adapter<C> {
    fn combine(
        &mut self,
        records: SortedRecords<'_>,
        emit: &mut EmitCombined<'_>,
    ) -> Result<(), BoxError> {
        let mut pairs = SortedPairs::new(records);
        let mut emit = |key: &[u8], value: &[u8]| -> Result<()> {
            Ok(emit(self.partition.of(key, self.partitions), key, value)?)
        };
        self.combiner.clone().combine_filling(&self.context, &mut pairs, &mut emit)
    }
}

impl<C: CombineFilling> Sink for CombiningSink<C> {
    #[inline]
    fn accept(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let partition = self.partition.of(key, self.partitions);
        Ok(self.writer.emit(partition, key, value)?)
    }
}

impl<M: Mapper, C: CombineFilling> MapSide<M> for CombiningSorted<C> {
    type Sink = CombiningSink<C>;

    fn open(
        &self,
        target: MapTarget,
        partition: &Partition,
        context: &Context,
    ) -> Result<Self::Sink> {
        let (options, pool) = shuffle_target(target)?;
        let partitions = options.partitions;
        let adapter = Adapter {
            combiner: self.0.clone(),
            context: context.clone(),
            partition: partition.clone(),
            partitions,
        };
        let writer = SortedCombiningWriter::with_pool(options, adapter, &pool)?
            .watched(phases::clock, TaskState::of(context).life());
        Ok(CombiningSink { writer, partition: partition.clone(), partitions })
    }

    fn close(sink: Self::Sink) -> Result<MapResult> {
        Ok(MapResult::Shuffle(sink.writer.finish()?))
    }
}

pub(crate) struct TextSink<K, V> {
    output: Output,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Datum, V: Datum> Sink for TextSink<K, V>
where
    for<'a> K::View<'a>: ToText,
    for<'a> V::View<'a>: ToText,
{
    #[inline]
    fn accept(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.output.write(K::read(key)?, V::read(value)?)
    }
}

impl<M: Mapper> MapSide<M> for Direct
where
    for<'a> <M::Key as Datum>::View<'a>: ToText,
    for<'a> <M::Value as Datum>::View<'a>: ToText,
{
    type Sink = TextSink<M::Key, M::Value>;
    const MAP_ONLY: bool = true;

    fn open(&self, target: MapTarget, _: &Partition, _: &Context) -> Result<Self::Sink> {
        match target {
            MapTarget::Output(output) => Ok(TextSink { output: *output, types: PhantomData }),
            MapTarget::Shuffle { .. } => Err(mismatch("a map-only job was given reduces")),
        }
    }

    fn close(sink: Self::Sink) -> Result<MapResult> {
        Ok(MapResult::Output { records: sink.output.close()? })
    }
}

/// No shuffle although the job has a reducer: the text of the pairs is the output.
pub(crate) struct Described;

pub(crate) struct DescribedSink<K, V> {
    output: Output,
    texts: (Vec<u8>, Vec<u8>),
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Datum, V: Datum> Sink for DescribedSink<K, V> {
    fn accept(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key_text, value_text) = &mut self.texts;
        key_text.clear();
        value_text.clear();
        let key = K::text(key, key_text)?.then_some(&key_text[..]);
        let value = V::text(value, value_text)?.then_some(&value_text[..]);
        self.output.write(key, value)
    }
}

impl<M: Mapper> MapSide<M> for Described {
    type Sink = DescribedSink<M::Key, M::Value>;
    const MAP_ONLY: bool = true;

    fn open(&self, target: MapTarget, _: &Partition, _: &Context) -> Result<Self::Sink> {
        match target {
            MapTarget::Output(output) => {
                let texts = (Vec::new(), Vec::new());
                Ok(DescribedSink { output: *output, texts, types: PhantomData })
            }
            MapTarget::Shuffle { .. } => Err(mismatch("a map-only job was given reduces")),
        }
    }

    fn close(sink: Self::Sink) -> Result<MapResult> {
        Ok(MapResult::Output { records: sink.output.close()? })
    }
}

fn shuffle_target(target: MapTarget) -> Result<(MapOutputOptions, BufferPool)> {
    match target {
        MapTarget::Shuffle { options, pool } => Ok((options, pool)),
        MapTarget::Output(_) => Err(mismatch("a job with reduces was run without")),
    }
}

fn mismatch(what: &str) -> BoxError {
    Error::Conversation { what: what.to_owned() }.into()
}

//! One job, erased: what driver, local runner and task runner call. Inside, everything is generic and compiled for its types.
//!
//! Invariant: user code runs only inside [`guard`], so its panics become errors that name the record.

use std::any::type_name;
use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

use protocol::phase::Phase;
use shuffle::{
    BufferPool, Combine, CombiningWriter, DecodeError, MapOutput, MapOutputOptions, MapOutputTimes,
    MapOutputWriter, ReduceInput, ReduceOptions, SegmentSource,
};

use crate::context::{Context, INPUT_COUNTERS};
use crate::datum::{Datum, Put};
use crate::error::{Error, Result};
use crate::fold::Fold;
use crate::guard::guard;
use crate::input::{Source, SplitRange};
use crate::job::JobSettings;
use crate::map_input::{MapInput, MapPart, OpenPart};
use crate::mapper::{Emit, Mapper, Sink};
use crate::output::Output;
use crate::partition::Partition;
use crate::phases;
use crate::place::Place;
use crate::reducer::{Groups, Reducer};
use crate::replay::{RecordPlace, STOP_PROPERTY};
use crate::text::ToText;
use crate::total_order;

/// A map attempt's work.
pub(crate) struct MapTask<'a> {
    pub(crate) context: Context,
    /// Which of the job's inputs is read.
    pub(crate) input: u32,
    /// What is read, one after the other.
    pub(crate) parts: Vec<MapPart>,
    pub(crate) open: &'a OpenPart<'a>,
    /// Where it tells the record it is in.
    pub(crate) place: &'a Place<'a>,
    pub(crate) target: MapTarget,
}

/// Where a map's pairs go.
pub(crate) enum MapTarget {
    Shuffle { options: MapOutputOptions, pool: BufferPool },
    Output(Box<Output>),
}

/// What a map made.
pub(crate) enum MapResult {
    Shuffle(MapOutput),
    Output { records: u64 },
}

impl MapResult {
    fn times(&self) -> MapOutputTimes {
        match self {
            MapResult::Shuffle(output) => output.stats.times,
            MapResult::Output { .. } => MapOutputTimes::default(),
        }
    }
}

/// A reduce attempt's work.
pub(crate) struct ReduceTask {
    pub(crate) context: Context,
    pub(crate) partition: u32,
    pub(crate) sources: Vec<SegmentSource>,
    /// Records in all sources together.
    pub(crate) records: u64,
    pub(crate) options: ReduceOptions,
    pub(crate) output: Output,
}

/// A job whose types are hidden.
pub(crate) trait Stage: Send + Sync {
    fn settings(&self) -> &JobSettings;
    /// True if there is no reduce.
    fn is_map_only(&self) -> bool;
    /// All that must be the same in driver and task runner, one line each.
    fn description(&self) -> String;
    fn run_map(&self, task: MapTask<'_>) -> Result<MapResult, Error>;
    fn run_reduce(&self, task: ReduceTask) -> Result<(), Error>;
}

/// What stands between mapper and reducer.
pub(crate) trait MapSide<M: Mapper>: Send + Sync + 'static {
    type Sink: Sink;
    const MAP_ONLY: bool = false;
    fn open(
        &self,
        target: MapTarget,
        partition: &Partition,
        context: &Context,
    ) -> Result<Self::Sink>;
    fn close(sink: Self::Sink) -> Result<MapResult>;
}

/// The reduce side; [`NoReduce`] if there is none.
pub(crate) trait ReduceSide: Send + Sync + 'static {
    fn run(&self, task: ReduceTask) -> Result<(), Error>;
}

pub(crate) struct TypedStage<M: Mapper, C, R> {
    pub(crate) settings: JobSettings,
    pub(crate) format: M::In,
    pub(crate) mapper: M,
    pub(crate) map_side: C,
    pub(crate) reduce_side: R,
}

impl<M: Mapper, C: MapSide<M>, R: ReduceSide> Stage for TypedStage<M, C, R> {
    fn settings(&self) -> &JobSettings {
        &self.settings
    }

    fn is_map_only(&self) -> bool {
        C::MAP_ONLY
    }

    fn description(&self) -> String {
        let settings = &self.settings;
        let inputs: Vec<String> =
            settings.inputs.iter().map(|input| format!("input {input:?}\n")).collect();
        let side_files: Vec<&str> =
            settings.side_files.iter().map(|file| file.name.as_str()).collect();
        format!(
            "job {}\nformat {}\nmapper {}\nkey {}\nvalue {}\ncombiner {}\nreducer {}\npartitioner {}\nreducers {:?}\n{}output {:?} {:?}\nside files {side_files:?}\n{}",
            settings.name,
            type_name::<M::In>(),
            type_name::<M>(),
            type_name::<M::Key>(),
            type_name::<M::Value>(),
            type_name::<C>(),
            type_name::<R>(),
            settings.partition.describe(),
            settings.reducers,
            inputs.concat(),
            settings.output,
            settings.output_options,
            settings.description,
        )
    }

    fn run_map(&self, task: MapTask<'_>) -> Result<MapResult, Error> {
        match task.target {
            // A job with a reducer and no reduces.
            MapTarget::Output(_) if !C::MAP_ONLY => self.run_map_side(&Described, task),
            _ => self.run_map_side(&self.map_side, task),
        }
    }

    fn run_reduce(&self, task: ReduceTask) -> Result<(), Error> {
        let context = task.context.clone();
        self.reduce_side.run(task)?;
        Ok(context.check_counters()?)
    }
}

impl<M: Mapper, C, R> TypedStage<M, C, R> {
    fn run_map_side<S: MapSide<M>>(
        &self,
        map_side: &S,
        task: MapTask<'_>,
    ) -> Result<MapResult, Error> {
        let MapTask { context, input, parts, open, place, target } = task;
        let map_input = MapInput::new(&self.settings, &self.format, open, place)
            .stopping_before(context.property(STOP_PROPERTY).and_then(RecordPlace::parse));
        let (current, reading) = (Cell::new(0), Reading::default());
        let begin = phases::clock();
        if let Some(first) = parts.first() {
            first.set_input(&context);
        }
        let work = || -> Result<MapResult> {
            let JobSettings { partition, group_prefix, .. } = &self.settings;
            let partition = match target {
                MapTarget::Shuffle { .. } => {
                    total_order::resolve(partition, *group_prefix, &context)?
                }
                MapTarget::Output(_) => partition.clone(),
            };
            let sink = map_side.open(target, &partition, &context)?;
            let mut mapper = self.mapper.clone();
            let mut emit = Emit::new(context.clone(), sink);
            mapper.setup(&context)?;
            let mut read = Ok(());
            for (index, part) in parts.iter().enumerate() {
                current.set(index);
                let (done, total) = (index as f64, parts.len() as f64);
                let progress = move |share: f64| (done + share.min(1.0)) / total;
                let (split, context, reading) = (part.range, context.clone(), &reading);
                let measured =
                    |source| Measured { source, split, context, reading, seen: 0, progress };
                read = map_input.run((input, index, part), measured, &mut mapper, &mut emit);
                if let Err(error) = &read {
                    if !is_of_record(error) {
                        place.leave();
                    }
                    break;
                }
            }
            let cleaned = mapper.cleanup(&mut emit);
            read.and(cleaned)?;
            if !S::MAP_ONLY {
                context.enter(Phase::Merge);
            }
            S::close(emit.into_sink())
        };
        let result = guard(work).map_err(|message| {
            let path = parts.get(current.get()).map(|part| part.path.clone()).unwrap_or_default();
            Error::Map { path, offset: place.position.get(), message }
        })?;
        let whole = phases::clock().saturating_sub(begin);
        phases::of_map(&context, whole, reading.time.get(), result.times());
        context.add_to(INPUT_COUNTERS, "BYTES_READ", reading.bytes.get());
        context.add("MAP_INPUT_RECORDS", place.count.get());
        context.add("MAP_SKIPPED_RECORDS", place.skip_count.get());
        count_map_output(&context, &result);
        context.check_counters()?;
        Ok(result)
    }
}

/// True unless an error is about what the engine does with the map's output.
fn is_of_record(error: &crate::BoxError) -> bool {
    use shuffle::Error as Shuffled;
    let is_shuffle =
        matches!(error.downcast_ref(), Some(Shuffled::Io { .. } | Shuffled::DiskFull { .. }));
    !is_shuffle && !matches!(error.downcast_ref(), Some(Error::File { .. } | Error::Dfs { .. }))
}

fn count_map_output(context: &Context, result: &MapResult) {
    match result {
        MapResult::Shuffle(output) => {
            let stats = &output.stats;
            context.add("MAP_OUTPUT_RECORDS", stats.records);
            context.add("MAP_OUTPUT_BYTES", stats.bytes);
            context.add("MAP_OUTPUT_MATERIALIZED_BYTES", stats.materialized_bytes);
            context.add("SPILLED_RECORDS", stats.spilled_records);
            context.add("COMBINE_INPUT_RECORDS", stats.combine_input_records);
            context.add("COMBINE_OUTPUT_RECORDS", stats.combine_output_records);
        }
        MapResult::Output { records } => context.add("MAP_OUTPUT_RECORDS", *records),
    }
}

/// What a map has read.
#[derive(Default)]
struct Reading {
    bytes: Cell<u64>,
    /// Time that getting it took.
    time: Cell<Duration>,
}

/// Counts what is read and reports progress by it.
struct Measured<'a, P> {
    source: Box<dyn Source>,
    split: SplitRange,
    context: Context,
    reading: &'a Reading,
    /// End of what was counted: slices that are asked for again, from further on, are not counted again.
    seen: u64,
    /// Progress of the task by the share of this file.
    progress: P,
}

impl<P: Fn(f64) -> f64> Source for Measured<'_, P> {
    fn slice(&mut self, offset: u64) -> std::io::Result<&[u8]> {
        let length = self.split.end.saturating_sub(self.split.start).max(1);
        let share = offset.saturating_sub(self.split.start) as f64 / length as f64;
        self.context.set_progress((self.progress)(share));
        let begin = phases::clock();
        let slice = self.source.slice(offset)?;
        let Reading { bytes, time } = self.reading;
        time.set(time.get() + phases::clock().saturating_sub(begin));
        // What was read ahead, behind the split, is counted by the map it belongs to.
        let end = (offset + slice.len() as u64).min(self.split.end);
        bytes.set(bytes.get() + end.saturating_sub(self.seen.max(offset).max(self.split.start)));
        self.seen = self.seen.max(end);
        Ok(slice)
    }
}

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

    fn open(&self, target: MapTarget, partition: &Partition, _: &Context) -> Result<SortSink> {
        let (options, pool) = shuffle_target(target)?;
        let partitions = options.partitions;
        let writer = MapOutputWriter::with_pool(options, &pool)?.with_clock(phases::clock);
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

    fn open(&self, target: MapTarget, partition: &Partition, _: &Context) -> Result<Self::Sink> {
        let (options, pool) = shuffle_target(target)?;
        let partitioning = partition.to_shuffle(options.partitions);
        let combine = FoldCombine { fold: self.0.clone(), value: PhantomData };
        let writer = CombiningWriter::with_pool(options, combine, partitioning, &pool)?
            .with_clock(phases::clock);
        Ok(FoldSink { writer, fold: self.0.clone() })
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

/// No shuffle, though the job has a reducer: the text of pairs is the output.
struct Described;

struct DescribedSink<K, V> {
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

pub(crate) fn mismatch(what: &str) -> crate::BoxError {
    Error::Conversation { what: what.to_owned() }.into()
}

/// The reduce side of a map-only job.
pub(crate) struct NoReduce;

impl ReduceSide for NoReduce {
    fn run(&self, task: ReduceTask) -> Result<(), Error> {
        Err(Error::Conversation { what: format!("reduce {} of a map-only job", task.partition) })
    }
}

/// Share of a reduce that is done when its input is merged: copying and sorting are a third each.
pub(crate) const REDUCE_START_PROGRESS: f64 = 2.0 / 3.0;

pub(crate) struct Reducing<R> {
    pub(crate) reducer: R,
    pub(crate) group_prefix: Option<shuffle::GroupPrefix>,
}

impl<R: Reducer> ReduceSide for Reducing<R> {
    fn run(&self, task: ReduceTask) -> Result<(), Error> {
        let ReduceTask { context, partition, sources, records, options, output } = task;
        let group = Cell::new(0u64);
        let work = || -> Result<()> {
            let options = ReduceOptions { group_prefix: self.group_prefix, ..options };
            context.enter(Phase::ReduceMerge);
            let begin = phases::clock();
            let input = ReduceInput::new(sources, options)?;
            let merged = phases::clock();
            phases::spent(&context, Phase::ReduceMerge, merged.saturating_sub(begin));
            let mut groups = Groups::new(input, records, &group, context.clone());
            context.set_progress(REDUCE_START_PROGRESS);
            context.enter(Phase::Reduce);
            let mut output = output;
            let mut reducer = self.reducer.clone();
            reducer.setup(&context)?;
            let reduced = reducer.run(&mut groups, &mut output);
            let cleaned = reducer.cleanup(&mut output);
            reduced.and(cleaned)?;
            let stats = groups.stats();
            context.add("REDUCE_INPUT_GROUPS", stats.groups);
            context.add("REDUCE_INPUT_RECORDS", stats.records);
            context.add("SPILLED_RECORDS", stats.spilled_records);
            context.add("REDUCE_OUTPUT_RECORDS", output.close()?);
            context.set_hot_keys(groups.hot_keys());
            phases::spent(&context, Phase::Reduce, phases::clock().saturating_sub(merged));
            Ok(())
        };
        let damaged = Cell::new(None);
        let watched = || work().inspect_err(|error| damaged.set(damaged_source(error)));
        guard(watched).map_err(|message| match damaged.get() {
            Some(index) => Error::DamagedInput { index, reason: message },
            None => Error::Reduce { partition, group: group.get(), message },
        })
    }
}

/// Which source of the reduce an error is about, if it is about one.
fn damaged_source(error: &crate::BoxError) -> Option<usize> {
    match error.downcast_ref::<shuffle::Error>()? {
        shuffle::Error::Corrupt { origin: shuffle::Origin::Source(index), .. }
        | shuffle::Error::SourceIo { index, .. } => Some(*index),
        _ => None,
    }
}

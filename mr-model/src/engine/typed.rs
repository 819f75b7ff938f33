//! One job with its types: how a map runs, from the parts it reads to the sorting or combining of its pairs.
//!
//! Invariant: user code runs only inside [`guard`], so its panics become errors that name the record.

use std::any::type_name;
use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

use mr_formats::{Source, SplitRange};
use protocol::phase::Phase;
use protocol::rounds::RoundsSpec;

use super::map_input::{MapInput, MapPart};
use super::map_side::Described;
use super::settings::JobSettings;
use super::stage::{
    MapResult, MapSide, MapTarget, MapTask, ReduceSide, ReduceTask, RoundResult, RoundTask, Stage,
};
use super::total_order;
use crate::error::{BoxError, Error, Result};
use crate::guard::guard;
use crate::map::{Emit, Mapper, Sink, has_seen_enough};
use crate::task::replay::{RecordPlace, STOP_PROPERTY};
use crate::task::{
    Context, Counter, INPUT_COUNTERS, RecordCursor, TASK_COUNTERS, TaskState, phases,
};

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
            // The job has a reducer but runs without reduces.
            MapTarget::Output(_) if !C::MAP_ONLY => self.run_map_side(&Described, task),
            _ => self.run_map_side(&self.map_side, task),
        }
    }

    fn run_reduce(&self, task: ReduceTask) -> Result<(), Error> {
        let context = task.context.clone();
        self.reduce_side.run(task)?;
        Ok(TaskState::of(&context).check_counters()?)
    }

    fn rounds(&self) -> Option<RoundsSpec> {
        self.reduce_side.rounds()
    }

    fn run_round(&self, task: RoundTask<'_>) -> Result<RoundResult, Error> {
        self.reduce_side.run_round(task, &self.settings)
    }
}

impl<M: Mapper, C, R> TypedStage<M, C, R> {
    fn run_map_side<S: MapSide<M>>(
        &self,
        map_side: &S,
        task: MapTask<'_>,
    ) -> Result<MapResult, Error> {
        let MapTask { context, input, parts, open, cursor, target } = task;
        let map_input = MapInput::new(&self.settings.inputs, &self.format, open, cursor)
            .stopping_before(context.property(STOP_PROPERTY).and_then(RecordPlace::parse));
        let (current, reading) = (Cell::new(0), Reading::of(TaskState::of(&context)));
        let begin = phases::clock();
        let work = || -> Result<MapResult> {
            let JobSettings { partition, group_prefix, .. } = &self.settings;
            let partition = match target {
                MapTarget::Shuffle { .. } => {
                    total_order::resolve(partition, *group_prefix, &context)?
                }
                MapTarget::Output(_) => partition.clone(),
            };
            let sink = map_side.open(target, &partition, &context)?;
            let mut emit = Emit::new(context.clone(), sink);
            let (current, reading, parts) = (&current, &reading, &parts[..]);
            let files = Files { input, parts, map_input: &map_input, cursor, current, reading };
            let cut = self.settings.inputs.get(input as usize).map(|input| input.cut);
            let together = match cut {
                Some(cut) if cut.is_read_together() => parts.len(),
                _ => 1,
            };
            for first in (0..parts.len()).step_by(together.max(1)) {
                let mapper = self.mapper.clone();
                files.read(first..(first + together).min(parts.len()), mapper, &mut emit)?;
            }
            if !S::MAP_ONLY {
                TaskState::of(&context).enter(Phase::Merge);
            }
            S::close(emit.into_sink())
        };
        let result = guard(work).map_err(|message| {
            let path = parts.get(current.get()).map(|part| part.path.clone()).unwrap_or_default();
            Error::Map { path, offset: cursor.position.get(), message }
        })?;
        let (whole, state) = (phases::clock().saturating_sub(begin), TaskState::of(&context));
        phases::of_map(state, whole, reading.time.get(), result.times());
        reading.count(cursor);
        state.add("MAP_SKIPPED_RECORDS", cursor.skip_count.get());
        count_map_output(state, &result);
        state.check_counters()?;
        Ok(result)
    }
}

/// The files of a map task.
struct Files<'a, F> {
    input: u32,
    parts: &'a [MapPart],
    map_input: &'a MapInput<'a, F>,
    cursor: &'a RecordCursor<'a>,
    /// The one that is being read.
    current: &'a Cell<usize>,
    reading: &'a Reading,
}

impl<F> Files<'_, F> {
    /// Reads some of them with one mapper, from its set-up to its end.
    fn read<M: Mapper<In = F>, S: Sink>(
        &self,
        range: Range<usize>,
        mut mapper: M,
        emit: &mut Emit<M::Key, M::Value, S>,
    ) -> Result<()> {
        let context = emit.context().clone();
        self.parts[range.start].set_input(self.input, &context);
        self.current.set(range.start);
        mapper.setup(&context)?;
        let mut read = Ok(());
        for index in range {
            self.current.set(index);
            let part = &self.parts[index];
            let (done, total) = (index as f64, self.parts.len() as f64);
            let progress = move |share: f64| (done + share.min(1.0)) / total;
            let (split, context, reading) = (part.range, context.clone(), self.reading);
            let cursor = self.cursor;
            let measured =
                |source| Measured { source, split, context, reading, cursor, seen: 0, progress };
            read = self.map_input.run((self.input, index, part), measured, &mut mapper, emit);
            if let Err(error) = &read {
                if has_seen_enough(error) {
                    self.cursor.leave();
                    read = Ok(());
                } else if !is_of_record(error) {
                    self.cursor.leave();
                }
                break;
            }
        }
        let cleaned = mapper.cleanup(emit);
        read.and(cleaned)
    }
}

/// True unless the error is about the engine's handling of the map's output.
fn is_of_record(error: &BoxError) -> bool {
    use shuffle::Error as Shuffled;
    let is_shuffle =
        matches!(error.downcast_ref(), Some(Shuffled::Io { .. } | Shuffled::DiskFull { .. }));
    !is_shuffle && !matches!(error.downcast_ref(), Some(Error::File { .. } | Error::Dfs { .. }))
}

fn count_map_output(state: &TaskState, result: &MapResult) {
    match result {
        MapResult::Shuffle(output) => {
            let stats = &output.stats;
            state.add("MAP_OUTPUT_RECORDS", stats.records);
            state.add("MAP_OUTPUT_BYTES", stats.bytes);
            state.add("MAP_OUTPUT_MATERIALIZED_BYTES", stats.materialized_bytes);
            state.add("SPILLED_RECORDS", stats.spilled_records);
            state.add("COMBINE_INPUT_RECORDS", stats.combine_input_records);
            state.add("COMBINE_OUTPUT_RECORDS", stats.combine_output_records);
        }
        MapResult::Output { records } => state.add("MAP_OUTPUT_RECORDS", *records),
    }
}

/// What a map has read, counted while it reads.
struct Reading {
    bytes: Counter,
    records: Counter,
    /// Records in that counter.
    counted: Cell<u64>,
    /// Time spent reading.
    time: Cell<Duration>,
}

impl Reading {
    fn of(state: &TaskState) -> Self {
        Reading {
            bytes: state.counter_of(INPUT_COUNTERS, "BYTES_READ"),
            records: state.counter_of(TASK_COUNTERS, "MAP_INPUT_RECORDS"),
            counted: Cell::new(0),
            time: Cell::default(),
        }
    }

    /// Brings the counter of records up to date.
    fn count(&self, cursor: &RecordCursor<'_>) {
        let records = cursor.count.get();
        self.records.add(records - self.counted.replace(records));
    }
}

/// Counts what is read and reports progress by it.
struct Measured<'a, P> {
    source: Box<dyn Source>,
    split: SplitRange,
    context: Context,
    reading: &'a Reading,
    cursor: &'a RecordCursor<'a>,
    /// End of the bytes counted so far: slices requested again at a later offset are not counted twice.
    seen: u64,
    /// Receives the task's progress: the share of this file that is read.
    progress: P,
}

impl<P: Fn(f64) -> f64> Source for Measured<'_, P> {
    fn slice(&mut self, offset: u64) -> std::io::Result<&[u8]> {
        let length = self.split.end.saturating_sub(self.split.start).max(1);
        let share = offset.saturating_sub(self.split.start) as f64 / length as f64;
        TaskState::of(&self.context).set_progress((self.progress)(share));
        let begin = phases::clock();
        let slice = self.source.slice(offset)?;
        let Reading { bytes, time, .. } = self.reading;
        time.set(time.get() + phases::clock().saturating_sub(begin));
        self.reading.count(self.cursor);
        // Bytes read ahead, beyond the split, count for the map that they belong to.
        let end = (offset + slice.len() as u64).min(self.split.end);
        bytes.add(end.saturating_sub(self.seen.max(offset).max(self.split.start)));
        self.seen = self.seen.max(end);
        Ok(slice)
    }

    fn length(&self) -> Option<u64> {
        self.source.length()
    }
}

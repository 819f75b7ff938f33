//! One job, type-erased, as driver, local runner and task runner call it. Inside, everything is generic and compiled for the job's types.

use shuffle::{
    BufferPool, MapOutput, MapOutputOptions, MapOutputTimes, ReduceOptions, SegmentSource,
};

use super::map_input::{MapPart, OpenPart};
use super::settings::JobSettings;
use crate::error::{Error, Result};
use crate::map::{Mapper, Partition, Sink};
use crate::task::{Context, Output, RecordCursor};

/// A map attempt's work.
pub(crate) struct MapTask<'a> {
    pub(crate) context: Context,
    /// Which of the job's inputs the map reads.
    pub(crate) input: u32,
    /// The parts to read, one after the other.
    pub(crate) parts: Vec<MapPart>,
    pub(crate) open: &'a OpenPart<'a>,
    /// Where the map records which record it is in.
    pub(crate) cursor: &'a RecordCursor<'a>,
    pub(crate) target: MapTarget,
}

/// Where a map's pairs go.
pub(crate) enum MapTarget {
    Shuffle { options: MapOutputOptions, pool: BufferPool },
    Output(Box<Output>),
}

/// What a map produced.
pub(crate) enum MapResult {
    Shuffle(MapOutput),
    Output { records: u64 },
}

impl MapResult {
    pub(crate) fn times(&self) -> MapOutputTimes {
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
    /// All that must be the same in driver and task runner, one item a line.
    fn description(&self) -> String;
    fn run_map(&self, task: MapTask<'_>) -> Result<MapResult, Error>;
    fn run_reduce(&self, task: ReduceTask) -> Result<(), Error>;
}

/// What runs between mapper and reducer.
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

/// What reduces, if anything does.
pub(crate) trait ReduceSide: Send + Sync + 'static {
    fn run(&self, task: ReduceTask) -> Result<(), Error>;
}

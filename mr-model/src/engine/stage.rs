//! One job, type-erased, as driver, local runner and task runner call it. Inside, everything is generic and compiled for the job's types.

use protocol::rounds::{RoundsSpec, Summary};
use shuffle::{
    BufferPool, MapOutput, MapOutputOptions, MapOutputTimes, ReduceOptions, SegmentSource,
};

use super::map_input::{MapPart, OpenPart};
use super::settings::JobSettings;
use crate::error::{Error, Result};
use crate::map::{Mapper, Partition, Sink};
use crate::task::{Context, Output, RecordCursor};

/// A map attempt's work.
pub struct MapTask<'a> {
    /// Of the attempt.
    pub context: Context,
    /// Which of the job's inputs the map reads.
    pub input: u32,
    /// The parts to read, one after the other.
    pub parts: Vec<MapPart>,
    /// Opens a part.
    pub open: &'a OpenPart<'a>,
    /// Where the map records which record it is in.
    pub cursor: &'a RecordCursor<'a>,
    /// Where its pairs go.
    pub target: MapTarget,
}

/// Where a map's pairs go.
pub enum MapTarget {
    /// To reduces.
    Shuffle {
        /// Of the sort.
        options: MapOutputOptions,
        /// The memory of the process's sorts.
        pool: BufferPool,
    },
    /// Into files: there is no reduce.
    Output(Box<Output>),
}

/// What a map produced.
pub enum MapResult {
    /// Segments for reduces.
    Shuffle(MapOutput),
    /// Files.
    Output {
        /// Written to them.
        records: u64,
    },
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
pub struct ReduceTask {
    /// Of the attempt.
    pub context: Context,
    /// Its number.
    pub partition: u32,
    /// The segments to merge.
    pub sources: Vec<SegmentSource>,
    /// Records in all sources together.
    pub records: u64,
    /// Of the merge.
    pub options: ReduceOptions,
    /// Where it writes.
    pub output: Output,
}

/// Makes the output of an attempt.
pub type MakeOutput<'a> = dyn Fn() -> Result<Output> + 'a;

/// The work of a task in a round.
pub struct RoundTask<'a> {
    /// Of the attempt.
    pub context: Context,
    /// From 0.
    pub round: u32,
    /// Its partition.
    pub partition: u32,
    /// No round follows, whatever the summaries say.
    pub is_last: bool,
    /// The state is that of the end of this round: nothing is updated.
    pub is_restored: bool,
    /// In round 0 the maps' segments; later what is fixed, the state, and messages in the order of partitions.
    pub sources: Vec<SegmentSource>,
    /// Records in all sources together.
    pub records: u64,
    /// Of the merge.
    pub options: ReduceOptions,
    /// Of the messages.
    pub messages: MapOutputOptions,
    /// The memory of the process's sorts.
    pub pool: BufferPool,
    /// The summaries of the round before, in the order of partitions.
    pub summaries: Vec<Summary>,
    /// Where the last round writes.
    pub output: &'a MakeOutput<'a>,
}

/// What a task in a round made.
#[derive(Debug)]
pub struct RoundResult {
    /// Messages, state and, in round 0, what is fixed; `None` after the last round, which writes files.
    pub output: Option<MapOutput>,
    /// For the next round.
    pub summary: Summary,
    /// The measure after the round before.
    pub measure: Option<f64>,
}

/// A job whose types are hidden.
pub trait Stage: Send + Sync {
    /// What the author set.
    fn settings(&self) -> &JobSettings;
    /// True if there is no reduce.
    fn is_map_only(&self) -> bool;
    /// All that must be the same in driver and task runner, one item a line.
    fn description(&self) -> String;
    /// Runs a map attempt.
    ///
    /// # Errors
    /// Those of user code, input and engine.
    fn run_map(&self, task: MapTask<'_>) -> Result<MapResult, Error>;
    /// Runs a reduce attempt.
    ///
    /// # Errors
    /// Those of user code, input and engine.
    fn run_reduce(&self, task: ReduceTask) -> Result<(), Error>;
    /// How the job goes in rounds, if it does.
    fn rounds(&self) -> Option<RoundsSpec>;
    /// Runs an attempt at a task of a round.
    ///
    /// # Errors
    /// Those of user code, input and engine.
    fn run_round(&self, task: RoundTask<'_>) -> Result<RoundResult, Error>;
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

    /// How the job goes in rounds, if it does.
    fn rounds(&self) -> Option<RoundsSpec> {
        None
    }

    fn run_round(&self, task: RoundTask<'_>, _: &JobSettings) -> Result<RoundResult, Error> {
        let what = format!("round {} of a job that has none", task.round);
        Err(Error::Conversation { what })
    }
}

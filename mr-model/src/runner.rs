//! What runs jobs and streaming sees of them, and authors do not: jobs without their types, the work and the state of an attempt, the settings of
//! a job. `mr_api` hands on none of it.

pub use crate::console::{draw, for_terminal, say};
pub use crate::engine::{
    BOUNDARIES_PROPERTY, InputPaths, JobInput, JobSettings, MakeOutput, MapPart, MapResult,
    MapTarget, MapTask, OutputPath, ReduceTask, RoundResult, RoundTask, Sampling, SideFile, Stage,
    map_options, reduce_options, side_file,
};
pub use crate::guard::guard;
pub use crate::job::builder::{amend, combine_fillings};
pub use crate::job::graph::Graph;
pub use crate::job::plan::{DESCRIPTION_PROPERTY, OpenFn, Planned, difference, fingerprint};
pub use crate::map::mapper::{has_seen_enough, until_enough};
pub use crate::map::partition::{PARTITION_SEED, Partition, first_element_bytes};
pub use crate::reduce::combiner::{CombineFilling, EmitPair, SortedPairs};
pub use crate::scratch::Scratch;
pub use crate::task::cursor::{RecordCursor, Skipped};
pub use crate::task::output::{LocalFiles, Naming, OutputFile, OutputFiles, OutputOptions};
pub use crate::task::state::{INPUT_COUNTERS, OpenFile, TASK_COUNTERS, TaskState};
pub use crate::task::upstream::output_property;

/// How the time of a task divides into phases.
pub mod phases {
    pub use crate::task::phases::{REDUCE_START_PROGRESS, clock, spent};
}

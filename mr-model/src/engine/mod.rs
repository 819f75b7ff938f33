//! How one task of a job runs, on a thread of a local run or in its own process: user code between input, shuffle and output.
//!
//! Nothing here knows where a file is or who asked for the task.

mod map_input;
mod map_side;
mod paths;
mod reduce_side;
mod round_side;
mod sampler;
mod settings;
pub mod side_file;
mod sort;
mod stage;
mod total_order;
mod typed;

pub use map_input::MapPart;
pub use paths::{InputPaths, JobInput, OutputPath};
pub use settings::{Always, Auto, JobSettings, Reducers};
pub use side_file::SideFile;
pub use sort::{map_options, reduce_options};
pub use stage::{
    MakeOutput, MapResult, MapTarget, MapTask, ReduceTask, RoundResult, RoundTask, Stage,
};
pub use total_order::{BOUNDARIES_PROPERTY, Sampling};

pub(crate) use map_side::{Combining, CombiningSorted, Direct, Sorting};
pub(crate) use reduce_side::{NoReduce, Reducing};
pub(crate) use round_side::InRounds;
pub(crate) use sampler::TypedSampler;
pub(crate) use stage::MapSide;
pub(crate) use typed::TypedStage;

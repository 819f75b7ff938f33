//! A job and a plan of jobs, as their author builds them: inputs, functions, outputs.

pub(crate) mod builder;
pub(crate) mod graph;
mod inputs;
mod into_reducer;
mod outputs;
pub(crate) mod plan;

pub use crate::engine::{Always, Auto, Reducers};
pub use crate::task::upstream::JobOutput;
pub use builder::{
    Combined, CombinedSorted, CompleteJob, IntoCombined, Iterated, Job, KEEP_EVERY_DEFAULT, Mapped,
    NeedsInput, NeedsMapper, Reduced,
};
pub use inputs::{Input, from_files, output_of, previous, previous_as, rows, text};
pub use into_reducer::{ByCombiner, ByFold, ByReducer, IntoMerger, IntoReducer};
pub use outputs::{OutputTo, intermediate, raw_out, sequence_out, text_out, to_files};
pub use plan::{Finished, Plan};

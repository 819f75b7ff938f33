//! What authors of jobs write against: keys and values ([`datum`]), mappers ([`map`]), reducers, folds and combiners ([`reduce`]), the job
//! builder and plans ([`job`]), the context of a task ([`task`]). It also has how one task runs (the `engine`): user code between input,
//! sort and output.
//!
//! Nothing here knows who runs a job, nor where: no client, no network, no async runtime. Authors find all of it in `mr_api`, which adds the
//! programs' entry and the local runner. What runs jobs finds in [`runner`] what it needs besides.
//!
//! Modules import only from those below them: lowest are `datum`, `field` and `task`, then `map` and `reduce`, then `rounds`, then `engine`, then `job`.

mod console;
pub mod datum;
mod engine;
mod error;
mod field;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod guard;
pub mod job;
pub mod map;
pub mod reduce;
pub mod rounds;
pub mod runner;
mod scratch;
pub mod task;
pub mod testing;

pub use error::{BoxError, Error, Result};
pub use field::parse;
pub use job::{
    Always, Auto, Finished, Job, Plan, from_files, intermediate, previous, text, text_out,
};
pub use map::{Emit, Mapper, Sink, map_fn};
pub use mr_formats::{Line, Lines};
pub use reduce::{Count, Fold, Max, Min, Reducer, Sum, Values, reduce_fn};
pub use task::{Context, Output, replay};

//! What a job author links: write a mapper and a reducer, describe the job, call [`main`]. The program is then an ordinary
//! executable: the driver that submits itself, the task runner that workers start, and with `--local` the whole job in one process.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use mr_api::{Args, Auto, Emit, Job, Line, Lines, Mapper, Result, Sink, Sum, text, text_out};
//!
//! #[derive(Clone)]
//! struct Words;
//!
//! impl Mapper for Words {
//!     type In = Lines;
//!     type Key = Vec<u8>;
//!     type Value = u64;
//!
//!     fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<Vec<u8>, u64, S>) -> Result<()> {
//!         line.words().try_for_each(|word| out.emit(word, 1u64))
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     mr_api::main("wordcount IN... OUT", |args: &mut Args| {
//!         let (inputs, output) = args.inputs_and_output()?;
//!         let job = Job::new("wordcount")
//!             .input(text(inputs))
//!             .map(Words)
//!             .combine(Sum)
//!             .reduce(Sum)
//!             .reducers(Auto)
//!             .output(text_out(output));
//!         Ok(job.into())
//!     })
//! }
//! ```
//!
//! | to | look at |
//! |---|---|
//! | read and emit | [`Mapper`], [`Emit`], [`Line`] |
//! | choose key and value types | [`Datum`], [`Key`], [`Put`], [`Desc`] |
//! | combine and reduce | [`Fold`], [`Sum`], [`Reducer`], [`Values`], [`Output`] |
//! | put it together | [`Job`], [`Plan`], [`Args`], [`main`] |
//! | count and look around | [`Context`], [`Counter`] |
//! | test | [`LocalRunner`], [`testing`] |

mod console;
pub mod datum;
mod engine;
mod error;
pub mod formats;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod guard;
pub mod job;
pub mod map;
pub mod reduce;
mod run;
mod scratch;
pub mod streaming;
pub mod task;
pub mod testing;

pub use datum::{Datum, DecodeError, Desc, Key, Put};
pub use error::{BoxError, Error, Result};
pub use formats::sequence::{SequenceFiles, SequencePairs};
pub use formats::{
    CombinedLines, Cut, FixedLength, Format, KeyValueLines, LINE_BYTES_MAX, Line, Lines, NLines,
    Output, Rows, Source, SplitRange, TextRules, ToText, Uncut, WholeFiles, Words, codec, sequence,
    writable,
};
pub use job::{
    Auto, ByCombiner, ByFold, ByReducer, Combined, CombinedSorted, CompleteJob, Finished, Input,
    IntoMerger, IntoReducer, Job, Mapped, NeedsInput, NeedsMapper, OutputTo, Plan, Reduced,
    Reducers, from_files, intermediate, output_of, previous, previous_as, raw_out, rows,
    sequence_out, text, text_out,
};
pub use map::{
    Both, BothFormats, Either, Emit, FirstElement, MapFn, Mapper, Partitioner, Records, Sink,
    SortedFile, map_fn,
};
pub use reduce::{
    AsReducer, CombineOut, CombineValues, Combiner, Count, Fold, Group, Groups, LiftReducer, Max,
    MergeReducer, Min, ReduceFn, Reducer, Sum, Values, reduce_fn,
};
pub use run::{Args, LocalRunner, main, usage_error};
pub use task::{
    Context, Counter, CounterGroup, JobOutput, Tally, TaskCounts, TaskInput, counted, replay,
};

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

mod address;
mod args;
mod bzip2_split;
mod cache;
pub mod codec;
mod combine;
mod combiner;
mod conf;
mod context;
mod counters;
mod datum;
mod driver;
mod drivers;
mod entry;
mod error;
mod fold;
mod formats;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod graph;
mod guard;
mod heaviest;
mod input;
mod inputs;
mod job;
mod join;
mod local;
mod map_input;
mod mapper;
mod multiple;
mod options;
mod output;
mod partition;
mod phases;
mod place;
mod plan;
mod progress;
mod reducer;
pub mod replay;
mod rows;
mod runner;
mod scratch;
pub mod sequence;
mod sequence_out;
mod shipped;
mod sort;
mod splits;
mod stage;
pub mod streaming;
pub mod testing;
mod text;
mod total_order;
pub mod writable;

pub use args::{Args, usage_error};
pub use combiner::{AsReducer, ByCombiner, CombineOut, CombineValues, Combiner, OnMapSide};
pub use context::{Context, Counter, TaskCounts, TaskInput};
pub use counters::{CounterGroup, Tally, counted};
pub use datum::{Datum, DecodeError, Desc, Key, Put};
pub use entry::main;
pub use error::{BoxError, Error, Result};
pub use fold::{Count, Fold, Max, Min, Sum};
pub use formats::{
    CombinedLines, FixedLength, KeyValueLines, NLines, SequenceFiles, SequencePairs, Uncut,
    WholeFiles,
};
pub use input::{Cut, Format, Records, Source, SplitRange};
pub use job::{
    Auto, ByFold, ByReducer, Combined, CombinedSorted, CompleteJob, Input, IntoMerger, IntoReducer,
    Job, Mapped, NeedsInput, NeedsMapper, OutputTo, Reduced, Reducers, from_files, intermediate,
    previous, raw_out, text, text_out,
};
pub use join::SortedFile;
pub use local::LocalRunner;
pub use mapper::{Emit, MapFn, Mapper, Sink, map_fn};
pub use multiple::{Both, BothFormats, Either};
pub use output::Output;
pub use partition::{FirstElement, Partitioner};
pub use plan::{Finished, JobOutput, Plan, output_of, previous_as};
pub use reducer::{Group, Groups, LiftReducer, MergeReducer, ReduceFn, Reducer, Values, reduce_fn};
pub use rows::{Rows, rows};
pub use sequence_out::sequence_out;
pub use text::{LINE_BYTES_MAX, Line, Lines, TextRules, ToText, Words};

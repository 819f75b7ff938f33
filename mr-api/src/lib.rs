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
mod combiner;
mod conf;
mod console;
mod context;
mod counters;
mod datum;
mod dfs;
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
mod into_reducer;
mod job;
mod job_inputs;
mod join;
mod local;
mod map_input;
mod map_side;
mod mapper;
mod multiple;
mod options;
mod output;
mod outputs;
mod partition;
mod paths;
mod phases;
mod place;
mod plan;
mod progress;
mod records;
mod reduce_side;
mod reducer;
pub mod replay;
mod rows;
mod runner;
mod sampler;
mod scratch;
pub mod sequence;
mod sequence_out;
mod settings;
mod shipped;
mod side_file;
mod sort;
mod splits;
mod stage;
pub mod streaming;
pub mod testing;
mod text;
mod total_order;
mod typed;
mod upstream;
pub mod writable;

pub use args::{Args, usage_error};
pub use combiner::{AsReducer, CombineOut, CombineValues, Combiner};
pub use context::{Context, TaskCounts, TaskInput};
pub use counters::{Counter, CounterGroup, Tally, counted};
pub use datum::{Datum, DecodeError, Desc, Key, Put};
pub use entry::main;
pub use error::{BoxError, Error, Result};
pub use fold::{Count, Fold, Max, Min, Sum};
pub use formats::{
    CombinedLines, FixedLength, KeyValueLines, NLines, SequenceFiles, SequencePairs, Uncut,
    WholeFiles,
};
pub use input::{Cut, Format, Source, SplitRange};
pub use into_reducer::{ByCombiner, ByFold, ByReducer, IntoMerger, IntoReducer};
pub use job::{
    Combined, CombinedSorted, CompleteJob, Job, Mapped, NeedsInput, NeedsMapper, Reduced,
};
pub use job_inputs::{Input, from_files, output_of, previous, previous_as, rows, text};
pub use join::SortedFile;
pub use local::LocalRunner;
pub use mapper::{Emit, MapFn, Mapper, Sink, map_fn};
pub use multiple::{Both, BothFormats, Either};
pub use output::Output;
pub use outputs::{OutputTo, intermediate, raw_out, sequence_out, text_out};
pub use partition::{FirstElement, Partitioner};
pub use plan::{Finished, Plan};
pub use records::Records;
pub use reducer::{Group, Groups, LiftReducer, MergeReducer, ReduceFn, Reducer, Values, reduce_fn};
pub use rows::Rows;
pub use settings::{Auto, Reducers};
pub use text::{LINE_BYTES_MAX, Line, Lines, TextRules, ToText, Words};
pub use upstream::JobOutput;

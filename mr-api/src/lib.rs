//! The library for job authors: write a mapper and a reducer, describe the job, call [`main`]. The program is then an ordinary executable:
//! the driver that submits itself, the task runner that workers start, and with `--local` the whole job in one process.
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
//! The items that nearly every job needs are here at the root; the rest is in modules:
//!
//! | to | see |
//! |---|---|
//! | read and emit | [`Mapper`], [`Emit`], [`Line`]; [`parse`] for fields; [`map`] |
//! | choose key and value types | [`Datum`](datum::Datum), [`Key`](datum::Key), [`Put`](datum::Put), [`Desc`](datum::Desc) in [`datum`] |
//! | combine and reduce | [`Fold`], [`Sum`], [`Reducer`], [`Values`], [`Output`]; [`reduce`] |
//! | put it together | [`Job`], [`Plan`], [`Args`], [`main`]; [`job`] |
//! | run plans in a loop | [`Program`], [`Cluster`], [`Done`] |
//! | read and write files in other formats | [`formats`], [`sequence`], [`codec`] |
//! | count and inspect the task | [`Context`], [`Counter`](task::Counter) in [`task`] |
//! | test | [`LocalRunner`], [`testing`] |

pub mod built_in;
pub mod datum;
pub mod formats;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod run;
pub mod streaming;
pub mod testing;

pub use mr_formats::{Line, Lines, codec, sequence, writable};
pub use mr_model::{
    Always, Auto, BoxError, Context, Count, Emit, Error, Finished, Fold, Job, Mapper, Max, Min,
    Output, Plan, Reducer, Result, Sink, Sum, Values, counters, from_files, intermediate, job, map,
    map_fn, parse, previous, reduce, reduce_fn, replay, rounds, task, text, text_out,
};
pub use run::{Args, Cluster, Done, LocalRunner, Program, Stdout, main, stdout, usage_error};

/// The programs of these pages are compiled, and run where they can, as tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/mapreduce.md")]
    struct Guide;

    #[doc = include_str!("../../docs/from-hadoop.md")]
    struct FromHadoop;

    #[doc = include_str!("../../docs/from-spark.md")]
    struct FromSpark;
}

//! The contents of job files: the two traits of input ([`Source`], [`Format`]), the two of output ([`OutputFormat`], [`RecordWriter`]), and
//! the formats themselves. Pure: nothing here knows a job, a task, a cluster or a runtime.
//!
//! A custom format implements [`Format`], [`OutputFormat`] or both. The formats here are text, records of a fixed length, whole files,
//! SequenceFiles ([`sequence`], with [`writable`]) and rows without any file. Any of them may be compressed ([`codec`]).
//!
//! Job authors find all of it in `mr_api::formats`, except three modules: [`splits`] and [`packing`], with which drivers make tasks of files,
//! and [`sources`], from which tasks read.

mod binary;
mod bzip2_split;
pub mod codec;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod input;
mod output;
pub mod packing;
pub mod rows;
pub mod sequence;
pub mod sources;
pub mod splits;
mod text;
pub mod writable;

pub use binary::{FixedLength, Uncut, WholeFiles};
pub use error::{BoxError, Error, Result};
pub use input::{Cut, Format, Source, SplitRange};
pub use output::{NewFile, OutputFormat, RecordWriter};
pub use rows::Rows;
pub use text::{
    CombinedLines, KeyValueLines, LINE_BYTES_MAX, Line, Lines, NLines, PassedOver, TextOutput,
    TextRules, TextWriter, ToText, Words,
};

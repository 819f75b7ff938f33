//! What files hold: the two traits of input ([`Source`], [`Format`]), [`Output`], and the formats themselves.
//!
//! A format of one's own implements [`Format`]; those that are here are text, records of a fixed length, whole files, SequenceFiles
//! ([`sequence`], with [`writable`]) and rows without any file. Any of them may be compressed ([`codec`]).

mod binary;
mod bzip2_split;
pub mod codec;
mod input;
mod output;
pub(crate) mod rows;
pub mod sequence;
pub(crate) mod splits;
mod text;
pub mod writable;

pub use binary::{FixedLength, Uncut, WholeFiles};
pub use input::{Cut, Format, Source, SplitRange};
pub use output::{NewFile, OutputFormat, RecordWriter};
pub use rows::Rows;
pub use text::{
    CombinedLines, KeyValueLines, LINE_BYTES_MAX, Line, Lines, NLines, PassedOver, TextOutput,
    TextRules, TextWriter, ToText, Words,
};

#[cfg(any(test, fuzzing))]
pub(crate) use bzip2_split::SplitReader;
pub(crate) use input::{LocalSource, READ_BYTES, Ruled};
pub(crate) use splits::{FileToCut, SplitLimits, is_hidden};

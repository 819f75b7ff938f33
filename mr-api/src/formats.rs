//! The contents of files: the traits of input ([`Source`], [`Format`]) and of output ([`OutputFormat`], [`RecordWriter`]), and the formats
//! themselves.
//!
//! A custom format implements [`Format`], [`OutputFormat`] or both. The formats here are text, records of a fixed length, whole files,
//! SequenceFiles ([`sequence`], with [`writable`]) and rows without any file. Any of them may be compressed ([`codec`]).

pub use mr_formats::{
    CombinedLines, Cut, Error, FixedLength, Format, KeyValueLines, LINE_BYTES_MAX, Line, Lines,
    NLines, NewFile, OutputFormat, PassedOver, RecordWriter, Rows, Source, SplitRange, TextOutput,
    TextRules, TextWriter, ToText, Uncut, WholeFiles, Words, codec, sequence, writable,
};

pub use mr_model::Output;

//! Hadoop's SequenceFiles: the files themselves, as input, and as output.

mod file;
mod input;
mod output;

pub use file::{Compression, Header, MAGIC, SequenceReader, SequenceWriter};
pub use input::{SequenceFiles, SequencePairs};
pub use output::{SEED_PROPERTY, SequenceOutput, SequenceStream};

//! The sort, spill and merge engine of MapReduce, on bytes only: no network, no clock, no threads of its own.
//!
//! ```text
//! map side     emit ─► CombiningWriter: hash table ─┐
//!              emit ─► MapOutputWriter: sort buffer ─┴► sorted runs (spills) ─► merge ─► NAME.data + NAME.index
//! reduce side  segments of one partition, from files or memory ─► merge (through disk if many) ─► ReduceInput: groups
//! ```
//!
//! Keys sort by their bytes. Records with equal keys keep the order of emission, and of the sources on the reduce side, so the same input
//! gives the same bytes, however little memory there was. A checksum covers every stored byte, and damage is an [`Error::Corrupt`] that
//! names origin and offset, never a panic and never a wrong record. The engine touches files only in the directory that the options name.

mod block;
mod buffer;
mod codec;
mod combine;
mod error;
mod extend;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod index;
mod key;
mod life;
mod merge;
mod output;
mod partition;
mod pool;
mod range;
mod reduce;
mod run;
mod segment;
mod sorted_combine;
mod writer;

pub use codec::Codec;
pub use combine::{Combine, CombiningWriter};
pub use error::{Damage, DecodeError, Error, Origin, RECORD_BYTES_MAX, Result, io_error};
pub use extend::SideSegment;
pub use index::{
    PARTITIONS_MAX, SegmentInfo, encode_index, read_index, read_open_index, read_partitions,
};
pub use life::Life;
pub use output::{
    Clock, MapOutput, MapOutputOptions, MapOutputStats, MapOutputTimes, READER_MEMORY_BYTES,
};
pub use partition::{PartitionFn, Partitioning, partition_of};
pub use pool::{Advise, BufferPool};
pub use range::KeyRanges;
pub use reduce::{GroupPrefix, ReduceInput, ReduceOptions, ReduceStats};
pub use segment::{SegmentSource, SegmentTotals, verify_segment};
pub use sorted_combine::{EmitCombined, SortedCombine, SortedCombiningWriter, SortedRecords};
pub use writer::MapOutputWriter;

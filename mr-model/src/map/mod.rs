//! The map side of a job, as its author writes it: mappers, their input records, and the partitions of their pairs.

mod join;
pub(crate) mod mapper;
mod multiple;
pub(crate) mod partition;
mod records;

pub use join::SortedFile;
pub use mapper::{Emit, MapFn, Mapper, Sink, enough, map_fn};
pub use multiple::{Both, BothFormats, Either};
pub use partition::{FirstElement, Partitioner};
pub use records::Records;

pub(crate) use mapper::{has_seen_enough, until_enough};
pub(crate) use partition::{PARTITION_SEED, Partition, first_element_bytes};

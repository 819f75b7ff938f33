//! Files of the distributed file system: names, writing, reading.
//!
//! | module | |
//! |---|---|
//! | `client` | [`DfsClient`]: names and their attributes |
//! | `link`, `lease` | shared by clients, readers and writers: calls, connections; the leases of writers |
//! | [`checksum`] | HDFS's file checksum |
//! | `quota`, `snapshot` | quotas and snapshots of directories |
//! | `rights` | access control lists, extended attributes |
//! | `writer` | [`DfsWriter`]: a file as packets through pipelines of DataNodes, as [`flow::writer`] says |
//! | `visible` | the length of a block that is being written |
//! | `reader`, `source` | [`DfsReader`]: verified bytes from the replica that [`flow::reader`] names |

pub mod checksum;
mod client;
mod create;
mod error;
mod lease;
mod link;
mod quota;
mod reader;
mod rights;
mod snapshot;
mod source;
mod visible;
mod writer;

pub use client::{DfsClient, Listing};
pub use create::{CreateOptions, Parents};
pub use error::DfsError;
pub use reader::DfsReader;
pub use source::BlockSlice;
pub use writer::{DfsWriter, SMALL_FILE_BYTES_MAX, SMALL_FILES_MAX, SmallFile};

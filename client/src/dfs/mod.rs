//! Files of the distributed file system: names, writing, reading.
//!
//! | module | |
//! |---|---|
//! | `client` | [`DfsClient`]: names and their attributes |
//! | `link`, `lease` | shared by clients, readers and writers: calls, connections; the leases of writers |
//! | [`checksum`] | HDFS's file checksum |
//! | `quota`, `snapshot` | quotas and snapshots of directories |
//! | `rights` | access control lists, extended attributes |
//! | `writer`, `window` | [`DfsWriter`]: a file as packets through pipelines of DataNodes, rebuilt when members fail |
//! | `slow` | which member of a pipeline holds up the others |
//! | `visible` | the length of a block that is being written |
//! | `reader`, `source` | [`DfsReader`]: verified bytes from the nearest replica that has them |

pub mod checksum;
mod client;
mod create;
mod error;
mod lease;
mod link;
mod quota;
mod reader;
mod rights;
mod slow;
mod snapshot;
mod source;
mod visible;
mod window;
mod writer;

pub use client::{DfsClient, Listing};
pub use create::CreateOptions;
pub use error::DfsError;
pub use reader::DfsReader;
pub use source::BlockSlice;
pub use writer::DfsWriter;

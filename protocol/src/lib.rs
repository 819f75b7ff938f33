//! The vocabulary that all parts of Hanno share: ids, paths, messages, frames, checksums, tokens.
//!
//! Everything here is pure: no socket, no file, no clock, no randomness. A message is a plain serde type, encoded with
//! postcard; enum order is the wire format, so variants are only ever appended.
//!
//! | module | conversation |
//! |---|---|
//! | [`namenode`] | clients and tools to the NameNode |
//! | [`datanode`] | DataNodes to the NameNode |
//! | [`delegation`] | operators to the NameNode about delegation tokens |
//! | [`transfer`] | block bytes: client to DataNode, DataNode to DataNode |
//! | [`jobs`], [`history`] | clients to the JobTracker |
//! | [`tracker`] | workers to the JobTracker |
//! | [`runner`], [`record`] | a worker to the job process it started |
//! | [`shuffle`] | map outputs from a worker to reduces |
//! | [`address`] | what people type where a path or a file system is expected |
//! | [`property`] | what a job is asked for by name |
//! | [`rounds`] | jobs that go in rounds |
//! | [`sizing`] | how many reduces a job has that was given no number |

pub mod acl;
pub mod address;
pub mod checksum;
pub mod content;
pub mod datanode;
pub mod error;
pub mod frame;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod glob;
mod hex;
pub mod id;
pub mod level;
mod mapreduce;
pub mod meta;
pub mod namenode;
pub mod path;
pub mod permission;
pub mod printable;
pub mod property;
mod signing;
pub mod storage;
mod table;
pub mod transfer;
pub mod wire;
pub mod xattr;

pub use error::{ErrorKind, RemoteError};
pub use id::{
    AttemptId, BinaryHash, BlockId, CallId, ClientId, ClusterId, DatanodeId, Epoch,
    GenerationStamp, InodeId, JobId, TaskId, TaskKind, WorkerId,
};
pub use level::FeatureLevel;
pub use mapreduce::record::RecordAt;
pub use mapreduce::{
    counters, history, jobs, phase, record, rounds, runner, short_paths, shuffle, sizing, tracker,
};
pub use path::{DfsPath, PathError};
pub use permission::modes;
pub use signing::{auth, delegation, pass, token};

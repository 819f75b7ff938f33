//! What the NameNode knows of one DataNode beyond its report, and the room of the whole cluster.

use serde::{Deserialize, Serialize};

use super::answers::{DatanodeReport, VOLUMES_MAX};
use crate::BlockId;
use crate::wire::at_most;

/// Most failures of a DataNode that are told one by one.
pub const FAILURES_MAX: usize = 50;

/// A data directory of a DataNode. Its DataNode and its path name it: it has no other id.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Volume {
    /// The directory.
    pub path: String,
    /// The file system that it is on, by the number that its machine has for it until the next boot; `None` if that is not known. Volumes of one machine with
    /// the same number share their space.
    pub device: Option<u64>,
    /// Bytes that blocks may use, without the reserve.
    pub capacity: u64,
    /// Bytes that blocks use.
    pub used: u64,
    /// Bytes of the file system that are left to other programs.
    pub reserved: u64,
    /// Bytes free for blocks.
    pub remaining: u64,
    /// Why it is out of service; `None` if it is in service.
    pub failure: Option<VolumeFailure>,
}

/// Why a volume is out of service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct VolumeFailure {
    /// What failed, for people.
    pub reason: String,
    /// Milliseconds since then.
    pub age_ms: u64,
}

/// The room of all DataNodes in service. A file system that several of them share counts once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Room {
    /// Bytes on their volumes.
    pub capacity: u64,
    /// Bytes that blocks use.
    pub used: u64,
    /// Bytes that something else uses.
    pub non_dfs_used: u64,
    /// Bytes free for blocks.
    pub remaining: u64,
}

/// One DataNode with its volumes and failures.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DatanodeDetail {
    /// What is known of each DataNode.
    pub report: DatanodeReport,
    /// Version of its program.
    pub program: String,
    /// Its data directories, as its last heartbeat told them.
    #[serde(deserialize_with = "at_most::<VOLUMES_MAX, _, _>")]
    pub volumes: Vec<Volume>,
    /// Replicas that it reported as bad since the NameNode started.
    pub bad_replica_count: u64,
    /// Times that a writer found it to hold up a pipeline since the NameNode started.
    pub slow_count: u64,
    /// Milliseconds for which it is given no new blocks because it was slow, if there are enough others; `None` if it is not spared.
    pub spared_ms: Option<u64>,
    /// The last of these, newest first.
    #[serde(deserialize_with = "at_most::<FAILURES_MAX, _, _>")]
    pub failures: Vec<NodeFailure>,
}

/// Something that went wrong on a DataNode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeFailure {
    /// When the NameNode heard of it, milliseconds since the epoch.
    pub at_ms: u64,
    /// What.
    pub kind: NodeFailureKind,
}

/// What can go wrong on a DataNode that goes on. Append only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NodeFailureKind {
    /// It found its replica of this block damaged, missing or unreadable.
    BadReplica(BlockId),
    /// A writer found that it holds up a pipeline.
    Slow,
}

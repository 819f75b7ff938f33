//! The input of one map task.

use serde::{Deserialize, Serialize};

use crate::DfsPath;
use crate::wire::at_most;

/// Most files that share one map task.
pub const SPLIT_PARTS_MAX: usize = 100_000;
/// Most machines listed for a split.
pub const HOSTS_MAX: usize = 1000;

/// Input of one map task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Split {
    /// File.
    pub path: DfsPath,
    /// Start, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u64,
    /// Machines with a replica of the first block.
    #[serde(deserialize_with = "at_most::<HOSTS_MAX, _, _>")]
    pub hosts: Vec<String>,
    /// Their racks.
    #[serde(deserialize_with = "at_most::<HOSTS_MAX, _, _>")]
    pub racks: Vec<String>,
    /// The job's input that it belongs to, from 0.
    pub input: u32,
    /// More files of the same split, after the first: many small ones make one task.
    #[serde(deserialize_with = "at_most::<SPLIT_PARTS_MAX, _, _>")]
    pub more: Vec<SplitPart>,
}

/// A part of one file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SplitPart {
    /// File.
    pub path: DfsPath,
    /// Start, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u64,
}

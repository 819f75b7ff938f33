//! Quotas of directories, in a table beside the inodes: directories without a quota cost nothing. What they forbid is judged in
//! `changes::quota`.
//!
//! Row of the checkpoint: `q` + inode id, big endian -> postcard([`Quota`]).

use std::collections::BTreeMap;

use protocol::InodeId;
use serde::{Deserialize, Serialize};

/// First byte of a quota's row.
pub(in crate::core) const ROW_PREFIX: u8 = b'q';

/// Largest quota: HDFS's are signed. The root has this many names unless another quota was set.
pub(in crate::core) const QUOTA_MAX: u64 = i64::MAX as u64;

/// The quotas of one directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Quota {
    /// Files and directories.
    pub names: Option<u64>,
    /// Bytes times replicas.
    pub space: Option<u64>,
}

/// The directories that have quotas.
pub type Quotas = BTreeMap<InodeId, Quota>;

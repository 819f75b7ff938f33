//! What calls have as arguments beside paths and ids.

use serde::{Deserialize, Serialize};

use super::answers::REPLICAS_MAX;
use crate::token::Receipt;
use crate::wire::at_most;
use crate::{BlockId, DatanodeId, DfsPath, GenerationStamp};

/// Permission bits of a directory for which nobody chose others: 0777 less the usual umask.
pub const DIRECTORY_MODE: u16 = 0o755;

/// Arguments of [`super::Call::Create`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Create {
    /// File.
    pub path: DfsPath,
    /// Permission bits, after the client's umask.
    pub mode: u16,
    /// Permission bits before the umask: they count where a default access control list replaces it.
    pub unmasked: Option<u16>,
    /// Replace an existing file.
    pub overwrite: bool,
    /// Make missing parents.
    pub parents: bool,
    /// Wanted replicas; `None` for the NameNode's default.
    pub replication: Option<u16>,
    /// Bytes per block; `None` for the NameNode's default.
    pub block_size: Option<u64>,
    /// Also allocate the first block, which saves a call.
    pub first_block: bool,
}

/// Where and how [`super::Call::Complete`] publishes a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Publish {
    /// Final path.
    pub path: DfsPath,
    /// Replace an existing file there.
    pub overwrite: bool,
}

/// A block as its writer knows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WrittenBlock {
    /// The block.
    pub id: BlockId,
    /// Its generation stamp.
    pub stamp: GenerationStamp,
    /// Bytes written.
    pub length: u64,
    /// DataNodes that acknowledged all of it, in pipeline order.
    #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
    pub replicas: Vec<DatanodeId>,
    /// What the last of them, as many as here, gave for having it on disk.
    #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
    pub receipts: Vec<Receipt>,
}

/// A replica that fails its checksums.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BadReplica {
    /// The block.
    pub block: BlockId,
    /// Its generation stamp.
    pub stamp: GenerationStamp,
    /// Who holds it.
    pub datanode: DatanodeId,
}

/// A change of one of a directory's quotas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum QuotaChange {
    /// Leave it.
    Keep,
    /// Remove it.
    Clear,
    /// Set it.
    Set(u64),
}

/// An action on safe mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SafeModeAction {
    /// Only ask.
    Get,
    /// Turn it on by hand.
    Enter,
    /// Turn it off by hand.
    Leave,
    /// Turn it off although DataNodes hold blocks that this metadata does not know yet.
    ForceLeave,
}

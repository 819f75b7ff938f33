//! The changes of the standing orders, as they are in the log (see [`crate::core::edit`]). Enum order is the format: append only.

use protocol::{BlockId, DatanodeId, FeatureLevel, GenerationStamp};
use serde::{Deserialize, Serialize};

/// One change. Append only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum StandingEdit {
    /// Safe mode was turned on or off by hand. Earlier builds logged it.
    SafeMode {
        /// On.
        on: bool,
    },
    /// A token was issued. Tokens that had expired by then leave the list.
    IssueToken {
        /// Its number.
        number: u32,
        /// Its content.
        token: Token,
    },
    /// A token was extended.
    RenewToken {
        /// Its number.
        number: u32,
        /// When it ends unless renewed, milliseconds since the epoch.
        expires_ms: u64,
    },
    /// A token was ended.
    CancelToken {
        /// Its number.
        number: u32,
    },
    /// A DataNode is in maintenance: its replicas follow.
    KeepNode(NodeAway),
    /// The next replicas of a DataNode in maintenance, ascending by block; at most [`super::REPLICAS_PER_ROW`].
    KeepReplicas {
        /// The DataNode.
        datanode: DatanodeId,
        /// What it holds.
        replicas: Vec<ReplicaAway>,
    },
    /// All replicas of a DataNode in maintenance are kept.
    KeptNode {
        /// The DataNode.
        datanode: DatanodeId,
    },
    /// The maintenance of a DataNode is over.
    ForgetNode {
        /// The DataNode.
        datanode: DatanodeId,
    },
    /// What the records behind this one may use of newer versions.
    SetLevel {
        /// The feature level.
        level: FeatureLevel,
    },
}

/// A delegation token; also its row of the checkpoint. Its password is not here: it is computed with a key of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Token {
    /// Whom its holder acts as.
    pub owner: String,
    /// Who may renew it; may be empty.
    pub renewer: String,
    /// When it was issued, milliseconds since the epoch.
    pub issued_ms: u64,
    /// When it ends unless renewed, milliseconds since the epoch.
    pub expires_ms: u64,
    /// When it ends however often it is renewed, milliseconds since the epoch.
    pub last_ms: u64,
}

/// A DataNode in maintenance; also its row of the checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeAway {
    /// Its identity.
    pub id: DatanodeId,
    /// Name of its machine.
    pub host: String,
    /// `host:port` of the block transfer service.
    pub transfer_address: String,
    /// `host:port` of its HTTP service.
    pub http_address: String,
    /// `/rack`.
    pub rack: String,
    /// Boot id of its kernel.
    pub boot_id: String,
    /// Name of its abstract Unix socket; empty if it has none.
    pub local_socket: String,
}

/// A replica on a DataNode in maintenance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplicaAway {
    /// The block.
    pub block: BlockId,
    /// Generation stamp of the replica.
    pub stamp: GenerationStamp,
    /// Bytes.
    pub length: u64,
}

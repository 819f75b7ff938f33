//! Messages from DataNodes to the NameNode: `POST /rpc/datanode` with a [`Request`], answered by `Result<Reply, RemoteError>`.
//!
//! A DataNode registers, then keeps one heartbeat open at a time. The NameNode answers it when it has commands or when `wait` is over: commands arrive at once,
//! and an idle cluster sends one small message per interval. Any answer with [`crate::ErrorKind::Fenced`] means: register again.
//!
//! Every later message names its registration, and reports are numbered. So a message that was long under way never brings back what has changed since:
//! one of an earlier registration is refused, and a report that is already taken is only answered.

use serde::{Deserialize, Serialize};

use crate::level::{FeatureLevel, Supported};
use crate::namenode::{DatanodeInfo, REPLICAS_MAX, VOLUMES_MAX, Volume};
use crate::token::BlockToken;
use crate::wire::{ENTRIES_MAX, at_most};
use crate::{BlockId, ClusterId, DatanodeId, Epoch, GenerationStamp, RemoteError};

/// Version of this conversation; both sides must agree.
pub const VERSION: u16 = 9;
/// Most replicas in one part of a full block report; bounds how long one message holds up the NameNode.
pub const REPORT_REPLICAS_MAX: usize = 50_000;

/// The answer to a [`Request`].
pub type Answer = Result<Reply, RemoteError>;

/// The requests of a DataNode. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// First contact, and again after [`crate::ErrorKind::Fenced`]. -> [`Reply::Registered`]
    Register(Register),
    /// A sign of life that waits for commands. -> [`Reply::Commands`]
    Heartbeat(Sender, Heartbeat),
    /// What replicas there are. -> [`Reply::Done`]
    Report {
        /// Who reports.
        sender: Sender,
        /// Number among the reports of this registration, from 0. Each is sent until it is answered; only then comes the next.
        number: u64,
        /// What there is.
        report: Report,
    },
    /// A block recovery that this DataNode led is finished. -> [`Reply::Done`]
    CommitRecovery(Sender, CommitRecovery),
}

/// Who sends a message, and under which registration.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Sender {
    /// The DataNode.
    pub datanode: DatanodeId,
    /// Start of the NameNode that it registered with.
    pub epoch: Epoch,
    /// Which of its registrations with that start it is, as [`Reply::Registered`] said.
    pub registration: u64,
}

/// A report on replicas.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    /// A part of all replicas.
    Full(FullReport),
    /// What has changed.
    Changes(Changes),
}

/// First contact.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Register {
    /// [`VERSION`].
    pub version: u16,
    /// The feature levels that it supports.
    pub levels: Supported,
    /// The cluster its data belongs to; `None` for empty directories.
    pub cluster: Option<ClusterId>,
    /// Identity and addresses.
    pub info: DatanodeInfo,
    /// Version of its program, for people.
    pub program: String,
    /// Drawn at each start: tells its processes apart, two of which may have the same data by mistake.
    pub process: u64,
}

/// A sign of life.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Bytes on its volumes.
    pub capacity: u64,
    /// Bytes that blocks use.
    pub used: u64,
    /// Bytes free for blocks.
    pub remaining: u64,
    /// Transfers running.
    pub transfer_count: u32,
    /// Bytes on its volumes that something else uses.
    pub non_dfs_used: u64,
    /// Most bytes per second that it sends for the balancer.
    pub balancer_bandwidth: u64,
    /// Its data directories. Those in service make the sums above.
    #[serde(deserialize_with = "at_most::<VOLUMES_MAX, _, _>")]
    pub volumes: Vec<Volume>,
}

/// A part of a full block report. All parts together ascend by block id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FullReport {
    /// Part number, from 0.
    pub part: u32,
    /// True for the last part.
    pub last: bool,
    /// Finalized replicas.
    #[serde(deserialize_with = "at_most::<REPORT_REPLICAS_MAX, _, _>")]
    pub finalized: Vec<Replica>,
    /// Replicas being written or left by a writer that is gone.
    #[serde(deserialize_with = "at_most::<REPORT_REPLICAS_MAX, _, _>")]
    pub unfinished: Vec<Replica>,
}

/// One replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Replica {
    /// The block.
    pub block: BlockId,
    /// Generation stamp of this replica.
    pub stamp: GenerationStamp,
    /// Bytes.
    pub length: u64,
}

/// What changed on a DataNode.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Changes {
    /// Finalized since the last message.
    #[serde(deserialize_with = "at_most::<REPORT_REPLICAS_MAX, _, _>")]
    pub received: Vec<Replica>,
    /// Deleted since the last message.
    #[serde(deserialize_with = "at_most::<REPORT_REPLICAS_MAX, _, _>")]
    pub deleted: Vec<BlockId>,
    /// Found corrupt, missing or unreadable by the DataNode itself.
    #[serde(deserialize_with = "at_most::<REPORT_REPLICAS_MAX, _, _>")]
    pub bad: Vec<Replica>,
    /// Replicas that their writer left incomplete since the last message.
    #[serde(deserialize_with = "at_most::<REPORT_REPLICAS_MAX, _, _>")]
    pub unfinished: Vec<Replica>,
    /// What was ordered and cannot be done: copies ([`Command::Replicate`], [`Command::Cut`]) that this DataNode could not send to all their targets, and
    /// recoveries that it could not lead to an end.
    #[serde(deserialize_with = "at_most::<REPORT_REPLICAS_MAX, _, _>")]
    pub copies_failed: Vec<BlockId>,
}

impl Changes {
    /// Entries of all kinds; the NameNode takes at most [`REPORT_REPLICAS_MAX`].
    pub fn count(&self) -> usize {
        self.received.len()
            + self.deleted.len()
            + self.bad.len()
            + self.unfinished.len()
            + self.copies_failed.len()
    }
}

/// End of a block recovery.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommitRecovery {
    /// The block.
    pub block: BlockId,
    /// The stamp the recovery was ordered with, now the replicas' stamp.
    pub stamp: GenerationStamp,
    /// Length all remaining replicas agree on; 0 with no replicas: the block has no data and is dropped.
    pub length: u64,
    /// Who holds it now, finalized and fsynced.
    #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
    pub replicas: Vec<DatanodeId>,
    /// The DataNodes that reported on a replica when asked, usable or not, and those of `without` that would have one had they acknowledged a byte since the
    /// pipeline of the block got its stamp.
    #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
    pub answered: Vec<DatanodeId>,
    /// Those that have no replica, on any disk.
    #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
    pub without: Vec<DatanodeId>,
}

/// Answers. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Done.
    Done,
    /// Welcome.
    Registered {
        /// The cluster; a new DataNode stores it.
        cluster: ClusterId,
        /// This start of the NameNode. A full report must follow.
        epoch: Epoch,
        /// Number of this registration, for [`Sender`].
        registration: u64,
        /// How long the NameNode may hold a heartbeat, milliseconds.
        heartbeat_ms: u64,
        /// The feature level of the cluster.
        level: FeatureLevel,
        /// Stamps from this one on are handed out after this registration.
        next_stamp: GenerationStamp,
    },
    /// What to do.
    Commands {
        /// This start of the NameNode; commands of a lower one are refused.
        epoch: Epoch,
        /// In order.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        commands: Vec<Command>,
    },
}

/// Orders to a DataNode. Each is idempotent. Append only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Delete these replicas if their stamp is not newer.
    Delete(
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<(BlockId, GenerationStamp)>,
    ),
    /// Copy a finalized replica to others.
    Replicate {
        /// The block.
        block: BlockId,
        /// Its generation stamp.
        stamp: GenerationStamp,
        /// Where to.
        #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
        targets: Vec<DatanodeInfo>,
        /// Write permission for the targets.
        token: BlockToken,
        /// True for a copy that only balances the load: it keeps to the balancer's bandwidth.
        balancing: bool,
    },
    /// Lead the recovery of a block whose writer is gone: agree on a length, adopt `stamp`, finalize, then
    /// [`Request::CommitRecovery`].
    Recover {
        /// The block.
        block: BlockId,
        /// Stamp of the replicas so far (older replicas are left out).
        old_stamp: GenerationStamp,
        /// The new stamp.
        stamp: GenerationStamp,
        /// Bytes that readers or the writer were promised.
        length_min: u64,
        /// Everyone who may have a replica, the receiver included.
        #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
        replicas: Vec<DatanodeInfo>,
        /// Write permission under the new stamp.
        token: BlockToken,
    },
    /// Send a full report now.
    ReportAll,
    /// Make a block of the first bytes of another, on `targets`; then [`Request::CommitRecovery`].
    Cut {
        /// Block to copy from, which the receiver has.
        source: BlockId,
        /// Its stamp.
        source_stamp: GenerationStamp,
        /// The new block.
        block: BlockId,
        /// Its stamp.
        stamp: GenerationStamp,
        /// Its bytes.
        length: u64,
        /// Who will hold it.
        #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
        targets: Vec<DatanodeInfo>,
        /// Write permission for the new block.
        token: BlockToken,
    },
    /// From now on, copies for the balancer take at most this many bytes per second, until the DataNode restarts.
    SetBalancerBandwidth(u64),
    /// Stop, as after SIGTERM.
    ShutDown,
    /// A reader found these damaged: verify them soon, and report those that are.
    Verify(
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<(BlockId, GenerationStamp)>,
    ),
}

//! The content of the NameNode's answers: files and their blocks, DataNodes, snapshots, health.

use serde::{Deserialize, Serialize};

use crate::storage::StoragePolicy;
use crate::token::BlockToken;
use crate::wire::{ENTRIES_MAX, at_most};
use crate::{BlockId, ClientId, ClusterId, DatanodeId, DfsPath, Epoch, GenerationStamp, InodeId};

/// Most replicas that one block can have on the wire: twice the highest replication of a file.
pub const REPLICAS_MAX: usize = 1024;
/// Most data directories of a DataNode.
pub const VOLUMES_MAX: usize = 1000;

/// The attributes of a file or directory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FileStatus {
    /// Its last path element; empty when the call asked for a single path.
    pub name: String,
    /// Id, never reused.
    pub inode: InodeId,
    /// True for a directory.
    pub directory: bool,
    /// Bytes; 0 for a directory. For an open file: its complete blocks and the part of the last that is known to be written.
    pub length: u64,
    /// Wanted replicas; 0 for a directory.
    pub replication: u16,
    /// Bytes per block; 0 for a directory.
    pub block_size: u64,
    /// Owner.
    pub owner: String,
    /// Group.
    pub group: String,
    /// Permission bits.
    pub mode: u16,
    /// Modification time, milliseconds since the epoch.
    pub mtime_ms: u64,
    /// Access time, milliseconds since the epoch; 0 for a directory for which none was set.
    pub atime_ms: u64,
    /// Entries of a directory; 0 for a file.
    pub children_count: u64,
    /// True while a client writes it.
    pub open: bool,
    /// True if it has an access control list beyond its permission bits.
    pub has_acl: bool,
    /// True if it is a directory that may have snapshots.
    pub snapshottable: bool,
    /// Its storage policy, its own or that of an ancestor directory; `None` if none was set.
    pub storage_policy: Option<StoragePolicy>,
}

/// A page of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListPage {
    /// Entries in byte order of names.
    pub entries: Vec<FileStatus>,
    /// Number of entries that follow.
    pub remaining: u64,
}

/// Totals of a subtree, the top included, and its quotas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ContentSummary {
    /// Bytes of all files.
    pub length: u64,
    /// Files.
    pub file_count: u64,
    /// Directories.
    pub directory_count: u64,
    /// Bytes times replicas; a block being written counts at its full size.
    pub space_consumed: u64,
    /// How many files and directories there may be; `None` without a quota.
    pub quota: Option<u64>,
    /// How many bytes times replicas there may be; `None` without a quota.
    pub space_quota: Option<u64>,
    /// Bytes of all files that only snapshots still hold; included in `length`.
    pub snapshot_length: u64,
    /// Files that only snapshots still hold; included in `file_count`.
    pub snapshot_file_count: u64,
    /// Directories that only snapshots still hold; included in `directory_count`.
    pub snapshot_directory_count: u64,
    /// Bytes times replicas that only snapshots still hold; included in `space_consumed`.
    pub snapshot_space_consumed: u64,
}

/// Blocks of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocatedBlocks {
    /// The file.
    pub status: FileStatus,
    /// Blocks that overlap the range, in order.
    #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
    pub blocks: Vec<LocatedBlock>,
}

/// One block and where its replicas are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocatedBlock {
    /// The block.
    pub id: BlockId,
    /// Its generation stamp.
    pub stamp: GenerationStamp,
    /// Where it begins in the file, bytes.
    pub offset: u64,
    /// Bytes; for a block being written, the bytes committed so far.
    pub length: u64,
    /// For readers: replicas, nearest first. For writers: the pipeline.
    #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
    pub replicas: Vec<DatanodeInfo>,
    /// For readers: replicas also known to be damaged, for chunks of which no other has a good copy.
    #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
    pub damaged: Vec<DatanodeInfo>,
    /// Replicas that must be on disk before the block is acknowledged (for writers).
    pub durable_min: u16,
    /// True if every known replica is corrupt: `replicas` then holds those.
    pub corrupt: bool,
    /// True while it is written: its DataNodes may have more than `length`.
    pub open: bool,
    /// For readers: true if this run of the NameNode has not heard of a member of its pipeline. That one may have more than all of `replicas`.
    pub has_unseen_members: bool,
    /// Permission to read, or to write if the call asked for that.
    pub token: BlockToken,
}

impl LocatedBlock {
    /// The part of the permission that a DataNode gets to see.
    pub fn permit(&self) -> (BlockId, GenerationStamp, &BlockToken) {
        (self.id, self.stamp, &self.token)
    }
}

/// How to reach a DataNode.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DatanodeInfo {
    /// Its identity.
    pub id: DatanodeId,
    /// Name of its machine, compared with workers' and clients' for locality.
    pub host: String,
    /// `host:port` of the block transfer service.
    pub transfer_address: String,
    /// `host:port` of its HTTP service.
    pub http_address: String,
    /// `/rack`.
    pub rack: String,
    /// Boot id of its kernel: equal to the client's if both run on one machine.
    pub boot_id: String,
    /// Name of its abstract Unix socket for clients on the same machine; empty if it has none.
    pub local_socket: String,
}

/// A new open file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Created {
    /// Its id; writers use it from now on, so a rename does not disturb them.
    pub file: InodeId,
    /// Bytes per block.
    pub block_size: u64,
    /// Wanted replicas.
    pub replication: u16,
    /// The first block, if the call asked for it.
    pub first_block: Option<LocatedBlock>,
}

/// A file opened at its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Appended {
    /// Its id.
    pub file: InodeId,
    /// Bytes per block.
    pub block_size: u64,
    /// Bytes before the end.
    pub length: u64,
    /// The last block under its new stamp, if it has room.
    pub last: Option<LocatedBlock>,
    /// Stamp of the replicas of that block so far.
    pub prior: GenerationStamp,
}

/// State of the NameNode.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// The cluster.
    pub cluster: ClusterId,
    /// This start of the NameNode.
    pub epoch: Epoch,
    /// Why writes are refused; `None` outside safe mode.
    pub safe_mode: Option<String>,
    /// Files and directories.
    pub inode_count: u64,
    /// Blocks.
    pub block_count: u64,
    /// Blocks with too few replicas.
    pub low_redundancy_count: u64,
    /// Blocks with a corrupt replica.
    pub corrupt_count: u64,
    /// Blocks without any good replica.
    pub missing_count: u64,
    /// Of these, blocks of which only one replica was wanted.
    pub missing_single_count: u64,
    /// Blocks that are copied first: they have one replica left, or none in service.
    pub urgent_count: u64,
    /// Replicas being copied.
    pub pending_replication_count: u64,
    /// Replicas to delete.
    pub pending_deletion_count: u64,
    /// Default replication.
    pub replication: u16,
    /// Default block size, bytes.
    pub block_size: u64,
    /// Live DataNodes that have reported their free space.
    pub live_count: u32,
    /// Dead DataNodes.
    pub dead_count: u32,
    /// Last durable transaction.
    pub txid: u64,
    /// How long deleted files stay in the trash, milliseconds; 0 for no trash.
    pub trash_interval_ms: u64,
    /// Directories of `log_dirs` that are out of use, each with the reason: the metadata has one copy fewer for each.
    #[serde(deserialize_with = "at_most::<VOLUMES_MAX, _, _>")]
    pub log_dirs_left_out: Vec<String>,
}

/// A DataNode as the NameNode sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DatanodeReport {
    /// How to reach it.
    pub info: DatanodeInfo,
    /// Liveness.
    pub state: DatanodeState,
    /// Bytes on its volumes.
    pub capacity: u64,
    /// Bytes that blocks use.
    pub used: u64,
    /// Bytes free for blocks.
    pub remaining: u64,
    /// Replicas.
    pub block_count: u64,
    /// Transfers running.
    pub transfer_count: u32,
    /// Milliseconds since its last heartbeat.
    pub last_contact_ms: u64,
    /// Milliseconds since its last full report; `None` before the first.
    pub last_report_ms: Option<u64>,
    /// Bytes on its volumes that something else uses.
    pub non_dfs_used: u64,
    /// Whether it is in service.
    pub admin: AdminState,
    /// The progress of its drain.
    pub drain: DrainReport,
    /// Its data directories that are out of service.
    #[serde(deserialize_with = "at_most::<VOLUMES_MAX, _, _>")]
    pub failed_volumes: Vec<String>,
    /// Most bytes per second that it sends for the balancer.
    pub balancer_bandwidth: u64,
    /// Milliseconds left of its maintenance; `None` if it is not in maintenance, or if that has no end.
    pub maintenance_left_ms: Option<u64>,
}

impl DatanodeReport {
    /// True if its capacity counts: it is alive and in service.
    pub fn is_in_service(&self) -> bool {
        self.state != DatanodeState::Dead && self.admin == AdminState::Normal
    }
}

/// Whether a DataNode is in service.
///
/// ```text
/// Normal -> (named in the exclude list) DecommissionInProgress -> (every block is safe without it) Decommissioned
///   |  ^                                         |                                                        |
///   |  +------------------------------- (no longer named) ------------------------------------------------+
///   |
///   +-> (named as in maintenance) EnteringMaintenance -> (every block has a replica in service) InMaintenance
///   ^                                         |                                                      |
///   +------------------------------ (no longer named, or its time is over) -------------------------+
/// ```
///
/// A DataNode that is dead when the list names it goes into maintenance at once. The list decides: every state can change to every other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum AdminState {
    /// It accepts blocks.
    #[default]
    Normal,
    /// It accepts no blocks; its replicas do not count, and are copied elsewhere.
    DecommissionInProgress,
    /// Every block has enough replicas elsewhere: it can be switched off.
    Decommissioned,
    /// It accepts no blocks; blocks with too few replicas in service are copied elsewhere.
    EnteringMaintenance,
    /// It can be switched off for a while: its replicas are trusted and not replaced.
    InMaintenance,
}

impl AdminState {
    /// In the words of `dfsadmin -report`.
    pub fn text(self) -> &'static str {
        match self {
            AdminState::Normal => "Normal",
            AdminState::DecommissionInProgress => "Decommission in progress",
            AdminState::Decommissioned => "Decommissioned",
            AdminState::EnteringMaintenance => "Entering maintenance",
            AdminState::InMaintenance => "In maintenance",
        }
    }

    /// In the words of Hadoop's beans.
    pub fn title(self) -> &'static str {
        match self {
            AdminState::Normal => "In Service",
            AdminState::DecommissionInProgress => "Decommission In Progress",
            AdminState::Decommissioned => "Decommissioned",
            AdminState::EnteringMaintenance => "Entering Maintenance",
            AdminState::InMaintenance => "In Maintenance",
        }
    }

    /// True if it is expected back: its replicas stay known while it is silent.
    pub fn is_maintenance(self) -> bool {
        matches!(self, AdminState::EnteringMaintenance | AdminState::InMaintenance)
    }
}

/// What still holds up a drain, as of the last check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DrainReport {
    /// Blocks with too few replicas elsewhere.
    pub low_redundancy_count: u64,
    /// Of these, blocks without any replica elsewhere.
    pub only_here_count: u64,
    /// Files being written to it.
    pub open_file_count: u64,
}

/// A block on a DataNode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BlockOn {
    /// The block.
    pub block: BlockId,
    /// Bytes.
    pub length: u64,
}

/// A replica to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplicaMove {
    /// The block.
    pub block: BlockId,
    /// Who has it.
    pub from: DatanodeId,
    /// The DataNode that gets it.
    pub to: DatanodeId,
}

/// The state of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MoveState {
    /// It would break a rule, or was abandoned; nothing has changed.
    Refused,
    /// In progress.
    Moving,
    /// The new replica is there, and the old one is or will soon be deleted.
    Moved,
}

/// Liveness of a DataNode.
///
/// ```text
/// register -> Live -> (no heartbeat) Stale -> Dead -> register -> Live
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum DatanodeState {
    /// Heartbeats arrive.
    #[default]
    Live,
    /// Late: used last for reads, not at all for writes.
    Stale,
    /// Considered lost; its replicas are copied elsewhere.
    Dead,
}

/// A difference between two snapshots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiffEntry {
    /// What happened.
    pub kind: DiffKind,
    /// To what, relative to the directory; empty for the directory itself.
    pub path: String,
    /// Its present path, if it was renamed.
    pub target: Option<String>,
}

/// What happened to a file or directory between two snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DiffKind {
    /// It is new.
    Created,
    /// It is gone.
    Deleted,
    /// Its content or attributes changed.
    Modified,
    /// It has another name or place in the same snapshottable directory.
    Renamed,
}

/// A page of the changes between two snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiffPage {
    /// In the order of HDFS's report.
    pub entries: Vec<DiffEntry>,
    /// Number of entries that follow.
    pub remaining: u64,
}

/// A directory that may have snapshots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SnapshottableDirectory {
    /// Full path.
    pub path: DfsPath,
    /// The directory.
    pub status: FileStatus,
    /// Number of its snapshots.
    pub snapshot_count: u32,
    /// Most snapshots it may have.
    pub snapshot_quota: u32,
}

/// A page of the snapshots of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotPage {
    /// By age, the oldest first.
    pub entries: Vec<SnapshotStatus>,
    /// Number of entries that follow.
    pub remaining: u64,
}

/// A snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SnapshotStatus {
    /// Its number: no other snapshot in the file system has or had it, and later ones have larger ones.
    pub number: u64,
    /// The directory as it was, under the name of the snapshot.
    pub status: FileStatus,
}

/// A page of fsck.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FsckPage {
    /// Files in path order.
    #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
    pub files: Vec<FsckFile>,
    /// Directories passed on this page, each with the number of files of the page that come before it.
    #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
    pub directories: Vec<(DfsPath, u32)>,
    /// Where the next page continues; `None` at the end.
    pub next: Option<DfsPath>,
}

/// Health of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FsckFile {
    /// Full path.
    pub path: DfsPath,
    /// The file.
    pub status: FileStatus,
    /// Its blocks in order.
    #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
    pub blocks: Vec<FsckBlock>,
    /// Bytes past its end that a writer was promised and that no DataNode has.
    pub lost_bytes: u64,
    /// DataNodes that are dead and may have bytes that a writer was promised: the recovery of the file waits for them.
    #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
    pub awaited: Vec<String>,
}

/// Health of a block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FsckBlock {
    /// The block.
    pub id: BlockId,
    /// Its generation stamp.
    pub stamp: GenerationStamp,
    /// Bytes.
    pub length: u64,
    /// Its known replicas: good ones first, then corrupt ones.
    #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
    pub replicas: Vec<(DatanodeInfo, ReplicaState)>,
    /// True if all good replicas are on one rack although there are others.
    pub misplaced: bool,
}

impl FsckBlock {
    /// Number of replicas in a state that `is_counted` accepts.
    pub fn count(&self, is_counted: impl Fn(ReplicaState) -> bool) -> usize {
        self.replicas.iter().filter(|(_, state)| is_counted(*state)).count()
    }

    /// Number of good replicas, wherever they are.
    pub fn good_count(&self) -> usize {
        self.count(ReplicaState::is_good)
    }

    /// Number of good replicas in service.
    pub fn live_count(&self) -> usize {
        self.count(ReplicaState::is_live)
    }

    /// Number of replicas known to be bad.
    pub fn corrupt_count(&self) -> usize {
        self.count(|state| matches!(state, ReplicaState::Corrupt(_)))
    }
}

/// The state of a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ReplicaState {
    /// Good, on a DataNode in service.
    Live,
    /// Good, on a DataNode in service that is late.
    Stale,
    /// Good, on a DataNode that is being drained.
    Decommissioning,
    /// Good, on a DataNode that is drained.
    Decommissioned,
    /// Good, on a DataNode that goes into maintenance.
    EnteringMaintenance,
    /// Believed to be good, on a DataNode in maintenance, which may be switched off.
    InMaintenance,
    /// One too many: it is about to be deleted.
    Excess,
    /// Bad.
    Corrupt(CorruptReason),
}

impl ReplicaState {
    /// True if it counts as one of the wanted replicas.
    pub fn is_live(self) -> bool {
        matches!(self, ReplicaState::Live | ReplicaState::Stale)
    }

    /// True if, as far as known, its content is right and it is there to stay.
    pub fn is_good(self) -> bool {
        !matches!(self, ReplicaState::Excess | ReplicaState::Corrupt(_))
    }
}

/// Why a replica counts as bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CorruptReason {
    /// Its generation stamp is out of date.
    GenstampMismatch,
    /// Its length differs from the block's.
    SizeMismatch,
    /// A reader, a DataNode or the scanner found that its bytes do not match their checksums.
    CorruptionReported,
}

impl CorruptReason {
    /// As HDFS's `CorruptReplicasMap.Reason`.
    pub fn text(self) -> &'static str {
        match self {
            CorruptReason::GenstampMismatch => "GENSTAMP_MISMATCH",
            CorruptReason::SizeMismatch => "SIZE_MISMATCH",
            CorruptReason::CorruptionReported => "CORRUPTION_REPORTED",
        }
    }
}

/// A file being written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenFile {
    /// Full path.
    pub path: DfsPath,
    /// Who writes it.
    pub client: ClientId,
    /// The machine it last sent a call from; empty if it has sent none since the NameNode's start.
    pub host: String,
    /// True if a DataNode that holds its last block is going out of service.
    pub holds_drain: bool,
}

/// A page of the files being written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenFilePage {
    /// In order of their ids.
    pub files: Vec<OpenFile>,
    /// Where the next page continues; `None` at the end.
    pub next: Option<InodeId>,
}

/// A piece of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImagePiece {
    /// The image.
    pub name: String,
    /// Its bytes.
    pub length: u64,
    /// The bytes, at most [`super::IMAGE_PIECE_BYTES`]; none at the end.
    pub bytes: Vec<u8>,
}

/// A block and where it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BlockInfo {
    /// The block.
    pub id: BlockId,
    /// The file it belongs to.
    pub path: DfsPath,
    /// Wanted replicas.
    pub replication: u16,
    /// Its known replicas, those about to be deleted included.
    #[serde(deserialize_with = "at_most::<REPLICAS_MAX, _, _>")]
    pub replicas: Vec<(DatanodeInfo, ReplicaState)>,
}

//! Requests of clients and tools to the NameNode: `POST /rpc` with a [`Request`], answered by `Result<Reply, RemoteError>`.

mod answers;
#[cfg(test)]
mod golden;
mod paths;

use serde::{Deserialize, Serialize};

use crate::acl::{AclChange, AclStatus};
use crate::permission::Action;
use crate::storage::StoragePolicy;
use crate::wire::{ENTRIES_MAX, at_most};
use crate::xattr::{VALUE_BYTES_SENT_MAX, Xattr, XattrFlag};
use crate::{
    BlockId, CallId, ClientId, DatanodeId, DfsPath, GenerationStamp, InodeId, RemoteError,
};

pub use answers::{
    AdminState, Appended, BlockInfo, BlockOn, ClusterStatus, ContentSummary, CorruptReason,
    Created, DatanodeInfo, DatanodeReport, DatanodeState, DiffEntry, DiffKind, DrainReport,
    FileStatus, FsckBlock, FsckFile, FsckPage, LocatedBlock, LocatedBlocks, MoveState, OpenFile,
    REPLICAS_MAX, ReplicaMove, ReplicaState, SnapshottableDirectory, VOLUMES_MAX,
};

/// Version of this conversation; both sides must agree.
pub const VERSION: u16 = 3;
/// Most entries in one page of a listing, as `dfs.ls.limit`.
pub const LIST_ENTRIES_MAX: u32 = 1000;
/// Most bytes of an image in one answer: large enough to make the cost of a call negligible.
pub const IMAGE_PIECE_BYTES: usize = 4 << 20;
/// Most calls in one batch; bounds how long the NameNode's loop is held.
pub const BATCH_CALLS_MAX: usize = 1000;
/// Most entries in one page of a snapshot diff: a message stays below a few megabytes.
pub const DIFF_ENTRIES_MAX: usize = 1000;
/// Most DataNodes that a writer can name at once.
pub const DATANODES_MAX: usize = 10_000;
/// Most bad replicas in one report of a reader.
pub const BAD_REPLICAS_MAX: usize = 1000;
/// Most files that one call concatenates.
pub const CONCAT_SOURCES_MAX: usize = 10_000;
/// Most moves of replicas in one call.
pub const MOVES_MAX: usize = 10_000;
/// Most names of attributes in one call: many times what a file can have.
pub const XATTR_NAMES_MAX: usize = 1000;
/// Name below a directory under which its snapshots can be read.
pub const DOT_SNAPSHOT: &str = ".snapshot";

/// A call and who makes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u16,
    /// The calling process and the number of the call. A repeated mutating call gets the first answer.
    pub call: CallId,
    /// Acting user.
    pub user: String,
    /// Network name of the client's machine, to place the first replica there; may be empty.
    pub host: String,
    /// The call or batch itself.
    pub body: Body,
}

/// The content of one request. A batch is not a [`Call`], so batches do not nest. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Body {
    /// One call.
    One(Call),
    /// Several, each with its own outcome, in order. -> [`Reply::Batch`]
    Batch(#[serde(deserialize_with = "at_most::<BATCH_CALLS_MAX, _, _>")] Vec<Call>),
}

impl From<Call> for Body {
    fn from(call: Call) -> Self {
        Body::One(call)
    }
}

impl Body {
    /// The calls, in order.
    pub fn calls(&self) -> &[Call] {
        match self {
            Body::One(call) => std::slice::from_ref(call),
            Body::Batch(calls) => calls,
        }
    }

    /// True if none of its calls changes anything.
    pub fn is_read(&self) -> bool {
        self.calls().iter().all(Call::is_read)
    }
}

/// The answer to a [`Request`].
pub type Answer = Result<Reply, RemoteError>;

/// The calls. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Call {
    // reads
    /// One file or directory. -> [`Reply::Status`]
    Status(DfsPath),
    /// A page of a directory in byte order of names; for a file, the file itself. -> [`Reply::Listing`]
    List {
        /// Directory.
        path: DfsPath,
        /// Name after which the page begins; empty for the first.
        start_after: String,
        /// Entries wanted, at most [`LIST_ENTRIES_MAX`].
        limit: u32,
    },
    /// Totals of a subtree. -> [`Reply::Summary`]
    ContentSummary(DfsPath),
    /// Blocks of a file that overlap a range, replicas nearest first. -> [`Reply::Located`]
    Locations {
        /// File.
        path: DfsPath,
        /// Start, bytes.
        offset: u64,
        /// Length, bytes; `u64::MAX` for the rest.
        length: u64,
    },
    /// State of the NameNode. -> [`Reply::Cluster`]
    ClusterStatus,
    /// All DataNodes. -> [`Reply::Datanodes`]
    Datanodes,
    /// A page of files with the health of each block. -> [`Reply::Fsck`]
    Fsck {
        /// File or directory.
        path: DfsPath,
        /// Continue after this path (from the page before).
        after: Option<DfsPath>,
    },

    // changes
    /// Makes a directory. -> [`Reply::Done`]
    Mkdirs {
        /// Directory.
        path: DfsPath,
        /// Permission bits, after the client's umask.
        mode: u16,
        /// Permission bits before the umask: they count where a default access control list replaces it.
        unmasked: Option<u16>,
        /// Make missing parents, and accept an existing directory.
        parents: bool,
    },
    /// Makes a file and opens it for writing for this client. -> [`Reply::Created`]
    Create(Create),
    /// Commits the previous block and allocates the next. -> [`Reply::Block`]
    AddBlock {
        /// The open file.
        file: InodeId,
        /// The block that was just written, if any.
        previous: Option<WrittenBlock>,
        /// DataNodes that failed this client.
        #[serde(deserialize_with = "at_most::<DATANODES_MAX, _, _>")]
        exclude: Vec<DatanodeId>,
    },
    /// Gives back a block to which nothing was written. -> [`Reply::Done`]
    AbandonBlock {
        /// The open file.
        file: InodeId,
        /// The block.
        block: BlockId,
    },
    /// After a failure in the pipeline: a new generation stamp, and a replacement if there is one. -> [`Reply::Block`] with the survivors first, in their old
    /// order, then the replacement.
    RecoverPipeline {
        /// The open file.
        file: InodeId,
        /// The block as the client knows it; `length` is the length that every survivor has acknowledged.
        block: WrittenBlock,
        /// DataNodes that failed.
        #[serde(deserialize_with = "at_most::<DATANODES_MAX, _, _>")]
        failed: Vec<DatanodeId>,
        /// One of them that did not fail, but held up the others.
        slow: Option<DatanodeId>,
    },
    /// Commits the last block and closes the file. -> [`Reply::Done`]; [`crate::ErrorKind::NotReplicatedYet`] asks to try again.
    Complete {
        /// The open file.
        file: InodeId,
        /// Its last block, if it has any.
        last: Option<WrittenBlock>,
        /// Rename it to this path in the same step (this is how `put` publishes its temporary file).
        publish: Option<Publish>,
    },
    /// Keeps this client's leases. -> [`Reply::Done`]
    RenewLease,
    /// Takes a file away from a writer that is gone. -> [`Reply::Flag`]: true if the file is closed now.
    RecoverLease(DfsPath),
    /// Renames. -> [`Reply::Flag`] as HDFS's rename without options, [`Reply::Done`] with.
    Rename {
        /// From.
        from: DfsPath,
        /// To; an existing directory takes the source into it (without options).
        to: DfsPath,
        /// `None`: rename without options (returns false instead of most errors). `Some(overwrite)`: with options.
        overwrite: Option<bool>,
    },
    /// Deletes. -> [`Reply::Flag`]: false if there was nothing.
    Delete {
        /// File or directory.
        path: DfsPath,
        /// Delete a directory even if it is not empty.
        recursive: bool,
    },
    /// Sets the wanted number of replicas. -> [`Reply::Flag`]: false for a directory or a missing path.
    SetReplication {
        /// File.
        path: DfsPath,
        /// Wanted replicas, at least 1.
        replication: u16,
    },
    /// Sets permission bits. -> [`Reply::Done`]
    SetMode {
        /// File or directory.
        path: DfsPath,
        /// Permission bits, 0 to 0o1777.
        mode: u16,
    },
    /// Sets owner or group; an empty one stays unchanged. -> [`Reply::Done`]
    SetOwner {
        /// File or directory.
        path: DfsPath,
        /// New owner or empty.
        owner: String,
        /// New group or empty.
        group: String,
    },
    /// Sets times in milliseconds since the epoch; `None` leaves one unchanged. -> [`Reply::Done`]
    SetTimes {
        /// File or directory.
        path: DfsPath,
        /// Modification time.
        mtime_ms: Option<u64>,
        /// Access time.
        atime_ms: Option<u64>,
    },
    /// A reader found replicas whose data does not match its checksums. -> [`Reply::Done`]
    ReportBadReplicas(
        #[serde(deserialize_with = "at_most::<BAD_REPLICAS_MAX, _, _>")] Vec<BadReplica>,
    ),
    /// Safe mode. -> [`Reply::Flag`]: true if it is on afterwards.
    SafeMode(SafeModeAction),
    /// Sets or clears the quotas of a directory; for the superuser. -> [`Reply::Done`]
    SetQuota {
        /// Directory.
        path: DfsPath,
        /// How many files and directories there may be, itself included.
        names: QuotaChange,
        /// How many bytes times replicas there may be.
        space: QuotaChange,
    },
    /// Writes an image of the name space; for the superuser, in safe mode. -> [`Reply::Done`]
    SaveNamespace,
    /// Begins a new segment of the log; for the superuser. -> [`Reply::Number`]: the segment's first transaction.
    RollEdits,
    /// Writes the pending work of the block manager to a file of this name in `logs`; for the superuser. -> [`Reply::Done`]
    Metasave(String),
    /// A page of the files being written; for the superuser. -> [`Reply::OpenFiles`]
    OpenFiles {
        /// Continue after this file (from the page before).
        after: Option<InodeId>,
    },
    /// Orders a full report from a DataNode; for the superuser. -> [`Reply::Done`]
    TriggerBlockReport {
        /// Which.
        datanode: DatanodeId,
    },
    /// One block and its replicas. -> [`Reply::BlockInfo`]
    BlockInfo(BlockId),
    /// Groups of a user. -> [`Reply::Names`]
    GroupsOf(String),
    /// Opens a closed file for writing at its end. -> [`Reply::Appended`]
    Append {
        /// File.
        path: DfsPath,
        /// Begin a new block even if the last one has room.
        new_block: bool,
    },
    /// Confirms that every member of the pipeline has the acknowledged bytes, under its newest stamp, and which of them are on disk: readers and a recovery may
    /// rely on that. -> [`Reply::Done`]
    SyncBlock {
        /// The open file.
        file: InodeId,
        /// Its last block.
        block: BlockId,
        /// Stamp under which it was acknowledged.
        stamp: GenerationStamp,
        /// Bytes.
        length: u64,
    },
    /// Truncates a closed file. -> [`Reply::Flag`]: false if its last block is still being cut; it is closed when that is done.
    Truncate {
        /// File.
        path: DfsPath,
        /// New length, bytes.
        length: u64,
    },
    /// Moves the blocks of `sources`, in order, to the end of `target`; the sources are gone then. -> [`Reply::Done`]
    Concat {
        /// File that grows.
        target: DfsPath,
        /// Files in the same directory.
        #[serde(deserialize_with = "at_most::<CONCAT_SOURCES_MAX, _, _>")]
        sources: Vec<DfsPath>,
    },
    /// Allows snapshots of a directory; for the superuser. -> [`Reply::Done`]
    AllowSnapshot(DfsPath),
    /// Disallows them again; refused while there are snapshots. -> [`Reply::Done`]
    DisallowSnapshot(DfsPath),
    /// Takes a snapshot. -> [`Reply::Path`]: the path under which it can be read.
    CreateSnapshot {
        /// Directory.
        path: DfsPath,
        /// Its name; `None` for one made from the time.
        name: Option<String>,
    },
    /// Renames a snapshot. -> [`Reply::Done`]
    RenameSnapshot {
        /// Directory.
        path: DfsPath,
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
    /// Deletes a snapshot. -> [`Reply::Done`]
    DeleteSnapshot {
        /// Directory.
        path: DfsPath,
        /// Its name.
        name: String,
    },
    /// The changes between two snapshots, or between a snapshot and the present. -> [`Reply::SnapshotDiff`]
    SnapshotDiff {
        /// Directory.
        path: DfsPath,
        /// Name of the first; empty for the present.
        from: String,
        /// Name of the second; empty for the present.
        to: String,
        /// Entries to skip at the front: those of the previous pages.
        skip: u64,
    },
    /// Directories that may have snapshots: all for the superuser, else the caller's. -> [`Reply::Snapshottable`]
    SnapshottableDirectories,
    /// Reads the lists of DataNodes again: which may register, which must be drained. -> [`Reply::Done`]
    RefreshNodes,
    /// Sets the most bytes per second that each live DataNode sends for the balancer. -> [`Reply::Done`]
    SetBalancerBandwidth(u64),
    /// A page of the complete blocks on a DataNode, ascending. -> [`Reply::BlocksOn`]
    BlocksOn {
        /// The DataNode.
        datanode: DatanodeId,
        /// Continue after this block.
        after: Option<BlockId>,
        /// Blocks wanted, at most [`LIST_ENTRIES_MAX`].
        limit: u32,
    },
    /// Moves replicas, for the balancer: each is copied, then its old one is deleted. A move that would break the rules of placement is not started. ->
    /// [`Reply::Moves`]
    MoveReplicas(#[serde(deserialize_with = "at_most::<MOVES_MAX, _, _>")] Vec<ReplicaMove>),
    /// The states of these moves. -> [`Reply::Moves`]
    MoveStates(#[serde(deserialize_with = "at_most::<MOVES_MAX, _, _>")] Vec<ReplicaMove>),
    /// The access control list. -> [`Reply::Acl`]
    GetAcl(DfsPath),
    /// Changes the access control list. -> [`Reply::Done`]
    ChangeAcl {
        /// File or directory.
        path: DfsPath,
        /// How.
        change: AclChange,
    },
    /// Extended attributes. -> [`Reply::Xattrs`]
    GetXattrs {
        /// File or directory.
        path: DfsPath,
        /// Names with their namespaces; none for all that the caller may see.
        #[serde(deserialize_with = "at_most::<XATTR_NAMES_MAX, _, _>")]
        names: Vec<String>,
    },
    /// Sets an extended attribute. -> [`Reply::Done`]
    SetXattr {
        /// File or directory.
        path: DfsPath,
        /// Name with its namespace.
        name: String,
        /// Value.
        #[serde(deserialize_with = "at_most::<VALUE_BYTES_SENT_MAX, _, _>")]
        value: Vec<u8>,
        /// Whether it must or must not exist.
        flag: XattrFlag,
    },
    /// Removes an extended attribute. -> [`Reply::Done`]
    RemoveXattr {
        /// File or directory.
        path: DfsPath,
        /// Name with its namespace.
        name: String,
    },
    /// Asks whether the caller may do something with a path. -> [`Reply::Done`], or `PermissionDenied`.
    CheckAccess {
        /// File or directory.
        path: DfsPath,
        /// What.
        action: Action,
    },
    /// Ends a DataNode's process; for the superuser. -> [`Reply::Done`] once the order is queued.
    ShutDownDatanode {
        /// Which.
        datanode: DatanodeId,
    },
    /// A piece of an image of the name space; for the superuser. -> [`Reply::Image`]
    ReadImage {
        /// Which; `None` for the newest.
        name: Option<String>,
        /// Where to begin, bytes.
        offset: u64,
    },
    /// Asks whether the caller is the superuser. -> [`Reply::Done`], or `PermissionDenied`.
    CheckSuperuser,
    /// Forgets which groups users belong to, and asks the system again; for the superuser. -> [`Reply::Done`]
    RefreshGroups,
    /// Sets the storage policy of a file or directory, or removes it. -> [`Reply::Done`]
    SetStoragePolicy {
        /// File or directory.
        path: DfsPath,
        /// The policy; `None` to inherit that of the ancestor directories.
        policy: Option<StoragePolicy>,
    },
    /// The storage policy that applies to a file or directory. -> [`Reply::StoragePolicy`]
    GetStoragePolicy(DfsPath),
}

impl Call {
    /// True if the call changes nothing.
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Call::Status(_)
                | Call::List { .. }
                | Call::ContentSummary(_)
                | Call::Locations { .. }
                | Call::ClusterStatus
                | Call::Datanodes
                | Call::Fsck { .. }
                | Call::OpenFiles { .. }
                | Call::BlockInfo(_)
                | Call::SnapshotDiff { .. }
                | Call::SnapshottableDirectories
                | Call::BlocksOn { .. }
                | Call::MoveStates(_)
                | Call::GetAcl(_)
                | Call::GetXattrs { .. }
                | Call::GetStoragePolicy(_)
                | Call::CheckAccess { .. }
                | Call::CheckSuperuser
                | Call::SafeMode(SafeModeAction::Get)
        )
    }
}

/// Arguments of [`Call::Create`].
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

/// Where and how [`Call::Complete`] publishes a file.
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
    /// How many of them, from the end, have fsynced it to disk.
    pub durable_count: u16,
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

/// Answers. Append only.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Done; nothing to say.
    Done,
    /// A yes or no.
    Flag(bool),
    /// One file or directory.
    Status(FileStatus),
    /// A page of a directory.
    Listing {
        /// Entries in byte order of names.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        entries: Vec<FileStatus>,
        /// Number of entries that follow.
        remaining: u64,
    },
    /// Totals of a subtree.
    Summary(ContentSummary),
    /// Where a file's blocks are.
    Located(LocatedBlocks),
    /// State of the NameNode.
    Cluster(Box<ClusterStatus>),
    /// All DataNodes.
    Datanodes(#[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<DatanodeReport>),
    /// A page of fsck.
    Fsck(FsckPage),
    /// A new open file.
    Created(Created),
    /// A block to write.
    Block(LocatedBlock),
    /// Outcomes of a batch, in order.
    Batch(#[serde(deserialize_with = "at_most::<BATCH_CALLS_MAX, _, _>")] Vec<Answer>),
    /// A number.
    Number(u64),
    /// Files being written.
    OpenFiles {
        /// In order of their ids.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        files: Vec<OpenFile>,
        /// Where the next page continues; `None` at the end.
        next: Option<InodeId>,
    },
    /// One block.
    BlockInfo(Box<BlockInfo>),
    /// Names.
    Names(#[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<String>),
    /// A file opened at its end.
    Appended(Appended),
    /// A path.
    Path(DfsPath),
    /// The changes between two snapshots.
    SnapshotDiff {
        /// In the order of HDFS's report.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        entries: Vec<DiffEntry>,
        /// Number of entries that follow.
        remaining: u64,
    },
    /// Directories that may have snapshots.
    Snapshottable(
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<SnapshottableDirectory>,
    ),
    /// Blocks of a DataNode.
    BlocksOn(#[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<BlockOn>),
    /// States of moves, in the order of the call.
    Moves(#[serde(deserialize_with = "at_most::<MOVES_MAX, _, _>")] Vec<MoveState>),
    /// An access control list.
    Acl(AclStatus),
    /// Extended attributes in the order of the call, or by name.
    Xattrs(#[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")] Vec<Xattr>),
    /// A piece of an image.
    Image {
        /// The image.
        name: String,
        /// Its bytes.
        length: u64,
        /// The bytes, at most [`IMAGE_PIECE_BYTES`]; none at the end.
        #[serde(deserialize_with = "at_most::<IMAGE_PIECE_BYTES, _, _>")]
        bytes: Vec<u8>,
    },
    /// A storage policy.
    StoragePolicy(StoragePolicy),
}

impl Request {
    /// Builds a request.
    pub fn new(
        client: ClientId,
        number: u64,
        user: &str,
        host: &str,
        body: impl Into<Body>,
    ) -> Self {
        Request {
            version: VERSION,
            call: CallId { client, number },
            user: user.to_owned(),
            host: host.to_owned(),
            body: body.into(),
        }
    }
}

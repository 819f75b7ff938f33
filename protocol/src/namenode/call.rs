//! The table of calls: one row for each, append only. Its form is explained in [`crate::table`], its columns in [`super::table`].

use serde::{Deserialize, Serialize};

use super::answers::{
    Appended, BlockInfo, BlockOn, ClusterStatus, ContentSummary, Created, DatanodeReport, DiffPage,
    FileStatus, FsckPage, ImagePiece, ListPage, LocatedBlock, LocatedBlocks, MoveState,
    OpenFilePage, ReplicaMove, SnapshotPage, SnapshottableDirectory,
};
use super::arguments::{BadReplica, Create, Publish, QuotaChange, SafeModeAction, WrittenBlock};
use super::detail::{DatanodeDetail, Room};
use super::limits::{
    BAD_REPLICAS_MAX, CONCAT_SOURCES_MAX, DATANODES_MAX, MOVES_MAX, XATTR_NAMES_MAX,
};
use super::paths::Paths;
use super::reply::{Answer, Reply};
use super::table::By::{Anyone, Superuser};
use super::table::{By, Logged, Refused, alone, cannot, changed, each_path, of, on};
use crate::acl::{AclChange, AclStatus};
use crate::permission::Action;
use crate::storage::StoragePolicy;
use crate::table::Kind::{Change, Order, Read};
use crate::table::calls;
use crate::wire::at_most;
use crate::xattr::{VALUE_BYTES_SENT_MAX, Xattr, XattrFlag};
use crate::{BlockId, DatanodeId, DfsPath, GenerationStamp, InodeId};

calls! {
    types AclChange, Action, BadReplica, BlockId, DatanodeId, DfsPath, GenerationStamp, InodeId,
        Publish, QuotaChange, ReplicaMove, SafeModeAction, StoragePolicy, WrittenBlock, XattrFlag;
    columns {
        /// Who may make it.
        by: By = Anyone;
        /// What safe mode refuses; `None` if it lets the call pass.
        refused: Option<Refused<'_>> = None;
        /// Whether it is answered soon and briefly, so that others may share its request and wait for its answer.
        brief: bool = false;
        /// What the audit log says of it; `None` for calls on blocks and leases, which HDFS does not log either.
        logged: Option<Logged<'_>> = None;
    }
    also [each_path]

    /// One file or directory.
    0: Status(path: DfsPath) -> FileStatus = Read, brief true, logged on("getfileinfo", path);

    /// A page of a directory in byte order of names; for a file, the file itself.
    1: List {
        /// Directory.
        path: DfsPath,
        /// Name after which the page begins; empty for the first.
        start_after: String,
        /// Entries wanted, at most [`LIST_ENTRIES_MAX`](crate::namenode::LIST_ENTRIES_MAX).
        limit: u32,
    } -> ListPage = Read, logged on("listStatus", path);

    /// Totals of a subtree.
    2: ContentSummary(path: DfsPath) -> ContentSummary = Read, logged on("contentSummary", path);

    /// Blocks of a file that overlap a range, replicas nearest first.
    3: Locations {
        /// File.
        path: DfsPath,
        /// Start, bytes.
        offset: u64,
        /// Length, bytes; `u64::MAX` for the rest.
        length: u64,
    } -> LocatedBlocks = Read, logged on("open", path);

    /// State of the NameNode.
    4: ClusterStatus -> ClusterStatus = Read;

    /// All DataNodes.
    5: Datanodes -> Vec<DatanodeReport> = Read, logged alone("datanodeReport");

    /// A page of files with the health of each block.
    6: Fsck {
        /// File or directory.
        path: DfsPath,
        /// Continue after this path (from the page before).
        after: Option<DfsPath>,
    } -> FsckPage = Read, logged on("fsck", path);

    /// Makes a directory.
    7: Mkdirs {
        /// Directory.
        path: DfsPath,
        /// Permission bits, after the client's umask.
        mode: u16,
        /// Permission bits before the umask: they count where a default access control list replaces it.
        unmasked: Option<u16>,
        /// Make missing parents, and accept an existing directory.
        parents: bool,
    } -> () = Change, brief true,
        refused cannot("create directory ", path),
        logged changed("mkdirs", path);

    /// Makes a file and opens it for writing for this client.
    8: Create(create: Create) = Change, brief true,
        refused cannot("create file", &create.path),
        logged changed("create", &create.path);

    /// Commits the previous block and allocates the next.
    9: AddBlock {
        /// The open file.
        file: InodeId,
        /// The block that was just written, if any.
        previous: Option<WrittenBlock>,
        /// DataNodes that failed this client.
        #[serde(deserialize_with = "at_most::<DATANODES_MAX, _, _>")]
        exclude: Vec<DatanodeId>,
    } -> LocatedBlock = Change, brief true, refused cannot("get additional block for ", *file);

    /// Gives back a block to which nothing was written.
    10: AbandonBlock {
        /// The open file.
        file: InodeId,
        /// The block.
        block: BlockId,
    } -> () = Change, brief true, refused cannot("abandon block ", (*block, *file));

    /// After a failure in the pipeline: a new generation stamp, and a replacement if there is one. The answer has the survivors first, in their
    /// old order, then the replacement.
    11: RecoverPipeline {
        /// The open file.
        file: InodeId,
        /// The block as the client knows it; `length` is the length that every survivor has acknowledged.
        block: WrittenBlock,
        /// DataNodes that failed.
        #[serde(deserialize_with = "at_most::<DATANODES_MAX, _, _>")]
        failed: Vec<DatanodeId>,
        /// One of them that did not fail, but held up the others.
        slow: Option<DatanodeId>,
    } -> LocatedBlock = Change, brief true, refused cannot("get a new generation stamp for ", *file);

    /// Commits the last block and closes the file; [`crate::ErrorKind::NotReplicatedYet`] asks to try again.
    12: Complete {
        /// The open file.
        file: InodeId,
        /// Its last block, if it has any.
        last: Option<WrittenBlock>,
        /// Rename it to this path in the same step (this is how `put` publishes its temporary file).
        publish: Option<Publish>,
    } -> () = Change, brief true,
        refused cannot("complete file ", *file),
        logged publish.as_ref().map(|publish| changed("publish", &publish.path));

    /// Keeps this client's leases.
    13: RenewLease -> () = Change, brief true;

    /// Takes a file away from a writer that is gone. Answers true if the file is closed now.
    14: RecoverLease(path: DfsPath) -> bool = Change,
        refused cannot("recover the lease of ", path),
        logged on("recoverLease", path);

    /// Renames. See [`RenameInto`] and [`RenameTo`].
    15: Rename {
        /// From.
        from: DfsPath,
        /// To; an existing directory takes the source into it (without options).
        to: DfsPath,
        /// `None`: rename without options (returns false instead of most errors). `Some(overwrite)`: with options.
        overwrite: Option<bool>,
    } = Change, brief true,
        refused cannot("rename ", from),
        logged of(rename(*overwrite), from, to).changing(to);

    /// Deletes. Answers false if there was nothing.
    16: Delete {
        /// File or directory.
        path: DfsPath,
        /// Delete a directory even if it is not empty.
        recursive: bool,
    } -> bool = Change, brief true,
        refused cannot("delete ", path).which_frees_space(),
        logged on("delete", path);

    /// Sets the wanted number of replicas. Answers false for a directory or a missing path.
    17: SetReplication {
        /// File.
        path: DfsPath,
        /// Wanted replicas, at least 1.
        replication: u16,
    } -> bool = Change, brief true,
        refused cannot("set replication for ", path),
        logged on("setReplication", path);

    /// Sets permission bits.
    18: SetMode {
        /// File or directory.
        path: DfsPath,
        /// Permission bits, 0 to 0o1777.
        mode: u16,
    } -> () = Change, brief true,
        refused cannot("set permission for ", path),
        logged changed("setPermission", path);

    /// Sets owner or group; an empty one stays unchanged.
    19: SetOwner {
        /// File or directory.
        path: DfsPath,
        /// New owner or empty.
        owner: String,
        /// New group or empty.
        group: String,
    } -> () = Change, brief true, refused cannot("set owner for ", path), logged changed("setOwner", path);

    /// Sets times in milliseconds since the epoch; `None` leaves one unchanged.
    20: SetTimes {
        /// File or directory.
        path: DfsPath,
        /// Modification time.
        mtime_ms: Option<u64>,
        /// Access time.
        atime_ms: Option<u64>,
    } -> () = Change, brief true, refused cannot("set times ", path), logged changed("setTimes", path);

    /// A reader found replicas whose data does not match its checksums.
    21: ReportBadReplicas(
        #[serde(deserialize_with = "at_most::<BAD_REPLICAS_MAX, _, _>")]
        replicas: Vec<BadReplica>,
    ) -> () = Change;

    /// Queries or changes safe mode. Answers true if it is on afterwards.
    22: SafeMode(action: SafeModeAction) -> bool
        = if *action == SafeModeAction::Get { Read } else { Change },
        by if *action == SafeModeAction::Get { Anyone } else { Superuser },
        logged alone(safe_mode(*action));

    /// Sets or clears the quotas of a directory.
    23: SetQuota {
        /// Directory.
        path: DfsPath,
        /// How many files and directories there may be, itself included.
        names: QuotaChange,
        /// How many bytes times replicas there may be.
        space: QuotaChange,
    } -> () = Change, by Superuser,
        refused cannot("set quota on ", path),
        logged on(quota([*names, *space]), path);

    /// Writes an image of the name space, in safe mode.
    24: SaveNamespace -> () = Order, by Superuser, logged alone("saveNamespace");

    /// Begins a new segment of the log. Answers the segment's first transaction.
    25: RollEdits -> u64 = Order, by Superuser, logged alone("rollEditLog");

    /// Writes the pending work of the block manager to a file of this name in `logs`.
    26: Metasave(name: String) -> () = Order, by Superuser, logged alone("metaSave");

    /// A page of the files being written.
    27: OpenFiles {
        /// Continue after this file (from the page before).
        after: Option<InodeId>,
    } -> OpenFilePage = Read, by Superuser, logged alone("listOpenFiles");

    /// Orders a full report from a DataNode.
    28: TriggerBlockReport {
        /// Which.
        datanode: DatanodeId,
    } -> () = Order, by Superuser;

    /// One block and its replicas.
    29: BlockInfo(block: BlockId) -> BlockInfo = Read, by Superuser;

    /// Groups of a user.
    30: GroupsOf(user: String) -> Vec<String> = Order;

    /// Opens a closed file for writing at its end.
    31: Append {
        /// File.
        path: DfsPath,
        /// Begin a new block even if the last one has room.
        new_block: bool,
    } -> Appended = Change, brief true, refused cannot("append to file", path), logged on("append", path);

    /// Confirms that every member of the pipeline has the acknowledged bytes, under its newest stamp, and which of them are on disk: readers and a recovery may
    /// rely on that.
    32: SyncBlock {
        /// The open file.
        file: InodeId,
        /// Its last block.
        block: BlockId,
        /// Stamp under which it was acknowledged.
        stamp: GenerationStamp,
        /// Bytes.
        length: u64,
    } -> () = Change, brief true, refused cannot("fsync file ", *file);

    /// Truncates a closed file. Answers false if its last block is still being cut; it is closed when that is done.
    33: Truncate {
        /// File.
        path: DfsPath,
        /// New length, bytes.
        length: u64,
    } -> bool = Change, refused cannot("truncate for ", path), logged changed("truncate", path);

    /// Moves the blocks of `sources`, in order, to the end of `target`; the sources are gone then.
    34: Concat {
        /// File that grows.
        target: DfsPath,
        /// Files in the same directory.
        #[serde(deserialize_with = "at_most::<CONCAT_SOURCES_MAX, _, _>")]
        sources: Vec<DfsPath>,
    } -> () = Change,
        refused cannot("concat ", target),
        logged of("concat", sources.as_slice(), target).changing(target);

    /// Allows snapshots of a directory.
    35: AllowSnapshot(path: DfsPath) -> () = Change, by Superuser,
        refused cannot("allow snapshot for ", path),
        logged on("allowSnapshot", path);

    /// Disallows them again; refused while there are snapshots.
    36: DisallowSnapshot(path: DfsPath) -> () = Change, by Superuser,
        refused cannot("disallow snapshot for ", path),
        logged on("disallowSnapshot", path);

    /// Takes a snapshot. Answers the path under which it can be read.
    37: CreateSnapshot {
        /// Directory.
        path: DfsPath,
        /// Its name; `None` for one made from the time.
        name: Option<String>,
    } -> DfsPath = Change,
        refused cannot("create snapshot for ", path),
        logged of("createSnapshot", path, name.as_deref().map(|name| (path, name)));

    /// Renames a snapshot.
    38: RenameSnapshot {
        /// Directory.
        path: DfsPath,
        /// Old name.
        from: String,
        /// New name.
        to: String,
    } -> () = Change,
        refused cannot("rename snapshot for ", path),
        logged of("renameSnapshot", (path, from.as_str()), (path, to.as_str()));

    /// Deletes a snapshot.
    39: DeleteSnapshot {
        /// Directory.
        path: DfsPath,
        /// Its name.
        name: String,
    } -> () = Change,
        refused cannot("delete snapshot for ", path).which_frees_space(),
        logged of("deleteSnapshot", (path, name.as_str()), ());

    /// The changes between two snapshots, or between a snapshot and the present.
    40: SnapshotDiff {
        /// Directory.
        path: DfsPath,
        /// Name of the first; empty for the present.
        from: String,
        /// Name of the second; empty for the present.
        to: String,
        /// Entries to skip at the front: those of the previous pages.
        skip: u64,
    } -> DiffPage = Read,
        logged of("computeSnapshotDiff", (path, from.as_str()), (path, to.as_str()));

    /// Directories that may have snapshots: all for the superuser, else the caller's.
    41: SnapshottableDirectories -> Vec<SnapshottableDirectory> = Read,
        logged alone("listSnapshottableDirectory");

    /// Reads the lists of DataNodes again: which may register, which must be drained.
    42: RefreshNodes -> () = Order, by Superuser, logged alone("refreshNodes");

    /// Sets the most bytes per second that each live DataNode sends for the balancer.
    43: SetBalancerBandwidth(bytes: u64) -> () = Change, by Superuser,
        logged alone("setBalancerBandwidth");

    /// A page of the complete blocks on a DataNode, ascending.
    44: BlocksOn {
        /// The DataNode.
        datanode: DatanodeId,
        /// Continue after this block.
        after: Option<BlockId>,
        /// Blocks wanted, at most [`LIST_ENTRIES_MAX`](crate::namenode::LIST_ENTRIES_MAX).
        limit: u32,
    } -> Vec<BlockOn> = Read, by Superuser;

    /// Moves replicas, for the balancer: each is copied, then its old one is deleted. A move that would break the rules of placement is not started.
    45: MoveReplicas(
        #[serde(deserialize_with = "at_most::<MOVES_MAX, _, _>")]
        moves: Vec<ReplicaMove>
    ) -> Vec<MoveState> = Change, by Superuser,
        refused cannot("move replicas", ());

    /// The states of these moves.
    46: MoveStates(
        #[serde(deserialize_with = "at_most::<MOVES_MAX, _, _>")]
        moves: Vec<ReplicaMove>
    ) -> Vec<MoveState> = Read, by Superuser;

    /// The access control list.
    47: GetAcl(path: DfsPath) -> AclStatus = Read, brief true, logged on("getAclStatus", path);

    /// Changes the access control list.
    48: ChangeAcl {
        /// File or directory.
        path: DfsPath,
        /// How.
        change: AclChange,
    } -> () = Change,
        refused cannot("modify ACL entries on ", path),
        logged changed(acl(change), path);

    /// Extended attributes.
    49: GetXattrs {
        /// File or directory.
        path: DfsPath,
        /// Names with their namespaces; none for all that the caller may see.
        #[serde(deserialize_with = "at_most::<XATTR_NAMES_MAX, _, _>")]
        names: Vec<String>,
    } -> Vec<Xattr> = Read, logged on("getXAttrs", path);

    /// Sets an extended attribute.
    50: SetXattr {
        /// File or directory.
        path: DfsPath,
        /// Name with its namespace.
        name: String,
        /// Value.
        #[serde(deserialize_with = "at_most::<VALUE_BYTES_SENT_MAX, _, _>")]
        value: Vec<u8>,
        /// Whether it must or must not exist.
        flag: XattrFlag,
    } -> () = Change, refused cannot("set XAttr on ", path), logged changed("setXAttr", path);

    /// Removes an extended attribute.
    51: RemoveXattr {
        /// File or directory.
        path: DfsPath,
        /// Name with its namespace.
        name: String,
    } -> () = Change,
        refused cannot("remove XAttr entry on ", path),
        logged changed("removeXAttr", path);

    /// Asks whether the caller may do something with a path. The refusal is `PermissionDenied`.
    52: CheckAccess {
        /// File or directory.
        path: DfsPath,
        /// What.
        action: Action,
    } -> () = Read, brief true, logged on("checkAccess", path);

    /// Ends a DataNode's process. Answers once the order is queued.
    53: ShutDownDatanode {
        /// Which.
        datanode: DatanodeId,
    } -> () = Order, by Superuser, logged alone("shutdownDatanode");

    /// A piece of an image of the name space.
    54: ReadImage {
        /// Which; `None` for the newest.
        name: Option<String>,
        /// Where to begin, bytes.
        offset: u64,
    } -> ImagePiece = Order, by Superuser, logged (*offset == 0).then(|| alone("fetchImage"));

    /// Asks whether the caller is the superuser. The refusal is `PermissionDenied`.
    55: CheckSuperuser -> () = Read, by Superuser;

    /// Forgets which groups users belong to, and asks the system again.
    56: RefreshGroups -> () = Order, by Superuser;

    /// Sets the storage policy of a file or directory, or removes it.
    57: SetStoragePolicy {
        /// File or directory.
        path: DfsPath,
        /// The policy; `None` to inherit that of the ancestor directories.
        policy: Option<StoragePolicy>,
    } -> () = Change, brief true,
        refused cannot(policy_verb(*policy), path),
        logged changed(policy_command(*policy), path);

    /// The storage policy that applies to a file or directory.
    58: GetStoragePolicy(path: DfsPath) -> StoragePolicy = Read, brief true,
        logged on("getStoragePolicy", path);

    /// Ends a file that this client writes and will not complete, wherever it is by now. Refused as [`crate::ErrorKind::LeaseExpired`] if the client does not write
    /// it any more: then it is another's, or gone. Answers true if it is closed or gone now.
    59: AbandonFile {
        /// The open file.
        file: InodeId,
        /// Close it at the length that its DataNodes can prove; otherwise it is deleted, if the caller could delete it by its path.
        keep: bool,
        /// Its last block, if nothing was sent to any DataNode.
        unused: Option<BlockId>,
    } -> bool = Change, brief true, refused cannot("abandon file ", *file).which_frees_space(),
        logged (!keep).then(|| of("abandonFile", *file, ()));

    /// A page of the snapshots of a directory, by age.
    60: Snapshots {
        /// Directory that may have snapshots.
        path: DfsPath,
        /// Continue after the snapshot with this number.
        after: Option<u64>,
    } -> SnapshotPage = Read, logged on("ListSnapshot", path);

    /// The room of the cluster.
    61: Room -> Room = Read, brief true;

    /// One DataNode with its volumes and failures.
    62: Datanode(datanode: DatanodeId) -> DatanodeDetail = Read, logged alone("datanodeReport");
}

impl From<Create> for Call {
    fn from(create: Create) -> Call {
        Call::Create(create)
    }
}

impl TypedCall for Create {
    type Answer = Created;
}

/// [`Call::Rename`] as HDFS renames without options: into an existing directory, and with false instead of most errors.
#[derive(Clone, Debug)]
pub struct RenameInto {
    /// From.
    pub from: DfsPath,
    /// To.
    pub to: DfsPath,
}

impl From<RenameInto> for Call {
    fn from(RenameInto { from, to }: RenameInto) -> Call {
        Call::Rename { from, to, overwrite: None }
    }
}

impl TypedCall for RenameInto {
    type Answer = bool;
}

/// [`Call::Rename`] to exactly that path.
#[derive(Clone, Debug)]
pub struct RenameTo {
    /// From.
    pub from: DfsPath,
    /// To.
    pub to: DfsPath,
    /// Replace what is there.
    pub overwrite: bool,
}

impl From<RenameTo> for Call {
    fn from(RenameTo { from, to, overwrite }: RenameTo) -> Call {
        Call::Rename { from, to, overwrite: Some(overwrite) }
    }
}

impl TypedCall for RenameTo {
    type Answer = ();
}

fn rename(overwrite: Option<bool>) -> &'static str {
    match overwrite {
        None => "rename",
        Some(false) => "rename (options=[NONE])",
        Some(true) => "rename (options=[OVERWRITE])",
    }
}

fn safe_mode(action: SafeModeAction) -> &'static str {
    match action {
        SafeModeAction::Get => "safemode_get",
        SafeModeAction::Enter => "safemode_enter",
        SafeModeAction::Leave => "safemode_leave",
        SafeModeAction::ForceLeave => "safemode_force_exit",
    }
}

fn quota(changes: [QuotaChange; 2]) -> &'static str {
    let sets = changes.iter().any(|change| matches!(change, QuotaChange::Set(_)));
    if sets { "setQuota" } else { "clearQuota" }
}

fn acl(change: &AclChange) -> &'static str {
    match change {
        AclChange::Modify(_) => "modifyAclEntries",
        AclChange::Remove(_) => "removeAclEntries",
        AclChange::RemoveDefault => "removeDefaultAcl",
        AclChange::RemoveAll => "removeAcl",
        AclChange::Replace(_) => "setAcl",
    }
}

fn policy_verb(policy: Option<StoragePolicy>) -> &'static str {
    if policy.is_some() { "set storage policy for " } else { "unset storage policy for " }
}

fn policy_command(policy: Option<StoragePolicy>) -> &'static str {
    if policy.is_some() { "setStoragePolicy" } else { "unsetStoragePolicy" }
}

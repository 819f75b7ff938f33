//! The answers as the wire has them, and the type of each.

use serde::{Deserialize, Serialize};

use super::answers::{
    Appended, BlockInfo, BlockOn, ClusterStatus, ContentSummary, Created, DatanodeReport,
    DiffEntry, DiffPage, FileStatus, FsckPage, ImagePiece, ListPage, LocatedBlock, LocatedBlocks,
    MoveState, OpenFile, OpenFilePage, SnapshotPage, SnapshotStatus, SnapshottableDirectory,
};
use super::detail::{DatanodeDetail, Room};
use super::limits::{BATCH_CALLS_MAX, IMAGE_PIECE_BYTES, MOVES_MAX};
use crate::acl::AclStatus;
use crate::error::UnexpectedReply;
use crate::storage::StoragePolicy;
use crate::table::replies;
use crate::wire::{ENTRIES_MAX, at_most};
use crate::xattr::Xattr;
use crate::{DfsPath, InodeId, RemoteError};

/// The answer to a request.
pub type Answer = Result<Reply, RemoteError>;

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
    /// The snapshots of a directory.
    Snapshots {
        /// By age.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        entries: Vec<SnapshotStatus>,
        /// Number of entries that follow.
        remaining: u64,
    },
    /// The room of the cluster.
    Room(Room),
    /// One DataNode.
    Datanode(Box<DatanodeDetail>),
}

/// A reply of another call.
pub const UNEXPECTED: UnexpectedReply = UnexpectedReply { daemon: "NameNode" };

replies! {
    Flag(bool), Status(FileStatus), Summary(ContentSummary), Located(LocatedBlocks),
    Datanodes(Vec<DatanodeReport>), Fsck(FsckPage), Created(Created), Block(LocatedBlock),
    Batch(Vec<Answer>), Number(u64), Names(Vec<String>), Appended(Appended), Path(DfsPath),
    Snapshottable(Vec<SnapshottableDirectory>), BlocksOn(Vec<BlockOn>), Moves(Vec<MoveState>),
    Acl(AclStatus), Xattrs(Vec<Xattr>), StoragePolicy(StoragePolicy), Room(Room),
}

replies! {
    (): () => Reply::Done, Reply::Done => ();
    ClusterStatus: status => Reply::Cluster(Box::new(status)), Reply::Cluster(status) => *status;
    DatanodeDetail:
        detail => Reply::Datanode(Box::new(detail)), Reply::Datanode(detail) => *detail;
    BlockInfo: info => Reply::BlockInfo(Box::new(info)), Reply::BlockInfo(info) => *info;
    ListPage:
        ListPage { entries, remaining } => Reply::Listing { entries, remaining },
        Reply::Listing { entries, remaining } => ListPage { entries, remaining };
    DiffPage:
        DiffPage { entries, remaining } => Reply::SnapshotDiff { entries, remaining },
        Reply::SnapshotDiff { entries, remaining } => DiffPage { entries, remaining };
    SnapshotPage:
        SnapshotPage { entries, remaining } => Reply::Snapshots { entries, remaining },
        Reply::Snapshots { entries, remaining } => SnapshotPage { entries, remaining };
    OpenFilePage:
        OpenFilePage { files, next } => Reply::OpenFiles { files, next },
        Reply::OpenFiles { files, next } => OpenFilePage { files, next };
    ImagePiece:
        ImagePiece { name, length, bytes } => Reply::Image { name, length, bytes },
        Reply::Image { name, length, bytes } => ImagePiece { name, length, bytes };
}

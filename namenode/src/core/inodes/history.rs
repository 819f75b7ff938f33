//! What inodes were: former versions for snapshots, and the tables that find them. What they mean is in `snapshots`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use protocol::{BlockId, InodeId};

use super::features::Features;
use super::inode::{Body, File, Inode, NameId};
use super::totals::Totals;

/// The number of a snapshot; also a point in time.
pub type SnapshotId = u64;

/// A snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Its name in the directory.
    pub name: String,
}

/// A directory that may have snapshots.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Root {
    /// Its snapshots by age.
    pub snapshots: BTreeMap<SnapshotId, Snapshot>,
    /// Its snapshots by name.
    pub names: BTreeMap<String, SnapshotId>,
}

/// What an inode was.
#[derive(Clone, PartialEq, Debug)]
pub struct Version {
    /// First moment.
    pub from: SnapshotId,
    /// First moment after.
    pub until: SnapshotId,
    /// Directory that held it.
    pub parent: InodeId,
    /// Its name there.
    pub name: Arc<str>,
    /// Owner.
    pub owner: NameId,
    /// Group.
    pub group: NameId,
    /// Permission bits.
    pub mode: u16,
    /// Modification time.
    pub mtime_ms: u64,
    /// Access time.
    pub atime_ms: u64,
    /// Access control list and extended attributes, if it had any.
    pub features: Option<Arc<Features>>,
    /// If it is a file.
    pub file: Option<FileVersion>,
}

/// What a file was.
#[derive(Clone, PartialEq, Debug)]
pub struct FileVersion {
    /// Bytes that readers could count on.
    pub length: u64,
    /// Wanted replicas.
    pub replication: u16,
    /// The blocks with these bytes; the last can hold more.
    pub blocks: VersionBlocks,
}

/// The blocks of a version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VersionBlocks {
    /// This many of the file's blocks, from the first on.
    First(usize),
    /// These; the file no longer has some of them.
    List(Vec<BlockId>),
}

/// The tables.
#[derive(Default)]
pub struct History {
    /// Directories that may have snapshots.
    pub roots: BTreeMap<InodeId, Root>,
    /// Live snapshots and their directories.
    pub live: BTreeMap<SnapshotId, InodeId>,
    /// Number of the next snapshot.
    pub next: SnapshotId,
    pub(in crate::core) versions: HashMap<InodeId, Vec<Version>>,
    pub(in crate::core) stamps: HashMap<InodeId, SnapshotId>,
    pub(in crate::core) former: BTreeSet<(InodeId, Arc<str>, InodeId)>,
    pub(in crate::core) watch: BTreeMap<SnapshotId, BTreeSet<(InodeId, SnapshotId)>>,
    pub(in crate::core) homes: HashMap<InodeId, InodeId>,
    pub(in crate::core) retained: HashMap<InodeId, Totals>,
    /// Bytes of blocks that versions of a file have, and the file no longer.
    pub(in crate::core) beyond: HashMap<InodeId, u64>,
    /// Versions whose witness is gone.
    pub(in crate::core) orphans: VecDeque<(InodeId, SnapshotId)>,
    /// Directories outside the live tree to sweep, each with the entry that was passed last.
    pub(in crate::core) sweeps: VecDeque<(InodeId, Option<Arc<str>>)>,
    pub(in crate::core) dirty: DirtyHistory,
    /// Rows of features of versions being loaded.
    pub(in crate::core) loading: BTreeMap<(InodeId, SnapshotId), Vec<u8>>,
}

/// Which rows are out of date.
#[derive(Default)]
pub(in crate::core) struct DirtyHistory {
    pub(in crate::core) versions: HashSet<(InodeId, SnapshotId)>,
    pub(in crate::core) stamps: HashSet<InodeId>,
    pub(in crate::core) roots: HashSet<InodeId>,
    pub(in crate::core) snapshots: HashSet<(InodeId, SnapshotId)>,
    pub(in crate::core) next: bool,
    /// Lists of versions that were dropped, and how long they were.
    pub(in crate::core) lists: Vec<(InodeId, SnapshotId, usize)>,
    /// Features of versions that were dropped, and how many bytes they took.
    pub(in crate::core) features: Vec<(InodeId, SnapshotId, usize)>,
}

/// What an inode is at a moment.
#[derive(Clone, Copy, Debug)]
pub enum At<'a> {
    /// As it is now.
    Live(&'a Inode),
    /// As it was.
    Was(&'a Version),
}

impl At<'_> {
    /// An inode with its owner, group and mode, for checks of rights.
    pub fn rights(&self) -> Cow<'_, Inode> {
        match self {
            At::Live(inode) => Cow::Borrowed(inode),
            At::Was(version) => Cow::Owned(Inode {
                parent: version.parent,
                name: (&*version.name).into(),
                owner: version.owner,
                group: version.group,
                mode: version.mode,
                mtime_ms: version.mtime_ms,
                body: match &version.file {
                    Some(_) => Body::File(File::closed()),
                    None => Body::Directory(Box::default()),
                },
            }),
        }
    }

    /// Where it is.
    pub fn place(&self) -> (InodeId, &str) {
        match self {
            At::Live(inode) => (inode.parent, &inode.name),
            At::Was(version) => (version.parent, &version.name),
        }
    }
}

/// Later than every snapshot: the present.
pub const PRESENT: SnapshotId = SnapshotId::MAX;

impl History {
    /// True if nothing waits to be forgotten.
    pub fn is_settled(&self) -> bool {
        self.orphans.is_empty() && self.sweeps.is_empty()
    }
}

//! The namespace: inodes, the durable half of the block map, leases and counters.
//!
//! Invariants, checked by [`Namespace::check`] (`sound`) after each load:
//! - every inode but the root and the tops of deleted trees is in its parent's table under its own name;
//! - `Directory::total` is the sum over its subtree; `File::length` the sum over its complete blocks;
//! - every block of `blocks` is in exactly one file, and the files know no other;
//! - counters are above every id that was ever handed out.
//!
//! A deleted tree is cut off in one edit and taken apart later in small steps ([`Namespace::collect`]), so deleting a million files holds nobody up.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;

use hashbrown::HashSet;
use protocol::datanode::Replica;
use protocol::namenode::FileStatus;
use protocol::path::ELEMENT_BYTES_MAX;
use protocol::storage::StoragePolicy;
use protocol::{BlockId, ClusterId, DatanodeId, DfsPath, GenerationStamp, InodeId};

use super::gaps::Gaps;
use crate::core::inodes::{
    Body, Directory, FeatureTable, File, History, Inode, Leases, NOWHERE, Names, Position, Quotas,
    Table, Totals,
};

/// First stamp HDFS hands out.
const STAMP_FIRST: u64 = 1001;

/// All of the file system's metadata that is durable.
pub struct Namespace {
    pub(in crate::core) inodes: Table<InodeId, Inode>,
    pub(in crate::core) blocks: Table<BlockId, Block>,
    /// Owners and groups.
    pub names: Names,
    /// Who writes what.
    pub leases: Leases,
    pub(in crate::core) quotas: Quotas,
    pub(in crate::core) history: History,
    pub(in crate::core) features: FeatureTable,
    pub(in crate::core) counters: Counters,
    pub(in crate::core) gaps: Gaps,
    pub(in crate::core) garbage: VecDeque<InodeId>,
    pub(in crate::core) dirty: Dirty,
    /// Files with a row of former members of their pipelines.
    pub(super) with_former_row: HashSet<InodeId>,
    pub(in crate::core) effects: Vec<Effect>,
    pub(in crate::core) complete_block_count: u64,
}

/// How much longer paths can get below a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Elements.
    pub elements: usize,
    /// Bytes, slashes included.
    pub bytes: usize,
}

impl Room {
    /// True if even a chain of all its directories with the longest names would fit.
    fn is_enough_for(self, directory: &Directory) -> bool {
        let chain = usize::try_from(directory.total.directory_count).unwrap_or(usize::MAX);
        let bytes = chain.saturating_mul(ELEMENT_BYTES_MAX + 1);
        chain <= self.elements && bytes <= self.bytes
    }
}

/// What the namespace knows of a block. Its replicas are in `Blocks`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// File it belongs to.
    pub file: InodeId,
    /// Its generation stamp.
    pub stamp: GenerationStamp,
    /// Bytes; 0 until it is complete.
    pub length: u64,
    /// True once its writer is done.
    pub complete: bool,
}

/// The next ids, and the cluster's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counters {
    /// The cluster; `None` before the first edit.
    pub cluster: Option<ClusterId>,
    /// Next inode.
    pub next_inode: u64,
    /// Next block.
    pub next_block: u64,
    /// Next generation stamp.
    pub next_stamp: u64,
}

/// What an edit means for replicas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A block is complete.
    Completed(BlockId),
    /// A block has a new stamp: what is known of its replicas is void.
    Restamped(BlockId),
    /// A block is gone.
    Removed {
        /// The block.
        block: BlockId,
        /// Its last stamp.
        stamp: GenerationStamp,
        /// Whether it was complete.
        complete: bool,
        /// Who else may have a replica.
        targets: Vec<DatanodeId>,
    },
    /// A file wants another number of replicas.
    Replication(InodeId),
    /// A complete block, with this stamp and length, is written again: its replicas count again when it is complete.
    Reopened(BlockId, GenerationStamp, u64),
}

/// Which rows of the checkpoint are out of date.
#[derive(Default)]
pub(in crate::core) struct Dirty {
    pub(in crate::core) inodes: HashSet<InodeId>,
    /// Erased files that had overflow chunks, and how many blocks.
    pub(in crate::core) erased: Vec<(InodeId, usize)>,
    pub(in crate::core) counters: bool,
    /// Directories whose quotas changed.
    pub(in crate::core) quotas: HashSet<InodeId>,
}

/// A path that does not resolve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unresolved {
    /// An element is missing.
    Missing,
    /// A file where a directory is needed: its path.
    FileInTheWay(String),
}

/// Where a path leads.
#[derive(Clone, Copy, Debug)]
pub struct Resolved<'a> {
    /// The inode.
    pub id: InodeId,
    /// The inode.
    pub inode: &'a Inode,
}

impl Default for Namespace {
    fn default() -> Self {
        Namespace {
            inodes: Table::default(),
            blocks: Table::default(),
            names: Names::default(),
            leases: Leases::default(),
            quotas: Quotas::default(),
            history: History::default(),
            features: FeatureTable::default(),
            counters: Counters {
                cluster: None,
                next_inode: InodeId::ROOT.0 + 1,
                next_block: BlockId::FIRST.0,
                next_stamp: STAMP_FIRST,
            },
            gaps: Gaps::default(),
            garbage: VecDeque::new(),
            dirty: Dirty::default(),
            with_former_row: HashSet::default(),
            effects: Vec::new(),
            complete_block_count: 0,
        }
    }
}

impl Namespace {
    /// Next ids and the cluster.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// True if a replica has an id or a stamp that this metadata has never handed out.
    pub fn never_handed_out(&self, replica: &Replica) -> bool {
        let Counters { next_block, next_stamp, .. } = self.counters;
        replica.block.0 >= next_block || replica.stamp.0 >= next_stamp || self.gaps.has(replica)
    }

    /// An inode by its id, deleted ones that are not collected included.
    pub fn inode(&self, id: InodeId) -> Option<&Inode> {
        self.inodes.get(&id)
    }

    /// All inodes in order of ids, deleted ones that are not collected included.
    pub fn all(&self) -> impl Iterator<Item = (InodeId, &Inode)> {
        self.inodes.iter()
    }

    /// Snapshots, and what inodes were.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// A file by its id.
    pub fn file(&self, id: InodeId) -> Option<&File> {
        self.inodes.get(&id).and_then(Inode::file)
    }

    /// A block by its id.
    pub fn block(&self, id: BlockId) -> Option<&Block> {
        self.blocks.get(&id)
    }

    /// Wanted replicas of a block: what the file wants, or wanted when a snapshot was taken.
    pub fn replication_of(&self, block: &Block) -> u16 {
        self.replication_in(block.file)
    }

    /// As [`Namespace::replication_of`], of all blocks of a file.
    pub(in crate::core) fn replication_in(&self, file: InodeId) -> u16 {
        let now = self.file(file).map_or(0, |file| file.replication);
        self.replication_of_versions(file).max(now)
    }

    /// Blocks of a file, and those that only snapshots have of it.
    pub(in crate::core) fn blocks_of(&self, file: InodeId) -> BTreeSet<BlockId> {
        let now = self.file(file).into_iter().flat_map(|file| file.blocks.iter());
        now.chain(self.lists(file).flatten()).copied().collect()
    }

    /// Blocks.
    pub fn block_count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Complete blocks.
    pub fn complete_block_count(&self) -> u64 {
        self.complete_block_count
    }

    /// Files and directories.
    pub fn inode_count(&self) -> u64 {
        let total = self.root_total();
        total.file_count + total.directory_count
    }

    fn root_total(&self) -> Totals {
        self.inodes.get(&InodeId::ROOT).map(Inode::total).unwrap_or_default()
    }

    /// What the edits since the last call mean for replicas.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Follows a path without checking rights.
    ///
    /// # Errors
    /// [`Unresolved`].
    pub fn resolve(&self, path: &DfsPath) -> Result<Resolved<'_>, Unresolved> {
        self.resolve_through(path, |_, _| true)
    }

    /// Follows a path and calls `pass` for every directory on the way, from the root down, with the number of elements that lead to it. If
    /// `pass` returns false, the path counts as missing. The one place where paths become inodes.
    ///
    /// # Errors
    /// [`Unresolved`].
    pub fn resolve_through<'a>(
        &'a self,
        path: &DfsPath,
        mut pass: impl FnMut(usize, Resolved<'a>) -> bool,
    ) -> Result<Resolved<'a>, Unresolved> {
        let (mut id, mut inode) =
            (InodeId::ROOT, self.inodes.get(&InodeId::ROOT).ok_or(Unresolved::Missing)?);
        for (depth, name) in path.elements().enumerate() {
            let Some(directory) = inode.directory() else {
                return Err(Unresolved::FileInTheWay(prefix(path, depth)));
            };
            if !pass(depth, Resolved { id, inode }) {
                return Err(Unresolved::Missing);
            }
            id = self.child(directory, name).ok_or(Unresolved::Missing)?;
            inode = self.inodes.get(&id).ok_or(Unresolved::Missing)?;
        }
        Ok(Resolved { id, inode })
    }

    /// Where an entry is in a directory, or would be.
    ///
    /// # Errors
    /// Where it would be.
    pub(in crate::core) fn find_child(
        &self,
        directory: &Directory,
        name: &str,
    ) -> Result<Position, Position> {
        let name_of = |id| self.inodes.get(&id).map_or(&b""[..], |inode| inode.name.as_bytes());
        directory.children.find(name.as_bytes(), name_of)
    }

    /// The entry of a directory that is called `name`.
    pub fn child(&self, directory: &Directory, name: &str) -> Option<InodeId> {
        directory.children.get(self.find_child(directory, name).ok()?)
    }

    /// The entries of a directory in order of names.
    pub fn children<'a>(
        &'a self,
        directory: &'a Directory,
    ) -> impl Iterator<Item = (InodeId, &'a Inode)> {
        directory.children.iter().filter_map(|id| Some((id, self.inodes.get(&id)?)))
    }

    /// The entries of a directory whose names come after `name`, in order, and how many they are.
    pub fn children_after<'a>(
        &'a self,
        directory: &'a Directory,
        name: &str,
    ) -> (impl Iterator<Item = (InodeId, &'a Inode)> + use<'a>, usize) {
        let from = match self.find_child(directory, name) {
            Ok(at) => directory.children.after(at),
            Err(at) => at,
        };
        let entries = directory.children.iter_from(from);
        let entries = entries.filter_map(|id| Some((id, self.inodes.get(&id)?)));
        (entries, directory.children.count_from(from))
    }

    /// The path of an inode; `None` if it was deleted.
    pub fn path_of(&self, id: InodeId) -> Option<String> {
        let mut names = Vec::new();
        let mut at = id;
        while at != InodeId::ROOT {
            let inode = self.inodes.get(&at)?;
            if inode.parent == NOWHERE {
                return None;
            }
            names.push(&*inode.name);
            at = inode.parent;
        }
        if names.is_empty() {
            return Some("/".to_owned());
        }
        let mut path = String::new();
        for name in names.iter().rev() {
            let _ = write!(path, "/{name}");
        }
        Some(path)
    }

    /// An entry below a directory, at any depth, whose path from there does not fit into `room`. Examines only directories that are large
    /// enough to have one.
    pub fn beyond(&self, top: &Directory, room: Room) -> Option<InodeId> {
        let mut stack = vec![(top, room)];
        while let Some((directory, room)) = stack.pop() {
            if room.is_enough_for(directory) {
                continue;
            }
            for (id, inode) in self.children(directory) {
                let bytes = inode.name.as_bytes().len() + 1;
                let elements = room.elements.checked_sub(1);
                let (Some(elements), Some(bytes)) = (elements, room.bytes.checked_sub(bytes))
                else {
                    return Some(id);
                };
                stack.extend(inode.directory().map(|below| (below, Room { elements, bytes })));
            }
        }
        None
    }

    /// True if `id` is `ancestor` or lies below it.
    pub fn is_within(&self, mut id: InodeId, ancestor: InodeId) -> bool {
        loop {
            if id == ancestor {
                return true;
            }
            match self.inodes.get(&id) {
                Some(inode) if id != InodeId::ROOT => id = inode.parent,
                _ => return false,
            }
        }
    }

    /// Status of an inode under the name `name`.
    pub fn status(&self, id: InodeId, inode: &Inode, name: &str) -> FileStatus {
        self.status_with(self.policy(id), (id, inode), name)
    }

    /// The same, with the storage policy in effect given.
    pub(in crate::core) fn status_with(
        &self,
        storage_policy: Option<StoragePolicy>,
        (id, inode): (InodeId, &Inode),
        name: &str,
    ) -> FileStatus {
        let (file, directory) = (inode.file(), inode.directory());
        FileStatus {
            name: name.to_owned(),
            inode: id,
            directory: directory.is_some(),
            length: file.map_or(0, File::visible_length),
            replication: file.map_or(0, |file| file.replication),
            block_size: file.map_or(0, |file| file.block_size),
            owner: self.names.text(inode.owner).to_owned(),
            group: self.names.text(inode.group).to_owned(),
            mode: inode.mode,
            mtime_ms: inode.mtime_ms,
            atime_ms: inode.atime_ms(),
            children_count: directory.map_or(0, |directory| directory.children.len() as u64),
            open: file.is_some_and(|file| file.open.is_some()),
            has_acl: !self.acl(id).is_empty(),
            snapshottable: directory.is_some() && self.history.roots.contains_key(&id),
            storage_policy,
        }
    }

    /// Takes deleted trees apart, at most `count_max` inodes per call. True if something is left.
    pub fn collect(&mut self, count_max: usize) -> bool {
        let forgetting = self.forget_step(count_max);
        let mut left = count_max;
        while left > 0
            && let Some(&top) = self.garbage.front()
        {
            left -= 1;
            let child = match self.inodes.get_mut(&top) {
                Some(Inode { body: Body::Directory(directory), .. }) => directory.children.pop(),
                _ => None,
            };
            let Some(child) = child else {
                self.garbage.pop_front();
                self.erase(top);
                continue;
            };
            if let Some(inode) = self.inodes.get_mut(&child) {
                inode.parent = NOWHERE;
                self.dirty.inodes.insert(child);
            }
            let is_directory = self.inodes.get(&child).is_some_and(|i| i.directory().is_some());
            if !self.versions(child).is_empty() {
                self.note_departure(child);
                self.retire(child);
            } else if is_directory {
                self.garbage.push_back(child);
            } else {
                self.erase(child);
            }
        }
        forgetting || !self.garbage.is_empty() || !self.history.is_settled()
    }

    /// Removes an inode that is in no directory any more, and its blocks.
    pub(super) fn erase(&mut self, id: InodeId) {
        let Some(inode) = self.inodes.remove(&id) else { return };
        self.dirty.inodes.insert(id);
        self.forget_inode(id);
        self.erase_features(id);
        if self.quotas.remove(&id).is_some() {
            self.dirty.quotas.insert(id);
        }
        let Body::File(file) = inode.body else { return };
        let open = file.open.as_deref();
        if let Some(open) = open {
            self.leases.remove(open.holder, id);
        }
        self.dirty.erased.push((id, file.blocks.len()));
        let source = open.and_then(|open| open.source);
        for block in file.blocks.iter().copied().chain(source) {
            if let Some(info) = self.blocks.remove(&block) {
                self.complete_block_count -= u64::from(info.complete);
                let targets = match open {
                    Some(open) if !info.complete => open.targets.clone(),
                    _ => Vec::new(),
                };
                self.effects.push(Effect::Removed {
                    block,
                    stamp: info.stamp,
                    complete: info.complete,
                    targets,
                });
            }
        }
    }

    pub(super) fn sum_children(&self, directory: &Directory) -> Totals {
        self.children(directory).fold(Totals::DIRECTORY, |sum, (_, child)| sum.plus(child.total()))
    }
}

/// The first `count` elements of a path.
pub(in crate::core) fn prefix(path: &DfsPath, count: usize) -> String {
    path.elements().take(count).fold(String::new(), |mut text, element| {
        text.push('/');
        text.push_str(element);
        text
    })
}

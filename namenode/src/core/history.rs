//! What snapshots still see: former versions of inodes, and when they are forgotten (ADR 6).
//!
//! Time is counted in snapshots: taking one gives it the next number. What an inode was, its place in the tree included, is valid
//! from one number to another. Before an inode changes, `Namespace::save` keeps its version if a live snapshot lies in the time
//! of that version and under one of the places it had; otherwise nobody can see it and nothing is kept. The tree at snapshot `s`
//! is then the tree of versions that contain `s`; entries are found among live children and in `former`.
//!
//! Invariants:
//! - the versions of an inode do not overlap and end in ascending order; the live one begins at its stamp (0 without one);
//! - every version has a witness: a live snapshot that sees it. `watch` has each version under its witness, so deleting a snapshot
//!   touches only what it witnesses;
//! - `former` has the places of versions where the inode is no longer;
//! - an inode that is in no live directory but has versions is kept with `parent` [`NOWHERE`] and charged to `homes`;
//! - `retained` of a directory sums up what snapshots alone keep below it.
//!
//! All tables are empty while there is no snapshot.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use protocol::{BlockId, InodeId};

use super::features::Features;
use super::inode::{Body, File, Inode, NOWHERE, NameId};
use super::lease::Leases;
use super::namespace::{Effect, Namespace};
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
    /// The blocks with these bytes; the last may have more.
    pub blocks: Kept,
}

/// The blocks of a version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    /// The first so many of the file's.
    First(usize),
    /// These; some are in the file no more.
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
    pub(super) versions: HashMap<InodeId, Vec<Version>>,
    pub(super) stamps: HashMap<InodeId, SnapshotId>,
    pub(super) former: BTreeSet<(InodeId, Arc<str>, InodeId)>,
    pub(super) watch: BTreeMap<SnapshotId, BTreeSet<(InodeId, SnapshotId)>>,
    pub(super) homes: HashMap<InodeId, InodeId>,
    pub(super) retained: HashMap<InodeId, Totals>,
    /// Versions whose witness is gone.
    pub(super) orphans: VecDeque<(InodeId, SnapshotId)>,
    /// Directories outside the live tree to look through, and the entry that was passed last.
    pub(super) sweeps: VecDeque<(InodeId, Option<Arc<str>>)>,
    pub(super) dirty: DirtyHistory,
    /// Rows of features of versions being loaded.
    pub(super) loading: BTreeMap<(InodeId, SnapshotId), Vec<u8>>,
}

/// Which rows are behind.
#[derive(Default)]
pub(super) struct DirtyHistory {
    pub(super) versions: HashSet<(InodeId, SnapshotId)>,
    pub(super) stamps: HashSet<InodeId>,
    pub(super) roots: HashSet<InodeId>,
    pub(super) snapshots: HashSet<(InodeId, SnapshotId)>,
    pub(super) next: bool,
    /// Lists of versions that were dropped, and how long they were.
    pub(super) lists: Vec<(InodeId, SnapshotId, usize)>,
    /// Features of versions that were dropped, and how many bytes they took.
    pub(super) features: Vec<(InodeId, SnapshotId, usize)>,
}

/// What an inode is at a moment.
#[derive(Clone, Copy, Debug)]
pub enum At<'a> {
    /// As it is now.
    Live(&'a Inode),
    /// As it was.
    Was(&'a Version),
}

impl<'a> At<'a> {
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

    /// Access control list and extended attributes of inode `id`, if it has any.
    pub fn features(&self, ns: &'a Namespace, id: InodeId) -> Option<&'a Features> {
        match self {
            At::Live(_) => ns.features(id),
            At::Was(version) => version.features.as_deref(),
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

impl Namespace {
    fn stamp(&self, id: InodeId) -> SnapshotId {
        self.history.stamps.get(&id).copied().unwrap_or(0)
    }

    pub(super) fn versions(&self, id: InodeId) -> &[Version] {
        self.history.versions.get(&id).map_or(&[], Vec::as_slice)
    }

    /// True if an inode is in the live tree.
    pub(super) fn is_attached(&self, mut id: InodeId) -> bool {
        while id != InodeId::ROOT {
            match self.inodes.get(&id) {
                Some(inode) if inode.parent != NOWHERE => id = inode.parent,
                _ => return false,
            }
        }
        true
    }

    /// What an inode is at moment `at`; `None` if it is not there yet. Of an inode that is in no tree then the place says so.
    pub(super) fn at(&self, id: InodeId, at: SnapshotId) -> Option<At<'_>> {
        let versions = self.versions(id);
        let index = versions.partition_point(|version| version.until <= at);
        match versions.get(index) {
            Some(version) => (version.from <= at).then_some(At::Was(version)),
            None if self.stamp(id) <= at => self.inodes.get(&id).map(At::Live),
            None => None,
        }
    }

    /// A live snapshot in `from..until` that sees the inode; the latest along its latest place.
    pub(super) fn witness(
        &self,
        id: InodeId,
        from: SnapshotId,
        until: SnapshotId,
    ) -> Option<SnapshotId> {
        self.history.live.range(from..until.max(from)).next()?;
        if let Some(root) = self.history.roots.get(&id)
            && let Some((snapshot, _)) = root.snapshots.range(from..until).next_back()
        {
            return Some(*snapshot);
        }
        let inode = self.inodes.get(&id)?;
        if id == InodeId::ROOT {
            return None;
        }
        // Newest first; neighbours with one parent count as one.
        let (mut parent, mut low, mut high) = (inode.parent, self.stamp(id), PRESENT);
        for version in self.versions(id).iter().rev() {
            if version.parent != parent || version.until != low {
                if let Some(found) = self.witness_in(parent, low.max(from), high.min(until)) {
                    return Some(found);
                }
                (parent, high) = (version.parent, version.until);
            }
            low = version.from;
            if high <= from {
                return None;
            }
        }
        self.witness_in(parent, low.max(from), high.min(until))
    }

    fn witness_in(
        &self,
        parent: InodeId,
        from: SnapshotId,
        until: SnapshotId,
    ) -> Option<SnapshotId> {
        match parent == NOWHERE || from >= until {
            true => None,
            false => self.witness(parent, from, until),
        }
    }

    /// Keeps the present version of an inode if a snapshot sees it. To be called before every change of what a version has.
    pub(super) fn save(&mut self, id: InodeId) {
        if self.history.live.is_empty() {
            return;
        }
        let (from, until) = (self.stamp(id), self.history.next);
        let Some(witness) = self.witness(id, from, until) else { return };
        let Some(inode) = self.inodes.get(&id) else { return };
        let version = Version {
            from,
            until,
            parent: inode.parent,
            name: Arc::from(&*inode.name),
            owner: inode.owner,
            group: inode.group,
            mode: inode.mode,
            mtime_ms: inode.mtime_ms,
            atime_ms: inode.atime_ms(),
            features: self.shared_features(id).cloned(),
            file: inode.file().map(|file| FileVersion {
                length: file.visible_length(),
                replication: file.replication,
                blocks: Kept::First(file.visible_block_count()),
            }),
        };
        let history = &mut self.history;
        history.versions.entry(id).or_default().push(version);
        history.watch.entry(witness).or_default().insert((id, until));
        history.dirty.versions.insert((id, until));
        self.put_stamp(id, until);
    }

    fn put_stamp(&mut self, id: InodeId, stamp: SnapshotId) {
        self.history.stamps.insert(id, stamp);
        self.history.dirty.stamps.insert(id);
    }

    /// Notes that an inode came to a directory.
    pub(super) fn note_arrival(&mut self, id: InodeId, parent: InodeId) {
        let now = self.history.next;
        if !self.history.live.is_empty() && self.witness(parent, 0, now).is_some() {
            self.put_stamp(id, now);
        }
    }

    /// Notes that an inode has left its last place; its version of there was saved before.
    pub(super) fn note_departure(&mut self, id: InodeId) {
        let history = &mut self.history;
        for version in history.versions.get(&id).into_iter().flatten() {
            history.former.insert((version.parent, Arc::clone(&version.name), id));
        }
    }

    /// Keeps or gives up an inode that was just taken out of the tree, or out of a tree that is being taken apart.
    pub(super) fn retire(&mut self, id: InodeId) {
        let Some(home) = self.versions(id).last().map(|version| version.parent) else {
            self.garbage.push_back(id);
            return;
        };
        self.history.homes.insert(id, home);
        let whole = self.whole(id);
        self.adjust_above(id, Totals::default(), whole);
        self.settle(id);
    }

    /// What a subtree holds, what only snapshots keep below it included.
    pub(super) fn whole(&self, id: InodeId) -> Totals {
        let retained = self.history.retained.get(&id).copied().unwrap_or_default();
        self.inodes.get(&id).map(Inode::total).unwrap_or_default().plus(retained)
    }

    /// True if a snapshot will go on to see an inode that is deleted now.
    pub(super) fn is_kept(&self, id: InodeId) -> bool {
        !self.versions(id).is_empty()
            || self.witness(id, self.stamp(id), self.history.next).is_some()
    }

    /// What only snapshots keep below a directory.
    pub fn retained(&self, id: InodeId) -> Totals {
        self.history.retained.get(&id).copied().unwrap_or_default()
    }

    /// Replaces `before` by `after` in what snapshots keep below `id` and every directory above it.
    pub(super) fn adjust_retained(&mut self, id: InodeId, before: Totals, after: Totals) {
        if before == after {
            return;
        }
        let mut at = id;
        while at != NOWHERE && self.inodes.contains_key(&at) {
            let slot = self.history.retained.entry(at).or_default();
            *slot = slot.replacing(before, after);
            if *slot == Totals::default() {
                self.history.retained.remove(&at);
            }
            if at == InodeId::ROOT {
                break;
            }
            at = match self.inodes.get(&at).map(|inode| inode.parent) {
                Some(NOWHERE) => self.history.homes.get(&at).copied().unwrap_or(NOWHERE),
                Some(parent) => parent,
                None => NOWHERE,
            };
        }
    }

    /// Looks again at an inode of which a version went, or that left the tree: frees what no snapshot sees.
    pub(super) fn settle(&mut self, id: InodeId) {
        let Some(inode) = self.inodes.get(&id) else { return };
        let is_directory = inode.directory().is_some();
        if self.is_attached(id) {
            return;
        }
        let lives = self.witness(id, self.stamp(id), PRESENT).is_some();
        if !lives && self.versions(id).is_empty() {
            self.give_up(id);
        } else if is_directory {
            self.history.sweeps.push_back((id, None));
        } else {
            self.trim(id, lives);
        }
    }

    /// Takes an inode that nobody sees out of what is kept.
    fn give_up(&mut self, id: InodeId) {
        let Some(inode) = self.inodes.get(&id) else { return };
        let parent = inode.parent;
        let whole = self.whole(id);
        if parent != NOWHERE {
            let total = self.inodes.get(&id).map(Inode::total).unwrap_or_default();
            let retained = self.retained(id);
            self.adjust_above(id, total, Totals::default());
            self.adjust_retained(parent, retained, Totals::default());
            let above = self.inodes.get(&parent).and_then(Inode::directory);
            let name = self.inodes.get(&id).map_or("", |inode| &*inode.name);
            let place = above.and_then(|directory| self.find_child(directory, name).ok());
            if let (Some(place), Some(Inode { body: Body::Directory(directory), .. })) =
                (place, self.inodes.get_mut(&parent))
            {
                directory.children.remove(place);
            }
        } else if self.history.homes.contains_key(&id) {
            self.adjust_above(id, whole, Totals::default());
            self.history.homes.remove(&id);
        } else {
            // It is garbage already.
            return;
        }
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.parent = NOWHERE;
        }
        self.dirty.inodes.insert(id);
        self.garbage.push_back(id);
    }

    /// Closes a file that only snapshots have, and frees the blocks that none of them sees. If one sees bytes of the block that was
    /// being written, the DataNodes must agree on its length first: the file stays open, for the recovery.
    fn trim(&mut self, id: InodeId, lives: bool) {
        let files = self.versions(id).iter().filter_map(|version| version.file.as_ref());
        let first = files.filter_map(|file| match file.blocks {
            Kept::First(count) => Some(count),
            Kept::List(_) => None,
        });
        let kept_count = first.max().unwrap_or(0);
        let Some(Inode { body: Body::File(file), .. }) = self.inodes.get_mut(&id) else { return };
        let keep = match lives {
            true => file.visible_block_count(),
            false => kept_count.min(file.visible_block_count()),
        };
        if let Some(open) = file.open.as_deref_mut().filter(|open| open.writing)
            && keep == file.blocks.len()
        {
            let holder = std::mem::replace(&mut open.holder, Leases::RECOVERER);
            if holder != Leases::RECOVERER {
                self.leases.remove(holder, id);
                self.leases.add(Leases::RECOVERER, id);
                self.dirty.inodes.insert(id);
            }
            return;
        }
        let before = file.space_consumed();
        let length_before = file.length;
        let open = file.open.take();
        if open.is_none() && keep == file.blocks.len() {
            return;
        }
        let mut freed = Vec::new();
        while file.blocks.len() > keep {
            freed.extend(file.blocks.pop());
        }
        let gone = freed.iter().filter_map(|block| self.blocks.get(block));
        file.length -= gone.map(|info| info.length).sum::<u64>();
        let totals =
            |length, space_consumed| Totals { length, space_consumed, ..Totals::default() };
        let after = totals(file.length, file.space_consumed());
        if let Some(open) = &open {
            self.leases.remove(open.holder, id);
        }
        self.dirty.inodes.insert(id);
        self.dirty.erased.push((id, keep + freed.len()));
        let source = open.as_ref().and_then(|open| open.source);
        let targets = open.map(|open| open.targets).unwrap_or_default();
        source.into_iter().for_each(|block| self.free_block(id, block, &[]));
        freed.into_iter().for_each(|block| self.free_block(id, block, &targets));
        self.adjust_above(id, totals(length_before, before), after);
    }

    /// True if a file is in the live tree, or a snapshot sees bytes of the block that was being written: an edit may name it, because
    /// nothing takes it apart before that ends, neither here nor in a replay that is ahead or behind with collecting.
    pub(super) fn is_recoverable(&self, id: InodeId) -> bool {
        if self.is_attached(id) {
            return true;
        }
        let Some(file) = self.file(id) else { return false };
        let count = file.blocks.len();
        let writing = file.open.as_deref().is_some_and(|open| open.writing);
        if !writing || file.visible_block_count() != count {
            return false;
        }
        let sees = |from, until| self.witness(id, from, until).is_some();
        let has_all = |version: &&Version| {
            let file = version.file.as_ref();
            file.is_some_and(|file| file.blocks == Kept::First(count))
        };
        sees(self.stamp(id), PRESENT)
            || self.versions(id).iter().filter(has_all).any(|v| sees(v.from, v.until))
    }

    /// Frees a block of a file that is no longer in its list, unless a version has it.
    pub(super) fn free_block(
        &mut self,
        file: InodeId,
        block: BlockId,
        targets: &[protocol::DatanodeId],
    ) {
        let is_kept = self.versions(file).iter().any(|version| {
            matches!(&version.file, Some(FileVersion { blocks: Kept::List(list), .. }) if list.contains(&block))
        });
        if is_kept {
            return;
        }
        if let Some(info) = self.blocks.remove(&block) {
            self.complete_block_count -= u64::from(info.complete);
            self.effects.push(Effect::Removed {
                block,
                stamp: info.stamp,
                complete: info.complete,
                targets: if info.complete { Vec::new() } else { targets.to_vec() },
            });
        }
    }

    /// Blocks that only versions with lists of their own have.
    pub(super) fn kept_blocks(&self) -> impl Iterator<Item = BlockId> {
        let mut seen = BTreeSet::new();
        for (id, versions) in &self.history.versions {
            let lists = versions.iter().filter_map(|version| match &version.file {
                Some(FileVersion { blocks: Kept::List(list), .. }) => Some(list),
                _ => None,
            });
            let mut lists = lists.peekable();
            if lists.peek().is_some() {
                let has = |block: &BlockId| self.has_block(*id, *block);
                seen.extend(lists.flatten().copied().filter(|block| !has(block)));
            }
        }
        seen.into_iter()
    }

    /// True if a file has a block in its list, or its last block is being copied from it.
    fn has_block(&self, file: InodeId, block: BlockId) -> bool {
        self.file(file).is_some_and(|file| {
            let source = file.open.as_deref().and_then(|open| open.source);
            source == Some(block) || file.blocks.contains(&block)
        })
    }

    /// Forgets an inode that is erased.
    pub(super) fn forget_inode(&mut self, id: InodeId) {
        if self.history.stamps.remove(&id).is_some() {
            self.history.dirty.stamps.insert(id);
        }
        self.history.retained.remove(&id);
    }

    /// Gives versions of a file their own lists, before blocks leave the file's or are replaced in it.
    pub(super) fn pin_blocks(&mut self, id: InodeId) {
        let Some(blocks) = self.file(id).map(|file| file.blocks[..].to_vec()) else { return };
        let history = &mut self.history;
        for version in history.versions.get_mut(&id).into_iter().flatten() {
            let until = version.until;
            if let Some(FileVersion { blocks: kept, .. }) = &mut version.file
                && let Kept::First(count) = *kept
            {
                *kept = Kept::List(blocks.iter().take(count).copied().collect());
                history.dirty.versions.insert((id, until));
            }
        }
    }

    /// Forgets a snapshot that was taken out of its directory's table: what it witnesses needs another witness.
    pub(super) fn forget_snapshot(&mut self, snapshot: SnapshotId) {
        let oldest = self.history.live.keys().next().copied();
        self.history.live.remove(&snapshot);
        let witnessed = self.history.watch.remove(&snapshot).unwrap_or_default();
        self.history.orphans.extend(witnessed);
        if oldest == Some(snapshot) {
            let oldest = self.history.live.keys().next().copied().unwrap_or(PRESENT);
            let History { stamps, dirty, .. } = &mut self.history;
            stamps.retain(|id, stamp| {
                let needed = *stamp > oldest;
                if !needed {
                    dirty.stamps.insert(*id);
                }
                needed
            });
        }
    }

    /// Takes up to `count_max` steps of forgetting. True if something is left.
    pub(super) fn forget_step(&mut self, count_max: usize) -> bool {
        let mut left = count_max;
        while left > 0
            && let Some((id, until)) = self.history.orphans.pop_front()
        {
            left -= 1;
            self.reconsider(id, until);
        }
        while left > 0
            && let Some((id, passed)) = self.history.sweeps.pop_front()
        {
            left -= self.sweep(id, passed, left).min(left);
        }
        !self.history.orphans.is_empty() || !self.history.sweeps.is_empty()
    }

    /// Finds another witness of a version, or drops it.
    pub(super) fn reconsider(&mut self, id: InodeId, until: SnapshotId) {
        let version = self.versions(id).iter().find(|version| version.until == until);
        let Some(from) = version.map(|version| version.from) else { return };
        if let Some(witness) = self.witness(id, from, until) {
            self.history.watch.entry(witness).or_default().insert((id, until));
        } else {
            self.drop_version(id, until);
        }
        self.settle(id);
    }

    fn drop_version(&mut self, id: InodeId, until: SnapshotId) {
        let Some(versions) = self.history.versions.get_mut(&id) else { return };
        let Some(index) = versions.iter().position(|version| version.until == until) else {
            return;
        };
        let dropped = versions.remove(index);
        self.history.dirty.versions.insert((id, until));
        let is_place =
            |version: &Version| version.parent == dropped.parent && version.name == dropped.name;
        if !self.versions(id).iter().any(is_place) {
            self.history.former.remove(&(dropped.parent, Arc::clone(&dropped.name), id));
        }
        if self.versions(id).is_empty() {
            self.history.versions.remove(&id);
        }
        if let Some(features) = dropped.features {
            self.history.dirty.features.push((id, until, features.encode().len()));
        }
        if let Some(FileVersion { blocks: Kept::List(list), .. }) = dropped.file {
            self.history.dirty.lists.push((id, until, list.len()));
            for block in list {
                if !self.has_block(id, block) {
                    self.free_block(id, block, &[]);
                }
            }
        }
        self.rehome(id);
    }

    /// Charges an inode that only snapshots have to its last place that is left.
    fn rehome(&mut self, id: InodeId) {
        let Some(old) = self.history.homes.get(&id).copied() else { return };
        let Some(home) = self.versions(id).last().map(|version| version.parent) else { return };
        if home != old {
            let whole = self.whole(id);
            self.adjust_above(id, whole, Totals::default());
            self.history.homes.insert(id, home);
            self.adjust_above(id, Totals::default(), whole);
        }
    }

    /// Looks through some entries of a directory that only snapshots have. Returns how many.
    fn sweep(&mut self, id: InodeId, passed: Option<Arc<str>>, count_max: usize) -> usize {
        if self.is_attached(id) {
            return 1;
        }
        let Some(directory) = self.inodes.get(&id).and_then(Inode::directory) else { return 1 };
        let (rest, _) = self.children_after(directory, passed.as_deref().unwrap_or_default());
        let some: Vec<(InodeId, &Inode)> = rest.take(count_max).collect();
        let last = some.last().map(|(_, inode)| Arc::from(&*inode.name));
        let some: Vec<InodeId> = some.into_iter().map(|(child, _)| child).collect();
        if some.len() == count_max {
            self.history.sweeps.push_back((id, last));
        }
        some.iter().for_each(|child| self.settle(*child));
        some.len().max(1)
    }

    /// An entry of a directory at a moment.
    pub(super) fn child_at(&self, id: InodeId, name: &str, at: SnapshotId) -> Option<InodeId> {
        let is_here =
            |child: &InodeId| self.at(*child, at).is_some_and(|state| state.place() == (id, name));
        let live = self.child(self.inodes.get(&id).and_then(Inode::directory)?, name);
        live.filter(is_here).or_else(|| {
            let first = (id, Arc::<str>::from(name), InodeId(0));
            let places = self.history.former.range(first..);
            let mut here = places.take_while(|(parent, at, _)| *parent == id && &**at == name);
            here.find(|(_, _, child)| is_here(child)).map(|(_, _, child)| *child)
        })
    }

    /// The entries of a directory at a moment, after a name, in byte order: live and former ones merged, as far as they are
    /// asked for.
    pub(super) fn children_at<'a>(
        &'a self,
        id: InodeId,
        at: SnapshotId,
        after: &str,
    ) -> impl Iterator<Item = (&'a str, InodeId)> + use<'a> {
        use std::ops::Bound::{Excluded, Unbounded};
        let is_here = move |&(name, child): &(&str, InodeId)| {
            self.at(child, at).is_some_and(|state| state.place() == (id, name))
        };
        let directory = self.inodes.get(&id).and_then(Inode::directory);
        let live = directory.map(|directory| self.children_after(directory, after).0);
        let live = live.into_iter().flatten().map(|(child, inode)| (&*inode.name, child));
        let first = (id, Arc::<str>::from(after), InodeId(u64::MAX));
        let former = self.history.former.range((Excluded(first), Unbounded));
        let former = former.take_while(move |(parent, ..)| *parent == id);
        let former = former.map(|(_, name, child)| (&**name, *child));
        let (mut live, mut former) =
            (live.filter(is_here).peekable(), former.filter(is_here).peekable());
        std::iter::from_fn(move || {
            // Of one name only one can be there at a moment; it may have come back to where it was.
            let order = match (live.peek(), former.peek()) {
                (Some((name, _)), Some((other, _))) => name.cmp(other),
                (None, _) => Ordering::Greater,
                (_, None) => Ordering::Less,
            };
            let was = if order.is_lt() { None } else { former.next() };
            if order.is_gt() { was } else { live.next() }
        })
    }

    /// Blocks and bytes of a file at a moment.
    pub(super) fn blocks_at(&self, id: InodeId, state: At<'_>) -> (Vec<BlockId>, u64) {
        let Some(file) = self.file(id) else { return (Vec::new(), 0) };
        match state {
            At::Live(_) => {
                (file.blocks[..file.visible_block_count()].to_vec(), file.visible_length())
            }
            At::Was(version) => match &version.file {
                Some(FileVersion { blocks: Kept::First(count), length, .. }) => {
                    (file.blocks.iter().take(*count).copied().collect(), *length)
                }
                Some(FileVersion { blocks: Kept::List(list), length, .. }) => {
                    (list.clone(), *length)
                }
                None => (Vec::new(), 0),
            },
        }
    }
}

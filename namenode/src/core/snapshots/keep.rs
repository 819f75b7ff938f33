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
//! - who follows parents and homes comes to an end: nothing is charged to itself;
//! - `retained` of a file is the space that only its versions take: of blocks that it no longer has, and of replicas beyond those it wants;
//! - `retained` of a directory sums up what snapshots alone keep below it, that of its files included.
//!
//! All tables are empty while there is no snapshot.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashSet;
use protocol::path::DEPTH_MAX;
use protocol::{BlockId, DatanodeId, InodeId};

use crate::core::inodes::{
    At, FileVersion, Inode, NOWHERE, PRESENT, SnapshotId, Totals, Version, VersionBlocks,
};
use crate::core::namespace::{Effect, Namespace};

/// Where an inode was, from one moment until another.
type Place = (InodeId, SnapshotId, SnapshotId);

/// A directory in which an inode was in `held`, as far as that is in `within`.
fn place_in(parent: InodeId, held: Range<SnapshotId>, within: Range<SnapshotId>) -> Option<Place> {
    let (from, until) = (held.start.max(within.start), held.end.min(within.end));
    (parent != NOWHERE && from < until).then_some((parent, from, until))
}

impl Namespace {
    pub(in crate::core) fn stamp(&self, id: InodeId) -> SnapshotId {
        self.history.stamps.get(&id).copied().unwrap_or(0)
    }

    /// What an inode was, as long as a snapshot may see it.
    pub fn versions(&self, id: InodeId) -> &[Version] {
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

    /// A live snapshot in `from..until` that sees the inode; the latest along its latest place.
    pub(super) fn witness(
        &self,
        id: InodeId,
        from: SnapshotId,
        until: SnapshotId,
    ) -> Option<SnapshotId> {
        // Where it was, and when; what is looked at first lies on top. A tree may be deeper than a stack of calls.
        let mut next = Some((id, from, until.max(from)));
        let (mut stack, mut seen) = (Vec::new(), HashSet::new());
        while let Some((id, from, until)) = next.take().or_else(|| stack.pop()) {
            if self.history.live.range(from..until).next().is_none() {
                continue;
            }
            if let Some(root) = self.history.roots.get(&id)
                && let Some((snapshot, _)) = root.snapshots.range(from..until).next_back()
            {
                return Some(*snapshot);
            }
            // Versions that no snapshot needs any more, and that are not collected yet, can lead round in a ring: each place is looked at once. Without
            // versions there is one place, and nothing to remember.
            match self.versions(id) {
                _ if id == InodeId::ROOT => {}
                [] => {
                    let parent = self.inodes.get(&id).map_or(NOWHERE, |inode| inode.parent);
                    next = place_in(parent, self.stamp(id)..PRESENT, from..until);
                }
                versions => {
                    if seen.insert((id, from, until)) {
                        self.push_places(id, versions, from..until, &mut stack);
                    }
                }
            }
        }
        None
    }

    /// Pushes the directories in which an inode with versions was in `within`, the latest last.
    fn push_places(
        &self,
        id: InodeId,
        versions: &[Version],
        within: Range<SnapshotId>,
        stack: &mut Vec<Place>,
    ) {
        let Some(inode) = self.inodes.get(&id) else { return };
        let bottom = stack.len();
        // Newest first; neighbours with one parent count as one. Each begins where the one before it ends, as `Namespace::at` sees it, even if its own
        // stamp is gone.
        let end_before = |index: usize| match index.checked_sub(1) {
            Some(before) => versions.get(before).map_or(0, |version| version.until),
            None => 0,
        };
        let newest = self.stamp(id).max(end_before(versions.len()));
        let (mut parent, mut low, mut high) = (inode.parent, newest, PRESENT);
        for (index, version) in versions.iter().enumerate().rev() {
            if version.parent != parent || version.until != low {
                stack.extend(place_in(parent, low..high, within.clone()));
                (parent, high) = (version.parent, version.until);
            }
            low = version.from.max(end_before(index));
            if high <= within.start {
                break;
            }
        }
        stack.extend(place_in(parent, low..high, within));
        stack[bottom..].reverse();
    }

    /// Keeps the present version of an inode if a snapshot sees it. Call it before every change of what a version records.
    pub(in crate::core) fn save(&mut self, id: InodeId) {
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
                blocks: VersionBlocks::First(file.visible_block_count()),
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
    pub(in crate::core) fn note_arrival(&mut self, id: InodeId, parent: InodeId) {
        let now = self.history.next;
        if !self.history.live.is_empty() && self.witness(parent, 0, now).is_some() {
            self.put_stamp(id, now);
        }
    }

    /// Notes that an inode has left its last place; its version of there was saved before.
    pub(in crate::core) fn note_departure(&mut self, id: InodeId) {
        let history = &mut self.history;
        for version in history.versions.get(&id).into_iter().flatten() {
            history.former.insert((version.parent, Arc::clone(&version.name), id));
        }
    }

    /// Keeps or gives up an inode that was just taken out of the tree, or out of a tree that is being taken apart.
    pub(in crate::core) fn retire(&mut self, id: InodeId) {
        let Some(home) = self.home(id) else {
            self.garbage.push_back(id);
            return;
        };
        self.history.homes.insert(id, home);
        let whole = self.whole(id);
        self.adjust_above(id, Totals::default(), whole);
        self.settle(id);
    }

    /// Where an inode that only snapshots have is charged: in its last place. If that was moved below the inode later, in the next directory above it then
    /// that was not.
    pub(super) fn home(&self, id: InodeId) -> Option<InodeId> {
        let version = self.versions(id).last()?;
        let mut home = version.parent;
        // As in `witness`, there can be a ring; no path is longer than this.
        for _ in 0..DEPTH_MAX {
            if !self.is_charged_to(home, id) {
                return Some(home);
            }
            let seen = self.witness(id, version.from, version.until);
            home = seen.and_then(|at| self.at(home, at)).map_or(NOWHERE, |state| match state {
                At::Live(inode) => inode.parent,
                At::Was(version) => version.parent,
            });
        }
        Some(NOWHERE)
    }

    /// True if what snapshots keep at `from` is charged to `id`, too.
    fn is_charged_to(&self, from: InodeId, id: InodeId) -> bool {
        let mut at = from;
        while at != id {
            at = match self.inodes.get(&at).map(|inode| inode.parent) {
                Some(NOWHERE) => self.history.homes.get(&at).copied().unwrap_or(NOWHERE),
                Some(parent) if at != InodeId::ROOT => parent,
                _ => NOWHERE,
            };
            if at == NOWHERE {
                return false;
            }
        }
        true
    }

    /// Totals of a subtree, including what only snapshots keep below it.
    pub(in crate::core) fn whole(&self, id: InodeId) -> Totals {
        let retained = self.history.retained.get(&id).copied().unwrap_or_default();
        self.inodes.get(&id).map(Inode::total).unwrap_or_default().plus(retained)
    }

    /// True if a snapshot sees what an inode is now.
    pub(super) fn sees_present(&self, id: InodeId) -> bool {
        self.witness(id, self.stamp(id), self.history.next).is_some()
    }

    /// True if a snapshot will still see an inode that is deleted now.
    pub(in crate::core) fn is_kept(&self, id: InodeId) -> bool {
        !self.versions(id).is_empty() || self.sees_present(id)
    }

    /// What only snapshots keep below a directory.
    pub fn retained(&self, id: InodeId) -> Totals {
        self.history.retained.get(&id).copied().unwrap_or_default()
    }

    /// Replaces `before` by `after` in what snapshots keep below `id` and every directory above it.
    pub(in crate::core) fn adjust_retained(&mut self, id: InodeId, before: Totals, after: Totals) {
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

    /// True if a file is in the live tree, or a snapshot sees bytes of the block that was being written: an edit may name it, because
    /// nothing takes it apart before that ends, neither here nor in a replay that is ahead or behind with collecting.
    pub(in crate::core) fn is_recoverable(&self, id: InodeId) -> bool {
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
            file.is_some_and(|file| file.blocks == VersionBlocks::First(count))
        };
        sees(self.stamp(id), PRESENT)
            || self.versions(id).iter().filter(has_all).any(|v| sees(v.from, v.until))
    }

    /// Frees a block of a file that is no longer in its list, unless a version has it. Of a block that has become another file's ([`Edit::Concat`]) a late
    /// collection of this one's versions, as in a replay, takes nothing.
    ///
    /// [`Edit::Concat`]: crate::core::edit::Edit::Concat
    pub(in crate::core) fn free_block(
        &mut self,
        file: InodeId,
        block: BlockId,
        targets: &[DatanodeId],
    ) {
        let is_kept = self.lists(file).any(|list| list.contains(&block));
        let is_its_own = self.blocks.get(&block).is_some_and(|info| info.file == file);
        if is_kept || !is_its_own {
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
    pub(in crate::core) fn kept_blocks(&self) -> impl Iterator<Item = BlockId> {
        let mut seen = BTreeSet::new();
        for id in self.history.versions.keys() {
            let has = |block: &BlockId| self.has_block(*id, *block);
            seen.extend(self.lists(*id).flatten().copied().filter(|block| !has(block)));
        }
        seen.into_iter()
    }

    /// True if a file has a block in its list, or its last block is being copied from it.
    pub(super) fn has_block(&self, file: InodeId, block: BlockId) -> bool {
        self.file(file).is_some_and(|file| {
            let source = file.open.as_deref().and_then(|open| open.source);
            source == Some(block) || file.blocks.contains(&block)
        })
    }

    /// Forgets an inode that is erased.
    pub(in crate::core) fn forget_inode(&mut self, id: InodeId) {
        if self.history.stamps.remove(&id).is_some() {
            self.history.dirty.stamps.insert(id);
        }
        self.history.retained.remove(&id);
        self.history.beyond.remove(&id);
    }

    /// The last block of a file has lost bytes that were promised, or is lost as a whole and gone. Versions lose them, too: else they would show in their
    /// place what is written next.
    pub(in crate::core) fn shorten_versions(&mut self, id: InodeId, block: BlockId, lost: u64) {
        let Some(file) = self.file(id) else { return };
        let (count_left, length_left) = (file.blocks.len(), file.length);
        let blocks = &self.blocks;
        let bytes_of = |list: &[BlockId]| -> u64 {
            list.iter().filter_map(|block| blocks.get(block)).map(|info| info.length).sum()
        };
        let history = &mut self.history;
        for version in history.versions.get_mut(&id).into_iter().flatten() {
            let until = version.until;
            let Some(file) = &mut version.file else { continue };
            match &mut file.blocks {
                VersionBlocks::First(count) if *count >= count_left => {
                    *count = count_left;
                    file.length = file.length.min(length_left);
                }
                VersionBlocks::List(list) if list.contains(&block) => {
                    let more = if list.last() == Some(&block) { 0 } else { lost };
                    if !blocks.contains_key(&block) {
                        // It has fewer rows now.
                        history.dirty.lists.push((id, until, list.len()));
                        list.retain(|it| *it != block);
                    }
                    file.length = file.length.saturating_sub(more).min(bytes_of(list));
                }
                _ => continue,
            }
            history.dirty.versions.insert((id, until));
        }
        self.recount_versions(id);
    }

    /// Gives versions of a file their own lists, before blocks leave the file's or are replaced in it.
    pub(in crate::core) fn pin_blocks(&mut self, id: InodeId) {
        let Some(blocks) = self.file(id).map(|file| file.blocks[..].to_vec()) else { return };
        let history = &mut self.history;
        for version in history.versions.get_mut(&id).into_iter().flatten() {
            let until = version.until;
            if let Some(FileVersion { blocks: kept, .. }) = &mut version.file
                && let VersionBlocks::First(count) = *kept
            {
                *kept = VersionBlocks::List(blocks.iter().take(count).copied().collect());
                history.dirty.versions.insert((id, until));
            }
        }
    }
}

//! Forgetting what no snapshot sees any more, in small steps: versions whose snapshot was deleted, and inodes outside the live tree.

use std::sync::Arc;

use protocol::InodeId;

use crate::core::inodes::{
    Body, FileVersion, History, Inode, Leases, NOWHERE, PRESENT, SnapshotId, Totals, Version,
    VersionBlocks,
};
use crate::core::namespace::{Effect, Namespace};

impl Namespace {
    /// Re-examines an inode that lost a version or left the tree: frees what no snapshot sees.
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

    /// Of a file that only snapshots have, what none of them sees counts no more: neither blocks nor the replicas that it wanted in the end.
    fn trim(&mut self, id: InodeId, lives: bool) {
        let seen = self.replication_of_versions(id);
        let before = self.inodes.get(&id).map(Inode::total).unwrap_or_default();
        if let Some(Inode { body: Body::File(file), .. }) = self.inodes.get_mut(&id)
            && !lives
            && file.replication > seen
        {
            file.replication = seen;
            let after = self.inodes.get(&id).map(Inode::total).unwrap_or_default();
            self.dirty.inodes.insert(id);
            self.effects.push(Effect::Replication(id));
            self.adjust_above(id, before, after);
        }
        self.trim_blocks(id, lives);
    }

    /// Closes such a file, and frees the blocks that no snapshot sees. If one sees bytes of the block that was being written, the DataNodes must agree on its
    /// length first: the file stays open, for the recovery.
    fn trim_blocks(&mut self, id: InodeId, lives: bool) {
        let first = self.file_versions(id).filter_map(|file| match file.blocks {
            VersionBlocks::First(count) => Some(count),
            VersionBlocks::List(_) => None,
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
        self.recount_versions(id);
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
    pub(in crate::core) fn forget_step(&mut self, count_max: usize) -> bool {
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

    /// Drops what is left of the versions of an inode that is erased: no snapshot sees them any more, and they were not collected yet.
    pub(in crate::core) fn drop_versions(&mut self, id: InodeId) {
        let all: Vec<SnapshotId> = self.versions(id).iter().map(|version| version.until).collect();
        all.into_iter().for_each(|until| self.drop_version(id, until));
    }

    fn drop_version(&mut self, id: InodeId, until: SnapshotId) {
        let wanted = self.replication_in(id);
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
        if let Some(FileVersion { blocks: VersionBlocks::List(list), .. }) = dropped.file {
            self.history.dirty.lists.push((id, until, list.len()));
            for block in list {
                if !self.has_block(id, block) {
                    self.free_block(id, block, &[]);
                }
            }
        }
        if self.replication_in(id) < wanted {
            self.effects.push(Effect::Replication(id));
        }
        self.recount_versions(id);
        self.rehome(id);
    }

    /// Charges an inode that only snapshots have to its last place that is left.
    fn rehome(&mut self, id: InodeId) {
        let Some(old) = self.history.homes.get(&id).copied() else { return };
        let Some(home) = self.home(id) else { return };
        if home != old {
            let whole = self.whole(id);
            self.adjust_above(id, whole, Totals::default());
            self.history.homes.insert(id, home);
            self.adjust_above(id, Totals::default(), whole);
        }
    }

    /// Examines some entries of a directory that only snapshots have. Returns how many.
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
}

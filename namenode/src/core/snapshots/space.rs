//! What the versions of a file have of its blocks, and the space that only they take.
//!
//! As in HDFS, all distinct blocks of a file and its versions take space, times the most replicas that one of them wants. What the file itself takes is in the
//! totals of the tree; the rest is in `retained`. Blocks that are in no list of a version are the file's own, so `beyond` changes only where blocks leave a
//! file or a version.

use hashbrown::HashSet;
use protocol::{BlockId, InodeId};

use crate::core::inodes::{FileVersion, Totals, VersionBlocks};
use crate::core::namespace::Namespace;

impl Namespace {
    /// What a file was, as long as a snapshot may see it.
    pub(in crate::core) fn file_versions(&self, id: InodeId) -> impl Iterator<Item = &FileVersion> {
        self.versions(id).iter().filter_map(|version| version.file.as_ref())
    }

    /// The blocks of versions that have lists of their own.
    pub(in crate::core) fn lists(&self, id: InodeId) -> impl Iterator<Item = &[BlockId]> {
        self.file_versions(id).filter_map(|file| match &file.blocks {
            VersionBlocks::List(list) => Some(list.as_slice()),
            VersionBlocks::First(_) => None,
        })
    }

    /// The most replicas that a version of a file wants; 0 without versions.
    pub(in crate::core) fn replication_of_versions(&self, id: InodeId) -> u16 {
        self.file_versions(id).map(|file| file.replication).max().unwrap_or(0)
    }

    /// The same, with the version that will be if a snapshot sees what the file is now.
    pub(in crate::core) fn replication_kept(&self, id: InodeId) -> u16 {
        let now = self.file(id).filter(|_| self.sees_present(id));
        self.replication_of_versions(id).max(now.map_or(0, |file| file.replication))
    }

    /// True if a version of a file has more after a block, which therefore must not grow.
    pub(in crate::core) fn is_within_version(&self, id: InodeId, block: BlockId) -> bool {
        self.lists(id).any(|list| list.contains(&block) && list.last() != Some(&block))
    }

    /// Bytes of the blocks from the one of this number on that a file will lose for good when they leave it: no snapshot sees them.
    pub(in crate::core) fn bytes_unseen(&self, id: InodeId, from: usize) -> u64 {
        let Some(file) = self.file(id) else { return 0 };
        let counts = self.file_versions(id).filter_map(|file| match file.blocks {
            VersionBlocks::First(count) => Some(count),
            VersionBlocks::List(_) => None,
        });
        let now = if self.sees_present(id) { file.visible_block_count() } else { 0 };
        let seen_count = counts.fold(now, usize::max);
        let listed: HashSet<&BlockId> = self.lists(id).flatten().collect();
        let unseen = file.blocks.iter().skip(from.max(seen_count));
        self.bytes_of(unseen.filter(|block| !listed.contains(block)))
    }

    /// Charges what only the versions of a file keep. Call it after every change of its blocks, their lengths or its replication;
    /// [`Namespace::recount_versions`] after one of what its versions have.
    pub(in crate::core) fn charge_versions(&mut self, id: InodeId) {
        let Some(file) = self.file(id) else { return };
        let (own, before) = (file.space_consumed(), self.retained(id));
        let beyond = self.history.beyond.get(&id).copied().unwrap_or_default();
        let bytes = file.space_of_one().saturating_add(beyond);
        let all = bytes.saturating_mul(u64::from(self.replication_in(id)));
        let after = Totals { space_consumed: all.saturating_sub(own), ..Totals::default() };
        self.adjust_retained(id, before, after);
    }

    /// As [`Namespace::charge_versions`], where blocks have left a file or a version: looks at all of them.
    pub(in crate::core) fn recount_versions(&mut self, id: InodeId) {
        match self.bytes_beyond(id) {
            0 => drop(self.history.beyond.remove(&id)),
            bytes => drop(self.history.beyond.insert(id, bytes)),
        }
        self.charge_versions(id);
    }

    /// Bytes of blocks that versions of a file have, and the file no longer.
    fn bytes_beyond(&self, id: InodeId) -> u64 {
        let mut listed: HashSet<&BlockId> = self.lists(id).flatten().collect();
        if !listed.is_empty() {
            self.file(id).into_iter().flat_map(|file| file.blocks.iter()).for_each(|block| {
                listed.remove(block);
            });
        }
        self.bytes_of(listed.into_iter())
    }

    fn bytes_of<'a>(&self, blocks: impl Iterator<Item = &'a BlockId>) -> u64 {
        let lengths = blocks.filter_map(|block| self.blocks.get(block)).map(|info| info.length);
        lengths.fold(0, u64::saturating_add)
    }
}

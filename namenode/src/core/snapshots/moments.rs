//! The tree at a moment: what an inode was, what a directory had, which blocks a file had.

use std::cmp::Ordering;
use std::sync::Arc;

use protocol::{BlockId, InodeId};

use crate::core::inodes::{At, Features, FileVersion, Inode, SnapshotId, VersionBlocks};
use crate::core::namespace::Namespace;

impl<'a> At<'a> {
    /// Access control list and extended attributes of inode `id`, if it has any.
    pub fn features(&self, ns: &'a Namespace, id: InodeId) -> Option<&'a Features> {
        match self {
            At::Live(_) => ns.features(id),
            At::Was(version) => version.features.as_deref(),
        }
    }
}

impl Namespace {
    /// What an inode is at moment `at`; `None` if it does not exist yet. For an inode that was in no tree then, the place says so.
    pub(in crate::core) fn at(&self, id: InodeId, at: SnapshotId) -> Option<At<'_>> {
        let versions = self.versions(id);
        let index = versions.partition_point(|version| version.until <= at);
        match versions.get(index) {
            Some(version) => (version.from <= at).then_some(At::Was(version)),
            None if self.stamp(id) <= at => self.inodes.get(&id).map(At::Live),
            None => None,
        }
    }

    /// An entry of a directory at a moment.
    pub(in crate::core) fn child_at(
        &self,
        id: InodeId,
        name: &str,
        at: SnapshotId,
    ) -> Option<InodeId> {
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

    /// The entries of a directory at a moment, after a name, in byte order: live and former ones, merged lazily.
    pub(in crate::core) fn children_at<'a>(
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
    pub(in crate::core) fn blocks_at(&self, id: InodeId, state: At<'_>) -> (Vec<BlockId>, u64) {
        let Some(file) = self.file(id) else { return (Vec::new(), 0) };
        match state {
            At::Live(_) => {
                (file.blocks[..file.visible_block_count()].to_vec(), file.visible_length())
            }
            At::Was(version) => match &version.file {
                Some(FileVersion { blocks: VersionBlocks::First(count), length, .. }) => {
                    (file.blocks.iter().take(*count).copied().collect(), *length)
                }
                Some(FileVersion { blocks: VersionBlocks::List(list), length, .. }) => {
                    (list.clone(), *length)
                }
                None => (Vec::new(), 0),
            },
        }
    }
}

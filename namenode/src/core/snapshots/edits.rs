//! Applying the edits of snapshots: which directories may have some, and taking, naming and deleting them.

use protocol::InodeId;

use crate::core::edit::Edit;
use crate::core::inodes::{Inode, Root, Snapshot, SnapshotId};
use crate::core::namespace::Namespace;
use crate::error::CoreError;

/// Steps of forgetting that the deletion of a snapshot takes at once: what a few files had comes back with it, as in HDFS.
const FORGET_WITH_EDIT: usize = 1024;

impl Namespace {
    /// Applies an edit of snapshots.
    pub(in crate::core) fn apply_snapshot(&mut self, edit: &Edit) -> Result<(), CoreError> {
        match edit {
            Edit::AllowSnapshot { directory } => {
                if self.inodes.get(directory).and_then(Inode::directory).is_none() {
                    let expected = "a directory";
                    return Err(CoreError::NoInode { inode: *directory, expected });
                }
                self.history.roots.entry(*directory).or_default();
                self.history.dirty.roots.insert(*directory);
                Ok(())
            }
            Edit::DisallowSnapshot { directory } => {
                if self.root_mut(*directory)?.snapshots.is_empty() {
                    self.history.roots.remove(directory);
                }
                Ok(())
            }
            Edit::CreateSnapshot { directory, name, at_ms } => {
                let id = self.history.next;
                let root = self.root_mut(*directory)?;
                if root.names.contains_key(name) {
                    return Err(CoreError::Exists { inode: *directory });
                }
                root.names.insert(name.clone(), id);
                // The directory's new time is part of the snapshot, so it is set before.
                self.inode_mut(*directory)?.mtime_ms = *at_ms;
                let snapshot = Snapshot { name: name.clone() };
                self.root_mut(*directory)?.snapshots.insert(id, snapshot);
                self.history.live.insert(id, *directory);
                self.history.next = id + 1;
                self.history.dirty.next = true;
                self.history.dirty.snapshots.insert((*directory, id));
                Ok(())
            }
            Edit::RenameSnapshot { directory, from, to, at_ms } => {
                let missing = CoreError::NoInode { inode: *directory, expected: "with it" };
                let root = self.root_mut(*directory)?;
                let id = root.names.remove(from).ok_or(missing)?;
                root.names.insert(to.clone(), id);
                if let Some(snapshot) = root.snapshots.get_mut(&id) {
                    snapshot.name.clone_from(to);
                }
                self.history.dirty.snapshots.insert((*directory, id));
                self.inode_mut(*directory)?.mtime_ms = *at_ms;
                Ok(())
            }
            Edit::DeleteSnapshot { directory, name, at_ms } => {
                let missing = CoreError::NoInode { inode: *directory, expected: "with it" };
                let root = self.root_mut(*directory)?;
                let id = root.names.remove(name).ok_or(missing)?;
                root.snapshots.remove(&id);
                self.history.dirty.snapshots.insert((*directory, id));
                self.forget_snapshot(id);
                self.inode_mut(*directory)?.mtime_ms = *at_ms;
                self.forget_step(FORGET_WITH_EDIT);
                Ok(())
            }
            _ => Err(CoreError::BadRecord),
        }
    }

    fn root_mut(&mut self, id: InodeId) -> Result<&mut Root, CoreError> {
        self.history.dirty.roots.insert(id);
        let root = self.history.roots.get_mut(&id);
        root.ok_or(CoreError::NoInode { inode: id, expected: "snapshottable" })
    }

    /// The directories of a deleted tree may no longer have snapshots. They have none.
    pub(in crate::core) fn forget_roots(&mut self, top: InodeId) {
        let within: Vec<InodeId> =
            self.history.roots.keys().copied().filter(|root| self.is_within(*root, top)).collect();
        for root in within {
            self.history.roots.remove(&root);
            self.history.dirty.roots.insert(root);
        }
    }

    /// The number of a snapshot.
    pub(in crate::core) fn snapshot_id(
        &self,
        directory: InodeId,
        name: &str,
    ) -> Option<SnapshotId> {
        self.history.roots.get(&directory)?.names.get(name).copied()
    }
}

//! What inodes have besides their place: access lists, extended attributes, storage policies and quotas, as the namespace keeps and
//! changes them.

use std::sync::Arc;

use protocol::InodeId;
use protocol::acl::{AclEntry, AclStatus};
use protocol::storage::StoragePolicy;

use super::tree::Namespace;
use crate::core::inodes::{Features, QUOTA_MAX, Quota};
use crate::error::CoreError;

impl Namespace {
    /// The features of an inode, if it has any.
    pub fn features(&self, id: InodeId) -> Option<&Features> {
        self.shared_features(id).map(|features| &**features)
    }

    /// The same, to be kept by a version.
    pub(in crate::core) fn shared_features(&self, id: InodeId) -> Option<&Arc<Features>> {
        match self.features.by_inode.is_empty() {
            true => None,
            false => self.features.by_inode.get(&id),
        }
    }

    /// The stored entries of an inode's list; none without one.
    pub fn acl(&self, id: InodeId) -> &[AclEntry] {
        self.features(id).map_or(&[], |features| &features.acl)
    }

    /// The default list of a directory.
    pub fn default_acl(&self, id: InodeId) -> &[AclEntry] {
        self.features(id).map_or(&[], Features::default_acl)
    }

    pub(super) fn change_features(
        &mut self,
        id: InodeId,
        change: impl FnOnce(&mut Features),
    ) -> Result<(), CoreError> {
        if !self.inodes.contains_key(&id) {
            return Err(CoreError::NoInode { inode: id, expected: "there" });
        }
        self.save(id);
        self.dirty.inodes.insert(id);
        self.features.change(id, change);
        Ok(())
    }

    pub(super) fn erase_features(&mut self, id: InodeId) {
        if self.features(id).is_some() {
            self.features.change(id, |features| *features = Features::default());
        }
    }

    /// Checks that features belong to inodes.
    pub(super) fn check_features(&self) -> Result<(), CoreError> {
        match self.features.by_inode.keys().find(|id| !self.inodes.contains_key(*id)) {
            Some(id) => Err(CoreError::NoInode { inode: *id, expected: "there" }),
            None => Ok(()),
        }
    }

    /// The whole list of an inode.
    pub fn whole_acl(&self, id: InodeId, mode: u16) -> Vec<AclEntry> {
        AclStatus {
            owner: String::new(),
            group: String::new(),
            mode,
            entries: self.acl(id).to_vec(),
        }
        .whole()
    }

    /// The policy that was set for an inode itself.
    pub(in crate::core) fn own_policy(&self, id: InodeId) -> Option<StoragePolicy> {
        match self.features.policy_count() {
            0 => None,
            _ => self.features(id).and_then(Features::policy),
        }
    }

    /// The policy in effect for an inode.
    pub(in crate::core) fn policy(&self, mut id: InodeId) -> Option<StoragePolicy> {
        if self.features.policy_count() == 0 {
            return None;
        }
        loop {
            let own = self.own_policy(id);
            if own.is_some() || id == InodeId::ROOT {
                return own;
            }
            id = self.inode(id)?.parent;
        }
    }

    /// The policy that an inode inherits.
    pub(in crate::core) fn policy_above(&self, id: InodeId) -> Option<StoragePolicy> {
        match self.inode(id) {
            Some(inode) if id != InodeId::ROOT => self.policy(inode.parent),
            _ => None,
        }
    }

    /// The quotas of a directory as calls return them.
    pub fn quota_of(&self, id: InodeId) -> Quota {
        let quota = self.quotas.get(&id).copied().unwrap_or_default();
        match id {
            InodeId::ROOT => Quota { names: quota.names.or(Some(QUOTA_MAX)), ..quota },
            _ => quota,
        }
    }

    /// Sets the quotas of a directory; without any it leaves the table.
    pub(super) fn put_quota(&mut self, id: InodeId, quota: Quota) {
        if quota == Quota::default() {
            self.quotas.remove(&id);
        } else {
            self.quotas.insert(id, quota);
        }
        self.dirty.quotas.insert(id);
    }
}

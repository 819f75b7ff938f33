//! What few inodes have: access control lists and extended attributes, in a table beside the inodes, so that the others cost
//! nothing.
//!
//! Rows of the checkpoint: `f` + inode id + chunk number u32, both big endian -> the next `CHUNK_BYTES` of postcard([`Features`]).
//! Chunks count from 0 without gaps; an inode has no rows if it has no features.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;
use protocol::InodeId;
use protocol::acl::{AclEntry, AclScope};
use protocol::storage::StoragePolicy;
use protocol::xattr::{XattrName, XattrSpace};
use serde::{Deserialize, Serialize};

use super::row::{Row, chunk_key, decode, encode};
use crate::core::stored;
use crate::error::CoreError;

/// First byte of a row.
pub(in crate::core) const ROW_PREFIX: u8 = b'f';
/// Bytes of features in one row: every value of the checkpoint stays under 16 KB.
pub(in crate::core) const CHUNK_BYTES: usize = 8 << 10;

/// HDFS's name of the attribute that holds a storage policy; the value is the policy's number, one byte.
pub(in crate::core) static POLICY_NAME: LazyLock<XattrName> = LazyLock::new(|| XattrName {
    space: XattrSpace::System,
    name: "hsm.block.storage.policy.id".to_owned(),
});

/// The features of one inode.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Features {
    /// Named entries and the group's own of the access list, then the default list, sorted. Owner, mask and others of the access
    /// list are in the permission bits.
    #[serde(with = "stored::entries")]
    pub acl: Vec<AclEntry>,
    /// Extended attributes, sorted by name.
    #[serde(with = "stored::xattrs")]
    pub xattrs: BTreeMap<XattrName, Vec<u8>>,
}

/// The inodes that have features.
#[derive(Default)]
pub(in crate::core) struct FeatureTable {
    /// Shared with the versions that snapshots see.
    pub(in crate::core) by_inode: BTreeMap<InodeId, Arc<Features>>,
    /// Inodes whose rows are out of date, and how many rows the checkpoint has of each.
    dirty: HashMap<InodeId, usize>,
    /// Rows being loaded.
    loading: BTreeMap<InodeId, Vec<u8>>,
    /// How many inodes have a storage policy of their own.
    policy_count: usize,
}

impl Features {
    fn is_empty(&self) -> bool {
        self.acl.is_empty() && self.xattrs.is_empty()
    }

    pub(in crate::core) fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads what [`Features::encode`] wrote.
    pub(in crate::core) fn decode(bytes: &[u8]) -> Result<Self, CoreError> {
        decode(bytes, "features")
    }

    /// The policy that was set here.
    pub(in crate::core) fn policy(&self) -> Option<StoragePolicy> {
        match self.xattrs.get(&*POLICY_NAME)?[..] {
            [id] => StoragePolicy::of_id(id),
            _ => None,
        }
    }

    /// The default list of a directory.
    pub(in crate::core) fn default_acl(&self) -> &[AclEntry] {
        &self.acl[self.acl.partition_point(|entry| entry.scope == AclScope::Access)..]
    }
}

impl FeatureTable {
    fn row_count(&self, id: InodeId) -> usize {
        self.by_inode.get(&id).map_or(0, |features| features.encode().len().div_ceil(CHUNK_BYTES))
    }

    pub(in crate::core) fn change(&mut self, id: InodeId, change: impl FnOnce(&mut Features)) {
        let row_count = self.row_count(id);
        self.dirty.entry(id).or_insert(row_count);
        let mut features = self.by_inode.remove(&id).unwrap_or_default();
        self.policy_count -= usize::from(features.policy().is_some());
        change(Arc::make_mut(&mut features));
        self.policy_count += usize::from(features.policy().is_some());
        if !features.is_empty() {
            self.by_inode.insert(id, features);
        }
    }

    /// How many inodes have a storage policy of their own.
    pub(in crate::core) fn policy_count(&self) -> usize {
        self.policy_count
    }

    /// The rows that changed since the last call.
    pub(in crate::core) fn take_rows(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (id, count_before) in std::mem::take(&mut self.dirty) {
            let features = self.by_inode.get(&id);
            let bytes = features.map(|features| features.encode()).unwrap_or_default();
            let mut chunks = bytes.chunks(CHUNK_BYTES);
            let count = chunks.len().max(count_before);
            rows.extend((0..count).map(|number| {
                (chunk_key(ROW_PREFIX, id, number), chunks.next().map(<[u8]>::to_vec))
            }));
        }
        rows
    }

    /// Takes a row; the chunks of an inode come in order.
    pub(in crate::core) fn load_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), CoreError> {
        let bad = CoreError::BadRow("features");
        let (id, number) = key.split_at_checked(8).ok_or_else(|| bad.clone())?;
        let id = InodeId(u64::from_be_bytes(id.try_into().map_err(|_| bad.clone())?));
        let number = u32::from_be_bytes(number.try_into().map_err(|_| bad.clone())?);
        let bytes = self.loading.entry(id).or_default();
        if bytes.len() != number as usize * CHUNK_BYTES || value.is_empty() {
            return Err(bad);
        }
        bytes.extend_from_slice(value);
        Ok(())
    }

    /// Decodes what was loaded.
    pub(in crate::core) fn finish_load(&mut self) -> Result<(), CoreError> {
        for (id, bytes) in std::mem::take(&mut self.loading) {
            let features = Features::decode(&bytes)?;
            self.policy_count += usize::from(features.policy().is_some());
            self.by_inode.insert(id, Arc::new(features));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use protocol::acl::AclKind;
    use protocol::permission::Action;

    use super::*;

    fn rows_of(table: &mut FeatureTable) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        table.take_rows().into_iter().collect()
    }

    fn name(text: &str) -> XattrName {
        XattrName { space: XattrSpace::User, name: text.to_owned() }
    }

    #[test]
    fn golden_bytes() {
        let mut table = FeatureTable::default();
        let entry = AclEntry {
            scope: AclScope::Access,
            kind: AclKind::User,
            name: Some("bob".to_owned()),
            action: Action::READ_WRITE,
        };
        table.change(InodeId(0x102), |features| {
            features.acl.push(entry);
            features.xattrs.insert(name("a"), vec![7]);
        });
        let key = vec![b'f', 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0];
        let value = vec![1, 0, 0, 1, 3, b'b', b'o', b'b', 6, 1, 0, 1, b'a', 1, 7];
        assert_eq!(rows_of(&mut table), [(key.clone(), Some(value.clone()))].into());
        for end in 0..value.len() {
            let mut loaded = FeatureTable::default();
            let outcome =
                loaded.load_row(&key[1..], &value[..end]).and_then(|()| loaded.finish_load());
            assert!(outcome.is_err(), "cut at {end}");
        }
        let mut longer = value;
        longer.push(0);
        let mut loaded = FeatureTable::default();
        loaded.load_row(&key[1..], &longer).unwrap();
        assert!(loaded.finish_load().is_err());
        assert!(loaded.load_row(&key[1..9], &[1]).is_err(), "a short key");
    }

    #[test]
    fn large_features_span_rows_and_shrink() {
        let mut table = FeatureTable::default();
        let id = InodeId(5);
        table.change(id, |features| {
            features.xattrs.insert(name("a"), vec![1; 16_000]);
            features.xattrs.insert(name("b"), vec![2; 16_000]);
        });
        let rows = rows_of(&mut table);
        assert_eq!(rows.len(), 4);
        let mut loaded = FeatureTable::default();
        for (key, value) in &rows {
            loaded.load_row(&key[1..], value.as_ref().unwrap()).unwrap();
        }
        loaded.finish_load().unwrap();
        assert_eq!(loaded.by_inode, table.by_inode);
        let mut gap = FeatureTable::default();
        let second = rows.iter().nth(1).unwrap();
        assert!(gap.load_row(&second.0[1..], second.1.as_ref().unwrap()).is_err());
        table.change(id, |features| drop(features.xattrs.remove(&name("b"))));
        table.change(id, |features| drop(features.xattrs.remove(&name("x"))));
        let rows = rows_of(&mut table);
        assert_eq!(
            rows.values().map(Option::is_some).collect::<Vec<_>>(),
            [true, true, false, false]
        );
        table.change(id, |features| *features = Features::default());
        assert!(rows_of(&mut table).values().all(Option::is_none));
        assert!(table.by_inode.is_empty());
    }
}

//! Storage policies: on which kinds of storage HDFS would keep the replicas of a file. Here all storage is of one kind, [`StorageType::Disk`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageType {
    /// Memory that looks like a disk.
    RamDisk,
    /// Solid state disks.
    Ssd,
    /// Disks; every data directory of a DataNode is one.
    Disk,
    /// Dense storage with little compute power.
    Archive,
    /// Memory that keeps its contents.
    Nvdimm,
    /// Storage outside the cluster.
    Provided,
}

/// A storage policy. Append only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum StoragePolicy {
    /// One replica outside the cluster, the others on disks.
    Provided,
    /// All on archives.
    Cold,
    /// One on a disk, the others on archives.
    Warm,
    /// All on disks; the policy where none was set.
    Hot,
    /// One on a solid state disk, the others on disks.
    OneSsd,
    /// All on solid state disks.
    AllSsd,
    /// All in memory that keeps its contents.
    AllNvdimm,
    /// One in memory at first, the others on disks.
    LazyPersist,
}

/// HDFS's definition of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its number.
    pub id: u8,
    /// Its name.
    pub name: &'static str,
    /// Kinds of storage in the order of replicas; the last kind is for all further replicas.
    pub storage_types: &'static [StorageType],
    /// Kinds used instead when a file is written.
    pub creation_fallbacks: &'static [StorageType],
    /// Kinds used instead when a replica is copied.
    pub replication_fallbacks: &'static [StorageType],
    /// New files keep the policy for good, wherever they are moved.
    pub copy_on_create: bool,
}

impl StorageType {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            StorageType::RamDisk => "RAM_DISK",
            StorageType::Ssd => "SSD",
            StorageType::Disk => "DISK",
            StorageType::Archive => "ARCHIVE",
            StorageType::Nvdimm => "NVDIMM",
            StorageType::Provided => "PROVIDED",
        }
    }
}

impl StoragePolicy {
    /// All, in the order of their numbers.
    pub const ALL: [StoragePolicy; 8] = [
        StoragePolicy::Provided,
        StoragePolicy::Cold,
        StoragePolicy::Warm,
        StoragePolicy::Hot,
        StoragePolicy::OneSsd,
        StoragePolicy::AllSsd,
        StoragePolicy::AllNvdimm,
        StoragePolicy::LazyPersist,
    ];

    /// HDFS's definition of it.
    pub fn definition(self) -> Definition {
        use StorageType::{Archive, Disk, Nvdimm, Provided, RamDisk, Ssd};
        type Types = &'static [StorageType];
        let (id, name, storage_types, creation_fallbacks, replication_fallbacks): (
            u8,
            &'static str,
            Types,
            Types,
            Types,
        ) = match self {
            Self::Provided => {
                let types: Types = &[Provided, Disk];
                (1, "PROVIDED", types, types, types)
            }
            Self::Cold => (2, "COLD", &[Archive], &[], &[]),
            Self::Warm => {
                let types: Types = &[Disk, Archive];
                (5, "WARM", types, types, types)
            }
            Self::Hot => (7, "HOT", &[Disk], &[], &[Archive]),
            Self::OneSsd => {
                let types: Types = &[Ssd, Disk];
                (10, "ONE_SSD", types, types, types)
            }
            Self::AllSsd => (12, "ALL_SSD", &[Ssd], &[Disk], &[Disk]),
            Self::AllNvdimm => (14, "ALL_NVDIMM", &[Nvdimm], &[Disk], &[Disk]),
            Self::LazyPersist => (15, "LAZY_PERSIST", &[RamDisk, Disk], &[Disk], &[Disk]),
        };
        let copy_on_create = self == Self::LazyPersist;
        Definition {
            id,
            name,
            storage_types,
            creation_fallbacks,
            replication_fallbacks,
            copy_on_create,
        }
    }

    /// The policy of this number.
    pub fn of_id(id: u8) -> Option<StoragePolicy> {
        Self::ALL.into_iter().find(|policy| policy.definition().id == id)
    }

    /// The policy of this name, in any case.
    pub fn of_name(name: &str) -> Option<StoragePolicy> {
        Self::ALL.into_iter().find(|policy| policy.definition().name.eq_ignore_ascii_case(name))
    }

    /// True if HDFS would write files of this policy even where there are only disks.
    pub fn takes_disks(self) -> bool {
        let Definition { storage_types, creation_fallbacks, .. } = self.definition();
        [storage_types, creation_fallbacks].concat().contains(&StorageType::Disk)
    }

    /// The part of the policy that has no effect here, to warn whoever sets it; `None` for [`StoragePolicy::Hot`].
    pub fn unhonoured(self) -> Option<String> {
        let Definition { name, storage_types, .. } = self.definition();
        let others = storage_types.iter().filter(|kind| **kind != StorageType::Disk);
        let others: Vec<&str> = others.map(|kind| kind.as_str()).collect();
        (!others.is_empty()).then(|| {
            format!(
                "the storage policy {name} is kept, but there is no {} here: all replicas are on DISK",
                others.join(", ")
            )
        })
    }
}

impl fmt::Display for StorageType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// As HDFS prints a policy.
impl fmt::Display for StoragePolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |types: &[StorageType]| {
            let names: Vec<&str> = types.iter().map(|kind| kind.as_str()).collect();
            names.join(", ")
        };
        let policy = self.definition();
        write!(
            out,
            "BlockStoragePolicy{{{}:{}, storageTypes=[{}], creationFallbacks=[{}], replicationFallbacks=[{}]}}",
            policy.name,
            policy.id,
            list(policy.storage_types),
            list(policy.creation_fallbacks),
            list(policy.replication_fallbacks)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_hdfss() {
        let ids: Vec<u8> = StoragePolicy::ALL.iter().map(|policy| policy.definition().id).collect();
        assert_eq!(ids, [1, 2, 5, 7, 10, 12, 14, 15]);
        for policy in StoragePolicy::ALL {
            let Definition { id, name, .. } = policy.definition();
            assert_eq!(StoragePolicy::of_id(id), Some(policy));
            assert_eq!(StoragePolicy::of_name(&name.to_lowercase()), Some(policy));
        }
        assert_eq!((StoragePolicy::of_id(0), StoragePolicy::of_name("x")), (None, None));
        assert_eq!(
            StoragePolicy::Hot.to_string(),
            "BlockStoragePolicy{HOT:7, storageTypes=[DISK], creationFallbacks=[], replicationFallbacks=[ARCHIVE]}"
        );
        assert_eq!(
            StoragePolicy::OneSsd.to_string(),
            "BlockStoragePolicy{ONE_SSD:10, storageTypes=[SSD, DISK], creationFallbacks=[SSD, DISK], replicationFallbacks=[SSD, DISK]}"
        );
    }

    #[test]
    fn what_needs_other_storage_than_disks_is_known() {
        let refused: Vec<_> =
            StoragePolicy::ALL.into_iter().filter(|policy| !policy.takes_disks()).collect();
        assert_eq!(refused, [StoragePolicy::Cold]);
        let silent: Vec<_> =
            StoragePolicy::ALL.into_iter().filter(|policy| policy.unhonoured().is_none()).collect();
        assert_eq!(silent, [StoragePolicy::Hot]);
        assert_eq!(
            StoragePolicy::Warm.unhonoured().unwrap(),
            "the storage policy WARM is kept, but there is no ARCHIVE here: all replicas are on DISK"
        );
    }
}

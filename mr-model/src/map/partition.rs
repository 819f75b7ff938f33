//! Which reduce task receives a key.

use std::sync::Arc;

use shuffle::{GroupPrefix, KeyRanges};

use crate::datum::{Datum, Key};

/// Chooses the reduce task of a key. Without one, keys are spread by a hash of their encoding that is the same everywhere.
pub trait Partitioner<K: Key>: Send + Sync + 'static {
    /// A number below `partitions`. It must depend only on the arguments.
    fn partition(&self, key: K::View<'_>, partitions: u32) -> u32;
}

impl<K: Key, C> Partitioner<K> for C
where
    C: Fn(K::View<'_>, u32) -> u32 + Send + Sync + 'static,
{
    fn partition(&self, key: K::View<'_>, partitions: u32) -> u32 {
        self(key, partitions)
    }
}

/// Seed of the hash partitioner: a constant, so that partition numbers are the same for all jobs, runs and machines.
pub const PARTITION_SEED: u64 = 0;

/// Chooses the partition of an encoded key.
type PartitionFn = dyn Fn(&[u8], u32) -> u32 + Send + Sync;

/// A partitioner of encoded keys.
#[derive(Clone, Default)]
pub enum Partition {
    /// By the hash of the key.
    #[default]
    Hash,
    /// By a function of the encoded key and the number of partitions.
    Custom(Arc<PartitionFn>),
    /// By ranges that the driver finds: see `engine::total_order`.
    Sampled,
    /// By ranges of keys, or of their grouping parts.
    Ranges(Arc<KeyRanges>, Option<GroupPrefix>),
}

impl Partition {
    pub(crate) fn custom<K: Key>(partitioner: impl Partitioner<K>) -> Self {
        Partition::Custom(Arc::new(move |bytes, partitions| {
            let key = K::read(bytes).expect("a key decodes as what it was encoded from");
            partitioner.partition(key, partitions)
        }))
    }

    /// Spreads by a hash of the part of the key that groups.
    pub(crate) fn prefix(prefix_bytes: GroupPrefix) -> Self {
        Partition::Custom(Arc::new(move |bytes, partitions| {
            shuffle::partition_of(&bytes[..prefix_bytes(bytes)], partitions, PARTITION_SEED)
        }))
    }

    #[inline]
    pub(crate) fn of(&self, key: &[u8], partitions: u32) -> u32 {
        match self {
            Partition::Hash => shuffle::partition_of(key, partitions, PARTITION_SEED),
            Partition::Custom(choose) => choose(key, partitions),
            Partition::Ranges(ranges, prefix) => in_ranges(ranges, *prefix, key, partitions),
            // A map task resolves this before its first pair; a partition beyond the last is refused.
            Partition::Sampled => partitions,
        }
    }

    /// In the form that the combining writer needs.
    pub(crate) fn to_shuffle(&self, partitions: u32) -> shuffle::Partitioning {
        match self {
            Partition::Hash => shuffle::Partitioning::Hash,
            Partition::Custom(choose) => {
                let choose = Arc::clone(choose);
                shuffle::Partitioning::Custom(Box::new(move |key| choose(key, partitions)))
            }
            Partition::Sampled | Partition::Ranges(..) => {
                let by_range = self.clone();
                shuffle::Partitioning::Custom(Box::new(move |key| by_range.of(key, partitions)))
            }
        }
    }

    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Partition::Hash => "hash",
            Partition::Custom(_) => "custom",
            Partition::Sampled | Partition::Ranges(..) => "total order",
        }
    }
}

/// With fewer reduces than ranges, the last one takes the rest.
#[inline]
fn in_ranges(ranges: &KeyRanges, prefix: Option<GroupPrefix>, key: &[u8], partitions: u32) -> u32 {
    let key = match prefix {
        Some(prefix_bytes) => &key[..prefix_bytes(key)],
        None => key,
    };
    ranges.partition(key).min(partitions.saturating_sub(1))
}

/// A tuple key whose first element groups and whose rest only sorts; see [`crate::Job::group_by_first`].
pub trait FirstElement: Key {
    /// The first element.
    type First: Key;
}

macro_rules! first_element {
    ($($rest:ident)+) => {
        impl<A: Key, $($rest: Key),+> FirstElement for (A, $($rest),+) {
            type First = A;
        }
    };
}

first_element!(B);
first_element!(B C);
first_element!(B C D);
first_element!(B C D E);
first_element!(B C D E F);

/// Length of the first element's encoding.
pub fn first_element_bytes<K: FirstElement>(key: &[u8]) -> usize {
    let mut rest = key;
    match K::First::read_part(&mut rest) {
        Ok(_) => key.len() - rest.len(),
        Err(_) => key.len(),
    }
}

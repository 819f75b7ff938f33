//! The reduce task that a key belongs to.
//!
//! `partition = (xxh3_64(key, seed) as u128 * partitions as u128) >> 64`, the same on every machine and in every version: map tasks of one
//! job must agree, wherever they run.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};

/// Partition of `key` among `partitions`: xxh3-64 of the encoded key with `seed`, scaled to the range by a multiplication.
///
/// ```
/// // Stable across machines and releases.
/// assert_eq!(shuffle::partition_of(b"the", 4, 0), 3);
/// assert!(shuffle::partition_of(b"the", 1000, 0) == 793);
/// ```
#[inline]
pub fn partition_of(key: &[u8], partitions: u32, seed: u64) -> u32 {
    if partitions <= 1 {
        return 0;
    }
    ((u128::from(xxh3_64_with_seed(key, seed)) * u128::from(partitions)) >> 64) as u32
}

/// A job's own function that chooses the partition of an encoded key.
pub type PartitionFn = Box<dyn Fn(&[u8]) -> u32 + Send>;

/// How a [`crate::CombiningWriter`] finds the partition of a key, which it needs only when it writes.
pub enum Partitioning {
    /// [`partition_of`] with the seed of the options.
    Hash,
    /// The job's own function of the encoded key.
    Custom(PartitionFn),
}

impl Partitioning {
    /// The partition of `key`, checked against the number of partitions.
    #[inline]
    pub(crate) fn partition(&self, key: &[u8], partitions: u32, seed: u64) -> Result<u32> {
        match self {
            Self::Hash => Ok(partition_of(key, partitions, seed)),
            Self::Custom(choose) => check_partition(choose(key), partitions),
        }
    }
}

impl fmt::Debug for Partitioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hash => "Hash",
            Self::Custom(_) => "Custom",
        })
    }
}

#[inline(always)]
pub(crate) fn check_partition(partition: u32, partitions: u32) -> Result<u32> {
    if partition < partitions {
        Ok(partition)
    } else {
        Err(Error::PartitionOutOfRange { partition, partitions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hashes are the published xxh3-64 values, so any other implementation agrees with ours.
    #[test]
    fn golden_partitions() {
        assert_eq!(xxh3_64_with_seed(b"", 0), 0x2d06_8005_38d3_94c2);
        let cases: [(&[u8], u32, u64); 6] = [
            (b"", 7, 0),
            (b"a", 7, 0),
            (b"the", 1000, 0),
            (b"the", 1000, 1),
            (b"hadoop", 64, 42),
            (b"x", u32::MAX, 9),
        ];
        let got: Vec<u32> =
            cases.iter().map(|(key, n, seed)| partition_of(key, *n, *seed)).collect();
        assert_eq!(got, GOLDEN);
    }

    const GOLDEN: [u32; 6] = [1, 6, 793, 657, 51, 3_154_225_333];

    #[test]
    fn spreads_evenly_and_stays_in_range() {
        let mut counts = [0u32; 8];
        for i in 0..8000u32 {
            counts[partition_of(&i.to_be_bytes(), 8, 5) as usize] += 1;
        }
        assert!(counts.iter().all(|c| (850..1150).contains(c)), "{counts:?}");
        assert_eq!(partition_of(b"anything", 1, 3), 0);
        assert_eq!(partition_of(b"anything", 0, 3), 0);
    }

    #[test]
    fn custom_partitions_are_checked() {
        let odd = Partitioning::Custom(Box::new(|key| key.len() as u32));
        assert_eq!(odd.partition(b"ab", 3, 0).unwrap(), 2);
        assert!(matches!(
            odd.partition(b"abc", 3, 0),
            Err(Error::PartitionOutOfRange { partition: 3, partitions: 3 })
        ));
    }
}

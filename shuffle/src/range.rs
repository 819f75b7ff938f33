//! Key ranges: partitions whose concatenation in order is sorted as a whole.
//!
//! Partition `p` holds the keys from boundary `p - 1` (included) up to boundary `p` (excluded). Boundaries are bytes that compare with
//! keys. They need not be keys themselves, so the shortest bytes that separate two samples suffice.
//!
//! Invariants: boundaries never decrease; equal keys go to one partition; every key has a partition, whatever the sample was.

use crate::key::{common_prefix, prefix};

/// Boundaries of ranges of keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyRanges {
    /// First eight bytes of each boundary, as a number: these alone place most keys.
    prefixes: Vec<u64>,
    boundaries: Vec<Vec<u8>>,
}

impl KeyRanges {
    /// Ranges between given boundaries; `None` if these decrease.
    pub fn new(boundaries: Vec<Vec<u8>>) -> Option<Self> {
        if !boundaries.is_sorted() {
            return None;
        }
        let prefixes = boundaries.iter().map(|boundary| prefix(boundary)).collect();
        Some(Self { prefixes, boundaries })
    }

    /// At most `partitions` ranges that each hold about as many of the sampled keys. Fewer, if there are too few different keys.
    ///
    /// ```
    /// let sample = ["pear", "apple", "fig", "plum"].map(|key| key.as_bytes().to_vec());
    /// let ranges = shuffle::KeyRanges::from_sample(sample.to_vec(), 2);
    /// assert_eq!(ranges.boundaries(), [b"p"]);
    /// assert_eq!((ranges.partition(b"orange"), ranges.partition(b"peach")), (0, 1));
    /// ```
    pub fn from_sample(mut sample: Vec<Vec<u8>>, partitions: u32) -> Self {
        sample.sort_unstable();
        let (mut boundaries, mut at): (Vec<Vec<u8>>, usize) = (Vec::new(), 0);
        for partition in 1..u64::from(partitions) {
            let wanted = (sample.len() as u64 * partition / u64::from(partitions)) as usize;
            at = at.max(wanted);
            let below = boundaries.last();
            // A boundary is between two different keys, above the boundary before it.
            while sample.get(at).is_some_and(|key| {
                at == 0 || sample[at - 1] == *key || below.is_some_and(|below| below >= key)
            }) {
                at += 1;
            }
            let Some(key) = sample.get(at) else { break };
            let shared = common_prefix(&sample[at - 1], key);
            let length = (shared + 1).min(key.len()).min(BOUNDARY_BYTES_MAX);
            boundaries.push(key[..length].to_vec());
            at += 1;
        }
        Self::new(boundaries).unwrap_or_default()
    }

    /// The boundaries, one fewer than there are ranges.
    pub fn boundaries(&self) -> &[Vec<u8>] {
        &self.boundaries
    }

    /// The range of `key`: the number of boundaries at or below it.
    #[inline]
    pub fn partition(&self, key: &[u8]) -> u32 {
        let head = prefix(key);
        let at = self.prefixes.partition_point(|boundary| *boundary < head);
        if self.prefixes.get(at) != Some(&head) {
            return at as u32;
        }
        (at + self.boundaries[at..].partition_point(|boundary| boundary.as_slice() <= key)) as u32
    }
}

/// Longest boundary (1 KiB): keys with this many equal bytes are not separated, which costs balance, not order.
const BOUNDARY_BYTES_MAX: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let byte = prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()];
        // The bytes after a common prefix of eight or more decide.
        let front =
            prop_oneof![Just(&b""[..]), Just(&b"/a/path/"[..]), Just(&b"/a/path/of/many"[..])];
        let key = (front, prop::collection::vec(byte, 0..12))
            .prop_map(|(front, rest)| [front, &rest[..]].concat());
        prop::collection::vec(key, 0..200)
    }

    proptest! {
        #[test]
        fn ranges_order_all_keys(sample in keys(), others in keys(), partitions in 1u32..9) {
            let ranges = KeyRanges::from_sample(sample.clone(), partitions);
            prop_assert!(ranges.boundaries().len() < partitions as usize);
            let slow = |key: &Vec<u8>| ranges.boundaries().iter().filter(|boundary| *boundary <= key).count() as u32;
            let mut all: Vec<Vec<u8>> = sample.into_iter().chain(others).collect();
            all.sort();
            for key in &all {
                prop_assert_eq!(ranges.partition(key), slow(key));
            }
            prop_assert!(all.iter().map(|key| ranges.partition(key)).is_sorted());
        }
    }

    #[test]
    fn ranges_of_a_fair_sample_are_balanced() {
        let sample: Vec<Vec<u8>> = (0..10_000u32).map(|i| i.to_be_bytes().to_vec()).collect();
        let ranges = KeyRanges::from_sample(sample.clone(), 7);
        let mut counts = [0; 7];
        sample.iter().for_each(|key| counts[ranges.partition(key) as usize] += 1);
        assert!(counts.iter().all(|count| (1428..=1429).contains(count)), "{counts:?}");
    }

    #[test]
    fn one_key_alone_takes_one_range_and_long_keys_short_boundaries() {
        let mut sample = vec![b"same".to_vec(); 90];
        sample.extend((0..10u8).map(|i| vec![b't', i]));
        let ranges = KeyRanges::from_sample(sample, 4);
        assert_eq!(ranges.boundaries()[0], b"t", "as short as it can be");
        assert_eq!(ranges.partition(b"same"), 0);
        let long = |last: u8| [vec![7; 5000], vec![last]].concat();
        let ranges = KeyRanges::from_sample(vec![long(1), long(2)], 2);
        assert_eq!(ranges.boundaries(), [vec![7; BOUNDARY_BYTES_MAX]]);
        assert!(KeyRanges::new(vec![b"b".to_vec(), b"a".to_vec()]).is_none());
    }
}

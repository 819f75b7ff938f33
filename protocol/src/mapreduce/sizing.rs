//! Chooses the number of reduces for a job that specifies none, from the exact sizes of its map outputs.
//!
//! Maps cut their output into more partitions than there will be reduces. When all maps are done, neighbouring partitions become one reduce. Invariants: every
//! partition belongs to exactly one reduce; reduces are in the order of their partitions (so an output that is sorted as a whole stays sorted); the same sizes
//! always give the same reduces.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::rounds;

/// A smaller reduce is not worth its start.
const REDUCE_BYTES_MIN: u64 = 64 << 20;
/// A larger reduce loses too much when it fails and makes the job wait too long for the last one: better several in a row in one slot.
const REDUCE_BYTES_MAX: u64 = 1 << 30;
/// Partitions per slot: this many reduces can follow each other there, which sets how finely the load can be balanced.
const PARTITIONS_PER_SLOT: u64 = 4;
/// Most partitions made while reduces are not chosen yet; each is a segment of every map output.
const PARTITIONS_MAX: u64 = 1024;
/// Most sizes that the maps of a job report together: some 400 MB in the JobTracker's journal. In memory there is one sum for each partition.
pub const SIZES_MAX: u64 = 1 << 27;
/// Least input of a partition: a small job has one reduce, and nothing to choose.
pub const PARTITION_INPUT_BYTES_MIN: u64 = 4 << 20;

/// Most input of a task of a round, where there are more slots' worth: a task that fails or is lost costs no more than that.
const ROUND_INPUT_BYTES_MAX: u64 = 256 << 20;

/// Number of tasks of each round of a job that was given none: one for each slot, and more only to keep each small.
pub fn round_partitions(input_bytes: u64, slot_count: u32) -> u32 {
    let most =
        input_bytes.div_ceil(PARTITION_INPUT_BYTES_MIN).min(u64::from(rounds::PARTITIONS_MAX));
    let count = u64::from(slot_count).max(input_bytes.div_ceil(ROUND_INPUT_BYTES_MAX));
    u32::try_from(count.min(most).max(1)).expect("the most partitions are a u32")
}

/// The inputs of the choice of reduces, besides the sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReduceSizing {
    /// Slots of the cluster when the job was submitted: with a later count, a job would have other files after a fault than without one.
    pub slot_count: u32,
}

impl ReduceSizing {
    /// Number of partitions that maps cut their output into; 1 means that there is nothing left to choose.
    pub fn partitions(self, input_bytes: u64, map_count: usize) -> u32 {
        let count = (u64::from(self.slot_count) * PARTITIONS_PER_SLOT)
            .min(input_bytes.div_ceil(PARTITION_INPUT_BYTES_MIN))
            .min(SIZES_MAX / (map_count as u64).max(1))
            .clamp(1, PARTITIONS_MAX);
        u32::try_from(count).expect("the most partitions are a u32")
    }

    /// Chooses the reduces for partitions of these sizes; returns the end (exclusive) of each one's range of partitions. At most one reduce per partition, at
    /// least one.
    pub fn choose(self, bytes: &[u64]) -> Vec<u32> {
        let total = bytes.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        let share = total.div_ceil(u64::from(self.slot_count.max(1)));
        let count = total.div_ceil(share.clamp(REDUCE_BYTES_MIN, REDUCE_BYTES_MAX)).max(1);
        // The smallest bound that needs no more reduces than that.
        let (mut low, mut high) = (bytes.iter().copied().max().unwrap_or(0), total);
        while low < high {
            let bound = low + (high - low) / 2;
            if cut(bytes, bound).len() as u64 <= count {
                high = bound;
            } else {
                low = bound + 1;
            }
        }
        cut(bytes, low)
    }
}

/// The partitions of one of the chosen reduces.
pub fn partitions_of(ends: &[u32], reduce: u32) -> Range<u32> {
    let end = |index: usize| ends.get(index).copied().unwrap_or(0);
    let index = reduce as usize;
    let start = index.checked_sub(1).map_or(0, end);
    start..end(index).max(start)
}

/// Cuts into as few groups of neighbours as possible, none above `bound` (which no single one exceeds).
fn cut(bytes: &[u64], bound: u64) -> Vec<u32> {
    let (mut ends, mut held) = (Vec::new(), 0u64);
    for (index, bytes) in (0u32..).zip(bytes) {
        match held.checked_add(*bytes).filter(|sum| *sum <= bound) {
            Some(sum) => held = sum,
            None => {
                ends.push(index);
                held = *bytes;
            }
        }
    }
    ends.push(u32::try_from(bytes.len()).expect("the number of partitions is a u32"));
    ends
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn rounds_use_all_slots_and_keep_their_tasks_small() {
        for (mib, slots, count) in
            [(1, 8, 1), (9, 8, 3), (400, 2, 2), (4096, 2, 16), (1 << 30, 2, 4096)]
        {
            assert_eq!(round_partitions(mib << 20, slots), count, "{mib} MiB on {slots} slots");
        }
    }

    #[test]
    fn reduces_have_a_size_that_is_worth_it() {
        for (slot_count, sizes, ends) in [
            (2, vec![0; 8], vec![8]),
            (2, vec![MIB; 8], vec![8]),
            (2, vec![8 * MIB; 8], vec![8]),
            (2, vec![32 * MIB; 8], vec![4, 8]),
            (8, vec![32 * MIB; 8], vec![2, 4, 6, 8]),
            // A byte that cannot be shared evenly does not add a reduce.
            (2, [vec![100 * MIB; 7], vec![100 * MIB + 1]].concat(), vec![4, 8]),
            // Several in a row per slot where a reduce would exceed a gigabyte.
            (2, vec![1024 * MIB; 8], vec![1, 2, 3, 4, 5, 6, 7, 8]),
            // A large partition stands alone.
            (4, vec![10 * MIB, 10 * MIB, 500 * MIB, 10 * MIB], vec![2, 3, 4]),
            (0, vec![1], vec![1]),
            (3, vec![u64::MAX, u64::MAX], vec![1, 2]),
        ] {
            assert_eq!(ReduceSizing { slot_count }.choose(&sizes), ends, "{slot_count} {sizes:?}");
        }
    }

    #[test]
    fn partitions_are_bounded() {
        for (slot_count, input, maps, count) in [
            (2, 0, 0, 1),
            (2, 4 * MIB, 1, 1),
            (2, 20 * MIB, 1, 5),
            (2, 1024 * MIB, 8, 8),
            (100, 1 << 40, 8192, 400),
            (5000, 1 << 43, 100_000, 1024),
            (5000, 1 << 46, 1_000_000, 134),
            (5000, 1 << 40, 100, 1024),
            (0, 1 << 40, 100, 1),
        ] {
            assert_eq!(ReduceSizing { slot_count }.partitions(input, maps), count);
        }
    }

    #[test]
    fn each_reduce_knows_its_partitions() {
        assert_eq!(partitions_of(&[2, 5, 6], 0), 0..2);
        assert_eq!(partitions_of(&[2, 5, 6], 1), 2..5);
        assert_eq!(partitions_of(&[2, 5, 6], 2), 5..6);
        assert!(partitions_of(&[2, 5, 6], 3).is_empty());
        assert!(partitions_of(&[5, 2], 1).is_empty());
    }

    /// The smallest possible size of the largest group, with `bytes` in at most `count` groups of neighbours; tries all.
    fn best(bytes: &[u64], count: u64) -> u64 {
        if count <= 1 || bytes.len() <= 1 {
            return bytes.iter().sum();
        }
        let first =
            |end: usize| bytes[..end].iter().sum::<u64>().max(best(&bytes[end..], count - 1));
        (1..=bytes.len()).map(first).min().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn as_even_as_neighbours_allow(
            bytes in prop::collection::vec(0..200u64 * MIB, 1..9),
            slot_count in 1..6u32,
        ) {
            let ends = ReduceSizing { slot_count }.choose(&bytes);
            prop_assert_eq!(*ends.last().unwrap() as usize, bytes.len());
            let ranges: Vec<_> = (0..ends.len() as u32).map(|reduce| partitions_of(&ends, reduce)).collect();
            prop_assert!(ranges.iter().all(|range| !range.is_empty()));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            let sum = |range: &Range<u32>| bytes[range.start as usize..range.end as usize].iter().sum::<u64>();
            let total: u64 = bytes.iter().sum();
            let size = total.div_ceil(u64::from(slot_count)).clamp(REDUCE_BYTES_MIN, REDUCE_BYTES_MAX);
            let count = total.div_ceil(size).max(1);
            prop_assert!(ranges.len() as u64 <= count);
            prop_assert_eq!(ranges.iter().map(sum).max().unwrap(), best(&bytes, count));
        }
    }
}

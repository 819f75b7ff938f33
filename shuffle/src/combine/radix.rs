//! Sorting in place by (partition, first word, rest), without memory beside the items: radix passes that exchange them.

use std::cmp::Ordering;

/// How items compare.
pub(super) struct Keys<P, W, C> {
    /// The partition.
    pub(super) partition: P,
    /// The first eight key bytes as a number that compares as they do.
    pub(super) word: W,
    /// The whole order.
    pub(super) compare: C,
}

impl<P, W, C> Keys<P, W, C> {
    /// Sorts `items`; equal ones in any order.
    pub(super) fn sort<T>(&self, items: &mut [T], partitions: u32)
    where
        P: Fn(&T) -> u32,
        W: Fn(&T) -> u64,
        C: Fn(&T, &T) -> Ordering,
    {
        if items.len() <= COMPARISON_SORT_MAX || partitions as usize > items.len() {
            return items.sort_unstable_by(&self.compare);
        }
        let partition = |item: &T| (self.partition)(item) as usize;
        let mut ends = vec![0; partitions as usize];
        spread(items, &mut vec![0; partitions as usize], &mut ends, partition);
        let mut start = 0;
        for end in ends {
            self.sort_by_word(&mut items[start..end as usize], u64::BITS - 8);
            start = end as usize;
        }
    }

    /// Sorts items of one partition whose words differ only below `shift + 8`.
    fn sort_by_word<T>(&self, items: &mut [T], shift: u32)
    where
        W: Fn(&T) -> u64,
        C: Fn(&T, &T) -> Ordering,
    {
        if items.len() <= COMPARISON_SORT_MAX {
            return items.sort_unstable_by(&self.compare);
        }
        let mut ends = [0; 256];
        spread(items, &mut [0; 256], &mut ends, |item| ((self.word)(item) >> shift) as u8 as usize);
        let mut start = 0;
        for end in ends {
            let range = &mut items[start..end as usize];
            match shift.checked_sub(8) {
                Some(shift) => self.sort_by_word(range, shift),
                None => range.sort_unstable_by(&self.compare),
            }
            start = end as usize;
        }
    }
}

/// Exchanges items until each is among those of its digit, and sets the `ends` of the digits. Both slices come as zeros. Numbers of items fit
/// 32 bits.
fn spread<T>(items: &mut [T], starts: &mut [u32], ends: &mut [u32], digit: impl Fn(&T) -> usize) {
    for item in &*items {
        ends[digit(item)] += 1;
    }
    let mut sum = 0;
    for (start, end) in starts.iter_mut().zip(&mut *ends) {
        *start = sum;
        sum += *end;
        *end = sum;
    }
    for own in 0..ends.len() {
        while starts[own] < ends[own] {
            let at = starts[own] as usize;
            let home = digit(&items[at]);
            if home != own {
                items.swap(at, starts[home] as usize);
            }
            starts[home] += 1;
        }
    }
}

/// Up to this many items are sorted by comparison instead of by another radix pass.
const COMPARISON_SORT_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sorts_as_the_library_does(mut items in prop::collection::vec((0u32..5, prop_oneof![0u64..4, any::<u64>(), Just(u64::MAX)], 0u8..3), 0..2000), partitions in 5u32..3000) {
            let mut want = items.clone();
            want.sort_unstable();
            Keys { partition: |item: &(u32, u64, u8)| item.0, word: |item: &(u32, u64, u8)| item.1, compare: Ord::cmp }
                .sort(&mut items, partitions);
            prop_assert_eq!(items, want);
        }
    }
}

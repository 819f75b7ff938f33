//! Numbers that follow from a seed.

use std::ops::Range;
use std::time::Duration;

/// A generator (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in a range that is not empty.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.within(0..end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }

    pub(crate) fn micros(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.within(range))
    }

    pub(crate) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }
}

//! Numbers that follow from a seed.

use std::ops::Range;
use std::time::Duration;

/// A generator (SplitMix64): a seed always means the same.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// That of a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in a range that is not empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.bits() % (range.end - range.start)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        self.within(0..end as u64) as usize
    }

    /// True in one of so many cases.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.bits().is_multiple_of(count)
    }

    /// One of these, or none if there are none.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len())].clone())
    }

    /// A time in microseconds.
    pub fn micros(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.within(range))
    }

    /// A time in milliseconds.
    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }
}

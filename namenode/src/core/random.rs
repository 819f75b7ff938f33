//! The random generator for decisions: small, seeded from outside, the same on every machine.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Self {
        Generator(seed)
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0. The bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.next_number() % bound).expect("it is below a usize")
    }
}

//! What the programs that learn share: rows of numbers and passes over them, moments, centres of groups, and two methods: one goes downhill,
//! one finds the largest eigenvalues of a matrix.

pub mod centres;
pub mod descent;
pub mod least_squares;
pub mod moments;
pub mod passes;
pub mod ratings;
pub mod rows;
pub mod spectrum;
pub mod text;

/// A number from 0 to 1 that looks random and is always the same for two numbers: the mix of SplitMix64.
pub fn chance(seed: u64, place: u64) -> f64 {
    let mut mixed =
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place.wrapping_add(1).rotate_left(32);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(factor);
    }
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

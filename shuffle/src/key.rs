//! Keys as machine words: zero-padded loads, sort prefixes, common prefixes and the table's hash.
//!
//! Invariants: no loop over single bytes; `prefix(a) < prefix(b)` implies `a < b` in byte order.

/// Keys up to this length fit the two words of [`load_short`].
pub(crate) const SHORT_KEY_BYTES_MAX: usize = 16;

/// The key's bytes, zero-padded, as two little-endian words. Injective together with the length.
#[inline(always)]
pub(crate) fn load_short(key: &[u8]) -> (u64, u64) {
    let len = key.len();
    debug_assert!(len <= SHORT_KEY_BYTES_MAX);
    if let (Some(first), Some(last)) = (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        let shift = 8 * (16 - len) as u32;
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last).checked_shr(shift).unwrap_or(0))
    } else if let (Some(first), Some(last)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        // The bytes that both halves cover are the same, so `|` joins them.
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        (u64::from(first) | u64::from(last) << (8 * (len - 4)), 0)
    } else if len > 0 {
        let (middle, end) = (len / 2, len - 1);
        let word = u64::from(key[0])
            | u64::from(key[middle]) << (8 * middle)
            | u64::from(key[end]) << (8 * end);
        (word, 0)
    } else {
        (0, 0)
    }
}

/// The first eight bytes as a big-endian number, zero-padded: compares as the bytes do.
#[inline(always)]
pub(crate) fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => load_short(key).0.swap_bytes(),
    }
}

/// Length of the common prefix of two keys.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut shared = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let x = u64::from_le_bytes(x.try_into().expect("chunks of eight bytes"));
        let y = u64::from_le_bytes(y.try_into().expect("chunks of eight bytes"));
        if x != y {
            return shared + ((x ^ y).trailing_zeros() / 8) as usize;
        }
        shared += 8;
    }
    let limit = a.len().min(b.len());
    if limit - shared < 8 {
        let (x, y) = (load_short(&a[shared..limit]).0, load_short(&b[shared..limit]).0);
        shared = limit.min(shared + ((x ^ y).trailing_zeros() / 8) as usize);
    }
    shared
}

/// Folded 64 x 64 -> 128 bit product: one multiplication mixes both halves.
#[inline(always)]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Hash of a short key from its two words. Neither stored nor sent: only the hash table uses it.
#[inline(always)]
pub(crate) fn hash_short(k0: u64, k1: u64, len: usize, seed: u64) -> u64 {
    fold(k0 ^ seed, k1 ^ HASH_KEY_A ^ (len as u64) << 56)
}

/// Hash of a key of any length above [`SHORT_KEY_BYTES_MAX`].
pub(crate) fn hash_long(key: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ key.len() as u64;
    let mut chunks = key.chunks_exact(SHORT_KEY_BYTES_MAX);
    for chunk in &mut chunks {
        let (k0, k1) = load_short(chunk);
        hash = fold(k0 ^ hash, k1 ^ HASH_KEY_A);
    }
    let (k0, k1) = load_short(chunks.remainder());
    fold(fold(k0 ^ hash, k1 ^ HASH_KEY_B), HASH_KEY_A)
}

/// Odd constants with even bit density (digits of pi).
const HASH_KEY_A: u64 = 0x243f_6a88_85a3_08d3;
const HASH_KEY_B: u64 = 0x1319_8a2e_0370_7345;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn padded(key: &[u8]) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..key.len()].copy_from_slice(key);
        bytes
    }

    proptest! {
        #[test]
        fn loads_are_the_padded_bytes(key in prop::collection::vec(any::<u8>(), 0..=16)) {
            let bytes = padded(&key);
            let want = u128::from_le_bytes(bytes);
            prop_assert_eq!(load_short(&key), (want as u64, (want >> 64) as u64));
        }

        #[test]
        fn prefixes_order_as_keys(a in prop::collection::vec(0u8..3, 0..12), b in prop::collection::vec(0u8..3, 0..12)) {
            if prefix(&a) < prefix(&b) {
                prop_assert!(a < b);
            }
        }

        #[test]
        fn common_prefix_is_exact(a in prop::collection::vec(0u8..2, 0..40), b in prop::collection::vec(0u8..2, 0..40)) {
            let slow = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(common_prefix(&a, &b), slow);
        }
    }
}

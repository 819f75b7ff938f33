//! A slot of the combining table, and the bytes of keys that do not fit one.
//!
//! ```text
//! slot   high half of meta: upper hash bits; the partition while the table is drained
//!        low half of meta:  key bytes + 1, or LONG + place of the key's tail
//!        k0, k1             the first sixteen key bytes, zero-padded
//!        accumulator
//! tail   varint length, then the key's bytes from the seventeenth on; begins at a multiple of four
//! ```
//!
//! Invariant: two keys of at most sixteen bytes are equal if their words and low halves are.

use std::cmp::Ordering;
use std::num::NonZeroU64;

use crate::block::{VARINT_BYTES_MAX, put_varint, take_varint};
use crate::key::{SHORT_KEY_BYTES_MAX, hash_long, hash_short, load_short};

/// A used slot, or a record staged for one.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Slot<A> {
    meta: NonZeroU64,
    pub(super) k0: u64,
    pub(super) k1: u64,
    pub(super) acc: A,
}

impl<A> Slot<A> {
    /// A record to be staged; the tail of a long key goes to `tails`.
    #[inline(always)]
    pub(super) fn new(key: &[u8], acc: A, seed: u64, tails: &mut KeyTails) -> Self {
        if key.len() <= SHORT_KEY_BYTES_MAX {
            let (k0, k1) = load_short(key);
            let meta = meta_of(hash_short(k0, k1, key.len(), seed), key.len() as u32 + 1);
            return Self { meta, k0, k1, acc };
        }
        Self::new_long(key, acc, seed, tails)
    }

    #[inline(never)]
    fn new_long(key: &[u8], acc: A, seed: u64, tails: &mut KeyTails) -> Self {
        let (head, tail) = key.split_at(SHORT_KEY_BYTES_MAX);
        let (k0, k1) = load_short(head);
        let meta = meta_of(hash_long(key, seed), LONG + tails.push(tail));
        Self { meta, k0, k1, acc }
    }

    /// Upper hash bits, or the partition that [`Slot::set_partition`] put in their place.
    #[inline(always)]
    pub(super) fn high(&self) -> u32 {
        (self.meta.get() >> 32) as u32
    }

    #[inline(always)]
    fn low(&self) -> u32 {
        self.meta.get() as u32
    }

    /// A number for which the slot must be in the cache.
    #[inline(always)]
    pub(super) fn touch(slot: &Option<Self>) -> u64 {
        slot.as_ref().map_or(0, |slot| slot.meta.get())
    }

    /// Forgets the hash.
    #[inline(always)]
    pub(super) fn set_partition(&mut self, partition: u32) {
        self.meta = meta_of(u64::from(partition) << 32, self.low());
    }

    /// True if the key has a tail.
    #[inline(always)]
    pub(super) fn is_long(&self) -> bool {
        self.low() >= LONG
    }

    /// The place of a long key's tail.
    #[inline(always)]
    pub(super) fn tail(&self) -> u32 {
        self.low() - LONG
    }

    /// The slot with its tail at another place.
    pub(super) fn with_tail(self, place: u32) -> Self {
        Self { meta: meta_of(self.meta.get(), LONG + place), ..self }
    }

    /// True if both have this short key.
    #[inline(always)]
    pub(super) fn is_short(&self, other: &Self) -> bool {
        (self.meta.get() ^ other.meta.get()) | (self.k0 ^ other.k0) | (self.k1 ^ other.k1) == 0
    }

    /// True if both keys are long and may be equal: their tails decide.
    #[inline(always)]
    pub(super) fn resembles(&self, other: &Self) -> bool {
        (u64::from(self.high() ^ other.high())) | (self.k0 ^ other.k0) | (self.k1 ^ other.k1) == 0
            && self.is_long()
    }

    /// Passes the key to `each`; `key` is memory for a long one.
    #[inline(always)]
    pub(super) fn with_key<T>(
        &self,
        tails: &KeyTails,
        key: &mut Vec<u8>,
        each: impl FnOnce(&[u8]) -> T,
    ) -> T {
        let head = (u128::from(self.k0) | u128::from(self.k1) << 64).to_le_bytes();
        if !self.is_long() {
            return each(&head[..self.low() as usize - 1]);
        }
        key.clear();
        key.extend_from_slice(&head);
        key.extend_from_slice(tails.get(self.tail()));
        each(key)
    }

    /// Passes key and accumulator to `each`; `key` is memory for a long one.
    #[inline(always)]
    pub(super) fn take_key<T>(
        self,
        tails: &KeyTails,
        key: &mut Vec<u8>,
        each: impl FnOnce(&[u8], A) -> T,
    ) -> T {
        // The words go with the accumulator; a copy without it reads the key.
        let Self { meta, k0, k1, acc } = self;
        Slot { meta, k0, k1, acc: () }.with_key(tails, key, |key| each(key, acc))
    }

    /// Order by (partition, key) after [`Slot::set_partition`].
    pub(super) fn compare(&self, other: &Self, tails: &KeyTails) -> Ordering {
        let words = |slot: &Self| (slot.high(), slot.k0.swap_bytes(), slot.k1.swap_bytes());
        words(self).cmp(&words(other)).then_with(|| {
            if self.is_long() && other.is_long() {
                tails.get(self.tail()).cmp(tails.get(other.tail()))
            } else {
                self.low().cmp(&other.low())
            }
        })
    }
}

#[inline(always)]
fn meta_of(high: u64, low: u32) -> NonZeroU64 {
    NonZeroU64::new(high & !u64::from(u32::MAX) | u64::from(low)).expect("low halves begin at one")
}

/// Low half of the first long key: above those of all short ones.
const LONG: u32 = SHORT_KEY_BYTES_MAX as u32 + 2;

/// The tails of long keys, one after the other.
#[derive(Debug, Default)]
pub(super) struct KeyTails {
    pub(super) bytes: Vec<u8>,
}

impl KeyTails {
    /// Adds a tail and returns its place. The caller keeps `bytes` below [`TAILS_BYTES_MAX`].
    pub(super) fn push(&mut self, tail: &[u8]) -> u32 {
        let at = self.bytes.len().next_multiple_of(PLACE_BYTES);
        self.bytes.resize(at, 0);
        put_varint(&mut self.bytes, tail.len() as u32);
        self.bytes.extend_from_slice(tail);
        (at / PLACE_BYTES) as u32
    }

    pub(super) fn get(&self, place: u32) -> &[u8] {
        let mut at = place as usize * PLACE_BYTES;
        let len = take_varint(&self.bytes, &mut at).expect("written by push") as usize;
        &self.bytes[at..at + len]
    }

    /// A byte of the tail, which brings it into the cache.
    #[inline(always)]
    pub(super) fn touch(&self, place: u32) -> u8 {
        self.bytes.get(place as usize * PLACE_BYTES).copied().unwrap_or_default()
    }

    /// The most bytes that a key takes here.
    pub(super) fn bytes_of(key_bytes: usize) -> usize {
        match key_bytes.checked_sub(SHORT_KEY_BYTES_MAX) {
            None | Some(0) => 0,
            Some(tail_bytes) => tail_bytes + VARINT_BYTES_MAX + PLACE_BYTES - 1,
        }
    }
}

/// Places count units of this many bytes, so that 31 bits of them address 8 GiB.
const PLACE_BYTES: usize = 4;
/// Tails end before this offset; so `LONG + place` fits the low half.
pub(super) const TAILS_BYTES_MAX: usize = PLACE_BYTES << 31;

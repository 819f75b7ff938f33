//! The combining hash table: open addressing, at most one cache line per probe, keys up to 16 bytes inside the slot.
//!
//! Invariants: at most 5/8 of the slots are used; a slot is 32 bytes for an accumulator of 8 and never straddles a cache line; the table
//! never probes more than [`PROBES_MAX`] slots for a key, whatever keys it gets.

use std::cmp::Ordering;
use std::num::NonZeroU64;

use crate::buffer::{Entry, SORT_BYTES_PER_RECORD, Sorter};
use crate::error::{RECORD_BYTES_MAX, Result};
use crate::key::{SHORT_KEY_BYTES_MAX, hash_long, hash_short, load_short};
use crate::pool::BufferPool;

/// A used slot, or a record staged for one.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct Slot<A> {
    /// High half: upper hash bits, whose top bits are the home position. Low half: key length x 2 + 1.
    meta: NonZeroU64,
    /// First eight key bytes.
    k0: u64,
    /// The next eight, zero-padded; for a longer key its offset in `long_keys`.
    k1: u64,
    acc: A,
}

impl<A> Slot<A> {
    #[inline(always)]
    fn key_bytes(&self) -> usize {
        (self.meta.get() as u32 >> 1) as usize
    }

    /// The bytes of the two words; they begin with the key if it is short.
    fn short_key(&self) -> [u8; SHORT_KEY_BYTES_MAX] {
        (u128::from(self.k0) | u128::from(self.k1) << 64).to_le_bytes()
    }

    /// The accumulator of a staged record, whose key is written to `key`.
    pub(crate) fn into_parts(self, key: &mut Vec<u8>) -> A {
        key.clear();
        key.extend_from_slice(&self.short_key()[..self.key_bytes()]);
        self.acc
    }
}

/// Distinct keys with their accumulators.
#[derive(Debug)]
pub(crate) struct Table<A> {
    slots: Vec<Option<Slot<A>>>,
    /// `meta >> shift` is the home slot.
    shift: u32,
    count: usize,
    count_max: usize,
    /// Short-keyed records on their way into the table.
    staged: Vec<Slot<A>>,
    long_keys: Vec<u8>,
    long_keys_max: usize,
    slots_max: usize,
    seed: u64,
}

impl<A: Send + 'static> Table<A> {
    /// Makes an empty table that will not need more than `bytes_max`, including the sorting of its keys.
    pub(crate) fn new(bytes_max: usize, seed: u64, pool: &BufferPool) -> Self {
        let mut slots_max = 0;
        let mut next = SLOTS_MIN;
        while next <= SLOTS_MAX && Self::bytes_of(next) <= bytes_max / 4 * 3 {
            slots_max = next;
            next *= 2;
        }
        Self {
            slots: pool.take(),
            shift: u64::BITS - 1,
            count: 0,
            count_max: 0,
            staged: Vec::with_capacity(BATCH_RECORDS),
            long_keys: pool.take(),
            long_keys_max: bytes_max - Self::bytes_of(slots_max),
            slots_max,
            seed,
        }
    }

    fn bytes_of(slots: usize) -> usize {
        slots * size_of::<Option<Slot<A>>>() + load_max(slots) * SORT_BYTES_PER_RECORD
    }

    /// False if the budget is too small for any table.
    pub(crate) fn is_possible(&self) -> bool {
        self.slots_max > 0
    }

    /// False for a key so long that the table can never hold it.
    pub(crate) fn can_hold(&self, key: &[u8]) -> bool {
        key.len() <= SHORT_KEY_BYTES_MAX || key.len() <= self.long_keys_max.min(RECORD_BYTES_MAX)
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Stages a record; it reaches the table with its batch. False if a batch is complete: then call [`Table::settle`]. The key has at most
    /// [`SHORT_KEY_BYTES_MAX`] bytes.
    #[inline]
    pub(crate) fn stage(&mut self, key: &[u8], acc: A) -> bool {
        let (k0, k1) = load_short(key);
        let meta = meta_of(hash_short(k0, k1, key.len(), self.seed), key.len());
        self.staged.push(Slot { meta, k0, k1, acc });
        self.staged.len() < BATCH_RECORDS
    }

    /// Merges the staged records into their keys' accumulators. False if the table must grow or be drained first; unmerged records stay
    /// staged.
    pub(crate) fn settle(&mut self, merge: impl Fn(&mut A, A)) -> bool {
        // The misses of a batch overlap: none of these loads depends on another.
        let mut touched = 0;
        for record in &self.staged {
            if let Some(Some(slot)) = self.slots.get((record.meta.get() >> self.shift) as usize) {
                touched ^= slot.meta.get();
            }
        }
        std::hint::black_box(touched);
        while let Some(record) = self.staged.pop() {
            if let Err(record) = self.fold_staged(record, &merge) {
                self.staged.push(record);
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn fold_staged(&mut self, record: Slot<A>, merge: &impl Fn(&mut A, A)) -> Result<(), Slot<A>> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = (record.meta.get() >> self.shift) as usize;
        for _ in 0..PROBES_MAX {
            match self.slots.get_mut(at) {
                Some(Some(slot)) => {
                    let differs = (slot.meta.get() ^ record.meta.get())
                        | (slot.k0 ^ record.k0)
                        | (slot.k1 ^ record.k1);
                    if differs == 0 {
                        merge(&mut slot.acc, record.acc);
                        return Ok(());
                    }
                }
                Some(empty) => {
                    if self.count == self.count_max {
                        return Err(record);
                    }
                    *empty = Some(record);
                    self.count += 1;
                    return Ok(());
                }
                None => return Err(record),
            }
            at = (at + 1) & mask;
        }
        Err(record)
    }

    /// Merges a record with a key too long for a slot. Returns `acc` as the error if the table must grow or be drained first.
    pub(crate) fn fold_long(
        &mut self,
        key: &[u8],
        acc: A,
        merge: impl FnOnce(&mut A, A),
    ) -> Result<(), A> {
        let (k0, _) = load_short(&key[..SHORT_KEY_BYTES_MAX]);
        let meta = meta_of(hash_long(key, self.seed), key.len());
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = (meta.get() >> self.shift) as usize;
        for _ in 0..PROBES_MAX {
            match self.slots.get_mut(at) {
                Some(Some(slot)) => {
                    if slot.meta == meta
                        && slot.k0 == k0
                        && self.long_keys[slot.k1 as usize..].starts_with(key)
                    {
                        merge(&mut slot.acc, acc);
                        return Ok(());
                    }
                }
                Some(empty) => {
                    if self.count == self.count_max
                        || self.long_keys.len() + key.len() > self.long_keys_max
                    {
                        return Err(acc);
                    }
                    *empty = Some(Slot { meta, k0, k1: self.long_keys.len() as u64, acc });
                    self.long_keys.extend_from_slice(key);
                    self.count += 1;
                    return Ok(());
                }
                None => return Err(acc),
            }
            at = (at + 1) & mask;
        }
        Err(acc)
    }

    /// Number of staged records.
    pub(crate) fn staged(&self) -> usize {
        self.staged.len()
    }

    /// Removes the staged records from the table and returns them.
    pub(crate) fn unstage(&mut self) -> Vec<Slot<A>> {
        std::mem::take(&mut self.staged)
    }

    /// Doubles the table if it is full and the budget allows; false otherwise.
    #[cold]
    pub(crate) fn grow(&mut self) -> bool {
        let slots = (2 * self.slots.len()).max(SLOTS_MIN);
        if self.count < self.count_max || slots > self.slots_max {
            return false;
        }
        let mut old = Vec::with_capacity(self.count);
        old.extend(self.slots.drain(..).flatten());
        // Reserves address space once for the largest size: the table then never moves, and pages are touched only as it grows.
        self.slots.reserve_exact(self.slots_max);
        self.slots.resize_with(slots, || None);
        self.shift = u64::BITS - slots.trailing_zeros();
        self.count_max = load_max(slots);
        for slot in old {
            let mut at = (slot.meta.get() >> self.shift) as usize;
            while self.slots[at].is_some() {
                at = (at + 1) & (slots - 1);
            }
            self.slots[at] = Some(slot);
        }
        true
    }

    /// Sorts the keys by (partition, key) into `sorter`; entries name slots.
    pub(crate) fn sort(
        &self,
        sorter: &mut Sorter,
        partitions: u32,
        partition: impl Fn(&[u8]) -> Result<u32>,
    ) -> Result<()> {
        sorter.entries.clear();
        sorter.entries.reserve_exact(self.count);
        let mut short = [0; SHORT_KEY_BYTES_MAX];
        for (place, slot) in self.slots.iter().enumerate() {
            if let Some(slot) = slot {
                let partition = partition(self.key_of(slot, &mut short))?;
                sorter.entries.push(Entry {
                    prefix: slot.k0.swap_bytes(),
                    partition,
                    place: place as u32,
                });
            }
        }
        sorter.sort(partitions, &|a, b| self.compare(a, b));
        Ok(())
    }

    /// Copies the key at `place` to `key`, and removes and returns its accumulator.
    pub(crate) fn take(&mut self, place: u32, key: &mut Vec<u8>) -> Option<A> {
        let slot = self.slots.get_mut(place as usize)?.take()?;
        self.count -= 1;
        key.clear();
        key.extend_from_slice(self.key_of(&slot, &mut [0; SHORT_KEY_BYTES_MAX]));
        Some(slot.acc)
    }

    /// Call it when all entries have been taken.
    pub(crate) fn reset(&mut self) {
        debug_assert_eq!(self.count, 0);
        self.long_keys.clear();
    }

    /// Returns the memory to `pool`; the table is as new.
    pub(crate) fn give_back(&mut self, pool: &BufferPool) {
        debug_assert_eq!(self.count, 0);
        pool.give(std::mem::take(&mut self.slots));
        pool.give(std::mem::take(&mut self.long_keys));
        self.shift = u64::BITS - 1;
        self.count_max = 0;
    }

    fn key_of<'a>(&'a self, slot: &Slot<A>, short: &'a mut [u8; SHORT_KEY_BYTES_MAX]) -> &'a [u8] {
        let len = slot.key_bytes();
        if len > SHORT_KEY_BYTES_MAX {
            return &self.long_keys[slot.k1 as usize..slot.k1 as usize + len];
        }
        *short = slot.short_key();
        &short[..len]
    }

    /// Order of two keys with the same first eight bytes.
    fn compare(&self, a: &Entry, b: &Entry) -> Ordering {
        let (Some(a), Some(b)) = (&self.slots[a.place as usize], &self.slots[b.place as usize])
        else {
            return Ordering::Equal;
        };
        let (a_len, b_len) = (a.key_bytes(), b.key_bytes());
        if a_len.max(b_len) <= SHORT_KEY_BYTES_MAX {
            return (a.k1.swap_bytes(), a_len).cmp(&(b.k1.swap_bytes(), b_len));
        }
        self.key_of(a, &mut [0; SHORT_KEY_BYTES_MAX])
            .cmp(self.key_of(b, &mut [0; SHORT_KEY_BYTES_MAX]))
    }
}

#[inline(always)]
fn meta_of(hash: u64, len: usize) -> NonZeroU64 {
    NonZeroU64::MIN | (hash & !u64::from(u32::MAX)) | (len as u64) << 1
}

const fn load_max(slots: usize) -> usize {
    slots / 8 * 5
}

/// Smallest table (1,024 slots, about 53 KiB with an accumulator of eight bytes).
const SLOTS_MIN: usize = 1 << 10;
/// Largest table: home positions come from 32 hash bits.
const SLOTS_MAX: usize = 1 << 31;
/// Records whose slots are fetched together: enough to keep all line fill buffers of a core busy. Word count took 5% more CPU with 32, the
/// same with 128, and a quarter more without batches.
const BATCH_RECORDS: usize = 64;
/// Slots probed before the table reports that it is full. Random keys at 5/8 load stay below a few hundred; only keys chosen to collide
/// reach this, and then cost a drain instead of quadratic time.
const PROBES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn drain(table: &mut Table<u64>) -> Vec<(u32, Vec<u8>, u64)> {
        let mut sorter = Sorter::default();
        table.sort(&mut sorter, 3, |key| Ok(key.len() as u32 % 3)).unwrap();
        let mut got = Vec::new();
        for entry in &sorter.entries {
            let mut key = Vec::new();
            let acc = table.take(entry.place, &mut key).unwrap();
            got.push((entry.partition, key, acc));
        }
        table.reset();
        got
    }

    /// Adds one; false if the table must be drained.
    fn count(table: &mut Table<u64>, key: &[u8]) -> bool {
        let add = |into: &mut u64, from| *into += from;
        loop {
            let refused = if key.len() > SHORT_KEY_BYTES_MAX {
                table.fold_long(key, 1, add).is_err()
            } else {
                table.stage(key, 1);
                !table.settle(add)
            };
            if !refused {
                return true;
            }
            table.unstage();
            if !table.grow() {
                return false;
            }
        }
    }

    #[test]
    fn slots_are_half_a_cache_line() {
        assert_eq!(size_of::<Option<Slot<u64>>>(), 32);
        assert_eq!(align_of::<Option<Slot<u64>>>(), 32);
    }

    proptest! {
        #[test]
        fn counts_as_a_map_does(keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..24), 0..3000)) {
            let mut table = Table::new(1 << 20, 7, &BufferPool::default());
            let mut want = BTreeMap::new();
            for key in &keys {
                prop_assert!(count(&mut table, key));
                *want.entry((key.len() as u32 % 3, key.clone())).or_insert(0u64) += 1;
            }
            prop_assert_eq!(table.len(), want.len());
            let want: Vec<_> = want.into_iter().map(|((p, k), n)| (p, k, n)).collect();
            prop_assert_eq!(drain(&mut table), want);
            prop_assert_eq!(table.len(), 0);
        }
    }

    #[test]
    fn stops_at_its_budget_and_can_be_reused() {
        let budget = 200 << 10;
        let mut table = Table::new(budget, 7, &BufferPool::default());
        for round in 0..3 {
            let mut inserted = 0u32;
            while count(&mut table, format!("{round} {inserted}").as_bytes()) {
                inserted += 1;
            }
            assert_eq!(inserted as usize, load_max(table.slots.len()));
            assert!(Table::<u64>::bytes_of(table.slots.len()) + table.long_keys.len() <= budget);
            assert_eq!(drain(&mut table).len(), inserted as usize);
        }
        assert!(!Table::<u64>::new(1, 0, &BufferPool::default()).is_possible());
    }

    #[test]
    fn long_keys_stop_at_their_share() {
        let mut table = Table::new(100 << 10, 7, &BufferPool::default());
        let mut bytes = 0;
        while count(&mut table, format!("{bytes:0>1000}").as_bytes()) {
            bytes += 1000;
        }
        assert!(bytes <= table.long_keys_max && bytes + 1000 > table.long_keys_max);
        assert!(!table.can_hold(&vec![0; table.long_keys_max + 1]));
        assert_eq!(drain(&mut table).len(), bytes / 1000);
    }
}

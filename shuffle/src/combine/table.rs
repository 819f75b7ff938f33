//! The combining hash table: open addressing by linear probing, keys up to 16 bytes inside the slot.
//!
//! A slot's home is its hash scaled to the number of slots, which need not be a power of two: the table grows into whatever the budget
//! leaves. Homes are in the order of hashes, so growing moves each slot to the right, and sorting for a drain exchanges slots. Neither needs
//! memory beside the table.
//!
//! Invariants: slots ever touched and the capacity for tails of keys stay within the budget; at most three quarters of the slots are used; a
//! slot is 32 bytes for an accumulator of 8 and never straddles a cache line; the table never probes more than [`PROBES_MAX`] slots for a
//! key, whatever keys it gets.

use std::hint::black_box;
use std::ops::Range;

use super::radix::Keys;
use super::slot::{KeyTails, Slot, TAILS_BYTES_MAX};
use crate::error::{RECORD_BYTES_MAX, Result};
use crate::key::SHORT_KEY_BYTES_MAX;
use crate::pool::{BufferPool, Reserve};

/// Distinct keys with their accumulators.
#[derive(Debug)]
pub(super) struct Table<A> {
    /// Those touched so far. Their capacity is address space for `homes_max`, so that the table never moves.
    slots: Vec<Option<Slot<A>>>,
    /// Slots that can be homes; [`OVERFLOW_SLOTS`] follow.
    homes: usize,
    homes_max: usize,
    count: usize,
    count_max: usize,
    tails: KeyTails,
    /// The bytes of tails that there was no room for.
    tails_wanted: usize,
    /// Tails lacked memory while most slots were free.
    is_unbalanced: bool,
    /// Records on their way into the table.
    staged: Vec<Slot<A>>,
    staged_tails: KeyTails,
    bytes_max: usize,
    seed: u64,
    reserve: Reserve,
}

impl<A: Send + 'static> Table<A> {
    /// Makes an empty table that will not need more than `bytes_max`, including the sorting of its keys.
    pub(super) fn new(bytes_max: usize, seed: u64, pool: &BufferPool) -> Self {
        let slot_count = bytes_max / size_of::<Option<Slot<A>>>();
        let homes_max = slot_count.saturating_sub(OVERFLOW_SLOTS).min(HOMES_MAX);
        let mut slots: Vec<Option<Slot<A>>> = pool.take();
        let mut tails = KeyTails { bytes: pool.take() };
        // Buffers of a process's earlier tasks; their memory was touched.
        if slots.capacity() < slot_count || slots.len() > slot_count {
            slots = Vec::new();
        }
        if tails.bytes.capacity() > bytes_max - slots.len() * size_of::<Option<Slot<A>>>() {
            tails = KeyTails::default();
        }
        Self {
            slots,
            homes: 0,
            homes_max: if homes_max < HOMES_MIN { 0 } else { homes_max },
            count: 0,
            count_max: 0,
            tails,
            tails_wanted: 0,
            is_unbalanced: false,
            staged: Vec::with_capacity(BATCH_RECORDS),
            staged_tails: KeyTails::default(),
            bytes_max,
            seed,
            reserve: pool.reserve(),
        }
    }

    /// False if the budget is too small for any table.
    pub(super) fn is_possible(&self) -> bool {
        self.homes_max > 0
    }

    /// False for a key so long that the table can never hold it.
    pub(super) fn can_hold(&self, key: &[u8]) -> bool {
        KeyTails::bytes_of(key.len()) <= self.tails_max() && key.len() <= RECORD_BYTES_MAX
    }

    /// The most tails beside the smallest table.
    fn tails_max(&self) -> usize {
        self.bytes_max.saturating_sub(bytes_of::<A>(HOMES_MIN)).min(TAILS_BYTES_MAX)
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Stages a record; it reaches the table with its batch. False if a batch is complete: then call [`Table::settle`].
    #[inline(always)]
    pub(super) fn stage(&mut self, key: &[u8], acc: A) -> bool {
        self.staged.push(Slot::new(key, acc, self.seed, &mut self.staged_tails));
        self.staged.len() < BATCH_RECORDS && self.staged_tails.bytes.len() < BATCH_TAIL_BYTES
    }

    /// Merges the staged records into their keys' accumulators. False if the table must grow or be drained first; unmerged records stay
    /// staged.
    pub(super) fn settle(&mut self, merge: impl Fn(&mut A, A)) -> bool {
        // The misses of a batch overlap: none of these loads depends on another.
        let mut touched = 0;
        for record in &self.staged {
            // Without a branch: an empty slot is a zero.
            touched ^= self.slots.get(self.home(record)).map_or(0, Slot::touch);
        }
        black_box(touched);
        if !self.staged_tails.bytes.is_empty() {
            self.touch_tails();
        }
        while let Some(record) = self.staged.pop() {
            let refused = if record.is_long() {
                self.fold_long(record, &merge)
            } else {
                self.fold_short(record, &merge)
            };
            if let Err(record) = refused {
                self.staged.push(record);
                return false;
            }
        }
        self.staged_tails.bytes.clear();
        self.staged_tails.bytes.shrink_to(2 * BATCH_TAIL_BYTES);
        true
    }

    /// Brings the tails that staged keys will probably be compared with into the cache.
    fn touch_tails(&self) {
        let mut touched = 0;
        for record in self.staged.iter().filter(|record| record.is_long()) {
            if let Some(Some(slot)) = self.slots.get(self.home(record))
                && slot.resembles(record)
            {
                touched ^= self.tails.touch(slot.tail());
            }
        }
        black_box(touched);
    }

    #[inline(always)]
    fn home(&self, slot: &Slot<A>) -> usize {
        home(slot.high(), self.homes)
    }

    /// The slots that a record may take.
    #[inline(always)]
    fn probes(&self, record: &Slot<A>) -> Range<usize> {
        let at = self.home(record);
        at..(at + PROBES_MAX).min(end_of(self.homes))
    }

    #[inline(always)]
    fn fold_short(&mut self, record: Slot<A>, merge: &impl Fn(&mut A, A)) -> Result<(), Slot<A>> {
        // Not a slice of the slots: its address would wait for its bounds.
        for at in self.probes(&record) {
            match self.slots.get_mut(at) {
                Some(Some(slot)) => {
                    if slot.is_short(&record) {
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
        }
        Err(record)
    }

    fn fold_long(&mut self, record: Slot<A>, merge: &impl Fn(&mut A, A)) -> Result<(), Slot<A>> {
        let tail = self.staged_tails.get(record.tail());
        let wanted = self.tails.bytes.len() + KeyTails::bytes_of(SHORT_KEY_BYTES_MAX + tail.len());
        let probes = self.probes(&record);
        for slot in self.slots.get_mut(probes).unwrap_or_default() {
            match slot {
                Some(slot) => {
                    if slot.resembles(&record) && self.tails.get(slot.tail()) == tail {
                        merge(&mut slot.acc, record.acc);
                        return Ok(());
                    }
                }
                None if self.count == self.count_max => return Err(record),
                None if wanted > self.tails.bytes.capacity().min(TAILS_BYTES_MAX) => {
                    self.tails_wanted = wanted;
                    return Err(record);
                }
                None => {
                    *slot = Some(record.with_tail(self.tails.push(tail)));
                    self.count += 1;
                    return Ok(());
                }
            }
        }
        Err(record)
    }

    /// Number of staged records.
    pub(super) fn staged(&self) -> usize {
        self.staged.len()
    }

    /// Removes the staged records from the table and returns them with the tails of their keys.
    pub(super) fn unstage(&mut self) -> (Vec<Slot<A>>, KeyTails) {
        (std::mem::take(&mut self.staged), std::mem::take(&mut self.staged_tails))
    }

    /// Makes room for the record that was refused, if the budget allows; false otherwise.
    #[cold]
    pub(super) fn grow(&mut self) -> bool {
        match std::mem::take(&mut self.tails_wanted) {
            0 => self.next_homes().is_some_and(|homes| self.grow_to(homes)),
            wanted => self.grow_tails(wanted),
        }
    }

    /// Twice the slots, or what the budget allows if the tails grow as the slots do.
    fn next_homes(&self) -> Option<usize> {
        if self.homes == 0 {
            return (self.homes_max > 0).then_some(HOMES_MIN);
        }
        // With few keys it was refused because they collide.
        if self.count < self.count_max / 2 {
            return None;
        }
        let bytes = bytes_of::<A>(self.homes) + self.tails.bytes.len();
        let fitting = self.homes as u128 * self.bytes_max as u128 / bytes as u128;
        let homes = (fitting as usize).min(2 * self.homes).min(self.homes_max);
        (homes >= self.homes + self.homes / GROWTH_MIN_PART).then_some(homes)
    }

    /// Moves each slot to its new home, from the last to the first; false if that would take too much memory.
    fn grow_to(&mut self, homes: usize) -> bool {
        if !self.runs_are_short() {
            return false;
        }
        self.tails.bytes.shrink_to(self.bytes_max - bytes_of::<A>(homes));
        if self.slots.capacity() < end_of(homes) {
            debug_assert_eq!(self.homes, 0);
            self.slots = Vec::new();
            self.reserve.exact(&mut self.slots, end_of(self.homes_max));
        }
        if self.slots.len() < end_of(homes) {
            self.slots.resize_with(end_of(homes), || None);
        }
        let mut run = Vec::new();
        let mut end = end_of(self.homes);
        (self.homes, self.count_max) = (homes, load_max(homes));
        while end > 0 {
            end -= 1;
            match self.slots[end].take() {
                Some(slot) => run.push(slot),
                None => self.put_all(&mut run),
            }
        }
        self.put_all(&mut run);
        true
    }

    /// Puts slots that were neighbours where they belong now: not before the first of them, so not among those that still have to move.
    fn put_all(&mut self, run: &mut Vec<Slot<A>>) {
        for slot in run.drain(..) {
            let at = self.home(&slot);
            let free = self.slots[at..].iter_mut().find(|slot| slot.is_none());
            *free.expect("as many slots follow each key's new home as followed the old one") =
                Some(slot);
        }
    }

    /// True if no run of used slots is longer than [`RUN_MAX`].
    fn runs_are_short(&self) -> bool {
        let mut length = 0;
        self.slots[..end_of(self.homes)].iter().all(|slot| {
            length = if slot.is_some() { length + 1 } else { 0 };
            length <= RUN_MAX
        })
    }

    /// Makes room for `wanted` bytes of tails.
    fn grow_tails(&mut self, wanted: usize) -> bool {
        let slot_bytes = |slots: usize| slots * size_of::<Option<Slot<A>>>();
        if self.count == 0 && wanted > self.bytes_max - slot_bytes(self.slots.len()) {
            self.give_up_slots();
        }
        let slots = self.slots.len().max(end_of(HOMES_MIN));
        let room = (self.bytes_max - slot_bytes(slots)).min(TAILS_BYTES_MAX);
        let capacity = wanted.max(2 * self.tails.bytes.capacity()).max(TAILS_BYTES_MIN).min(room);
        if wanted > room {
            self.is_unbalanced = self.count < load_max(self.slots.len()) / 2;
            return false;
        }
        let more = capacity - self.tails.bytes.len();
        self.reserve.exact(&mut self.tails.bytes, more);
        true
    }

    /// Passes partition, key and accumulator of each record to `each`, by (partition, key). The table is empty then, even after an error.
    pub(super) fn drain(
        &mut self,
        partitions: u32,
        partition: impl Fn(&[u8]) -> Result<u32>,
        sorted: impl FnOnce(),
        each: impl FnMut(u32, &[u8], A) -> Result<()>,
    ) -> Result<()> {
        let drained = self.sort(partitions, partition).and_then(|()| {
            sorted();
            self.take_all(each)
        });
        if drained.is_err() {
            self.slots.iter_mut().for_each(|slot| *slot = None);
        }
        self.count = 0;
        self.tails.bytes.clear();
        if std::mem::take(&mut self.is_unbalanced) {
            self.give_up_slots();
        }
        drained
    }

    /// Begins anew: slots that grew when keys were short take the memory of longer ones.
    fn give_up_slots(&mut self) {
        debug_assert_eq!(self.count, 0);
        self.slots = Vec::new();
        (self.homes, self.count_max) = (0, 0);
    }

    /// Moves the used slots to the front, sorted.
    fn sort(&mut self, partitions: u32, partition: impl Fn(&[u8]) -> Result<u32>) -> Result<()> {
        let (mut used, mut key) = (0, Vec::new());
        for place in 0..end_of(self.homes) {
            if let Some(mut slot) = self.slots[place].take() {
                slot.set_partition(slot.with_key(&self.tails, &mut key, &partition)?);
                self.slots[used] = Some(slot);
                used += 1;
            }
        }
        let tails = &self.tails;
        let keys = Keys {
            partition: |slot: &Option<Slot<A>>| slot.as_ref().map_or(0, Slot::high),
            word: |slot: &Option<Slot<A>>| slot.as_ref().map_or(0, |slot| slot.k0.swap_bytes()),
            compare: |a: &Option<Slot<A>>, b: &Option<Slot<A>>| match (a, b) {
                (Some(a), Some(b)) => a.compare(b, tails),
                _ => a.is_some().cmp(&b.is_some()),
            },
        };
        keys.sort(&mut self.slots[..used], partitions);
        Ok(())
    }

    fn take_all(&mut self, mut each: impl FnMut(u32, &[u8], A) -> Result<()>) -> Result<()> {
        let mut key = Vec::new();
        for batch in self.slots[..self.count].chunks_mut(BATCH_RECORDS) {
            let tails = batch.iter().flatten().filter(|slot| slot.is_long()).map(Slot::tail);
            black_box(tails.fold(0, |touched, tail| touched ^ self.tails.touch(tail)));
            for slot in batch.iter_mut().filter_map(Option::take) {
                let partition = slot.high();
                slot.take_key(&self.tails, &mut key, |key, acc| each(partition, key, acc))?;
            }
        }
        Ok(())
    }

    /// Returns the memory to `pool`; the table is as new.
    pub(super) fn give_back(&mut self, pool: &BufferPool) {
        debug_assert_eq!(self.count, 0);
        // With its empty slots: so many were touched.
        pool.give_filled(std::mem::take(&mut self.slots));
        pool.give(std::mem::take(&mut self.tails.bytes));
        self.give_up_slots();
    }
}

/// The slot where a key belongs.
#[inline(always)]
fn home(hash: u32, homes: usize) -> usize {
    ((u64::from(hash) * homes as u64) >> 32) as usize
}

/// Slots of a table with so many homes.
#[inline(always)]
const fn end_of(homes: usize) -> usize {
    if homes == 0 { 0 } else { homes + OVERFLOW_SLOTS }
}

const fn bytes_of<A>(homes: usize) -> usize {
    end_of(homes) * size_of::<Option<Slot<A>>>()
}

const fn load_max(homes: usize) -> usize {
    homes / 4 * 3
}

/// Smallest table (1,024 homes, 40 KiB with an accumulator of eight bytes).
const HOMES_MIN: usize = 1 << 10;
/// Largest table: homes come from 32 hash bits, and numbers of slots fit as many.
const HOMES_MAX: usize = 1 << 31;
/// Slots behind the last home, for keys that find theirs taken. Random keys at the highest load need more once in ten thousand tables, which
/// then grow early.
const OVERFLOW_SLOTS: usize = 256;
/// The last growth, into the rest of the budget, adds at least this part: an eighth.
const GROWTH_MIN_PART: usize = 8;
/// Smallest memory for tails.
const TAILS_BYTES_MIN: usize = 4 << 10;
/// Records whose slots are fetched together: enough to keep all line fill buffers of a core busy. Word count took 5% more CPU with 32, the
/// same with 128, and a quarter more without batches.
const BATCH_RECORDS: usize = 64;
/// A batch also ends with so many bytes of tails, which are not part of the budget.
const BATCH_TAIL_BYTES: usize = 16 << 10;
/// Slots probed before the table reports that it is full. Random keys at the highest load stay below a thousand; only keys chosen to collide
/// reach this, and then cost a drain instead of quadratic time.
const PROBES_MAX: usize = 4096;
/// The longest run of used slots that growing copies. Of random keys none is so long, even in the largest table; of keys that were chosen for
/// it the table is drained instead.
const RUN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::partition::check_partition;

    type Rows = Vec<(u32, Vec<u8>, u64)>;

    fn drain(table: &mut Table<u64>) -> Rows {
        let mut rows = Vec::new();
        let partition = |key: &[u8]| Ok(key.len() as u32 % 3);
        let drained = table.drain(
            3,
            partition,
            || (),
            |partition, key, acc| {
                rows.push((partition, key.to_vec(), acc));
                Ok(())
            },
        );
        drained.unwrap();
        assert!(table.slots.iter().all(Option::is_none));
        rows
    }

    fn add(into: &mut u64, from: u64) {
        *into += from;
    }

    /// Adds one; false if the table must be drained.
    fn count(table: &mut Table<u64>, key: &[u8]) -> bool {
        table.stage(key, 1);
        while !table.settle(add) {
            if !table.grow() {
                table.unstage();
                return false;
            }
        }
        assert!(touched(table) <= table.bytes_max);
        true
    }

    /// Bytes that count against the budget.
    fn touched(table: &Table<u64>) -> usize {
        table.slots.len() * size_of::<Option<Slot<u64>>>() + table.tails.bytes.capacity()
    }

    fn table(budget: usize) -> Table<u64> {
        Table::new(budget, 7, &BufferPool::default())
    }

    #[test]
    fn slots_are_half_a_cache_line() {
        assert_eq!(size_of::<Option<Slot<u64>>>(), 32);
        assert_eq!(align_of::<Option<Slot<u64>>>(), 32);
    }

    proptest! {
        #[test]
        fn counts_as_a_map_does(keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..24), 0..3000)) {
            let mut table = table(1 << 20);
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
    fn fills_its_budget_and_can_be_reused() {
        for budget in [60 << 10, 200 << 10, 3 << 20] {
            let mut table = table(budget);
            for round in 0..3 {
                let mut inserted = 0u32;
                while count(&mut table, format!("{round} {inserted}").as_bytes()) {
                    inserted += 1;
                }
                assert_eq!(inserted as usize, load_max(table.homes));
                assert!(inserted as usize * 32 > budget / 8 * 4, "{inserted} of {budget}");
                assert_eq!(drain(&mut table).len(), inserted as usize);
            }
        }
        assert!(!table(1).is_possible());
    }

    /// Slots give way to a key that needs their memory, and the other way round.
    #[test]
    fn short_and_long_keys_share_the_budget() {
        let budget = 200 << 10;
        let mut table = table(budget);
        let longest = vec![b'x'; table.tails_max() + SHORT_KEY_BYTES_MAX - 8];
        assert!(table.can_hold(&longest) && !table.can_hold(&[longest.clone(), vec![0]].concat()));
        for round in 0..3 {
            let mut inserted = 0;
            while count(&mut table, &round_key(round, inserted, 1 + round * 300)) {
                inserted += 1;
            }
            assert!(inserted * (32 + 1 + round * 300) > budget / 2, "{inserted}");
            let rows = drain(&mut table);
            assert!(rows.is_sorted() && rows.len() == inserted);
            assert!(count(&mut table, &longest) && count(&mut table, &longest));
            assert_eq!(drain(&mut table), [(longest.len() as u32 % 3, longest.clone(), 2)]);
        }
    }

    fn round_key(round: usize, number: usize, width: usize) -> Vec<u8> {
        format!("{round}{number:0>width$}").into_bytes()
    }

    #[test]
    fn memory_of_earlier_tasks_counts_too() {
        let (pool, budget) = (BufferPool::new(10 << 20), 200 << 10);
        for width in [1, 1000, 1, 2000] {
            let mut table: Table<u64> = Table::new(budget, 7, &pool);
            assert!(touched(&table) <= budget);
            let fill = |table: &mut Table<u64>| {
                let mut keys = (0..).map(|number| round_key(0, number, width));
                let inserted = keys.position(|key| !count(table, &key)).unwrap();
                assert_eq!(drain(table).len(), inserted);
                inserted
            };
            // Where long keys follow short ones, the first drain gives up the slots.
            fill(&mut table);
            let inserted = fill(&mut table);
            assert!(inserted * (32 + width) > budget / 2, "{inserted} of {width}");
            table.give_back(&pool);
        }
        // A task with less.
        let mut table: Table<u64> = Table::new(budget / 2, 7, &pool);
        assert!(count(&mut table, b"key") && touched(&table) <= budget / 2);
    }

    /// Keys whose homes are all the same, then keys that fill one long run.
    #[test]
    fn chosen_collisions_cost_a_drain_and_nothing_else() {
        let mut all = 0..;
        let mut chosen = |wanted: &mut dyn FnMut(u32) -> bool| loop {
            let key = (all.next().unwrap() as u64).to_be_bytes();
            let slot = Slot::new(&key, (), 7, &mut KeyTails::default());
            if wanted(slot.high()) {
                return key;
            }
        };
        let mut table = table(1 << 20);
        let (mut inserted, mut drains) = (0, 0);
        while inserted < 3000 {
            let key = chosen(&mut |hash| hash >> 22 == 1023);
            let key = key.as_slice();
            if count(&mut table, key) {
                inserted += 1;
            } else {
                assert_eq!(drain(&mut table).len(), table.staged() + inserted);
                inserted = 3000;
                drains += 1;
            }
        }
        assert_eq!(drains, 1);
        let fresh = &mut Table::new(1 << 20, 7, &BufferPool::default());
        let mut next_home = 0;
        while count(fresh, &chosen(&mut |hash| hash >> 20 == next_home / 4)) {
            next_home += 1;
        }
        assert_eq!(drain(fresh).len(), next_home as usize);
    }

    #[test]
    fn an_error_leaves_the_table_empty() {
        let mut table = table(1 << 20);
        for stop in [0, 50] {
            for number in 0..100u32 {
                assert!(count(&mut table, &number.to_be_bytes()));
            }
            let mut seen = 0;
            let partition = |_: &[u8]| check_partition(u32::from(stop == 0), 1);
            let error = table.drain(
                1,
                partition,
                || (),
                |_, _, _| {
                    seen += 1;
                    check_partition(u32::from(seen == stop), 1).map(drop)
                },
            );
            assert!(error.is_err() && seen == stop);
            assert!(drain(&mut table).is_empty());
        }
    }
}

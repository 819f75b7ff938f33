//! A table keyed by ids that are handed out in ascending order: inodes and blocks.
//!
//! Values lie packed in pages of `PAGE_IDS` ids, in order of ids, with one bit per id that says whether it is there. So an entry
//! costs its own size and about one byte, however many neighbours were deleted; a lookup is one probe in the small table of
//! pages and one access; and growing never moves more than a page, where a hash table of ten million entries would stop
//! everybody for seconds.
//!
//! Invariants: a page has exactly as many values as bits and is never empty; [`Table::iter`] goes in order of ids.

use std::marker::PhantomData;

use hashbrown::HashMap;
use protocol::{BlockId, InodeId};

/// Ids per page: as many as a word has bits.
const PAGE_IDS: u64 = 64;
/// Empty places for values that a page may keep once it is not the youngest one: a quarter.
const SLACK: usize = 16;

/// An id that may be a key.
pub trait Key: Copy {
    /// Its number.
    fn number(self) -> u64;
    /// The id of a number.
    fn of(number: u64) -> Self;
}

impl Key for InodeId {
    fn number(self) -> u64 {
        self.0
    }

    fn of(number: u64) -> Self {
        InodeId(number)
    }
}

impl Key for BlockId {
    fn number(self) -> u64 {
        self.0
    }

    fn of(number: u64) -> Self {
        BlockId(number)
    }
}

/// The table.
#[derive(Clone, Debug)]
pub struct Table<K, T> {
    pages: HashMap<u64, Page<T>>,
    len: usize,
    key: PhantomData<fn(K)>,
}

#[derive(Clone, Debug)]
struct Page<T> {
    present: u64,
    values: Vec<T>,
}

/// Page and bit of an id.
fn place<K: Key>(key: K) -> (u64, u32) {
    let number = key.number();
    (number / PAGE_IDS, (number % PAGE_IDS) as u32)
}

impl<T> Page<T> {
    fn has(&self, bit: u32) -> bool {
        self.present >> bit & 1 == 1
    }

    /// How many values come before that of `bit`.
    fn rank(&self, bit: u32) -> usize {
        (self.present & ((1 << bit) - 1)).count_ones() as usize
    }

    /// Adds the value of a bit that has none.
    fn add(&mut self, bit: u32, value: T) {
        if self.values.len() == self.values.capacity() {
            // Ids come in ascending order: the page will be full in a moment, and growing by steps would leave holes of each size
            // behind in the allocator.
            self.values.reserve_exact(PAGE_IDS as usize - self.values.len());
        }
        self.values.insert(self.rank(bit), value);
        self.present |= 1 << bit;
    }
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Page { present: 0, values: Vec::new() }
    }
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Self {
        Table { pages: HashMap::new(), len: 0, key: PhantomData }
    }
}

impl<K: Key, T> Table<K, T> {
    /// The value of an id.
    pub fn get(&self, key: &K) -> Option<&T> {
        let (number, bit) = place(*key);
        let page = self.pages.get(&number)?;
        if page.has(bit) { page.values.get(page.rank(bit)) } else { None }
    }

    /// The value of an id, to change.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut T> {
        let (number, bit) = place(*key);
        let page = self.pages.get_mut(&number)?;
        if page.has(bit) {
            let rank = page.rank(bit);
            page.values.get_mut(rank)
        } else {
            None
        }
    }

    /// True if the id has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        let (number, bit) = place(*key);
        self.pages.get(&number).is_some_and(|page| page.has(bit))
    }

    /// Sets the value of an id; returns the one before.
    pub fn insert(&mut self, key: K, value: T) -> Option<T> {
        let (number, bit) = place(key);
        let page = self.pages.entry(number).or_default();
        if page.has(bit) {
            let rank = page.rank(bit);
            return page.values.get_mut(rank).map(|slot| std::mem::replace(slot, value));
        }
        page.add(bit, value);
        self.len += 1;
        None
    }

    /// The value of an id, which gets the default if it has none.
    pub fn get_or_default(&mut self, key: K) -> &mut T
    where
        T: Default,
    {
        let (number, bit) = place(key);
        let page = self.pages.entry(number).or_default();
        if !page.has(bit) {
            page.add(bit, T::default());
            self.len += 1;
        }
        let rank = page.rank(bit);
        page.values.get_mut(rank).expect("it was there or was just added")
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &K) -> Option<T> {
        let (number, bit) = place(*key);
        let page = self.pages.get_mut(&number).filter(|page| page.has(bit))?;
        let value = page.values.remove(page.rank(bit));
        page.present &= !(1 << bit);
        if page.present == 0 {
            self.pages.remove(&number);
        } else if page.values.capacity() - page.values.len() > 2 * SLACK {
            page.values.shrink_to(page.values.len() + SLACK);
        }
        self.len -= 1;
        Some(value)
    }

    /// Gives back the room in pages that did not fill up; for a table that was loaded.
    pub fn shrink(&mut self) {
        for page in self.pages.values_mut() {
            if page.values.capacity() - page.values.len() > SLACK {
                page.values.shrink_to_fit();
            }
        }
    }

    /// Values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Ids and values in order of ids.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        let mut numbers: Vec<u64> = self.pages.keys().copied().collect();
        numbers.sort_unstable();
        numbers.into_iter().flat_map(|number| self.page(number))
    }

    /// The first possible id of each page, in order: for walks over the table in steps, while it changes.
    pub fn page_starts(&self) -> Vec<K> {
        let mut numbers: Vec<u64> = self.pages.keys().copied().collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| K::of(number * PAGE_IDS)).collect()
    }

    /// The ids on the page of `key`, in order.
    pub fn page_of(&self, key: K) -> impl Iterator<Item = K> {
        self.page(place(key).0).map(|(key, _)| key)
    }

    fn page(&self, number: u64) -> impl Iterator<Item = (K, &T)> {
        self.pages.get(&number).into_iter().flat_map(move |page| {
            let bits = (0..PAGE_IDS).filter(|bit| page.has(*bit as u32));
            bits.zip(&page.values).map(move |(bit, value)| (K::of(number * PAGE_IDS + bit), value))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn behaves_as_an_ordered_map() {
        let mut table: Table<InodeId, u32> = Table::default();
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        let mut state = 7_u32;
        for round in 0..30_000_u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number =
                u64::from(state >> 16) % 700 + if state & 0x1000 == 0 { 1 << 40 } else { 0 };
            let key = InodeId(number);
            // Long stretches that mostly fill it, then mostly empty it.
            if (state >> 8) % 10 < if round / 3000 % 2 == 0 { 7 } else { 3 } {
                assert_eq!(table.insert(key, round), model.insert(number, round));
            } else {
                assert_eq!(table.remove(&key), model.remove(&number));
            }
            assert_eq!(table.get(&key), model.get(&number));
            assert_eq!(table.get_mut(&key).copied(), model.get(&number).copied());
            assert_eq!(table.contains_key(&key), model.contains_key(&number));
            assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
            if round % 997 == 0 {
                let all: Vec<_> = table.iter().map(|(key, value)| (key.0, *value)).collect();
                assert!(all.iter().copied().eq(model.iter().map(|(key, value)| (*key, *value))));
                let pages = table.page_starts().into_iter().flat_map(|page| table.page_of(page));
                assert!(pages.map(|key| key.0).eq(model.keys().copied()));
            }
        }
        for number in model.into_keys() {
            table.remove(&InodeId(number));
        }
        assert!(table.is_empty() && table.pages.is_empty());
    }

    #[test]
    fn a_lone_survivor_does_not_keep_its_page_large() {
        let mut table: Table<BlockId, u64> = Table::default();
        for number in 0..64 {
            table.insert(BlockId(number), number);
        }
        for number in 1..64 {
            table.remove(&BlockId(number));
        }
        assert!(table.pages[&0].values.capacity() <= 1 + 2 * SLACK);
        table.shrink();
        assert_eq!(table.pages[&0].values.capacity(), 1);
        assert_eq!(*table.get_or_default(BlockId(0)), 0);
        assert_eq!(*table.get_or_default(BlockId(9)), 0);
        assert_eq!(table.len(), 2);
    }
}

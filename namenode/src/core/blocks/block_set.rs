//! A set of block ids for what one DataNode holds: ordered, and small whether it holds every block or one in a thousand.
//!
//! Ids that share all but their last 16 bits are one group: as sorted 16-bit numbers while they are few, as a bit map beyond.
//! A replica costs 2 to 4 bytes where a node of a tree would cost 18.
//!
//! Invariants: groups ascend and none is empty; a list has at most `LIST_MAX` numbers.

use std::ops::RangeInclusive;

use protocol::BlockId;

/// Low bits of an id that a group holds.
const LOW_BITS: u32 = 16;
/// Count above which a bit map is smaller than a list.
const LIST_MAX: usize = 4096;
/// Count below which a bit map becomes a list again: well below `LIST_MAX`, so a set near the limit does not flip back and forth.
const BITS_MIN: usize = 3072;
/// Words of a bit map.
const WORDS: usize = (1 << LOW_BITS) / 64;

/// The set.
#[derive(Clone, Debug, Default)]
pub struct BlockSet {
    groups: Vec<Group>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Group {
    high: u64,
    members: Members,
}

#[derive(Clone, Debug)]
enum Members {
    List(Vec<u16>),
    Bits { words: Box<[u64]>, count: usize },
}

fn split(block: BlockId) -> (u64, u16) {
    (block.0 >> LOW_BITS, block.0 as u16)
}

impl BlockSet {
    fn find(&self, high: u64) -> Result<usize, usize> {
        // Most added blocks have the highest id so far.
        match self.groups.last() {
            Some(last) if last.high == high => Ok(self.groups.len() - 1),
            Some(last) if last.high < high => Err(self.groups.len()),
            _ => self.groups.binary_search_by_key(&high, |group| group.high),
        }
    }

    /// True if `block` is in it.
    pub fn contains(&self, block: &BlockId) -> bool {
        let (high, low) = split(*block);
        self.find(high).is_ok_and(|place| self.groups[place].members.contains(low))
    }

    /// Adds a block; false if it was there.
    pub fn insert(&mut self, block: BlockId) -> bool {
        let (high, low) = split(block);
        let place = self.find(high).unwrap_or_else(|place| {
            self.groups.insert(place, Group { high, members: Members::List(Vec::new()) });
            place
        });
        let added = self.groups[place].members.insert(low);
        self.len += usize::from(added);
        added
    }

    /// Takes a block out; false if it was not there.
    pub fn remove(&mut self, block: &BlockId) -> bool {
        let (high, low) = split(*block);
        let Ok(place) = self.find(high) else { return false };
        let members = &mut self.groups[place].members;
        let removed = members.remove(low);
        if removed && members.is_empty() {
            self.groups.remove(place);
        }
        self.len -= usize::from(removed);
        removed
    }

    /// Takes the highest block out: the cheapest one.
    pub fn pop_last(&mut self) -> Option<BlockId> {
        let group = self.groups.last()?;
        let low = group.members.range(0..=u16::MAX).next_back()?;
        let block = BlockId(group.high << LOW_BITS | u64::from(low));
        self.remove(&block);
        Some(block)
    }

    /// Blocks in a range of ids, in order.
    pub fn range(&self, range: RangeInclusive<BlockId>) -> impl Iterator<Item = BlockId> {
        let ((first, first_low), (last, last_low)) = (split(*range.start()), split(*range.end()));
        let from = self.groups.partition_point(|group| group.high < first);
        let groups = self.groups[from..].iter().take_while(move |group| group.high <= last);
        groups.flat_map(move |group| {
            let low = if group.high == first { first_low } else { 0 };
            let high = if group.high == last { last_low } else { u16::MAX };
            let members = group.members.range(low..=high);
            members.map(|member| BlockId(group.high << LOW_BITS | u64::from(member)))
        })
    }

    /// All blocks in order.
    pub fn iter(&self) -> impl Iterator<Item = BlockId> {
        self.range(BlockId(0)..=BlockId(u64::MAX))
    }

    /// Blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Members {
    fn is_empty(&self) -> bool {
        match self {
            Members::List(list) => list.is_empty(),
            Members::Bits { count, .. } => *count == 0,
        }
    }

    fn contains(&self, low: u16) -> bool {
        match self {
            Members::List(list) => list.binary_search(&low).is_ok(),
            Members::Bits { words, .. } => words[usize::from(low) / 64] >> (low % 64) & 1 == 1,
        }
    }

    fn insert(&mut self, low: u16) -> bool {
        match self {
            Members::List(list) => {
                let place = match list.last() {
                    Some(last) if *last < low => list.len(),
                    _ => match list.binary_search(&low) {
                        Ok(_) => return false,
                        Err(place) => place,
                    },
                };
                list.insert(place, low);
                if list.len() > LIST_MAX {
                    let mut words = vec![0_u64; WORDS].into_boxed_slice();
                    for low in list.iter() {
                        words[usize::from(*low) / 64] |= 1 << (low % 64);
                    }
                    *self = Members::Bits { count: list.len(), words };
                }
                true
            }
            Members::Bits { words, count } => {
                let (word, bit) = (&mut words[usize::from(low) / 64], 1 << (low % 64));
                let added = *word & bit == 0;
                *word |= bit;
                *count += usize::from(added);
                added
            }
        }
    }

    fn remove(&mut self, low: u16) -> bool {
        match self {
            Members::List(list) => {
                let Ok(place) = list.binary_search(&low) else { return false };
                list.remove(place);
                true
            }
            Members::Bits { words, count } => {
                let (word, bit) = (&mut words[usize::from(low) / 64], 1 << (low % 64));
                let removed = *word & bit != 0;
                *word &= !bit;
                *count -= usize::from(removed);
                if *count < BITS_MIN {
                    *self = Members::List(self.range(0..=u16::MAX).collect());
                }
                removed
            }
        }
    }

    fn range(&self, range: RangeInclusive<u16>) -> Lows<'_> {
        let (first, last) = (*range.start(), *range.end());
        match self {
            Members::List(list) => {
                let from = list.partition_point(|low| *low < first);
                let to = list.partition_point(|low| *low <= last).max(from);
                Lows::List(list[from..to].iter())
            }
            Members::Bits { words, .. } => {
                Lows::Bits { words, next: u32::from(first), end: u32::from(last) + 1 }
            }
        }
    }
}

/// Members of one group in order.
enum Lows<'a> {
    List(std::slice::Iter<'a, u16>),
    Bits { words: &'a [u64], next: u32, end: u32 },
}

impl Iterator for Lows<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        match self {
            Lows::List(list) => list.next().copied(),
            Lows::Bits { words, next, end } => {
                while *next < *end {
                    let rest = words[*next as usize / 64] >> (*next % 64);
                    if rest == 0 {
                        *next = (*next / 64 + 1) * 64;
                        continue;
                    }
                    let found = *next + rest.trailing_zeros();
                    *next = found + 1;
                    return u16::try_from(found).ok().filter(|_| found < *end);
                }
                None
            }
        }
    }
}

impl DoubleEndedIterator for Lows<'_> {
    fn next_back(&mut self) -> Option<u16> {
        match self {
            Lows::List(list) => list.next_back().copied(),
            Lows::Bits { words, next, end } => {
                while *next < *end {
                    let last = *end - 1;
                    let rest = words[last as usize / 64] << (63 - last % 64);
                    if rest == 0 {
                        *end = last / 64 * 64;
                        continue;
                    }
                    let found = last - rest.leading_zeros();
                    *end = found;
                    return u16::try_from(found).ok().filter(|_| found >= *next);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn check(set: &BlockSet, model: &BTreeSet<BlockId>) {
        assert!(set.iter().eq(model.iter().copied()));
        assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
        assert!(set.groups.windows(2).all(|pair| pair[0].high < pair[1].high));
        assert!(set.groups.iter().all(|group| !group.members.is_empty()));
        for (first, last) in [(0, 70_000), (100, 100), (65_000, 66_000), (1 << 40, u64::MAX)] {
            let range = BlockId(first)..=BlockId(last);
            assert!(set.range(range.clone()).eq(model.range(range).copied()), "{first} {last}");
        }
    }

    #[test]
    fn behaves_as_an_ordered_set() {
        let mut set = BlockSet::default();
        let mut model: BTreeSet<BlockId> = BTreeSet::new();
        let mut state = 7_u64;
        for round in 0..120_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = state >> 33;
            // One dense group that turns into a bit map and back, and a few sparse ones.
            let block = match random % 4 {
                0 => BlockId((1 << 40) + random % 300_000),
                _ => BlockId(60_000 + random % 9_000),
            };
            if state >> 20 & 7 < if round < 70_000 { 6 } else { 1 } {
                assert_eq!(set.insert(block), model.insert(block));
            } else {
                assert_eq!(set.remove(&block), model.remove(&block));
            }
            assert_eq!(set.contains(&block), model.contains(&block));
            if round % 9973 == 0 {
                check(&set, &model);
            }
        }
        check(&set, &model);
        while let Some(block) = set.pop_last() {
            assert_eq!(model.pop_last(), Some(block));
        }
        assert!(model.is_empty() && set.is_empty() && set.groups.is_empty());
    }

    #[test]
    fn a_full_group_is_a_bit_map_and_pops_from_its_end() {
        let mut set = BlockSet::default();
        for low in 0..1 << LOW_BITS {
            assert!(set.insert(BlockId(low)));
        }
        assert!(matches!(set.groups[0].members, Members::Bits { .. }));
        for low in (0..1 << LOW_BITS).rev() {
            assert_eq!(set.pop_last(), Some(BlockId(low)));
        }
        assert_eq!(set.pop_last(), None);
    }
}

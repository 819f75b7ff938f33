//! The entries of a directory: ids alone, in order of the inodes' names.
//!
//! A name is stored once, in its inode; whoever looks an entry up passes a function from id to name. The ids lie in chunks, so a directory
//! of a million entries is changed by moving a few kilobytes, and a position in it is found by binary search.
//!
//! Invariants: no chunk is empty or longer than `CHUNK_IDS`; the name of an inode does not change while it is an entry.

use protocol::InodeId;

/// Most ids in a chunk: 4 KB, moved in a fraction of a microsecond.
const CHUNK_IDS: usize = 512;
/// Ids by which a chunk grows, at least: most directories are small.
const GROWTH_MIN: usize = 4;

/// The entries.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Children {
    chunks: Vec<Vec<InodeId>>,
}

/// A place among the entries: that of an existing entry, or where one would be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    chunk: usize,
    index: usize,
}

impl Children {
    /// Entries that are in order of their names already.
    pub fn from_sorted(ids: &[InodeId]) -> Self {
        Children { chunks: ids.chunks(CHUNK_IDS).map(<[_]>::to_vec).collect() }
    }

    /// Where the entry called `name` is, or would be.
    ///
    /// # Errors
    /// Where it would be.
    pub fn find<'n>(
        &self,
        name: &[u8],
        name_of: impl Fn(InodeId) -> &'n [u8],
    ) -> Result<Position, Position> {
        let later = self
            .chunks
            .partition_point(|chunk| chunk.first().is_some_and(|first| name_of(*first) <= name));
        let chunk = later.saturating_sub(1);
        let Some(ids) = self.chunks.get(chunk) else {
            return Err(Position { chunk: 0, index: 0 });
        };
        match ids.binary_search_by(|id| name_of(*id).cmp(name)) {
            Ok(index) => Ok(Position { chunk, index }),
            Err(index) => Err(Position { chunk, index }),
        }
    }

    /// The entry at a position.
    pub fn get(&self, at: Position) -> Option<InodeId> {
        self.chunks.get(at.chunk)?.get(at.index).copied()
    }

    /// Puts an entry where [`Children::find`] said it would be.
    pub fn insert(&mut self, at: Position, id: InodeId) {
        let Position { mut chunk, mut index } = at;
        if self.chunks.is_empty() {
            self.chunks.reserve_exact(1);
            self.chunks.push(Vec::new());
        }
        let full = self.chunks[chunk].len() == CHUNK_IDS;
        if full && index == CHUNK_IDS {
            // Names that ascend fill their chunks.
            chunk += 1;
            index = 0;
            self.chunks.insert(chunk, Vec::new());
        } else if full {
            let half = self.chunks[chunk].split_off(CHUNK_IDS / 2);
            self.chunks.insert(chunk + 1, half);
            if index > CHUNK_IDS / 2 {
                chunk += 1;
                index -= CHUNK_IDS / 2;
            }
        }
        let ids = &mut self.chunks[chunk];
        if ids.len() == ids.capacity() {
            let growth = (ids.len() / 2).max(GROWTH_MIN).min(CHUNK_IDS - ids.len());
            ids.reserve_exact(growth);
        }
        ids.insert(index, id);
    }

    /// Takes the entry at a position out.
    pub fn remove(&mut self, at: Position) -> Option<InodeId> {
        let ids = self.chunks.get_mut(at.chunk).filter(|ids| at.index < ids.len())?;
        let id = ids.remove(at.index);
        if ids.is_empty() {
            self.chunks.remove(at.chunk);
        } else if ids.capacity() > 2 * ids.len() + 2 * GROWTH_MIN {
            ids.shrink_to(ids.len() + GROWTH_MIN);
        }
        Some(id)
    }

    /// Takes the last entry out: the cheapest one.
    pub fn pop(&mut self) -> Option<InodeId> {
        let chunk = self.chunks.len().checked_sub(1)?;
        let index = self.chunks[chunk].len().checked_sub(1)?;
        self.remove(Position { chunk, index })
    }

    /// Entries in order of names.
    pub fn iter(&self) -> impl Iterator<Item = InodeId> {
        self.chunks.iter().flatten().copied()
    }

    /// Entries from a position on.
    pub fn iter_from(&self, at: Position) -> impl Iterator<Item = InodeId> {
        let chunks = self.chunks.get(at.chunk..).unwrap_or_default();
        chunks.iter().flatten().skip(at.index).copied()
    }

    /// The position after that of an entry.
    pub fn after(&self, at: Position) -> Position {
        Position { index: at.index + 1, ..at }
    }

    /// How many entries there are from a position on; counts chunks, not entries.
    pub fn count_from(&self, at: Position) -> usize {
        let chunks = self.chunks.get(at.chunk..).unwrap_or_default();
        chunks.iter().map(Vec::len).sum::<usize>().saturating_sub(at.index)
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Names by id: several of one length, so that orders of ids and names differ.
    fn names() -> Vec<String> {
        (0..5000_u64).map(|id| format!("{:x}", id.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
    }

    fn check(children: &Children, names: &[String], model: &BTreeMap<&str, u64>) {
        let ids: Vec<u64> = children.iter().map(|id| id.0).collect();
        assert!(ids.iter().eq(model.values()));
        assert_eq!((children.len(), children.is_empty()), (model.len(), model.is_empty()));
        assert!(children.chunks.iter().all(|chunk| (1..=CHUNK_IDS).contains(&chunk.len())));
        for probe in ["", "8", "ff", names[17].as_str()] {
            let name_of = |id: InodeId| names[id.0 as usize].as_bytes();
            let (Ok(at) | Err(at)) = children.find(probe.as_bytes(), name_of);
            let expected: Vec<u64> = model.range(probe..).map(|(_, id)| *id).collect();
            assert!(children.iter_from(at).map(|id| id.0).eq(expected.iter().copied()), "{probe}");
            assert_eq!(children.count_from(at), expected.len());
        }
    }

    #[test]
    fn behaves_as_an_ordered_map_from_names() {
        let names = names();
        let name_of = |id: InodeId| names[id.0 as usize].as_bytes();
        let mut children = Children::default();
        let mut model: BTreeMap<&str, u64> = BTreeMap::new();
        let mut state = 7_u64;
        for round in 0..40_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (state >> 33) % 5000;
            let name = &names[number as usize];
            let fill = (state >> 20) % 10 < if round / 10_000 % 2 == 0 { 8 } else { 2 };
            match (children.find(name.as_bytes(), name_of), fill) {
                (Err(at), true) => {
                    children.insert(at, InodeId(number));
                    assert_eq!(model.insert(name, number), None);
                }
                (Ok(at), false) => {
                    assert_eq!(children.get(at), Some(InodeId(number)));
                    assert_eq!(children.remove(at), Some(InodeId(number)));
                    assert_eq!(model.remove(name.as_str()), Some(number));
                }
                (found, _) => assert_eq!(found.is_ok(), model.contains_key(name.as_str())),
            }
            if round % 1999 == 0 {
                check(&children, &names, &model);
            }
        }
        let sorted: Vec<InodeId> = model.values().map(|id| InodeId(*id)).collect();
        check(&Children::from_sorted(&sorted), &names, &model);
        while let Some(id) = children.pop() {
            assert_eq!(model.pop_last().map(|(_, id)| id), Some(id.0));
        }
        assert!(model.is_empty() && children.is_empty());
    }

    #[test]
    fn ascending_names_fill_their_chunks() {
        let names: Vec<String> = (0..2000).map(|number| format!("{number:06}")).collect();
        let mut children = Children::default();
        for (number, name) in (0..).zip(&names) {
            let found = children.find(name.as_bytes(), |id| names[id.0 as usize].as_bytes());
            children.insert(found.unwrap_err(), InodeId(number));
        }
        assert_eq!(children.chunks.len(), 2000_usize.div_ceil(CHUNK_IDS));
    }
}

//! The blocks of a file: most files have one, which is kept inline.

use std::ops::{Deref, DerefMut};

use protocol::BlockId;

/// Blocks in file order; a slice to read and change, and a stack at its end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockList(Kind);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Kind {
    #[default]
    None,
    One(BlockId),
    /// Two or more blocks, now or earlier.
    #[expect(
        clippy::box_collection,
        reason = "one word instead of three in each of millions of files"
    )]
    Many(Box<Vec<BlockId>>),
}

const _: () = assert!(size_of::<BlockList>() == 16, "a list is part of every file");

impl BlockList {
    /// Adds a block at the end.
    pub fn push(&mut self, block: BlockId) {
        match &mut self.0 {
            Kind::None => self.0 = Kind::One(block),
            Kind::One(first) => self.0 = Kind::Many(Box::new(vec![*first, block])),
            Kind::Many(blocks) => blocks.push(block),
        }
    }

    /// Takes the last block off.
    pub fn pop(&mut self) -> Option<BlockId> {
        let last = self.last().copied()?;
        self.truncate(self.len() - 1);
        Some(last)
    }

    /// Keeps the first `count` blocks.
    pub fn truncate(&mut self, count: usize) {
        match (&mut self.0, count) {
            (_, 0) => self.0 = Kind::None,
            (Kind::Many(blocks), _) => blocks.truncate(count),
            _ => {}
        }
    }
}

impl Deref for BlockList {
    type Target = [BlockId];

    fn deref(&self) -> &[BlockId] {
        match &self.0 {
            Kind::None => &[],
            Kind::One(block) => std::slice::from_ref(block),
            Kind::Many(blocks) => blocks,
        }
    }
}

impl DerefMut for BlockList {
    fn deref_mut(&mut self) -> &mut [BlockId] {
        match &mut self.0 {
            Kind::None => &mut [],
            Kind::One(block) => std::slice::from_mut(block),
            Kind::Many(blocks) => blocks,
        }
    }
}

impl From<Vec<BlockId>> for BlockList {
    fn from(blocks: Vec<BlockId>) -> Self {
        match blocks[..] {
            [] => BlockList(Kind::None),
            [block] => BlockList(Kind::One(block)),
            _ => BlockList(Kind::Many(Box::new(blocks))),
        }
    }
}

impl Extend<BlockId> for BlockList {
    fn extend<I: IntoIterator<Item = BlockId>>(&mut self, blocks: I) {
        blocks.into_iter().for_each(|block| self.push(block));
    }
}

impl<'a> IntoIterator for &'a BlockList {
    type Item = &'a BlockId;
    type IntoIter = std::slice::Iter<'a, BlockId>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_as_a_vector() {
        let mut list = BlockList::default();
        let mut model: Vec<BlockId> = Vec::new();
        for round in 0..200_u64 {
            match round % 7 {
                0..=2 => {
                    list.push(BlockId(round));
                    model.push(BlockId(round));
                }
                3 | 4 => assert_eq!(list.pop(), model.pop()),
                5 => {
                    list.extend([BlockId(round), BlockId(round + 1)]);
                    model.extend([BlockId(round), BlockId(round + 1)]);
                }
                _ => {
                    list.truncate((round % 4) as usize);
                    model.truncate((round % 4) as usize);
                }
            }
            if let (Some(mine), Some(its)) = (list.first_mut(), model.first_mut()) {
                mine.0 += 1;
                its.0 += 1;
            }
            assert_eq!(*list, *model);
            assert!(BlockList::from(model.clone()).iter().eq(&list));
        }
    }
}

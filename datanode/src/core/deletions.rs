//! Deletions that the NameNode orders: one after the other, since each may wait for a writer to let go.
//!
//! The NameNode repeats an order until it hears that the replica is gone. Invariants: an order that is repeated is one; an order is for the replica that there is
//! when it comes, and a copy that arrives later, also of the same stamp, is none of its business.

use std::collections::{BTreeMap, VecDeque};

use protocol::{BlockId, GenerationStamp};

/// Most deletions that wait; further ones are forgotten, and ordered again. 100,000: ten of the largest orders, a few megabytes.
const DELETIONS_MAX: usize = 100_000;

/// The deletions that are ordered.
#[derive(Debug, Default)]
pub struct Deletions {
    /// Those that wait, in order.
    queue: VecDeque<BlockId>,
    /// Those that wait, and the one under way.
    doomed: BTreeMap<BlockId, Doomed>,
    /// Somebody carries them out.
    is_running: bool,
}

/// A replica that is to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// The newest stamp for which that was ordered.
    pub stamp: GenerationStamp,
    /// Distinguishes it from others of its block and stamp.
    pub number: u64,
}

impl Deletions {
    /// Takes an order; false if there is no room.
    pub fn add(&mut self, block: BlockId, next: Doomed) -> bool {
        match self.doomed.get_mut(&block) {
            // A repeated order, or one for what came meanwhile: whoever is at it looks again.
            Some(doomed) if doomed.number == next.number => {
                doomed.stamp = doomed.stamp.max(next.stamp);
            }
            Some(doomed) => *doomed = next,
            None if self.queue.len() >= DELETIONS_MAX => return false,
            None => {
                self.doomed.insert(block, next);
                self.queue.push_back(block);
            }
        }
        true
    }

    /// The next one; if there is none, nobody carries them out any more.
    pub fn next_one(&mut self) -> Option<(BlockId, Doomed)> {
        let next =
            self.queue.pop_front().and_then(|block| Some((block, *self.doomed.get(&block)?)));
        self.is_running = next.is_some();
        next
    }

    /// One was carried out.
    pub fn done(&mut self, block: BlockId, done: Doomed) {
        match self.doomed.get(&block) {
            Some(doomed) if *doomed != done => self.queue.push_back(block),
            _ => drop(self.doomed.remove(&block)),
        }
    }

    /// True if there are some that nobody carries out: the caller then does.
    pub fn begin(&mut self) -> bool {
        let is_needed = !self.queue.is_empty() && !self.is_running;
        self.is_running |= is_needed;
        is_needed
    }

    /// Whoever carried them out has ended early.
    pub fn interrupt(&mut self) {
        self.is_running = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: GenerationStamp = GenerationStamp(3);

    fn doomed(number: u64) -> Doomed {
        Doomed { stamp: STAMP, number }
    }

    #[test]
    fn repeated_orders_are_one_and_all_come_in_order() {
        let mut inner = Deletions::default();
        for block in [5, 2, 5, 9, 2] {
            assert!(inner.add(BlockId(block), doomed(1)));
        }
        let first = inner.next_one().unwrap();
        assert_eq!(first, (BlockId(5), doomed(1)));
        // It is under way: the same again, and then another replica of the block.
        assert!(inner.add(BlockId(5), doomed(1)));
        assert_eq!(inner.queue.len(), 2);
        assert!(inner.add(BlockId(5), doomed(4)));
        inner.done(first.0, first.1);
        let mut rest = Vec::new();
        while let Some((block, doomed)) = inner.next_one() {
            inner.done(block, doomed);
            rest.push((block.0, doomed.number));
        }
        assert_eq!(rest, [(2, 1), (9, 1), (5, 4)]);
        assert!(inner.doomed.is_empty() && !inner.is_running);
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let mut inner = Deletions::default();
        let taken =
            (0..DELETIONS_MAX as u64 + 3).filter(|block| inner.add(BlockId(*block), doomed(0)));
        assert_eq!(taken.count(), DELETIONS_MAX);
    }
}

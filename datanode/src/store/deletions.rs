//! Deletions that the NameNode orders: one after the other, since each may wait for a writer to let go.
//!
//! The NameNode repeats an order until it hears that the replica is gone. Invariant: an order is for the replica that there is when it comes. A copy that arrives
//! later, also of the same stamp, is none of its business.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use protocol::{BlockId, GenerationStamp};

use super::Store;
use super::entry::Entry;

/// Most deletions that wait; further ones are forgotten, and ordered again. 100,000: ten of the largest orders, a few megabytes.
const DELETIONS_MAX: usize = 100_000;

/// The deletions that are ordered.
#[derive(Debug, Default)]
pub(super) struct Deletions(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Those that wait, in order.
    queue: VecDeque<BlockId>,
    /// Those that wait, and the one under way.
    doomed: BTreeMap<BlockId, Doomed>,
    /// Somebody carries them out.
    is_running: bool,
}

/// A replica that is to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doomed {
    stamp: GenerationStamp,
    /// That of its entry.
    number: u64,
}

impl Doomed {
    fn is(self, entry: &Entry) -> bool {
        entry.number == self.number && entry.replica.stamp <= self.stamp
    }
}

impl Inner {
    /// False if there is no room.
    fn add(&mut self, block: BlockId, next: Doomed) -> bool {
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
    fn next(&mut self) -> Option<(BlockId, Doomed)> {
        let next =
            self.queue.pop_front().and_then(|block| Some((block, *self.doomed.get(&block)?)));
        self.is_running = next.is_some();
        next
    }

    /// One was carried out.
    fn done(&mut self, block: BlockId, done: Doomed) {
        match self.doomed.get(&block) {
            Some(doomed) if *doomed != done => self.queue.push_back(block),
            _ => drop(self.doomed.remove(&block)),
        }
    }
}

impl Store {
    /// Takes orders of the NameNode; true if nobody carries them out: the caller has somebody call [`Store::delete_ordered`].
    pub fn order_deletions(&self, orders: &[(BlockId, GenerationStamp)]) -> bool {
        let mut inner = self.deletions.0.lock();
        let mut forgotten = 0;
        for (block, stamp) in orders {
            let replicas = self.replicas.lock();
            let found = replicas.get(block).map(|entry| (entry.number, entry.replica.stamp));
            match found {
                // A missing replica counts as deleted. Before somebody else changes it: the last report counts.
                None => self.changes.push(|pending| pending.deleted(*block)),
                Some((number, has)) if has <= *stamp => {
                    forgotten += usize::from(!inner.add(*block, Doomed { stamp: *stamp, number }));
                }
                Some(_) => {}
            }
        }
        if forgotten > 0 {
            tracing::warn!(forgotten, "too many deletions wait");
        }
        let is_needed = !inner.queue.is_empty() && !inner.is_running;
        inner.is_running |= is_needed;
        is_needed
    }

    /// Carries out the deletions that are ordered; blocks until there are none.
    pub fn delete_ordered(&self) {
        // Also if it panics: the next order finds somebody.
        let _running = Running(&self.deletions);
        loop {
            let Some((block, doomed)) = self.deletions.0.lock().next() else { return };
            self.delete_if(block, |entry| doomed.is(entry));
            self.deletions.0.lock().done(block, doomed);
        }
    }

    /// Deletes a replica unless its stamp is newer than `stamp`: it is then a different one, and its writer continues. A missing replica counts as deleted.
    pub fn delete(&self, block: BlockId, stamp: GenerationStamp) {
        self.delete_if(block, |entry| entry.replica.stamp <= stamp);
    }

    /// Deletes the replica of a block if it is the one that is meant. A missing replica counts as deleted.
    fn delete_if(&self, block: BlockId, is_meant: impl Fn(&Entry) -> bool) {
        if self.replicas.lock().get(&block).is_some_and(|entry| !is_meant(entry)) {
            return;
        }
        if let Err(error) = self.stop_writer(block) {
            tracing::warn!(%block, %error, "cannot delete now");
            return;
        }
        let _moving = self.moves.moving(block);
        let mut replicas = self.replicas.lock();
        let is_other = |entry: &Entry| !is_meant(entry) || entry.writer.is_some();
        if replicas.get(&block).is_some_and(is_other) {
            return;
        }
        let removed = replicas.remove(&block);
        drop(replicas);
        if let Some(entry) = removed {
            entry.discard(&self.volumes);
        }
        self.changes.push(|pending| pending.deleted(block));
    }
}

struct Running<'a>(&'a Deletions);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.lock().is_running = false;
        }
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
        let mut inner = Inner::default();
        for block in [5, 2, 5, 9, 2] {
            assert!(inner.add(BlockId(block), doomed(1)));
        }
        let first = inner.next().unwrap();
        assert_eq!(first, (BlockId(5), doomed(1)));
        // It is under way: the same again, and then another replica of the block.
        assert!(inner.add(BlockId(5), doomed(1)));
        assert_eq!(inner.queue.len(), 2);
        assert!(inner.add(BlockId(5), doomed(4)));
        inner.done(first.0, first.1);
        let mut rest = Vec::new();
        while let Some((block, doomed)) = inner.next() {
            inner.done(block, doomed);
            rest.push((block.0, doomed.number));
        }
        assert_eq!(rest, [(2, 1), (9, 1), (5, 4)]);
        assert!(inner.doomed.is_empty() && !inner.is_running);
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let mut inner = Inner::default();
        let taken =
            (0..DELETIONS_MAX as u64 + 3).filter(|block| inner.add(BlockId(*block), doomed(0)));
        assert_eq!(taken.count(), DELETIONS_MAX);
    }
}

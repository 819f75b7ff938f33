//! Deletions on this DataNode's disks.
//!
//! Invariant: an order of the NameNode takes the replica that was in the table when it came ([`crate::core::deletions`]).

use parking_lot::Mutex;
use protocol::{BlockId, GenerationStamp};

use crate::core::deletions::{Deletions, Doomed};
use crate::store::Store;
use crate::store::entry::Entry;

/// True if an order is for this entry.
fn is_meant(doomed: Doomed, entry: &Entry) -> bool {
    entry.number == doomed.number && entry.replica.stamp <= doomed.stamp
}

impl Store {
    /// Takes orders of the NameNode; true if nobody carries them out: the caller has somebody call [`Store::delete_ordered`].
    pub fn order_deletions(&self, orders: &[(BlockId, GenerationStamp)]) -> bool {
        let mut deletions = self.deletions.lock();
        let mut forgotten = 0;
        for (block, stamp) in orders {
            let replicas = self.replicas.lock();
            let found = replicas.get(block).map(|entry| (entry.number, entry.replica.stamp));
            match found {
                // A missing replica counts as deleted. Before somebody else changes it: the last report counts.
                None => self.changes.push(|pending| pending.deleted(*block)),
                Some((number, has)) if has <= *stamp => {
                    forgotten +=
                        usize::from(!deletions.add(*block, Doomed { stamp: *stamp, number }));
                }
                Some(_) => {}
            }
        }
        if forgotten > 0 {
            tracing::warn!(forgotten, "too many deletions wait");
        }
        deletions.begin()
    }

    /// Carries out the deletions that are ordered; blocks until there are none.
    pub fn delete_ordered(&self) {
        // Also if it panics: the next order finds somebody.
        let _running = Running(&self.deletions);
        loop {
            let Some((block, doomed)) = self.deletions.lock().next_one() else { return };
            self.delete_if(block, |entry| is_meant(doomed, entry));
            self.deletions.lock().done(block, doomed);
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

struct Running<'a>(&'a Mutex<Deletions>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().interrupt();
        }
    }
}

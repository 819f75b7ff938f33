//! Replicas that are bad, or may be: what the NameNode is told of them, and what the scanner verifies before all others.
//!
//! Invariant: a full report counts every replica as good, so those that are known to be bad are told to be after each.

use protocol::BlockId;

use crate::core::replica::Replica;
use crate::error::StoreError;
use crate::store::Store;

/// Most replicas that wait for the scanner out of turn; further ones wait for their turn.
const SUSPECTS_MAX: usize = 10_000;

impl Store {
    /// Hands over all replicas for a full report; those that are known to be bad are told after it.
    pub fn report_all<T>(&self, take: impl FnOnce(Vec<Replica>) -> T) -> T {
        let taken = take(self.replicas());
        // Only now: changes that are added here go out after the report. One that turns bad meanwhile is seen here, or added by whoever finds it.
        let replicas = self.replicas.lock();
        let damaged = replicas.values().filter(|entry| entry.is_damaged).map(|entry| entry.replica);
        let damaged: Vec<Replica> = damaged.collect();
        if !damaged.is_empty() {
            // Before somebody else changes them: the last report counts.
            self.changes.push(|pending| damaged.iter().for_each(|replica| pending.bad(replica)));
        }
        taken
    }

    /// Reports that a replica fails its checksums or cannot be read, if it is still there. The NameNode would keep one that was reported gone, or superseded,
    /// as bad, and wait for the end of it.
    pub fn report_bad(&self, replica: &Replica) {
        let mut replicas = self.replicas.lock();
        let entry = replicas.get_mut(&replica.block);
        let Some(entry) = entry.filter(|entry| entry.replica.stamp == replica.stamp) else {
            return;
        };
        entry.is_damaged = true;
        // Before somebody else changes it: the last report counts.
        self.changes.push(|pending| pending.bad(replica));
        drop(replicas);
        tracing::warn!(block = %replica.block, stamp = %replica.stamp, "bad replica");
    }

    /// Reports that a replica is good after all, if it is still there.
    pub(in crate::store) fn report_good(&self, replica: &Replica) {
        let mut replicas = self.replicas.lock();
        let Some(entry) = replicas.get_mut(&replica.block) else { return };
        if entry.replica == *replica {
            entry.is_damaged = false;
            self.changes.push(|pending| pending.received(replica));
        }
    }

    /// Handles a replica that its disk does not return intact: damage is reported, at once or, while the replica is written, when it is complete. A disk that
    /// fails is checked first. If it works, the scanner reads the replica again; what fails twice, for whomever, is reported, too.
    pub fn note_unread(&self, replica: &Replica, error: &StoreError) {
        if !error.is_bad_replica() {
            return;
        }
        if !replica.is_finalized() {
            return self.question(replica, error);
        }
        tracing::warn!(error = %protocol::error::chain(error), "cannot read a replica");
        if !error.is_failed_read() || !self.is_first_failed_read(replica.block) {
            self.report_bad(replica);
            return;
        }
        let index = self.replicas.lock().get(&replica.block).map(|entry| entry.volume);
        let Some(index) = index else { return self.forget_failed_read(replica.block) };
        if let Err(cause) = self.volumes[index].check() {
            self.fence_unless_short(index, &cause);
        }
        if !self.volumes[index].is_fenced() {
            self.suspect(replica.block);
        }
    }

    /// Has the scanner verify a replica once it is complete.
    fn question(&self, replica: &Replica, error: &StoreError) {
        let mut replicas = self.replicas.lock();
        let entry = replicas.get_mut(&replica.block);
        let Some(entry) = entry.filter(|entry| entry.replica.stamp == replica.stamp) else {
            return;
        };
        let is_first = !std::mem::replace(&mut entry.is_questioned, true);
        let is_complete = entry.replica.is_finalized();
        drop(replicas);
        if is_complete {
            self.suspect(replica.block);
        }
        if is_first {
            let error = protocol::error::chain(error);
            tracing::warn!(error, "cannot read a replica that is being written");
        }
    }

    fn is_first_failed_read(&self, block: BlockId) -> bool {
        let mut failed = self.failed_reads.lock();
        failed.len() < SUSPECTS_MAX && failed.insert(block)
    }

    /// A replica was read and is good, or is gone.
    pub fn forget_failed_read(&self, block: BlockId) {
        self.failed_reads.lock().remove(&block);
    }

    /// Asks the scanner to verify a replica soon.
    pub fn suspect(&self, block: BlockId) {
        let mut suspects = self.suspects.lock();
        if suspects.len() < SUSPECTS_MAX {
            suspects.insert(block);
        }
    }

    /// The next replica to verify before all others.
    pub fn pop_suspect(&self) -> Option<BlockId> {
        self.suspects.lock().pop_first()
    }
}

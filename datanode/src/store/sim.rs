//! What a simulator does with a store on the disks of a [`sys::disk::sim::Machine`]: the store then starts no threads, reads no clock and draws no random
//! numbers of its own.
//!
//! ```text
//! Store::open on directories of the machine
//! calls, of one thread            a writer's packets are written when it is asked for those in flight, synced or dropped
//! Store::run_behind               does what production leaves to threads
//! Machine::kill, cut_power, or a planned fault: from then on every operation fails
//! drop all writers, Store::forget_behind, drop the store
//! Machine::start, Store::open again
//! ```
//!
//! A request that takes over a replica does not wait for its writer: whoever simulates the writer's connection drops it first, and the request fails with
//! [`WriterStuck`](crate::error::StoreError::WriterStuck) otherwise.

use super::Store;

impl Store {
    /// Does the oldest of what waits for a thread; false if nothing does.
    pub fn run_behind(&self) -> bool {
        self.syncs.by_hand().is_some_and(|jobs| jobs.run_next())
    }

    /// How much waits for a thread.
    pub fn behind_count(&self) -> usize {
        self.syncs.by_hand().map_or(0, |jobs| jobs.count())
    }

    /// Forgets what waits for a thread, as the end of the process does.
    pub fn forget_behind(&self) {
        if let Some(jobs) = self.syncs.by_hand() {
            jobs.clear();
        }
        drop(self.behind.take());
    }
}

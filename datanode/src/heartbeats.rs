//! Counts what became of heartbeats since the start, for monitors: a DataNode whose heartbeats are not answered is cut off, whatever else it does.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    answered: AtomicU64,
    failed: AtomicU64,
}

impl Heartbeats {
    /// Heartbeats that the NameNode answered.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Registrations and heartbeats that failed or were refused.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Counts one.
    pub(crate) fn note(&self, is_answered: bool) {
        let count = if is_answered { &self.answered } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

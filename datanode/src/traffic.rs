//! Counts the bytes of replicas that came and went since the start. What a reader maps itself is not among them.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
}

impl Traffic {
    /// Bytes that writers and other DataNodes sent here.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes sent to readers, and as copies to other DataNodes. What a member of a pipeline passes on does not count.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Counts the data of a packet that came.
    pub(crate) fn note_received(&self, data_bytes: u32) {
        self.received.fetch_add(data_bytes.into(), Ordering::Relaxed);
    }

    /// Counts the data of a packet that was sent.
    pub(crate) fn note_sent(&self, data_bytes: u32) {
        self.sent.fetch_add(data_bytes.into(), Ordering::Relaxed);
    }
}

//! Counts the scanner's work since the start, for its report.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts.
#[derive(Debug, Default)]
pub struct Scans {
    blocks: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl Scans {
    /// Replicas scanned.
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Bytes read of them.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bad ones among them.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Counts a replica of which `bytes` were read.
    pub(crate) fn note(&self, bytes: u64) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a bad one.
    pub(crate) fn note_bad(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}

//! The tails of a meta file while its replica grows ([`protocol::meta`]).
//!
//! Invariant: one of the two places holds the state on disk at the last sync. Only the other is written until the next sync is over.

use std::io;

use protocol::meta::{Layout, Tail};
use sys::disk::File;

/// Which of the tails may be replaced.
#[derive(Debug, Default)]
pub(super) struct Tails {
    spare: usize,
    /// True if the spare tail was replaced since the last sync.
    replaced: bool,
}

impl Tails {
    /// Writes a tail to the spare place.
    pub(super) fn put(&mut self, meta_file: &File, tail: Tail) -> io::Result<()> {
        let mut places = Layout::CURRENT.tail_positions();
        let at = places.nth(self.spare).expect("the current version has two places");
        self.replaced = true;
        meta_file.write_all_at(&tail.encode(), at)
    }

    /// Records that both files of the replica are on disk in their present state.
    pub(super) fn synced(&mut self) {
        if std::mem::take(&mut self.replaced) {
            self.spare = 1 - self.spare;
        }
    }
}

//! [`Losses`]: what a missing replica says.
//!
//! Invariants: while [`Losses::since`] is some stamp, everything that this DataNode acknowledged under that stamp or a later one has a replica in the
//! table, or was deleted by order. A replica that is given up for any other reason ends that, until the next registration.

use parking_lot::Mutex;
use protocol::GenerationStamp;

use super::Store;

/// Locked after the table of replicas.
#[derive(Debug, Default)]
pub(super) struct Losses(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    since: Option<GenerationStamp>,
    count: u64,
}

impl Losses {
    pub(super) fn since(&self) -> Option<GenerationStamp> {
        self.0.lock().since
    }
}

impl Store {
    /// How often replicas were given up since the store was opened.
    pub fn loss_count(&self) -> u64 {
        self.losses.0.lock().count
    }

    /// The NameNode hands out stamps from this one on after it has registered the DataNode, for which that asked after `loss_count` losses.
    pub fn vouch_from(&self, stamp: GenerationStamp, loss_count: u64) {
        let mut losses = self.losses.0.lock();
        if losses.count == loss_count {
            losses.since.get_or_insert(stamp);
        }
    }

    /// A replica is given up of which somebody may have been promised bytes.
    pub(super) fn note_loss(&self) {
        let mut losses = self.losses.0.lock();
        losses.since = None;
        losses.count += 1;
    }
}

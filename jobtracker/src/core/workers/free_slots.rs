//! Which free slots are worth offering to jobs again.
//!
//! A slot that every job has declined stays declined until a relevant event happens. After news of one worker, only its slots are offered,
//! so work per task does not grow with the number of workers whose slots nobody wants.
//!
//! Invariant: all jobs would decline a slot outside the offer, as long as no time passes; a tick offers all slots.

use std::collections::BTreeSet;

use protocol::WorkerId;

/// See the module.
#[derive(Debug)]
pub(crate) enum FreeSlots {
    /// The slots of these workers; of none if no event has happened.
    At(BTreeSet<WorkerId>),
    /// All slots: a job has new demand, or there may be more workers.
    Everywhere,
}

impl FreeSlots {
    /// Nothing to offer.
    pub(crate) fn nowhere() -> Self {
        FreeSlots::At(BTreeSet::new())
    }

    /// True if no event has happened.
    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, FreeSlots::At(workers) if workers.is_empty())
    }

    /// A slot of a worker has become free.
    pub(crate) fn at(&mut self, worker: WorkerId) {
        if let FreeSlots::At(workers) = self {
            workers.insert(worker);
        }
    }

    /// From now on, a job may want any slot.
    pub(crate) fn everywhere(&mut self) {
        *self = FreeSlots::Everywhere;
    }

    /// Returns the offer and clears it; the caller makes the offer now.
    pub(crate) fn take(&mut self) -> FreeSlots {
        std::mem::replace(self, FreeSlots::nowhere())
    }
}

//! Which free slots are worth offering to jobs again.
//!
//! A slot that every job has declined stays declined until something that concerns the answer happens. So after news of one worker its
//! slots alone are offered, and work per task does not grow with the number of workers that have slots nobody wants.
//!
//! Invariant: a slot outside the offer would be declined by all jobs, as long as no time passes; a tick offers all.

use std::collections::BTreeSet;

use protocol::WorkerId;

/// See the module.
#[derive(Debug)]
pub(crate) enum FreeSlots {
    /// The slots of these workers; of none if nothing has happened.
    At(BTreeSet<WorkerId>),
    /// All: a job wants what it did not want before, or there may be more workers.
    Everywhere,
}

impl FreeSlots {
    /// Nothing to offer.
    pub(crate) fn nowhere() -> Self {
        FreeSlots::At(BTreeSet::new())
    }

    /// True if nothing has happened.
    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, FreeSlots::At(workers) if workers.is_empty())
    }

    /// A slot of a worker has become free.
    pub(crate) fn at(&mut self, worker: WorkerId) {
        if let FreeSlots::At(workers) = self {
            workers.insert(worker);
        }
    }

    /// Any slot may be wanted now.
    pub(crate) fn everywhere(&mut self) {
        *self = FreeSlots::Everywhere;
    }

    /// What to offer, which is about to be done.
    pub(crate) fn take(&mut self) -> FreeSlots {
        std::mem::replace(self, FreeSlots::nowhere())
    }
}

//! Which free slots are worth offering to jobs again.
//!
//! A slot that every job has declined stays declined until something that concerns the answer happens. So news of one worker leads to a look at
//! its slots alone, and work per task does not grow with the number of workers that have slots nobody wants.
//!
//! Invariant: a slot outside the look would be declined by all jobs, as long as no time passes; time is looked at by the tick, everywhere.

use std::collections::BTreeSet;

use protocol::WorkerId;

/// See the module.
#[derive(Debug)]
pub(crate) enum Look {
    /// The slots of these workers; of none if nothing has happened.
    At(BTreeSet<WorkerId>),
    /// All: a job wants what it did not want before, or there may be more workers.
    Everywhere,
}

impl Look {
    /// Nothing to look at.
    pub(crate) fn nowhere() -> Self {
        Look::At(BTreeSet::new())
    }

    /// True if nothing has happened.
    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, Look::At(workers) if workers.is_empty())
    }

    /// A slot of a worker has become free.
    pub(crate) fn at(&mut self, worker: WorkerId) {
        if let Look::At(workers) = self {
            workers.insert(worker);
        }
    }

    /// Any slot may be wanted now.
    pub(crate) fn everywhere(&mut self) {
        *self = Look::Everywhere;
    }

    /// What to look at, which is about to be done.
    pub(crate) fn take(&mut self) -> Look {
        std::mem::replace(self, Look::nowhere())
    }
}

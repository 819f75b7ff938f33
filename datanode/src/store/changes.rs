//! The queue between the store and the session with the NameNode.

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::core::report::PendingChanges;

/// Changes to report; wakes whoever waits for them.
#[derive(Debug, Default)]
pub struct ChangeQueue {
    pending: Mutex<PendingChanges>,
    added: Notify,
}

impl ChangeQueue {
    /// Adds changes.
    pub fn push(&self, add: impl FnOnce(&mut PendingChanges)) {
        add(&mut self.pending.lock());
        self.wake();
    }

    /// What is to be reported.
    pub fn pending(&self) -> MutexGuard<'_, PendingChanges> {
        self.pending.lock()
    }

    /// Waits until something is added.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// Wakes whoever waits: there is something else to report.
    pub fn wake(&self) {
        self.added.notify_one();
    }
}

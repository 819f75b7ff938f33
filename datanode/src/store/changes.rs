//! The queue between the store and the loop that talks to the NameNode.

use parking_lot::Mutex;
use protocol::datanode::Changes;
use protocol::{DatanodeId, Epoch};
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
        self.added.notify_one();
    }

    /// Waits until there are changes and takes them all.
    pub async fn take(&self, datanode: DatanodeId, epoch: Epoch) -> Changes {
        loop {
            if let Some(changes) = self.try_take(datanode, epoch) {
                return changes;
            }
            self.added.notified().await;
        }
    }

    /// Takes all changes, if there are any.
    pub fn try_take(&self, datanode: DatanodeId, epoch: Epoch) -> Option<Changes> {
        let mut pending = self.pending.lock();
        (!pending.is_empty()).then(|| pending.take(datanode, epoch))
    }

    /// Takes back changes that did not reach the NameNode.
    pub fn give_back(&self, changes: Changes) {
        self.push(|pending| pending.give_back(changes));
    }
}

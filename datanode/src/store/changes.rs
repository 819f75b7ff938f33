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
            {
                let mut pending = self.pending.lock();
                if !pending.is_empty() {
                    return pending.take(datanode, epoch);
                }
            }
            self.added.notified().await;
        }
    }

    /// Takes back changes that did not reach the NameNode.
    pub fn give_back(&self, changes: Changes) {
        self.push(|pending| pending.give_back(changes));
    }
}

//! What must wait for the disk: answers and commands, released in the order of transactions.
//!
//! Invariant: nothing registered under a transaction is released before the journal reported it, or a later one, durable.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use protocol::{datanode, namenode};
use tokio::sync::oneshot;

use crate::core::nodes::NodeIndex;
use crate::nodes::NodeTable;

/// An answer, and what the audit log says with it.
pub(crate) struct Answered {
    pub(crate) answer: namenode::Answer,
    /// [`crate::core::state::Output::permissions`].
    pub(crate) permissions: Vec<Option<String>>,
}

/// Something that waits.
pub(crate) enum Waiter {
    /// An answer to a client.
    Client(oneshot::Sender<Answered>, Answered),
    /// An answer to a DataNode.
    Datanode(oneshot::Sender<datanode::Answer>, datanode::Answer),
    /// A reader, who has the answer already.
    Reader(oneshot::Sender<()>),
    /// Commands.
    Commands(Vec<(NodeIndex, datanode::Command)>),
}

/// All that waits.
#[derive(Default)]
pub(crate) struct Waiters {
    durable: AtomicU64,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    durable: u64,
    waiting: BTreeMap<u64, Vec<Waiter>>,
}

impl Waiters {
    /// Registers `waiters` for a transaction; releases them at once if it is durable.
    pub(crate) fn push(&self, txid: u64, waiters: Vec<Waiter>, nodes: &NodeTable) {
        if waiters.is_empty() {
            return;
        }
        let mut queue = self.queue.lock();
        if txid > queue.durable {
            queue.waiting.entry(txid).or_default().extend(waiters);
            return;
        }
        drop(queue);
        release(waiters, nodes);
    }

    /// True if a transaction is durable.
    pub(crate) fn is_durable(&self, txid: u64) -> bool {
        self.durable.load(Ordering::Acquire) >= txid
    }

    /// The last durable transaction.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Releases everything up to `txid`.
    pub(crate) fn advance(&self, txid: u64, nodes: &NodeTable) {
        let mut queue = self.queue.lock();
        queue.durable = queue.durable.max(txid);
        self.durable.store(queue.durable, Ordering::Release);
        let later = queue.waiting.split_off(&(txid + 1));
        let due = std::mem::replace(&mut queue.waiting, later);
        drop(queue);
        due.into_values().for_each(|waiters| release(waiters, nodes));
    }

    /// Drops everything that waits: the process ends.
    pub(crate) fn abandon(&self) {
        self.queue.lock().waiting.clear();
    }
}

fn release(waiters: Vec<Waiter>, nodes: &NodeTable) {
    for waiter in waiters {
        // A receiver that is gone has lost its connection: nobody waits for the answer.
        match waiter {
            Waiter::Client(sender, answer) => drop(sender.send(answer)),
            Waiter::Datanode(sender, answer) => drop(sender.send(answer)),
            Waiter::Reader(sender) => drop(sender.send(())),
            Waiter::Commands(commands) => nodes.push_commands(commands),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_before_its_transaction_is_durable() {
        let nodes = NodeTable::new(100, 200, 10);
        let waiters = Waiters::default();
        let reader = |txid| {
            let (sender, receiver) = oneshot::channel();
            waiters.push(txid, vec![Waiter::Reader(sender)], &nodes);
            receiver
        };
        let (mut seven, mut five) = (reader(7), reader(5));
        waiters.advance(4, &nodes);
        assert!(five.try_recv().is_err() && seven.try_recv().is_err());
        waiters.advance(6, &nodes);
        assert!(five.try_recv().is_ok() && seven.try_recv().is_err());
        assert!(reader(6).try_recv().is_ok(), "durable already");
        waiters.advance(9, &nodes);
        assert!(seven.try_recv().is_ok());
        assert!(waiters.is_durable(9) && !waiters.is_durable(10));
    }
}

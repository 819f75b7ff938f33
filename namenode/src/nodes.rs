//! The table of DataNodes behind its own lock, so that heartbeats never wait for the namespace.

use std::sync::Arc;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use protocol::datanode::{Command, Heartbeat, Sender};
use protocol::{Epoch, ErrorKind, RemoteError};
use tokio::sync::Notify;

use crate::core::nodes::{Datanodes, NodeIndex, NotRegistered};

/// The table and what wakes held heartbeats.
pub(crate) struct NodeTable {
    inner: Mutex<NodesAndWakes>,
}

pub(crate) struct NodesAndWakes {
    pub(crate) nodes: Datanodes,
    wakes: Vec<Arc<Notify>>,
}

/// A heartbeat that was taken.
pub(crate) struct Beat {
    pub(crate) commands: Vec<Command>,
    pub(crate) wake: Arc<Notify>,
    /// The first since the node registered. Now it has room: safe mode may end and copies may begin, with a tick.
    pub(crate) first: bool,
}

impl NodeTable {
    pub(crate) fn new(stale_ms: u64, dead_ms: u64, tick_ms: u64) -> Self {
        let nodes = Datanodes::new(stale_ms, dead_ms, tick_ms);
        NodeTable { inner: Mutex::new(NodesAndWakes { nodes, wakes: Vec::new() }) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, NodesAndWakes> {
        self.inner.lock()
    }

    /// The table alone.
    pub(crate) fn nodes(&self) -> MappedMutexGuard<'_, Datanodes> {
        MutexGuard::map(self.inner.lock(), |inner| &mut inner.nodes)
    }

    /// Takes a heartbeat for the NameNode of this `epoch`.
    ///
    /// # Errors
    /// A refusal: the node must register.
    pub(crate) fn heartbeat(
        &self,
        (sender, beat): (Sender, &Heartbeat),
        epoch: Epoch,
        now_ms: u64,
    ) -> Result<Beat, RemoteError> {
        let mut inner = self.inner.lock();
        let index = registered(&inner.nodes, sender, epoch)?;
        let first = !inner.nodes.node(index).beaten;
        inner.nodes.heartbeat(index, beat, now_ms);
        let commands = inner.nodes.take_commands(index);
        let wake = inner.wake(index);
        Ok(Beat { commands, wake, first })
    }

    /// Takes what has been queued for a heartbeat that was held.
    ///
    /// # Errors
    /// A refusal: the node has registered again meanwhile, and what is queued is for its next heartbeat.
    pub(crate) fn take_commands(
        &self,
        sender: Sender,
        epoch: Epoch,
    ) -> Result<Vec<Command>, RemoteError> {
        let mut inner = self.inner.lock();
        match registered(&inner.nodes, sender, epoch) {
            Ok(index) => Ok(inner.nodes.take_commands(index)),
            Err(refusal) => {
                if let Some(index) = inner.nodes.index(sender.datanode) {
                    inner.wake(index).notify_one();
                }
                Err(refusal)
            }
        }
    }

    /// Queues commands and wakes the heartbeats that wait for them.
    pub(crate) fn push_commands(&self, commands: Vec<(NodeIndex, Command)>) {
        let mut inner = self.inner.lock();
        for (index, command) in commands {
            inner.nodes.push_command(index, command);
            inner.wake(index).notify_one();
        }
    }
}

impl NodesAndWakes {
    fn wake(&mut self, index: NodeIndex) -> Arc<Notify> {
        let place = index.0 as usize;
        if self.wakes.len() <= place {
            self.wakes.resize_with(place + 1, Arc::default);
        }
        Arc::clone(&self.wakes[place])
    }
}

/// The sender of a message to the NameNode of this `epoch`, if its registration holds.
///
/// # Errors
/// A refusal: the node must register.
pub(crate) fn registered(
    nodes: &Datanodes,
    sender: Sender,
    epoch: Epoch,
) -> Result<NodeIndex, RemoteError> {
    if sender.epoch != epoch {
        let text = format!("epoch {} is not {epoch}: register again", sender.epoch);
        return Err(RemoteError::new(ErrorKind::Fenced, text));
    }
    nodes.sender(sender).map_err(fenced)
}

/// The refusal of what does not belong to a registration that holds.
pub(crate) fn fenced(why: NotRegistered) -> RemoteError {
    RemoteError::new(ErrorKind::Fenced, why.to_string())
}

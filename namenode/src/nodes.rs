//! The table of DataNodes behind its own lock, so that heartbeats never wait for the namespace.

use std::sync::Arc;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use protocol::datanode::{Command, Heartbeat};
use protocol::{Epoch, ErrorKind, RemoteError};
use tokio::sync::Notify;

use crate::core::nodes::{Datanodes, NodeIndex};

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
    pub(crate) index: NodeIndex,
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
        beat: &Heartbeat,
        epoch: Epoch,
        now_ms: u64,
    ) -> Result<Beat, RemoteError> {
        let fenced = |text| RemoteError::new(ErrorKind::Fenced, text);
        if beat.epoch != epoch {
            return Err(fenced("the NameNode was restarted: register again"));
        }
        let mut inner = self.inner.lock();
        let known = inner.nodes.index(beat.datanode);
        let first = known.is_some_and(|index| !inner.nodes.node(index).beaten);
        let index = inner.nodes.heartbeat(beat, now_ms).ok_or_else(|| {
            fenced("this DataNode is not registered or was given up: register again")
        })?;
        let commands = inner.nodes.take_commands(index);
        let wake = inner.wake(index);
        Ok(Beat { index, commands, wake, first })
    }

    pub(crate) fn take_commands(&self, index: NodeIndex) -> Vec<Command> {
        self.inner.lock().nodes.take_commands(index)
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

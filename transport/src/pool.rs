//! Idle connections to DataNodes, kept for the next operation.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::{BlockId, DatanodeId, GenerationStamp};

use crate::{Connection, Local, Timeouts, TransferFailure};

/// Idle connections kept per DataNode.
const IDLE_MAX: usize = 32;

/// Connections to DataNodes. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct ConnectionPool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    local: Local,
    timeouts: Timeouts,
    /// Keyed by the DataNode that has proven its identity at the other end.
    idle: Mutex<HashMap<DatanodeId, Vec<(Instant, Connection)>>>,
}

impl ConnectionPool {
    /// An empty pool; with `is_short_circuit`, DataNodes on this machine are reached by their Unix sockets.
    pub fn new(timeouts: Timeouts, is_short_circuit: bool) -> Self {
        let boot_id = if is_short_circuit { sys::host::boot_id() } else { String::new() };
        Self::with(timeouts, Local { boot_id, broker: None })
    }

    /// An empty pool that reaches DataNodes on this machine as `local` says.
    pub fn with(timeouts: Timeouts, local: Local) -> Self {
        ConnectionPool { inner: Arc::new(Inner { local, timeouts, idle: Mutex::default() }) }
    }

    /// The timeouts of its connections.
    pub fn timeouts(&self) -> Timeouts {
        self.inner.timeouts
    }

    /// True if `datanode` reports that it runs on this machine and offers a Unix socket, and this pool may use such sockets.
    pub fn is_local(&self, datanode: &DatanodeInfo) -> bool {
        self.inner.local.reaches(datanode)
    }

    /// An idle connection that the peer has not ended, or a new one, on which it has proven its identity; `block`, its stamp and `token` serve that proof.
    ///
    /// # Errors
    /// [`TransferFailure::Connect`] or [`TransferFailure::Impostor`].
    pub fn take(
        &self,
        datanode: &DatanodeInfo,
        permit: (BlockId, GenerationStamp, &BlockToken),
    ) -> Result<Connection, TransferFailure> {
        while let Some((since, connection)) = self.pop(datanode) {
            if since.elapsed() < self.inner.timeouts.idle && !connection.is_readable() {
                return Ok(connection);
            }
        }
        Connection::connect(datanode, &self.inner.local, self.inner.timeouts, permit)
    }

    /// Returns a connection on which nothing is in transit.
    pub fn give_back(&self, datanode: &DatanodeInfo, connection: Connection) {
        let mut idle = self.inner.idle.lock();
        let idle = match idle.get_mut(&datanode.id) {
            Some(idle) => idle,
            None => idle.entry(datanode.id).or_default(),
        };
        if idle.len() < IDLE_MAX {
            idle.push((Instant::now(), connection));
        }
    }

    fn pop(&self, datanode: &DatanodeInfo) -> Option<(Instant, Connection)> {
        self.inner.idle.lock().get_mut(&datanode.id)?.pop()
    }
}

//! Idle connections to DataNodes, kept for the next operation.
//!
//! Invariants: a connection serves only those who want the same DataNode at the same address, so whoever says a wrong address reaches it with what is his own
//! and nothing else; there are at most `IDLE_MAX` of one, and `ALL_IDLE_MAX` together.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::{BlockId, DatanodeId, GenerationStamp};

use crate::{Connection, Local, Timeouts, TransferFailure};

/// Idle connections kept per DataNode.
const IDLE_MAX: usize = 32;
/// Idle connections kept in all: a large cluster's pipelines, and few of a process's descriptors.
const ALL_IDLE_MAX: usize = 512;

/// Connections to DataNodes. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct ConnectionPool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    local: Local,
    timeouts: Timeouts,
    idle: Mutex<Idle>,
    hasher: RandomState,
}

/// Pause between two looks for connections that were idle for too long, while there are as many as may be.
const PURGE_PAUSE: Duration = Duration::from_secs(1);

/// The DataNode that has proven its identity at the other end, and a hash of where it is.
type Reached = (DatanodeId, u64);

#[derive(Debug, Default)]
struct Idle {
    count: usize,
    purged: Option<Instant>,
    by_datanode: HashMap<Reached, Vec<(Instant, Connection)>>,
}

impl ConnectionPool {
    /// An empty pool; with `is_short_circuit`, DataNodes on this machine are reached by their Unix sockets.
    pub fn new(timeouts: Timeouts, is_short_circuit: bool) -> Self {
        let boot_id = if is_short_circuit { sys::host::boot_id() } else { String::new() };
        Self::with(timeouts, Local { boot_id, broker: None })
    }

    /// An empty pool that reaches DataNodes on this machine as `local` says.
    pub fn with(timeouts: Timeouts, local: Local) -> Self {
        let (idle, hasher) = (Mutex::default(), RandomState::new());
        ConnectionPool { inner: Arc::new(Inner { local, timeouts, idle, hasher }) }
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
        let reached = self.reached(datanode);
        self.inner.idle.lock().give_back(reached, connection, self.inner.timeouts.idle);
    }

    fn pop(&self, datanode: &DatanodeInfo) -> Option<(Instant, Connection)> {
        self.inner.idle.lock().pop(self.reached(datanode))
    }

    fn reached(&self, datanode: &DatanodeInfo) -> Reached {
        let place = (&datanode.transfer_address, &datanode.local_socket);
        (datanode.id, self.inner.hasher.hash_one(place))
    }
}

impl Idle {
    fn give_back(&mut self, reached: Reached, connection: Connection, idle_max: Duration) {
        let is_time = self.purged.is_none_or(|purged| purged.elapsed() >= PURGE_PAUSE);
        if self.count >= ALL_IDLE_MAX && is_time {
            self.purged = Some(Instant::now());
            self.by_datanode.retain(|_, idle| {
                idle.retain(|(since, _)| since.elapsed() < idle_max);
                !idle.is_empty()
            });
            self.count = self.by_datanode.values().map(Vec::len).sum();
        }
        let idle = self.by_datanode.entry(reached).or_default();
        if idle.len() < IDLE_MAX && self.count < ALL_IDLE_MAX {
            idle.push((Instant::now(), connection));
            self.count += 1;
        }
        if idle.is_empty() {
            self.by_datanode.remove(&reached);
        }
    }

    fn pop(&mut self, reached: Reached) -> Option<(Instant, Connection)> {
        let idle = self.by_datanode.get_mut(&reached)?;
        let popped = idle.pop();
        if idle.is_empty() {
            self.by_datanode.remove(&reached);
        }
        self.count -= usize::from(popped.is_some());
        popped
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::Stream;

    fn datanode(transfer_address: &str) -> DatanodeInfo {
        DatanodeInfo {
            id: DatanodeId([1; 16]),
            host: "h".to_owned(),
            transfer_address: transfer_address.to_owned(),
            http_address: "h:1".to_owned(),
            rack: "/r".to_owned(),
            boot_id: String::new(),
            local_socket: String::new(),
        }
    }

    #[test]
    fn a_connection_serves_who_wants_the_same_address_and_all_are_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = datanode(&listener.local_addr().unwrap().to_string());
        std::thread::spawn(move || listener.incoming().for_each(drop));
        let pool = ConnectionPool::new(Timeouts::default(), false);
        let connect = || {
            let stream = Stream::connect(&there, &pool.inner.local, pool.timeouts());
            Connection::new(stream.unwrap())
        };
        pool.give_back(&there, connect());
        // Somebody says that the same DataNode is elsewhere.
        assert!(pool.pop(&datanode("127.0.0.1:1")).is_none());
        let by_socket = DatanodeInfo { local_socket: "other".to_owned(), ..there.clone() };
        assert!(pool.pop(&by_socket).is_none());
        assert!(pool.pop(&there).is_some() && pool.pop(&there).is_none());
        let elsewhere = |number: usize| datanode(&format!("h:{number}"));
        (0..ALL_IDLE_MAX + 8).for_each(|number| pool.give_back(&elsewhere(number), connect()));
        (0..IDLE_MAX + 8).for_each(|_| pool.give_back(&elsewhere(0), connect()));
        let count = |idle: &Idle| idle.by_datanode.values().map(Vec::len).sum::<usize>();
        let idle = pool.inner.idle.lock();
        assert_eq!((idle.count, count(&idle)), (ALL_IDLE_MAX, ALL_IDLE_MAX));
    }
}

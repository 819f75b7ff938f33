//! The block transfer service: accepts connections on TCP and on an abstract Unix socket, one thread per connection, and
//! carries out what they ask ([`protocol::transfer`]).
//!
//! Limits: threads (`connections_max`), operations at once (`transfers_max`; more are answered "busy"), time for a peer to make
//! progress. Every operation needs a block token, checked before the store is asked.

mod read;
mod recover;
mod send;
mod write;

use std::io::Read as _;
use std::net::{Shutdown, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use client::dfs::transfer::{Connection, ConnectionPool, PacketPool, Stream, TransferFailure};
use client::rpc::now_ms;
use parking_lot::Mutex;
use protocol::auth::Key;
use protocol::token::{AccessMode, BlockToken};
use protocol::transfer::{Operation, Reply};
use protocol::{BlockId, ErrorKind, GenerationStamp};

use crate::core::throttle::Throttle;
use crate::error::OperationError;
use crate::store::Store;

pub use recover::{Recovered, lead_recovery};
pub use send::{Cut, cut, replicate};

/// Bytes read and thrown away after a refusal, so that the refusal is not lost to a reset of the connection.
const DRAIN_BYTES_MAX: u64 = 4 << 20;
/// Time for that.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the accept loop waits before it looks again after a failed accept (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Longest sleep of the accept loops; they are woken by connections and by shutdown.
const ACCEPT_WAIT: Duration = Duration::from_secs(3600);

/// Limits of the service.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Operations at once.
    pub transfers_max: usize,
    /// Connections at once, idle ones included.
    pub connections_max: usize,
    /// Time for a peer to make progress within a message; also how long an idle connection is kept.
    pub io_timeout: Duration,
    /// Time that a writer may be silent between packets.
    pub writer_idle_max: Duration,
}

/// What every operation needs.
#[derive(Debug)]
pub struct Service {
    /// The replicas.
    pub store: Arc<Store>,
    /// Connections to other DataNodes.
    pub peers: ConnectionPool,
    /// Packet buffers.
    pub packets: PacketPool,
    token_key: Key,
    limits: Limits,
    balancing: Balancing,
    transfers: AtomicUsize,
    connections: Mutex<Connections>,
}

/// The share of the network that the balancer may use, over all its copies.
#[derive(Debug)]
pub struct Balancing {
    start: Instant,
    throttle: Mutex<Throttle>,
}

impl Balancing {
    fn new(rate: u64) -> Self {
        Balancing { start: Instant::now(), throttle: Mutex::new(Throttle::new(rate)) }
    }

    /// Bytes per second.
    pub fn rate(&self) -> u64 {
        self.throttle.lock().rate()
    }

    /// Changes it.
    pub fn set_rate(&self, rate: u64) {
        self.throttle.lock().set_rate(rate);
    }

    /// Waits so that `bytes` more keep to it.
    fn pace(&self, bytes: u64) {
        let pause = self.throttle.lock().take(self.start.elapsed(), bytes);
        std::thread::sleep(pause);
    }
}

#[derive(Debug, Default)]
struct Connections {
    open: Vec<Arc<Stream>>,
    closed: bool,
}

/// What becomes of a connection after an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    /// The next operation may come.
    Keep,
    /// Bytes may be under way: close.
    Close,
}

impl Service {
    /// A service that checks tokens with `token_key`.
    pub fn new(
        store: Arc<Store>,
        peers: ConnectionPool,
        token_key: Key,
        limits: Limits,
        balancer_bandwidth: u64,
    ) -> Arc<Self> {
        Arc::new(Service {
            store,
            peers,
            packets: PacketPool::default(),
            token_key,
            limits,
            balancing: Balancing::new(balancer_bandwidth),
            transfers: AtomicUsize::new(0),
            connections: Mutex::default(),
        })
    }

    /// What copies for the balancer may take.
    pub fn balancing(&self) -> &Balancing {
        &self.balancing
    }

    /// Operations that run now.
    pub fn transfer_count(&self) -> usize {
        self.transfers.load(Ordering::Relaxed)
    }

    /// Accepts TCP connections until `stop` ends; blocks.
    pub fn accept_tcp(self: &Arc<Self>, listener: &TcpListener, stop: &UnixStream) {
        while self.wait_for(listener, stop) {
            let accepted = listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            });
            self.accepted(accepted);
        }
    }

    /// Accepts connections on the Unix socket until `stop` ends; blocks.
    pub fn accept_unix(self: &Arc<Self>, listener: &UnixListener, stop: &UnixStream) {
        while self.wait_for(listener, stop) {
            let accepted = listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                Ok(Stream::Unix(stream))
            });
            self.accepted(accepted);
        }
    }

    /// Ends all connections and refuses new ones.
    pub fn close(&self) {
        let mut connections = self.connections.lock();
        connections.closed = true;
        connections.open.iter().for_each(|stream| stream.shutdown());
    }

    /// False once `stop` has ended.
    fn wait_for(&self, listener: &impl AsFd, stop: &UnixStream) -> bool {
        loop {
            match sys::poll::wait_readable([listener.as_fd(), stop.as_fd()], ACCEPT_WAIT) {
                Ok([_, true]) => return false,
                Ok([true, _]) => return true,
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot wait for connections");
                    std::thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }

    fn accepted(self: &Arc<Self>, accepted: std::io::Result<Stream>) {
        let start = accepted.and_then(|stream| {
            stream.set_timeouts(self.limits.io_timeout)?;
            let connection = Connection::new(stream);
            if !self.enter(connection.stream()) {
                let busy = OperationError::Busy { max: self.limits.connections_max };
                refuse(connection, &busy);
                return Ok(());
            }
            let service = Arc::clone(self);
            let stream = Arc::clone(connection.stream());
            let spawned = std::thread::Builder::new()
                .name("transfer".to_owned())
                .spawn(move || service.serve(connection));
            if spawned.is_err() {
                self.leave(&stream);
            }
            spawned.map(drop)
        });
        if let Err(error) = start
            && error.kind() != std::io::ErrorKind::WouldBlock
        {
            tracing::warn!(%error, "cannot accept a connection");
            std::thread::sleep(ACCEPT_PAUSE);
        }
    }

    fn enter(&self, stream: &Arc<Stream>) -> bool {
        let mut connections = self.connections.lock();
        let open = !connections.closed && connections.open.len() < self.limits.connections_max;
        if open {
            connections.open.push(Arc::clone(stream));
        }
        open
    }

    fn leave(&self, stream: &Arc<Stream>) {
        let mut connections = self.connections.lock();
        connections.open.retain(|other| !Arc::ptr_eq(other, stream));
    }

    fn serve(self: Arc<Self>, mut connection: Connection) {
        let stream = Arc::clone(connection.stream());
        loop {
            let operation = match connection.read_operation() {
                Ok(Some(operation)) => operation,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(error = %client::error::chain(&error), "connection ended");
                    break;
                }
            };
            if self.transfers.fetch_add(1, Ordering::Relaxed) >= self.limits.transfers_max {
                self.transfers.fetch_sub(1, Ordering::Relaxed);
                let busy = OperationError::Busy { max: self.limits.transfers_max };
                refuse(connection, &busy);
                break;
            }
            let outcome = self.carry_out(&mut connection, operation);
            self.transfers.fetch_sub(1, Ordering::Relaxed);
            match outcome {
                Ok(After::Keep) => {}
                Ok(After::Close) => break,
                Err(OperationError::Transfer(error)) => {
                    tracing::debug!(error = %client::error::chain(&error), "transfer failed");
                    break;
                }
                Err(error) => {
                    tracing::info!(error = %client::error::chain(&error), "operation refused");
                    refuse(connection, &error);
                    break;
                }
            }
        }
        self.leave(&stream);
    }

    fn carry_out(
        self: &Arc<Self>,
        connection: &mut Connection,
        operation: Operation,
    ) -> Result<After, OperationError> {
        match operation {
            Operation::Write(write) => self.write(connection, write),
            Operation::Read(read) => self.read(connection, &read),
            Operation::Descriptors { block, stamp, token } => {
                self.check(&token, block, stamp, AccessMode::Read)?;
                self.pass_descriptors(connection, block, stamp)
            }
            Operation::ReplicaState { block, stamp, token } => {
                self.check(&token, block, stamp, AccessMode::Write)?;
                let state = self.store.begin_recovery(block, stamp);
                self.answer(connection, state.map(Reply::State))
            }
            Operation::UpdateReplica { block, stamp, length, token } => {
                self.check(&token, block, stamp, AccessMode::Write)?;
                let updated = self.store.update(block, stamp, length);
                self.answer(connection, updated.map(|()| Reply::Done))
            }
            Operation::Transfer { block, prior, stamp, length, target, token } => {
                self.check(&token, block, stamp, AccessMode::Write)?;
                let prefix = send::Prefix { block, prior, stamp, length };
                let sent = self.send_prefix(&prefix, &target, token);
                self.answer(connection, sent.map(|()| Reply::Done))
            }
            Operation::CompleteReplica { block, prior, stamp, offset, target, token } => {
                self.check(&token, block, stamp, AccessMode::Write)?;
                let rest = send::Rest { block, prior, stamp, offset };
                let sent = self.send_rest(&rest, &target, token);
                self.answer(connection, sent.map(|()| Reply::Done))
            }
        }
    }

    /// Answers an operation after which nothing is under way.
    fn answer<E: Into<OperationError>>(
        &self,
        connection: &mut Connection,
        result: Result<Reply, E>,
    ) -> Result<After, OperationError> {
        let answer = result.map_err(|error| {
            let error = error.into();
            tracing::info!(error = %client::error::chain(&error), "operation failed");
            error.to_remote()
        });
        connection.send_answer(&answer)?;
        Ok(After::Keep)
    }

    fn check(
        &self,
        token: &BlockToken,
        block: BlockId,
        stamp: GenerationStamp,
        mode: AccessMode,
    ) -> Result<(), OperationError> {
        Ok(token.check(&self.token_key, block, stamp, mode, now_ms())?)
    }
}

/// Says no and closes; what the peer has sent meanwhile is read first, so that the answer is not lost to a reset.
fn refuse(mut connection: Connection, error: &OperationError) {
    if connection.send_answer(&Err(error.to_remote())).is_err() {
        return;
    }
    let stream = Arc::clone(connection.stream());
    // All of this is only courtesy to the peer.
    if let Stream::Tcp(tcp) = &*stream {
        let _ = tcp.shutdown(Shutdown::Write);
        let _ = stream.set_timeouts(DRAIN_TIMEOUT);
        let _ = std::io::copy(&mut (&*stream).take(DRAIN_BYTES_MAX), &mut std::io::sink());
    }
}

/// A peer's refusal as the status of a pipeline member.
fn status_of(failure: &TransferFailure) -> protocol::transfer::Status {
    use protocol::transfer::Status;
    match failure {
        TransferFailure::Remote(refusal) => match refusal.kind {
            ErrorKind::Unavailable => Status::Busy,
            ErrorKind::Storage => Status::Failed,
            _ => Status::Refused,
        },
        _ => Status::Unreachable,
    }
}

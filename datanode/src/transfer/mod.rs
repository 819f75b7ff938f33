//! The block transfer service: accepts connections on TCP and on an abstract Unix socket, one thread per connection, and
//! carries out what they ask ([`protocol::transfer`]).
//!
//! Limits: threads (`connections_max`), operations at once (`transfers_max`; more are answered "busy"), time for a peer to make
//! progress. Every operation needs a block token, checked before anything is asked of the store, and proof that its sender has the
//! token's secret. A connection on which nothing was proven yet is a stranger's: strangers have seconds, at most half of all
//! connections, and where there is no room the one that has waited longest ends. TCP leaves a part of all to local sockets.

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

use client::dfs::transfer::{
    Asked, Connection, ConnectionPool, PacketPool, Stream, TransferFailure,
};
use client::rpc::now_ms;
use parking_lot::Mutex;
use protocol::ErrorKind;
use protocol::token::{TokenError, TokenKeys};
use protocol::transfer::{NONCE_BYTES, Needs, Operation, Reply};

use crate::core::throttle::Throttle;
use crate::error::OperationError;
use crate::store::Store;

pub use recover::{Recovered, lead_recovery};
pub use send::{Cut, cut, replicate};

/// Bytes read and thrown away after a refusal, so that the refusal is not lost to a reset of the connection.
const DRAIN_BYTES_MAX: u64 = 4 << 20;
/// Time for that.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a stranger may take to prove what he may.
const STRANGER_MAX: Duration = Duration::from_secs(5);
/// Strangers have at most this part of all connections.
const STRANGERS_PART: usize = 2;
/// This part of all connections is for local sockets alone.
const LOCAL_PART: usize = 4;
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
    token_keys: TokenKeys,
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
    /// Oldest first.
    open: Vec<Open>,
    closed: bool,
}

#[derive(Debug)]
struct Open {
    stream: Arc<Stream>,
    /// Nothing was proven on it yet.
    is_stranger: bool,
}

impl Connections {
    fn strangers(&self) -> impl Iterator<Item = &Open> {
        self.open.iter().filter(|open| open.is_stranger)
    }
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
    /// A service that checks tokens with `token_keys`.
    pub fn new(
        store: Arc<Store>,
        peers: ConnectionPool,
        token_keys: TokenKeys,
        limits: Limits,
        balancer_bandwidth: u64,
    ) -> Arc<Self> {
        Arc::new(Service {
            store,
            peers,
            packets: PacketPool::default(),
            token_keys,
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
        connections.open.iter().for_each(|open| open.stream.shutdown());
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
            stream.set_timeouts(self.limits.io_timeout.min(STRANGER_MAX))?;
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
        let all = self.limits.connections_max;
        let is_local = stream.unix().is_some();
        let room = if is_local { all } else { all - all / LOCAL_PART };
        let is_full = connections.open.len() >= room;
        if is_full || connections.strangers().count() >= (all / STRANGERS_PART).max(1) {
            // Its thread ends and makes room; the new one is taken all the same where the limit of threads allows it.
            let same = |open: &&Open| is_local || open.stream.unix().is_none();
            let oldest = connections.strangers().find(same).map(|open| Arc::clone(&open.stream));
            if let Some(oldest) = oldest {
                oldest.shutdown();
                connections.open.retain(|open| !Arc::ptr_eq(&open.stream, &oldest));
            }
        }
        let open = !connections.closed && connections.open.len() < room;
        if open {
            connections.open.push(Open { stream: Arc::clone(stream), is_stranger: true });
        }
        open
    }

    /// Something was proven on the connection: it may stay.
    fn trust(&self, stream: &Arc<Stream>) -> std::io::Result<()> {
        let mut connections = self.connections.lock();
        let mut open = connections.open.iter_mut();
        if let Some(open) = open.find(|open| Arc::ptr_eq(&open.stream, stream)) {
            open.is_stranger = false;
        }
        stream.set_timeouts(self.limits.io_timeout)
    }

    fn leave(&self, stream: &Arc<Stream>) {
        let mut connections = self.connections.lock();
        connections.open.retain(|open| !Arc::ptr_eq(&open.stream, stream));
    }

    fn serve(self: Arc<Self>, mut connection: Connection) {
        let stream = Arc::clone(connection.stream());
        let mut is_stranger = true;
        loop {
            let asked = match connection.read_operation() {
                Ok(Some(asked)) => asked,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(error = %client::error::chain(&error), "connection ended");
                    break;
                }
            };
            if let Operation::Hello { nonce, .. } = asked.operation {
                if let Err(error) = self.answer_hello(&mut connection, &asked.operation, nonce) {
                    tracing::debug!(error = %client::error::chain(&error), "hello refused");
                    refuse(connection, &error);
                    break;
                }
                continue;
            }
            if let Err(error) = self.check(&mut connection, &asked) {
                tracing::info!(error = %client::error::chain(&error), "operation refused");
                refuse(connection, &error);
                break;
            }
            if is_stranger && self.trust(&stream).is_err() {
                break;
            }
            is_stranger = false;
            if self.transfers.fetch_add(1, Ordering::Relaxed) >= self.limits.transfers_max {
                self.transfers.fetch_sub(1, Ordering::Relaxed);
                let busy = OperationError::Busy { max: self.limits.transfers_max };
                refuse(connection, &busy);
                break;
            }
            let outcome = self.carry_out(&mut connection, asked.operation);
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
            Operation::Descriptors { block, stamp, .. } => {
                self.pass_descriptors(connection, block, stamp)
            }
            Operation::ReplicaState { block, stamp, .. } => {
                let state = self.store.begin_recovery(block, stamp);
                self.answer(connection, state.map(Reply::State))
            }
            Operation::UpdateReplica { block, stamp, length, .. } => {
                let updated = self.store.update(block, stamp, length);
                self.answer(connection, updated.map(|()| Reply::Done))
            }
            Operation::Transfer { block, prior, stamp, length, target, token } => {
                let prefix = send::Prefix { block, prior, stamp, length };
                let token = self.token_keys.token(block, stamp, token);
                let sent = self.send_prefix(&prefix, &target, token);
                self.answer(connection, sent.map(|()| Reply::Done))
            }
            Operation::Hello { .. } => Err(OperationError::Invalid("hello is said once, first")),
            Operation::CompleteReplica { block, prior, stamp, offset, target, token } => {
                let token = self.token_keys.token(block, stamp, token);
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

    fn answer_hello(
        &self,
        connection: &mut Connection,
        hello: &Operation,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<(), OperationError> {
        let Needs { block, stamp, token, mode } = hello.needs();
        let token = self.token_keys.check(block, stamp, (token, mode), now_ms())?;
        Ok(connection.answer_hello(nonce, &token, self.store.datanode())?)
    }

    /// Whether the sender of an operation has a token that permits it.
    fn check(&self, connection: &mut Connection, asked: &Asked) -> Result<(), OperationError> {
        let Needs { block, stamp, token, mode } = asked.operation.needs();
        let token = self.token_keys.check(block, stamp, (token, mode), now_ms())?;
        if connection.is_proven(asked, &token) {
            Ok(())
        } else {
            Err(TokenError::NotPermitted.into())
        }
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

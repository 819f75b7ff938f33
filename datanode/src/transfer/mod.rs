//! The block transfer service: accepts connections on TCP and on an abstract Unix socket, one thread per connection, and carries out their operations
//! ([`protocol::transfer`]).
//!
//! Limits: threads (`connections_max`), operations at once (`transfers_max`), time for a peer to make progress. Operations at once are shared by those for whom the
//! tokens were made ([`daemon::shares`]): who has its share is answered "busy", and where others have none, the operation ends on which nothing has moved for
//! longest, of whoever has most. The cluster's own are not ended for users. Every operation needs
//! a block token, checked before the store is used, and proof that its sender has the token's secret. A connection on which nothing has been proven is a
//! stranger's: strangers have seconds, and make room as [`daemon::guests`] says. Part of the connections is reserved for root and this DataNode's own user on
//! the local socket; other users have no more there than over TCP.

mod keep;
mod read;
mod recover;
mod send;
mod serve;
mod write;
mod write_many;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use daemon::guests::{Guest, Guests, Peer};
use daemon::shares::room::{Place, Room, Tenant};
use daemon::shares::{Full, PART};
use parking_lot::Mutex;
use protocol::token::{AccessMode, Holder, Receipt, TokenError, TokenKeys};
use protocol::transfer::{NONCE_BYTES, Needs, Operation, Reply, WriteMany};
use protocol::{BlockId, ErrorKind, GenerationStamp};
use sys::wake::Wake;
use transport::rpc::now_ms;
use transport::{
    Asked, Connection, ConnectionPool, Listener, Origin, PacketPool, Stream, TransferFailure,
};

use crate::core::copy::Order;
use crate::core::throttle::Throttle;
use crate::error::OperationError;
use crate::heartbeats::Heartbeats;
use crate::store::Store;
use crate::traffic::Traffic;

pub use keep::keep;
pub use recover::lead_recovery;
pub use send::OpenSource;
pub use serve::Serving;

/// Most time for which bytes are read and dropped after a refusal, so that a reset of the connection does not lose the refusal.
const DRAIN_MAX: Duration = Duration::from_secs(1);
/// Most time for that where all others who connect wait for it.
const ACCEPT_DRAIN_MAX: Duration = Duration::from_millis(50);
/// How long a stranger may be silent.
const STRANGER_MAX: Duration = Duration::from_secs(5);
/// How long a stranger has to prove a permission, however the bytes are spaced: a handshake and two messages, on a network that loses most of them.
const PROOF_TIME_MAX: Duration = Duration::from_secs(30);
/// This fraction of all connections is reserved for the own user and root on the local socket.
const OWN_PART: usize = 4;
/// How long the accept loop waits before it tries again after a failed accept (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Limits of the service.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Operations at once.
    pub transfers_max: usize,
    /// Connections at once, idle ones included.
    pub connections_max: usize,
    /// Time for a peer to make progress within a message; also how long an idle connection is kept.
    pub io_timeout: Duration,
    /// Time for which a writer can be silent between packets.
    pub writer_idle_max: Duration,
}

/// The resources that every operation needs.
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
    heartbeats: Heartbeats,
    traffic: Traffic,
    transfers: Arc<Room<Holder, Running>>,
    callers: Arc<Guests<Caller>>,
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

    /// Waits long enough for `bytes` more to stay within it.
    fn pace(&self, bytes: u64) {
        let pause = self.throttle.lock().take(self.start.elapsed(), bytes);
        std::thread::sleep(pause);
    }
}

/// A connection as the accounting of room sees it. On a stranger's, nothing is in transit.
#[derive(Debug)]
struct Caller {
    stream: Arc<Stream>,
    /// For whom the token was made that was presented first.
    owner: OnceLock<Holder>,
    /// An operation is in progress.
    is_busy: AtomicBool,
    since: Instant,
}

impl Guest for Caller {
    type Owner = Holder;

    fn owner(&self) -> Option<&Holder> {
        self.owner.get()
    }

    fn is_idle(&self) -> bool {
        !self.is_busy.load(Ordering::Relaxed)
    }

    fn leave(&self) {
        self.stream.shutdown();
    }
}

/// An operation that runs.
#[derive(Debug)]
struct Running {
    stream: Arc<Stream>,
    holder: Holder,
}

/// Its place among those that run.
type Turn = Place<Holder, Running>;

impl Tenant for Running {
    fn may_leave(&self) -> bool {
        self.holder != Holder::CLUSTER
    }

    fn leave(&self) {
        tracing::info!("a transfer of a user who has most of them makes room for another user");
        self.stream.shutdown();
    }
}

/// The fate of a connection after an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    /// The next operation may come.
    Keep,
    /// Bytes may be in transit: close.
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
            heartbeats: Heartbeats::default(),
            traffic: Traffic::default(),
            transfers: Room::new(limits.transfers_max, PART),
            callers: Guests::new(limits.connections_max, limits.connections_max / OWN_PART),
        })
    }

    /// The limits for copies of the balancer.
    pub fn balancing(&self) -> &Balancing {
        &self.balancing
    }

    /// What became of heartbeats.
    pub(crate) fn heartbeats(&self) -> &Heartbeats {
        &self.heartbeats
    }

    /// Bytes that came and went.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Operations that run now.
    pub fn transfer_count(&self) -> usize {
        self.transfers.taken()
    }

    /// Accepts connections until `stop` is notified; blocks.
    pub fn accept(self: &Arc<Self>, listener: &Listener, stop: &Wake) {
        while self.wait_for(listener, stop) {
            if let Err(error) = listener.accept().and_then(|accepted| self.accepted(accepted))
                && error.kind() != std::io::ErrorKind::WouldBlock
            {
                tracing::warn!(%error, "cannot accept a connection");
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }

    /// Ends all connections and refuses new ones.
    pub fn close(&self) {
        self.callers.close();
    }

    /// False once `stop` is notified.
    fn wait_for(&self, listener: &Listener, stop: &Wake) -> bool {
        loop {
            match listener.wait(stop) {
                Ok(someone) => return someone,
                Err(error) => {
                    tracing::error!(%error, "cannot wait for connections");
                    std::thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Ends strangers that have proven nothing in their time, until the service is gone. A timeout of each wait alone lets them send a byte now and then.
    pub(crate) async fn end_strangers(service: Weak<Self>) {
        loop {
            tokio::time::sleep(STRANGER_MAX).await;
            let Some(service) = service.upgrade() else { return };
            service.callers.end_strangers(|caller| caller.since.elapsed() > PROOF_TIME_MAX);
        }
    }

    fn accepted(self: &Arc<Self>, (stream, origin): (Stream, Origin)) -> std::io::Result<()> {
        let peer = match origin {
            Origin::Address(address) => Peer::at(address),
            Origin::User(user) => Peer::user(user),
        };
        stream.set_timeouts(self.limits.io_timeout.min(STRANGER_MAX))?;
        let connection = Connection::new(stream);
        let stream = Arc::clone(connection.stream());
        let (owner, is_busy) = (OnceLock::new(), AtomicBool::new(false));
        let caller = Caller { stream, owner, is_busy, since: Instant::now() };
        let Some(entered) = self.callers.enter(peer, Arc::new(caller)) else {
            let busy = OperationError::Busy { max: self.limits.connections_max };
            connection.refuse(busy.to_remote(), ACCEPT_DRAIN_MAX);
            return Ok(());
        };
        let service = Arc::clone(self);
        let serve = move || service.serve(connection, (&entered.guest, peer));
        std::thread::Builder::new().name("transfer".to_owned()).spawn(serve).map(drop)
    }

    fn serve(self: Arc<Self>, mut connection: Connection, (caller, peer): (&Caller, Peer)) {
        loop {
            let asked = match connection.read_operation() {
                Ok(Some(asked)) => asked,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(error = %protocol::error::chain(&error), "connection ended");
                    break;
                }
            };
            if let Operation::Hello { nonce, .. } = asked.operation {
                if let Err(error) = self.answer_hello(&mut connection, &asked.operation, nonce) {
                    tracing::debug!(error = %protocol::error::chain(&error), "hello refused");
                    connection.refuse(error.to_remote(), DRAIN_MAX);
                    break;
                }
                continue;
            }
            if let Err(error) = self.check(&mut connection, &asked) {
                tracing::info!(error = %protocol::error::chain(&error), "operation refused");
                connection.refuse(error.to_remote(), DRAIN_MAX);
                break;
            }
            // From here on it is not displaced; a connection that was asked to leave before fails.
            caller.is_busy.store(true, Ordering::Relaxed);
            let holder = asked.operation.needs().token.holder;
            if caller.owner.set(holder).is_ok()
                && caller.stream.set_timeouts(self.limits.io_timeout).is_err()
            {
                break;
            }
            let turn = match self.turn(caller, &asked.operation) {
                Ok(turn) => turn,
                Err(busy) => {
                    tracing::info!(error = %busy, "operation refused");
                    connection.refuse(busy.to_remote(), DRAIN_MAX);
                    break;
                }
            };
            let outcome = self.carry_out(&mut connection, (peer, &turn), asked.operation);
            drop(turn);
            caller.is_busy.store(false, Ordering::Relaxed);
            match outcome {
                Ok(After::Keep) => {}
                Ok(After::Close) => break,
                Err(OperationError::Transfer(error)) => {
                    tracing::debug!(error = %protocol::error::chain(&error), "transfer failed");
                    break;
                }
                Err(error) => {
                    tracing::info!(error = %protocol::error::chain(&error), "operation refused");
                    connection.refuse(error.to_remote(), DRAIN_MAX);
                    break;
                }
            }
        }
    }

    /// A place for an operation, in the share of those for whom its token was made.
    fn turn(&self, caller: &Caller, operation: &Operation) -> Result<Turn, OperationError> {
        let holder = operation.needs().token.holder;
        let running = Running { stream: Arc::clone(&caller.stream), holder };
        let turn = self.transfers.enter(holder, 1, running);
        turn.map_err(|full| match full {
            Full::Own => OperationError::Share { max: self.transfers.alone() },
            Full::All | Full::Ended => OperationError::Busy { max: self.limits.transfers_max },
        })
    }

    fn carry_out(
        self: &Arc<Self>,
        connection: &mut Connection,
        (peer, turn): (Peer, &Turn),
        operation: Operation,
    ) -> Result<After, OperationError> {
        match operation {
            Operation::Write(write) => self.write(connection, turn, write),
            Operation::WriteMany(writes) => self.write_many(connection, turn, writes),
            Operation::Read(read) => self.read(connection, turn, &read),
            Operation::Descriptors { .. } if peer != Peer::Own => {
                // An open file lasts longer than the token.
                let error = OperationError::Invalid(
                    "open files are handed to root and the DataNode's own user alone",
                );
                self.answer(connection, Err(error))
            }
            Operation::Descriptors { block, stamp, .. } => {
                self.pass_descriptors(connection, block, stamp)
            }
            Operation::ReplicaState { block, stamp, .. } => {
                let state = self.store.begin_recovery(block, stamp);
                self.answer(connection, state.map(Reply::from))
            }
            Operation::UpdateReplica { block, stamp, length, .. } => {
                let updated = self.store.update(block, stamp, length);
                self.answer(connection, updated.map(|()| Reply::Done))
            }
            Operation::Transfer { .. } | Operation::CompleteReplica { .. } => {
                let sent = self.send_as_asked(&operation);
                self.answer(connection, sent.map(|()| Reply::Done))
            }
            Operation::Hello { .. } => Err(OperationError::Invalid("hello is said once, first")),
        }
    }

    fn send_as_asked(&self, operation: &Operation) -> Result<(), OperationError> {
        let Some((order, target)) = Order::of(operation) else {
            return Err(OperationError::Invalid("nothing is to be sent"));
        };
        // Only a DataNode can prove that it has the secret of this one: whoever orders a replica to be sent to himself gets no byte of it.
        let (block, stamp) = order.target();
        let token = self.token_keys.issue(block, stamp, AccessMode::Maintain, now_ms());
        self.send(&order, std::slice::from_ref(target), (&token, false))
    }

    /// What the writer of a block gets for a replica that is on disk.
    fn receipt(&self, (block, stamp): (BlockId, GenerationStamp), length: u64) -> Receipt {
        self.token_keys.receipt(self.store.datanode(), block, stamp, length)
    }

    /// Answers an operation after which nothing is in transit.
    fn answer<E: Into<OperationError>>(
        &self,
        connection: &mut Connection,
        result: Result<Reply, E>,
    ) -> Result<After, OperationError> {
        let answer = result.map_err(|error| {
            let error = error.into();
            tracing::info!(error = %protocol::error::chain(&error), "operation failed");
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

    /// Checks that the sender of an operation has a token that permits it.
    fn check(&self, connection: &mut Connection, asked: &Asked) -> Result<(), OperationError> {
        if let Operation::WriteMany(WriteMany { more, .. }) = &asked.operation {
            for it in more {
                let access = (it.token, AccessMode::Write);
                let token = self.token_keys.check(it.block, it.stamp, access, now_ms())?;
                if !connection.is_permitted(&token, it) {
                    return Err(TokenError::NotPermitted.into());
                }
            }
        }
        let Needs { block, stamp, token, mode } = asked.operation.needs();
        let token = self.token_keys.check(block, stamp, (token, mode), now_ms())?;
        if connection.is_proven(asked, &token) {
            Ok(())
        } else {
            Err(TokenError::NotPermitted.into())
        }
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

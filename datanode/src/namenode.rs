//! The loop that keeps the NameNode informed and carries out its commands.
//!
//! ```text
//! register -> full report -> { heartbeats held open by the NameNode | changes as they happen } -> Fenced -> register …
//! ```
//!
//! What to send and which registration holds is decided by [`Session`]. The NameNode may be unreachable for any time: calls are tried again with jittered
//! pauses.
//!
//! This is the main loop that the service manager watches: every call of it ends within a time, and the service manager hears of each. Heartbeats take the
//! locks of the store, so a DataNode whose store hangs is silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use daemon::log::Repeats;
use daemon::{Shutdown, supervisor};
use parking_lot::Mutex;
use protocol::datanode::{Command, CommitRecovery, Heartbeat, Reply, Request};
use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::{Epoch, ErrorKind};
use tokio::sync::Semaphore;
use transport::RpcError;
use transport::rpc::{CallOptions, RpcClient};

use crate::core::copy::Order;
use crate::core::recovery::Recovered;
use crate::core::session::{Commit, OlderNameNode, Session};
use crate::core::volumes::Usage;
use crate::error::Error;
use crate::transfer::{self, Service};

/// The path that DataNodes call.
const TARGET: &str = "/rpc/datanode";
/// Time for an answer beyond the time that the NameNode may hold it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before the next try while the NameNode is unreachable; jittered.
const AWAY_PAUSE: Duration = Duration::from_millis(500);
/// Copies and recoveries that run at once: they share disk and network with clients.
const COMMANDS_AT_ONCE: usize = 4;

/// One DataNode's link to its NameNode.
pub(crate) struct Link {
    rpc: RpcClient,
    service: Arc<Service>,
    session: Mutex<Session>,
    /// Why it was not taken in.
    refusals: Mutex<Repeats>,
    /// The NameNode has ordered it to stop.
    dismissed: AtomicBool,
    slots: Arc<Semaphore>,
}

/// A registration.
#[derive(Clone, Copy, Debug)]
struct Registered {
    epoch: Epoch,
    hold: Duration,
}

/// The session is over: register again.
struct Ended;

impl Link {
    pub(crate) fn new(rpc: RpcClient, service: Arc<Service>, info: DatanodeInfo) -> Arc<Self> {
        Arc::new(Link {
            rpc,
            service,
            session: Mutex::new(Session::new(info, rand::random())),
            refusals: Mutex::default(),
            dismissed: AtomicBool::new(false),
            slots: Arc::new(Semaphore::new(COMMANDS_AT_ONCE)),
        })
    }

    /// Runs until `shutdown`, or until the NameNode passes on the order to stop.
    ///
    /// # Errors
    /// [`Error`] if this DataNode can never serve this NameNode, or all its disks are gone.
    pub(crate) async fn run(self: Arc<Self>, shutdown: Shutdown) -> Result<(), Error> {
        tokio::select! {
            result = self.sessions() => result,
            () = shutdown.wait() => Ok(()),
        }
    }

    async fn sessions(self: &Arc<Self>) -> Result<(), Error> {
        loop {
            supervisor::alive();
            supervisor::status("waits for the NameNode");
            let Some(registered) = self.register().await? else {
                self.service.heartbeats().note(false);
                self.pause().await;
                continue;
            };
            supervisor::status("serves");
            if self.report_all().await.is_ok() {
                tokio::select! {
                    Ended = self.heartbeats(registered) => {}
                    Ended = self.reports() => {}
                }
            }
            self.session.lock().end(&mut self.service.store.changes().pending());
            if self.dismissed.load(Ordering::Acquire) {
                return Ok(());
            }
            if self.service.store.is_lost() {
                return Err(Error::NoVolumes);
            }
            self.pause().await;
        }
    }

    async fn pause(&self) {
        tokio::time::sleep(AWAY_PAUSE.mul_f64(rand::random_range(0.5..1.0))).await;
    }

    /// Registers; `None`: try again.
    async fn register(&self) -> Result<Option<Registered>, Error> {
        let store = &self.service.store;
        let register = self.session.lock().register(store.cluster());
        let loss_count = store.loss_count();
        match self.call(&register, ANSWER_TIMEOUT).await {
            Ok(Reply::Registered {
                cluster,
                epoch,
                registration,
                heartbeat_ms,
                level,
                next_stamp,
            }) => {
                if store.cluster().is_some_and(|own| own != cluster) {
                    tracing::error!(%cluster, "the NameNode is of another cluster than this data");
                    return Ok(None);
                }
                store.adopt_cluster(cluster)?;
                let registered = store.report_all(|replicas| {
                    self.session.lock().registered((epoch, registration), replicas)
                });
                if let Err(OlderNameNode) = registered {
                    tracing::error!(%epoch, "the NameNode is older than one that was served before");
                    return Ok(None);
                }
                store.vouch_from(next_stamp, loss_count);
                tracing::info!(%epoch, %level, "registered");
                Ok(Some(Registered { epoch, hold: Duration::from_millis(heartbeat_ms) }))
            }
            Ok(_) => Ok(None),
            Err(RpcError::Remote(refusal)) if refusal.kind == ErrorKind::InvalidArgument => {
                Err(Error::Refused(refusal))
            }
            Err(error) => {
                let error = protocol::error::chain(&error);
                if self.refusals.lock().is_due(&error) {
                    tracing::warn!(%error, "cannot register");
                }
                Ok(None)
            }
        }
    }

    async fn heartbeats(self: &Arc<Self>, registered: Registered) -> Ended {
        let mut is_logged = false;
        loop {
            let Some(sender) = self.session.lock().sender() else { return Ended };
            let heartbeat = Request::Heartbeat(sender, self.heartbeat());
            supervisor::alive();
            let answer = self.call(&heartbeat, registered.hold + ANSWER_TIMEOUT).await;
            let is_ours = |epoch: &Epoch| *epoch == registered.epoch;
            let is_answered =
                matches!(&answer, Ok(Reply::Commands { epoch, .. }) if is_ours(epoch));
            self.service.heartbeats().note(is_answered);
            match answer {
                Ok(Reply::Commands { epoch, commands }) if is_ours(&epoch) => {
                    for command in commands {
                        if self.obey(command, epoch).is_err() {
                            return Ended;
                        }
                    }
                }
                Ok(_) => return Ended,
                Err(error) if is_refusal(&error) => return Ended,
                Err(error) => {
                    let text = protocol::error::chain(&error);
                    // Its clock may be wrong: log that once for an operator.
                    if matches!(error, RpcError::Status { .. })
                        && !std::mem::replace(&mut is_logged, true)
                    {
                        tracing::warn!(error = %text, "the NameNode refuses heartbeats");
                    }
                    tracing::debug!(error = %text, "no answer to a heartbeat");
                    self.pause().await;
                }
            }
            if self.service.store.is_lost() {
                return Ended;
            }
        }
    }

    fn heartbeat(&self) -> Heartbeat {
        let volumes = self.service.store.volume_reports();
        let usage = Usage::of(&volumes);
        Heartbeat {
            capacity: usage.capacity,
            used: usage.used,
            remaining: usage.remaining,
            transfer_count: u32::try_from(self.service.transfer_count()).unwrap_or(u32::MAX),
            non_dfs_used: usage.non_dfs_used,
            balancer_bandwidth: self.service.balancing().rate(),
            volumes,
        }
    }

    /// Sends the full report.
    async fn report_all(&self) -> Result<(), Ended> {
        while self.session.lock().is_reporting_all() {
            self.report().await?;
        }
        Ok(())
    }

    /// Sends changes at once; those that occur while a report is under way go into the next.
    async fn reports(&self) -> Ended {
        let queue = self.service.store.changes();
        loop {
            match self.report().await {
                Ok(true) => {}
                Ok(false) => queue.added().await,
                Err(ended) => return ended,
            }
        }
    }

    /// Sends the next report; false if there is none.
    async fn report(&self) -> Result<bool, Ended> {
        let next = self.session.lock().report(&mut self.service.store.changes().pending());
        let Some(report) = next else { return Ok(false) };
        self.send(&report).await?;
        self.session.lock().report_arrived();
        Ok(true)
    }

    /// Sends the end of a recovery until it arrives, is refused, or another NameNode leads.
    async fn commit(&self, epoch: Epoch, commit: &CommitRecovery) {
        loop {
            let next = self.session.lock().commit(epoch, commit);
            match next {
                Commit::Send(request) => match self.call(&request, ANSWER_TIMEOUT).await {
                    Ok(_) => return,
                    // The registration is over: heartbeats notice it, too, and there will be another.
                    Err(error) if error.kind() == Some(ErrorKind::Fenced) => {}
                    // A newer recovery has taken over.
                    Err(error) if is_refusal(&error) => return,
                    Err(_) => {}
                },
                Commit::Wait => {}
                Commit::Over => return,
            }
            self.pause().await;
        }
    }

    /// Sends until it arrives or the session ends.
    async fn send(&self, request: &Request) -> Result<(), Ended> {
        loop {
            supervisor::alive();
            match self.call(request, ANSWER_TIMEOUT).await {
                Ok(_) => return Ok(()),
                Err(error) if is_refusal(&error) => return Err(Ended),
                Err(error) => {
                    let error = protocol::error::chain(&error);
                    tracing::debug!(%error, "the NameNode is away");
                    self.pause().await;
                }
            }
        }
    }

    async fn call(&self, request: &Request, timeout: Duration) -> Result<Reply, RpcError> {
        self.rpc.call(TARGET, request, CallOptions::once(timeout)).await
    }

    /// Begins what the NameNode of this `epoch` orders.
    fn obey(self: &Arc<Self>, command: Command, epoch: Epoch) -> Result<(), Ended> {
        match command {
            Command::Delete(replicas) => {
                if self.service.store.order_deletions(&replicas) {
                    let service = Arc::clone(&self.service);
                    tokio::task::spawn_blocking(move || service.store.delete_ordered());
                }
                Ok(())
            }
            Command::ReportAll => {
                let store = &self.service.store;
                store.report_all(|replicas| self.session.lock().report_all(replicas));
                self.service.store.changes().wake();
                Ok(())
            }
            Command::Verify(replicas) => {
                replicas.iter().for_each(|(block, _)| self.service.store.suspect(*block));
                Ok(())
            }
            Command::ShutDown => {
                tracing::info!("the operator ends this DataNode");
                self.dismissed.store(true, Ordering::Release);
                Err(Ended)
            }
            Command::SetBalancerBandwidth(rate) => {
                tracing::info!(rate, "bandwidth of the balancer is set");
                self.service.balancing().set_rate(rate);
                Ok(())
            }
            Command::Replicate { .. } | Command::Recover { .. } | Command::Cut { .. } => {
                let (link, slots) = (Arc::clone(self), Arc::clone(&self.slots));
                tokio::spawn(async move {
                    let slot = slots.acquire_owned().await;
                    let worker = Arc::clone(&link);
                    let done = tokio::task::spawn_blocking(move || worker.carry_out(command));
                    if let Ok(Some(commit)) = done.await {
                        link.commit(epoch, &commit).await;
                    }
                    drop(slot);
                });
                Ok(())
            }
        }
    }

    /// Sends copies; blocks. Returns what the NameNode is told of it, if that is not for the next report.
    fn copy(
        &self,
        order: &Order,
        targets: &[DatanodeInfo],
        terms: (&BlockToken, bool),
    ) -> Option<CommitRecovery> {
        let (block, _) = order.target();
        match self.service.send(order, targets, terms) {
            Ok(()) => {
                tracing::info!(%block, targets = targets.len(), "copied");
                order.done(targets.iter().map(|target| target.id))
            }
            Err(error) => {
                tracing::warn!(%block, error = %protocol::error::chain(&error), "cannot copy");
                if let Some(block) = order.failed() {
                    self.service.store.note_failed_copy(block);
                }
                None
            }
        }
    }

    /// Copies or recovers; blocks.
    fn carry_out(&self, command: Command) -> Option<CommitRecovery> {
        match command {
            Command::Replicate { block, stamp, targets, token, balancing } => {
                self.copy(&Order::Whole { block, stamp }, &targets, (&token, balancing))
            }
            Command::Cut { source, source_stamp, block, stamp, length, targets, token } => {
                let cut = Order::Cut { source, source_stamp, block, stamp, length };
                self.copy(&cut, &targets, (&token, false))
            }
            Command::Recover { block, old_stamp, stamp, length_min, replicas, token } => {
                let led = transfer::lead_recovery(
                    &self.service,
                    block,
                    (old_stamp, stamp),
                    length_min,
                    &replicas,
                    &token,
                );
                match led {
                    Ok(Recovered { length, members: replicas, answered, without }) => {
                        Some(CommitRecovery { block, stamp, length, replicas, answered, without })
                    }
                    Err(error) => {
                        tracing::warn!(%block, error = %protocol::error::chain(&error), "cannot recover");
                        self.service.store.note_failed_copy(block);
                        None
                    }
                }
            }
            Command::Delete(_)
            | Command::ReportAll
            | Command::Verify(_)
            | Command::SetBalancerBandwidth(_)
            | Command::ShutDown => None,
        }
    }
}

/// True if the NameNode answered and the session is over; false if it was only unreachable or busy.
fn is_refusal(error: &RpcError) -> bool {
    let is_fenced = matches!(error, RpcError::Remote(refusal) if !refusal.kind.is_transient());
    // What it cannot read now it never can: the full report of another registration says the same in another way.
    is_fenced || error.refuses_content()
}

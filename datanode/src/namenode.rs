//! The loop that keeps the NameNode informed and carries out its commands.
//!
//! ```text
//! register -> full report -> { heartbeats held open by the NameNode | changes as they happen } -> Fenced -> register …
//! ```
//!
//! The NameNode may be unreachable for any time: the loop tries calls again with growing, jittered pauses. It refuses commands of an epoch lower than the
//! highest seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::RpcError;
use client::rpc::{CallOptions, RpcClient};
use daemon::Shutdown;
use protocol::datanode::{
    Changes, Command, CommitRecovery, Heartbeat, Register, Reply, Request, VERSION,
};
use protocol::level::Supported;
use protocol::namenode::DatanodeInfo;
use protocol::{Epoch, ErrorKind};
use tokio::sync::Semaphore;

use crate::core::recovery::Recovered;
use crate::core::report;
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
    info: DatanodeInfo,
    highest_epoch: AtomicU64,
    /// The NameNode has ordered it to stop.
    dismissed: AtomicBool,
    slots: Arc<Semaphore>,
}

/// A registration.
#[derive(Clone, Copy, Debug)]
struct Session {
    epoch: Epoch,
    hold: Duration,
}

/// Why a session ended: register again.
struct Ended;

impl Link {
    pub(crate) fn new(rpc: RpcClient, service: Arc<Service>, info: DatanodeInfo) -> Arc<Self> {
        Arc::new(Link {
            rpc,
            service,
            info,
            highest_epoch: AtomicU64::new(0),
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
            let Some(session) = self.register().await? else {
                self.pause().await;
                continue;
            };
            if self.report_all(session).await.is_ok() {
                tokio::select! {
                    Ended = self.heartbeats(session) => {}
                    Ended = self.tell_changes(session) => {}
                }
            }
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
    async fn register(&self) -> Result<Option<Session>, Error> {
        let store = &self.service.store;
        let register = Register {
            version: VERSION,
            levels: Supported::OWN,
            cluster: store.cluster(),
            info: self.info.clone(),
        };
        match self.call(&Request::Register(register), ANSWER_TIMEOUT).await {
            Ok(Reply::Registered { cluster, epoch, heartbeat_ms, level }) => {
                if store.cluster().is_some_and(|own| own != cluster) {
                    tracing::error!(%cluster, "the NameNode is of another cluster than this data");
                    return Ok(None);
                }
                if epoch.0 < self.highest_epoch.fetch_max(epoch.0, Ordering::AcqRel) {
                    tracing::error!(%epoch, "the NameNode is older than one that was served before");
                    return Ok(None);
                }
                store.adopt_cluster(cluster)?;
                tracing::info!(%epoch, %level, "registered");
                Ok(Some(Session { epoch, hold: Duration::from_millis(heartbeat_ms) }))
            }
            Ok(_) => Ok(None),
            Err(RpcError::Remote(refusal)) if refusal.kind == ErrorKind::InvalidArgument => {
                Err(Error::Refused(refusal))
            }
            Err(error) => {
                tracing::warn!(error = %client::error::chain(&error), "cannot register");
                Ok(None)
            }
        }
    }

    async fn report_all(&self, session: Session) -> Result<(), Ended> {
        let replicas = self.service.store.replicas();
        for part in report::full_report(self.info.id, session.epoch, replicas) {
            self.tell(Request::FullReport(part), session).await?;
        }
        Ok(())
    }

    async fn heartbeats(self: &Arc<Self>, session: Session) -> Ended {
        let mut told = false;
        loop {
            let heartbeat = Request::Heartbeat(self.heartbeat(session));
            match self.call(&heartbeat, session.hold + ANSWER_TIMEOUT).await {
                Ok(Reply::Commands { epoch, commands }) if epoch == session.epoch => {
                    for command in commands {
                        if self.obey(command, session).await.is_err() {
                            return Ended;
                        }
                    }
                }
                Ok(_) => return Ended,
                Err(error) if is_refusal(&error) => return Ended,
                Err(error) => {
                    let text = client::error::chain(&error);
                    // Its clock may be wrong: log that once for an operator.
                    if matches!(error, RpcError::Status { .. })
                        && !std::mem::replace(&mut told, true)
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

    fn heartbeat(&self, session: Session) -> Heartbeat {
        let usage = self.service.store.usage();
        Heartbeat {
            datanode: self.info.id,
            epoch: session.epoch,
            capacity: usage.capacity,
            used: usage.used,
            remaining: usage.remaining,
            transfer_count: u32::try_from(self.service.transfer_count()).unwrap_or(u32::MAX),
            non_dfs_used: usage.non_dfs_used,
            failed_volumes: self.service.store.failed_volumes(),
            balancer_bandwidth: self.service.balancing().rate(),
        }
    }

    /// Sends changes at once; those that occur while a message is in flight go into the next.
    async fn tell_changes(&self, session: Session) -> Ended {
        let queue = self.service.store.changes();
        loop {
            let changes = queue.take(self.info.id, session.epoch).await;
            // If this future is dropped while the message is in flight, the full report of the next session covers it.
            if let Err(ended) = self.tell_one(&changes, session).await {
                queue.give_back(changes);
                return ended;
            }
        }
    }

    async fn tell_one(&self, changes: &Changes, session: Session) -> Result<(), Ended> {
        self.tell(Request::Changes(changes.clone()), session).await
    }

    /// Sends until it arrives or the session ends.
    async fn tell(&self, request: Request, session: Session) -> Result<(), Ended> {
        loop {
            match self.call(&request, ANSWER_TIMEOUT).await {
                Ok(_) => return Ok(()),
                Err(error) if is_refusal(&error) => return Err(Ended),
                Err(error) => {
                    let error = client::error::chain(&error);
                    tracing::debug!(epoch = %session.epoch, %error, "the NameNode is away");
                    self.pause().await;
                }
            }
        }
    }

    async fn call(&self, request: &Request, timeout: Duration) -> Result<Reply, RpcError> {
        self.rpc.call(TARGET, request, CallOptions::once(timeout)).await
    }

    async fn obey(self: &Arc<Self>, command: Command, session: Session) -> Result<(), Ended> {
        match command {
            Command::Delete(replicas) => {
                let service = Arc::clone(&self.service);
                tokio::task::spawn_blocking(move || {
                    for (block, stamp) in replicas {
                        service.store.delete(block, stamp);
                    }
                });
                Ok(())
            }
            Command::ReportAll => self.report_all(session).await,
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
                    let done =
                        tokio::task::spawn_blocking(move || worker.carry_out(command, session));
                    if let Ok(Some(commit)) = done.await {
                        // Refused: a newer recovery or NameNode has taken over.
                        let _ = link.tell(Request::CommitRecovery(commit), session).await;
                    }
                    drop(slot);
                });
                Ok(())
            }
        }
    }

    /// Copies or recovers; blocks.
    fn carry_out(&self, command: Command, session: Session) -> Option<CommitRecovery> {
        match command {
            Command::Replicate { block, stamp, targets, token, balancing } => {
                let terms = (token, balancing);
                match transfer::replicate(&self.service, block, stamp, &targets, terms) {
                    Ok(()) => tracing::info!(%block, targets = targets.len(), "replicated"),
                    Err(error) => {
                        let error = client::error::chain(&error);
                        tracing::warn!(%block, %error, "cannot replicate");
                        self.service.store.note_failed_copy(block);
                    }
                }
                None
            }
            Command::Cut { source, source_stamp, block, stamp, length, targets, token } => {
                let cut = transfer::Cut { source, source_stamp, block, stamp, length };
                if let Err(error) = transfer::cut(&self.service, &cut, &targets, token) {
                    tracing::warn!(%block, error = %client::error::chain(&error), "cannot cut");
                    return None;
                }
                let replicas = targets.iter().map(|target| target.id).collect();
                let (datanode, epoch) = (self.info.id, session.epoch);
                let answered = Vec::new();
                Some(CommitRecovery { datanode, epoch, block, stamp, length, replicas, answered })
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
                    Ok(Recovered { length, members: replicas, answered }) => {
                        let (datanode, epoch) = (self.info.id, session.epoch);
                        Some(CommitRecovery {
                            datanode,
                            epoch,
                            block,
                            stamp,
                            length,
                            replicas,
                            answered,
                        })
                    }
                    Err(error) => {
                        tracing::warn!(%block, error = %client::error::chain(&error), "cannot recover");
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
    matches!(error, RpcError::Remote(refusal) if !refusal.kind.is_transient())
}

//! The link of a client to its cluster: calls to the NameNode under one identity, connections to DataNodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use protocol::address::Site;
use protocol::auth::{Role, Service};
use protocol::namenode::{
    Answer, BadReplica, Body, Call, LocatedBlocks, Reply, Request, TypedCall, calls,
};
use protocol::{ClientId, DfsPath};
use tokio::task::JoinHandle;

use super::error::DfsError;
use crate::config::{ClientConfig, Daemon};
use crate::error::RpcError;
use crate::namesystem::TARGET;
use crate::rpc::{CallOptions, RpcClient};
use transport::{ConnectionPool, PacketPool, Timeouts};

/// Pause before a batch is sent again that the NameNode refuses for now: it needs about as long to leave safe mode.
const BATCH_PAUSE: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(super) struct Link {
    rpc: RpcClient,
    pub(super) id: ClientId,
    pub(super) user: String,
    pub(super) site: Site,
    host: String,
    call_number: AtomicU64,
    pub(super) options: CallOptions,
    pub(super) datanodes: ConnectionPool,
    pub(super) packets: PacketPool,
}

impl Link {
    /// A link to the NameNode that `config` names. Sends nothing yet.
    pub(super) fn connect(
        config: &ClientConfig,
        options: CallOptions,
        timeouts: Timeouts,
    ) -> Result<Self, DfsError> {
        let namenode = config.namenode.as_deref().ok_or(DfsError::NoNamenode)?;
        let rpc = match &config.pass {
            Some(pass) => RpcClient::of_task(namenode, pass)?,
            None => {
                RpcClient::new(namenode, Role::Client, config.secret(Daemon::Namenode)?.as_ref())?
            }
        }
        .expecting(Service::Namenode);
        Ok(Link {
            rpc,
            id: ClientId(rand::random()),
            user: config.user(),
            site: config.site(),
            host: config.host(),
            call_number: AtomicU64::new(0),
            options,
            datanodes: ConnectionPool::with(timeouts, config.local()),
            packets: PacketPool::default(),
        })
    }

    /// A link of another user, over the same connections.
    pub(super) fn as_user(&self, user: &str) -> Self {
        Link {
            rpc: self.rpc.clone(),
            id: ClientId(rand::random()),
            user: user.to_owned(),
            site: self.site.clone(),
            host: self.host.clone(),
            call_number: AtomicU64::new(0),
            options: self.options,
            datanodes: self.datanodes.clone(),
            packets: self.packets.clone(),
        }
    }

    pub(super) fn namenode(&self) -> &str {
        self.rpc.base()
    }

    /// Makes any call or batch.
    pub(super) fn call(&self, body: impl Into<Body>) -> Result<Reply, DfsError> {
        self.call_with(body, self.options)
    }

    pub(super) fn call_with(
        &self,
        body: impl Into<Body>,
        options: CallOptions,
    ) -> Result<Reply, DfsError> {
        let request = self.request(body);
        Ok(self.rpc.call_blocking(TARGET, &request, options)?)
    }

    /// Makes several calls in one message. While all of them are refused for now, the message is sent again under the same id.
    pub(super) fn batch_when_ready(&self, calls: Vec<Call>) -> Result<Vec<Answer>, DfsError> {
        let request = self.request(Body::Batch(calls));
        let deadline = Instant::now() + self.options.retry_for;
        loop {
            let reply: Reply = self.rpc.call_blocking(TARGET, &request, self.options)?;
            let answers: Vec<Answer> = reply.try_into()?;
            let waits = |answer: &Answer| matches!(answer, Err(no) if no.kind.is_transient());
            let is_ready = answers.is_empty() || !answers.iter().all(waits);
            if is_ready || Instant::now() >= deadline {
                return Ok(answers);
            }
            std::thread::sleep(BATCH_PAUSE);
        }
    }

    /// Makes a call and returns the answer that it names.
    pub(super) fn ask<C: TypedCall>(&self, call: C) -> Result<C::Answer, DfsError> {
        self.ask_with(call, self.options)
    }

    pub(super) fn ask_with<C: TypedCall>(
        &self,
        call: C,
        options: CallOptions,
    ) -> Result<C::Answer, DfsError> {
        Ok(self.call_with(call.into(), options)?.try_into()?)
    }

    /// Blocks of a file that overlap a range, replicas nearest first.
    pub(super) fn locations(
        &self,
        path: &DfsPath,
        offset: u64,
        length: u64,
    ) -> Result<LocatedBlocks, DfsError> {
        self.ask(calls::Locations { path: path.clone(), offset, length })
    }

    /// Reports bad replicas to the NameNode without waiting.
    pub(super) fn report_bad(self: &Arc<Self>, replicas: Vec<BadReplica>) -> JoinHandle<()> {
        let link = Arc::clone(self);
        crate::rpc::runtime().spawn(async move {
            let request = link.request(Call::ReportBadReplicas(replicas));
            let answer: Result<Reply, RpcError> =
                link.rpc.call(TARGET, &request, link.options).await;
            if let Err(error) = answer {
                tracing::warn!(error = %crate::error::chain(&error), "cannot report bad replicas");
            }
        })
    }

    /// Renews this client's leases; tries once.
    pub(super) fn renew_leases(&self, timeout: Duration) -> Result<(), RpcError> {
        let request = self.request(Call::RenewLease);
        let options = CallOptions::once(timeout);
        self.rpc.call_blocking::<_, Reply>(TARGET, &request, options).map(drop)
    }

    fn request(&self, body: impl Into<Body>) -> Request {
        let number = self.call_number.fetch_add(1, Ordering::Relaxed) + 1;
        Request::new(self.id, number, &self.user, &self.host, body)
    }
}

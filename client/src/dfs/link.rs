//! The link of a client to its cluster: calls to the NameNode under one identity, connections to DataNodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::config::{ClientConfig, Daemon};
use protocol::address::Site;
use protocol::auth::{Role, Service};
use protocol::namenode::{BadReplica, Body, Call, LocatedBlocks, Reply, Request, TypedCall, calls};
use protocol::{ClientId, DfsPath};
use tokio::task::JoinHandle;
use transport::RpcError;
use transport::{ConnectionPool, PacketPool, Timeouts};

use super::error::DfsError;
use crate::namesystem::send;
use transport::rpc::{CallOptions, RpcClient, runtime};

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
        Ok(runtime().block_on(send(&self.rpc, &request, options))?)
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
        runtime().spawn(async move {
            let request = link.request(Call::ReportBadReplicas(replicas));
            if let Err(error) = send(&link.rpc, &request, link.options).await {
                tracing::warn!(error = %protocol::error::chain(&error), "cannot report bad replicas");
            }
        })
    }

    /// Renews this client's leases; tries once.
    pub(super) fn renew_leases(&self, timeout: Duration) -> Result<(), RpcError> {
        let request = self.request(Call::RenewLease);
        runtime().block_on(send(&self.rpc, &request, CallOptions::once(timeout))).map(drop)
    }

    fn request(&self, body: impl Into<Body>) -> Request {
        let number = self.call_number.fetch_add(1, Ordering::Relaxed) + 1;
        Request::new(self.id, number, &self.user, &self.host, body)
    }
}

//! The link of a client to its cluster: calls to the NameNode under one identity, connections to DataNodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol::address::Site;
use protocol::auth::{Role, Service};
use protocol::namenode::{
    Appended, BadReplica, Body, Call, Create, Created, LocatedBlocks, Reply, Request,
};
use protocol::{ClientId, DfsPath};
use tokio::task::JoinHandle;

use super::error::DfsError;
use crate::config::{ClientConfig, Daemon};
use crate::error::RpcError;
use crate::rpc::{CallOptions, RpcClient};
use transport::{ConnectionPool, PacketPool, Timeouts};

/// Where clients call.
const TARGET: &str = "/rpc";

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

    pub(super) fn call(&self, body: Call) -> Result<Reply, DfsError> {
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

    pub(super) fn create_file(&self, create: Create) -> Result<Created, DfsError> {
        match self.call(Call::Create(create))? {
            Reply::Created(created) => Ok(created),
            _ => Err(DfsError::Unexpected),
        }
    }

    pub(super) fn append_file(
        &self,
        path: &DfsPath,
        new_block: bool,
    ) -> Result<Appended, DfsError> {
        match self.call(Call::Append { path: path.clone(), new_block })? {
            Reply::Appended(appended) => Ok(appended),
            _ => Err(DfsError::Unexpected),
        }
    }

    pub(super) fn done(&self, call: Call) -> Result<(), DfsError> {
        match self.call(call)? {
            Reply::Done => Ok(()),
            _ => Err(DfsError::Unexpected),
        }
    }

    pub(super) fn flag(&self, call: Call) -> Result<bool, DfsError> {
        match self.call(call)? {
            Reply::Flag(flag) => Ok(flag),
            _ => Err(DfsError::Unexpected),
        }
    }

    /// Blocks of a file that overlap a range, replicas nearest first.
    pub(super) fn locations(
        &self,
        path: &DfsPath,
        offset: u64,
        length: u64,
    ) -> Result<LocatedBlocks, DfsError> {
        match self.call(Call::Locations { path: path.clone(), offset, length })? {
            Reply::Located(located) => Ok(located),
            _ => Err(DfsError::Unexpected),
        }
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

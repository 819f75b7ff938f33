//! The namespace as every face of it sees it: something that makes calls for users. A face in the NameNode's process reaches the core at once, one in another
//! process through [`Remote`].

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::namenode::{Answer, Call, DatanodeReport, Request, TypedCall, calls};
use protocol::{ClientId, ErrorKind, RemoteError};

use transport::RpcError;
use transport::rpc::{CallOptions, RpcClient};

/// Where the NameNode takes calls.
pub(crate) const TARGET: &str = "/rpc";

/// Makes calls to the NameNode.
pub trait Namesystem: Clone + Send + Sync + 'static {
    /// Makes any call as `user`.
    fn call(
        &self,
        user: &str,
        from: CallOrigin<'_>,
        call: Call,
    ) -> impl Future<Output = Answer> + Send;

    /// Makes a call as `user` and returns the answer that it names.
    fn ask<C: TypedCall>(
        &self,
        user: &str,
        from: CallOrigin<'_>,
        call: C,
    ) -> impl Future<Output = Result<C::Answer, RemoteError>> + Send {
        let answer = self.call(user, from, call.into());
        async move { Ok(answer.await?.try_into()?) }
    }

    /// Asks for the DataNodes, because a redirect for `user` needs to know them.
    fn datanodes(
        &self,
        user: &str,
    ) -> impl Future<Output = Result<Vec<DatanodeReport>, RemoteError>> + Send {
        self.ask(user, CallOrigin::default(), calls::Datanodes)
    }
}

/// Where a call comes from, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallOrigin<'a> {
    /// Name of the client's machine if a DataNode runs there; else empty.
    pub host: &'a str,
    /// Address of the client.
    pub address: Option<IpAddr>,
}

/// A NameNode over the network.
#[derive(Clone, Debug)]
pub struct Remote {
    rpc: RpcClient,
    id: ClientId,
    calls: Arc<AtomicU64>,
}

impl Remote {
    /// The NameNode that `rpc` calls, under an identity of its own.
    pub fn new(rpc: RpcClient) -> Self {
        Remote { rpc, id: ClientId(rand::random()), calls: Arc::default() }
    }
}

impl Namesystem for Remote {
    async fn call(&self, user: &str, from: CallOrigin<'_>, call: Call) -> Answer {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let request = Request::new(self.id, number, user, from.host, call);
        self.rpc.call(TARGET, &request, CallOptions::default()).await.map_err(|error| match error {
            RpcError::Remote(refusal) => refusal,
            error => RemoteError::new(ErrorKind::Unavailable, protocol::error::chain(&error)),
        })
    }
}

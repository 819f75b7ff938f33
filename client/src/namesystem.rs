//! The namespace as every face of it sees it: something that makes calls for users. A face in the NameNode's process reaches the core at once, one in another
//! process through [`Remote`].

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::namenode::{Answer, Call, DatanodeReport, Kind, Reply, Request, TypedCall, calls};
use protocol::wire::bundle;
use protocol::{CallId, ClientId, ErrorKind, RemoteError};

use transport::RpcError;
use transport::rpc::{CallOptions, Lane, RpcClient};

/// Sends a call, together with others of this process if both are brief.
///
/// # Errors
/// As [`RpcClient::call`].
pub async fn send(
    rpc: &RpcClient,
    request: &Request,
    options: CallOptions,
) -> Result<Reply, RpcError> {
    match request.body.kind() {
        Kind::Read if request.body.is_brief() => rpc.call_in(Lane::Reads, request, options).await,
        Kind::Change if request.body.is_brief() => {
            rpc.call_in(Lane::Changes, request, options).await
        }
        _ => rpc.call(bundle::ALONE, request, options).await,
    }
}

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
    /// How the client names the call, if its protocol has names: repeated under the same one, it gets its first answer. Without one no two calls are the same.
    /// REQUIRES: the face derives it from the user and the session as well as from the client's own number. Who names a call gets its answer.
    pub call: Option<CallId>,
}

/// Names the calls of a face whose clients give them no names. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CallNames {
    client: ClientId,
    count: Arc<AtomicU64>,
}

impl CallNames {
    /// Of a client of its own.
    pub fn new() -> Self {
        CallNames { client: ClientId(rand::random()), count: Arc::default() }
    }

    /// The name that the client of `from` gave the call, or one that no call had before.
    pub fn of(&self, from: CallOrigin<'_>) -> CallId {
        from.call.unwrap_or_else(|| {
            let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
            CallId { client: self.client, number }
        })
    }
}

impl Default for CallNames {
    fn default() -> Self {
        CallNames::new()
    }
}

/// A NameNode over the network.
#[derive(Clone, Debug)]
pub struct Remote {
    rpc: RpcClient,
    names: CallNames,
}

impl Remote {
    /// The NameNode that `rpc` calls, under an identity of its own.
    pub fn new(rpc: RpcClient) -> Self {
        Remote { rpc, names: CallNames::new() }
    }
}

impl Namesystem for Remote {
    async fn call(&self, user: &str, from: CallOrigin<'_>, call: Call) -> Answer {
        let CallId { client, number } = self.names.of(from);
        let request = Request::new(client, number, user, from.host, call);
        send(&self.rpc, &request, CallOptions::default()).await.map_err(|error| match error {
            RpcError::Remote(refusal) => refusal,
            error => RemoteError::new(ErrorKind::Unavailable, protocol::error::chain(&error)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_keeps_the_name_that_its_client_gave_it_and_others_have_each_their_own() {
        let (names, others) = (CallNames::new(), CallNames::new());
        let given = CallId { client: ClientId([7; 16]), number: 3 };
        let named = CallOrigin { call: Some(given), ..CallOrigin::default() };
        assert_eq!([names.of(named), names.of(named)], [given, given]);
        let unnamed = CallOrigin::default();
        let (first, second) = (names.of(unnamed), names.clone().of(unnamed));
        assert!(first != second && first != others.of(unnamed), "{first:?} {second:?}");
    }
}

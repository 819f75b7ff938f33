//! The way of faces in this process to the namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::namesystem::{CallOrigin, Namesystem};
use daemon::access::STATIC_USER;
use protocol::namenode::{Answer, Call, DatanodeReport, Request, TypedCall, calls};
use protocol::{ClientId, RemoteError};

use super::audit::Origin;
use super::calls::Service;

/// A face's way to the namespace.
#[derive(Clone)]
pub(crate) struct Local {
    service: Service,
    /// How the audit log names the face.
    protocol: &'static str,
    /// A client of its own: a call that comes from outside is never a repeated one.
    id: ClientId,
    calls: Arc<AtomicU64>,
}

impl Local {
    pub(crate) fn new(service: Service, protocol: &'static str) -> Self {
        Local { service, protocol, id: ClientId(rand::random()), calls: Arc::default() }
    }

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// Answers what this daemon asks for its own pages and figures, as the user that pages have when nobody is signed in.
    pub(crate) async fn query<C: TypedCall>(&self, call: C) -> Result<C::Answer, RemoteError> {
        self.query_as(STATIC_USER, call).await
    }

    /// Answers what this daemon asks because of a user's request: it is nobody's call, so neither counted nor logged in the audit log.
    async fn query_as<C: TypedCall>(&self, user: &str, call: C) -> Result<C::Answer, RemoteError> {
        let request = self.request(user, "", call.into());
        let answered = self.service.answer(request.body.kind(), request).await;
        Ok(answered.answer?.try_into()?)
    }

    fn request(&self, user: &str, host: &str, call: Call) -> Request {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        Request::new(self.id, number, user, host, call)
    }
}

impl Namesystem for Local {
    async fn call(&self, user: &str, from: CallOrigin<'_>, call: Call) -> Answer {
        let address = from.address.map(|address| address.to_canonical().to_string());
        let origin = Origin { address: address.unwrap_or_default(), protocol: self.protocol };
        self.service.client(self.request(user, from.host, call), origin).await
    }

    async fn datanodes(&self, user: &str) -> Result<Vec<DatanodeReport>, RemoteError> {
        self.query_as(user, calls::Datanodes).await
    }
}

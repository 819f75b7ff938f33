//! The way of faces in this process to the namespace.

use client::namesystem::{CallNames, CallOrigin, Namesystem};
use daemon::access::STATIC_USER;
use protocol::namenode::{Answer, Call, DatanodeReport, Request, TypedCall, calls};
use protocol::{CallId, RemoteError};

use super::audit::Origin;
use super::calls::Service;

/// A face's way to the namespace.
#[derive(Clone)]
pub(crate) struct Local {
    service: Service,
    /// How the audit log names the face.
    protocol: &'static str,
    names: CallNames,
}

impl Local {
    pub(crate) fn new(service: Service, protocol: &'static str) -> Self {
        Local { service, protocol, names: CallNames::new() }
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
        let request = self.request(user, CallOrigin::default(), call.into());
        let answered = self.service.answer(request.body.kind(), request).await;
        Ok(answered.answer?.try_into()?)
    }

    fn request(&self, user: &str, from: CallOrigin<'_>, call: Call) -> Request {
        let CallId { client, number } = self.names.of(from);
        Request::new(client, number, user, from.host, call)
    }
}

impl Namesystem for Local {
    async fn call(&self, user: &str, from: CallOrigin<'_>, call: Call) -> Answer {
        let address = from.address.map(|address| address.to_canonical().to_string());
        let origin = Origin { address: address.unwrap_or_default(), protocol: self.protocol };
        self.service.client(self.request(user, from, call), origin).await
    }

    async fn datanodes(&self, user: &str) -> Result<Vec<DatanodeReport>, RemoteError> {
        self.query_as(user, calls::Datanodes).await
    }
}

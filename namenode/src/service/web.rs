//! The way of WebHDFS, pages and monitors to the namespace, in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use daemon::access::STATIC_USER;
use protocol::ClientId;
use protocol::namenode::{Answer, Call, Request};
use webhdfs::namenode::CallOrigin;

use super::audit::Origin;
use super::calls::Service;

/// WebHDFS's way to the namespace, in this process.
#[derive(Clone)]
pub(crate) struct Web {
    service: Service,
    /// A client of its own: a call that comes from outside is never a repeated one.
    id: ClientId,
    calls: Arc<AtomicU64>,
}

impl Web {
    pub(crate) fn new(service: Service) -> Self {
        Web { service, id: ClientId(rand::random()), calls: Arc::default() }
    }

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// Answers what this daemon asks for its own pages and figures, as the user that pages have when nobody is signed in.
    pub(crate) async fn query(&self, call: Call) -> Answer {
        self.query_as(STATIC_USER, call).await
    }

    /// Answers what this daemon asks because of a user's request: it is nobody's call, so neither counted nor logged in the audit log.
    async fn query_as(&self, user: &str, call: Call) -> Answer {
        self.service.answer(self.request(user, "", call), &mut Vec::new()).await
    }

    fn request(&self, user: &str, host: &str, call: Call) -> Request {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        Request::new(self.id, number, user, host, call)
    }
}

impl webhdfs::namenode::Namesystem for Web {
    async fn call(&self, user: &str, from: CallOrigin<'_>, call: Call) -> Answer {
        let address = from.address.map(|address| address.to_canonical().to_string());
        let origin = Origin { address: address.unwrap_or_default(), protocol: "webhdfs" };
        self.service.client(self.request(user, from.host, call), origin).await
    }

    async fn datanodes(&self, user: &str) -> Answer {
        self.query_as(user, Call::Datanodes).await
    }
}

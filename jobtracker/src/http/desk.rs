//! The JobTracker as one user sees it: handlers of pages and APIs ask through it, as the user who asks them.
//!
//! Invariant: a handler reaches jobs only through a [`Desk`], and a desk is opened only for a user that [`daemon::access`] identified.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use daemon::access::User;
use daemon::session::SessionError;
use protocol::jobs::{Call, Reply as ClientReply, Request};
use protocol::{CallId, ClientId, JobId, RemoteError};
use tokio::sync::oneshot;

use super::shared::{Refused, Shared};
use crate::audit::Origin;
use crate::core::views::Picture;
use crate::core::views::WorkerPicture;
use crate::server::query::{JobQuery, Reply, Viewer};
use crate::server::{Event, ended, stopping};

/// See the module.
pub(crate) struct Desk {
    shared: Shared,
    viewer: Viewer,
    origin: Origin,
}

impl Deref for Desk {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl FromRequestParts<Shared> for Desk {
    type Rejection = SessionError;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, SessionError> {
        let user = User::from_request_parts(parts, shared).await?;
        Ok(Desk::open(shared, user).await)
    }
}

impl Desk {
    /// Opens a desk for an identified user.
    pub(crate) async fn open(shared: &Shared, user: User) -> Self {
        let known = shared.groups.of(&user.name).await;
        let address = user.address.map(|address| address.to_string()).unwrap_or_default();
        let viewer = Viewer::new(user.name, known);
        Desk { shared: shared.clone(), viewer, origin: Origin { address, protocol: "http" } }
    }

    /// Who asks.
    pub(crate) fn viewer(&self) -> &Viewer {
        &self.viewer
    }

    /// Asks about a job; a refusal goes to the audit log.
    pub(crate) async fn find<T>(
        &self,
        query: impl FnOnce(Reply<T>) -> JobQuery,
    ) -> Result<T, Refused> {
        let (reply, answer) = oneshot::channel();
        let query = query(reply);
        let job = query.job();
        let event = Event::Query(self.viewer.clone(), query);
        self.events.send(event).await.map_err(|end| Refused(ended(end)))?;
        let found = answer.await.unwrap_or_else(|_| Err(stopping()));
        if let Err(refusal) = &found {
            self.audit.view_refused((self.viewer.user(), &self.origin), job, refusal).await;
        }
        found.map_err(Refused)
    }

    /// A job as displayed on its page.
    pub(crate) async fn picture(&self, job: JobId) -> Result<Arc<Picture>, Refused> {
        let kept = self.pictures.find(job);
        let is_kept = kept.is_some();
        let made = self.find(|reply| JobQuery::Picture(job, is_kept, reply)).await?;
        match (made, kept) {
            (Some(made), _) => {
                let made = Arc::new(*made);
                self.pictures.keep(&made);
                Ok(made)
            }
            (None, Some(kept)) => Ok(kept),
            (None, None) => Err(Refused(stopping())),
        }
    }

    /// The worker at an address.
    pub(crate) async fn worker(
        &self,
        address: String,
    ) -> Result<Option<Box<WorkerPicture>>, Refused> {
        let viewer = self.viewer.clone();
        self.ask(|reply| Event::WorkerAt(viewer, address, reply)).await.map_err(Refused)
    }

    /// Sends a client's call. Nobody repeats it, so it has no id.
    pub(crate) async fn call(&self, body: Call) -> Result<ClientReply, Refused> {
        let request = Request {
            version: protocol::jobs::VERSION,
            call: CallId { client: ClientId::default(), number: 0 },
            user: self.viewer.user().to_owned(),
            body,
        };
        let answer: Result<ClientReply, RemoteError> =
            self.client(request, self.origin.clone()).await;
        answer.map_err(Refused)
    }
}

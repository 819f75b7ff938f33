//! The JobTracker as one user sees it: handlers of pages and APIs ask through it, as the user who asks them.
//!
//! Invariant: a handler reaches jobs only through a [`Desk`], and a desk is opened only for a user that [`daemon::access`] identified.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use daemon::access::User;
use daemon::session::SessionError;
use protocol::jobs::{Request, TypedCall};
use protocol::{CallId, ClientId, JobId, RemoteError};

use super::shared::{Refused, Shared};
use crate::audit::Origin;
use crate::core::Core;
use crate::core::rights::{Operation, Whose};
use crate::core::views::{Picture, WorkerPicture};
use crate::server::query::Viewer;
use crate::server::{Event, Reports};

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

    /// Queries the state about a job that the user may view; a refusal goes to the audit log.
    pub(crate) async fn find<T>(
        &self,
        job: JobId,
        query: impl FnOnce(&Core) -> Result<T, RemoteError>,
    ) -> Result<T, Refused> {
        let check = |core: &Core| core.check(&self.viewer.caller(), Operation::View, job);
        self.query(job, |core| check(core).and_then(|()| query(core))).await
    }

    /// Refuses users who may not view a job that is known only from its history.
    pub(crate) async fn check_kept(&self, job: JobId, whose: &Whose) -> Result<(), Refused> {
        self.query(job, |core| core.check_kept(&self.viewer.caller(), whose, job)).await
    }

    async fn query<T>(
        &self,
        job: JobId,
        query: impl FnOnce(&Core) -> Result<T, RemoteError>,
    ) -> Result<T, Refused> {
        let found = self.host.view(|core, _| query(core)).await.and_then(|found| found);
        if let Err(refusal) = &found {
            self.audit.view_refused((self.viewer.user(), &self.origin), job, refusal).await;
        }
        found.map_err(Refused)
    }

    /// A job as displayed on its page.
    pub(crate) async fn picture(&self, job: JobId) -> Result<Arc<Picture>, Refused> {
        let kept = self.pictures.find(job);
        let picture = self.find(job, |core| match kept {
            Some(kept) if core.is_over(job) => Ok(kept),
            _ => core.picture(job).map(Arc::new),
        });
        let picture = picture.await?;
        self.pictures.keep(&picture);
        Ok(picture)
    }

    /// The reports on a job from now on.
    pub(crate) async fn watch(&self, job: JobId) -> Result<Reports, Refused> {
        self.find(job, |_| Ok(())).await?;
        let reports = self.host.ask(|reply| Event::Watch(job, reply)).await;
        reports.and_then(|reports| reports).map_err(Refused)
    }

    /// The worker at an address.
    pub(crate) async fn worker(&self, address: &str) -> Result<Option<WorkerPicture>, Refused> {
        let query = |core: &Core, now| core.worker_picture(&self.viewer.caller(), address, now);
        self.host.view(query).await.map_err(Refused)
    }

    /// Makes a client's call. Nobody repeats it, so it has no id.
    pub(crate) async fn ask<C: TypedCall>(&self, call: C) -> Result<C::Answer, Refused> {
        let id = CallId { client: ClientId::default(), number: 0 };
        let request = Request::new(id, self.viewer.user(), call);
        let answer = self.client(request, self.origin.clone()).await;
        answer.and_then(|reply| Ok(reply.try_into()?)).map_err(Refused)
    }
}

//! What handlers share: the connection to the host, and the data they need beside it.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRef;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use daemon::carried::carried;
use daemon::groups::Groups;
use daemon::inspect::Setting;
use daemon::page::live::Board;
use daemon::session::Sessions;
use host::Mailbox;
use protocol::auth::Key;
use protocol::{ErrorKind, RemoteError, jobs};
use tokio::sync::oneshot;

use super::picture_cache::PictureCache;
use crate::audit::{Audit, Origin};
use crate::history::History;
use crate::server::query::Overview;
use crate::server::{Event, ended};

/// What the routes share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) events: Mailbox<Event>,
    pub(crate) secret_file: PathBuf,
    /// `http://host:port` of the NameNode, for links.
    pub(crate) namenode: Arc<str>,
    /// Signs the requests for logs of attempts, as the user who views a page.
    pub(crate) secret: Key,
    pub(crate) history: History,
    /// Where open pages learn that the overview looks different.
    pub(crate) board: Board,
    /// Pictures of jobs that are over.
    pub(crate) pictures: PictureCache,
    /// The groups of users.
    pub(crate) groups: Arc<Groups>,
    /// The users signed in to the pages.
    pub(crate) sessions: Sessions,
    /// The audit log.
    pub(crate) audit: Audit,
    /// True if names are accepted without proof.
    pub(crate) believes_names: bool,
    /// The configuration.
    pub(crate) settings: Arc<Vec<Setting>>,
    /// When this process began to serve.
    pub(crate) since: Instant,
}

impl Shared {
    /// Asks the host.
    pub(crate) async fn ask<T>(
        &self,
        event: impl FnOnce(oneshot::Sender<T>) -> Event,
    ) -> Result<T, RemoteError> {
        self.events.ask(event).await.map_err(ended)
    }

    /// Has the host answer a client, whose groups are sent with the call, and writes it to the audit log, even if the caller hangs up.
    pub(crate) async fn client(&self, request: jobs::Request, origin: Origin) -> jobs::Answer {
        let shared = self.clone();
        carried(async move {
            let record = shared.audit.about(&request.user, &origin, &request.body);
            let membership = shared.groups.of(&request.user).await;
            let forgets = matches!(request.body, jobs::Call::RefreshGroups);
            let asked = shared.ask(|reply| Event::Client(request, membership, reply)).await;
            let answer = asked.and_then(|answer| answer);
            if forgets && answer.is_ok() {
                shared.groups.forget();
            }
            shared.audit.note(record, &answer).await;
            answer
        })
        .await
    }

    /// The data of the start page.
    pub(crate) async fn overview(&self) -> Result<Arc<Overview>, Refused> {
        self.overview_since(None).await
    }

    /// The data of the start page: at least as new as a change that pages have seen, or as of now.
    pub(crate) async fn overview_since(
        &self,
        change: Option<u64>,
    ) -> Result<Arc<Overview>, Refused> {
        self.ask(|reply| Event::Overview(change, reply)).await.map_err(Refused)
    }
}

impl FromRef<Shared> for Sessions {
    fn from_ref(shared: &Shared) -> Self {
        shared.sessions.clone()
    }
}

/// A refusal of the host.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) RemoteError);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match self.0.kind {
            ErrorKind::UnknownJob => StatusCode::NOT_FOUND,
            ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, self.0.message).into_response()
    }
}

/// Parses a name in an address; an invalid name counts as not found.
pub(crate) fn named<T: FromStr>(text: &str) -> Result<T, StatusCode> {
    text.parse().map_err(|_| StatusCode::NOT_FOUND)
}

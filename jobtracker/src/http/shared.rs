//! What handlers share: the ways to the host, and the data they need beside it.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRef;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use daemon::groups::{Groups, check_user};
use daemon::inspect::Setting;
use daemon::page::live::Board;
use daemon::session::Sessions;
use daemon::shield::shield;
use protocol::auth::Key;
use protocol::jobs::{Answer, Call, Kind, Request, TypedCall, calls};
use protocol::{ErrorKind, RemoteError};

use super::picture_cache::PictureCache;
use crate::audit::{Audit, Origin};
use crate::core::{Core, Now};
use crate::history::History;
use crate::server::Event;
use crate::server::query::{JobHost, LastOverview, ListedJobs, Overview, Viewer};
use crate::web::charts::Hour;

/// What the routes share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) host: JobHost,
    pub(crate) secret_file: PathBuf,
    /// `http://host:port` of the NameNode, for links.
    pub(crate) namenode: Arc<str>,
    /// Signs the requests for logs of attempts, as the user who views a page.
    pub(crate) secret: Key,
    pub(crate) history: History,
    /// Where open pages learn that the overview has changed.
    pub(crate) board: Board,
    /// Figures of the last hour.
    pub(crate) hour: Hour,
    /// For pages that are drawn again at the same time.
    pub(crate) last_overview: LastOverview,
    /// The journal's directories that are left out, each with the reason.
    pub(crate) log_dirs_left_out: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// The journal's figures since the start.
    pub(crate) journal_stats: Arc<dyn Fn() -> journal::Stats + Send + Sync>,
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
    /// The same in milliseconds since the epoch.
    pub(crate) started_ms: u64,
}

impl Shared {
    /// Answers a client on the way of its call, and writes it to the audit log.
    pub(crate) async fn client(&self, request: Request, origin: Origin) -> Answer {
        let shared = self.clone();
        let answered = async move { shared.noted(request, &origin).await };
        // A change is made even if its caller hangs up, and must be logged. So must a refused read.
        shield(answered).await
    }

    async fn noted(&self, request: Request, origin: &Origin) -> Answer {
        check_user(&request.user)?;
        let record = self.audit.about(&request.user, origin, &request.body);
        let membership = self.groups.of(&request.user).await;
        let answer = match request.body.kind() {
            Kind::Change => self.host.ask(|reply| Event::Client(request, membership, reply)).await,
            Kind::Order => self.order(&Viewer::new(request.user, membership), &request.body).await,
            Kind::Read => {
                let viewer = Viewer::new(request.user, membership);
                self.host.view(|core, now| core.read(&viewer.caller(), &request.body, now)).await
            }
        };
        let answer = answer.and_then(|answer| answer);
        self.audit.note(record, &answer).await;
        answer
    }

    /// Carries out the only order: all groups are asked for again.
    async fn order(&self, viewer: &Viewer, order: &Call) -> Result<Answer, RemoteError> {
        let allowed = self.host.view(|core, _| core.check_call(&viewer.caller(), order)).await?;
        Ok(calls::RefreshGroups::answer(allowed.map(|()| self.groups.forget())))
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
        let seen = self.host.view(|core, now| {
            let make = |core: &Core| self.make_overview(core, now);
            match change {
                Some(change) => self.last_overview.since(change, core, make),
                None => Arc::new(make(core)),
            }
        });
        seen.await.map_err(Refused)
    }

    fn make_overview(&self, core: &Core, now: Now) -> Overview {
        Overview {
            change: self.board.number(),
            epoch: core.epoch().0,
            started_ms: self.started_ms,
            status: core.status(),
            jobs: ListedJobs::new(core.jobs_with_viewers()),
            workers: core.worker_rows(now),
            queues: core.queue_reports(),
            log_dirs_left_out: (self.log_dirs_left_out)(),
            journal: (self.journal_stats)(),
            ends: core.ends(),
        }
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

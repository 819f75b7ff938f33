//! The HTTP face: signed calls of clients and workers, progress as server-sent events, health. Pages are in `pages`, what scripts and
//! monitors read without a signature in `api`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{FromRef, Request, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{self, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use client::rpc::Health;
use daemon::auth::Authenticator;
use daemon::groups::Groups;
use daemon::inspect::Setting;
use daemon::page::live::Board;
use daemon::rpc;
use daemon::session::Sessions;
use futures_util::stream;
use protocol::auth::{Key, Role};
use protocol::jobs::{self, JobReport};
use protocol::{ErrorKind, JobId, RemoteError, tracker};
use tokio::sync::{mpsc, oneshot, watch};

use crate::core::picture::Picture;
use crate::history::History;
use crate::kept::Kept;
use crate::server::{Event, Overview, stopping};
use crate::{api, pages};

/// Largest call of a client: the description of a job with a million splits fits the journal's record, and so this.
const CLIENT_BODY_BYTES_MAX: usize = 16 << 20;
/// Largest message of a worker: reports of some thousand attempts with their counters.
const WORKER_BODY_BYTES_MAX: usize = 64 << 20;

/// What the routes share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) secret_file: PathBuf,
    /// `http://host:port` of the NameNode, for links.
    pub(crate) namenode: Arc<str>,
    /// Reads logs of attempts from workers in the name of who looks at a page.
    pub(crate) secret: Key,
    pub(crate) history: History,
    /// Where open pages hear that the overview looks different.
    pub(crate) board: Board,
    /// Pictures of jobs that are over.
    pub(crate) kept: Kept,
    /// Who belongs to which groups.
    pub(crate) groups: Arc<Groups>,
    /// Who is signed in at the pages.
    pub(crate) sessions: Sessions,
    /// The configuration.
    pub(crate) settings: Arc<Vec<Setting>>,
    /// When this process began to serve.
    pub(crate) since: Instant,
}

impl Shared {
    /// Asks the loop.
    pub(crate) async fn ask<T>(
        &self,
        event: impl FnOnce(oneshot::Sender<T>) -> Event,
    ) -> Result<T, RemoteError> {
        let (reply, answer) = oneshot::channel();
        self.events.send(event(reply)).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())
    }

    /// Asks the loop for what may not be there.
    pub(crate) async fn find<T>(
        &self,
        event: impl FnOnce(oneshot::Sender<Result<T, RemoteError>>) -> Event,
    ) -> Result<T, Refused> {
        let found = self.ask(event).await.and_then(|found| found);
        found.map_err(Refused)
    }

    /// Has the loop answer a client, whose groups go with the call.
    pub(crate) async fn client(&self, request: jobs::Request) -> jobs::Answer {
        let membership = self.groups.of(&request.user).await;
        self.ask(|reply| Event::Client(request, membership, reply)).await?
    }

    /// What the start page shows.
    pub(crate) async fn overview(&self) -> Result<Arc<Overview>, Refused> {
        self.overview_since(None).await
    }

    /// What the start page shows: at least as new as a change that pages were told of, or as of now.
    pub(crate) async fn overview_since(
        &self,
        change: Option<u64>,
    ) -> Result<Arc<Overview>, Refused> {
        self.ask(|reply| Event::Overview(change, reply)).await.map_err(Refused)
    }

    /// A job as its page shows it.
    pub(crate) async fn picture(&self, job: JobId) -> Result<Arc<Picture>, Refused> {
        let kept = self.kept.find(job);
        let is_kept = kept.is_some();
        let made = self.find(|reply| Event::Picture(job, is_kept, reply)).await?;
        match (made, kept) {
            (Some(made), _) => {
                let made = Arc::new(*made);
                self.kept.keep(&made);
                Ok(made)
            }
            (None, Some(kept)) => Ok(kept),
            (None, None) => Err(Refused(stopping())),
        }
    }
}

impl FromRef<Shared> for Sessions {
    fn from_ref(shared: &Shared) -> Self {
        shared.sessions.clone()
    }
}

/// A refusal of the loop.
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

/// What an address names; what cannot be a name is not found.
pub(crate) fn named<T: FromStr>(text: &str) -> Result<T, StatusCode> {
    text.parse().map_err(|_| StatusCode::NOT_FOUND)
}

/// All routes.
pub(crate) fn router(shared: Shared, auth: Authenticator) -> Router {
    let (for_clients, for_workers, for_watchers) = (shared.clone(), shared.clone(), shared.clone());
    let client_calls = rpc::message(
        auth.clone(),
        &[Role::Client],
        CLIENT_BODY_BYTES_MAX,
        move |request: jobs::Request| {
            let shared = for_clients.clone();
            async move { shared.client(request).await }
        },
    );
    let worker_calls = rpc::message(
        auth.clone(),
        &[Role::Worker],
        WORKER_BODY_BYTES_MAX,
        move |request: tracker::Request| {
            let shared = for_workers.clone();
            async move { shared.ask(|reply| Event::Worker(request, reply)).await? }
        },
    );
    let sealing = from_fn_with_state(auth.clone(), rpc::seal_if_signed);
    let watching = rpc::signed_get(auth, &[Role::Client], move |_, request: Request| {
        let shared = for_watchers.clone();
        async move { events(&shared, request.uri().path()).await.into_response() }
    });
    let calls = Router::new()
        .route("/rpc", client_calls)
        .route("/rpc/worker", worker_calls)
        .route("/api/v1/jobs/{id}/events", watching);
    let health = Router::new().route("/healthz", get(health)).with_state(shared.clone());
    let open = pages::router(shared.clone()).merge(api::router(shared)).layer(sealing);
    calls.merge(health).merge(open)
}

async fn health(State(shared): State<Shared>) -> Result<Response, Refused> {
    let overview = shared.overview().await?;
    let (epoch, status) = (overview.epoch, &overview.status);
    let more = [
        ("epoch", epoch),
        ("worker_count", u64::from(status.worker_count)),
        ("slot_count", u64::from(status.slot_count)),
        ("busy_slot_count", u64::from(status.busy_slot_count)),
        ("running_job_count", u64::from(status.running_job_count)),
    ];
    let health = Health {
        service: "jobtracker".to_owned(),
        secret_file: Some(shared.secret_file.clone()),
        ready: status.worker_count > 0,
        more: more.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect(),
    };
    Ok(Json(health).into_response())
}

/// Pictures of a job until it is final. `path` is `/api/v1/jobs/{id}/events`.
async fn events(shared: &Shared, path: &str) -> response::Result<Response> {
    let id: JobId = named(path.split('/').nth(4).unwrap_or_default())?;
    let receiver = shared.find(|reply| Event::Watch(id, reply)).await?;
    let pictures = stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver: watch::Receiver<Arc<JobReport>> = receiver?;
        receiver.changed().await.ok()?;
        let report = Arc::clone(&receiver.borrow_and_update());
        let json = serde_json::to_string(&*report).ok()?;
        let next = (!report.state.is_final()).then_some(receiver);
        Some((Ok::<_, Infallible>(Sent::default().data(json)), next))
    });
    Ok(Sse::new(pictures).keep_alive(KeepAlive::default()).into_response())
}

#[cfg(test)]
pub(crate) mod tests {
    use tempfile::TempDir;

    use super::*;

    /// What routes share, with a loop that is played by whoever holds the receiver.
    pub(crate) fn shared() -> (Shared, mpsc::Receiver<Event>, TempDir) {
        let (events, received) = mpsc::channel(16);
        let directory = TempDir::new().unwrap();
        let secret = Key::new([1; 32]);
        let sessions = Sessions::new(
            Authenticator::new(&secret, protocol::auth::Service::Jobtracker),
            "jobtracker",
            "h:1",
        );
        let shared = Shared {
            events,
            secret_file: PathBuf::new(),
            namenode: "http://n:1".into(),
            secret,
            groups: Arc::new(crate::Config::default().groups()),
            history: History::open(directory.path(), 1).unwrap(),
            board: Board::default(),
            kept: Kept::default(),
            settings: Arc::default(),
            sessions,
            since: Instant::now(),
        };
        (shared, received, directory)
    }
}

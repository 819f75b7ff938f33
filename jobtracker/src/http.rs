//! The HTTP face: signed calls of clients and workers, progress as server-sent events, health. Pages are in `pages`, what scripts and
//! monitors read without a signature in `api`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use client::rpc::Health;
use daemon::auth::Authenticator;
use daemon::hosts::Hosts;
use daemon::rpc;
use daemon::session::Sessions;
use futures_util::stream;
use protocol::auth::{Key, Role};
use protocol::jobs::{self, JobReport};
use protocol::{ErrorKind, JobId, RemoteError, tracker};
use tokio::sync::{mpsc, oneshot, watch};

use crate::history::History;
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
    pub(crate) hosts: Hosts,
    /// `http://host:port` of the NameNode, for links.
    pub(crate) namenode: Arc<str>,
    /// Reads logs of attempts from workers in the name of who looks at a page.
    pub(crate) secret: Key,
    pub(crate) history: History,
    /// Who is signed in at the pages.
    pub(crate) sessions: Sessions,
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
            async move { shared.ask(|reply| Event::Client(request, reply)).await? }
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
    let watching = rpc::signed_get(auth, &[Role::Client], move |request: Request| {
        let shared = for_watchers.clone();
        async move { events(&shared, request.uri().path()).await }
    });
    let calls = Router::new()
        .route("/rpc", client_calls)
        .route("/rpc/worker", worker_calls)
        .route("/api/v1/jobs/{id}/events", watching);
    let health = Router::new().route("/healthz", get(health)).with_state(shared.clone());
    calls.merge(health).merge(pages::router(shared.clone())).merge(api::router(shared))
}

async fn health(State(shared): State<Shared>) -> Response {
    let Ok(overview) = shared.ask(Event::Overview).await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let Overview { epoch, status, .. } = overview;
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
    axum::Json(health).into_response()
}

/// Pictures of a job until it is final. `path` is `/api/v1/jobs/{id}/events`.
async fn events(shared: &Shared, path: &str) -> Response {
    let id = path.split('/').nth(4).and_then(|id| id.parse::<JobId>().ok());
    let Some(id) = id else { return StatusCode::NOT_FOUND.into_response() };
    let receiver = match shared.ask(|reply| Event::Watch(id, reply)).await.and_then(|inner| inner) {
        Ok(receiver) => receiver,
        Err(error) => return refused(&error),
    };
    let pictures = stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver: watch::Receiver<Arc<JobReport>> = receiver?;
        receiver.changed().await.ok()?;
        let report = Arc::clone(&receiver.borrow_and_update());
        let json = serde_json::to_string(&*report).ok()?;
        let next = (!report.state.is_final()).then_some(receiver);
        Some((Ok::<_, Infallible>(Sent::default().data(json)), next))
    });
    Sse::new(pictures).keep_alive(KeepAlive::default()).into_response()
}

/// A refusal as an HTTP answer.
pub(crate) fn refused(error: &RemoteError) -> Response {
    let status = match error.kind {
        ErrorKind::UnknownJob => StatusCode::NOT_FOUND,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, error.message.clone()).into_response()
}

//! The HTTP face: signed calls of clients and workers, progress as server-sent events, health. Pages are in `pages`, what scripts and
//! monitors read in `api`. Each route says whose it is ([`daemon::access`]).

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{FromRef, Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{self, IntoResponse, Response};
use axum::routing::get;
use client::rpc::Health;
use daemon::access::{Access, Audience, Routes};
use daemon::auth::Authenticator;
use daemon::carried::carried;
use daemon::groups::Groups;
use daemon::inspect::Setting;
use daemon::page::live::Board;
use daemon::rpc::{self, Sender};
use daemon::session::Sessions;
use futures_util::stream;
use protocol::auth::{Key, Role};
use protocol::jobs::{self, JobReport};
use protocol::{ErrorKind, JobId, RemoteError, tracker};
use tokio::sync::{mpsc, oneshot, watch};

use crate::audit::{Audit, Origin};
use crate::desk::Desk;
use crate::history::History;
use crate::kept::Kept;
use crate::server::look::{Look, Overview};
use crate::server::{Event, stopping};
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
    /// Who did what.
    pub(crate) audit: Audit,
    /// True if names are believed.
    pub(crate) believes_names: bool,
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

    /// Has the loop answer a client, whose groups go with the call, and tells it in the audit log: also if its caller hangs up.
    pub(crate) async fn client(&self, request: jobs::Request, origin: Origin) -> jobs::Answer {
        let shared = self.clone();
        carried(async move {
            let told = shared.audit.about(&request.user, &origin, &request.body);
            let membership = shared.groups.of(&request.user).await;
            let forgets = matches!(request.body, jobs::Call::RefreshGroups);
            let asked = shared.ask(|reply| Event::Client(request, membership, reply)).await;
            let answer = asked.and_then(|answer| answer);
            if forgets && answer.is_ok() {
                shared.groups.forget();
            }
            shared.audit.note(told, &answer).await;
            answer
        })
        .await
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
pub(crate) fn routes(shared: Shared, access: &Access, auth: Authenticator) -> Routes {
    let (for_clients, for_workers) = (shared.clone(), shared.clone());
    let client_calls = rpc::message_from(
        auth.clone(),
        &[Role::Client],
        CLIENT_BODY_BYTES_MAX,
        move |sender: Sender, request: jobs::Request| {
            let shared = for_clients.clone();
            let address = sender.address.map(|address| address.to_canonical().to_string());
            let origin = Origin { address: address.unwrap_or_default(), protocol: "rpc" };
            async move { shared.client(request, origin).await }
        },
    );
    let worker_calls = rpc::message(
        auth,
        &[Role::Worker],
        WORKER_BODY_BYTES_MAX,
        move |request: tracker::Request| {
            let shared = for_workers.clone();
            async move { shared.ask(|reply| Event::Worker(request, reply)).await? }
        },
    );
    Routes::new(access)
        .route("/rpc", Audience::Signers, client_calls)
        .route("/rpc/worker", Audience::Signers, worker_calls)
        .route("/healthz", Audience::Anybody, get(health))
        .route("/api/v1/jobs/{id}/events", Audience::Users, get(events))
        .merge(pages::routes(access, &shared.sessions))
        .merge(api::routes(access))
        .with_state(shared)
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

/// Pictures of a job until it is final.
async fn events(desk: Desk, Path(id): Path<String>) -> response::Result<Response> {
    let id: JobId = named(&id)?;
    let receiver = desk.find(|reply| Look::Watch(id, reply)).await?;
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
    use daemon::access::Auth;
    use daemon::inspect;
    use protocol::auth::Service;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn the_documentation_lists_every_route_with_whose_it_is() {
        let (shared, ..) = shared();
        let auth = Authenticator::new(&shared.secret, Service::Jobtracker);
        let access = Access::new(auth.clone(), Some(shared.sessions.clone()), Auth::Token);
        let all = routes(shared, &access, auth).merge(inspect::routes(&access, Vec::new()));
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/routes.md");
        let page = std::fs::read_to_string(page).unwrap();
        let table = format!("## JobTracker\n\n{}", all.table());
        assert!(page.contains(&table), "docs/routes.md does not say:\n{table}");
    }

    /// What routes share, with a loop that is played by whoever holds the receiver.
    pub(crate) fn shared() -> (Shared, mpsc::Receiver<Event>, TempDir) {
        let (events, received) = mpsc::channel(16);
        let directory = TempDir::new().unwrap();
        let secret = Key::new([1; 32]);
        let sessions =
            Sessions::new(Authenticator::new(&secret, Service::Jobtracker), "jobtracker", "h:1");
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
            audit: Audit::default(),
            believes_names: false,
            since: Instant::now(),
        };
        (shared, received, directory)
    }
}

//! The worker's HTTP services: segments of map outputs for reduces; logs of attempts for the JobTracker, which serves them to users who may
//! see the job; health and figures for monitors.
//!
//! [`crate::fetches`] reads the segments.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use daemon::access::{Access, Audience, Routes};
use daemon::auth::{Authenticator, Signer};
use daemon::beans;
use daemon::params::logs::{LogRange, StreamKind};
use daemon::params::{self, Ear, Params};
use daemon::rpc;
use prometheus_client::registry::Registry;
use protocol::AttemptId;
use protocol::auth::Role;
use protocol::shuffle::{FetchRequest, ROUTE};
use tokio::sync::{mpsc, oneshot};
use transport::rpc::Health;

use crate::core::Attempts;
use crate::fetches::Fetches;
use crate::input::Input;
use crate::metrics;
use crate::outputs::Outputs;
use crate::scratch::OpenDir;
use crate::walls::Watch;

/// What the routes share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) watch: Watch,
    pub(crate) outputs: Outputs,
    pub(crate) logs: OpenDir,
    pub(crate) secret_file: PathBuf,
    pub(crate) slot_count: u32,
    /// A description of the confinement of tasks here.
    pub(crate) isolation: String,
    /// Bytes of map outputs sent so far.
    pub(crate) served: Arc<AtomicU64>,
}

impl Shared {
    /// The attempts here; `None` while the worker stops.
    pub(crate) async fn attempts(&self) -> Option<Attempts> {
        let (reply, answer) = oneshot::channel();
        // A loop that has ended drops the request.
        let _ = self.inputs.send(Input::Figures(reply)).await;
        answer.await.ok()
    }
}

/// All routes.
pub(crate) fn routes(shared: Shared, access: &Access, auth: Authenticator) -> Routes {
    let figures = {
        let shared = shared.clone();
        get(move || async move {
            match registry(&shared).await {
                Some(registry) => daemon::metrics::answer(&registry),
                None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            }
        })
    };
    let beans = {
        let (shared, since) = (shared.clone(), Instant::now());
        get(move |Params(wanted): Params<beans::Wanted>| async move {
            match registry(&shared).await {
                Some(figures) => {
                    beans::answer(beans::common("Worker", &figures, since.elapsed()), &wanted)
                }
                None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            }
        })
    };
    let (for_logs, for_health) = (shared.logs, shared.secret_file);
    let from = Fetches::new(shared.outputs, shared.served);
    let fetchers = &[Role::Client, Role::Worker, Role::Task];
    let fetches = rpc::signed_get(auth.clone(), fetchers, move |signer, request| {
        let answer = map_output(&from, &signer, &request);
        async move { answer }
    });
    // The JobTracker decides who may see a job.
    let log_reads = rpc::signed_get(auth, &[Role::Jobtracker], move |_, request: Request| {
        let logs = for_logs.clone();
        async move {
            match params::read(request.uri(), request.extensions()) {
                Ok(wanted) => attempt_logs(logs, request.uri().clone(), wanted).await,
                Err(error) => error.into_response(),
            }
        }
    });
    let (slot_count, isolation) = (shared.slot_count, shared.isolation);
    let health = get(move || {
        let (secret_file, isolation) = (for_health.clone(), isolation.clone());
        async move {
            axum::Json(Health {
                service: "worker".to_owned(),
                secret_file: Some(secret_file),
                ready: true,
                more: [
                    ("slot_count".to_owned(), slot_count.into()),
                    ("isolation".to_owned(), isolation.into()),
                ]
                .into(),
            })
        }
    });
    let (open, signers) = (Audience::Anybody, Audience::Signers);
    Routes::new(access)
        .route("/healthz", open, health)
        .route("/metrics", open, figures.clone())
        .route("/prom", open, figures)
        .route("/jmx", open, beans)
        .route(ROUTE, signers, fetches)
        .route("/logs/{attempt}", signers, log_reads)
}

/// The current figures; `None` while the worker stops.
async fn registry(shared: &Shared) -> Option<Registry> {
    let (attempts, served) = (shared.attempts().await?, shared.served.load(Ordering::Relaxed));
    Some(metrics::registry(shared.slot_count, &attempts, &shared.watch.seen(), served))
}

/// Answers with the segments that a fetch asks for.
fn map_output(fetches: &Fetches, signer: &Signer, request: &Request) -> Response {
    let query = request.uri().query().unwrap_or("");
    Ear::judged(request.extensions(), None);
    let fetch = match FetchRequest::parse_query(query) {
        Ok(fetch) => fetch,
        Err(reason) => return (StatusCode::BAD_REQUEST, reason).into_response(),
    };
    if let Signer::Task(name) = signer
        && name.job != fetch.job
    {
        let text = format!("a task of {} may not read map outputs of {}", name.job, fetch.job);
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    let mut response = Response::new(Body::from_stream(fetches.pieces(fetch)));
    let kind = header::HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Serves logs of an attempt as text.
async fn attempt_logs(root: OpenDir, uri: Uri, LogRange { stream, tail }: LogRange) -> Response {
    let name = uri.path().rsplit('/').next().unwrap_or("");
    let Ok(attempt) = name.parse::<AttemptId>() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let wanted = stream.map_or(StreamKind::ALL.to_vec(), |one| vec![one]);
    let tail = tail.unwrap_or(u64::MAX);
    let alone = wanted.len() == 1;
    let read = tokio::task::spawn_blocking(move || {
        let directory = root.dir.dir(attempt.to_string())?;
        let mut text = Vec::new();
        for kind in wanted {
            if !alone {
                text.extend_from_slice(format!("==> {} <==\n", kind.name()).as_bytes());
            }
            let mut file = directory.file(kind.name())?;
            let length = file.metadata()?.len();
            if tail < length {
                file.seek(SeekFrom::Start(length - tail))?;
            }
            file.take(tail).read_to_end(&mut text)?;
            if !alone && text.last() != Some(&b'\n') {
                text.push(b'\n');
            }
        }
        Ok::<_, io::Error>(text)
    });
    match read.await {
        Ok(Ok(text)) => {
            ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            (StatusCode::NOT_FOUND, "no logs of this attempt are kept here").into_response()
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use daemon::Shutdown;
    use daemon::access::Auth;
    use daemon::inspect;
    use protocol::auth::{Key, Service};

    use super::*;
    use crate::config::Config;
    use crate::walls::Confinement;

    #[tokio::test]
    async fn the_documentation_lists_every_route_with_whose_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let place = OpenDir::open(directory.path()).unwrap();
        let shared = Shared {
            inputs: mpsc::channel(1).0,
            watch: Watch::new(Confinement::of(&Config::default())),
            outputs: Outputs::new(place.clone()),
            logs: place,
            secret_file: PathBuf::new(),
            slot_count: 1,
            isolation: String::new(),
            served: Arc::default(),
        };
        let auth = Authenticator::new(&Key::new([1; 32]), Service::Worker);
        let access = Access::new(auth.clone(), None, Auth::Token);
        let page =
            crate::page::of((&Config::default(), &shared), Default::default(), Shutdown::new());
        let all = routes(shared, &access, auth)
            .merge(page.routes(&access))
            .merge(inspect::routes(&access, Vec::new()));
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/routes.md");
        let page = std::fs::read_to_string(page).unwrap();
        let table = format!("## Workers\n\n{}", all.table());
        assert!(page.contains(&table), "docs/routes.md does not say:\n{table}");
    }
}

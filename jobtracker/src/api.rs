//! What scripts and monitors read without a signature: `/api/v1` in our own shapes, Hadoop's APIs of jobs that are over (`history`) and that run (`master`), and `/metrics`. Like the
//! pages, under this machine's own names. What changes something is in `changes`, for who is signed in at the pages.

mod changes;
mod history;
mod master;
mod metrics;
mod stream;
mod xml;

use std::io;

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response, Result};
use axum::routing::get;
use axum::{Json, Router};
use daemon::beans;
use protocol::jobs::{Call, Reply, Request};
use protocol::{CallId, ClientId, JobId};

use crate::history_events::write_lines;
use crate::http::{Refused, Shared, named};

/// What `/api/v1` is, for programs.
const OPENAPI: &str = include_str!("api/openapi.json");

/// All routes.
pub(crate) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/api/v1/jobs", get(jobs))
        .route("/api/v1/openapi.json", get(openapi))
        .route("/api/v1/jobs/{id}", get(job))
        .route("/api/v1/jobs/{id}/tasks", get(tasks))
        .route("/api/v1/jobs/{id}/history", get(job_history))
        .route("/api/v1/workers", get(workers))
        .route("/api/v1/queues", get(queues))
        .merge(changes::routes())
        .route("/metrics", get(metrics))
        .route("/prom", get(metrics))
        .route("/jmx", get(jmx))
        .merge(history::routes().merge(master::routes()).layer(from_fn(xml::negotiate)))
        .with_state(shared)
}

/// Asks what clients may ask, in nobody's name: reads need none.
async fn read(shared: &Shared, body: Call) -> Result<Reply, Refused> {
    let request = Request {
        version: protocol::jobs::VERSION,
        call: CallId { client: ClientId::default(), number: 0 },
        user: String::new(),
        body,
    };
    shared.client(request).await.map_err(Refused)
}

async fn jobs(State(shared): State<Shared>) -> Result<Response> {
    Ok(Json(&shared.overview().await?.jobs).into_response())
}

async fn job(State(shared): State<Shared>, Path(id): Path<String>) -> Result<Response> {
    match read(&shared, Call::Status(named(&id)?)).await? {
        Reply::Job(report) => Ok(Json(report).into_response()),
        _ => Err(StatusCode::INTERNAL_SERVER_ERROR.into()),
    }
}

async fn tasks(State(shared): State<Shared>, Path(id): Path<String>) -> Result<Response> {
    match read(&shared, Call::Tasks(named(&id)?)).await? {
        Reply::Tasks(tasks) => Ok(Json(tasks).into_response()),
        _ => Err(StatusCode::INTERNAL_SERVER_ERROR.into()),
    }
}

/// Events of a job, one JSON object a line: from its file if it is over, else what has happened so far.
async fn job_history(State(shared): State<Shared>, Path(id): Path<String>) -> Result<Response> {
    let id: JobId = named(&id)?;
    let history = shared.history.clone();
    let kept = tokio::task::spawn_blocking(move || history.file(id)).await;
    let body = match kept {
        Ok(Ok(Some(mut file))) => stream::body(move |out| io::copy(&mut file, out).map(drop)),
        Ok(Ok(None)) => {
            let picture = shared.picture(id).await?;
            stream::body(move |out| write_lines(&picture, out))
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "cannot tell the history of a job");
            return Ok((StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response());
        }
        Err(_) => return Err(StatusCode::INTERNAL_SERVER_ERROR.into()),
    };
    Ok(([(header::CONTENT_TYPE, "application/jsonl; charset=utf-8")], body).into_response())
}

async fn workers(State(shared): State<Shared>) -> Result<Response> {
    Ok(Json(&shared.overview().await?.workers).into_response())
}

async fn queues(State(shared): State<Shared>) -> Result<Response> {
    Ok(Json(&shared.overview().await?.queues).into_response())
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn metrics(State(shared): State<Shared>) -> Result<Response> {
    Ok(daemon::metrics::answer(&metrics::registry(&*shared.overview().await?)))
}

async fn jmx(
    State(shared): State<Shared>,
    Query(wanted): Query<beans::Wanted>,
) -> Result<Response> {
    let figures = metrics::registry(&*shared.overview().await?);
    let all = beans::common("JobTracker", &figures, shared.since.elapsed());
    Ok(beans::answer(all, &wanted))
}

//! What scripts and monitors read without a signature: `/api/v1` in our own shapes, Hadoop's history API (`history`), and `/metrics`. Like the
//! pages, under this machine's own names. What changes something is in `changes`, for who is signed in at the pages.

mod changes;
mod history;
mod metrics;
mod stream;

use std::io;

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use daemon::beans;
use daemon::hosts::Hosts;
use protocol::jobs::{Call, Reply, Request};
use protocol::{CallId, ClientId, JobId, RemoteError};
use serde::Deserialize;

use crate::history_events::write_lines;
use crate::http::{Shared, refused};
use crate::server::Event;

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
        .merge(history::routes())
        .layer(from_fn_with_state(shared.hosts.clone(), Hosts::guard))
        .with_state(shared)
}

/// Asks what clients may ask, in nobody's name: reads need none.
async fn read(shared: &Shared, body: Call) -> Result<Reply, RemoteError> {
    let request = Request {
        version: protocol::jobs::VERSION,
        call: CallId { client: ClientId::default(), number: 0 },
        user: String::new(),
        body,
    };
    shared.ask(|reply| Event::Client(request, reply)).await.and_then(|answer| answer)
}

async fn jobs(State(shared): State<Shared>) -> Response {
    match shared.ask(Event::Overview).await {
        Ok(overview) => Json(overview.jobs).into_response(),
        Err(error) => refused(&error),
    }
}

async fn job(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    let Ok(id) = id.parse::<JobId>() else { return StatusCode::NOT_FOUND.into_response() };
    match read(&shared, Call::Status(id)).await {
        Ok(Reply::Job(report)) => Json(report).into_response(),
        Ok(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Err(error) => refused(&error),
    }
}

async fn tasks(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    let Ok(id) = id.parse::<JobId>() else { return StatusCode::NOT_FOUND.into_response() };
    match read(&shared, Call::Tasks(id)).await {
        Ok(Reply::Tasks(tasks)) => Json(tasks).into_response(),
        Ok(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Err(error) => refused(&error),
    }
}

/// Events of a job, one JSON object a line: from its file if it is over, else what has happened so far.
async fn job_history(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    let Ok(id) = id.parse::<JobId>() else { return StatusCode::NOT_FOUND.into_response() };
    let history = shared.history.clone();
    let kept = tokio::task::spawn_blocking(move || history.file(id)).await;
    let body = match kept {
        Ok(Ok(Some(mut file))) => stream::body(move |out| io::copy(&mut file, out).map(drop)),
        Ok(Ok(None)) => {
            match shared.ask(|reply| Event::Picture(id, reply)).await.and_then(|found| found) {
                Ok(picture) => stream::body(move |out| write_lines(&picture, out)),
                Err(error) => return refused(&error),
            }
        }
        _ => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    ([(header::CONTENT_TYPE, "application/jsonl; charset=utf-8")], body).into_response()
}

async fn workers(State(shared): State<Shared>) -> Response {
    match shared.ask(Event::Overview).await {
        Ok(overview) => Json(overview.workers).into_response(),
        Err(error) => refused(&error),
    }
}

async fn queues(State(shared): State<Shared>) -> Response {
    match shared.ask(Event::Overview).await {
        Ok(overview) => Json(overview.queues).into_response(),
        Err(error) => refused(&error),
    }
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn metrics(State(shared): State<Shared>) -> Response {
    match shared.ask(Event::Overview).await {
        Ok(overview) => daemon::metrics::answer(&metrics::registry(&overview)),
        Err(error) => refused(&error),
    }
}

#[derive(Deserialize)]
struct Wanted {
    /// Name of a bean; a star at its end stands for any rest.
    qry: Option<String>,
}

async fn jmx(State(shared): State<Shared>, Query(wanted): Query<Wanted>) -> Response {
    match shared.ask(Event::Overview).await {
        Ok(overview) => {
            let figures = beans::registry("JobTracker", &metrics::registry(&overview));
            let all = beans::process(shared.since.elapsed()).into_iter().chain([figures]);
            Json(beans::answer(all, wanted.qry.as_deref())).into_response()
        }
        Err(error) => refused(&error),
    }
}

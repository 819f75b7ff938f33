//! Routes for scripts and monitors: for users, `/api/v1` in our own shapes, and Hadoop's APIs of finished jobs (`history`) and running jobs
//! (`master`); for anybody, `/metrics`. `changes` has the routes that change something, for users signed in to the pages.

mod changes;
mod history;
mod master;
mod metrics;
mod stream;
pub(crate) mod xml;

use std::io;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response, Result};
use axum::routing::get;
use daemon::access::{Access, Audience, Routes};
use daemon::beans;
use daemon::params::Params;
use prometheus_client::registry::Registry;
use protocol::JobId;
use protocol::jobs::calls;

use super::desk::Desk;
use super::logs;
use super::shared::{Refused, Shared, named};
use crate::history_events::write_lines;

/// The description of `/api/v1`, for programs.
const OPENAPI: &str = include_str!("api/openapi.json");

/// All routes.
pub(crate) fn routes(access: &Access) -> Routes<Shared> {
    let (open, users) = (Audience::Anybody, Audience::Users);
    let hadoops = history::routes(access).merge(master::routes(access));
    Routes::new(access)
        .route("/api/v1/jobs", users, get(jobs))
        .route("/api/v1/openapi.json", open, get(openapi))
        .route("/api/v1/jobs/{id}", users, get(job))
        .route("/api/v1/jobs/{id}/tasks", users, get(tasks))
        .route("/api/v1/jobs/{id}/history", users, get(job_history))
        .route("/api/v1/jobs/{id}/attempts/{attempt}/log", users, get(logs::route))
        .route("/api/v1/workers", open, get(workers))
        .route("/api/v1/queues", users, get(queues))
        .merge(changes::routes(access))
        .route("/metrics", open, get(metrics))
        .route("/prom", open, get(metrics))
        .route("/jmx", open, get(jmx))
        .merge(hadoops.map(|routes| routes.layer(from_fn(xml::negotiate))))
}

async fn jobs(desk: Desk) -> Result<Response> {
    Ok(Json(&desk.overview().await?.jobs.seen_by(desk.viewer())).into_response())
}

async fn job(desk: Desk, Path(id): Path<String>) -> Result<Response> {
    Ok(Json(desk.ask(calls::Status { job: named(&id)? }).await?).into_response())
}

async fn tasks(desk: Desk, Path(id): Path<String>) -> Result<Response> {
    let tasks = desk.ask(calls::Tasks { job: named(&id)? }).await?;
    let body = stream::body(move |out| Ok(serde_json::to_writer(out, &tasks)?));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Events of a job, one JSON object a line: from its file if it is over, else all events so far.
async fn job_history(desk: Desk, Path(id): Path<String>) -> Result<Response> {
    let id: JobId = named(&id)?;
    let history = desk.history.clone();
    let body = match blocking(move || history.file(id)).await? {
        Some(kept) => {
            desk.check_kept(id, kept.whose()).await?;
            let mut file = blocking(move || kept.checked()).await?;
            stream::body(move |out| io::copy(&mut file, out).map(drop))
        }
        None => {
            let picture = desk.picture(id).await?;
            stream::body(move |out| write_lines(&picture, out))
        }
    };
    Ok(([(header::CONTENT_TYPE, "application/jsonl; charset=utf-8")], body).into_response())
}

/// Reads a history on a thread that is allowed to wait for the disk.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => {
            tracing::error!(%error, "cannot tell the history of a job");
            Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into())
        }
        Err(_) => Err(StatusCode::INTERNAL_SERVER_ERROR.into()),
    }
}

async fn workers(State(shared): State<Shared>) -> Result<Response> {
    let workers = shared.host.view(|core, now| core.worker_reports(now)).await.map_err(Refused)?;
    Ok(Json(&workers).into_response())
}

async fn queues(desk: Desk) -> Result<Response> {
    let queues = desk.host.view(|core, _| core.queue_reports()).await.map_err(Refused)?;
    Ok(Json(&queues).into_response())
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn metrics(State(shared): State<Shared>) -> Result<Response> {
    Ok(daemon::metrics::answer(&figures(&shared).await?))
}

async fn figures(shared: &Shared) -> Result<Registry> {
    Ok(metrics::registry(&*shared.overview().await?, transport::rpc::now_ms()))
}

async fn jmx(
    State(shared): State<Shared>,
    Params(wanted): Params<beans::Wanted>,
) -> Result<Response> {
    let figures = figures(&shared).await?;
    let all = beans::common("JobTracker", &figures, shared.since.elapsed());
    Ok(beans::answer(all, &wanted))
}

//! Routes of the pages: what is asked for in the address, one question to the loop, one page.
//!
//! Invariant: nothing here changes anything.

use std::convert::Infallible;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderName};
use axum::middleware::from_fn_with_state;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use client::rpc::{RpcClient, now_ms};
use daemon::hosts::Hosts;
use daemon::page::{self, Frame, Site};
use futures_util::stream;
use maud::Markup;
use protocol::auth::Role;
use protocol::{AttemptId, JobId};

use crate::core::picture::Picture;
use crate::http::{Shared, refused};
use crate::server::{Event, Overview};
use crate::web;

/// How often an open overview is compared with what it shows.
const OVERVIEW_PERIOD: Duration = Duration::from_millis(500);
/// Bytes shown of the end of each of an attempt's two streams.
const LOG_TAIL_BYTES: usize = 64 << 10;
/// A worker that does not give a log within this time is not waited for.
const LOG_TIMEOUT: Duration = Duration::from_secs(5);

/// All pages.
pub(crate) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/", get(overview))
        .route("/live", get(overview_changes))
        .route("/jobs", get(jobs))
        .route("/jobs/{id}", get(job))
        .route("/jobs/{id}/live", get(job_changes))
        .route("/jobs/{id}/report.html", get(report))
        .route("/jobs/{id}/trace.json", get(trace))
        .route("/jobs/{id}/attempts", get(attempts))
        .route("/jobs/{id}/attempts/{attempt}", get(attempt))
        .route("/workers", get(workers))
        .merge(page::assets())
        .layer(from_fn_with_state(shared.hosts.clone(), Hosts::guard))
        .with_state(shared)
}

const SITE: Site = Site {
    name: "Hanno JobTracker",
    entries: &[("/", "Overview"), ("/jobs", "Jobs"), ("/workers", "Workers")],
};

fn frame(
    shared: &Shared,
    title: &str,
    place: &str,
    live: Option<String>,
    content: &Markup,
) -> Response {
    let other = Some((&*shared.namenode, "File system"));
    Frame { site: SITE, title, place, live, other }.answer(content)
}

async fn overview(State(shared): State<Shared>) -> Response {
    match shared.ask(Event::Overview).await {
        Ok(overview) => {
            let content = web::overview::page(&overview, now_ms());
            frame(&shared, "Overview", "/", Some("/live".to_owned()), &content)
        }
        Err(error) => refused(&error),
    }
}

async fn jobs(State(shared): State<Shared>, Query(query): Query<web::jobs::Query>) -> Response {
    match shared.ask(Event::Overview).await {
        Ok(overview) => {
            let content = web::jobs::page(&overview.jobs, &query, now_ms());
            frame(&shared, "Jobs", "/jobs", Some("/live".to_owned()), &content)
        }
        Err(error) => refused(&error),
    }
}

async fn workers(State(shared): State<Shared>) -> Response {
    match shared.ask(Event::Overview).await {
        Ok(overview) => {
            let content = web::workers::page(&overview.workers);
            frame(&shared, "Workers", "/workers", Some("/live".to_owned()), &content)
        }
        Err(error) => refused(&error),
    }
}

/// What an address names and does not exist.
fn missing() -> Response {
    StatusCode::NOT_FOUND.into_response()
}

async fn picture(shared: &Shared, id: &str) -> Result<(JobId, Box<Picture>), Response> {
    let id: JobId = id.parse().map_err(|_| missing())?;
    let picture = shared.ask(|reply| Event::Picture(id, reply)).await.and_then(|picture| picture);
    Ok((id, picture.map_err(|error| refused(&error))?))
}

/// `Content-Disposition` of a file to keep.
fn kept(name: &str) -> [(HeaderName, String); 1] {
    [(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))]
}

/// A job's page as one file.
async fn report(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let (id, picture) = picture(&shared, &id).await?;
    let content = web::job::page(&picture, now_ms());
    let file = page::alone(&picture.report.name, &content);
    Ok((kept(&format!("{id}.html")), file).into_response())
}

/// A job's timeline for trace viewers.
async fn trace(State(shared): State<Shared>, Path(id): Path<String>) -> Result<Response, Response> {
    let (id, picture) = picture(&shared, &id).await?;
    let trace = web::trace::trace(&picture, now_ms());
    Ok((kept(&format!("{id}.trace.json")), Json(trace)).into_response())
}

async fn job(State(shared): State<Shared>, Path(id): Path<String>) -> Result<Response, Response> {
    let (id, picture) = picture(&shared, &id).await?;
    let live = (!picture.report.state.is_final()).then(|| format!("/jobs/{id}/live"));
    let content = web::job::page(&picture, now_ms());
    Ok(frame(&shared, &picture.report.name, "/jobs", live, &content))
}

async fn attempts(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<web::attempts::Query>,
) -> Result<Response, Response> {
    let (id, picture) = picture(&shared, &id).await?;
    let live = (!picture.report.state.is_final()).then(|| format!("/jobs/{id}/live"));
    let content = web::attempts::table(&picture, &query, now_ms());
    Ok(frame(&shared, &format!("Attempts of {}", picture.report.name), "/jobs", live, &content))
}

async fn attempt(
    State(shared): State<Shared>,
    Path((job, attempt)): Path<(String, String)>,
) -> Result<Response, Response> {
    let job: JobId = job.parse().map_err(|_| missing())?;
    let id: AttemptId = attempt.parse().map_err(|_| missing())?;
    if id.task.job != job {
        return Err(missing());
    }
    let picture = shared.ask(|reply| Event::Attempt(id, reply)).await.and_then(|picture| picture);
    let picture = picture.map_err(|error| refused(&error))?;
    let log = read_log(&shared, &picture.worker.http_address, id).await;
    let live = picture.row.state.is_live().then(|| format!("/jobs/{job}/live"));
    let content = web::attempts::one(&job.to_string(), &id.to_string(), &picture, &log, now_ms());
    Ok(frame(&shared, &id.to_string(), "/jobs", live, &content))
}

/// The end of an attempt's log, from the worker that keeps it.
async fn read_log(shared: &Shared, worker: &str, id: AttemptId) -> web::attempts::Log {
    use web::attempts::Log;
    let missing = |reason: &dyn std::fmt::Display| {
        Log::Missing(format!("The log cannot be had from the worker: {reason}"))
    };
    let client =
        match RpcClient::new(&format!("http://{worker}"), Role::Jobtracker, Some(&shared.secret)) {
            Ok(client) => client,
            Err(error) => return missing(&error),
        };
    let target = format!("/logs/{id}?tail={LOG_TAIL_BYTES}");
    let read = async { client.get(&target).await.map(|response| response.text()) };
    match tokio::time::timeout(LOG_TIMEOUT, async {
        Ok::<_, client::error::RpcError>(read.await?.await)
    })
    .await
    {
        Ok(Ok(Ok(text))) => Log::Text(text),
        Ok(Ok(Err(error))) => missing(&error),
        Ok(Err(error)) => missing(&error),
        Err(_) => missing(&"it does not answer in time"),
    }
}

/// `change` whenever a job looks different, `end` when it is final.
async fn job_changes(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let id: JobId = id.parse().map_err(|_| missing())?;
    let watched = shared.ask(|reply| Event::Watch(id, reply)).await.and_then(|watched| watched);
    let watched = watched.map_err(|error| refused(&error))?;
    let changes = stream::unfold(Some(watched), |watched| async move {
        let mut watched = watched?;
        watched.changed().await.ok()?;
        let is_final = watched.borrow_and_update().state.is_final();
        let name = if is_final { "end" } else { "change" };
        Some((
            Ok::<_, Infallible>(Sent::default().event(name).data("")),
            (!is_final).then_some(watched),
        ))
    });
    Ok(Sse::new(changes).keep_alive(KeepAlive::default()).into_response())
}

/// `change` whenever the overview looks different.
async fn overview_changes(State(shared): State<Shared>) -> Response {
    let changes = stream::unfold((shared, None), |(shared, mut shown)| async move {
        loop {
            let overview = shared.ask(Event::Overview).await.ok()?;
            let looks = Some(looks(&overview));
            let is_first = shown.is_none();
            if looks != shown && !is_first {
                let sent = Ok::<_, Infallible>(Sent::default().event("change").data(""));
                return Some((sent, (shared, looks)));
            }
            shown = looks;
            tokio::time::sleep(OVERVIEW_PERIOD).await;
        }
    });
    Sse::new(changes).keep_alive(KeepAlive::default()).into_response()
}

/// A number that differs when the overview would look different; times that only pass do not count.
fn looks(overview: &Overview) -> u64 {
    let jobs = overview.jobs.iter().map(|job| {
        let shares = [job.map_progress, job.reduce_progress].map(|share| (share * 100.0) as u8);
        (job.id.as_str(), job.state.is_final(), shares, job.maps.running, job.reduces.running)
    });
    let workers = overview.workers.iter().map(|worker| {
        (worker.http_address.as_str(), worker.running_count, worker.slot_count, worker.suspect)
    });
    let all = (jobs.collect::<Vec<_>>(), workers.collect::<Vec<_>>());
    BuildHasherDefault::<DefaultHasher>::new().hash_one(all)
}

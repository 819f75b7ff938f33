//! Routes of the pages: parse the address, ask the host one question, draw one page.
//!
//! Invariant: nothing here changes anything; buttons send their requests to [`super::api`].

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, OptionalFromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderName};
use axum::http::request::Parts;
use axum::response::sse::{Event as Sent, Sse};
use axum::response::{IntoResponse, Response, Result};
use axum::routing::get;
use daemon::access::{Access, Audience, Routes, SIMPLE_WARNING, User};
use daemon::page::{self, Frame, Search, Site, live};
use daemon::params::Params;
use daemon::params::logs::LogRange;
use daemon::session::Sessions;
use futures_util::stream;
use maud::Markup;
use protocol::{AttemptId, JobId, TaskId};
use transport::rpc::now_ms;

use super::desk::Desk;
use super::logs;
use super::shared::{Shared, named};
use crate::core::views::Picture;
use crate::server::query::Overview;
use crate::web;

/// Bytes displayed from the end of each of an attempt's two streams.
const LOG_TAIL_BYTES: u64 = 64 << 10;
/// If a worker does not send a log within this time, the page is drawn without it.
const LOG_TIMEOUT: Duration = Duration::from_secs(5);

/// All pages.
pub(crate) fn routes(access: &Access, sessions: &Sessions) -> Routes<Shared> {
    let (open, users) = (Audience::Anybody, Audience::Users);
    Routes::new(access)
        .route("/", open, get(overview))
        .route("/live", open, get(changes))
        .route("/live/overview", open, get(overview_changes))
        .route("/jobs", users, get(jobs))
        .route("/jobs/{id}", users, get(job))
        .route("/jobs/{id}/live", users, get(job_changes))
        .route("/jobs/{id}/report.html", users, get(report))
        .route("/jobs/{id}/trace.json", users, get(trace))
        .route("/jobs/{id}/attempts", users, get(attempts))
        .route("/jobs/{id}/attempts/{attempt}", users, get(attempt))
        .route("/jobs/{id}/tasks/{task}", users, get(task))
        .route("/compare", users, get(compare))
        .route("/queues", users, get(queues))
        .route("/workers", open, get(workers))
        .route("/workers/{address}", users, get(worker))
        .route("/about", users, get(about))
        .merge(page::assets(access))
        .merge(sessions.routes(access))
}

const SITE: Site = Site {
    name: "Hanno JobTracker",
    entries: &[
        ("/", "Overview"),
        ("/jobs", "Jobs"),
        ("/queues", "Queues"),
        ("/workers", "Workers"),
        ("/about", "About"),
    ],
    search: Some(Search { path: "/jobs", parameter: "q", hint: "job, user, queue" }),
    has_login: true,
};

/// Draws pages for one viewer.
struct Drawing {
    namenode: Arc<str>,
    /// The signed-in user.
    user: Option<String>,
    /// The change for which an open page is drawn again.
    change: Option<u64>,
}

impl FromRequestParts<Shared> for Drawing {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Infallible> {
        let user = shared.sessions.user(&parts.headers);
        let change = live::seen(&parts.headers);
        Ok(Drawing { namenode: Arc::clone(&shared.namenode), user, change })
    }
}

impl Drawing {
    /// True if changes are offered.
    fn may_act(&self) -> bool {
        self.user.is_some()
    }

    fn frame(&self, title: &str, place: &str, live: Option<String>, content: &Markup) -> Response {
        let other = Some((&*self.namenode, "File system"));
        let user = self.user.as_deref();
        Frame { site: SITE, title, place, live, other, user }.answer(content)
    }

    /// A page that displays part of the overview, and is drawn again when that changes.
    async fn follow(
        &self,
        shared: &Shared,
        title: &str,
        place: &str,
        draw: impl FnOnce(&Overview) -> Markup,
    ) -> Result<Response> {
        let content = draw(&*shared.overview_since(self.change).await?);
        let changes = if place == "/" { "/live/overview" } else { "/live" };
        Ok(self.frame(title, place, Some(changes.to_owned()), &content))
    }
}

async fn overview(
    State(shared): State<Shared>,
    user: Option<SignedIn>,
    viewer: Drawing,
) -> Result<Response> {
    let viewing = match user {
        Some(SignedIn(user)) => Some(Desk::open(&shared, user).await),
        None => None,
    };
    let draw = |seen: &Overview| {
        let jobs = viewing.as_ref().map(|desk| seen.jobs.seen_by(desk.viewer()));
        let warning = shared.believes_names.then_some(SIMPLE_WARNING);
        let overview = web::overview::page(seen, (jobs.as_deref(), warning), now_ms());
        maud::html! { (overview) (shared.hour.draw()) }
    };
    viewer.follow(&shared, "Overview", "/", draw).await
}

/// The signed-in user, on a page that is open to all.
struct SignedIn(User);

impl OptionalFromRequestParts<Shared> for SignedIn {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        shared: &Shared,
    ) -> Result<Option<Self>, Infallible> {
        let name = shared.sessions.user(&parts.headers);
        Ok(name.map(|name| SignedIn(User { name, address: None, is_signed: false })))
    }
}

async fn jobs(
    desk: Desk,
    Params(query): Params<web::jobs::Query>,
    viewer: Drawing,
) -> Result<Response> {
    let draw =
        |seen: &Overview| web::jobs::page(&seen.jobs.seen_by(desk.viewer()), &query, now_ms());
    viewer.follow(&desk, "Jobs", "/jobs", draw).await
}

async fn queues(desk: Desk, viewer: Drawing) -> Result<Response> {
    let draw =
        |seen: &Overview| web::queues::page(seen, &seen.jobs.seen_by(desk.viewer()), now_ms());
    viewer.follow(&desk, "Queues", "/queues", draw).await
}

async fn workers(State(shared): State<Shared>, viewer: Drawing) -> Result<Response> {
    viewer.follow(&shared, "Workers", "/workers", |seen| web::workers::page(&seen.workers)).await
}

/// One worker, drawn again when the overview changes.
async fn worker(desk: Desk, Path(address): Path<String>, viewer: Drawing) -> Result<Response> {
    let picture = desk
        .worker(&address)
        .await?
        .ok_or((StatusCode::NOT_FOUND, "There is no such worker now.\n"))?;
    let content = web::workers::one(&picture, now_ms());
    Ok(viewer.frame(&picture.row.report.host, "/workers", Some("/live".to_owned()), &content))
}

/// What this daemon is and its configuration.
async fn about(State(shared): State<Shared>, viewer: Drawing) -> Result<Response> {
    let overview = shared.overview().await?;
    let facts = [
        ("Started (UTC)", page::format::time(overview.started_ms)),
        ("Start number", overview.epoch.to_string()),
    ];
    let content = page::about::draw(&facts, &shared.settings);
    Ok(viewer.frame("About", "/about", None, &content))
}

/// Two runs side by side.
async fn compare(
    desk: Desk,
    Params(query): Params<web::compare::Query>,
    viewer: Drawing,
) -> Result<Response> {
    let (_, a) = picture(&desk, &query.a).await?;
    let (_, b) = picture(&desk, &query.b).await?;
    let content = web::compare::page(&a, &b, now_ms());
    Ok(viewer.frame("Comparison", "/jobs", None, &content))
}

async fn picture(desk: &Desk, id: &str) -> Result<(JobId, Arc<Picture>)> {
    let id: JobId = named(id)?;
    Ok((id, desk.picture(id).await?))
}

/// Where a page of an unfinished job receives changes.
fn events_of(id: JobId, picture: &Picture) -> Option<String> {
    (!picture.report.state.is_final()).then(|| format!("/jobs/{id}/live"))
}

/// `Content-Disposition` of a file to save.
fn kept(name: &str) -> [(HeaderName, String); 1] {
    [(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))]
}

/// A job's page as one file.
async fn report(desk: Desk, Path(id): Path<String>) -> Result<Response> {
    let (id, picture) = picture(&desk, &id).await?;
    let content = web::job::page(&picture, &[], false, now_ms());
    let file = page::alone(&picture.report.name, &content);
    Ok((kept(&format!("{id}.html")), file).into_response())
}

/// A job's timeline for trace viewers.
async fn trace(desk: Desk, Path(id): Path<String>) -> Result<Response> {
    let (id, picture) = picture(&desk, &id).await?;
    let trace = web::trace::trace(&picture, now_ms());
    Ok((kept(&format!("{id}.trace.json")), Json(trace)).into_response())
}

async fn job(desk: Desk, Path(id): Path<String>, viewer: Drawing) -> Result<Response> {
    let (id, picture) = picture(&desk, &id).await?;
    let caller = desk.viewer().caller();
    let runs = desk.find(id, |core| core.other_runs(&caller, id, web::compare::RUNS_MAX)).await?;
    let live = events_of(id, &picture);
    let content = web::job::page(&picture, &runs, viewer.may_act(), now_ms());
    Ok(viewer.frame(&picture.report.name, "/jobs", live, &content))
}

async fn attempts(
    desk: Desk,
    Path(id): Path<String>,
    Params(query): Params<web::attempts::Query>,
    viewer: Drawing,
) -> Result<Response> {
    let (id, picture) = picture(&desk, &id).await?;
    let live = events_of(id, &picture);
    let content = web::attempts::table(&picture, &query, now_ms());
    Ok(viewer.frame(&format!("Attempts of {}", picture.report.name), "/jobs", live, &content))
}

async fn attempt(
    desk: Desk,
    Path((job, attempt)): Path<(String, String)>,
    viewer: Drawing,
) -> Result<Response> {
    let (job, id): (JobId, AttemptId) = (named(&job)?, named(&attempt)?);
    if id.task.job != job {
        return Err(StatusCode::NOT_FOUND.into());
    }
    let picture = desk.find(job, |core| core.attempt_picture(id)).await?;
    let log = read_log(&desk, &picture.worker.http_address, id).await;
    let live = picture.row.state.is_live().then(|| format!("/jobs/{job}/live"));
    let content = web::attempts::one(id, &picture, &log, viewer.may_act(), now_ms());
    Ok(viewer.frame(&id.to_string(), "/jobs", live, &content))
}

async fn task(
    desk: Desk,
    Path((job, task)): Path<(String, String)>,
    viewer: Drawing,
) -> Result<Response> {
    let (job, picture) = picture(&desk, &job).await?;
    let id: TaskId = named(&task)?;
    if id.job != job || id.index >= picture.task_count(id.kind) {
        return Err(StatusCode::NOT_FOUND.into());
    }
    let live = events_of(job, &picture);
    let content = web::task::page(&picture, id, viewer.may_act(), now_ms());
    Ok(viewer.frame(&id.to_string(), "/jobs", live, &content))
}

/// The end of an attempt's log, from the worker that keeps it.
async fn read_log(shared: &Shared, worker: &str, id: AttemptId) -> web::attempts::Log {
    use web::attempts::Log;
    let missing = |reason: &dyn std::fmt::Display| {
        Log::Missing(format!("The log cannot be had from the worker: {reason}"))
    };
    let wanted = LogRange { stream: None, tail: Some(LOG_TAIL_BYTES) };
    let read = async {
        let response =
            logs::ask(shared, worker, id, wanted).await.map_err(|error| error.to_string())?;
        response.text().await.map_err(|error| error.to_string())
    };
    match tokio::time::timeout(LOG_TIMEOUT, read).await {
        Ok(Ok(text)) => Log::Text(text),
        Ok(Err(error)) => missing(&error),
        Err(_) => missing(&"it does not answer in time"),
    }
}

/// `change` whenever what a job's page displays changes, `end` when the job is final.
async fn job_changes(desk: Desk, Path(id): Path<String>) -> Result<Response> {
    let id: JobId = named(&id)?;
    let watched = desk.watch(id).await?;
    let changes = stream::unfold(Some(watched), |watched| async move {
        let mut watched = watched?;
        watched.changed().await.ok()?;
        let is_final = watched.borrow_and_update().state.is_final();
        let name = if is_final { "end" } else { "change" };
        Some((
            Ok::<_, Infallible>(Sent::default().event(name).data(live::AS_OF_NOW)),
            (!is_final).then_some(watched),
        ))
    });
    Ok(Sse::new(changes).keep_alive(live::beat()).into_response())
}

/// Sends an event when the overview changes.
async fn changes(State(shared): State<Shared>) -> Response {
    shared.board.changes()
}

/// The overview has charts besides.
async fn overview_changes(State(shared): State<Shared>) -> Response {
    shared.board.changes_beside(shared.hour.board())
}

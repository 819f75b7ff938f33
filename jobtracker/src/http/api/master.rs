//! Hadoop's API of a job's application master: `/ws/v1/mapreduce/…`, with its names and shapes, for tools that follow running jobs.
//!
//! Here one JobTracker is the master of all jobs, so the list has all running jobs. Below `/proxy/{application}`, where YARN has it, is the
//! one job of that application, with the same number. The parts of a job are the same as in the history ([`super::history`]). A finished
//! job still answers, so its followers see its end.

use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use daemon::access::{Access, Audience, Routes};
use protocol::jobs::{JobReport, calls};
use protocol::{AttemptId, JobId, TaskKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::changes::Acting;
use super::history::{
    self, Failure, OfAttempt, OfJob, known, parse_attempt, picture, state_name, successes,
    unknown_attempt,
};
use super::{changes, xml};
use crate::core::jobs::AttemptState;
use crate::core::views::Picture;
use crate::http::desk::Desk;
use crate::http::shared::Shared;

/// Prefix of the ids of applications; the rest is a job's.
const APPLICATION: &str = "application_";
/// Prefix of the ids of jobs.
const JOB: &str = "job_";

/// The state of an attempt, below the jobs.
const STATE: &str = "{job}/tasks/{task}/attempts/{attempt}/state";

/// All routes.
pub(super) fn routes(access: &Access) -> Routes<Shared> {
    let users = Audience::Users;
    let below = |base: &str| {
        let jobs = format!("{base}/ws/v1/mapreduce/jobs");
        Routes::new(access)
            .route(&format!("{jobs}/{{job}}"), users, get(job))
            .route(&format!("{jobs}/{STATE}"), users, get(state))
            .route(&format!("{jobs}/{STATE}"), Audience::Changers, put(set_state))
            .merge(history::parts(access, &jobs))
    };
    Routes::new(access)
        .route("/ws/v1/mapreduce", users, get(info))
        .route("/ws/v1/mapreduce/info", users, get(info))
        .route("/ws/v1/mapreduce/jobs", users, get(list))
        .merge(below(""))
        .route("/proxy/{application}/ws/v1/mapreduce", users, get(info_of_one))
        .route("/proxy/{application}/ws/v1/mapreduce/info", users, get(info_of_one))
        .route("/proxy/{application}/ws/v1/mapreduce/jobs", users, get(list_of_one))
        .merge(below("/proxy/{application}"))
}

/// The job of an application.
async fn report_of(desk: &Desk, application: &str) -> Result<JobReport, Failure> {
    let unknown = || Failure::Missing(format!("app, {application}, is not found"));
    let job = application.strip_prefix(APPLICATION).map(|rest| format!("{JOB}{rest}"));
    let job: JobId = job.and_then(|job| job.parse().ok()).ok_or_else(unknown)?;
    known(desk.ask(calls::Status { job }).await, unknown)
}

fn about(application: &str, (name, user): (&str, &str), started_ms: u64, end_ms: u64) -> Response {
    Json(json!({ "info": {
        "appId": application,
        "name": name,
        "user": user,
        "startedOn": started_ms,
        "elapsedTime": end_ms.saturating_sub(started_ms),
    } }))
    .into_response()
}

async fn info(desk: Desk) -> Result<Response, Failure> {
    let started_ms = desk.started_ms;
    let application = format!("{APPLICATION}{started_ms}_0000");
    let who = ("Hanno JobTracker", sys::host::user_name());
    Ok(about(&application, (who.0, &who.1), started_ms, transport::rpc::now_ms()))
}

async fn info_of_one(desk: Desk, Path(application): Path<String>) -> Result<Response, Failure> {
    let report = report_of(&desk, &application).await?;
    let who = (report.name.as_str(), report.user.as_str());
    Ok(about(&application, who, report.submitted_ms, end_ms(&report)))
}

/// When it ended, or now.
fn end_ms(report: &JobReport) -> u64 {
    if report.finished_ms == 0 { transport::rpc::now_ms() } else { report.finished_ms }
}

async fn list(desk: Desk) -> Result<Response, Failure> {
    let overview = desk.overview().await?;
    let seen = overview.jobs.seen_by(desk.viewer());
    let running = seen.iter().filter(|job| !job.state.is_final());
    let jobs: Vec<Value> = running.map(|job| summary(job)).collect();
    Ok(Json(json!({ "jobs": { "job": jobs } })).into_response())
}

async fn list_of_one(desk: Desk, Path(application): Path<String>) -> Result<Response, Failure> {
    let report = report_of(&desk, &application).await?;
    Ok(Json(json!({ "jobs": { "job": [summary(&report)] } })).into_response())
}

/// The properties of a job that need no scan of its attempts.
fn summary(job: &JobReport) -> Value {
    json!({
        "id": job.id,
        "name": job.name,
        "user": job.user,
        "queue": job.queue,
        "state": state_name(job.state),
        "startTime": job.submitted_ms,
        "finishTime": job.finished_ms,
        "elapsedTime": end_ms(job).saturating_sub(job.submitted_ms),
        "mapProgress": f64::from(job.map_progress) * 100.0,
        "reduceProgress": f64::from(job.reduce_progress) * 100.0,
        "mapsTotal": job.maps.total,
        "mapsPending": job.maps.pending,
        "mapsRunning": job.maps.running,
        "mapsCompleted": job.maps.completed,
        "reducesTotal": job.reduces.total,
        "reducesPending": job.reduces.pending,
        "reducesRunning": job.reduces.running,
        "reducesCompleted": job.reduces.completed,
        "uberized": false,
        "diagnostics": job.diagnostics,
    })
}

async fn job(desk: Desk, Path(OfJob { job: id }): Path<OfJob>) -> Result<Response, Failure> {
    let picture = picture(&desk, &id).await?;
    let (maps, reduces) = (&picture.report.maps, &picture.report.reduces);
    let mut object = summary(&picture.report);
    let more = json!({
        // An attempt is created when it gets its slot, so none is ever new.
        "newMapAttempts": 0,
        "runningMapAttempts": live(&picture, TaskKind::Map),
        "failedMapAttempts": maps.failed_attempts,
        "killedMapAttempts": maps.killed_attempts,
        "successfulMapAttempts": successes(&picture, TaskKind::Map),
        "newReduceAttempts": 0,
        "runningReduceAttempts": live(&picture, TaskKind::Reduce),
        "failedReduceAttempts": reduces.failed_attempts,
        "killedReduceAttempts": reduces.killed_attempts,
        "successfulReduceAttempts": successes(&picture, TaskKind::Reduce),
        "acls": history::acls(&picture),
    });
    history::merge(&mut object, more);
    Ok(Json(json!({ "job": object })).into_response())
}

fn live(picture: &Picture, kind: TaskKind) -> usize {
    picture.attempts.iter().filter(|row| row.kind == kind && row.state.is_live()).count()
}

/// The attempt in an address, and its state.
async fn named(desk: &Desk, of: &OfAttempt) -> Result<(AttemptId, AttemptState), Failure> {
    let OfAttempt { job, task, attempt } = of;
    let picture = picture(desk, job).await?;
    let id = parse_attempt(&picture, task, attempt).ok_or_else(|| unknown_attempt(attempt))?;
    let found = desk.find(picture.id, |core| core.attempt_picture(id)).await;
    let found = known(found, || unknown_attempt(attempt))?;
    Ok((id, found.row.state))
}

async fn state(desk: Desk, Path(of): Path<OfAttempt>) -> Result<Response, Failure> {
    let (_, state) = named(&desk, &of).await?;
    Ok(Json(json!({ "state": state.name() })).into_response())
}

/// The requested state of an attempt.
#[derive(Debug, Deserialize)]
struct Wanted {
    state: String,
}

/// Kills an attempt: the answer is "accepted" while it runs, "done" once it is killed.
async fn set_state(
    acting: Acting,
    Path(of): Path<OfAttempt>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let bad = |text: String| Failure::Not(StatusCode::BAD_REQUEST, text);
    let wanted: Wanted = xml::wanted(&headers, &body).map_err(bad)?;
    let killed = AttemptState::Killed.name();
    if wanted.state != killed {
        return Err(bad(format!("Only '{killed}' is allowed as a target state.")));
    }
    let (attempt, state) = named(&acting.0, &of).await?;
    if !state.is_live() {
        return match state {
            AttemptState::Killed => Ok(Json(json!({ "state": killed })).into_response()),
            _ => Err(bad(format!("{attempt} is over: {}", state.name()))),
        };
    }
    let asked = changes::act(&acting, calls::StopAttempt { attempt, fail: false }).await;
    asked.map_err(|changes::Refusal(status, text)| Failure::Not(status, text))?;
    Ok((StatusCode::ACCEPTED, Json(json!({ "state": state.name() }))).into_response())
}

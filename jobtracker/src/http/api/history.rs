//! Hadoop's history API, read side: `/ws/v1/history/…`, with its names and shapes, so that existing tools find their jobs here.
//!
//! Times are milliseconds since the epoch, progress is in per cent. Errors have the shape of a `RemoteException`.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use daemon::access::{Access, Audience, Routes};
use daemon::params::{BadParameter, Given, Parameters, Params, bad_value};
use protocol::jobs::{Counters, JobReport, JobState};
use protocol::property::{Key, keys};
use protocol::{AttemptId, ErrorKind, JobId, TaskId, TaskKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::xml;
use crate::core::jobs::AttemptState;
use crate::core::views::{AttemptRow, Picture};
use crate::http::desk::Desk;
use crate::http::shared::{Refused, Shared};

/// The states of jobs in Hadoop. Jobs here are never in some of them; tools may ask for those nevertheless.
const STATES: [&str; 7] = ["NEW", "INITED", "RUNNING", "SUCCEEDED", "FAILED", "KILLED", "ERROR"];
/// Version of the API from which these shapes are taken; tools read the first number.
const HADOOP_VERSION: &str = "3.4.0";

/// All routes.
pub(super) fn routes(access: &Access) -> Routes<Shared> {
    let (jobs, users) = ("/ws/v1/history/mapreduce/jobs", Audience::Users);
    Routes::new(access)
        .route("/ws/v1/history", users, get(info))
        .route("/ws/v1/history/info", users, get(info))
        .route(jobs, users, get(list))
        .route(&format!("{jobs}/{{job}}"), users, get(job))
        .merge(parts(access, jobs))
}

/// Routes of the parts of jobs, below the address of all jobs: the same for running and for finished jobs.
pub(super) fn parts(access: &Access, jobs: &str) -> Routes<Shared> {
    let (of, users) = (|rest: &str| format!("{jobs}/{{job}}{rest}"), Audience::Users);
    Routes::new(access)
        .route(&of("/counters"), users, get(counters))
        .route(&of("/conf"), users, get(configuration))
        .route(&of("/tasks"), users, get(tasks))
        .route(&of("/tasks/{task}"), users, get(task))
        .route(&of("/jobattempts"), users, get(job_attempts))
        .route(&of("/tasks/{task}/counters"), users, get(task_counters))
        .route(&of("/tasks/{task}/attempts"), users, get(attempts))
        .route(&of("/tasks/{task}/attempts/{attempt}"), users, get(attempt))
        .route(&of("/tasks/{task}/attempts/{attempt}/counters"), users, get(attempt_counters))
}

/// The job in an address; the rest of the address is ignored.
#[derive(Debug, Deserialize)]
pub(super) struct OfJob {
    pub(super) job: String,
}

/// A task of a job.
#[derive(Debug, Deserialize)]
pub(super) struct OfTask {
    job: String,
    task: String,
}

/// An attempt of a task.
#[derive(Debug, Deserialize)]
pub(super) struct OfAttempt {
    pub(super) job: String,
    pub(super) task: String,
    pub(super) attempt: String,
}

/// Parameters whose refusal has the shape of this API.
type Asked<T> = Result<Params<T>, BadParameter>;

/// Filters of the list.
#[derive(Debug)]
struct Wanted {
    user: Option<String>,
    /// Empty for any.
    state: &'static str,
    queue: Option<String>,
    limit: Option<u64>,
    started_ms: RangeInclusive<u64>,
    finished_ms: RangeInclusive<u64>,
}

impl Parameters for Wanted {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let text = |name| Ok(given.text(name)?.map(str::to_owned));
        let times = |begin: &'static str, end: &'static str| {
            let first = given.number(begin, 0..=u64::MAX)?.unwrap_or(0);
            let last = given.number(end, 0..=u64::MAX)?.unwrap_or(u64::MAX);
            if last < first {
                let allowed = format!("{begin}, which is {first}, or later");
                return Err(bad_value(end, &last.to_string(), allowed));
            }
            Ok(first..=last)
        };
        Ok(Wanted {
            user: text("user")?,
            state: given.word("state", &STATES)?,
            queue: text("queue")?,
            limit: given.number("limit", 1..=u64::MAX)?,
            started_ms: times("startedTimeBegin", "startedTimeEnd")?,
            finished_ms: times("finishedTimeBegin", "finishedTimeEnd")?,
        })
    }
}

impl Wanted {
    fn takes(&self, job: &JobReport) -> bool {
        self.user.as_ref().is_none_or(|user| *user == job.user)
            && (self.state.is_empty() || self.state == state_name(job.state))
            && self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && self.started_ms.contains(&job.submitted_ms)
            && self.finished_ms.contains(&job.finished_ms)
    }
}

/// Why there is no answer.
pub(super) enum Failure {
    /// The requested item does not exist; in Hadoop's words.
    Missing(String),
    /// The request is impossible, or not allowed for this user.
    Not(StatusCode, String),
    Refused(Refused),
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, message) = match self {
            Failure::Missing(message) => (StatusCode::NOT_FOUND, message),
            Failure::Not(status, message) => (status, message),
            Failure::Refused(refused) if refused.0.kind == ErrorKind::PermissionDenied => {
                (StatusCode::FORBIDDEN, refused.0.message)
            }
            Failure::Refused(refused) => return refused.into_response(),
        };
        let exception = match status {
            StatusCode::NOT_FOUND => "NotFoundException",
            StatusCode::FORBIDDEN => "ForbiddenException",
            _ => "BadRequestException",
        };
        let body = json!({ "RemoteException": {
            "exception": exception,
            "message": message,
            "javaClassName": format!("org.apache.hadoop.yarn.webapp.{exception}"),
        } });
        (status, Json(body)).into_response()
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Refused(refused)
    }
}

impl From<BadParameter> for Failure {
    fn from(refused: BadParameter) -> Self {
        Failure::Not(StatusCode::BAD_REQUEST, refused.to_string())
    }
}

/// `found`, or `missing` if the host does not know it.
pub(super) fn known<T>(
    found: Result<T, Refused>,
    missing: impl FnOnce() -> Failure,
) -> Result<T, Failure> {
    found.map_err(|refused| match refused.0.kind {
        ErrorKind::UnknownJob => missing(),
        _ => Failure::Refused(refused),
    })
}

pub(super) async fn picture(desk: &Desk, id: &str) -> Result<Arc<Picture>, Failure> {
    let unknown = || Failure::Missing(format!("job, {id}, is not found"));
    let job: JobId = id.parse().map_err(|_| unknown())?;
    known(desk.picture(job).await, unknown)
}

async fn info(desk: Desk) -> Result<Response, Failure> {
    Ok(Json(json!({ "historyInfo": {
        "startedOn": desk.started_ms,
        "hadoopVersion": HADOOP_VERSION,
        "hadoopBuildVersion": concat!("hanno ", env!("CARGO_PKG_VERSION")),
        "hadoopVersionBuiltOn": "",
    } }))
    .into_response())
}

async fn list(desk: Desk, wanted: Asked<Wanted>) -> Result<Response, Failure> {
    let Params(wanted) = wanted?;
    let limit =
        wanted.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let overview = desk.overview().await?;
    let jobs: Vec<Value> = overview
        .jobs
        .seen_by(desk.viewer())
        .iter()
        .filter(|job| wanted.takes(job))
        .take(limit)
        .map(|job| summary(job))
        .collect();
    Ok(Json(json!({ "jobs": { "job": jobs } })).into_response())
}

pub(super) fn state_name(state: JobState) -> &'static str {
    match state {
        JobState::Running | JobState::Committing => "RUNNING",
        JobState::Succeeded => "SUCCEEDED",
        JobState::Failed => "FAILED",
        JobState::Killed => "KILLED",
    }
}

fn summary(job: &JobReport) -> Value {
    json!({
        "submitTime": job.submitted_ms,
        "startTime": job.submitted_ms,
        "finishTime": job.finished_ms,
        "id": job.id,
        "name": job.name,
        "queue": job.queue,
        "user": job.user,
        "state": state_name(job.state),
        "mapsTotal": job.maps.total,
        "mapsCompleted": job.maps.completed,
        "reducesTotal": job.reduces.total,
        "reducesCompleted": job.reduces.completed,
    })
}

async fn job(desk: Desk, Path(OfJob { job: id }): Path<OfJob>) -> Result<Response, Failure> {
    let picture = picture(&desk, &id).await?;
    let report = &picture.report;
    let mut object = summary(report);
    let [shuffled, merged] = gathering_ms(&picture);
    let more = json!({
        "uberized": false,
        "diagnostics": report.diagnostics,
        "avgMapTime": mean_ms(&picture, TaskKind::Map),
        "avgReduceTime": mean_ms(&picture, TaskKind::Reduce).saturating_sub(shuffled + merged),
        "avgShuffleTime": shuffled,
        "avgMergeTime": merged,
        "failedMapAttempts": report.maps.failed_attempts,
        "killedMapAttempts": report.maps.killed_attempts,
        "successfulMapAttempts": successes(&picture, TaskKind::Map),
        "failedReduceAttempts": report.reduces.failed_attempts,
        "killedReduceAttempts": report.reduces.killed_attempts,
        "successfulReduceAttempts": successes(&picture, TaskKind::Reduce),
        "acls": acls(&picture),
    });
    merge(&mut object, more);
    Ok(Json(json!({ "job": object })).into_response())
}

/// Who may do what with a job besides its owner and the administrators; a space if nobody, as in Hadoop.
pub(super) fn acls(picture: &Picture) -> Vec<Value> {
    let acl = |key: Key<String>| {
        let value = picture.properties.get(key.name()).map_or(" ", String::as_str);
        json!({ "name": key.name(), "value": value })
    };
    [keys::ACL_VIEW, keys::ACL_MODIFY].map(acl).into()
}

pub(super) fn merge(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

fn succeeded(picture: &Picture, kind: TaskKind) -> impl Iterator<Item = &AttemptRow> {
    let done = move |attempt: &&AttemptRow| {
        attempt.kind == kind && attempt.state == AttemptState::Succeeded
    };
    picture.attempts.iter().filter(done)
}

pub(super) fn successes(picture: &Picture, kind: TaskKind) -> usize {
    succeeded(picture, kind).count()
}

fn mean_ms(picture: &Picture, kind: TaskKind) -> u64 {
    let total: u64 = succeeded(picture, kind).map(|attempt| attempt.elapsed_ms(0)).sum();
    total.checked_div(successes(picture, kind) as u64).unwrap_or(0)
}

/// Mean times that reduces took to fetch their input, and to merge it.
fn gathering_ms(picture: &Picture) -> [u64; 2] {
    let (mut sums, mut count) = ([0, 0], 0);
    for gathered in succeeded(picture, TaskKind::Reduce).filter_map(|row| row.gathered) {
        sums[0] += u64::from(gathered.shuffle_ms);
        sums[1] += u64::from(gathered.merge_ms);
        count += 1;
    }
    sums.map(|sum: u64| sum.checked_div(count).unwrap_or(0))
}

async fn counters(desk: Desk, Path(OfJob { job: id }): Path<OfJob>) -> Result<Response, Failure> {
    let picture = picture(&desk, &id).await?;
    let [maps, reduces] = desk.find(picture.id, |core| core.counters_by_kind(picture.id)).await?;
    let total = &picture.report.counters;
    let groups = counter_groups(total, |group, name| {
        json!({
            "name": name,
            "totalCounterValue": total.value(group, name),
            "mapCounterValue": maps.value(group, name),
            "reduceCounterValue": reduces.value(group, name),
        })
    });
    Ok(Json(json!({ "jobCounters": { "id": picture.report.id, "counterGroup": groups } }))
        .into_response())
}

fn counter_groups(counters: &Counters, value: impl Fn(&str, &str) -> Value) -> Vec<Value> {
    let group = |(group, names): (&String, &BTreeMap<String, u64>)| {
        let values: Vec<Value> = names.keys().map(|name| value(group, name)).collect();
        json!({ "counterGroupName": group, "counter": values })
    };
    counters.0.iter().map(group).collect()
}

/// Counters of one task or attempt.
fn own_groups(counters: &Counters) -> Vec<Value> {
    let value =
        |group: &str, name: &str| json!({ "name": name, "value": counters.value(group, name) });
    counter_groups(counters, value)
}

/// The JobTracker is the master of a job, and counts as its only master attempt.
async fn job_attempts(
    desk: Desk,
    Path(OfJob { job: id }): Path<OfJob>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let picture = picture(&desk, &id).await?;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let attempt = json!({
        "id": 1,
        "nodeId": host,
        "nodeHttpAddress": host,
        "logsLink": "",
        "containerId": "",
        "startTime": picture.report.submitted_ms,
    });
    Ok(Json(json!({ "jobAttempts": { "jobAttempt": [attempt] } })).into_response())
}

async fn configuration(
    desk: Desk,
    Path(OfJob { job: id }): Path<OfJob>,
) -> Result<Response, Failure> {
    let picture = picture(&desk, &id).await?;
    let properties: Vec<Value> = picture
        .properties
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value, "source": ["job"] }))
        .collect();
    Ok(Json(json!({ "conf": { "path": "", "property": properties } })).into_response())
}

/// The kind of tasks to list; both without one.
struct TaskType(Option<TaskKind>);

impl Parameters for TaskType {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        Ok(TaskType(given.choice("type", &[("m", TaskKind::Map), ("r", TaskKind::Reduce)])?))
    }
}

async fn tasks(
    desk: Desk,
    Path(OfJob { job: id }): Path<OfJob>,
    wanted: Asked<TaskType>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let Params(TaskType(kind)) = wanted?;
    let picture = picture(&desk, &id).await?;
    let kinds = kind.map_or(vec![TaskKind::Map, TaskKind::Reduce], |kind| vec![kind]);
    let counts: Vec<_> = kinds.into_iter().map(|kind| (kind, total(&picture, kind))).collect();
    let tasks =
        counts.into_iter().flat_map(|(kind, count)| (0..count).map(move |index| (kind, index)));
    let objects = tasks.map(move |(kind, index)| task_object(&picture, kind, index));
    Ok(xml::list(&headers, ["tasks", "task"], objects))
}

fn total(picture: &Picture, kind: TaskKind) -> u32 {
    match kind {
        TaskKind::Map => picture.report.maps.total,
        TaskKind::Reduce => picture.report.reduces.total,
    }
}

/// The places of the attempts of one task: rows are in task order, so these are adjacent.
fn places_of(picture: &Picture, kind: TaskKind, index: u32) -> Range<usize> {
    let key = |attempt: &AttemptRow| (attempt.kind == TaskKind::Reduce, attempt.index);
    let wanted = (kind == TaskKind::Reduce, index);
    let begin = picture.attempts.partition_point(|attempt| key(attempt) < wanted);
    let length = picture.attempts[begin..].partition_point(|attempt| key(attempt) == wanted);
    begin..begin + length
}

fn task_object(picture: &Picture, kind: TaskKind, index: u32) -> Value {
    let attempts = &picture.attempts[places_of(picture, kind, index)];
    let winner = attempts.iter().find(|attempt| attempt.state == AttemptState::Succeeded);
    let start = attempts.iter().map(|attempt| attempt.started_ms).min().unwrap_or(0);
    let is_live = attempts.iter().any(|attempt| attempt.state.is_live());
    let ended = attempts.iter().map(|attempt| attempt.finished_ms).max().unwrap_or(0);
    let finish = match winner {
        Some(winner) => winner.finished_ms,
        None if is_live => 0,
        None => ended,
    };
    let progress = attempts.iter().map(|attempt| attempt.progress).fold(0.0, f32::max);
    // The job fails with its task: the one whose last attempt failed by itself. The others were ended with it.
    let has_failed = picture.report.state == JobState::Failed
        && attempts
            .iter()
            .max_by_key(|attempt| attempt.finished_ms)
            .is_some_and(|last| last.state == AttemptState::Failed);
    let state = match (winner, is_live) {
        (Some(_), _) => "SUCCEEDED",
        (None, true) => "RUNNING",
        (None, false) if has_failed => "FAILED",
        (None, false) if picture.report.state.is_final() => "KILLED",
        (None, false) => "SCHEDULED",
    };
    let until = if is_live && winner.is_none() { transport::rpc::now_ms() } else { finish };
    let id = TaskId { job: picture.id, kind, index };
    json!({
        "id": id.to_string(),
        "type": kind.name(),
        "state": state,
        "startTime": start,
        "finishTime": finish,
        "elapsedTime": if start == 0 { 0 } else { until.saturating_sub(start) },
        "progress": progress * 100.0,
        "successfulAttempt": winner.map_or(String::new(), |attempt| picture.attempt_id(attempt).to_string()),
    })
}

/// A task of this job.
fn parse_task(picture: &Picture, text: &str) -> Option<TaskId> {
    let task: TaskId = text.parse().ok()?;
    let is_known = task.job == picture.id && task.index < total(picture, task.kind);
    is_known.then_some(task)
}

fn unknown_task(text: &str) -> Failure {
    Failure::Missing(format!("task not found with id {text}"))
}

async fn task(
    desk: Desk,
    Path(OfTask { job: id, task: name }): Path<OfTask>,
) -> Result<Response, Failure> {
    let picture = picture(&desk, &id).await?;
    let task = parse_task(&picture, &name).ok_or_else(|| unknown_task(&name))?;
    Ok(Json(json!({ "task": task_object(&picture, task.kind, task.index) })).into_response())
}

async fn task_counters(
    desk: Desk,
    Path(OfTask { job: id, task: name }): Path<OfTask>,
) -> Result<Response, Failure> {
    let picture = picture(&desk, &id).await?;
    let task = parse_task(&picture, &name).ok_or_else(|| unknown_task(&name))?;
    let groups = own_groups(&desk.find(picture.id, |core| core.task_counters(task)).await?);
    let object = json!({ "id": task.to_string(), "taskCounterGroup": groups });
    Ok(Json(json!({ "jobTaskCounters": object })).into_response())
}

/// The attempt in a path.
pub(super) fn parse_attempt(picture: &Picture, task: &str, text: &str) -> Option<AttemptId> {
    let task = parse_task(picture, task)?;
    let id: AttemptId = text.parse().ok()?;
    (id.task == task).then_some(id)
}

pub(super) fn unknown_attempt(text: &str) -> Failure {
    Failure::Missing(format!("Error getting info on task attempt id {text}"))
}

async fn attempt(
    desk: Desk,
    Path(OfAttempt { job: id, task, attempt: name }): Path<OfAttempt>,
) -> Result<Response, Failure> {
    let picture = picture(&desk, &id).await?;
    let wanted = parse_attempt(&picture, &task, &name).ok_or_else(|| unknown_attempt(&name))?;
    let mut places = places_of(&picture, wanted.task.kind, wanted.task.index);
    let place = places.find(|place| picture.attempts[*place].number == wanted.number);
    let object = attempt_object(&picture, place.ok_or_else(|| unknown_attempt(&name))?);
    Ok(Json(json!({ "taskAttempt": object })).into_response())
}

async fn attempt_counters(
    desk: Desk,
    Path(OfAttempt { job: id, task, attempt: name }): Path<OfAttempt>,
) -> Result<Response, Failure> {
    let picture = picture(&desk, &id).await?;
    let wanted = parse_attempt(&picture, &task, &name).ok_or_else(|| unknown_attempt(&name))?;
    let found = desk.find(picture.id, |core| core.attempt_picture(wanted)).await;
    let groups = own_groups(&known(found, || unknown_attempt(&name))?.counters);
    let object = json!({ "id": wanted.to_string(), "taskAttemptCounterGroup": groups });
    Ok(Json(json!({ "jobTaskAttemptCounters": object })).into_response())
}

async fn attempts(
    desk: Desk,
    Path(OfTask { job: id, task: name }): Path<OfTask>,
) -> Result<Response, Failure> {
    let picture = picture(&desk, &id).await?;
    let task = parse_task(&picture, &name).ok_or_else(|| unknown_task(&name))?;
    let places = places_of(&picture, task.kind, task.index);
    let objects: Vec<Value> = places.map(|place| attempt_object(&picture, place)).collect();
    Ok(Json(json!({ "taskAttempts": { "taskAttempt": objects } })).into_response())
}

/// The attempt in this row of a picture.
fn attempt_object(picture: &Picture, place: usize) -> Value {
    let row = &picture.attempts[place];
    let diagnostics = picture.diagnostics.get(&place);
    let now_ms = transport::rpc::now_ms();
    let mut object = json!({
        "id": picture.attempt_id(row).to_string(),
        "type": row.kind.name(),
        "state": row.state.name(),
        "rack": "",
        "nodeHttpAddress": picture.workers[row.worker as usize].http_address,
        "assignedContainerId": "",
        "diagnostics": diagnostics.map_or("", String::as_str),
        "status": picture.statuses.get(&place).map_or("", String::as_str),
        "progress": row.progress * 100.0,
        "startTime": row.started_ms,
        "finishTime": row.finished_ms,
        "elapsedTime": row.elapsed_ms(now_ms),
    });
    if row.kind == TaskKind::Reduce {
        let (shuffled, merged) = row.gathered_at().unwrap_or_default();
        let reduced = if merged == 0 { 0 } else { row.finished_ms.saturating_sub(merged) };
        let more = json!({
            "shuffleFinishTime": shuffled,
            "mergeFinishTime": merged,
            "elapsedShuffleTime": shuffled.saturating_sub(row.started_ms),
            "elapsedMergeTime": merged.saturating_sub(shuffled),
            "elapsedReduceTime": reduced,
        });
        merge(&mut object, more);
    }
    object
}

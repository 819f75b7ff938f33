//! What people do to jobs from pages: kill, priority, the end of attempts. In the name of who is signed in ([`daemon::session`]).

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, put};
use axum::{Json, Router};
use protocol::jobs::{Call, Priority, Request};
use protocol::{AttemptId, CallId, ClientId, ErrorKind, JobId, RemoteError, TaskId};
use serde::Deserialize;
use serde_json::json;

use crate::http::Shared;
use crate::server::Event;

/// All routes.
pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/api/v1/jobs/{id}", delete(kill).patch(change))
        .route("/api/v1/jobs/{id}/tasks/{task}/state", put(stop_task))
        .route("/api/v1/jobs/{id}/attempts/{attempt}/state", put(stop_attempt))
}

/// What may be changed of a job.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    priority: String,
}

/// How an attempt is to end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    state: String,
}

impl Wanted {
    /// True if it is to count as a failure.
    fn fail(&self) -> Result<bool, Refusal> {
        match self.state.as_str() {
            "KILLED" => Ok(false),
            "FAILED" => Ok(true),
            _ => Err(bad("state can be set to KILLED or FAILED")),
        }
    }
}

/// An answer that refuses.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "message": self.1 }))).into_response()
    }
}

impl From<RemoteError> for Refusal {
    fn from(error: RemoteError) -> Self {
        let status = match error.kind {
            ErrorKind::UnknownJob => StatusCode::NOT_FOUND,
            ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        Refusal(status, error.message)
    }
}

fn bad(text: &str) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, text.to_owned())
}

fn parsed<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Refusal> {
    text.parse().map_err(|_| Refusal(StatusCode::NOT_FOUND, format!("{text} is no {what}")))
}

fn body<'a, T: Deserialize<'a>>(bytes: &'a Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| bad(&error.to_string()))
}

/// Makes a change in the name of who is signed in. Nobody repeats it, so its call has no id.
async fn act(shared: &Shared, headers: &HeaderMap, body: Call) -> Result<Response, Response> {
    let user = shared.sessions.acting(headers).map_err(IntoResponse::into_response)?;
    tracing::info!(user, ?body, "asked for at a page");
    let call = CallId { client: ClientId::default(), number: 0 };
    let request = Request { version: protocol::jobs::VERSION, call, user, body };
    let answer = shared.ask(|reply| Event::Client(request, reply)).await.and_then(|answer| answer);
    match answer {
        Ok(_) => Ok((StatusCode::ACCEPTED, Json(json!({}))).into_response()),
        Err(error) => Err(Refusal::from(error).into_response()),
    }
}

async fn kill(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let id: JobId = parsed(&id, "job").map_err(IntoResponse::into_response)?;
    act(&shared, &headers, Call::Kill(id)).await
}

async fn change(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, Response> {
    let call = || {
        let id: JobId = parsed(&id, "job")?;
        let Change { priority } = body(&bytes)?;
        let priority =
            Priority::from_name(&priority).ok_or_else(|| bad("there is no such priority"))?;
        Ok::<_, Refusal>(Call::SetPriority(id, priority))
    };
    act(&shared, &headers, call().map_err(IntoResponse::into_response)?).await
}

async fn stop_attempt(
    State(shared): State<Shared>,
    Path((job, attempt)): Path<(String, String)>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, Response> {
    let call = || {
        let job: JobId = parsed(&job, "job")?;
        let attempt: AttemptId = parsed(&attempt, "attempt")?;
        if attempt.task.job != job {
            return Err(Refusal(StatusCode::NOT_FOUND, format!("{attempt} is not of {job}")));
        }
        let wanted: Wanted = body(&bytes)?;
        Ok(Call::StopAttempt { attempt, fail: wanted.fail()? })
    };
    act(&shared, &headers, call().map_err(IntoResponse::into_response)?).await
}

/// Ends the attempts of a task that run.
async fn stop_task(
    State(shared): State<Shared>,
    Path((job, task)): Path<(String, String)>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, Response> {
    let wanted = || {
        let job: JobId = parsed(&job, "job")?;
        let task: TaskId = parsed(&task, "task")?;
        let wanted: Wanted = body(&bytes)?;
        Ok::<_, Refusal>((job, task, wanted.fail()?))
    };
    let (job, task, fail) = wanted().map_err(IntoResponse::into_response)?;
    let picture = shared.ask(|reply| Event::Picture(job, reply)).await.and_then(|found| found);
    let picture = picture.map_err(|error| Refusal::from(error).into_response())?;
    let is_own = |attempt: &AttemptId| attempt.task == task;
    let live = picture.attempts.iter().filter(|row| row.state.is_live());
    let live: Vec<AttemptId> = live.map(|row| picture.attempt_id(row)).filter(is_own).collect();
    if live.is_empty() {
        let text = format!("no attempt of {task} runs");
        return Err(Refusal(StatusCode::CONFLICT, text).into_response());
    }
    let mut answer = StatusCode::ACCEPTED.into_response();
    for attempt in live {
        answer = act(&shared, &headers, Call::StopAttempt { attempt, fail }).await?;
    }
    Ok(answer)
}

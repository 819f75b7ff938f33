//! Changes that people make from pages: kill, priority, the end of attempts. They act as the signed-in user ([`daemon::session`]).

use std::fmt::Debug;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, put};
use daemon::access::{Access, Audience, Routes, User};
use daemon::serve::Peer;
use daemon::session::{Actor, SessionError};
use protocol::jobs::{Priority, TypedCall, calls};
use protocol::{AttemptId, ErrorKind, JobId, TaskId};
use serde::Deserialize;
use serde_json::json;

use crate::core::jobs::AttemptState;
use crate::http::desk::Desk;
use crate::http::shared::{Refused, Shared};

/// All routes.
pub(super) fn routes(access: &Access) -> Routes<Shared> {
    let changers = Audience::Changers;
    Routes::new(access)
        .route("/api/v1/jobs/{id}", changers, delete(kill).patch(change))
        .route("/api/v1/jobs/{id}/tasks/{task}/state", changers, put(stop_task))
        .route("/api/v1/jobs/{id}/attempts/{attempt}/state", changers, put(stop_attempt))
}

/// The requested change of a job.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    priority: String,
}

/// How to end an attempt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    state: String,
}

impl Wanted {
    /// True if it must count as a failure.
    fn fail(&self) -> Result<bool, Refusal> {
        match self.state.as_str() {
            "KILLED" => Ok(false),
            "FAILED" => Ok(true),
            _ => Err(bad("state can be set to KILLED or FAILED")),
        }
    }
}

/// An answer that refuses.
pub(super) struct Refusal(pub(super) StatusCode, pub(super) String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "message": self.1 }))).into_response()
    }
}

impl From<Refused> for Refusal {
    fn from(Refused(error): Refused) -> Self {
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

/// Makes a change as the signed-in user.
pub(super) async fn act(
    acting: &Acting,
    call: impl TypedCall<Answer = ()> + Debug,
) -> Result<Response, Refusal> {
    tracing::info!(user = acting.0.viewer().user(), body = ?call, "asked for at a page");
    acting.0.ask(call).await?;
    Ok((StatusCode::ACCEPTED, Json(json!({}))).into_response())
}

/// The desk of a user who may make changes. Handlers extract it first, so a request from anybody else is rejected before its content is
/// read.
pub(super) struct Acting(pub(super) Desk);

impl FromRequestParts<Shared> for Acting {
    type Rejection = SessionError;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, SessionError> {
        let Actor(name) = Actor::from_request_parts(parts, shared).await?;
        let address = parts.extensions.get::<Peer>().map(|peer| peer.address.ip().to_canonical());
        Ok(Acting(Desk::open(shared, User { name, address, is_signed: false }).await))
    }
}

async fn kill(acting: Acting, Path(id): Path<String>) -> Result<Response, Refusal> {
    act(&acting, calls::Kill { job: parsed(&id, "job")? }).await
}

async fn change(acting: Acting, Path(id): Path<String>, bytes: Bytes) -> Result<Response, Refusal> {
    let job: JobId = parsed(&id, "job")?;
    let Change { priority } = body(&bytes)?;
    let priority =
        Priority::from_name(&priority).ok_or_else(|| bad("there is no such priority"))?;
    act(&acting, calls::SetPriority { job, priority }).await
}

async fn stop_attempt(
    acting: Acting,
    Path((job, attempt)): Path<(String, String)>,
    bytes: Bytes,
) -> Result<Response, Refusal> {
    let job: JobId = parsed(&job, "job")?;
    let attempt: AttemptId = parsed(&attempt, "attempt")?;
    if attempt.task.job != job {
        return Err(Refusal(StatusCode::NOT_FOUND, format!("{attempt} is not of {job}")));
    }
    let fail = body::<Wanted>(&bytes)?.fail()?;
    act(&acting, calls::StopAttempt { attempt, fail }).await
}

/// Ends the running attempts of a task.
async fn stop_task(
    acting: Acting,
    Path((job, task)): Path<(String, String)>,
    bytes: Bytes,
) -> Result<Response, Refusal> {
    let job: JobId = parsed(&job, "job")?;
    let task: TaskId = parsed(&task, "task")?;
    let fail = body::<Wanted>(&bytes)?.fail()?;
    let picture = acting.0.picture(job).await?;
    let is_own = |attempt: &AttemptId| attempt.task == task;
    // One that is being killed cannot fail any more.
    let live = picture.attempts.iter().filter(|row| match fail {
        true => row.state == AttemptState::Running,
        false => row.state.is_live(),
    });
    let live: Vec<AttemptId> = live.map(|row| picture.attempt_id(row)).filter(is_own).collect();
    if live.is_empty() {
        return Err(Refusal(StatusCode::CONFLICT, format!("no attempt of {task} runs")));
    }
    let mut answer = StatusCode::ACCEPTED.into_response();
    for attempt in live {
        answer = act(&acting, calls::StopAttempt { attempt, fail }).await?;
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::http::Request as HttpRequest;
    use daemon::access::Auth;
    use daemon::auth::Authenticator;
    use daemon::session::HEADER;
    use futures_util::FutureExt;
    use protocol::auth::{Key, Service};
    use tower::ServiceExt;

    use super::*;
    use crate::http::tests::Bench;

    #[tokio::test]
    async fn who_acts_is_checked_before_anything_that_is_named() {
        let bench = Bench::start();
        let shared = &bench.shared;
        let auth = Authenticator::new(&Key::new([1; 32]), Service::Jobtracker);
        let access = Access::new(auth, Some(shared.sessions.clone()), Auth::Token);
        let (job, task) = ("job_202611201830_0001", "task_202611201830_0001_m_000000");
        let attempt = format!("attempt_{}_0", &task["task_".len()..]);
        for (method, target) in [
            ("DELETE", format!("/api/v1/jobs/{job}")),
            ("DELETE", "/api/v1/jobs/nonsense".to_owned()),
            ("PATCH", format!("/api/v1/jobs/{job}")),
            ("PUT", format!("/api/v1/jobs/{job}/tasks/{task}/state")),
            ("PUT", "/api/v1/jobs/nonsense/tasks/nonsense/state".to_owned()),
            ("PUT", format!("/api/v1/jobs/{job}/attempts/{attempt}/state")),
        ] {
            for (origin, expected) in [
                (None, StatusCode::FORBIDDEN),
                (Some("http://elsewhere"), StatusCode::FORBIDDEN),
                (Some("http://h:1"), StatusCode::UNAUTHORIZED),
            ] {
                let mut request = HttpRequest::builder().method(method).uri(&target);
                request = request.header("host", "h:1").header(HEADER, "1");
                if let Some(origin) = origin {
                    request = request.header("origin", origin);
                }
                let request = request.body(Body::from("{\"state\":\"KILLED\"}")).unwrap();
                let routes = Router::from(routes(&access).with_state(shared.clone()));
                let answer = routes.oneshot(request).now_or_never();
                let status = answer.expect("the host was asked").unwrap().status();
                assert_eq!(status, expected, "{method} {target} from {origin:?}");
            }
        }
    }
}

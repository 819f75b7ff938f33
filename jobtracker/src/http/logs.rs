//! Logs of attempts for users who may view the job: the JobTracker gets them from workers, which give them to nobody else.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response, Result};
use daemon::params::Params;
use daemon::params::logs::LogRange;
use futures_util::stream;
use protocol::address::url_of;
use protocol::auth::{Role, Service};
use protocol::{AttemptId, JobId};
use transport::RpcError;
use transport::rpc::RpcClient;

use super::desk::Desk;
use super::shared::{Shared, named};

/// If a worker does not begin to send a log within this time, the JobTracker gives up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A log from the worker at an address.
///
/// # Errors
/// [`RpcError`] if the worker is gone or has none.
pub(crate) async fn ask(
    shared: &Shared,
    worker: &str,
    id: AttemptId,
    wanted: LogRange,
) -> std::result::Result<transport::rpc::Body, RpcError> {
    let client = RpcClient::new(&url_of(worker), Role::Jobtracker, Some(&shared.secret))?
        .expecting(Service::Worker);
    client.get(&format!("/logs/{id}?{}", wanted.to_query())).await
}

/// The route: passes on a log from the worker.
pub(crate) async fn route(
    desk: Desk,
    Path((job, attempt)): Path<(String, String)>,
    Params(wanted): Params<LogRange>,
) -> Result<Response> {
    let (job, id): (JobId, AttemptId) = (named(&job)?, named(&attempt)?);
    if id.task.job != job {
        return Err(StatusCode::NOT_FOUND.into());
    }
    let picture = desk.find(job, |core| core.attempt_picture(id)).await?;
    let asked = ask(&desk, &picture.worker.http_address, id, wanted);
    let body = match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return Err(refused(&error)),
        Err(_) => {
            let text = "the worker does not give the log in time\n";
            return Err((StatusCode::GATEWAY_TIMEOUT, text).into());
        }
    };
    let pieces = stream::unfold(Some(body), |body| async move {
        let mut body = body?;
        match body.next().await {
            Ok(piece) => Some((Ok(piece?), Some(body))),
            // The reader gets an error, which shows that the log was cut off.
            Err(error) => Some((Err(error), None)),
        }
    });
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((kind, Body::from_stream(pieces)).into_response())
}

fn refused(error: &RpcError) -> axum::response::ErrorResponse {
    let status = match error {
        RpcError::Status { status: 400, .. } => StatusCode::BAD_REQUEST,
        RpcError::Status { status: 404, .. } => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_GATEWAY,
    };
    (status, format!("{}\n", protocol::error::chain(error))).into()
}

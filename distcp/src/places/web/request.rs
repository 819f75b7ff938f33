//! Requests without a body, and what answers mean.

use transport::RpcError;
use transport::rpc::{Body, runtime};
use transport::web::{self, Answer, Method, Trust};

use super::answers::Failed;
use crate::error::PlaceError;
use crate::places::files::Outcome;

/// Most bytes of an answer that is no file.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Statuses below it are of success.
const STATUS_REFUSED: u16 = 300;

/// Makes a request without a body; a refusal is an error.
pub(super) fn ask(method: Method, url: &str) -> Outcome<Body> {
    accepted(runtime().block_on(web::ask(Trust::Named, method, url)))
}

/// The body of an answer that is no refusal.
pub(super) fn accepted(answer: Result<Answer, RpcError>) -> Outcome<Body> {
    let Answer { status, body } = answer.map_err(PlaceError::Unreachable)?;
    if status.as_u16() < STATUS_REFUSED {
        return Ok(body);
    }
    let text = runtime().block_on(body.at_most(ANSWER_BYTES_MAX)).unwrap_or_default();
    Err(match serde_json::from_slice::<Failed>(&text) {
        Ok(Failed { exception }) => {
            PlaceError::Remote { exception: exception.exception, message: exception.message }
        }
        Err(_) => PlaceError::Status { status: status.as_u16() },
    })
}

pub(super) fn whole(body: Body) -> Outcome<Vec<u8>> {
    runtime().block_on(body.at_most(ANSWER_BYTES_MAX)).map_err(PlaceError::Unreachable)
}

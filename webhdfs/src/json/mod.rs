//! The bodies of answers, field by field as Hadoop writes them. Sizes and times are numbers, times in milliseconds.

pub mod locations;
pub mod policy;
pub mod rights;
pub mod snapshot;
pub mod status;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

/// The type of JSON bodies.
pub const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/json;charset=utf-8");
/// The type of empty bodies and of data.
pub const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// 200 with a JSON body.
pub fn ok(body: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(body).expect("bodies have text keys and plain values");
    (StatusCode::OK, [(header::CONTENT_TYPE, CONTENT_TYPE)], bytes).into_response()
}

/// 200 with an empty body.
pub fn nothing() -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, BYTES)]).into_response()
}

/// `{"boolean":…}`.
pub fn boolean(flag: bool) -> Response {
    ok(&json!({ "boolean": flag }))
}

/// `{"long":…}`.
pub fn long(number: u64) -> Response {
    ok(&json!({ "long": number }))
}

/// `{"Path":…}`.
pub fn path(path: &str) -> Response {
    ok(&json!({ "Path": path }))
}

/// `{name: body}`.
pub fn named(name: &str, body: impl Serialize) -> Value {
    json!({ name: body })
}

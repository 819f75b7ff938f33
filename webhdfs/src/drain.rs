//! What becomes of a body that nobody wants to read.
//!
//! A NameNode answers before it has read anything. Some clients send the body all the same (without `Expect: 100-continue`). They would see
//! a reset connection instead of the answer if the socket were closed over unread bytes. So a bounded amount is read and dropped beside the
//! answer.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;

/// Most bytes that are read and dropped: what a log shipper sends in one request.
const BYTES_MAX: u64 = 32 << 20;
/// Longest time for it.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Reads and drops `body` in the background, within limits. A client that waits for `100 Continue` sends nothing: its body
/// is left alone, since reading it would ask for it.
pub fn linger(headers: &HeaderMap, body: Body) {
    let waits = headers
        .get(header::EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    if waits || axum::body::HttpBody::is_end_stream(&body) {
        return;
    }
    tokio::spawn(tokio::time::timeout(TIME_MAX, drop_all(body)));
}

async fn drop_all(mut body: Body) {
    let mut total = 0;
    while let Some(Ok(frame)) = body.frame().await {
        total += frame.data_ref().map_or(0, |data| data.len() as u64);
        if total > BYTES_MAX {
            return;
        }
    }
}

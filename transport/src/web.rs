//! Plain requests to where a redirect led. Nothing is signed: the address says what is allowed.
//!
//! A request or an answer may take hours, but neither is silent for long.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use reqwest::{RequestBuilder, StatusCode, Url};

use crate::error::RpcError;
use crate::rpc::{Body, http_client};

/// How long nothing may move in either direction: a DataNode may have to rebuild a pipeline meanwhile.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Least bytes of a body within that time, a kilobyte a second: whoever sends less holds what others wait for.
const BODY_BYTES_MIN: u64 = 64 << 10;

/// How far a body was sent.
#[derive(Default)]
struct Sent {
    bytes: AtomicU64,
    is_whole: AtomicBool,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct Answer {
    /// Of the answer.
    pub status: StatusCode,
    /// What comes with it.
    pub body: Body,
}

/// How a request is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// GET.
    Get,
    /// PUT.
    Put,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

impl Method {
    fn request(self, location: &str) -> RequestBuilder {
        let client = http_client();
        match self {
            Method::Get => client.get(location),
            Method::Put => client.put(location),
            Method::Post => client.post(location),
            Method::Delete => client.delete(location),
        }
    }
}

/// Asks for what is at `location`.
///
/// # Errors
/// [`RpcError::Unreachable`], [`RpcError::Silent`].
pub async fn get(location: &str) -> Result<Answer, RpcError> {
    ask(Method::Get, location).await
}

/// Makes a request without a body.
///
/// # Errors
/// [`RpcError::Unreachable`], [`RpcError::Silent`].
pub async fn ask(method: Method, location: &str) -> Result<Answer, RpcError> {
    let nothing = Sent { is_whole: true.into(), ..Sent::default() };
    answer(location, method.request(location), &nothing, SILENCE_MAX).await
}

/// Sends `body` to `location`.
///
/// # Errors
/// [`RpcError::Unreachable`], also where the body broke off; [`RpcError::Silent`], [`RpcError::Starved`].
pub async fn put<E>(
    location: &str,
    body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> Result<Answer, RpcError>
where
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    send(Method::Put, location, body).await
}

/// Sends `body` to `location`.
///
/// # Errors
/// As [`put`].
pub async fn send<E>(
    method: Method,
    location: &str,
    body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> Result<Answer, RpcError>
where
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    send_within(method, location, body, SILENCE_MAX).await
}

async fn send_within<E>(
    method: Method,
    location: &str,
    body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    silence_max: Duration,
) -> Result<Answer, RpcError>
where
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    let sent = Arc::new(Sent::default());
    let (counter, end) = (Arc::clone(&sent), Arc::clone(&sent));
    let body = body.inspect(move |piece| {
        let bytes = piece.as_ref().map_or(0, Bytes::len) as u64;
        counter.bytes.fetch_add(bytes, Ordering::Relaxed);
    });
    let body = body.chain(stream::poll_fn(move |_| {
        end.is_whole.store(true, Ordering::Relaxed);
        Poll::Ready(None)
    }));
    let request = method.request(location).body(reqwest::Body::wrap_stream(body));
    answer(location, request, &sent, silence_max).await
}

/// Waits for an answer as long as the body moves on.
async fn answer(
    location: &str,
    request: RequestBuilder,
    sent: &Sent,
    limit: Duration,
) -> Result<Answer, RpcError> {
    let mut answered = std::pin::pin!(request.send());
    let mut before = 0;
    loop {
        match tokio::time::timeout(limit, &mut answered).await {
            Ok(Ok(response)) => {
                let status = response.status();
                return Ok(Answer { status, body: Body::new(response, &host_of(location)) });
            }
            Ok(Err(source)) => {
                let (address, source) = (host_of(location), source.without_url());
                return Err(RpcError::Unreachable { address, source });
            }
            Err(_) => {
                let now = sent.bytes.load(Ordering::Relaxed);
                let (bytes, is_whole) = (now - before, sent.is_whole.load(Ordering::Relaxed));
                if is_whole && bytes == 0 {
                    return Err(RpcError::Silent { address: host_of(location), limit });
                }
                if !is_whole && bytes < BODY_BYTES_MIN {
                    return Err(RpcError::Starved { bytes, limit });
                }
                before = now;
            }
        }
    }
}

/// Host and port of a location: the rest has tokens, which belong in no message.
fn host_of(location: &str) -> String {
    let url = Url::parse(location);
    url.map_or_else(|_| String::new(), |url| url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(4);

    /// A server that takes one request whose body ends with "end", and answers.
    fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut bytes) = (Vec::new(), [0; 4096]);
            while !request.windows(3).any(|window| window == b"end") {
                match stream.read(&mut bytes) {
                    Ok(count) if count > 0 => request.extend_from_slice(&bytes[..count]),
                    _ => return,
                }
            }
            let _ = stream.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok");
        });
        address
    }

    /// Six pieces of so many bytes, each a third of the limit after the one before.
    fn slow_body(
        bytes: usize,
    ) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
        stream::iter(["1", "2", "3", "4", "5", "end"]).then(move |piece| async move {
            tokio::time::sleep(LIMIT / 3).await;
            Ok(Bytes::from(" ".repeat(bytes - piece.len()) + piece))
        })
    }

    #[tokio::test]
    async fn a_body_may_take_longer_than_the_silence_that_is_allowed() {
        let location = format!("http://{}/path?token=secret", server());
        let answer = send_within(Method::Put, &location, slow_body(BODY_BYTES_MIN as usize), LIMIT)
            .await
            .unwrap();
        assert_eq!(answer.status, StatusCode::CREATED);
        assert_eq!(answer.body.whole().await.unwrap(), b"ok");
    }

    #[tokio::test]
    async fn a_body_that_hardly_moves_ends_the_request() {
        let location = format!("http://{}/path", server());
        let error = send_within(Method::Put, &location, slow_body(3), LIMIT).await.unwrap_err();
        assert!(matches!(error, RpcError::Starved { bytes: 1..=9, .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_body_that_stops_ends_the_request_and_names_no_token() {
        let location = format!("http://{}/path?token=secret", server());
        let limit = Duration::from_millis(100);
        let body = stream::pending::<Result<Bytes, std::io::Error>>();
        let error = send_within(Method::Put, &location, body, limit).await.unwrap_err();
        assert!(matches!(error, RpcError::Starved { bytes: 0, .. }), "{error:?}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

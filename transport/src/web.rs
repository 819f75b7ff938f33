//! Requests to where a redirect led. Nothing is signed: the address says what is allowed.
//!
//! A location at a daemon of one's own cluster is reached as its calls are ([`Trust::Own`]); any other as it says, `https` with a certificate for which an authority vouches.
//!
//! A request or an answer may take hours, but neither is silent for long.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use reqwest::{Client, RequestBuilder, StatusCode, Url};

use crate::error::RpcError;
use crate::rpc::{Body, RpcClient, http};

/// How long nothing may move in either direction: a DataNode may have to rebuild a pipeline meanwhile.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Least bytes of a body within that time, a kilobyte a second: whoever sends less holds what others wait for.
pub const BODY_BYTES_MIN: u64 = 64 << 10;

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

/// Who is trusted with a request.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Whoever has the location's name: without encryption, or with a certificate for it.
    Named,
    /// A daemon of the own cluster, which proves itself first. Of the location only path and query count.
    Own(&'a RpcClient),
}

impl Trust<'_> {
    /// The connections for a location, and where it is.
    async fn reach(self, location: &str) -> Result<(Client, Url), RpcError> {
        let address = || RpcError::Address { address: host_of(location) };
        let url = Url::parse(location).map_err(|_| address())?;
        match self {
            Trust::Own(daemon) => {
                let (client, mut own) = daemon.proven().await?;
                own.set_path(url.path());
                own.set_query(url.query());
                Ok((client, own))
            }
            Trust::Named if url.scheme() == "https" => Ok((http::vouched_for()?, url)),
            Trust::Named => Ok((http::plain(), url)),
        }
    }
}

impl Method {
    fn request(self, client: &Client, location: Url) -> RequestBuilder {
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
pub async fn get(trust: Trust<'_>, location: &str) -> Result<Answer, RpcError> {
    ask(trust, Method::Get, location).await
}

/// Makes a request without a body.
///
/// # Errors
/// [`RpcError::Unreachable`], [`RpcError::Silent`].
pub async fn ask(trust: Trust<'_>, method: Method, location: &str) -> Result<Answer, RpcError> {
    let (client, location) = trust.reach(location).await?;
    let nothing = Sent { is_whole: true.into(), ..Sent::default() };
    let host = host_of(location.as_str());
    answer(&host, method.request(&client, location), &nothing, SILENCE_MAX).await
}

/// Sends `body` to `location`.
///
/// # Errors
/// [`RpcError::Unreachable`], also where the body broke off; [`RpcError::Silent`], [`RpcError::Starved`].
pub async fn put<E>(
    trust: Trust<'_>,
    location: &str,
    body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> Result<Answer, RpcError>
where
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    send(trust, Method::Put, location, body).await
}

/// Sends `body` to `location`.
///
/// # Errors
/// As [`put`].
pub async fn send<E>(
    trust: Trust<'_>,
    method: Method,
    location: &str,
    body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> Result<Answer, RpcError>
where
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    send_within(trust, (method, location), body, SILENCE_MAX).await
}

async fn send_within<E>(
    trust: Trust<'_>,
    (method, location): (Method, &str),
    body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    silence_max: Duration,
) -> Result<Answer, RpcError>
where
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    let (client, location) = trust.reach(location).await?;
    let host = host_of(location.as_str());
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
    let request = method.request(&client, location).body(reqwest::Body::wrap_stream(body));
    answer(&host, request, &sent, silence_max).await
}

/// Waits for an answer of `host` as long as the body moves on.
async fn answer(
    host: &str,
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
                return Ok(Answer { status, body: Body::new(response, host) });
            }
            Ok(Err(source)) => {
                let (address, source) = (host.to_owned(), source.without_url());
                return Err(RpcError::Unreachable { address, source });
            }
            Err(_) => {
                let now = sent.bytes.load(Ordering::Relaxed);
                let (bytes, is_whole) = (now - before, sent.is_whole.load(Ordering::Relaxed));
                if is_whole && bytes == 0 {
                    return Err(RpcError::Silent { address: host.to_owned(), limit });
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
        let answer = send_within(
            Trust::Named,
            (Method::Put, &location),
            slow_body(BODY_BYTES_MIN as usize),
            LIMIT,
        )
        .await
        .unwrap();
        assert_eq!(answer.status, StatusCode::CREATED);
        assert_eq!(answer.body.whole().await.unwrap(), b"ok");
    }

    #[tokio::test]
    async fn a_body_that_hardly_moves_ends_the_request() {
        let location = format!("http://{}/path", server());
        let error = send_within(Trust::Named, (Method::Put, &location), slow_body(3), LIMIT)
            .await
            .unwrap_err();
        assert!(matches!(error, RpcError::Starved { bytes: 1..=9, .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_body_that_stops_ends_the_request_and_names_no_token() {
        let location = format!("http://{}/path?token=secret", server());
        let limit = Duration::from_millis(100);
        let body = stream::pending::<Result<Bytes, std::io::Error>>();
        let error =
            send_within(Trust::Named, (Method::Put, &location), body, limit).await.unwrap_err();
        assert!(matches!(error, RpcError::Starved { bytes: 0, .. }), "{error:?}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

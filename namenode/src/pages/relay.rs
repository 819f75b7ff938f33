//! Bytes of files between a browser and DataNodes.
//!
//! A browser that may not talk to addresses other than the page's own sends and reads here; the NameNode finds the DataNode in the way of
//! WebHDFS and passes the bytes on. This is for people with single files: programs go to DataNodes themselves.
//!
//! Invariant: a relay holds some pieces in memory and never a file, and there are at most [`RELAYS_MAX`] at once.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use protocol::{DfsPath, ErrorKind, RemoteError};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use webhdfs::namenode::{Face, KnownUser};

use crate::service::Local;

/// Relays at once: the NameNode's network and memory are for metadata.
const RELAYS_MAX: usize = 4;
/// Time to reach a DataNode.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Silence after which a DataNode is given up; it may have to rebuild a pipeline meanwhile.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an answer about a first step; a URL with the longest path fits.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Passes bytes on. Cheap to clone.
#[derive(Clone)]
pub(super) struct Relay {
    face: Face<Local>,
    slots: Arc<Semaphore>,
}

/// Some text of a file.
pub(super) struct Text {
    pub(super) offset: u64,
    /// Bytes that are not UTF-8 are replaced.
    pub(super) content: Result<String, String>,
}

impl Relay {
    pub(super) fn new(face: Face<Local>) -> Self {
        Relay { face, slots: Arc::new(Semaphore::new(RELAYS_MAX)) }
    }

    /// Sends the browser on to a DataNode for the bytes of a file.
    pub(super) async fn redirect(&self, user: &str, path: &DfsPath, parameters: &str) -> Response {
        self.first_step(Method::GET, user, path, &format!("op=OPEN{parameters}")).await
    }

    /// Writes a new file from a request's body.
    pub(super) async fn write(
        &self,
        user: &str,
        path: &DfsPath,
        overwrite: bool,
        body: Body,
    ) -> Result<(), RemoteError> {
        let _slot = self.slot()?;
        let query = format!("op=CREATE&noredirect=true&overwrite={overwrite}");
        let location = self.location(Method::PUT, user, path, &query).await?;
        let stream = reqwest::Body::wrap_stream(body.into_data_stream());
        let answer = http().put(location).body(stream).send().await.map_err(broken)?;
        refusal(answer).await.map(drop)
    }

    /// A range of a file's bytes, as text.
    pub(super) async fn text(&self, user: &str, path: &DfsPath, range: (u64, u64)) -> Text {
        let content = self.bytes(user, path, range).await;
        let content = content.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Text { offset: range.0, content: content.map_err(|error| error.message) }
    }

    async fn bytes(
        &self,
        user: &str,
        path: &DfsPath,
        (offset, length): (u64, u64),
    ) -> Result<Vec<u8>, RemoteError> {
        let _slot = self.slot()?;
        let query = format!("op=OPEN&noredirect=true&offset={offset}&length={length}");
        let location = self.location(Method::GET, user, path, &query).await?;
        let answer = http().get(location).send().await.map_err(broken)?;
        let mut bytes = at_most(refusal(answer).await?, length).await?;
        bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    fn slot(&self) -> Result<SemaphorePermit<'_>, RemoteError> {
        let busy = "the NameNode already passes on as many files as it may; try again later";
        self.slots.try_acquire().map_err(|_| RemoteError::new(ErrorKind::Unavailable, busy))
    }

    async fn first_step(
        &self,
        method: Method,
        user: &str,
        path: &DfsPath,
        query: &str,
    ) -> Response {
        let target = format!("{}{}?{query}", webhdfs::path::PREFIX, webhdfs::path::encode(path));
        let request = Request::builder()
            .method(method)
            .uri(target)
            .extension(KnownUser(user.to_owned()))
            .body(Body::empty())
            .expect("an encoded path and our own words");
        self.face.handle(request).await
    }

    /// Address of the second step.
    async fn location(
        &self,
        method: Method,
        user: &str,
        path: &DfsPath,
        query: &str,
    ) -> Result<String, RemoteError> {
        let answer = self.first_step(method, user, path, query).await;
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await;
        let body = body.unwrap_or_default();
        if status != StatusCode::OK {
            return Err(refused(status.as_u16(), &body));
        }
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let location = body["Location"].as_str().map(str::to_owned);
        location.ok_or_else(|| RemoteError::new(ErrorKind::Internal, "no DataNode was named"))
    }
}

fn http() -> &'static reqwest::Client {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .build()
            .expect("a client without TLS has nothing that can fail")
    })
}

fn broken(error: reqwest::Error) -> RemoteError {
    let text = protocol::error::chain(&error.without_url());
    RemoteError::new(ErrorKind::Unavailable, format!("the DataNode broke off: {text}"))
}

async fn refusal(answer: reqwest::Response) -> Result<reqwest::Response, RemoteError> {
    if answer.status().is_success() {
        return Ok(answer);
    }
    let status = answer.status().as_u16();
    let body = at_most(answer, ANSWER_BYTES_MAX as u64).await.unwrap_or_default();
    Err(refused(status, &body))
}

/// Reads an answer until it ends or has given `count` bytes, whatever length it claims.
async fn at_most(mut answer: reqwest::Response, count: u64) -> Result<Vec<u8>, RemoteError> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < count {
        match answer.chunk().await.map_err(broken)? {
            Some(chunk) => bytes.extend_from_slice(&chunk),
            None => break,
        }
    }
    Ok(bytes)
}

/// A refusal in WebHDFS's shape.
fn refused(status: u16, body: &[u8]) -> RemoteError {
    let kind = match status {
        403 => ErrorKind::PermissionDenied,
        404 => ErrorKind::NotFound,
        503 => ErrorKind::Unavailable,
        _ => ErrorKind::InvalidArgument,
    };
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let exception = &body["RemoteException"];
    let kind = match exception["exception"].as_str() {
        Some("FileAlreadyExistsException") => ErrorKind::AlreadyExists,
        _ => kind,
    };
    let message = exception["message"].as_str().unwrap_or("the request was refused");
    RemoteError::new(kind, message.lines().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Bytes asked for in the test.
    const WANTED: u64 = 100_000;
    /// What a connection may have given at once.
    const AHEAD_BYTES_MAX: usize = 4 << 20;

    #[tokio::test]
    async fn an_answer_without_end_is_not_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 4096]);
            let mut sent = client.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
            while sent.is_ok() {
                sent = client.write_all(&[7; 64 << 10]);
            }
        });
        let answer = http().get(address).send().await.unwrap();
        let bytes = tokio::time::timeout(READ_TIMEOUT, at_most(answer, WANTED)).await;
        let count = bytes.expect("it ends").unwrap().len();
        assert!((WANTED as usize..AHEAD_BYTES_MAX).contains(&count), "{count}");
    }
}

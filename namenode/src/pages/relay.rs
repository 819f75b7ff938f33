//! Bytes of files between a browser and DataNodes.
//!
//! A browser that may not talk to addresses other than the page's own sends and reads here; the NameNode finds the DataNode in the way of
//! WebHDFS and passes the bytes on. This is for people with single files: programs go to DataNodes themselves.
//!
//! Invariant: a relay holds some pieces in memory and never a file; there are at most [`RELAYS_MAX`] at once, and no user has all of them.

use std::sync::Arc;

use axum::body::Body as RequestBody;
use axum::http::{Method, Request, StatusCode, Uri};
use axum::response::Response;
use daemon::shares::room::{Place, Room};
use daemon::shares::{Full, PART};
use protocol::address::url_of;
use protocol::auth::{Key, Role, Service};
use protocol::printable::printable;
use protocol::{DfsPath, ErrorKind, RemoteError};
use serde_json::Value;
use transport::RpcError;
use transport::rpc::{Body, RpcClient};
use transport::web::{self, Answer, Trust};
use webhdfs::namenode::{Face, KnownUser};

use crate::service::Local;

/// Relays at once: the NameNode's network and memory are for metadata. One user alone gets three of them.
const RELAYS_MAX: usize = 4;
/// Bytes of an answer about a first step; a URL with the longest path fits.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Passes bytes on. Cheap to clone.
#[derive(Clone)]
pub(super) struct Relay {
    face: Face<Local>,
    secret: Key,
    room: Arc<Room<String>>,
}

/// First bytes of files that have their text inside, and what they are. `-text` of the shell prints them.
const PACKED: [(&[u8], &str); 5] = [
    (b"SEQ\x06", "a SequenceFile"),
    (b"Obj\x01", "an Avro file"),
    (b"\x1f\x8b\x08", "a gzip file"),
    (b"BZh", "a bzip2 file"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file"),
];

/// Some text of a file.
pub(super) struct Text {
    pub(super) offset: u64,
    /// What it is, if it begins as what is no text does.
    pub(super) packed: Option<&'static str>,
    /// Bytes that are not UTF-8 are replaced, control characters and what turns the direction of writing are escaped.
    pub(super) content: Result<String, String>,
}

impl Text {
    /// Of bytes from a place in a file.
    pub(super) fn of(offset: u64, bytes: &[u8]) -> Self {
        let begins = PACKED.iter().find(|(magic, _)| offset == 0 && bytes.starts_with(magic));
        let packed = begins.map(|(_, name)| *name);
        let content = printable(&String::from_utf8_lossy(bytes)).into_owned();
        Text { offset, packed, content: Ok(content) }
    }
}

impl Relay {
    pub(super) fn new(face: Face<Local>, secret: Key) -> Self {
        Relay { face, secret, room: Room::new(RELAYS_MAX, PART) }
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
        body: RequestBody,
    ) -> Result<(), RemoteError> {
        let _slot = self.slot(user)?;
        let query = "op=CREATE&noredirect=true&overwrite=false";
        let location = self.location(Method::PUT, user, path, query).await?;
        let datanode = self.datanode(&location)?;
        let answer = web::put(Trust::Own(&datanode), &location, body.into_data_stream())
            .await
            .map_err(broken)?;
        refusal(answer).await.map(drop)
    }

    /// A range of a file's bytes, as text.
    pub(super) async fn text(&self, user: &str, path: &DfsPath, range: (u64, u64)) -> Text {
        match self.bytes(user, path, range).await {
            Ok(bytes) => Text::of(range.0, &bytes),
            Err(error) => Text { offset: range.0, packed: None, content: Err(error.message) },
        }
    }

    async fn bytes(
        &self,
        user: &str,
        path: &DfsPath,
        (offset, length): (u64, u64),
    ) -> Result<Vec<u8>, RemoteError> {
        let _slot = self.slot(user)?;
        let query = format!("op=OPEN&noredirect=true&offset={offset}&length={length}");
        let location = self.location(Method::GET, user, path, &query).await?;
        let datanode = self.datanode(&location)?;
        let answer = web::get(Trust::Own(&datanode), &location).await.map_err(broken)?;
        let mut bytes = refusal(answer).await?.at_most(length).await.map_err(broken)?;
        bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    fn slot(&self, user: &str) -> Result<Place<String>, RemoteError> {
        self.room.enter(user.to_owned(), 1, ()).map_err(|full| {
            let busy = match full {
                Full::Own => "the NameNode already passes on as many files of yours as it may",
                Full::All | Full::Ended => "the NameNode already passes on as many files as it may",
            };
            RemoteError::new(ErrorKind::Unavailable, format!("{busy}; try again later"))
        })
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
            .body(RequestBody::empty())
            .expect("an encoded path and our own words");
        self.face.handle(request).await
    }

    /// The DataNode of a second step.
    fn datanode(&self, location: &str) -> Result<RpcClient, RemoteError> {
        let parsed = location.parse::<Uri>().ok();
        let authority = parsed.as_ref().and_then(Uri::authority).map_or("", |it| it.as_str());
        RpcClient::new(&url_of(authority), Role::Client, Some(&self.secret))
            .map(|client| client.expecting(Service::Datanode))
            .map_err(broken)
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

fn broken(error: RpcError) -> RemoteError {
    let who = match error {
        RpcError::Starved { .. } => "the upload was given up",
        _ => "the DataNode broke off",
    };
    let text = protocol::error::chain(&error);
    RemoteError::new(ErrorKind::Unavailable, format!("{who}: {text}"))
}

async fn refusal(Answer { status, body }: Answer) -> Result<Body, RemoteError> {
    if status.is_success() {
        return Ok(body);
    }
    let body = body.at_most(ANSWER_BYTES_MAX as u64).await.unwrap_or_default();
    Err(refused(status.as_u16(), &body))
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
    use super::*;

    #[test]
    fn bytes_of_any_kind_become_text_that_is_only_text() {
        let shown = |bytes: &[u8]| Text::of(0, bytes).content.unwrap();
        for (bytes, text) in [
            (&b"a line\n\tb\n"[..], "a line\n\tb\n"),
            (b"\x00\x1b[31m\x7f\r\n", "\\x00\\x1b[31m\\x7f\\x0d\n"),
            (b"\xff\xc3", "\u{fffd}\u{fffd}"),
            ("gnp.\u{202e}exe".as_bytes(), "gnp.\\u{202e}exe"),
        ] {
            assert_eq!(shown(bytes), text);
        }
    }

    #[test]
    fn what_is_no_text_is_known_by_its_first_bytes() {
        for (offset, bytes, kind) in [
            (0, &b"SEQ\x06\x22"[..], Some("a SequenceFile")),
            (0, b"Obj\x01\x04", Some("an Avro file")),
            (0, b"\x1f\x8b\x08\x00", Some("a gzip file")),
            (0, b"SEQUENCE", None),
            (7, b"SEQ\x06\x22", None),
            (0, b"", None),
        ] {
            assert_eq!(Text::of(offset, bytes).packed, kind, "{bytes:?}");
        }
    }
}

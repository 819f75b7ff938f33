//! The DataNode's side: data goes in and out here, through a client of the file system that acts as the caller.
//!
//! - memory per transfer is a few packets, whatever the size of the file;
//! - an upload that ends before its end - no last chunk, fewer bytes than announced, silence - is given up: nothing of it
//!   stays visible;
//! - uploads at once are shared by users, and so are checksums: one who has most of them gives up the stillest when another needs a place;
//! - a file is read in steps, so that what nobody waits for any more ends within one;
//! - each kind of work has blocking threads of its own (`threads`);
//! - the URL may be used again and again; every use is a call of its own;
//! - where names are believed, pages of other hosts get nothing and change nothing: they could name anybody.

mod clients;
mod read;
mod threads;
mod write;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use client::dfs::DfsClient;
use protocol::DfsPath;
use protocol::auth::Key;

use self::clients::Clients;
use self::threads::{Kinds, SUMS_MAX, UPLOADS_MAX};
use crate::config::Config;
use crate::error::{Exception, WebError};
use crate::identity;
use crate::judge::warned;
use crate::namenode::KnownUser;
use crate::op::Op;
use crate::query::Query;
use crate::token::Redirect;
use crate::{drain, path};
use daemon::params::Ear;
use daemon::serve::Peer;
use daemon::session;
use daemon::shares::PART;
use daemon::shares::room::{Notified, Place, Room};

/// Checksums at once, each with at most one step under way. More wait their turn. One user alone gets three quarters.
const CHECKSUMS_MAX: usize = SUMS_MAX;
/// How long an upload or a checksum waits for its turn before it is asked to try again or to go elsewhere: clients wait a minute for an answer.
const TURN_WAIT_MAX: Duration = Duration::from_secs(5);
/// Any web page may read what it was given a URL for, where the URL holds a token: it is the permission.
const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");
/// Seconds that browsers may remember the answer to a preflight: 20 days, as Hadoop.
const PREFLIGHT_MAX_AGE_S: HeaderValue = HeaderValue::from_static("1728000");

/// What the face needs to know of its surroundings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The operator's decisions.
    pub config: Config,
    /// How callers are judged.
    pub trust: Trust,
    /// `host:port` that others use for this daemon's HTTP.
    pub advertised: String,
}

/// How callers are judged.
#[derive(Clone, Debug)]
pub enum Trust {
    /// `user.name` is believed.
    Names,
    /// The token that the NameNode put into its redirect, under this key.
    Tokens(Key),
}

/// The face of a DataNode. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Face {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clients: Clients,
    settings: Settings,
    uploads: Turns,
    checksums: Turns,
    threads: Kinds,
}

/// What users share, and what it is called.
#[derive(Debug)]
struct Turns {
    max: usize,
    what: &'static str,
    room: Arc<Room<String, Notified>>,
}

/// The place of an upload or of a checksum.
type Turn = Place<String, Notified>;

impl Turns {
    fn new(max: usize, what: &'static str) -> Self {
        Turns { max, what, room: Room::new(max, PART) }
    }

    /// A place among what is under way.
    async fn take(&self, user: &str) -> Result<Turn, WebError> {
        let turn = self.room.wait(user.to_owned(), 1, Notified::default());
        tokio::time::timeout(TURN_WAIT_MAX, turn).await.map_err(|_| {
            let Turns { max, what, .. } = self;
            let text = format!("{max} {what} are under way here; try again, or another DataNode");
            WebError::new(Exception::Retriable, text)
        })
    }
}

/// The part of a request that was understood so far.
struct Asked {
    op: Op,
    path: DfsPath,
    query: Query,
    /// Who asks.
    user: String,
    client: DfsClient,
    /// Text for the client about its parameters that are ignored.
    warning: Option<String>,
}

impl Face {
    /// A face that reads and writes through `client`, as the caller.
    pub fn new(client: DfsClient, settings: Settings) -> Self {
        let inner = Inner {
            clients: Clients::new(client),
            settings,
            uploads: Turns::new(UPLOADS_MAX, "uploads"),
            checksums: Turns::new(CHECKSUMS_MAX, "checksums"),
            threads: Kinds::new(),
        };
        Face { inner: Arc::new(inner) }
    }

    /// The routes under `/webhdfs/v1`.
    pub fn router(self) -> Router {
        Router::new()
            .route("/webhdfs/v1", any(handle))
            .route("/webhdfs/v1/", any(handle))
            .route("/webhdfs/v1/{*path}", any(handle))
            .with_state(self)
    }

    /// Answers a request under `/webhdfs/v1`.
    pub async fn handle(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        Ear::judged(&parts.extensions, None);
        if parts.method == Method::OPTIONS {
            return preflight();
        }
        let believes_names = matches!(self.inner.settings.trust, Trust::Names);
        if believes_names && session::is_foreign(&parts.headers) {
            let text = "a page of another host may not use WebHDFS where names are believed";
            drain::linger(&parts.headers, body);
            return WebError::new(Exception::AccessControl, text).response();
        }
        let (mut response, body) = self.answer(&parts, body).await;
        drain::linger(&parts.headers, body);
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
        response
    }

    fn understand(&self, parts: &Parts) -> Result<Asked, WebError> {
        let query = Query::of(&parts.uri)?;
        let op = find(&parts.method, query.text("op").unwrap_or_default())?;
        let path = path::decode(parts.uri.path())?;
        let user = match parts.extensions.get() {
            Some(KnownUser(user)) => user.clone(),
            None => self.user(&query, op, &path)?,
        };
        let warning = op.judge(&query)?;
        // A name that is believed proves nothing.
        if let (Trust::Tokens(_), Some(peer)) =
            (&self.inner.settings.trust, parts.extensions.get::<Peer>())
        {
            peer.line.trust(&user);
        }
        let client = self.inner.clients.of(&user);
        Ok(Asked { op, path, query, user, client, warning })
    }

    fn user(&self, query: &Query, op: Op, path: &DfsPath) -> Result<String, WebError> {
        let Trust::Tokens(key) = &self.inner.settings.trust else {
            return identity::believed(query, &self.inner.settings.config);
        };
        let Some(token) = query.text("delegation") else {
            let text = "Authentication required: ask the NameNode first, and follow its redirect";
            return Err(WebError::new(Exception::Unauthenticated, text));
        };
        Redirect::open(key, token, op, path, transport::rpc::now_ms())
            .map_err(|error| WebError::new(Exception::InvalidToken, error.to_string()))
    }

    /// Answers; also returns what was not read of the body.
    async fn answer(&self, parts: &Parts, mut body: Body) -> (Response, Body) {
        let asked = match self.understand(parts) {
            Ok(asked) => asked,
            Err(error) => return (error.response(), body),
        };
        let warning = asked.warning.clone();
        let answer = match asked.op {
            Op::Open => self.open(asked).await,
            Op::GetFileChecksum => self.checksum(asked).await,
            _ => self.write(asked, &mut body).await,
        };
        let answer = answer.unwrap_or_else(WebError::into_response);
        let answer = match &warning {
            Some(warning) => warned(answer, warning),
            None => answer,
        };
        (answer, body)
    }
}

/// The operations of this side.
fn find(method: &Method, name: &str) -> Result<Op, WebError> {
    let op = Op::find(method, name)?;
    match op {
        Op::Open | Op::GetFileChecksum | Op::Create | Op::Append => Ok(op),
        op => Err(WebError::illegal(format!("Invalid operation {}", op.name()))),
    }
}

async fn handle(State(face): State<Face>, request: Request) -> Response {
    face.handle(request).await
}

/// Answers what browsers ask before they send a PUT from another page.
fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Accept")),
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("PUT")),
        (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE_S),
    ];
    (StatusCode::OK, headers).into_response()
}

/// The error of a blocking task that did not come to its end.
fn panicked(_: tokio::task::JoinError) -> WebError {
    WebError::new(
        Exception::Runtime,
        "the request was given up: this daemon is stopping or has a defect",
    )
}

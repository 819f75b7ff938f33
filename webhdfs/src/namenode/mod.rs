//! The NameNode's side, over whatever can make its calls: the NameNode itself, or a gateway through a client.

mod blocks;
mod changes;
mod reads;
mod special;
mod steps;
mod tokens;
mod trust;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use client::namesystem::{CallOrigin, Namesystem};
use daemon::params::Ear;
use daemon::serve::Peer;
use parking_lot::Mutex;
use protocol::namenode::{Call, DatanodeReport, Reply, TypedCall};
use protocol::{DfsPath, ErrorKind};

pub use self::trust::{KnownUser, Trust};

use self::trust::Identity;
use crate::config::{Auth, Config};
use crate::error::WebError;
use crate::judge::warned;
use crate::op::{Op, Responder};
use crate::query::Query;
use crate::{cookie, drain, path, redirect};

/// How long the known state of DataNodes is used for further redirects: it changes more slowly.
const NODES_FRESH: Duration = Duration::from_millis(500);
/// How long a request waits for a NameNode that has just started; otherwise Hadoop's clients would need an answer to try again.
const STARTUP_WAIT_MAX: Duration = Duration::from_secs(20);
/// Pause between tries meanwhile.
const STARTUP_PAUSE: Duration = Duration::from_millis(100);

/// What the face needs to know of its surroundings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The operator's decisions.
    pub config: Config,
    /// How callers are judged.
    pub trust: Trust,
    /// `host:port` that others use for this daemon.
    pub advertised: String,
}

/// The face of a NameNode. Cheap to clone.
#[derive(Debug)]
pub struct Face<N> {
    inner: Arc<Inner<N>>,
}

#[derive(Debug)]
struct Inner<N> {
    namesystem: N,
    settings: Settings,
    own_host: String,
    nodes: Mutex<Option<(Instant, Arc<Vec<DatanodeReport>>)>>,
    /// Counts redirects, to spread them.
    redirects: AtomicUsize,
}

impl<N> Clone for Face<N> {
    fn clone(&self) -> Self {
        Face { inner: Arc::clone(&self.inner) }
    }
}

/// The part of a request that was understood so far.
struct Asked<'a> {
    op: Op,
    path: DfsPath,
    query: Query,
    user: String,
    /// Whether the caller was identified by a delegation token.
    by_token: bool,
    /// Who sent it; `None` within this process.
    peer: Option<&'a Peer>,
    headers: &'a HeaderMap,
    /// Text for the client about its parameters that are ignored.
    warning: Option<String>,
}

impl Asked<'_> {
    /// How messages name the client.
    fn client(&self) -> String {
        self.address().map(|address| address.to_canonical().to_string()).unwrap_or_default()
    }

    fn address(&self) -> Option<IpAddr> {
        self.peer.map(|peer| peer.address.ip())
    }
}

impl<N: Namesystem> Face<N> {
    /// A face over `namesystem`.
    pub fn new(namesystem: N, settings: Settings) -> Self {
        let inner = Inner {
            namesystem,
            settings,
            own_host: sys::host::host_name(),
            nodes: Mutex::new(None),
            redirects: AtomicUsize::new(0),
        };
        Face { inner: Arc::new(inner) }
    }

    /// The routes under `/webhdfs/v1`.
    pub fn router(self) -> Router {
        Router::new()
            .route("/webhdfs/v1", any(handle::<N>))
            .route("/webhdfs/v1/", any(handle::<N>))
            .route("/webhdfs/v1/{*path}", any(handle::<N>))
            .with_state(self)
    }

    /// Answers a request under `/webhdfs/v1`.
    pub async fn handle(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        Ear::judged(&parts.extensions, None);
        let response = match parts.method {
            Method::OPTIONS => self.options(&parts).await,
            _ => self.answer(&parts).await,
        };
        let response = response.unwrap_or_else(WebError::into_response);
        drain::linger(&parts.headers, body);
        response
    }

    pub(crate) async fn identify(
        &self,
        parts: &Parts,
        query: &Query,
    ) -> Result<Identity, WebError> {
        let Settings { config, trust, .. } = &self.inner.settings;
        trust.identify(parts, query, config).await
    }

    /// Answers what clients ask before anything else: which methods there are. Clients of HttpFS send their name with it and want it back signed.
    async fn options(&self, parts: &Parts) -> Result<Response, WebError> {
        let query = Query::of(&parts.uri)?;
        let trust = &self.inner.settings.trust;
        let Identity { user, by_token } = self.identify(parts, &query).await?;
        let allow = (header::ALLOW, HeaderValue::from_static("GET,PUT,POST,DELETE,OPTIONS"));
        let mut response = (StatusCode::OK, [allow]).into_response();
        if trust.auth == Auth::Simple && !by_token && query.text("user.name").is_some() {
            let cookie = cookie::sealed(&user, &trust.key, transport::rpc::now_ms());
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        Ok(response)
    }

    async fn understand<'a>(&self, parts: &'a Parts) -> Result<Asked<'a>, WebError> {
        let query = Query::of(&parts.uri)?;
        let name = query.text("op").unwrap_or_default();
        let op = Op::find(&parts.method, name)?;
        let Identity { user, by_token } = self.identify(parts, &query).await?;
        let warning = op.judge(&query)?;
        let path = path::decode(parts.uri.path())?;
        let peer = parts.extensions.get::<Peer>();
        let headers = &parts.headers;
        Ok(Asked { op, path, query, user, by_token, peer, headers, warning })
    }

    /// Refuses an OPEN as its first step does, for a caller that does both steps at once.
    ///
    /// # Errors
    /// The error for the client.
    pub async fn check_open(&self, parts: &Parts) -> Result<(), WebError> {
        self.open_step(&self.understand(parts).await?).await.map(drop)
    }

    async fn answer(&self, parts: &Parts) -> Result<Response, WebError> {
        let asked = self.understand(parts).await?;
        let answer = match asked.op.responder() {
            Responder::Refused(reason) => {
                let text = format!("{} is not supported: {reason}", asked.op.name());
                return Err(WebError::unsupported(text));
            }
            Responder::Redirect => self.step(&asked).await,
            Responder::Tokens => self.tokens(&asked).await,
            Responder::Namenode if asked.op.method() == "GET" => self.read(&asked).await,
            Responder::Namenode => self.change(&asked).await,
        };
        let response = answer.unwrap_or_else(WebError::into_response);
        Ok(match &asked.warning {
            Some(warning) => warned(response, warning),
            None => response,
        })
    }

    /// Makes a call for the client and returns the answer that it names.
    async fn ask<C: TypedCall>(&self, asked: &Asked<'_>, call: C) -> Result<C::Answer, WebError> {
        Ok(self.call(asked, call.into()).await?.try_into()?)
    }

    /// Makes any call for the client; waits for a NameNode that has just started.
    async fn call(&self, asked: &Asked<'_>, call: Call) -> Result<Reply, WebError> {
        let host = self.host_of(asked).await?;
        let deadline = Instant::now() + STARTUP_WAIT_MAX;
        loop {
            let from = CallOrigin { host: &host, address: asked.address(), call: None };
            match self.inner.namesystem.call(&asked.user, from, call.clone()).await {
                Ok(reply) => return Ok(reply),
                Err(error)
                    if error.kind == ErrorKind::StartupSafeMode && Instant::now() < deadline =>
                {
                    tokio::time::sleep(STARTUP_PAUSE).await;
                }
                Err(error) => return Err(WebError::from_remote(asked.op, error)),
            }
        }
    }

    /// Name of the client's machine if a DataNode runs there.
    async fn host_of(&self, asked: &Asked<'_>) -> Result<String, WebError> {
        let nodes = self.nodes(asked).await?;
        Ok(redirect::host_of(&nodes, asked.address()))
    }

    /// The DataNodes as they were a moment ago.
    async fn nodes(&self, asked: &Asked<'_>) -> Result<Arc<Vec<DatanodeReport>>, WebError> {
        if let Some((at, nodes)) = &*self.inner.nodes.lock()
            && at.elapsed() < NODES_FRESH
        {
            return Ok(Arc::clone(nodes));
        }
        let nodes = self.inner.namesystem.datanodes(&asked.user).await;
        let nodes = Arc::new(nodes.map_err(|error| WebError::from_remote(asked.op, error))?);
        *self.inner.nodes.lock() = Some((Instant::now(), Arc::clone(&nodes)));
        Ok(nodes)
    }

    /// A different number for each redirect.
    fn salt(&self) -> usize {
        self.inner.redirects.fetch_add(1, Ordering::Relaxed)
    }
}

async fn handle<N: Namesystem>(State(face): State<Face<N>>, request: Request) -> Response {
    face.handle(request).await
}

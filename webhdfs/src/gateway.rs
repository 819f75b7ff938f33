//! A gateway: one address that serves names and data itself, for clients that cannot reach the DataNodes.
//!
//! Reads are answered at once, as HttpFS does. Clients that write expect to be redirected first - Python's take the Location
//! of the first answer - so a gateway redirects writes to itself, marked with `data=true`. Clients of HttpFS that know that mark send their data at once: who
//! they are is found out as in the first step. Whoever asks not to be redirected (`noredirect=true`) is told that address, of reads, too.
//!
//! Invariant: whatever has the token of a redirect is a second step, of a read as of a write, and that token alone decides: see `handle`.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use client::ClientConfig;
use client::dfs::{DfsClient, DfsError};
use client::namesystem::Remote;
use daemon::auth::Authenticator;
use daemon::front;
use daemon::hosts::{Host, Hosts};
use daemon::params::Ear;
use daemon::serve::door::{CertificateFiles, Door};
use daemon::serve::line::Peer;
use daemon::serve::{self, Advertise, Limits};
use daemon::session;
use daemon::supervisor;
use daemon::{ServeError, Shutdown};
use protocol::address::{authority_of, secure_url_of, url_of};
use protocol::auth::{Role, Service};
use serde::{Deserialize, Serialize};
use transport::RpcError;
use transport::rpc::{Health, RpcClient};

use crate::config::{Auth, Config, HOSTS_KEY};
use crate::error::WebError;
use crate::namenode::KnownUser;
use crate::op::Op;
use crate::query::Query;
use crate::token::keeper::{Asked, Keeper};
use crate::token::{Redirect, token_key};
use crate::{datanode, drain, json, namenode, path, redirect};

/// Parameter that marks the second step of a write.
const DATA: &str = "data";

/// Configuration of a gateway.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayConfig {
    /// `http://host:port` of the NameNode.
    pub namenode: String,
    /// File with the cluster secret.
    pub secret_file: PathBuf,
    /// `host:port` to listen on. Default `127.0.0.1:14000`, the port of HDFS's HttpFS.
    pub bind: String,
    /// `host:port` that clients use instead of `bind`, if it differs.
    pub advertise: Option<String>,
    /// Certificate and key of an authority, for other clients than Hanno's: `{ certificate = "FILE", key = "FILE" }`. Absent: one that it makes at each start.
    pub tls: Option<CertificateFiles>,
    /// Serves plain requests of other machines, too, for clients that cannot encrypt. Default false.
    pub allow_unencrypted: bool,
    /// Who may call it, and as whom.
    pub webhdfs: Config,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        GatewayConfig {
            namenode: String::new(),
            secret_file: PathBuf::new(),
            bind: "127.0.0.1:14000".to_owned(),
            advertise: None,
            tls: None,
            allow_unencrypted: false,
            webhdfs: Config::default(),
        }
    }
}

impl GatewayConfig {
    /// Keys that may be absent and have no default.
    pub const OPTIONAL: [&'static str; 2] = ["advertise", "tls"];
}

/// Why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The configuration makes no sense.
    #[error("configuration: {key} {problem}")]
    Config {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// It cannot listen, or read the secret.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The NameNode's address cannot be used.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// As [`GatewayError::Rpc`], for data.
    #[error(transparent)]
    Dfs(#[from] DfsError),
}

/// Runs a gateway until `shutdown`.
///
/// # Errors
/// [`GatewayError`] if it cannot start.
pub async fn run(config: GatewayConfig, shutdown: Shutdown) -> Result<(), GatewayError> {
    let fail = |key, problem| Err(GatewayError::Config { key, problem });
    if config.namenode.is_empty() {
        return fail("namenode", "is missing: the address http://host:port of the NameNode");
    }
    config.webhdfs.warn();
    let secret = daemon::secret::load(&config.secret_file, false)?;
    // Clients are redirected to the host that they asked.
    let advertise = config
        .advertise
        .as_deref()
        .map_or(Advertise::Nothing, |address| Advertise::address(Some(address)));
    let door = Door::new(config.tls.as_ref(), config.allow_unencrypted)?;
    let listener = serve::bind(&config.bind, advertise).await?;
    let advertised = config.advertise.clone().unwrap_or_else(|| config.bind.clone());
    let rpc =
        RpcClient::new(&config.namenode, Role::Client, Some(&secret))?.expecting(Service::Namenode);
    let (key, key_of_cluster) = (token_key(&secret), secret.clone());
    let client = DfsClient::connect(&ClientConfig {
        namenode: Some(config.namenode.clone()),
        secret: Some(secret),
        ..ClientConfig::default()
    })?;
    let names = Remote::new(rpc.clone());
    let trust = namenode::Trust {
        auth: config.webhdfs.auth,
        authenticator: Authenticator::new(&key_of_cluster, Service::Gateway),
        keeper: Keeper::Namenode(Asked::new(rpc, key.clone())),
        key: key.clone(),
    };
    let settings = namenode::Settings {
        config: config.webhdfs.clone(),
        trust: trust.clone(),
        advertised: advertised.clone(),
    };
    let data = datanode::Settings {
        config: config.webhdfs.clone(),
        trust: match config.webhdfs.auth {
            Auth::Simple => datanode::Trust::Names,
            Auth::Token => datanode::Trust::Tokens(key),
        },
        advertised: advertised.clone(),
    };
    let gateway = Gateway {
        names: namenode::Face::new(names, settings),
        data: datanode::Face::new(client, data),
        trust,
        config: Arc::new(config),
        advertised: advertised.into(),
    };
    tracing::info!(address = %gateway.advertised, namenode = %gateway.config.namenode, "gateway is up");
    let hosts = Hosts::new(&gateway.advertised, &gateway.config.webhdfs.hosts, HOSTS_KEY);
    let routes = front::guard(gateway.router(), hosts);
    supervisor::status("serves");
    supervisor::ready();
    serve::serve(listener, door, routes, Limits::default(), shutdown).await;
    Ok(())
}

#[derive(Clone)]
struct Gateway {
    names: namenode::Face<Remote>,
    data: datanode::Face,
    config: Arc<GatewayConfig>,
    advertised: Arc<str>,
    trust: namenode::Trust,
}

impl Gateway {
    fn router(self) -> Router {
        let health = Health {
            service: "gateway".to_owned(),
            secret_file: self.config.secret_file.canonicalize().ok(),
            ready: true,
            more: Default::default(),
        };
        Router::new()
            .route("/webhdfs/v1", any(handle))
            .route("/webhdfs/v1/", any(handle))
            .route("/webhdfs/v1/{*path}", any(handle))
            .with_state(self)
            .layer(from_fn(session::refuse_foreign))
            .route("/healthz", get(move || async move { axum::Json(health) }))
    }

    /// Both steps of OPEN. Past the end of a file the first refuses what the second would cut off.
    async fn open(&self, request: Request, query: &Query) -> Response {
        let (parts, body) = request.into_parts();
        if query.size("offset", 0).is_ok_and(|offset| offset.is_some_and(|offset| offset > 0))
            && let Err(refusal) = self.names.check_open(&parts).await
        {
            drain::linger(&parts.headers, body);
            return refusal.response();
        }
        self.data(Request::from_parts(parts, body)).await
    }

    /// A read or a write in one step, for any caller who proves an identity.
    async fn data(&self, request: Request) -> Response {
        let (mut parts, body) = request.into_parts();
        let identity = match Query::of(&parts.uri) {
            Ok(query) => self.names.identify(&parts, &query).await,
            Err(refusal) => Err(refusal),
        };
        match identity {
            Ok(identity) => {
                parts.extensions.insert(KnownUser(identity.user));
                self.data.handle(Request::from_parts(parts, body)).await
            }
            Err(refusal) => {
                drain::linger(&parts.headers, body);
                refusal.response()
            }
        }
    }

    /// The URL of the second step: here again, under the name that the client used.
    async fn location(&self, parts: &Parts, op: Op, query: &Query) -> Result<String, WebError> {
        let user = self.names.identify(parts, query).await?.user;
        Ear::judged(&parts.extensions, op.judge(query)?);
        let path = path::decode(parts.uri.path())?;
        let host = Host::of(&parts.headers).map(|host| host.to_string());
        let address = host.as_deref().unwrap_or(&self.advertised);
        let namenode = authority_of(&self.config.namenode);
        let credentials = self.trust.credentials(&user, op, &path);
        // The way that the client found good.
        let is_encrypted =
            parts.extensions.get::<Peer>().is_some_and(|peer| peer.certificate.is_some());
        let base = if is_encrypted { secure_url_of(address) } else { url_of(address) };
        let url = redirect::location(&base, &path, op, &credentials, namenode, query);
        Ok(format!("{url}&{DATA}=true"))
    }
}

async fn handle(State(gateway): State<Gateway>, request: Request) -> Response {
    let understood = Query::of(request.uri()).and_then(|query| {
        let op = Op::find(request.method(), query.text("op").unwrap_or_default())?;
        let direct = !query.boolean("noredirect", false)?;
        Ok((op, direct, query))
    });
    // The face says what is wrong.
    let Ok((op, direct, query)) = understood else { return gateway.names.handle(request).await };
    let is_read = matches!(op, Op::Open | Op::GetFileChecksum);
    let is_write = matches!(op, Op::Create | Op::Append);
    let Ok(is_second) = query.boolean(DATA, false) else {
        let (parts, body) = request.into_parts();
        drain::linger(&parts.headers, body);
        let problem = "it marks the second step of a write, which is \"true\"";
        return WebError::parameter(DATA, problem).response();
    };
    match () {
        // The address that an earlier answer told.
        () if (is_read || is_write) && is_redirected(&query) => gateway.data.handle(request).await,
        () if op == Op::Open && direct => gateway.open(request, &query).await,
        () if is_read && direct => gateway.data(request).await,
        // The caller left the first step out.
        () if is_write && is_second => gateway.data(request).await,
        () if !is_read && !is_write => gateway.names.handle(request).await,
        () => {
            let (parts, body) = request.into_parts();
            let answer = match gateway.location(&parts, op, &query).await {
                Ok(url) if direct => redirected(&url),
                Ok(url) => json::ok(&json::named("Location", url)),
                Err(error) => error.response(),
            };
            drain::linger(&parts.headers, body);
            answer
        }
    }
}

/// True if the caller proves itself by the token of a redirect.
fn is_redirected(query: &Query) -> bool {
    query.text("delegation").is_some_and(Redirect::is_one)
}

fn redirected(url: &str) -> Response {
    match HeaderValue::from_str(url) {
        Ok(url) => {
            let headers = [(header::CONTENT_TYPE, json::BYTES), (header::LOCATION, url)];
            (StatusCode::TEMPORARY_REDIRECT, headers).into_response()
        }
        Err(_) => WebError::illegal("the address of this gateway is no name").response(),
    }
}

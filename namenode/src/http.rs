//! The routes: signed messages of clients and DataNodes, and `/healthz`.

use std::net::IpAddr;

use axum::middleware::from_fn;
use axum::routing::get;
use axum::{Json, Router};
use daemon::access::Access;
use daemon::auth::{Authenticator, Signer};
use daemon::front::{self, Guarded};
use daemon::groups::check_user;
use daemon::hosts::Hosts;
use daemon::rpc::{self, Sender};
use daemon::session::{self, Sessions};
use protocol::auth::{Key, Role};
use protocol::namenode::{Answer, Request, VERSION};
use protocol::wire::bundle;
use protocol::{ErrorKind, RemoteError};
use webhdfs::namenode::Trust;
use webhdfs::token::manager::TokenManager;
use webhdfs::token::operator;

use crate::config::Config;
use crate::service::{Local, Origin, Service};
use crate::{monitor, pages, settings};

/// Bytes of a client's request: a batch of a thousand calls with the longest paths.
const CLIENT_BYTES_MAX: usize = 16 << 20;
/// Bytes of a DataNode's request: a part of a report with some room.
const DATANODE_BYTES_MAX: usize = 16 << 20;
/// Who makes the calls of clients.
const CLIENTS: &[Role] = &[Role::Client, Role::Task];

pub(crate) fn router(
    service: Service,
    (auth, secret): (Authenticator, Key),
    (trust, manager): (Trust, TokenManager),
    config: &Config,
) -> Guarded {
    let (clients, nodes, health) = (service.clone(), service.clone(), service);
    let secret_file = config.secret_path();
    let secret_file = secret_file.canonicalize().unwrap_or(secret_file);
    let advertised = config.advertised().to_owned();
    let web = Local::new(health.clone(), "webhdfs");
    let tokens = operator::route(auth.clone(), manager);
    let settings = webhdfs::namenode::Settings {
        trust,
        config: config.webhdfs.clone(),
        advertised: advertised.clone(),
    };
    let sessions = Sessions::new(auth.clone(), "namenode", &advertised);
    let access = Access::new(auth.clone(), Some(sessions.clone()), config.webhdfs.auth);
    let face = webhdfs::namenode::Face::new(web.clone(), settings);
    let pages = pages::router(web.clone(), (face.clone(), secret), (sessions, &access));
    let monitor = monitor::router(web, auth.clone(), advertised.clone());
    let web = face.router().layer(from_fn(session::refuse_foreign));
    let hosts = Hosts::new(config.advertised(), &config.webhdfs.hosts, webhdfs::config::HOSTS_KEY);
    let routes = Router::new()
        .route(
            "/rpc",
            rpc::message_from(auth.clone(), CLIENTS, CLIENT_BYTES_MAX, {
                let service = clients.clone();
                move |sender, request| call(service.clone(), sender, request)
            }),
        )
        .route(
            bundle::TARGET,
            rpc::bundle_from(auth.clone(), CLIENTS, move |sender, requests| {
                calls(clients.clone(), sender, requests)
            }),
        )
        .route(
            "/rpc/datanode",
            rpc::message(auth, &[Role::Datanode], DATANODE_BYTES_MAX, move |request| {
                let service = nodes.clone();
                async move { service.datanode(request).await }
            }),
        )
        .route("/rpc/tokens", tokens)
        .route(
            "/healthz",
            get(move || {
                let body = health.health(&secret_file, &advertised);
                async move { Json(body) }
            }),
        )
        .merge(web)
        .merge(pages)
        .merge(monitor)
        .merge(daemon::inspect::routes(&access, settings::of(config)));
    front::guard(routes, hosts).with_pages(front::Pages::WithLogin)
}

/// Answers a client's call.
async fn call(service: Service, sender: Sender, request: Request) -> Answer {
    let (request, origin) = admit(&sender, request)?;
    service.client(request, origin).await
}

/// Answers calls that share a request. Those that are refused before they are made do not hold up the others.
async fn calls(service: Service, sender: Sender, requests: Vec<Request>) -> Vec<Answer> {
    let (mut refusals, mut admitted) = (Vec::new(), Vec::new());
    for request in requests {
        match admit_shared(&sender, request) {
            Ok(request) => {
                admitted.push(request);
                refusals.push(None);
            }
            Err(refusal) => refusals.push(Some(refusal)),
        }
    }
    let mut answers = service.clients(admitted).await.into_iter();
    let unanswered = || Err(RemoteError::new(ErrorKind::Unavailable, "the call has no answer"));
    let answer = |refusal: Option<RemoteError>| match refusal {
        Some(refusal) => Err(refusal),
        None => answers.next().unwrap_or_else(unanswered),
    };
    refusals.into_iter().map(answer).collect()
}

/// The call, and where it comes from, if its sender may make it in that name.
fn admit(sender: &Sender, request: Request) -> Result<(Request, Origin), RemoteError> {
    refuse_other_names(&sender.signer, &request)?;
    RemoteError::check_version(request.version, VERSION)?;
    check_user(&request.user)?;
    let address = sender.address.map(|address: IpAddr| address.to_string()).unwrap_or_default();
    Ok((request, Origin { address, protocol: "rpc" }))
}

/// As [`admit`] for a call that shares a request: all of them wait for the last answer, and all answers are in memory at once.
fn admit_shared(sender: &Sender, request: Request) -> Result<(Request, Origin), RemoteError> {
    if !request.body.is_brief() {
        let text =
            "only a call with a brief answer shares a request with others: send this one alone";
        return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
    }
    admit(sender, request)
}

/// A task can act only as the user of its job.
fn refuse_other_names(signer: &Signer, request: &Request) -> Result<(), RemoteError> {
    if signer.speaks_for(&request.user) {
        return Ok(());
    }
    let text = format!("Permission denied: a task is not allowed to impersonate {}", request.user);
    Err(RemoteError::new(ErrorKind::PermissionDenied, text))
}

impl Service {
    /// Answers at once, also while the log does not move on: whoever looks at `durable_txid` twice sees that.
    fn health(&self, secret_file: &std::path::Path, advertised: &str) -> serde_json::Value {
        let shared = &self.shared;
        let state = shared.state();
        let reason = state.safe_mode_reason(&shared.nodes.lock().nodes, shared.now());
        serde_json::json!({
            "service": "namenode",
            "cluster": state.cluster().to_string(),
            "epoch": shared.epoch.0,
            "feature_level": state.standing.level().0,
            "ready": reason.is_none(),
            "safe_mode": reason,
            "resources_low": state.is_low_on_resources(),
            "secret_file": secret_file,
            "address": advertised,
            "durable_txid": shared.host.committed().0,
        })
    }
}

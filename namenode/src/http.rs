//! The routes: signed messages of clients and DataNodes, and `/healthz`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::middleware::from_fn;
use axum::routing::get;
use axum::{Json, Router};
use daemon::Shutdown;
use daemon::access::Access;
use daemon::auth::{Authenticator, Signer};
use daemon::carried::carried;
use daemon::front::{self, Guarded};
use daemon::hosts::Hosts;
use daemon::rpc::{self, Sender};
use daemon::session::{self, Sessions};
use journal::Journal;
use protocol::auth::Role;
use protocol::datanode::{
    self, Heartbeat, REPORT_REPLICAS_MAX, Reply as NodeReply, Request as NodeRequest,
};
use protocol::namenode::{Answer, Body, Call, Reply, Request, VERSION};
use protocol::{ClientId, ErrorKind, RemoteError};
use tokio::sync::{mpsc, oneshot};
use webhdfs::namenode::{CallOrigin, Trust};
use webhdfs::token::book::Book;
use webhdfs::token::operator;

use crate::audit::{self, Audit, Origin};
use crate::config::Config;
use crate::lists;
use crate::monitor::{self, Load};
use crate::pages;
use crate::server::{Event, Shared, stopping};
use crate::settings;
use crate::topology::Topology;

/// Bytes of a client's request: a batch of a thousand calls with the longest paths.
const CLIENT_BYTES_MAX: usize = 16 << 20;
/// Bytes of a DataNode's request: a part of a report with some room.
const DATANODE_BYTES_MAX: usize = 16 << 20;

/// What the handlers need.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) journal: Journal,
    /// Where files for the operator are written.
    pub(crate) logs_dir: PathBuf,
    pub(crate) shutdown: Shutdown,
    /// The audit log, if there is one.
    pub(crate) audit: Option<Audit>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) config: Arc<Config>,
    /// Calls so far.
    pub(crate) load: Load,
}

pub(crate) fn router(
    service: Service,
    auth: Authenticator,
    (trust, book): (Trust, Book),
    config: &Config,
) -> Guarded {
    let (clients, nodes, health) = (service.clone(), service.clone(), service);
    let secret_file = config.secret_path();
    let secret_file = secret_file.canonicalize().unwrap_or(secret_file);
    let advertised = config.advertised().to_owned();
    let web = Web { service: health.clone(), id: ClientId(rand::random()), calls: Arc::default() };
    let tokens = operator::route(auth.clone(), book);
    let settings = webhdfs::namenode::Settings {
        trust,
        config: config.webhdfs.clone(),
        advertised: advertised.clone(),
    };
    let sessions = Sessions::new(auth.clone(), "namenode", &advertised);
    let access = Access::new(auth.clone(), Some(sessions.clone()), config.webhdfs.auth);
    let face = webhdfs::namenode::Face::new(web.clone(), settings);
    let pages = pages::router(web.clone(), face.clone(), (sessions, &access));
    let monitor = monitor::router(web, auth.clone(), advertised.clone());
    let web = face.router().layer(from_fn(session::refuse_foreign));
    let hosts = Hosts::new(config.advertised(), &config.webhdfs.hosts, webhdfs::config::HOSTS_KEY);
    let routes = Router::new()
        .route(
            "/rpc",
            rpc::message_from(
                auth.clone(),
                &[Role::Client, Role::Task],
                CLIENT_BYTES_MAX,
                move |sender: Sender, request: Request| {
                    let service = clients.clone();
                    async move {
                        refuse_other_names(&sender.signer, &request)?;
                        let address = sender.address.map(|address: IpAddr| address.to_string());
                        let address = address.unwrap_or_default();
                        service.client(request, Origin { address, protocol: "rpc" }).await
                    }
                },
            ),
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
    front::guard(routes, hosts)
}

/// A task may act as the user of its job only.
fn refuse_other_names(signer: &Signer, request: &Request) -> Result<(), RemoteError> {
    if signer.speaks_for(&request.user) {
        return Ok(());
    }
    let text = format!("Permission denied: a task is not allowed to impersonate {}", request.user);
    Err(RemoteError::new(ErrorKind::PermissionDenied, text))
}

/// WebHDFS's way to the namespace, in this process.
#[derive(Clone)]
pub(crate) struct Web {
    service: Service,
    /// A client of its own: a call that comes from outside is never a repeated one.
    id: ClientId,
    calls: Arc<AtomicU64>,
}

impl Web {
    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// What this daemon asks for its own pages, figures and redirects: nobody's call, so neither counted nor told in the audit log.
    pub(crate) async fn look(&self, user: &str, call: Call) -> Answer {
        self.service.answer(self.request(user, "", call), &mut Vec::new()).await
    }

    fn request(&self, user: &str, host: &str, call: Call) -> Request {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        Request::new(self.id, number, user, host, call)
    }
}

impl webhdfs::namenode::Namesystem for Web {
    async fn call(&self, user: &str, from: CallOrigin<'_>, call: Call) -> Answer {
        let address = from.address.map(|address| address.to_canonical().to_string());
        let origin = Origin { address: address.unwrap_or_default(), protocol: "webhdfs" };
        self.service.client(self.request(user, from.host, call), origin).await
    }

    async fn datanodes(&self, user: &str) -> Answer {
        self.look(user, Call::Datanodes).await
    }
}

impl Service {
    /// Answers a call, counts it and tells it in the audit log.
    pub(crate) async fn client(&self, request: Request, origin: Origin) -> Answer {
        if request.body.is_read() {
            return self.noted(request, origin).await;
        }
        // A change is made although its caller hangs up, and must be told.
        let service = self.clone();
        carried(async move { service.noted(request, origin).await }).await
    }

    async fn noted(&self, request: Request, origin: Origin) -> Answer {
        let (is_read, begin) = (request.body.is_read(), Instant::now());
        let answer = self.audited(request, origin).await;
        self.load.note(is_read, begin, &answer);
        answer
    }

    async fn audited(&self, request: Request, origin: Origin) -> Answer {
        let mut shown = Vec::new();
        let Some(audit) = &self.audit else { return self.answer(request, &mut shown).await };
        let calls = request.body.calls();
        let told = |call| audit::told((&request.user, &origin.address), call);
        let told: Vec<Option<String>> = calls.iter().map(told).collect();
        let answer = self.answer(request, &mut shown).await;
        let at_ms = self.shared.clock.now().wall_ms;
        let answers = match &answer {
            Ok(Reply::Batch(answers)) => answers,
            single => std::slice::from_ref(single),
        };
        // Reads show nobody's permissions.
        let shown = shown.into_iter().chain(std::iter::repeat(None));
        for ((told, permissions), answer) in told.into_iter().zip(shown).zip(answers) {
            let line =
                told.and_then(|told| audit::line((told, permissions, origin.protocol), answer));
            if let Some(line) = line {
                audit.note(at_ms, line).await;
            }
        }
        answer
    }

    /// Answers a call; `shown` is what the audit log tells with it.
    async fn answer(&self, request: Request, shown: &mut Vec<Option<String>>) -> Answer {
        if request.version != VERSION {
            let text = format!("version {} of the protocol is not {VERSION}", request.version);
            return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
        }
        let membership = self.shared.groups.of(&request.user).await;
        if let Some(answer) = self.administer(&request, &membership).await {
            return answer;
        }
        if request.body.is_read() {
            return self.shared.read(&request, &membership).await;
        }
        if matches!(request.body, Body::One(Call::RefreshNodes)) {
            let caller = membership.caller(&request.user);
            self.shared.state.read().guard(caller).check_superuser()?;
            return self.refresh_nodes().await;
        }
        let (sender, receiver) = oneshot::channel();
        let event = Event::Call(Box::new(request), membership, sender);
        self.events.send(event).await.map_err(|_| stopping())?;
        let answered = receiver.await.map_err(|_| stopping())?;
        *shown = answered.shown;
        answered.answer
    }

    /// Reads the lists of DataNodes again.
    async fn refresh_nodes(&self) -> Answer {
        let config = Arc::clone(&self.config);
        let read = tokio::task::spawn_blocking(move || lists::read(&config)).await;
        let read = read.map_err(|_| stopping())?;
        let lists = read.map_err(|error| {
            RemoteError::new(ErrorKind::InvalidArgument, protocol::error::chain(&error))
        })?;
        self.topology.forget();
        let (sender, receiver) = oneshot::channel();
        self.events.send(Event::Hosts(lists, sender)).await.map_err(|_| stopping())?;
        receiver.await.map_err(|_| stopping())?.answer
    }

    async fn datanode(&self, mut request: NodeRequest) -> datanode::Answer {
        if let NodeRequest::Register(register) = &mut request {
            register.info.rack = self.topology.rack_of(&register.info).await;
        }
        match &request {
            NodeRequest::Heartbeat(beat) => return self.heartbeat(beat).await,
            NodeRequest::FullReport(report)
                if report.finalized.len() + report.unfinished.len() > REPORT_REPLICAS_MAX =>
            {
                let text = format!("more than {REPORT_REPLICAS_MAX} replicas in one part");
                return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
            }
            NodeRequest::Changes(changes) if changes.count() > REPORT_REPLICAS_MAX => {
                let text = format!("more than {REPORT_REPLICAS_MAX} changes in one message");
                return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
            }
            _ => {}
        }
        let (sender, receiver) = oneshot::channel();
        let event = Event::Datanode(Box::new(request), sender);
        self.events.send(event).await.map_err(|_| stopping())?;
        receiver.await.map_err(|_| stopping())?
    }

    async fn heartbeat(&self, beat: &Heartbeat) -> datanode::Answer {
        let shared = &self.shared;
        let fenced = |text: &str| Err(RemoteError::new(ErrorKind::Fenced, text));
        if beat.epoch != shared.epoch {
            return fenced("the NameNode was restarted: register again");
        }
        let now_ms = shared.clock.now().mono_ms;
        let Some(beat) = shared.nodes.heartbeat(beat, now_ms) else {
            return fenced("this DataNode is not registered or was given up: register again");
        };
        if beat.first {
            // Now it has room: safe mode may end and copies may begin. If the queue is full, the next tick sees to it.
            let _ = self.events.try_send(Event::Tick);
        }
        let mut commands = beat.commands;
        if commands.is_empty() {
            let held = tokio::time::timeout(
                Duration::from_millis(shared.heartbeat_ms),
                beat.wake.notified(),
            );
            tokio::select! {
                _ = held => {}
                () = self.shutdown.wait() => {}
            }
            commands = shared.nodes.take_commands(beat.index);
        }
        Ok(NodeReply::Commands { epoch: shared.epoch, commands })
    }

    fn health(&self, secret_file: &std::path::Path, advertised: &str) -> serde_json::Value {
        let shared = &self.shared;
        let state = shared.state.read();
        let reason = state.safe_mode_reason(&shared.nodes.lock().nodes, shared.clock.now());
        serde_json::json!({
            "service": "namenode",
            "cluster": state.cluster().to_string(),
            "epoch": shared.epoch.0,
            "ready": reason.is_none(),
            "safe_mode": reason,
            "secret_file": secret_file,
            "address": advertised,
            "durable_txid": shared.waiters.durable(),
        })
    }
}

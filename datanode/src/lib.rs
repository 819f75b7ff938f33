//! The DataNode: stores replicas of blocks, serves them, copies them on the NameNode's orders.
//!
//! | module | |
//! |---|---|
//! | [`core`] | decisions without effects: life of a replica, copies, recovery, session and reports, scanner's schedule |
//! | [`store`] | replicas on disk |
//! | [`transfer`] | the block transfer service |
//! | `namenode` | registration, reports, commands |
//! | [`scanner`] | verifies replicas in the background |
//! | `probes` | checks of the data directories |
//! | `heartbeats` `traffic` `metrics` | figures for monitors |
//! | `page` `monitor` | what people and monitors see of it |

mod config;
pub mod core;
pub mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod heartbeats;
mod metrics;
mod monitor;
mod namenode;
mod page;
mod probes;
pub mod scanner;
pub mod store;
mod traffic;
pub mod transfer;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use client::ClientConfig;
use client::dfs::DfsClient;
use daemon::front;
use daemon::hosts::Hosts;
use daemon::serve::Advertise;
use daemon::serve::door::Door;
use daemon::supervisor;
use daemon::{ServeError, Shutdown};
use protocol::auth::{self, Key, Role};
use protocol::namenode::DatanodeInfo;
use protocol::token::TokenKeys;
use sys::wake::Wake;
use transport::rpc::{Health, RpcClient};
use transport::{ConnectionPool, Listener, Timeouts};
use webhdfs::datanode::Trust;

use crate::core::scrub::Scrub;
use crate::namenode::Link;
use crate::scanner::Pacing;
use crate::store::{Store, VolumeConfig};
use crate::transfer::{Limits, Service};

pub use config::Config;
pub use error::Error;

/// How long an idle connection to another DataNode is kept: well below that DataNode's `io_timeout_ms`.
const PEER_IDLE_MAX: Duration = Duration::from_secs(20);

/// Runs a DataNode until `shutdown`.
///
/// # Errors
/// [`Error`] if it cannot start, or can never serve this NameNode.
pub async fn run(config: Config, shutdown: Shutdown) -> Result<(), Error> {
    config.check()?;
    let secret = daemon::secret::load(&config.secret_file, false)?;
    let advertise = Advertise::Address {
        key: "http_bind",
        remedy: "http_advertise",
        advertise: config.http_advertise.as_deref(),
    };
    let door = Door::new(config.tls.as_ref(), config.allow_unencrypted)?;
    let http = daemon::serve::bind(&config.http_bind, advertise).await?;
    let sockets = Sockets::bind(&config, &door)?;
    let volumes: Vec<VolumeConfig> = config
        .data_directories
        .iter()
        .map(|path| VolumeConfig {
            path: path.clone(),
            reserved_bytes: config.reserved_bytes,
            trash_grace: Duration::from_millis(config.trash_grace_ms),
            bypass_cache: config.bypass_cache,
            small_bytes_max: config.small_replica_bytes_max,
        })
        .collect();
    let (sync_interval, tolerated) = (config.sync_interval_bytes, config.failed_volumes_tolerated);
    let store =
        tokio::task::spawn_blocking(move || Store::open(&volumes, sync_interval, tolerated))
            .await
            .expect("opening the store does not panic")?;
    let store = Arc::new(store);
    let http_address = http.local_addr().map_err(|source| {
        Error::Serve(ServeError::Bind { address: config.http_bind.clone(), source })
    })?;
    let info = sockets.info(&config, &store, &http_address.to_string());
    let web_address = info.http_address.clone();
    tracing::info!(datanode = %info.id, transfer = %info.transfer_address, http = %info.http_address, "datanode starts");
    let timeouts = Timeouts {
        connect: Duration::from_millis(config.connect_timeout_ms),
        io: config.io_timeout(),
        idle: PEER_IDLE_MAX.min(config.io_timeout() / 2),
    };
    let peers = ConnectionPool::new(timeouts, true);
    let bandwidth = config.balancer_bandwidth_bytes;
    let service = Service::new(store, peers, TokenKeys::new(&secret), limits(&config), bandwidth);
    let rpc = RpcClient::new(&config.namenode, Role::Datanode, Some(&secret))?
        .expecting(auth::Service::Namenode);
    let threads = Threads::start(sockets, &service, &config)?;
    let router = router(&config, &service)
        .merge(web(&config, &secret, &web_address)?)
        .merge(monitor::router(&config, &secret, &service, &info))
        .merge(page::router((&config, &secret), (&service, &info), shutdown.clone()));
    let names: Vec<String> =
        config.webhdfs.hosts.iter().cloned().chain([info.host.clone()]).collect();
    let hosts = Hosts::new(&web_address, &names, webhdfs::config::HOSTS_KEY);
    let router = front::guard(router, hosts).with_pages(front::Pages::Open);
    let served = tokio::spawn(daemon::serve::serve(
        http,
        door,
        router,
        daemon::serve::Limits { descriptors_part: 4, ..Default::default() },
        shutdown.clone(),
    ));
    let strangers = tokio::spawn(Service::end_strangers(Arc::downgrade(&service)));
    supervisor::ready();
    let result = Link::new(rpc, Arc::clone(&service), info).run(shutdown.clone()).await;
    shutdown.begin();
    strangers.abort();
    // The service's task ends with the token; its work in progress is of no use any more.
    let _ = served.await;
    service.close();
    tokio::task::spawn_blocking(|| drop(threads)).await.expect("the threads are joined");
    result
}

/// Limits of the transfer service. A quarter of the descriptors is for HTTP, an eighth for connections of this service, a quarter for files that its operations
/// open, and the rest for disks, peers and the log.
fn limits(config: &Config) -> Limits {
    let descriptors = daemon::descriptors::max();
    let transfers_max = config.transfers_max.min(descriptors / 16).max(1);
    let connections_max = config.connections_max.min(descriptors / 8).max(4);
    if transfers_max < config.transfers_max || connections_max < config.connections_max {
        tracing::warn!(
            descriptors,
            transfers_max,
            connections_max,
            "fewer operations and connections at once than configured, for want of descriptors"
        );
    }
    Limits {
        transfers_max,
        connections_max,
        io_timeout: config.io_timeout(),
        writer_idle_max: Duration::from_millis(config.writer_idle_ms),
    }
}

fn router(config: &Config, service: &Arc<Service>) -> Router {
    let secret_file = config.secret_file.canonicalize().ok();
    let since = Instant::now();
    let health = move || {
        let version = ("version".to_owned(), env!("CARGO_PKG_VERSION").into());
        let uptime = ("uptime_s".to_owned(), since.elapsed().as_secs().into());
        Health {
            service: "datanode".to_owned(),
            secret_file: secret_file.clone(),
            ready: true,
            more: [version, uptime].into(),
        }
    };
    let service = Arc::clone(service);
    let metrics = move || {
        let figures = metrics::registry(&service);
        async move { daemon::metrics::answer(&figures) }
    };
    Router::new()
        .route("/healthz", get(move || async move { axum::Json(health()) }))
        .route("/metrics", get(metrics.clone()))
        .route("/prom", get(metrics))
}

/// The data side of WebHDFS: it uses a client of the file system, like any other program.
fn web(config: &Config, secret: &Key, advertised: &str) -> Result<Router, Error> {
    let client = ClientConfig {
        namenode: Some(config.namenode.clone()),
        secret: Some(secret.clone()),
        host: config.host.clone(),
        ..ClientConfig::default()
    };
    let client = DfsClient::connect(&client).map_err(|source| Error::Web { source })?;
    let settings = webhdfs::datanode::Settings {
        trust: match config.webhdfs.auth {
            webhdfs::Auth::Simple => Trust::Names,
            webhdfs::Auth::Token => Trust::Tokens(webhdfs::token::token_key(secret)),
        },
        config: config.webhdfs.clone(),
        advertised: advertised.to_owned(),
    };
    Ok(webhdfs::datanode::Face::new(client, settings).router())
}

/// The listening sockets of the transfer service.
struct Sockets {
    tcp: Listener,
    unix: Option<(Listener, String)>,
}

impl Sockets {
    fn bind(config: &Config, door: &Door) -> Result<Self, Error> {
        Advertise::address(config.advertise.as_deref()).check(&config.bind)?;
        let fail = |source| ServeError::Bind { address: config.bind.clone(), source };
        let tcp = Listener::tcp(&config.bind, door.certificate().clone()).map_err(fail)?;
        let unix = match config.local_socket {
            true => {
                let name =
                    protocol::transfer::local_socket_name(sys::host::user_id(), rand::random());
                Some((Listener::unix(&name).map_err(fail)?, name))
            }
            false => None,
        };
        Ok(Sockets { tcp, unix })
    }

    fn info(&self, config: &Config, store: &Store, http_address: &str) -> DatanodeInfo {
        let address = self.tcp.address().map(|address| address.to_string());
        let tcp_address = address.unwrap_or_else(|| config.bind.clone());
        DatanodeInfo {
            id: store.datanode(),
            host: config.host.clone().unwrap_or_else(sys::host::host_name),
            transfer_address: config.advertise.clone().unwrap_or(tcp_address),
            http_address: config.http_advertise.clone().unwrap_or_else(|| http_address.to_owned()),
            rack: config.rack.clone(),
            boot_id: sys::host::boot_id(),
            local_socket: self.unix.as_ref().map_or_else(String::new, |(_, name)| name.clone()),
        }
    }
}

/// The threads that listen, scan and check the disks; dropping this ends and joins them.
struct Threads {
    stop: Arc<Wake>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(sockets: Sockets, service: &Arc<Service>, config: &Config) -> Result<Self, Error> {
        let fail = |source| ServeError::Bind { address: config.bind.clone(), source };
        let stop = Arc::new(Wake::new().map_err(fail)?);
        let mut threads = Threads { stop: Arc::clone(&stop), handles: Vec::new() };
        let mut spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(run)
                .map(|handle| threads.handles.push(handle))
        };
        let (server, stopped_tcp) = (Arc::clone(service), Arc::clone(&stop));
        let tcp = sockets.tcp;
        spawn("accept-tcp", Box::new(move || server.accept(&tcp, &stopped_tcp))).map_err(fail)?;
        if let Some((unix, _)) = sockets.unix {
            let (server, stopped_unix) = (Arc::clone(service), Arc::clone(&stop));
            spawn("accept-unix", Box::new(move || server.accept(&unix, &stopped_unix)))
                .map_err(fail)?;
        }
        let (store, stopped_checks) = (Arc::clone(&service.store), Arc::clone(&stop));
        let pause = Duration::from_millis(config.volume_check_ms);
        spawn("volumes", Box::new(move || probes::run(&store, pause, &stopped_checks)))
            .map_err(fail)?;
        let store = Arc::clone(&service.store);
        let scrub = Scrub::new(Duration::from_secs(config.scan_period_s), config.scan_rate_bytes);
        let pacing = Pacing {
            rate: config.scan_rate_bytes,
            compare_period: Duration::from_secs(config.compare_period_s),
        };
        spawn("scanner", Box::new(move || scanner::run(&store, scrub, pacing, &stop)))
            .map_err(fail)?;
        Ok(threads)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.notify();
        for handle in self.handles.drain(..) {
            if handle.join().is_err() {
                tracing::error!("a thread of the DataNode panicked");
            }
        }
    }
}

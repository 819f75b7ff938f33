//! The NameNode: the file system's names, and which DataNode holds which block.
//!
//! | table | key | lock | durable | invariant |
//! |---|---|---|---|---|
//! | inodes | inode id | state | yes | a tree; totals of every directory are exact |
//! | blocks of the namespace | block id | state | yes | every block in exactly one file; only the last of an open file is incomplete |
//! | leases | client id | state | holders | every open file in the lease of its holder |
//! | standing orders | per kind | state | yes | tokens, DataNodes in maintenance: what the next NameNode must know |
//! | answers | call id | state | of changes | a repeated call gets its first answer for ten minutes |
//! | replicas | block id | state | no: from reports | good ones have the block's stamp and length |
//! | low, pending, doomed, corrupt | block id | state | no | the last good replica is never given up |
//! | DataNodes | DataNode id | nodes | no: they register | only monotonic time decides who is alive |
//! | answers held back | transaction | the host's gate | no | no answer, read or command leaves before its transaction is durable |
//!
//! - `core` is synchronous and pure; it changes only by edits, which replay in the same way.
//! - `server` is the machine that the [`host`]'s thread runs, which alone changes it. `service` answers calls, `http` has the routes,
//!   `pages` serves people, `monitor` serves monitoring; [`journal`] makes edits durable. `offline` reads the metadata of a NameNode that does not run.
//! - Ids of inodes and blocks, and generation stamps, never repeat.
//!
//! Enter with [`run`].

mod admin;
pub mod config;
pub mod core;
pub mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod groups;
mod http;
mod lists;
mod migration;
mod monitor;
mod nodes;
pub mod offline;
mod pages;
mod recover;
mod resources;
mod server;
mod service;
mod settings;
#[cfg(feature = "sim")]
pub mod sim;
mod startup;
mod topology;
pub mod trash;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use daemon::Shutdown;
use daemon::auth::Authenticator;
use daemon::hosts::host_part;
use daemon::serve::door::Door;
use daemon::serve::{self, Limits};
use daemon::shares::PART;
use daemon::shares::room::Room;
use daemon::supervisor;
use host::{Opening, Policy, Running, Start};
use journal::{Journal, Options};
use protocol::auth::{self, Key};
use protocol::token::TokenKeys;
use protocol::{ClusterId, Epoch};
use tokio::net::TcpListener;
use webhdfs::namenode::Trust;
use webhdfs::token::keeper::Keeper;
use webhdfs::token::manager::TokenManager;

pub use crate::config::Config;
use crate::config::Durability;
use crate::core::random::Generator;
use crate::core::safe_mode::Rule;
use crate::core::state::{Settings, State};
pub use crate::error::Error;
use crate::groups::Groups;
use crate::migration::Stored;
use crate::nodes::NodeTable;
use crate::recover::Recovering;
use crate::server::{Founder, NameNode, Notes, Shared, WALKS_MAX, moment};
use crate::service::audit::{self, Audit};
use crate::service::{Load, Service, TokenLedger};
use crate::startup::Startup;
use crate::topology::Topology;

/// Replicas that `close` waits for with `durability = "disk"`, as the promise says.
const DURABLE_MIN: u16 = 2;

/// Connections at once: each DataNode holds one with its heartbeat, and ten thousand of them must leave room for clients.
const CONNECTIONS_MAX: usize = 50_000;

/// Runs a NameNode until `shutdown` is triggered.
///
/// # Errors
/// [`Error`] if it cannot start, or had to stop: after [`Error::JournalStopped`] the process should end with code 75.
pub async fn run(config: Config, shutdown: Shutdown) -> Result<(), Error> {
    config.check()?;
    let advertise = serve::Advertise::address(config.advertise.as_deref());
    let listener = serve::bind(&config.bind, advertise).await.map_err(Error::Service)?;
    run_on(listener, config, shutdown).await
}

/// As [`run`], on a socket that listens already.
///
/// # Errors
/// As [`run`].
pub async fn run_on(
    listener: TcpListener,
    config: Config,
    shutdown: Shutdown,
) -> Result<(), Error> {
    config.check()?;
    let door = Door::new(config.tls.as_ref(), config.allow_unencrypted).map_err(Error::Service)?;
    let secret = prepare(&config)?;
    let opening = Opening::new({
        let shutdown = shutdown.clone();
        move || shutdown.begin()
    });
    let (opened, key) = (config.clone(), TokenKeys::new(&secret));
    let opened = tokio::task::spawn_blocking(move || open(&opened, key, opening));
    let Opened { shared, journal, running, files } =
        opened.await.map_err(|_| Error::LoopPanicked)??;
    if !files.is_empty() && shared.host.view(|_, _| ()).await.is_ok() {
        migration::remove(&files)?;
    }
    tracing::info!(address = %config.advertised(), epoch = %shared.epoch, "namenode is up");
    let disks = resources::Disks { config: config.clone(), journal: journal.clone() };
    let events = (*shared.host).clone();
    let watcher = tokio::spawn(resources::watch(events, disks, shutdown.clone()));

    let (audit, audit_writer) = start_audit(&config)?;
    let service = Service {
        audit,
        shared: Arc::clone(&shared),
        journal,
        logs_dir: config.data_dir.join("logs"),
        shutdown: shutdown.clone(),
        topology: Arc::new(Topology::new(&config)),
        config: Arc::new(config.clone()),
        load: Load::default(),
    };
    let times = trash::Times::of(&config);
    let emptier =
        tokio::spawn(trash::run(service.clone(), config.superuser(), times, shutdown.clone()));
    let authenticator = Authenticator::new(&secret, auth::Service::Namenode);
    let trust = trust(&config, &secret, (&authenticator, shared));
    let router = http::router(service, (authenticator, secret), trust, &config);
    let limits = Limits { connections_max: CONNECTIONS_MAX, ..Limits::default() };
    supervisor::ready();
    serve::serve(listener, door, router, limits, shutdown).await;

    emptier.abort();
    watcher.abort();
    let ended = running.stop().await;
    if let Some(writer) = audit_writer {
        writer.close().await;
    }
    ended.map_err(Error::from)
}

fn start_audit(config: &Config) -> Result<(Option<Audit>, Option<audit::Writer>), Error> {
    let audit = config.audit.then(|| audit::start(config)).transpose();
    let audit = audit.map_err(|source| Error::Host { action: "open the audit log", source })?;
    Ok(audit.unzip())
}

/// The data directory and the secret; both are made at the first start, or the secret is taken from a mirror.
fn prepare(config: &Config) -> Result<Key, Error> {
    sys::fs::create_private_dir(&config.data_dir).map_err(|source| Error::Directory {
        action: "create",
        path: config.data_dir.clone(),
        source,
    })?;
    let path = config.secret_path();
    // One that lies elsewhere is not lost with the data directory.
    let copies: Vec<PathBuf> = if path.starts_with(&config.data_dir) {
        config.log_dirs.iter().map(|dir| dir.join(JOURNAL_MIRROR).join("secret")).collect()
    } else {
        Vec::new()
    };
    daemon::secret::load_or_make(&path, &copies).map_err(Error::Service)
}

/// How callers of WebHDFS are judged.
fn trust(
    config: &Config,
    secret: &Key,
    (authenticator, shared): (&Authenticator, Arc<Shared>),
) -> (Trust, TokenManager) {
    config.webhdfs.warn();
    let key = webhdfs::token::token_key(secret);
    let manager = TokenManager::new(key.clone(), Arc::new(TokenLedger(shared)));
    let (auth, authenticator) = (config.webhdfs.auth, authenticator.clone());
    let keeper = Keeper::Local(manager.clone());
    (Trust { auth, authenticator, key, keeper }, manager)
}

/// Name of the NameNode's directory in each directory of `log_dirs`.
const JOURNAL_MIRROR: &str = "namenode-journal";

/// A NameNode that runs and serves nobody yet.
struct Opened {
    shared: Arc<Shared>,
    journal: Journal,
    running: Running<NameNode>,
    /// Files of an earlier version that the first turn has logged.
    files: Vec<PathBuf>,
}

/// Opens the journal, rebuilds the state and starts the host.
fn open(
    config: &Config,
    token_keys: TokenKeys,
    opening: Opening<NameNode>,
) -> Result<Opened, Error> {
    let nodes = Arc::new(NodeTable::new(config.stale_ms, config.dead_ms, config.tick_ms()));
    let mut recovering = Recovering::default();
    let image_interval = Duration::from_millis(config.image_interval_ms);
    let options = Options { image_interval, ..Options::new(config.data_dir.join("journal")) }
        .with_mirrors(&config.log_dirs, JOURNAL_MIRROR)
        .map_err(|source| Error::Host { action: "find the working directory", source })?;
    let (journal, recovered) =
        host::local::open(options, &mut recovering, opening.follower()).map_err(Error::Journal)?;
    let (load, replay) = recovering.work();
    let now = moment(opening.clock().now());
    let epoch = Epoch(recovered.epoch.0);
    let random = Generator::new(rand::random());
    let settings = settings_of(config, epoch, token_keys);
    let mut state = State::new(recovering.loaded, settings, random, now);
    let refreshed = state.refresh_nodes(&mut nodes.lock().nodes, lists::read(config)?, now);
    debug_assert!(refreshed.is_empty(), "nobody has registered yet");
    let stored = Stored::read(&config.data_dir)?;
    let files = stored.files.clone();
    let startup = Arc::new(Startup::loaded(load, replay));
    let machine = NameNode {
        nodes: Arc::clone(&nodes),
        startup: Arc::clone(&startup),
        epoch,
        heartbeat_ms: config.heartbeat_ms,
        founder: Founder {
            cluster: ClusterId(rand::random()),
            owner: config.superuser(),
            group: config.supergroup.clone(),
        },
        reports: VecDeque::new(),
        stored,
        notes: Notes::default(),
        told_safe: None,
    };
    let start = Start {
        name: "namenode-loop",
        machine,
        state,
        log: Box::new(journal.clone()),
        last: recovered.last,
        policy: Policy {
            rows: config.checkpoint_rows,
            interval: Duration::from_millis(config.checkpoint_ms),
        },
        tick: Duration::from_millis(config.tick_ms()),
    };
    let running = opening.start(start)?;
    let host = running.handle();
    let groups = Arc::new(Groups::new(config));
    let (heartbeat_ms, walks) = (config.heartbeat_ms, Room::new(WALKS_MAX, PART));
    let shared = Shared { host, nodes, epoch, heartbeat_ms, groups, startup, walks };
    Ok(Opened { shared: Arc::new(shared), journal, running, files })
}

fn settings_of(config: &Config, epoch: Epoch, token_keys: TokenKeys) -> Settings {
    Settings {
        epoch,
        host: host_part(config.advertised()).to_owned(),
        token_keys,
        replication: config.replication,
        block_size: config.block_size,
        block_size_min: config.block_size_min,
        durable_min: match config.durability {
            Durability::Disk => DURABLE_MIN,
            Durability::Memory => 0,
        },
        lease_soft_ms: config.lease_soft_ms,
        lease_hard_ms: config.lease_hard_ms,
        recovery_retry_ms: config.recovery_retry_ms,
        recovery_wait_max_ms: config.recovery_wait_max_ms,
        replication_streams: config.replication_streams,
        maintenance_min: config.maintenance_replication_min,
        pending_timeout_ms: config.replication_timeout_ms,
        arrival_timeout_ms: config.arrival_timeout_ms,
        delete_retry_ms: config.delete_retry_ms,
        unknown_grace_ms: config.unknown_grace_ms,
        list_limit: config.list_limit,
        trash_interval_ms: config.trash_interval_ms,
        safe_mode: Rule {
            threshold: config.safe_mode_threshold,
            datanodes_min: config.safe_mode_datanodes,
            extension_ms: config.safe_mode_extension_ms,
        },
        permissions: config.permissions,
        directory_items_max: config.directory_items_max,
        file_blocks_max: config.file_blocks_max,
        audit: config.audit,
    }
}

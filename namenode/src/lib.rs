//! The NameNode: the file system's names, and which DataNode holds which block.
//!
//! | table | key | lock | durable | invariant |
//! |---|---|---|---|---|
//! | inodes | inode id | state | yes | a tree; totals of every directory are exact |
//! | blocks of the namespace | block id | state | yes | every block in exactly one file; only the last of an open file is incomplete |
//! | leases | client id | state | holders | every open file in the lease of its holder |
//! | answers | call id | state | of changes | a repeated call gets its first answer for ten minutes |
//! | replicas | block id | state | no: from reports | good ones have the block's stamp and length |
//! | low, pending, doomed, corrupt | block id | state | no | the last good replica is never given up |
//! | DataNodes | DataNode id | nodes | no: they register | only monotonic time decides about life |
//! | waiters | transaction | waiters | no | no answer, read or command leaves before its transaction is durable |
//!
//! - `core` is synchronous and pure; it changes only by edits, which replay in the same way.
//! - `server` is the one thread that changes it; `service` answers calls, `http` has the routes, `pages` what people look at, `monitor` what monitors ask for; `journal` makes edits durable.
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
mod kept;
mod lists;
mod monitor;
mod nodes;
mod pages;
mod recover;
mod resources;
mod server;
mod service;
mod settings;
mod startup;
mod topology;
pub mod trash;
mod waiters;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use daemon::Shutdown;
use daemon::auth::Authenticator;
use daemon::hosts::host_part;
use daemon::serve::{self, Limits};
use journal::{Journal, JournalError, Options, Txid};
use parking_lot::{Mutex, RwLock};
use protocol::auth::{self, Key};
use protocol::token::TokenKeys;
use protocol::{ClusterId, Epoch};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use webhdfs::namenode::Trust;
use webhdfs::token::book::Book;
use webhdfs::token::keeper::Keeper;

pub use crate::config::Config;
use crate::config::Durability;
use crate::core::random::Generator;
use crate::core::safe_mode::Rule;
use crate::core::state::{Settings, State};
pub use crate::error::Error;
use crate::groups::Groups;
use crate::kept::MaintenanceFiles;
use crate::nodes::NodeTable;
use crate::recover::Recovering;
use crate::server::{Clock, Event, Loop, QUEUE_MAX, Shared};
use crate::service::audit::{self, Audit};
use crate::service::{Load, Service};
use crate::startup::Startup;
use crate::topology::Topology;
use crate::waiters::Waiters;

/// Replicas that `close` waits for with `durability = "disk"`, as the promise says.
const DURABLE_MIN: u16 = 2;

/// Connections at once: each DataNode holds one with its heartbeat, and ten thousand of them must leave room for clients.
const CONNECTIONS_MAX: usize = 50_000;

/// Runs a NameNode until `shutdown` is told.
///
/// # Errors
/// [`Error`] if it cannot start, or had to stop: after [`Error::JournalStopped`] the process should end with code 75.
pub async fn run(config: Config, shutdown: Shutdown) -> Result<(), Error> {
    config.check()?;
    let told = serve::Told::advertised(config.advertise.as_deref());
    let listener =
        serve::bind(&config.bind, told, config.allow_unencrypted).await.map_err(Error::Service)?;
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
    let secret = prepare(&config)?;
    let failure = Arc::new(Mutex::new(None));
    let (opening, told, failed) = (config.clone(), shutdown.clone(), Arc::clone(&failure));
    let key = TokenKeys::new(&secret);
    let opened = tokio::task::spawn_blocking(move || open(&opening, key, &told, &failed));
    let (shared, journal, book) = opened.await.map_err(|_| Error::LoopPanicked)??;
    tracing::info!(address = %config.advertised(), epoch = %shared.epoch, "namenode is up");

    let (sender, events) = mpsc::channel(QUEUE_MAX);
    let main_loop = Loop {
        shared: Arc::clone(&shared),
        events,
        journal: journal.clone(),
        checkpoint_rows: config.checkpoint_rows,
        checkpoint_ms: config.checkpoint_ms,
        checkpointed_ms: 0,
        reports: VecDeque::new(),
        book,
    };
    let guard = TellWhenDone(shutdown.clone());
    let thread = std::thread::Builder::new()
        .name("namenode-loop".to_owned())
        .spawn(move || {
            let _guard = guard;
            main_loop.run()
        })
        .map_err(|source| Error::Host { action: "start the loop's thread", source })?;
    let ticker = tokio::spawn(tick(sender.clone(), config.tick_ms(), shutdown.clone()));
    let disks = resources::Disks { config: config.clone(), journal: journal.clone() };
    let watcher = tokio::spawn(resources::watch(sender.clone(), disks, shutdown.clone()));

    let (audit, audit_writer) = start_audit(&config)?;
    let service = Service {
        audit,
        shared: Arc::clone(&shared),
        events: sender.clone(),
        journal: journal.clone(),
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
    let trust = trust(&config, &secret, &authenticator)?;
    let router = http::router(service, authenticator, trust, &config);
    let limits = Limits { connections_max: CONNECTIONS_MAX, ..Limits::default() };
    serve::serve(listener, router, limits, shutdown).await;

    ticker.abort();
    emptier.abort();
    watcher.abort();
    // The loop may have ended already; then nobody listens.
    let _ = sender.send(Event::Stop).await;
    let ended = tokio::task::spawn_blocking(move || {
        let ended = thread.join();
        journal.close();
        ended
    });
    let ended = ended.await.map_err(|_| Error::LoopPanicked)?;
    shared.waiters.abandon();
    if let Some(writer) = audit_writer {
        writer.close().await;
    }
    if let Some(reason) = failure.lock().take() {
        return Err(Error::JournalStopped { reason });
    }
    ended.map_err(|_| Error::LoopPanicked)?.map_err(Error::Namespace)
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

/// What callers of WebHDFS are judged by.
fn trust(
    config: &Config,
    secret: &Key,
    authenticator: &Authenticator,
) -> Result<(Trust, Book), Error> {
    config.webhdfs.warn();
    let key = webhdfs::token::token_key(secret);
    let path = config.data_dir.join("delegation-tokens");
    let book = Book::open(&path, key.clone()).map_err(|source| Error::Directory {
        action: "read the delegation tokens in",
        path: config.data_dir.clone(),
        source,
    })?;
    let (auth, authenticator) = (config.webhdfs.auth, authenticator.clone());
    let keeper = Keeper::Book(book.clone());
    Ok((Trust { auth, authenticator, key, keeper }, book))
}

/// Ends everything when the loop ends, however it does.
struct TellWhenDone(Shutdown);

impl Drop for TellWhenDone {
    fn drop(&mut self) {
        self.0.tell();
    }
}

/// Takes in the nodes that were in maintenance when the NameNode ended: they may be switched off.
fn restore_maintenance(
    config: &Config,
    state: &mut State,
    nodes: &NodeTable,
    clock: Clock,
) -> Result<MaintenanceFiles, Error> {
    let (book, all) =
        MaintenanceFiles::open(&config.data_dir).map_err(|source| Error::Directory {
            action: "read the DataNodes in maintenance in",
            path: config.data_dir.clone(),
            source,
        })?;
    for kept in all {
        let (datanode, count) = (kept.info.id, kept.replicas.len());
        if state.restore_node(&mut nodes.lock().nodes, kept, clock.now()) {
            tracing::info!(%datanode, count, "datanode in maintenance is remembered with its replicas");
        }
    }
    Ok(book)
}

/// What the NameNode's share of a directory of `log_dirs` is called.
const JOURNAL_MIRROR: &str = "namenode-journal";

/// Opens the journal and rebuilds the state.
fn open(
    config: &Config,
    token_keys: TokenKeys,
    shutdown: &Shutdown,
    failure: &Arc<Mutex<Option<String>>>,
) -> Result<(Arc<Shared>, Journal, MaintenanceFiles), Error> {
    let nodes = Arc::new(NodeTable::new(config.stale_ms, config.dead_ms, config.tick_ms()));
    let waiters = Arc::new(Waiters::default());
    let observer = {
        let (nodes, waiters) = (Arc::clone(&nodes), Arc::clone(&waiters));
        Box::new(move |txid: Txid| waiters.advance(txid.0, &nodes))
    };
    let fatal = {
        let (failure, waiters, shutdown) =
            (Arc::clone(failure), Arc::clone(&waiters), shutdown.clone());
        Box::new(move |error: &JournalError| {
            let reason = protocol::error::chain(error);
            tracing::error!(reason, "the journal has stopped");
            failure.lock().get_or_insert(reason);
            waiters.abandon();
            shutdown.tell();
        })
    };
    let mut recovering = Recovering::default();
    let image_interval = Duration::from_millis(config.image_interval_ms);
    let options = Options { image_interval, ..Options::new(config.data_dir.join("journal")) }
        .with_mirrors(&config.log_dirs, JOURNAL_MIRROR)
        .map_err(|source| Error::Host { action: "find the working directory", source })?;
    let (journal, recovered) =
        Journal::open(options, &mut recovering, observer, fatal).map_err(Error::Journal)?;
    recovered.notes.iter().for_each(|note| tracing::warn!(note, "found at start"));
    for out in &recovered.left_out {
        let (directory, reason) = (out.dir.display(), &out.reason);
        tracing::error!(%directory, reason, "a directory of log_dirs does not work and is left out: replace its disk");
    }
    let (load, replay) = recovering.work();
    let clock = Clock::start();
    let settings = settings(config, Epoch(recovered.epoch.0), token_keys);
    let random = Generator::new(rand::random());
    let mut state = State::new(recovering.loaded, settings, random, clock.now());
    let refreshed = state.refresh_nodes(&mut nodes.lock().nodes, lists::read(config)?, clock.now());
    debug_assert!(refreshed.is_empty(), "nobody has registered yet");
    let book = restore_maintenance(config, &mut state, &nodes, clock)?;
    let mut last = recovered.last;
    if state.ns.counters().cluster.is_none() {
        let cluster = ClusterId(rand::random());
        let record = state
            .format(cluster, (&config.superuser(), &config.supergroup), clock.now())
            .map_err(Error::Namespace)?;
        last = journal.append(vec![record]);
        tracing::info!(%cluster, "new namespace");
    }
    if !journal.wait_durable(last) {
        return Err(Error::Journal(JournalError::Stopped));
    }
    waiters.advance(last.0, &nodes);
    let shared = Shared {
        state: RwLock::new(state),
        nodes,
        waiters,
        txid: AtomicU64::new(last.0),
        clock,
        epoch: Epoch(recovered.epoch.0),
        heartbeat_ms: config.heartbeat_ms,
        groups: Arc::new(Groups::new(config)),
        startup: Startup::loaded(load, replay),
    };
    Ok((Arc::new(shared), journal, book))
}

fn settings(config: &Config, epoch: Epoch, token_keys: TokenKeys) -> Settings {
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
        audit: config.audit,
    }
}

/// Tells the loop that time passes.
async fn tick(events: mpsc::Sender<Event>, tick_ms: u64, shutdown: Shutdown) {
    let mut interval = tokio::time::interval(Duration::from_millis(tick_ms));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = shutdown.wait() => return,
        }
        if events.send(Event::Tick).await.is_err() {
            return;
        }
    }
}

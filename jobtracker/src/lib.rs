//! The JobTracker: accepts jobs, gives their tasks to workers next to the data, decides each task once, publishes the output.
//!
//! | module | |
//! |---|---|
//! | `core` | the state machine: pure, deterministic |
//! | `server` | the machine that the [`host`] runs: one event, its edits to the log, then everything else |
//! | `store` | edits as journal records and checkpoint rows |
//! | `effects` | work on the file system |
//! | `http` | all routes: signed calls, JSON for scripts, Hadoop's history API, metrics, pages |
//! | `web` | how pages are drawn |
//! | `audit` | who changed what, and who was refused |
//! | `history`, `history_events` | finished jobs, as files of events |
//! | `exclude` | the list of workers to drain |
//! | `resources` | free space on the journal's disk |
//!
//! Invariants: everything that an answer reports is durable; a restarted JobTracker continues every job where its edits left it, and no
//! committed task runs again.

mod audit;
mod config;
mod core;
mod effects;
mod error;
mod exclude;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod history;
mod history_events;
mod http;
mod resources;
mod server;
#[cfg(feature = "sim")]
pub mod sim;
mod store;
mod web;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::Shutdown;
use daemon::access::{Access, Auth, SIMPLE_WARNING};
use daemon::auth::Authenticator;
use daemon::front;
use daemon::hosts::Hosts;
use daemon::inspect;
use daemon::page::live::Board;
use daemon::serve::door::Door;
use daemon::serve::{self, Advertise, Limits};
use daemon::session::Sessions;
use daemon::supervisor;
use host::{Mailbox, Opening, Policy, Running, Start};
use journal::{Journal, Options};
use protocol::auth::{Key, Role, Service};
use protocol::{ClientId, Epoch};
use tokio::net::TcpListener;
use transport::rpc::RpcClient;

pub use config::Config;
pub use error::Error;

use effects::{Effects, Remote};
use history::History;
use resources::Room;
use server::query::{JobHost, LastOverview};
use server::{Event, JobTracker, Outside, TICK, Work};
use store::{CHECKPOINT_INTERVAL, CHECKPOINT_ROWS, Replay};

/// sled's cache: the checkpoint is read once, at start.
const CACHE_BYTES: u64 = 16 << 20;

/// Runs a JobTracker with the configuration in a file until `shutdown`. The rules of queues can be reloaded from there.
///
/// # Errors
/// [`Error`] if it cannot start, or if its journal stops.
pub async fn run_from(path: &Path, shutdown: Shutdown) -> Result<(), Error> {
    let config = Config::load(path)?;
    start(config, Some(path.to_owned()), shutdown).await
}

/// Runs a JobTracker until `shutdown`. The rules of its queues stay fixed.
///
/// # Errors
/// [`Error`] if it cannot start, or if its journal stops.
pub async fn run(config: Config, shutdown: Shutdown) -> Result<(), Error> {
    start(config, None, shutdown).await
}

/// The path from the root.
fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path)
        .map_err(|source| Error::System { action: "find the working directory", source })
}

async fn start(
    config: Config,
    config_file: Option<PathBuf>,
    shutdown: Shutdown,
) -> Result<(), Error> {
    config.check()?;
    let secret = daemon::secret::load(&config.secret_file, false)?;
    // Workers and clients have its address in their own configurations.
    let door = Door::new(config.tls.as_ref(), config.allow_unencrypted)?;
    let listener = serve::bind(&config.bind, Advertise::Nothing).await?;
    let address = address_of(&listener)?;
    let namenode =
        RpcClient::new(&config.namenode, Role::Client, Some(&secret))?.expecting(Service::Namenode);

    let opening = Opening::new({
        let shutdown = shutdown.clone();
        move || shutdown.begin()
    });
    let opened = open_journal(&config, &opening).await?;
    let (epoch, last) = (opened.1.epoch.0, opened.1.last.0);
    tracing::info!(%address, epoch, last, "jobtracker starts");

    let patience = Duration::from_millis(config.namenode_patience_ms);
    let remote = Remote::new(namenode, patience);
    let effects = Effects::new(Box::new(remote), ClientId(rand::random()));
    let making = effects.clone();
    tokio::spawn(async move { making.make_files_directory(&sys::host::user_name()).await });
    let history = History::open(&config.data, config.history_file_count_max)
        .map_err(|source| Error::System { action: "read the histories of jobs", source })?;
    let board = Board::default();
    let others = (effects, history.clone(), board.clone());
    let (journal, measured) = (opened.0.clone(), opened.0.clone());
    let running = start_host(&config, config_file, others, opened, opening)?;

    let Guards { authenticator, sessions, access, audit, writer } =
        Guards::new(&config, &secret, &address.to_string())?;
    let settings = inspect::settings("jobtracker", &config);
    let shared = http::Shared {
        sessions,
        audit,
        believes_names: config.auth == Auth::Simple,
        host: JobHost::new(running.handle()),
        secret_file: absolute(&config.secret_file)?,
        namenode: config.namenode.as_str().into(),
        secret: secret.clone(),
        groups: Arc::new(config.groups()),
        history,
        board,
        hour: web::charts::begin(JobHost::new(running.handle()), shutdown.clone()),
        last_overview: LastOverview::default(),
        log_dirs_left_out: Arc::new(move || {
            journal.left_out().iter().map(ToString::to_string).collect()
        }),
        journal_stats: Arc::new(move || measured.stats()),
        pictures: http::PictureCache::default(),
        settings: Arc::new(settings.clone()),
        since: Instant::now(),
        started_ms: transport::rpc::now_ms(),
    };
    let inspected = inspect::routes(&access, settings);
    let hosts = Hosts::new(&address.to_string(), &config.page_hosts, "`page_hosts`");
    let routes = http::routes(shared, &access, authenticator).merge(inspected);
    let router = front::guard(routes.into(), hosts).with_pages(front::Pages::WithLogin);
    let limits = Limits { connections_max: config.connections_max, ..Limits::default() };
    let serving = serve::serve(listener, door, router, limits, shutdown.clone());
    let stopping = async {
        // Requests held open for workers and pages would keep their connections open.
        shutdown.wait().await;
        running.stop().await
    };
    supervisor::status("serves");
    supervisor::ready();
    let (ended, ()) = tokio::join!(stopping, serving);
    if let Some(writer) = writer {
        writer.close().await;
    }
    ended.map_err(Error::from)
}

fn address_of(listener: &TcpListener) -> Result<SocketAddr, Error> {
    let address = listener.local_addr();
    address.map_err(|source| Error::System { action: "tell the address listened on", source })
}

/// Access control and its audit log.
struct Guards {
    authenticator: Authenticator,
    sessions: Sessions,
    access: Access,
    audit: audit::Audit,
    writer: Option<audit::Writer>,
}

impl Guards {
    /// For the JobTracker at an address; logs if it accepts names without proof.
    fn new(config: &Config, secret: &Key, address: &str) -> Result<Self, Error> {
        if config.auth == Auth::Simple {
            tracing::warn!("{SIMPLE_WARNING}");
        }
        let (audit, writer) = audit::Audit::start(config)
            .map_err(|source| Error::System { action: "open the audit log", source })?;
        let authenticator = Authenticator::new(secret, Service::Jobtracker);
        let sessions = Sessions::new(authenticator.clone(), "jobtracker", address);
        let access = Access::new(authenticator.clone(), Some(sessions.clone()), config.auth);
        Ok(Guards { authenticator, sessions, access, audit, writer })
    }
}

type Opened = (Journal, journal::Recovered, store::State);

/// Starts the machine on the state that the journal restored.
fn start_host(
    config: &Config,
    config_file: Option<PathBuf>,
    (effects, history, board): (Effects, History, Board),
    (journal, recovered, state): Opened,
    opening: Opening<JobTracker>,
) -> Result<Running<JobTracker>, Error> {
    let machine = JobTracker::new(Outside {
        effects,
        room: Room::new(journal.dirs().to_vec(), config.free_space_min),
        exclude_file: config.workers_exclude_file.clone(),
        config_file,
        history,
        board,
        spawn: spawner(opening.mailbox()),
        poll_max: Duration::from_millis(config.poll_ms),
        epoch: Epoch(recovered.epoch.0),
        cluster_start: cluster_start(),
    });
    let running = opening.start(Start {
        name: "jobtracker-loop",
        machine,
        state,
        log: Box::new(journal),
        last: recovered.last,
        policy: Policy { rows: CHECKPOINT_ROWS, interval: CHECKPOINT_INTERVAL },
        tick: TICK,
    })?;
    Ok(running)
}

/// Runs work on the daemon's runtime.
fn spawner(events: Mailbox<Event>) -> Box<dyn Fn(Work) + Send> {
    Box::new(move |work| {
        let events = events.clone();
        tokio::spawn(async move {
            // If the host has ended at shutdown, the next start resumes the effect or writes the missing history.
            let _ = events.send(work.await).await;
        });
    })
}

async fn open_journal(config: &Config, opening: &Opening<JobTracker>) -> Result<Opened, Error> {
    let image_interval = Duration::from_millis(config.image_interval_ms);
    let options =
        Options { cache_bytes: CACHE_BYTES, image_interval, ..Options::new(config.data.clone()) };
    let options = options
        .with_mirrors(&config.log_dirs, "jobtracker-journal")
        .map_err(|source| Error::System { action: "find the working directory", source })?;
    let (rules, follower) = (config.rules(), opening.follower());
    let open = move || {
        let mut replay = Replay::new(rules);
        let (journal, recovered) = host::local::open(options, &mut replay, follower)?;
        Ok((journal, recovered, replay.finish()))
    };
    tokio::task::spawn_blocking(open)
        .await
        .map_err(|error| Error::System { action: "open the journal", source: error.into() })?
        .map_err(Error::Journal)
}

/// The current time in UTC as `yyyyMMddHHmmss`, as a number.
fn cluster_start() -> u64 {
    let now = jiff::Timestamp::now();
    let text = now.strftime("%Y%m%d%H%M%S").to_string();
    text.parse().unwrap_or_else(|_| now.as_second().unsigned_abs())
}

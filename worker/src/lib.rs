//! The worker: runs attempts in processes of the job's own program, serves their map outputs and logs.
//!
//! | module | |
//! |---|---|
//! | [`core`] | the state of session, attempts, runners and jobs, and every decision about them |
//! | `agent` | the loop around it: files, calls, processes |
//! | `input` | what that loop waits for |
//! | `runner` | one task process: its start, its socket, its messages |
//! | `walls` | what a task can reach, as which user, what it may use, and measurements of what it does use |
//! | `binaries`, `dfs_source` | executables by hash |
//! | `outputs`, `fetches`, `http` | map outputs and logs for others |
//! | `metrics` | figures for monitors |
//! | `logs`, `directories`, `scratch` | files here |
//!
//! Invariants: no process of a job outlives the worker (a runner exits when its socket closes; its group is killed at its end). Files below
//! the data directory belong to one worker process; each start deletes those of an earlier one. The worker never opens by path what a task
//! can rename: it uses paths only for the data directory (`directories`), and reaches everything below through descriptors (`scratch`).

mod agent;
mod binaries;
mod config;
pub mod core;
mod dfs_source;
mod directories;
mod error;
mod fetches;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod http;
mod input;
mod logs;
mod metrics;
mod outputs;
mod page;
mod runner;
mod scratch;
mod walls;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use daemon::Shutdown;
use daemon::access::{Access, Auth};
use daemon::auth::Authenticator;
use daemon::front;
use daemon::hosts::Hosts;
use daemon::inspect;
use daemon::page::node::NodePage;
use daemon::serve::door::Door;
use daemon::serve::{self, Advertise, Limits};
use daemon::supervisor;
use protocol::WorkerId;
use protocol::auth::{Key, Role, Service};
use protocol::level::Supported;
use protocol::tracker::{self, Register};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use transport::rpc::RpcClient;

pub use binaries::BinarySource;
pub use config::{Config, TaskSandbox};
pub use error::Error;
pub use walls::Wall;

use crate::core::Rules;
use agent::{Agent, SetupBase, Surroundings};
use binaries::Binaries;
use dfs_source::DfsSource;
use directories::Directories;
use error::disk;
use input::INPUTS_MAX;
use outputs::Outputs;
use walls::{Confinement, Sandbox, Watch};

/// Runs a worker until `shutdown`.
///
/// # Errors
/// [`Error`] if it cannot start.
pub async fn run(config: Config, shutdown: Shutdown) -> Result<(), Error> {
    let secret = daemon::secret::load(&config.secret_file, false)?;
    let source = DfsSource::new(&config.namenode, &host(&config), &secret)?;
    run_with(config, Arc::new(source), shutdown).await
}

/// As [`run`], with another `source` of job executables.
///
/// # Errors
/// [`Error`] if it cannot start.
pub async fn run_with(
    config: Config,
    source: Arc<dyn BinarySource>,
    shutdown: Shutdown,
) -> Result<(), Error> {
    config.check()?;
    let secret = daemon::secret::load(&config.secret_file, false)?;
    let (listener, door, http_address) = listen(&config).await?;
    let directories = Directories::prepare(&absolute(&config.data)?)?;
    let worker = WorkerId(rand::random());
    let jobtracker = RpcClient::new(&config.jobtracker, Role::Worker, Some(&secret))?
        .expecting(Service::Jobtracker);
    tracing::info!(%worker, http_address, slots = config.slots(), "worker starts");

    let (inputs, inbox) = mpsc::channel(INPUTS_MAX);
    let outputs = Outputs::new(directories.outputs.clone());
    let watch = Watch::new(Confinement::of(&config));
    let sandbox = Arc::new(Sandbox::open(&config, &directories)?);
    let shared = http::Shared {
        inputs: inputs.clone(),
        watch: watch.clone(),
        outputs: outputs.clone(),
        logs: directories.logs.clone(),
        secret_file: absolute(&config.secret_file)?,
        slot_count: config.slots(),
        isolation: isolation(&config, &sandbox),
        served: Arc::default(),
    };
    let page =
        page::of((&config, &shared), (host(&config), http_address.clone()), shutdown.clone());
    let cache = directories.binaries.clone();
    let register = register(&config, worker, http_address.clone(), isolation(&config, &sandbox));
    let around = Surroundings {
        jobs: directories.jobs.clone(),
        logs: directories.logs.clone(),
        log_retention: Duration::from_millis(config.log_retention_ms),
        setup: SetupBase {
            namenode: config.namenode.clone(),
            host: register.host.clone(),
            boot_id: register.boot_id.clone(),
            secret: secret.clone(),
            memory_bytes_max: config.task_memory_bytes_max,
        },
        start_timeout: Duration::from_millis(config.runner_start_timeout_ms),
        log_bytes_max: config.log_bytes_max,
        watch: watch.clone(),
        sandbox: Arc::clone(&sandbox),
        binaries: Binaries::new(cache.clone(), config.binary_cache_bytes_max)
            .map_err(disk("read", cache.path))?,
        source,
        outputs,
        jobtracker,
        inputs,
    };
    let rules = Rules {
        register,
        outputs: directories.outputs.path.clone(),
        links_outputs: sandbox.hides_files(),
        reuses_runners: watch.confinement().limits.cpu_seconds.is_none(),
        silence_max: Duration::from_millis(config.task_timeout_ms),
        idle_max: Duration::from_millis(config.runner_idle_ms),
    };
    let agent = Agent::new(rules, around).run(inbox, shutdown.clone());
    let router = router((&config, &secret), shared, page, &http_address);
    let serving = serve::serve(listener, door, router, Limits::default(), shutdown.clone());
    let watching = tokio::spawn(watch.run());
    supervisor::ready();
    tokio::join!(agent, serving);
    watching.abort();
    sandbox.close();
    Ok(())
}

/// All that is served over HTTP.
fn router<const N: usize>(
    (config, secret): (&Config, &Key),
    shared: http::Shared,
    page: NodePage<N>,
    address: &str,
) -> front::Guarded {
    let auth = Authenticator::new(secret, Service::Worker);
    let access = Access::new(auth.clone(), None, Auth::Token);
    let inspected = inspect::routes(&access, inspect::settings("worker", config));
    let routes = http::routes(shared, &access, auth);
    let routes = routes.merge(page.routes(&access)).merge(inspected);
    let hosts = Hosts::new(address, &config.hosts, "`hosts`");
    front::guard(routes.into(), hosts).with_pages(front::Pages::Open)
}

/// Listens, and returns who is let in, and the address under which others reach it.
async fn listen(config: &Config) -> Result<(TcpListener, Door, String), Error> {
    let door = Door::new(config.tls.as_ref(), config.allow_unencrypted)?;
    let advertise = Some(config.advertise.as_str()).filter(|address| !address.is_empty());
    let advertised = Advertise::address(advertise);
    let listener = serve::bind(&config.bind, advertised).await?;
    let address = match advertise {
        Some(advertise) => advertise.to_owned(),
        None => listener
            .local_addr()
            .map_err(|source| Error::System { action: "tell the address listened on", source })?
            .to_string(),
    };
    Ok((listener, door, address))
}

fn register(
    config: &Config,
    worker: WorkerId,
    http_address: String,
    isolation: String,
) -> Register {
    Register {
        version: tracker::VERSION,
        levels: Supported::OWN,
        worker,
        host: host(config),
        rack: config.rack.clone(),
        boot_id: machine(config, worker),
        http_address,
        slot_count: config.slots(),
        isolation,
        running: Vec::new(),
        held_outputs: Vec::new(),
    }
}

/// Describes the confinement of tasks here for people.
fn isolation(config: &Config, sandbox: &Sandbox) -> String {
    format!("{}, {}", Confinement::of(config).describe(), sandbox.describe())
}

/// The confinement that tasks of a worker with this configuration would have, determined as that worker would; creates its data directory
/// and leaves it empty of jobs.
///
/// # Errors
/// [`Error`] if it could not start.
pub fn walls(config: &Config) -> Result<Vec<Wall>, Error> {
    config.check()?;
    let directories = Directories::prepare(&absolute(&config.data)?)?;
    let sandbox = Sandbox::open(config, &directories)?;
    let walls = sandbox.walls();
    sandbox.close();
    Ok(walls)
}

/// Equal for workers whose tasks can open each other's files.
fn machine(config: &Config, worker: WorkerId) -> String {
    match config.shared_outputs {
        true => sys::host::boot_id(),
        false => format!("{}/{worker}", sys::host::boot_id()),
    }
}

fn host(config: &Config) -> String {
    match config.host.as_str() {
        "" => sys::host::host_name(),
        host => host.to_owned(),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(disk("find", path))
}

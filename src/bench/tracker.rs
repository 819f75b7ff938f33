//! `hanno bench jobtracker`: a JobTracker of its own, with simulated workers over real sockets and tasks that take no time.
//!
//! The phases follow one another: workers register; a job of many maps is submitted; it runs until every task is done; idle workers send reports, one at a time
//! per connection. A seed determines the machines that hold the input of each map, three for each, so the bench can count how many ran next to their data. Task
//! processes and their data are not simulated. The JobTracker journals all its decisions as usual.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use client::job;
use protocol::auth::Role;
use protocol::jobs::{Counters, JobReport, JobSpec, JobState, Split, Splits, TypedCall, calls};
use protocol::level::Supported;
use protocol::tracker::{self, Action, AttemptState, AttemptUpdate, Register, Work};
use protocol::{AttemptId, BinaryHash, CallId, DfsPath, Epoch, JobId, WorkerId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use transport::RpcError;
use transport::rpc::{CallOptions, RpcClient};

use super::figures::{Figures, prepare};
use super::fleet::Fleet;
use super::process::{Daemon, Process};
use crate::connect::random_client;

/// Simulated workers of a rack.
const RACK_WORKERS: u32 = 40;
/// Machines that hold the input of each map.
const REPLICAS: usize = 3;
/// DataNodes that let the NameNode leave safe mode; they hold nothing.
const DATANODES: u32 = 3;
/// Time for one message; a poll is held for two seconds.
const MESSAGE_MAX: Duration = Duration::from_secs(120);
/// Pause between checks of the job. The resolution of its time is better, because the last report is timed.
const CHECK_PAUSE: Duration = Duration::from_millis(50);
/// Registrations at once.
const JOINS: u32 = 64;
/// Connections over which idle workers report.
const REPORTERS: u32 = 64;
/// Most reports in progress at once while the job runs: their connections are reused, so it takes few besides those of the polls.
const REPORTS: usize = 512;

/// What is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TrackerArgs {
    /// Simulated workers; each holds a connection open, of which the JobTracker takes 20,000
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    workers: u32,
    /// Slots of each
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    slots: u32,
    /// Map tasks of the job
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tasks: u32,
    /// Milliseconds that each task lasts
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    task_ms: u64,
    /// Seconds of the measurement of reports
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Seed of where the input lies
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the daemons' data; it must be empty or missing, and is left there
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Port of the NameNode; the JobTracker has the next one
    #[arg(long, default_value_t = 9877, value_parser = clap::value_parser!(u16).range(1..=65_534))]
    port: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs all phases.
pub(super) fn run(args: &TrackerArgs) -> Result<()> {
    prepare(&args.data)?;
    let mut figures = Figures::new(args.json);
    Runtime::new()?.block_on(phases(args, &mut figures))?;
    figures.finish()
}

async fn phases(args: &TrackerArgs, figures: &mut Figures) -> Result<()> {
    let mut namenode = Process::start(Daemon::Namenode, &args.data, args.port)?;
    namenode.until(|_| true).await?;
    let fleet = Fleet::start(&namenode.client(Role::Datanode)?, 0, DATANODES).await?;
    namenode.until(|health| health.ready).await?;
    let under = Daemon::Jobtracker { namenode: args.port };
    let mut process = Process::start(under, &args.data, args.port + 1)?;
    // It is ready once it has workers, which are about to register.
    process.until(|_| true).await?;

    let crowd = Crowd::register(&process.client(Role::Worker)?, args, figures).await?;
    let client = Client { rpc: process.client(Role::Client)?, splits: splits(args)? };
    let began = Instant::now();
    let job = client.submit().await?;
    figures.add("submit", began.elapsed().as_secs_f64(), "s");
    figures.add("memory, job submitted", process.memory()?.now as f64 / 1e6, "MB");

    let cpu = process.processor_seconds()?;
    let ran = crowd.run(&client, job, args).await?;
    let tasks = f64::from(args.tasks);
    figures.add("all tasks run", ran.took.as_secs_f64(), "s");
    figures.add("tasks per second", tasks / ran.took.as_secs_f64(), "/s");
    figures.add("messages per task", ran.messages as f64 / tasks, "");
    figures.add(
        "processor time per task",
        (process.processor_seconds()? - cpu) / tasks * 1e6,
        "us",
    );
    figures.add("maps on a machine with their input", 100.0 * ran.local as f64 / tasks, "%");
    let memory = process.memory()?;
    figures.add("memory, job done", memory.now as f64 / 1e6, "MB");
    figures.add("memory at most", memory.most as f64 / 1e6, "MB");
    figures.add("memory at most, per task", memory.most as f64 / tasks, "bytes");

    crowd.reports(Duration::from_secs(args.seconds), figures).await?;
    drop(fleet);
    process.stop().await?;
    namenode.stop().await
}

fn host(worker: u32) -> String {
    format!("w{worker:05}")
}

fn rack(worker: u32) -> String {
    format!("/r{:03}", worker / RACK_WORKERS)
}

/// Splits, one for each map, on machines drawn from the seed.
fn splits(args: &TrackerArgs) -> Result<Splits> {
    let mut random = StdRng::seed_from_u64(args.seed);
    let path = DfsPath::parse("/bench-in")?;
    let split = |index: u32| {
        let mut near: Vec<u32> = Vec::new();
        while near.len() < REPLICAS.min(args.workers as usize) {
            let worker = random.random_range(0..args.workers);
            if !near.contains(&worker) {
                near.push(worker);
            }
        }
        Split {
            path: path.clone(),
            offset: u64::from(index),
            length: 1,
            hosts: near.iter().map(|worker| host(*worker)).collect(),
            racks: Vec::new(),
            input: 0,
            more: Vec::new(),
        }
    };
    Ok((0..args.tasks).map(split).collect())
}

/// The client that submits the job and queries it.
struct Client {
    rpc: RpcClient,
    splits: Splits,
}

impl Client {
    async fn submit(&self) -> Result<JobId> {
        let spec = JobSpec {
            name: "bench".to_owned(),
            binary: BinaryHash([0; 32]),
            args: Vec::new(),
            stage: 0,
            fingerprint: 0,
            splits: self.splits.clone(),
            reduce_count: 0,
            sizing: None,
            rounds: None,
            output: DfsPath::parse("/bench-out")?,
            attempts_max: 4,
            slow_start_permille: 50,
            properties: BTreeMap::new(),
        };
        Ok(self.ask(calls::Submit { spec: Box::new(spec) }).await?)
    }

    async fn report(&self, job: JobId) -> Result<JobReport> {
        Ok(self.ask(calls::Status { job }).await?)
    }

    async fn ask<C: TypedCall>(&self, call: C) -> Result<C::Answer, RpcError> {
        let id = CallId { client: random_client(), number: 1 };
        let options = CallOptions { attempt_timeout: MESSAGE_MAX, ..CallOptions::default() };
        job::ask(&self.rpc, (id, &sys::host::user_name()), call, options).await
    }
}

/// The simulated workers.
struct Crowd {
    rpc: RpcClient,
    workers: Vec<(WorkerId, Epoch)>,
}

/// The result of the job.
struct Ran {
    took: Duration,
    messages: u64,
    local: u32,
}

/// Counts of all workers together.
#[derive(Default)]
struct Counts {
    started: AtomicU32,
    ended: AtomicU32,
    local: AtomicU32,
    messages: AtomicU64,
    reports: ReportSlots,
}

/// Limits the reports in progress.
struct ReportSlots(Semaphore);

impl Default for ReportSlots {
    fn default() -> Self {
        ReportSlots(Semaphore::new(REPORTS))
    }
}

impl Crowd {
    async fn register(rpc: &RpcClient, args: &TrackerArgs, figures: &mut Figures) -> Result<Crowd> {
        let began = Instant::now();
        let mut joining = JoinSet::new();
        for first in 0..JOINS.min(args.workers) {
            let (rpc, slots, count) = (rpc.clone(), args.slots, args.workers);
            joining.spawn(async move {
                let mut joined = Vec::new();
                for number in (first..count).step_by(JOINS as usize) {
                    joined.push((number, register(&rpc, number, slots).await?));
                }
                anyhow::Ok(joined)
            });
        }
        let mut found = BTreeMap::new();
        while let Some(joined) = joining.join_next().await {
            found.extend(joined??);
        }
        let took = began.elapsed().as_secs_f64();
        figures.add("registrations per second", f64::from(args.workers) / took, "/s");
        Ok(Crowd { rpc: rpc.clone(), workers: found.into_values().collect() })
    }

    /// Has all workers take and end tasks until the job is done.
    async fn run(&self, client: &Client, job: JobId, args: &TrackerArgs) -> Result<Ran> {
        let (counts, splits) = (Arc::new(Counts::default()), Arc::new(client.splits.clone()));
        let length = Duration::from_millis(args.task_ms);
        let mut polling = JoinSet::new();
        let began = Instant::now();
        for (number, (worker, epoch)) in (0..).zip(&self.workers) {
            let simulated = Simulated {
                rpc: self.rpc.clone(),
                worker: *worker,
                epoch: *epoch,
                host: host(number),
                splits: Arc::clone(&splits),
                counts: Arc::clone(&counts),
                length,
            };
            polling.spawn(simulated.work());
        }
        while counts.ended.load(Ordering::Relaxed) < args.tasks {
            if let Some(ended) = polling.try_join_next() {
                ended??;
                bail!("a simulated worker has ended");
            }
            tokio::time::sleep(CHECK_PAUSE).await;
        }
        let took = began.elapsed();
        let messages = counts.messages.load(Ordering::Relaxed);
        loop {
            let report = client.report(job).await?;
            match report.state {
                JobState::Running | JobState::Committing => tokio::time::sleep(CHECK_PAUSE).await,
                JobState::Succeeded => break,
                JobState::Failed | JobState::Killed => {
                    bail!("the job failed: {}", report.diagnostics)
                }
            }
        }
        Ok(Ran { took, messages, local: counts.local.load(Ordering::Relaxed) })
    }

    /// Sends reports without news, as fast as they are answered.
    async fn reports(&self, length: Duration, figures: &mut Figures) -> Result<()> {
        let mut reporting = JoinSet::new();
        let began = Instant::now();
        for (worker, epoch) in self.workers.iter().take(REPORTERS as usize).copied() {
            let rpc = self.rpc.clone();
            reporting.spawn(async move {
                let mut times = Vec::new();
                while began.elapsed() < length {
                    let at = Instant::now();
                    let (updates, fetch_failures) = (Vec::new(), Vec::new());
                    let report =
                        tracker::Request::Report { worker, epoch, updates, fetch_failures };
                    send(&rpc, &report).await?;
                    times.push(at.elapsed());
                }
                anyhow::Ok(times)
            });
        }
        let mut times = Vec::new();
        while let Some(own) = reporting.join_next().await {
            times.append(&mut own??);
        }
        times.sort_unstable();
        let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
        figures.add("reports per second", times.len() as f64 / began.elapsed().as_secs_f64(), "/s");
        figures.add("report, p50", at(50), "ms");
        figures.add("report, p99", at(99), "ms");
        Ok(())
    }
}

async fn send(rpc: &RpcClient, request: &tracker::Request) -> Result<tracker::Reply, RpcError> {
    rpc.call("/rpc/worker", request, CallOptions::once(MESSAGE_MAX)).await
}

async fn register(rpc: &RpcClient, number: u32, slots: u32) -> Result<(WorkerId, Epoch)> {
    let worker = WorkerId(rand::random());
    let register = Register {
        version: tracker::VERSION,
        levels: Supported::OWN,
        worker,
        host: host(number),
        rack: rack(number),
        boot_id: host(number),
        http_address: format!("{}:1", host(number)),
        slot_count: slots,
        isolation: String::new(),
        running: Vec::new(),
        held_outputs: Vec::new(),
    };
    match send(rpc, &tracker::Request::Register(register)).await? {
        tracker::Reply::Registered { epoch, .. } => Ok((worker, epoch)),
        _ => bail!("the jobtracker is of another version"),
    }
}

/// One worker while the job runs.
struct Simulated {
    rpc: RpcClient,
    worker: WorkerId,
    epoch: Epoch,
    host: String,
    splits: Arc<Splits>,
    counts: Arc<Counts>,
    length: Duration,
}

impl Simulated {
    async fn work(self) -> Result<()> {
        let this = Arc::new(self);
        let mut received = 0;
        let mut ending = JoinSet::new();
        loop {
            let poll = tracker::Request::Poll { worker: this.worker, epoch: this.epoch, received };
            let reply = send(&this.rpc, &poll).await?;
            this.counts.messages.fetch_add(1, Ordering::Relaxed);
            while let Some(ended) = ending.try_join_next() {
                ended??;
            }
            let tracker::Reply::Actions { number, actions } = reply else { continue };
            if number <= received {
                continue;
            }
            received = number;
            let attempts = this.launched(actions);
            if !attempts.is_empty() {
                ending.spawn(Arc::clone(&this).end(attempts));
            }
        }
    }

    /// The attempts to run.
    fn launched(&self, actions: Vec<Action>) -> Vec<AttemptId> {
        let mut attempts = Vec::new();
        for action in actions {
            let Action::Launch(launch) = action else { continue };
            if let Work::Map { split, .. } = &launch.work {
                let mut hosts = self.splits.hosts_of(split.offset as usize);
                let is_local = hosts.any(|host| host == self.host);
                self.counts.local.fetch_add(u32::from(is_local), Ordering::Relaxed);
            }
            attempts.push(launch.attempt);
        }
        let count = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
        self.counts.started.fetch_add(count, Ordering::Relaxed);
        attempts
    }

    /// Waits for their duration and reports them done.
    async fn end(self: Arc<Self>, attempts: Vec<AttemptId>) -> Result<()> {
        if !self.length.is_zero() {
            tokio::time::sleep(self.length).await;
        }
        let count = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
        let mut updates = Vec::new();
        for attempt in attempts {
            let directory = DfsPath::parse(&format!("/bench-out/_temporary/{attempt}"))?;
            let state = AttemptState::OutputDone { directory, hot_keys: Vec::new() };
            updates.push(AttemptUpdate {
                attempt,
                state,
                progress: 1.0,
                phase: None,
                counters: Counters::default(),
                record: None,
                status: String::new(),
            });
        }
        let (worker, epoch) = (self.worker, self.epoch);
        let report =
            tracker::Request::Report { worker, epoch, updates, fetch_failures: Vec::new() };
        let slot = self.counts.reports.0.acquire().await?;
        send(&self.rpc, &report).await?;
        drop(slot);
        self.counts.messages.fetch_add(1, Ordering::Relaxed);
        self.counts.ended.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }
}

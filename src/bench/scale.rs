//! `hanno bench namenode scale`: a NameNode of its own, with millions of files and simulated DataNodes, over real sockets.
//!
//! The phases follow one another on the same namespace: fill, list, stat alone and during block reports, restart, heartbeats. Half of the files, but at most a
//! million, are in one directory; the others are in directories of a thousand. Files are created with the calls that a writer makes (create with a first block,
//! complete with the replicas that are on disk), in batches. Two things are not simulated: the data, and the DataNodes' messages that a block has arrived.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use protocol::auth::Role;
use protocol::namenode::{
    Answer, Body, Call, Create, LIST_ENTRIES_MAX, LocatedBlock, Reply, Request, WrittenBlock,
};
use protocol::token::TokenKeys;
use protocol::{ClientId, DfsPath};
use tokio::runtime::Runtime;
use transport::RpcError;
use transport::rpc::{CallOptions, RpcClient};

use super::figures::{Figures, prepare};
use super::fleet::{BLOCK_LENGTH, Fleet, held, number_of};
use super::process::{Daemon, Process};
use crate::connect::random_client;

/// Files per directory, apart from the large one.
const DIRECTORY_FILES: u64 = 1000;
/// Most files in the large directory.
const LARGE_FILES_MAX: u64 = 1_000_000;
/// Files per batch: a few milliseconds of the NameNode's time.
const BATCH_FILES: u64 = 500;
/// Batches in progress: one is applied while others are created, signed and synced.
const WRITERS: u64 = 4;
/// Connections that query the status of files.
const STAT_CONNECTIONS: u64 = 64;
/// Connections over which DataNodes register at once.
const JOINS: u32 = 64;

/// What is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ScaleArgs {
    /// Files to make, of one block each
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(2..=1_000_000_000))]
    files: u64,
    /// Simulated DataNodes that hold the blocks, three replicas of each
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(3..=1000))]
    datanodes: u32,
    /// Further simulated DataNodes, without blocks, that only send heartbeats
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    heartbeats: u32,
    /// Seconds of each measurement of stat and heartbeats
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Directory for the NameNode's data; it must be empty or missing, and is left there
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Port of the NameNode
    #[arg(long, default_value_t = 9879)]
    port: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs all phases.
pub(super) fn run(args: &ScaleArgs) -> Result<()> {
    prepare(&args.data)?;
    let mut figures = Figures::new(args.json);
    Runtime::new()?.block_on(phases(args, &mut figures))?;
    figures.finish()
}

async fn phases(args: &ScaleArgs, figures: &mut Figures) -> Result<()> {
    let directory: &Path = &args.data;
    let mut process = Process::start(Daemon::Namenode, directory, args.port)?;
    process.until(|_| true).await?;
    let fleet = Fleet::start(&process.client(Role::Datanode)?, 0, args.datanodes).await?;
    process.until(|health| health.ready).await?;
    let tree = Tree { files: args.files };
    let rpc = process.client(Role::Client)?;

    let keys = TokenKeys::new(&process.secret()?);
    fill((&rpc, &keys), tree, &fleet, figures).await?;
    memory(&process, args.files, "after the fill", figures)?;
    list(&rpc, tree, figures).await?;
    let length = Duration::from_secs(args.seconds);
    stats(&rpc, tree, &fleet, length, figures).await?;

    let began = Instant::now();
    process.stop().await?;
    figures.add("stop", began.elapsed().as_secs_f64(), "s");
    let began = Instant::now();
    let mut process = Process::start(Daemon::Namenode, directory, args.port)?;
    process.until(|_| true).await?;
    figures.add("restart: namespace loaded", began.elapsed().as_secs_f64(), "s");
    process.until(|health| health.ready).await?;
    figures.add("restart: ready, blocks reported", began.elapsed().as_secs_f64(), "s");
    memory(&process, args.files, "after the restart", figures)?;

    if args.heartbeats > 0 {
        heartbeats(&process, tree, args, length, figures).await?;
    }
    drop(fleet);
    process.stop().await
}

fn memory(process: &Process, files: u64, when: &'static str, figures: &mut Figures) -> Result<()> {
    let found = process.memory()?;
    let [now, most, each] = match when {
        "after the fill" => {
            ["memory after the fill", "memory at most, until then", "memory per file, all told"]
        }
        _ => {
            ["memory after the restart", "memory at most, since then", "memory per file, restarted"]
        }
    };
    figures.add(now, found.now as f64 / 1e6, "MB");
    figures.add(most, found.most as f64 / 1e6, "MB");
    figures.add(each, found.now as f64 / files as f64, "bytes");
    Ok(())
}

/// The layout of the files.
#[derive(Clone, Copy)]
struct Tree {
    files: u64,
}

impl Tree {
    fn large(self) -> u64 {
        LARGE_FILES_MAX.min(self.files / 2)
    }

    fn directory(self, file: u64) -> String {
        match file.checked_sub(self.large()) {
            None => "/bench/large".to_owned(),
            Some(rest) => format!("/bench/d{:06}", rest / DIRECTORY_FILES),
        }
    }

    fn path(self, file: u64) -> Result<DfsPath> {
        Ok(DfsPath::parse(&format!("{}/part-{file:010}", self.directory(file)))?)
    }
}

/// One caller.
struct Caller {
    rpc: RpcClient,
    id: ClientId,
    number: u64,
}

impl Caller {
    fn new(rpc: &RpcClient) -> Caller {
        Caller { rpc: rpc.clone(), id: random_client(), number: 0 }
    }

    async fn call(&mut self, body: impl Into<Body>) -> Result<Reply, RpcError> {
        self.number += 1;
        let request = Request::new(self.id, self.number, &sys::host::user_name(), "", body);
        self.rpc.call("/rpc", &request, CallOptions::default()).await
    }

    async fn batch(&mut self, calls: Vec<Call>) -> Result<Vec<Answer>> {
        match self.call(Body::Batch(calls)).await? {
            Reply::Batch(answers) => Ok(answers),
            _ => bail!("the namenode is of another version"),
        }
    }
}

async fn fill(
    (rpc, keys): (&RpcClient, &TokenKeys),
    tree: Tree,
    fleet: &Fleet,
    figures: &mut Figures,
) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let nodes = Arc::new(fleet.nodes.clone());
    let began = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (mut caller, next, nodes) = (Caller::new(rpc), Arc::clone(&next), nodes.clone());
            let keys = keys.clone();
            tokio::spawn(async move {
                loop {
                    let from = next.fetch_add(BATCH_FILES, Ordering::Relaxed);
                    if from >= tree.files {
                        return anyhow::Ok(());
                    }
                    let to = tree.files.min(from + BATCH_FILES);
                    for block in write(&mut caller, &keys, tree, from..to).await? {
                        let Some(held) = held(block.id, block.stamp) else {
                            bail!("the namenode's first block is not the first of a new cluster");
                        };
                        for node in block.replicas {
                            nodes[number_of(node.id) as usize].replicas.lock().push(held);
                        }
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    let seconds = began.elapsed().as_secs_f64();
    figures.add("fill", seconds, "s");
    figures.add("fill: files made and closed", tree.files as f64 / seconds, "files/s");
    figures.add("replicas", fleet.replica_count() as f64, "");
    Ok(())
}

/// Creates some files and closes them; returns their blocks.
async fn write(
    caller: &mut Caller,
    keys: &TokenKeys,
    tree: Tree,
    files: std::ops::Range<u64>,
) -> Result<Vec<LocatedBlock>> {
    let mut creates = Vec::new();
    for file in files {
        creates.push(Call::Create(Create {
            path: tree.path(file)?,
            mode: 0o644,
            unmasked: None,
            overwrite: false,
            parents: true,
            replication: Some(3),
            block_size: None,
            first_block: true,
        }));
    }
    let mut blocks = Vec::new();
    let mut completes = Vec::new();
    for answer in caller.batch(creates).await? {
        let Reply::Created(created) = answer? else { bail!("no file was made") };
        let block = created.first_block.context("a file without a block")?;
        let (id, stamp, length) = (block.id, block.stamp, BLOCK_LENGTH);
        let replicas: Vec<_> = block.replicas.iter().map(|node| node.id).collect();
        let receipts = replicas.iter().map(|node| keys.receipt(*node, id, stamp, length)).collect();
        let last = WrittenBlock { id, stamp, length, replicas, receipts };
        completes.push(Call::Complete { file: created.file, last: Some(last), publish: None });
        blocks.push(block);
    }
    for answer in caller.batch(completes).await? {
        answer?;
    }
    Ok(blocks)
}

/// Lists the large directory page by page.
async fn list(rpc: &RpcClient, tree: Tree, figures: &mut Figures) -> Result<()> {
    let mut caller = Caller::new(rpc);
    let path = DfsPath::parse("/bench/large")?;
    let (mut start_after, mut count) = (String::new(), 0_u64);
    let mut pages = Vec::new();
    loop {
        let began = Instant::now();
        let call = Call::List { path: path.clone(), start_after, limit: LIST_ENTRIES_MAX };
        let Reply::Listing { entries, remaining } = caller.call(call).await? else {
            bail!("no listing");
        };
        pages.push(began.elapsed().as_secs_f64() * 1e3);
        count += entries.len() as u64;
        if remaining + count != tree.large() {
            bail!("{count} entries listed and {remaining} left of {}", tree.large());
        }
        match entries.into_iter().next_back() {
            Some(last) if remaining > 0 => start_after = last.name,
            _ => break,
        }
    }
    figures.add("list: entries of the directory", count as f64, "");
    figures.add("list: first page of 1000", pages[0], "ms");
    figures.add("list: slowest page", pages.iter().copied().fold(0.0, f64::max), "ms");
    figures.add("list: all pages", pages.iter().sum::<f64>() / 1e3, "s");
    Ok(())
}

/// Status of files, first alone, then while DataNodes send full reports, one after another.
async fn stats(
    rpc: &RpcClient,
    tree: Tree,
    fleet: &Fleet,
    length: Duration,
    figures: &mut Figures,
) -> Result<()> {
    let alone = stat(rpc, tree, STAT_CONNECTIONS, length).await?;
    figures.add("stat alone", alone.rate, "calls/s");
    figures.add("stat alone: p50", alone.p50_ms, "ms");
    figures.add("stat alone: p99", alone.p99_ms, "ms");
    let stop = Arc::new(AtomicBool::new(false));
    let (nodes, stopped) = (fleet.nodes.clone(), Arc::clone(&stop));
    let reporter = tokio::spawn(async move {
        let (began, mut replicas) = (Instant::now(), 0);
        for node in nodes.iter().cycle() {
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            replicas += node.report().await?;
        }
        Ok::<_, RpcError>(replicas as f64 / began.elapsed().as_secs_f64())
    });
    let during = stat(rpc, tree, STAT_CONNECTIONS, length).await?;
    stop.store(true, Ordering::Relaxed);
    let rate = reporter.await??;
    figures.add("replicas in one full report", fleet.nodes[0].replicas.lock().len() as f64, "");
    figures.add("reports beside stat", rate, "replicas/s");
    figures.add("stat during reports", during.rate, "calls/s");
    figures.add("stat during reports: p50", during.p50_ms, "ms");
    figures.add("stat during reports: p99", during.p99_ms, "ms");
    Ok(())
}

struct Latencies {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// Status of files all over the tree, from several connections, one call at a time on each.
async fn stat(
    rpc: &RpcClient,
    tree: Tree,
    connections: u64,
    length: Duration,
) -> Result<Latencies> {
    let began = Instant::now();
    let tasks: Vec<_> = (0..connections)
        .map(|connection| {
            let mut caller = Caller::new(rpc);
            tokio::spawn(async move {
                let mut times = Vec::new();
                let mut file = connection.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                while began.elapsed() < length {
                    file = file.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let path = tree.path((file >> 20) % tree.files)?;
                    let asked = Instant::now();
                    caller.call(Call::Status(path)).await?;
                    times.push(asked.elapsed().as_secs_f64() * 1e3);
                }
                anyhow::Ok(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.append(&mut task.await??);
    }
    if times.is_empty() {
        bail!("no call was answered in time");
    }
    let rate = times.len() as f64 / began.elapsed().as_secs_f64();
    times.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    Ok(Latencies { rate, p50_ms: at(50), p99_ms: at(99) })
}

/// The cost of DataNodes that only send signs of life.
async fn heartbeats(
    process: &Process,
    tree: Tree,
    args: &ScaleArgs,
    length: Duration,
    figures: &mut Figures,
) -> Result<()> {
    let rpc = process.client(Role::Datanode)?;
    let began = Instant::now();
    let share = args.heartbeats.div_ceil(JOINS);
    let joins: Vec<_> = (0..args.heartbeats)
        .step_by(share.max(1) as usize)
        .map(|first| {
            let (rpc, count) = (rpc.clone(), share.min(args.heartbeats - first));
            let first = args.datanodes + first;
            tokio::spawn(async move { Fleet::start(&rpc, first, count).await })
        })
        .collect();
    let mut fleets = Vec::new();
    for join in joins {
        fleets.push(join.await??);
    }
    figures.add("heartbeats: datanodes", f64::from(args.heartbeats), "");
    figures.add("heartbeats: all registered after", began.elapsed().as_secs_f64(), "s");
    let beats =
        || fleets.iter().map(|fleet| fleet.beats.load(Ordering::Relaxed)).sum::<u64>() as f64;
    let (before, used) = (beats(), process.processor_seconds()?);
    tokio::time::sleep(length).await;
    let (beaten, used) = (beats() - before, process.processor_seconds()? - used);
    figures.add("heartbeats: answered", beaten / length.as_secs_f64(), "1/s");
    figures.add("heartbeats: share of one core", used / length.as_secs_f64() * 100.0, "%");
    let client = process.client(Role::Client)?;
    let beside = stat(&client, tree, 1, length).await?;
    figures.add("stat beside heartbeats, one connection: p50", beside.p50_ms, "ms");
    figures.add("stat beside heartbeats, one connection: p99", beside.p99_ms, "ms");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_spread() {
        let tree = Tree { files: 10_000_000 };
        assert_eq!(tree.path(0).unwrap().as_str(), "/bench/large/part-0000000000");
        assert_eq!(tree.path(999_999).unwrap().as_str(), "/bench/large/part-0000999999");
        assert_eq!(tree.path(1_000_000).unwrap().as_str(), "/bench/d000000/part-0001000000");
        assert_eq!(tree.path(2_000_999).unwrap().as_str(), "/bench/d001000/part-0002000999");
        assert_eq!(Tree { files: 10 }.directory(5), "/bench/d000000");
    }
}

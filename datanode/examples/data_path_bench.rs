//! Times the data path on real processes of this machine: one NameNode, N DataNodes, this client.
//!
//! ```text
//! cargo run --release -p datanode --example data_path_bench -- put FILE [DATANODES]
//! cargo run --release -p datanode --example data_path_bench -- small COUNT BYTES THREADS
//! cargo run --release -p datanode --example data_path_bench -- kill FILE ROUNDS [DATANODES]
//! ```
//!
//! `put` also reads the file back (get to a file, cat to nowhere); `kill` ends a random DataNode with SIGKILL in the middle of
//! each put, reads the file back, compares, and starts the DataNode again.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use client::ClientConfig;
use client::dfs::{CreateOptions, DfsClient};
use daemon::Shutdown;
use protocol::DfsPath;

/// How long the cluster can take to be ready.
const READY_MAX: Duration = Duration::from_secs(30);

fn main() -> anyhow::Result<()> {
    daemon::log::start("warn");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["daemon-namenode", directory, port] => run_namenode(directory.as_ref(), port),
        ["daemon-datanode", directory, port, number] => {
            run_datanode(directory.as_ref(), port, number)
        }
        ["put", file, ref rest @ ..] => put(file.as_ref(), datanode_count(rest)?),
        ["small", count, bytes, threads] => small(count.parse()?, bytes.parse()?, threads.parse()?),
        ["kill", file, rounds, ref rest @ ..] => {
            kill(file.as_ref(), rounds.parse()?, datanode_count(rest)?)
        }
        _ => bail!(
            "usage: put FILE [DATANODES] | small COUNT BYTES THREADS | kill FILE ROUNDS [DATANODES]"
        ),
    }
}

fn datanode_count(rest: &[&str]) -> anyhow::Result<usize> {
    Ok(rest.first().map(|count| count.parse()).transpose()?.unwrap_or(3))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

fn run_namenode(directory: &Path, port: &str) -> anyhow::Result<()> {
    let config = namenode::Config {
        bind: format!("127.0.0.1:{port}"),
        data_dir: directory.join("namenode"),
        secret_file: Some(directory.join("secret")),
        safe_mode_extension_ms: 0,
        dead_ms: 5000,
        stale_ms: 3000,
        heartbeat_ms: 500,
        ..namenode::Config::default()
    };
    runtime()?.block_on(async { Ok(namenode::run(config, Shutdown::on_signals()?).await?) })
}

fn run_datanode(directory: &Path, port: &str, number: &str) -> anyhow::Result<()> {
    let config = datanode::Config {
        namenode: format!("http://127.0.0.1:{port}"),
        secret_file: directory.join("secret"),
        data_directories: vec![directory.join(format!("datanode-{number}"))],
        trash_grace_ms: 0,
        ..datanode::Config::default()
    };
    runtime()?.block_on(async { Ok(datanode::run(config, Shutdown::on_signals()?).await?) })
}

struct Cluster {
    directory: PathBuf,
    port: String,
    namenode: Child,
    datanodes: Vec<Child>,
    client: DfsClient,
}

impl Cluster {
    fn start(count: usize) -> anyhow::Result<Self> {
        let directory = std::env::var_os("BENCH_DIR").map_or_else(
            || std::env::temp_dir().join(format!("hanno-bench-{}", std::process::id())),
            PathBuf::from,
        );
        fs::create_dir_all(&directory)?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let namenode = spawn(&["daemon-namenode", &text(&directory), &port])?;
        let config = ClientConfig {
            namenode: Some(format!("http://127.0.0.1:{port}")),
            ..ClientConfig::default()
        };
        let deadline = Instant::now() + READY_MAX;
        while !directory.join("secret").is_file() {
            ensure!(Instant::now() < deadline, "no secret after {READY_MAX:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let client = DfsClient::connect(&config)?;
        let mut cluster = Cluster { directory, port, namenode, datanodes: Vec::new(), client };
        for number in 0..count {
            let child = cluster.spawn_datanode(number)?;
            cluster.datanodes.push(child);
        }
        cluster.wait(count)?;
        Ok(cluster)
    }

    fn spawn_datanode(&self, number: usize) -> anyhow::Result<Child> {
        spawn(&["daemon-datanode", &text(&self.directory), &self.port, &number.to_string()])
    }

    fn wait(&self, count: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_MAX;
        loop {
            let ready = self
                .client
                .cluster_status()
                .is_ok_and(|s| s.live_count as usize >= count && s.safe_mode.is_none());
            if ready {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "not ready after {READY_MAX:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.datanodes.iter_mut().chain([&mut self.namenode]) {
            let cpu = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
            let fields: Vec<&str> =
                cpu.rsplit(')').next().unwrap_or("").split_whitespace().collect();
            if let [user, system] = fields.get(11..13).unwrap_or_default() {
                eprintln!("daemon {} cpu ticks user {user} system {system}", child.id());
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::env::var_os("BENCH_DIR").is_none() {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

fn spawn(arguments: &[&str]) -> anyhow::Result<Child> {
    Command::new(std::env::current_exe()?).args(arguments).spawn().context("cannot start a daemon")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn put(file: &Path, count: usize) -> anyhow::Result<()> {
    let cluster = Cluster::start(count)?;
    let client = &cluster.client;
    let path = DfsPath::parse("/bench")?;
    let bytes = fs::metadata(file)?.len();
    let rate = |elapsed: Duration| bytes as f64 / elapsed.as_secs_f64() / 1e6;
    for _ in 0..3 {
        let start = Instant::now();
        let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
        let mut writer = client.create(&path, options)?;
        writer.write_from(&mut File::open(file)?)?;
        writer.close()?;
        let elapsed = start.elapsed();
        println!("put {:.2} s, {:.0} MB/s", elapsed.as_secs_f64(), rate(elapsed));
    }
    for _ in 0..3 {
        let copy = cluster.directory.join("copy");
        let start = Instant::now();
        let mut reader = client.open(&path)?;
        let mut out = File::create(&copy)?;
        let mut at = 0;
        while at < reader.len() {
            let slice = reader.next_slice(at, 4 << 20)?;
            out.write_all(&slice)?;
            at += slice.len() as u64;
        }
        let elapsed = start.elapsed();
        println!("get {:.2} s, {:.0} MB/s", elapsed.as_secs_f64(), rate(elapsed));
    }
    ensure!(same(&mut client.open(&path)?, file)?, "the file came back different");
    for _ in 0..3 {
        let start = Instant::now();
        let mut reader = client.open(&path)?;
        let (mut at, mut sum) = (0, 0usize);
        while at < reader.len() {
            let slice = reader.next_slice(at, 4 << 20)?;
            sum += slice.len();
            at += slice.len() as u64;
        }
        let elapsed = start.elapsed();
        println!("cat {:.2} s, {:.0} MB/s, {sum} bytes", elapsed.as_secs_f64(), rate(elapsed));
    }
    Ok(())
}

fn small(count: usize, bytes: usize, threads: usize) -> anyhow::Result<()> {
    let cluster = Cluster::start(3)?;
    let data = vec![b'x'; bytes];
    for round in 0..3 {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|thread| {
                    let (client, data) = (&cluster.client, &data);
                    scope.spawn(move || -> anyhow::Result<()> {
                        for number in (thread..count).step_by(threads) {
                            let path = DfsPath::parse(&format!("/small-{round}/{number}"))?;
                            let mut writer = client.create(&path, CreateOptions::default())?;
                            writer.write_all(data)?;
                            writer.close()?;
                        }
                        Ok(())
                    })
                })
                .collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().expect("a writer does not panic"))
        })?;
        let elapsed = start.elapsed();
        println!(
            "{count} files of {bytes} bytes in {:.2} s, {:.0} files/s",
            elapsed.as_secs_f64(),
            count as f64 / elapsed.as_secs_f64()
        );
    }
    Ok(())
}

fn kill(file: &Path, rounds: usize, count: usize) -> anyhow::Result<()> {
    let mut cluster = Cluster::start(count)?;
    let bytes = fs::metadata(file)?.len();
    for round in 0..rounds {
        cluster.wait(count)?;
        let path = DfsPath::parse(&format!("/kill-{round}"))?;
        let victim = (round * 7 + round / 3) % count;
        // Spread over the whole put, its ends included.
        let kill_at = bytes * (round as u64 % 11) / 10;
        let start = Instant::now();
        let mut writer = cluster.client.create(&path, CreateOptions::default())?;
        let mut source = File::open(file)?;
        writer.write_from(&mut (&mut source).take(kill_at))?;
        cluster.datanodes[victim].kill()?;
        cluster.datanodes[victim].wait()?;
        writer.write_from(&mut source)?;
        writer.close()?;
        let written = start.elapsed();
        ensure!(same(&mut cluster.client.open(&path)?, file)?, "round {round}: different");
        println!("round {round}: DataNode {victim} killed at {kill_at}, put took {written:.2?}");
        cluster.datanodes[victim] = cluster.spawn_datanode(victim)?;
    }
    Ok(())
}

fn same(left: &mut impl Read, right: &Path) -> anyhow::Result<bool> {
    let mut right = File::open(right)?;
    let (mut one, mut two) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let count = left.read(&mut one)?;
        if count == 0 {
            return Ok(right.read(&mut two)? == 0);
        }
        right.read_exact(&mut two[..count])?;
        if one[..count] != two[..count] {
            return Ok(false);
        }
    }
}

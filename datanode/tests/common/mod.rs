//! A NameNode and DataNodes in this process, with real sockets and real directories.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its cluster fails")]

use std::fs;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::ClientConfig;
use client::dfs::{CreateOptions, DfsClient};
use daemon::Shutdown;
use protocol::namenode::LocatedBlocks;
use protocol::{DatanodeId, DfsPath};
use transport::Timeouts;
use transport::rpc::CallOptions;

/// How long a condition can take to become true.
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Daemon {
    shutdown: Shutdown,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    fn start(run: impl FnOnce(Shutdown) + Send + 'static) -> Self {
        let shutdown = Shutdown::new();
        let told = shutdown.clone();
        let thread = Some(std::thread::spawn(move || run(told)));
        Daemon { shutdown, thread }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.shutdown.begin();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) struct Cluster {
    pub(crate) client: DfsClient,
    pub(crate) datanodes: Vec<Option<Daemon>>,
    config: ClientConfig,
    _namenode: Daemon,
    root: tempfile::TempDir,
    local_socket: bool,
    transfers_max: usize,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

impl Cluster {
    /// `local_socket`: offer Unix sockets, so clients map replicas; otherwise everything goes over TCP.
    pub(crate) fn start(count: usize, local_socket: bool) -> Self {
        Cluster::start_with(count, local_socket, datanode::Config::default().transfers_max)
    }

    /// With DataNodes that carry out so many operations at once.
    pub(crate) fn start_with(count: usize, local_socket: bool, transfers_max: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let secret_file = root.path().join("secret");
        let config = namenode::Config {
            data_dir: root.path().join("namenode"),
            secret_file: Some(secret_file.clone()),
            block_size_min: 512,
            heartbeat_ms: 200,
            stale_ms: 1500,
            dead_ms: 2500,
            recovery_retry_ms: 1000,
            delete_retry_ms: 1000,
            replication_timeout_ms: 3000,
            unknown_grace_ms: 0,
            ..namenode::Config::default()
        };
        let namenode = Daemon::start(move |shutdown| {
            runtime().block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                namenode::run_on(listener, config, shutdown).await.unwrap();
            });
        });
        until("the secret is made", || secret_file.is_file());
        let config = ClientConfig {
            namenode: Some(format!("http://{address}")),
            secret_file: Some(secret_file),
            ..ClientConfig::default()
        };
        let client = connect(&config);
        let mut cluster = Cluster {
            client,
            datanodes: (0..count).map(|_| None).collect(),
            config,
            _namenode: namenode,
            root,
            local_socket,
            transfers_max,
        };
        (0..count).for_each(|number| cluster.start_datanode(number));
        cluster.wait_live(count);
        cluster
    }

    pub(crate) fn start_datanode(&mut self, number: usize) {
        let config = datanode::Config {
            namenode: self.config.namenode.clone().unwrap(),
            secret_file: self.config.secret_file.clone().unwrap(),
            data_directories: vec![self.directory(number)],
            local_socket: self.local_socket,
            reserved_bytes: Some(0),
            trash_grace_ms: 0,
            transfers_max: self.transfers_max,
            io_timeout_ms: 5000,
            connect_timeout_ms: 1000,
            ..datanode::Config::default()
        };
        let daemon = Daemon::start(move |shutdown| {
            runtime().block_on(async { datanode::run(config, shutdown).await.unwrap() });
        });
        self.datanodes[number] = Some(daemon);
    }

    /// Stops a DataNode; its connections break.
    pub(crate) fn stop_datanode(&mut self, number: usize) {
        self.datanodes[number] = None;
    }

    pub(crate) fn directory(&self, number: usize) -> PathBuf {
        self.root.path().join(format!("datanode-{number}"))
    }

    /// The number of the DataNode with this identity.
    pub(crate) fn number_of(&self, id: DatanodeId) -> usize {
        (0..self.datanodes.len())
            .find(|number| {
                let version = fs::read_to_string(self.directory(*number).join("VERSION"));
                version.is_ok_and(|text| text.contains(&id.to_string()))
            })
            .unwrap()
    }

    pub(crate) fn wait_live(&self, count: usize) {
        until("DataNodes are live", || {
            self.client
                .cluster_status()
                .is_ok_and(|s| s.live_count as usize == count && s.safe_mode.is_none())
        });
    }

    /// Another client, with its own connections.
    pub(crate) fn connect(&self) -> DfsClient {
        connect(&self.config)
    }

    /// A client that acts as another user.
    pub(crate) fn connect_as(&self, user: &str) -> DfsClient {
        connect(&ClientConfig { user: Some(user.to_owned()), ..self.config.clone() })
    }

    pub(crate) fn put(&self, path: &str, data: &[u8], block_size: u64) {
        use std::io::Write;
        let options = CreateOptions { block_size: Some(block_size), ..CreateOptions::default() };
        let mut writer = self.client.create(&dfs(path), options).unwrap();
        writer.write_all(data).unwrap();
        writer.close().unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> std::io::Result<Vec<u8>> {
        use std::io::Read;
        let mut data = Vec::new();
        self.client.open(&dfs(path))?.read_to_end(&mut data)?;
        Ok(data)
    }

    pub(crate) fn locations(&self, path: &str) -> LocatedBlocks {
        self.client.locations(&dfs(path), 0, u64::MAX).unwrap()
    }

    /// Block files of all finalized replicas of a DataNode.
    pub(crate) fn block_files(&self, number: usize) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for folder in fs::read_dir(self.directory(number).join("finalized")).unwrap() {
            let folder = folder.unwrap().path();
            if !folder.is_dir() {
                continue;
            }
            for file in fs::read_dir(folder).unwrap() {
                let path = file.unwrap().path();
                if path.extension().is_none() {
                    files.push(path);
                }
            }
        }
        files.sort();
        files
    }
}

fn connect(config: &ClientConfig) -> DfsClient {
    let options = CallOptions { attempt_timeout: DEADLINE, retry_for: DEADLINE };
    let timeouts = Timeouts { io: Duration::from_secs(10), ..Timeouts::default() };
    DfsClient::connect_with(config, options, timeouts).unwrap()
}

pub(crate) fn dfs(path: &str) -> DfsPath {
    DfsPath::parse(path).unwrap()
}

/// Polls until `condition` holds; panics after a deadline.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Bytes without a repeating pattern.
pub(crate) fn sample(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as u8
        })
        .collect()
}

/// Flips one bit of a file in place.
pub(crate) fn flip(path: &std::path::Path, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

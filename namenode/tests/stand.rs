//! A NameNode for tests over sockets.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use daemon::Shutdown;
use namenode::{Config, Error};
use parking_lot::Mutex;
use protocol::DatanodeId;
use protocol::auth::{Key, Role};
use protocol::datanode::Replica;
use tokio::task::JoinHandle;
use transport::rpc::RpcClient;

/// The replicas of all DataNodes.
pub(crate) type Disks = Arc<Mutex<HashMap<DatanodeId, Arc<Mutex<Vec<Replica>>>>>>;

/// A NameNode in this process.
pub(crate) struct Server {
    pub(crate) base: String,
    pub(crate) secret: Key,
    pub(crate) shutdown: Shutdown,
    pub(crate) task: JoinHandle<Result<(), Error>>,
    pub(crate) disks: Disks,
}

impl Server {
    pub(crate) async fn start(directory: &Path) -> Server {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let config = Config {
            data_dir: directory.join("namenode"),
            block_size: 1000,
            block_size_min: 10,
            replication: 2,
            heartbeat_ms: 200,
            stale_ms: 2000,
            dead_ms: 4000,
            checkpoint_ms: 50,
            unknown_grace_ms: 100,
            superuser: Some("ann".to_owned()),
            // Pages show everybody here what they show to signed-in users elsewhere.
            webhdfs: webhdfs::Config { auth: webhdfs::config::Auth::Simple, ..Default::default() },
            ..Config::default()
        };
        let secret_path = config.secret_path();
        std::fs::create_dir_all(&config.data_dir).unwrap();
        let secret = daemon::secret::load(&secret_path, true).unwrap();
        let shutdown = Shutdown::new();
        let task = tokio::spawn(namenode::run_on(listener, config, shutdown.clone()));
        Server { base, secret, shutdown, task, disks: Disks::default() }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.begin();
        self.task.await.unwrap().unwrap();
    }

    pub(crate) fn rpc(&self, role: Role) -> RpcClient {
        RpcClient::new(&self.base, role, Some(&self.secret)).unwrap()
    }
}

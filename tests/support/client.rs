//! This process as a client of a cluster.

use client::ClientConfig;
use client::dfs::DfsClient;

use super::cluster::SUPERUSER;

/// How to reach a NameNode.
pub(crate) fn config(namenode: &str) -> ClientConfig {
    let (namenode, user) = (Some(namenode.to_owned()), Some(SUPERUSER.to_owned()));
    ClientConfig { namenode, user, ..ClientConfig::default() }
}

/// A client of a NameNode.
pub(crate) fn connect(namenode: &str) -> DfsClient {
    DfsClient::connect(&config(namenode)).unwrap()
}

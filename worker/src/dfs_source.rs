//! Executables of jobs from the distributed file system.

use std::io::{self, Write};

use client::ClientConfig;
use client::dfs::{DfsClient, DfsError};
use protocol::DfsPath;
use protocol::auth::Key;
use protocol::error::chain;

use crate::binaries::BinarySource;

/// Reads as the user of a job: the worker may be less than that user, and is not asked for more.
pub(crate) struct DfsSource {
    client: DfsClient,
}

impl DfsSource {
    /// Reads from the NameNode at `namenode`, near `host`.
    pub(crate) fn new(namenode: &str, host: &str, secret: &Key) -> Result<Self, DfsError> {
        let config = ClientConfig {
            namenode: Some(namenode.to_owned()),
            host: Some(host.to_owned()),
            secret: Some(secret.clone()),
            ..ClientConfig::default()
        };
        Ok(DfsSource { client: DfsClient::connect(&config)? })
    }
}

impl BinarySource for DfsSource {
    fn copy(&self, path: &DfsPath, user: &str, sink: &mut dyn Write) -> Result<(), String> {
        let client = self.client.as_user(user);
        let mut reader = client.open(path).map_err(|error| chain(&error))?;
        io::copy(&mut reader, sink).map_err(|error| chain(&error))?;
        Ok(())
    }
}

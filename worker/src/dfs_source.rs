//! Executables of jobs from the distributed file system.

use std::io::{self, Write};

use client::ClientConfig;
use client::dfs::{DfsClient, DfsError, DfsReader};
use protocol::DfsPath;
use protocol::auth::Key;
use protocol::error::chain;

use crate::binaries::BinarySource;

/// Reads as the user of a job: the worker may be less than that user, and is not asked for more.
pub(crate) struct DfsSource {
    config: ClientConfig,
}

impl DfsSource {
    /// Reads from the NameNode at `namenode`, near `host`.
    pub(crate) fn new(namenode: &str, host: &str, secret: &Key) -> Self {
        let config = ClientConfig {
            namenode: Some(namenode.to_owned()),
            host: Some(host.to_owned()),
            secret: Some(secret.clone()),
            ..ClientConfig::default()
        };
        DfsSource { config }
    }

    fn open(&self, path: &DfsPath, user: &str) -> Result<DfsReader, DfsError> {
        let config = ClientConfig { user: Some(user.to_owned()), ..self.config.clone() };
        DfsClient::connect(&config)?.open(path)
    }
}

impl BinarySource for DfsSource {
    fn copy(&self, path: &DfsPath, user: &str, sink: &mut dyn Write) -> Result<(), String> {
        let mut reader = self.open(path, user).map_err(|error| chain(&error))?;
        io::copy(&mut reader, sink).map_err(|error| chain(&error))?;
        Ok(())
    }
}

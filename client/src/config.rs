//! Where a client finds its cluster: flags, then environment, then `hanno.toml`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use protocol::auth::Key;
use serde::Deserialize;

use crate::error::RpcError;
use crate::pass::PassHolder;
use crate::rpc::read_secret;

/// Environment variable: address of the NameNode.
pub const NAMENODE_VARIABLE: &str = "HANNO_NAMENODE";
/// Environment variable: address of the JobTracker.
pub const JOBTRACKER_VARIABLE: &str = "HANNO_JOBTRACKER";
/// Environment variable: path of the file that holds the cluster secret (never the secret itself).
pub const SECRET_FILE_VARIABLE: &str = "HANNO_SECRET_FILE";
/// Environment variable: path of the configuration file.
pub const CONFIG_VARIABLE: &str = "HANNO_CONFIG";
/// Configuration file looked for in the working directory and then in `~/.config/hanno/`.
pub const CONFIG_FILE: &str = "hanno.toml";

/// What a client needs to know. Every field may be absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientConfig {
    /// `http://host:port` of the NameNode.
    pub namenode: Option<String>,
    /// `http://host:port` of the JobTracker.
    pub jobtracker: Option<String>,
    /// File that holds the cluster secret. Absent: the file that the NameNode names, if this user can read it.
    pub secret_file: Option<PathBuf>,
    /// Acting user. Absent: the user of this process.
    pub user: Option<String>,
    /// Name of this machine for placing and reading replicas near. Absent: the network name.
    pub host: Option<String>,
    /// Whether DataNodes on this machine are reached by their Unix sockets, over which they hand out whole replicas. Absent: yes; else
    /// everything goes over TCP, as from another machine.
    pub short_circuit: Option<bool>,
    /// Secret given by the process that started this one; never in a file or variable.
    #[serde(skip)]
    pub secret: Option<Key>,
    /// Of a task: what it signs with, instead of a secret.
    #[serde(skip)]
    pub pass: Option<PassHolder>,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The file has a mistake.
    #[error("{}: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line and mistake.
        reason: String,
    },
}

impl ClientConfig {
    /// Reads file and environment.
    ///
    /// # Errors
    /// [`ConfigError`] if a file exists that cannot be used, or `HANNO_CONFIG` names one that does not exist.
    pub fn load() -> Result<Self, ConfigError> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let mut config = match variable(CONFIG_VARIABLE) {
            Some(path) => Self::from_file(Path::new(&path))?,
            None => Self::from_first_of(&default_files())?,
        };
        if let Some(address) = variable(NAMENODE_VARIABLE) {
            config.namenode = Some(address);
        }
        if let Some(address) = variable(JOBTRACKER_VARIABLE) {
            config.jobtracker = Some(address);
        }
        if let Some(path) = variable(SECRET_FILE_VARIABLE) {
            config.secret_file = Some(path.into());
        }
        Ok(config)
    }

    /// The cluster secret if one was given or its file was named.
    ///
    /// # Errors
    /// [`RpcError::Secret`] if the file cannot be used.
    pub fn secret(&self) -> Result<Option<Key>, RpcError> {
        match (&self.secret, &self.secret_file) {
            (Some(secret), _) => Ok(Some(secret.clone())),
            (None, Some(path)) => read_secret(path).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Acting user.
    pub fn user(&self) -> String {
        self.user.clone().unwrap_or_else(sys::host::user_name)
    }

    /// Name of this machine.
    pub fn host(&self) -> String {
        self.host.clone().unwrap_or_else(sys::host::host_name)
    }

    /// Whether DataNodes on this machine are reached by their Unix sockets.
    pub fn short_circuit(&self) -> bool {
        self.short_circuit.unwrap_or(true)
    }

    fn from_first_of(paths: &[PathBuf]) -> Result<Self, ConfigError> {
        for path in paths {
            match Self::from_file(path) {
                Err(ConfigError::Read { source, .. })
                    if source.kind() == io::ErrorKind::NotFound => {}
                result => return result,
            }
        }
        Ok(ClientConfig::default())
    }

    fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let parse = |error: toml::de::Error| ConfigError::Parse {
            path: path.to_owned(),
            reason: error.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
        };
        toml::from_str(&text).map_err(parse)
    }
}

fn default_files() -> Vec<PathBuf> {
    let home = env::home_dir().map(|home| home.join(".config/hanno").join(CONFIG_FILE));
    [Some(PathBuf::from(CONFIG_FILE)), home].into_iter().flatten().collect()
}

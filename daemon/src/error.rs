//! What can go wrong before a daemon is up.

use std::io;
use std::path::PathBuf;

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
    /// The file is not TOML.
    #[error("{}: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line and mistake.
        reason: String,
    },
    /// A key that nobody knows.
    #[error("{}: unknown key `{key}`{}", path.display(), hint(nearest))]
    UnknownKey {
        /// The file or variable.
        path: PathBuf,
        /// The key.
        key: String,
        /// The known key that looks most like it.
        nearest: Option<String>,
    },
    /// A value of the wrong kind.
    #[error("{}: {reason}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Key and mistake.
        reason: String,
    },
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
}

/// A service that cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not usable.
    #[error("cannot listen on {address}")]
    Bind {
        /// As configured.
        address: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// An address that other machines reach, without the operator's word.
    #[error(
        "refusing to listen on {address}: it can be reached from other machines and traffic is not encrypted; \
         set `allow_unencrypted = true` if the network is trusted"
    )]
    Exposed {
        /// As configured.
        address: String,
    },
    /// Others would be told an address that is none.
    #[error(
        "{key} = \"{address}\" is no address that others can call: set `{remedy} = \"host:port\"` to the one that they shall use"
    )]
    Uncallable {
        /// Its key.
        key: &'static str,
        /// As configured.
        address: String,
        /// The key that says what others are told.
        remedy: &'static str,
    },
    /// The cluster secret cannot be read or made.
    #[error("cannot use the cluster secret {}: {reason}", path.display())]
    Secret {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

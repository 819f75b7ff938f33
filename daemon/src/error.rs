//! Errors at the start of a daemon, and refusals of what a request says.

use std::io;
use std::path::PathBuf;

use tls::TlsError;

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
    /// An unknown key.
    #[error("{}: unknown key `{key}`{}", path.display(), hint(nearest))]
    UnknownKey {
        /// The file or variable.
        path: PathBuf,
        /// The key.
        key: String,
        /// The most similar known key.
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
        /// The configured address.
        address: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// Connections from other machines cannot be encrypted.
    #[error(transparent)]
    Certificate(#[from] TlsError),
    /// The advertised address would be unusable for others.
    #[error(
        "{key} = \"{address}\" is no address that others can call: set `{remedy} = \"host:port\"` to the one that they shall use"
    )]
    Uncallable {
        /// Its key.
        key: &'static str,
        /// The configured address.
        address: String,
        /// The key that sets the advertised address.
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

/// A parameter of a request that cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadParameter {
    /// A value that is not allowed.
    #[error("parameter \"{name}\" is \"{value}\"; allowed is {allowed}")]
    Value {
        /// Its name.
        name: String,
        /// The value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// More than one value.
    #[error("parameter \"{name}\" is given more than once")]
    Repeated {
        /// Its name.
        name: String,
    },
    /// A parameter without which another makes no sense.
    #[error("parameter \"{name}\" is missing: {why}")]
    Missing {
        /// Its name.
        name: String,
        /// What needs it.
        why: String,
    },
    /// A name like that of a known parameter.
    #[error("there is no parameter \"{given}\"; did you mean \"{meant}\"?")]
    Mistyped {
        /// The name.
        given: String,
        /// The known name.
        meant: String,
    },
    /// What cannot be decoded.
    #[error("\"{text}\" in the query is not percent-encoded UTF-8; a percent sign is written %25")]
    Encoding {
        /// The name or value.
        text: String,
    },
}

//! The errors of calls to daemons and of conversations with DataNodes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use protocol::checksum::ChecksumError;
use protocol::frame::FrameError;
use protocol::transfer::TransferError;
use protocol::wire::WireError;
use protocol::{ErrorKind, RemoteError};

/// Where a process that has another secret than the cluster's gets it from.
const SECRET_REMEDY: &str =
    "; HANNO_SECRET_FILE, or `secret_file` in hanno.toml, names the file with the cluster's secret";

/// Why an operation with a DataNode failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferFailure {
    /// No connection.
    #[error("cannot connect to DataNode {address}")]
    Connect {
        /// The address.
        address: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// Something else listens in its place.
    #[error("what listens at {address} is not the DataNode that should be there")]
    Impostor {
        /// The address.
        address: String,
    },
    /// The connection broke.
    #[error("connection to the DataNode failed")]
    Io(#[source] io::Error),
    /// It stayed, and nothing came.
    #[error(transparent)]
    Silent(Silent),
    /// A message could not be read.
    #[error(transparent)]
    Frame(FrameError),
    /// A packet or ack breaks the rules.
    #[error(transparent)]
    Malformed(#[from] TransferError),
    /// Data does not match its checksums.
    #[error(transparent)]
    Checksum(#[from] ChecksumError),
    /// The DataNode refused.
    #[error("DataNode refused: {0}")]
    Remote(#[from] RemoteError),
    /// An answer to something else, or data that was not asked for.
    #[error("DataNode answered something that was not asked for")]
    Unexpected,
}

impl From<io::Error> for TransferFailure {
    fn from(error: io::Error) -> Self {
        match error.downcast() {
            Ok(silent) => TransferFailure::Silent(silent),
            Err(error) => TransferFailure::Io(error),
        }
    }
}

impl From<FrameError> for TransferFailure {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Io(error) => match error.downcast() {
                Ok(silent) => TransferFailure::Silent(silent),
                Err(error) => TransferFailure::Frame(FrameError::Io(error)),
            },
            error => TransferFailure::Frame(error),
        }
    }
}

/// Who is connected and neither says nor takes anything. It is what an [`io::Error`] of a [`Stream`](crate::Stream) holds whose time is over.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{peer} did not answer within {} s", limit.as_secs())]
pub struct Silent {
    /// The name of the other end.
    pub peer: String,
    /// How long it was waited for.
    pub limit: Duration,
}

/// A call without a usable answer.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// Not an address of a daemon.
    #[error("`{address}` is not an address like http://host:port")]
    Address {
        /// As given.
        address: String,
    },
    /// There is no connection, or it broke.
    #[error("cannot reach {address}")]
    Unreachable {
        /// The daemon.
        address: String,
        /// Cause.
        #[source]
        source: reqwest::Error,
    },
    /// Somebody takes connections there, says nothing, and has never said what it is.
    #[error(
        "{address} takes connections and did not say what it is within {} s: the daemon there hangs, or something else listens there; look at its log, and \
         whether HANNO_NAMENODE and HANNO_JOBTRACKER (or --namenode, --jobtracker) name the right address",
        limit.as_secs()
    )]
    Mute {
        /// The address.
        address: String,
        /// How long the client waited.
        limit: Duration,
    },
    /// The daemon took the request and does not answer.
    #[error("{address} did not begin its answer within {} s", limit.as_secs())]
    Silent {
        /// The daemon.
        address: String,
        /// How long the client waited.
        limit: Duration,
    },
    /// Whoever has what is to be sent hardly goes on with it.
    #[error("only {bytes} bytes of what is to be sent came within {} s", limit.as_secs())]
    Starved {
        /// How many.
        bytes: u64,
        /// How long the client waited.
        limit: Duration,
    },
    /// The daemon does not go on with the answer that it began.
    #[error("{address} stopped in the middle of its answer for {} s", limit.as_secs())]
    Stalled {
        /// The daemon.
        address: String,
        /// How long the client waited.
        limit: Duration,
    },
    /// The answer is longer than a client keeps.
    #[error("{address} answers with more than {limit} bytes")]
    TooLong {
        /// The daemon.
        address: String,
        /// The limit, bytes.
        limit: usize,
    },
    /// The answer is not the JSON that was expected.
    #[error("{address} answers with other JSON than expected")]
    NotJson {
        /// The daemon.
        address: String,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
    /// Something else listens at the address.
    #[error("{address} is not a Hanno daemon")]
    NotOurs {
        /// The address.
        address: String,
    },
    /// Another daemon listens there.
    #[error(
        "{address} is a {found}, not a {wanted}: look whether HANNO_NAMENODE and HANNO_JOBTRACKER (or --namenode, --jobtracker) are swapped"
    )]
    OtherDaemon {
        /// The address.
        address: String,
        /// The kind of daemon found.
        found: String,
        /// The kind of daemon expected.
        wanted: &'static str,
    },
    /// A file of the working directory names a daemon but no secret for it.
    #[error(
        "{} names {address} but no secret for it, and no other secret is used for an address from there: add `secret_file`, or name the \
         address by a flag, a variable or ~/.config/hanno/hanno.toml",
        file.display()
    )]
    Unbound {
        /// The daemon.
        address: String,
        /// The file.
        file: PathBuf,
    },
    /// The peer did not prove that it holds the secret.
    #[error(
        "{address} did not prove that it belongs to the cluster: something else listens there, or it has another secret"
    )]
    Unproven {
        /// The address.
        address: String,
    },
    /// The daemon answered with an HTTP error.
    #[error("{address} answered {status}: {text}{}", if *is_about_secret { SECRET_REMEDY } else { "" })]
    Status {
        /// The daemon.
        address: String,
        /// HTTP status.
        status: u16,
        /// First line of the answer.
        text: String,
        /// The request was not signed with the cluster's secret.
        is_about_secret: bool,
    },
    /// The cluster secret cannot be used.
    #[error("cannot use the cluster secret {}: {reason}", path.display())]
    Secret {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Nothing can be encrypted.
    #[error(transparent)]
    Tls(Box<tls::TlsError>),
    /// The answer does not decode.
    #[error(transparent)]
    Malformed(WireError),
    /// The daemon refused.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

impl From<tls::TlsError> for RpcError {
    fn from(error: tls::TlsError) -> Self {
        RpcError::Tls(Box::new(error))
    }
}

impl RpcError {
    /// True if the same call may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            RpcError::Unreachable { .. }
            | RpcError::Mute { .. }
            | RpcError::Silent { .. }
            | RpcError::Stalled { .. } => true,
            RpcError::Remote(refusal) => refusal.kind.is_transient(),
            _ => false,
        }
    }

    /// True if the daemon will never accept this message, however often it is sent.
    pub fn refuses_content(&self) -> bool {
        match self {
            RpcError::Status { status, .. } => matches!(status, 400 | 413),
            RpcError::Remote(refusal) => {
                matches!(refusal.kind, ErrorKind::InvalidArgument | ErrorKind::LimitExceeded)
            }
            _ => false,
        }
    }

    /// The daemon's reason if it refused.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            RpcError::Remote(refusal) => Some(refusal.kind),
            _ => None,
        }
    }
}

//! The errors of this crate.

use std::path::PathBuf;

use rustls::pki_types::pem;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has no PEM of the kind that belongs there.
    #[error("cannot read {what} from {}: {reason}", path.display())]
    File {
        /// What was looked for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        reason: pem::Error,
    },
    /// Others can read the key.
    #[error("{}: other users can read the private key; run chmod 600 on it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key do not belong together, or are of a kind that TLS 1.3 does not know.
    #[error("{} and {} cannot be used together: {reason}", certificate.display(), key.display())]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of its key.
        key: PathBuf,
        /// Why.
        reason: rustls::Error,
    },
    /// No certificate could be made.
    #[error("cannot make a certificate")]
    Make(#[source] rcgen::Error),
    /// Nobody could vouch for a server.
    #[error(
        "this machine knows no authority that could vouch for a certificate ({reason}): install `ca-certificates`, or name a file in SSL_CERT_FILE"
    )]
    Authorities {
        /// Why.
        reason: String,
    },
    /// The settings do not fit each other.
    #[error("cannot set up TLS")]
    Setup(#[source] rustls::Error),
}

//! TLS 1.3 on connections that leave the machine: the certificates of daemons, and which certificate a caller trusts.
//!
//! Nobody sets anything up. A daemon makes a certificate when it starts, and proves in its signed hello that the certificate is its own
//! ([`protocol::auth::hello_digest`]). A caller takes any certificate for a hello, and after that only the one which the hello proved ([`Pin`]). An operator may
//! give a daemon a certificate of an authority's instead, for clients that know nothing of hellos; Hanno's own check it in the same way.
//!
//! This crate makes settings of `rustls`; it opens no connection.

mod certificate;
mod error;
mod trust;

use std::sync::{Arc, OnceLock};

use rustls::crypto::{CryptoProvider, ring};

pub use certificate::Certificate;
pub use error::TlsError;
pub use rustls::{
    ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection,
    pki_types::ServerName,
};
pub use trust::{Pin, fingerprint_of, for_authorities, for_hello, for_pinned};

/// The cryptography: `ring`, with AES-128-GCM first, which processors have instructions for.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let make = || {
        let suites = ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
        let mut provider = ring::default_provider();
        provider.cipher_suites.sort_by_key(|suite| *suite != suites);
        Arc::new(provider)
    };
    Arc::clone(PROVIDER.get_or_init(make))
}

//! What identifies the daemon's end of an encrypted connection, and how a hello proves that it is that daemon's own.
//!
//! A daemon makes its certificate itself, so no authority vouches for it. Its signed hello does: the signature covers the fingerprint of the certificate. Who
//! stands between both ends can only show a certificate of his own, and the fingerprint that the caller saw is then not the one that was signed.

use std::fmt;

use sha2::{Digest, Sha256};

use super::auth::BodyDigest;
use crate::hex;

/// Bytes of a fingerprint.
pub const FINGERPRINT_BYTES: usize = 32;

/// SHA-256 of a certificate in its binary form (DER).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// Of the certificate with these bytes.
    pub fn of(certificate: &[u8]) -> Self {
        Fingerprint(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(&self.0, f)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the signature of a hello covers in place of its body alone: the body and, on an encrypted connection, the daemon's certificate there.
pub fn hello_digest(body: &[u8], certificate: Option<Fingerprint>) -> BodyDigest {
    match certificate {
        None => BodyDigest::of(body),
        Some(Fingerprint(bytes)) => BodyDigest::of(&[body, &bytes].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_good_for_one_certificate() {
        let [one, other] = [&b"one"[..], b"other"].map(Fingerprint::of);
        let digests = [None, Some(one), Some(other)].map(|it| hello_digest(b"hello", it));
        assert_eq!(digests[0], BodyDigest::of(b"hello"));
        assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[2] != digests[0]);
        assert_eq!(
            one.to_string(),
            "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
        );
    }
}

//! Keys: the cluster secret and what is derived from it.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::hex;

/// Bytes of a cluster secret and of every key.
pub const KEY_BYTES: usize = 32;

/// A secret key. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// Takes random bytes as a key.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Key(bytes)
    }

    /// Reads the hexadecimal form that secret files hold.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; KEY_BYTES];
        hex::read(text.trim(), &mut bytes).map(|()| Key(bytes))
    }

    /// The form that secret files hold.
    pub fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    /// A key for one purpose; knowing it tells nothing about `self` or other purposes.
    pub fn derive(&self, purpose: &str) -> Key {
        Key(self.mac(&[purpose.as_bytes()]))
    }

    /// HMAC-SHA256 of the concatenation of `parts`.
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.ready().mac(parts)
    }

    /// Compares in constant time.
    pub fn mac_matches(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        self.ready().matches(parts, mac)
    }

    /// The key, set up for many uses.
    pub fn ready(&self) -> ReadyKey {
        ReadyKey(Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// A key whose first blocks are hashed already, which is half the work of a short message.
#[derive(Clone)]
pub struct ReadyKey(Hmac<Sha256>);

impl ReadyKey {
    /// HMAC-SHA256 of the concatenation of `parts`.
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.over(parts).finalize().into_bytes().into()
    }

    /// Compares in constant time.
    pub fn matches(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        self.over(parts).verify_slice(mac).is_ok()
    }

    fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut hmac = self.0.clone();
        parts.iter().for_each(|part| hmac.update(part));
        hmac
    }
}

impl fmt::Debug for ReadyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadyKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let key = Key::new([7; 32]);
        assert_eq!(format!("{key:?} {:?}", key.ready()), "Key(secret) ReadyKey(secret)");
    }
}

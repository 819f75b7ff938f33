//! Keys: the cluster secret and the keys derived from it.

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

    /// Most bytes that a secret file is read for: more than its two lines with any blanks about them.
    pub const FILE_BYTES_MAX: u64 = 4096;

    /// Reads the hexadecimal form.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; KEY_BYTES];
        hex::read(text.trim(), &mut bytes).map(|()| Key(bytes))
    }

    /// The hexadecimal form.
    pub fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    /// Reads the contents of a secret file: the hexadecimal form, and on a second line its checksum, so a changed digit does not make another key. Files
    /// without a checksum are accepted too.
    ///
    /// # Errors
    /// The reason why the text is not a secret.
    pub fn from_file_text(text: &str) -> Result<Self, &'static str> {
        let (digits, rest) = text.trim_end().split_once('\n').unwrap_or((text.trim(), ""));
        let key = Self::from_hex(digits).ok_or("it does not hold 64 hexadecimal digits")?;
        match rest {
            "" => Ok(key),
            rest if rest == key.checksum_line() => Ok(key),
            _ => Err(
                "its checksum does not fit: it is damaged; copy it anew from another machine of the cluster",
            ),
        }
    }

    /// The contents of a secret file.
    pub fn file_text(&self) -> String {
        format!("{}\n{}\n", self.to_hex(), self.checksum_line())
    }

    /// True if the text of a secret file has a checksum.
    pub fn has_checksum(text: &str) -> bool {
        text.trim_end().contains('\n')
    }

    fn checksum_line(&self) -> String {
        format!("crc32 {:08x}", crc32fast::hash(self.to_hex().as_bytes()))
    }

    /// A key for one purpose; knowing it reveals nothing about `self` or other purposes.
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

/// A key whose first blocks are already hashed; hashing them is half the work for a short message.
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
    fn a_secret_file_of_which_a_bit_has_changed_is_no_other_secret() {
        let key = Key::new([0x5a; KEY_BYTES]);
        let text = key.file_text();
        assert_eq!(text, format!("{}\ncrc32 8fe5b532\n", "5a".repeat(KEY_BYTES)));
        assert!(Key::from_file_text(&text).unwrap() == key && Key::has_checksum(&text));
        for bit in 0..(text.len() - 1) * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = String::from_utf8(bytes).ok().map(|text| Key::from_file_text(&text));
            assert!(
                read.is_none_or(|read| read.is_err() || read.is_ok_and(|read| read == key)),
                "bit {bit}"
            );
        }
        for cut in 0..text.len() {
            let read = Key::from_file_text(&text[..cut]);
            assert!(read.is_err() || read.is_ok_and(|read| read == key), "cut at {cut}");
        }
        let old = format!("{}\n", key.to_hex());
        assert!(Key::from_file_text(&old).unwrap() == key && !Key::has_checksum(&old));
    }

    #[test]
    fn secrets_are_not_printed() {
        let key = Key::new([7; 32]);
        assert_eq!(format!("{key:?} {:?}", key.ready()), "Key(secret) ReadyKey(secret)");
    }
}

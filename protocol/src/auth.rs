//! How requests prove that their sender holds the cluster secret.
//!
//! Header `authorization: Hanno-1 <role> <ms since epoch> <nonce, 32 hex> <mac, 64 hex>`, where
//!
//! ```text
//! key = HMAC-SHA256(cluster secret, "hanno role key: " role)
//! mac = HMAC-SHA256(key, "Hanno-1\n" role "\n" ms "\n" nonce "\n" method "\n" path?query "\n" sha256(body) or "streamed")
//! ```
//!
//! A nonce is 8 bytes of a stream, random for each sender, and 8 bytes of a number that the sender counts up: who checks can so tell
//! a repeated request by the last numbers of each stream.
//!
//! A role key is derived, so a process that was given only the key of one role cannot act in another. A task has no role's key: it signs with the
//! pass of its job, whose name stands in the role's place ([`crate::pass`]).

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex;
use crate::pass::{Pass, PassName};

/// First word of the header: name and version of the scheme.
pub const SCHEME: &str = "Hanno-1";
/// How far a sender's clock may be off.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(300);
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

    /// Reads the hexadecimal form.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; KEY_BYTES];
        hex::read(text.trim(), &mut bytes).map(|()| Key(bytes))
    }

    /// The hexadecimal form.
    pub fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    /// Reads what a secret file holds: the hexadecimal form, and on a second line its checksum, so that a digit that has changed does not make
    /// another key. Files without a checksum are taken, too.
    ///
    /// # Errors
    /// Why it is no secret.
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

    /// What a secret file holds.
    pub fn file_text(&self) -> String {
        format!("{}\n{}\n", self.to_hex(), self.checksum_line())
    }

    /// True if the text of a secret file carries a checksum.
    pub fn has_checksum(text: &str) -> bool {
        text.trim_end().contains('\n')
    }

    fn checksum_line(&self) -> String {
        format!("crc32 {:08x}", crc32fast::hash(self.to_hex().as_bytes()))
    }

    /// A key for one purpose; knowing it tells nothing about `self` or other purposes.
    pub fn derive(&self, purpose: &str) -> Key {
        Key(self.mac(&[purpose.as_bytes()]))
    }

    /// HMAC-SHA256 of the concatenation of `parts`.
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.hmac(parts).finalize().into_bytes().into()
    }

    /// Compares in constant time.
    pub fn mac_matches(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        self.hmac(parts).verify_slice(mac).is_ok()
    }

    fn hmac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut hmac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        parts.iter().for_each(|part| hmac.update(part));
        hmac
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// In whose name a request is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Commands and drivers.
    Client,
    /// A DataNode.
    Datanode,
    /// A worker.
    Worker,
    /// The JobTracker.
    Jobtracker,
    /// A task of a job, which acts as the job's user alone. It has a pass and no role's key.
    Task,
}

impl Role {
    /// Its name in the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Datanode => "datanode",
            Role::Worker => "worker",
            Role::Jobtracker => "jobtracker",
            Role::Task => "task",
        }
    }

    fn parse(text: &str) -> Option<Role> {
        [Role::Client, Role::Datanode, Role::Worker, Role::Jobtracker]
            .into_iter()
            .find(|role| role.as_str() == text)
    }

    /// The role's key.
    pub fn key(self, secret: &Key) -> Key {
        secret.derive(&format!("hanno role key: {}", self.as_str()))
    }
}

/// Method that the signature of a login link names; no route answers it, so such a signature is good for nothing else.
pub const LOGIN_METHOD: &str = "LOGIN";

/// Target that the signature of a login link to a service's pages names.
pub fn login_target(service: &str, user: &str) -> String {
    format!("/login/{service}/{user}")
}

/// What a signature covers of the request body.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// The whole body.
    Bytes(&'a [u8]),
    /// Bodies too large to hash first; their content carries its own checksums.
    Streamed,
}

/// What a signature covers.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Path and query as sent.
    pub target: &'a str,
    /// Body.
    pub body: Body<'a>,
}

/// A parsed `authorization` header, not yet checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Claimed role.
    pub role: Role,
    /// Of a task, the name of its pass.
    pub pass: Option<PassName>,
    /// Sender's clock, milliseconds since the epoch.
    pub time_ms: u64,
    /// Once per request.
    pub nonce: Nonce,
    mac: [u8; 32],
}

/// What makes a signature different from every other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Nonce {
    /// The sender's; random.
    pub stream: u64,
    /// Ascends from one request of the sender to the next.
    pub number: u64,
}

impl Nonce {
    fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.stream) << 64 | u128::from(self.number)).to_be_bytes()
    }

    fn parse(text: &str) -> Option<Nonce> {
        let mut bytes = [0; 16];
        hex::read(text, &mut bytes)?;
        let both = u128::from_be_bytes(bytes);
        Some(Nonce { stream: (both >> 64) as u64, number: both as u64 })
    }
}

impl Signature {
    /// Signs a request; `key` is the key of `role`.
    pub fn sign(
        key: &Key,
        role: Role,
        time_ms: u64,
        nonce: Nonce,
        request: SignedRequest<'_>,
    ) -> Self {
        Signature::by(key, (role, None), time_ms, nonce, request)
    }

    /// Signs a request of a task.
    pub fn sign_as_task(
        pass: &Pass,
        time_ms: u64,
        nonce: Nonce,
        request: SignedRequest<'_>,
    ) -> Self {
        let signer = (Role::Task, Some(pass.name.clone()));
        Signature::by(&pass.key, signer, time_ms, nonce, request)
    }

    fn by(
        key: &Key,
        (role, pass): (Role, Option<PassName>),
        time_ms: u64,
        nonce: Nonce,
        request: SignedRequest<'_>,
    ) -> Self {
        let mut signature = Signature { role, pass, time_ms, nonce, mac: [0; 32] };
        signature.mac = key.mac(&[&signature.text(request)]);
        signature
    }

    /// The header's value.
    pub fn to_header(&self) -> String {
        let mut header = format!("{SCHEME} {} {} ", self.signer(), self.time_ms);
        hex::push(&mut header, &self.nonce.to_bytes());
        header.push(' ');
        hex::push(&mut header, &self.mac);
        header
    }

    /// Reads a header's value.
    pub fn parse(header: &str) -> Option<Self> {
        let mut words = header.split(' ');
        if words.next()? != SCHEME {
            return None;
        }
        let signer = words.next()?;
        let (role, pass) = match Role::parse(signer) {
            Some(role) => (role, None),
            None => (Role::Task, Some(PassName::parse(signer)?)),
        };
        let time_ms = words.next()?.parse().ok()?;
        let nonce = Nonce::parse(words.next()?)?;
        let mut mac = [0; 32];
        hex::read(words.next()?, &mut mac)?;
        words.next().is_none().then_some(Signature { role, pass, time_ms, nonce, mac })
    }

    /// True if the holder of `key` signed exactly this request.
    pub fn matches(&self, key: &Key, request: SignedRequest<'_>) -> bool {
        key.mac_matches(&[&self.text(request)], &self.mac)
    }

    /// Role or pass, as in the header.
    fn signer(&self) -> Cow<'static, str> {
        match &self.pass {
            Some(name) => Cow::Owned(name.to_string()),
            None => Cow::Borrowed(self.role.as_str()),
        }
    }

    /// What is signed.
    fn text(&self, request: SignedRequest<'_>) -> Vec<u8> {
        let SignedRequest { method, target, body } = request;
        let mut text = format!("{SCHEME}\n{}\n{}\n", self.signer(), self.time_ms);
        hex::push(&mut text, &self.nonce.to_bytes());
        let mut text = text.into_bytes();
        for part in [method, target] {
            text.push(b'\n');
            text.extend_from_slice(part.as_bytes());
        }
        text.push(b'\n');
        match body {
            Body::Bytes(bytes) => text.extend_from_slice(&Sha256::digest(bytes)),
            Body::Streamed => text.extend_from_slice(b"streamed"),
        }
        text
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

    const REQUEST: SignedRequest<'_> =
        SignedRequest { method: "POST", target: "/rpc?x=1", body: Body::Bytes(b"body") };

    const NONCE: Nonce = Nonce { stream: 0xab, number: 9 };

    #[test]
    fn golden_header() {
        let key = Role::Client.key(&Key::new([7; 32]));
        let header =
            Signature::sign(&key, Role::Client, 1_700_000_000_000, NONCE, REQUEST).to_header();
        let start = "Hanno-1 client 1700000000000 00000000000000ab0000000000000009 ";
        assert_eq!(
            header.strip_prefix(start),
            Some("bac27942c67ecf89f67273bf34dc7eec219a288a91d9c9049babee4b6ea4db3a")
        );
        let cut = |at: usize| header.get(..at).and_then(Signature::parse);
        assert!((0..header.len()).all(|at| cut(at).is_none()));
    }

    #[test]
    fn a_signature_holds_for_its_request_alone() {
        let secret = Key::new([7; 32]);
        let key = Role::Client.key(&secret);
        let signature = Signature::sign(&key, Role::Client, 1_700_000_000_000, NONCE, REQUEST);
        let parsed = Signature::parse(&signature.to_header()).unwrap();
        assert_eq!(parsed, signature);
        assert!(parsed.matches(&key, REQUEST));
        assert!(!parsed.matches(&Role::Worker.key(&secret), REQUEST));
        assert!(!parsed.matches(&key, SignedRequest { method: "PUT", ..REQUEST }));
        assert!(!parsed.matches(&key, SignedRequest { target: "/rpc?x=2", ..REQUEST }));
        assert!(!parsed.matches(&key, SignedRequest { body: Body::Bytes(b"bodY"), ..REQUEST }));
        assert!(!parsed.matches(&key, SignedRequest { body: Body::Streamed, ..REQUEST }));
        assert!(!Signature { role: Role::Worker, ..parsed }.matches(&key, REQUEST));
    }

    #[test]
    fn a_task_signs_in_no_name_but_its_own() {
        let secret = Key::new([7; 32]);
        let job = crate::JobId { cluster_start: 202_611_201_830, number: 7 };
        let name = PassName { job, user: "ada".to_owned(), expires_ms: 5 };
        let pass = Pass::issue(&secret, name.clone());
        let header =
            Signature::sign_as_task(&pass, 1, Nonce { stream: 9, number: 1 }, REQUEST).to_header();
        let parsed = Signature::parse(&header).unwrap();
        assert_eq!((parsed.role, parsed.pass.as_ref()), (Role::Task, Some(&name)));
        assert!(parsed.matches(&name.key(&secret), REQUEST));
        for other in [
            PassName { user: "bob".to_owned(), ..name.clone() },
            PassName { expires_ms: 6, ..name.clone() },
        ] {
            let forged = header.replace(&name.to_string(), &other.to_string());
            let parsed = Signature::parse(&forged).unwrap();
            assert!(!parsed.matches(&other.key(&secret), REQUEST), "{other}");
        }
        let forged = Signature::parse(&header.replace(&name.to_string(), "client")).unwrap();
        assert!(!forged.matches(&Role::Client.key(&secret), REQUEST));
        assert_eq!(Signature::parse(&header.replace(&name.to_string(), "task")), None);
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(format!("{:?}", Key::new([7; 32])), "Key(secret)");
    }
}

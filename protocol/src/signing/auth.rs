//! How a request proves that its sender holds the cluster secret, and how an answer proves the same of its sender.
//!
//! ```text
//! authorization: Hanno-2 <signer> <ms since epoch> <nonce, 32 hex> <to, 32 hex> <length> <sha256, 64 hex> <mac, 64 hex>
//! x-hanno-answer: <length | streamed> <sha256, 64 hex | -> <mac, 64 hex>
//! x-hanno-refused: secret
//!
//! request key = HMAC-SHA256(cluster secret, "hanno role key: " role), or the key of a pass
//! answer key  = HMAC-SHA256(request key, "hanno answer key")
//! request mac = HMAC-SHA256(request key, "Hanno-2\n" signer "\n" method "\n" path?query "\n" ms nonce to length sha256)
//! answer mac  = HMAC-SHA256(answer key, "Hanno-2 answer\n" nonce status length sha256)
//! ```
//!
//! Numbers are big endian: ms, length u64, status u16; of a streamed answer the length is `u64::MAX` and the digest zero.
//!
//! - **Length and digest of the body are in the header**: the receiver knows who signed, for what and how much before it reads a byte of the body. It checks
//!   the body when it has arrived.
//! - **`to` is the [`Incarnation`]** of the receiving daemon. It is drawn at random at each start and differs for every daemon and every start, so a request is
//!   good for one process alone. A sender learns it with `GET /hello`, a request to nobody ([`Incarnation::NONE`]) whose answer is signed like every other.
//! - **A nonce** is 8 bytes of a stream, random for each sender, and 8 bytes of a number that the sender counts up. The receiver recognises a repeated request
//!   by the last numbers of each stream.
//! - A role key is derived, so a process that has only the key of one role cannot act in another. A task has no role key: it signs with the pass of its job,
//!   whose name takes the place of the role ([`crate::pass`]).
//! - **A streamed answer** is signed without its content: it comes from a daemon of the cluster, and has checksums of its own.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::pass::{Pass, PassName};
use crate::hex;

pub use super::CLOCK_SKEW_MAX;
pub use super::fingerprint::{FINGERPRINT_BYTES, Fingerprint, hello_digest};
pub use super::key::{KEY_BYTES, Key, ReadyKey};

/// First word of the header: name and version of the scheme.
pub const SCHEME: &str = "Hanno-2";
/// Header of answers.
pub const ANSWER_HEADER: &str = "x-hanno-answer";
/// Header of the refusal of a request that nobody who holds the cluster secret vouches for; its value is [`REFUSED_SECRET`].
pub const REFUSED_HEADER: &str = "x-hanno-refused";
/// The request was signed with another secret than the cluster's, or not at all.
pub const REFUSED_SECRET: &str = "secret";
/// Path of the request whose answer, a [`Hello`], names the [`Incarnation`] of a daemon.
pub const HELLO: &str = "/hello";
/// Method that the signature of a login link names; no route answers it, so such a signature is good for nothing else.
pub const LOGIN_METHOD: &str = "LOGIN";

/// First words of the text that an answer's signature covers.
const ANSWER_SCHEME: &[u8] = b"Hanno-2 answer\n";
/// Stands in for the length of an answer that is signed before all of it exists.
const STREAMED: &str = "streamed";

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
    /// A task of a job, which acts only as the job's user. It has a pass and no role key.
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

/// The kind of a daemon.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Service {
    /// The NameNode.
    Namenode,
    /// A DataNode.
    Datanode,
    /// The JobTracker.
    Jobtracker,
    /// A worker.
    Worker,
    /// A gateway of WebHDFS.
    Gateway,
}

impl Service {
    /// Its name, as in `/healthz`.
    pub fn as_str(self) -> &'static str {
        match self {
            Service::Namenode => "namenode",
            Service::Datanode => "datanode",
            Service::Jobtracker => "jobtracker",
            Service::Worker => "worker",
            Service::Gateway => "gateway",
        }
    }
}

/// One process of one daemon, from its start to its end: random.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Incarnation(pub [u8; 16]);

impl Incarnation {
    /// Nobody: the addressee of `GET /hello`, and of nothing else.
    pub const NONE: Incarnation = Incarnation([0; 16]);
}

/// A daemon's answer about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Its kind.
    pub service: Service,
    /// The incarnation that requests must be signed for.
    pub incarnation: Incarnation,
}

/// The target in the signature of a login link to a service's pages.
pub fn login_target(service: &str, user: &str) -> String {
    format!("/login/{service}/{user}")
}

/// Length and digest of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyDigest {
    /// Bytes.
    pub length: u64,
    sha256: [u8; 32],
}

impl BodyDigest {
    /// The digest of no body.
    pub const EMPTY: BodyDigest = BodyDigest {
        length: 0,
        sha256: [
            0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f,
            0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b,
            0x78, 0x52, 0xb8, 0x55,
        ],
    };

    /// The digest of these bytes.
    pub fn of(body: &[u8]) -> Self {
        if body.is_empty() {
            return BodyDigest::EMPTY;
        }
        BodyDigest { length: body.len() as u64, sha256: Sha256::digest(body).into() }
    }

    fn parse(length: &str, sha256: &str) -> Option<Self> {
        let mut digest = BodyDigest { length: number(length)?, sha256: [0; 32] };
        hex::read(sha256, &mut digest.sha256)?;
        Some(digest)
    }

    fn push(&self, header: &mut String) {
        header.push_str(&self.length.to_string());
        header.push(' ');
        hex::push(header, &self.sha256);
        header.push(' ');
    }
}

/// What makes a signature different from every other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Nonce {
    /// Random for each sender.
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

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Path and query as sent.
    pub target: &'a str,
}

/// The time, addressee and body of a request.
#[derive(Clone, Copy, Debug)]
pub struct Occasion {
    /// Sender's clock, milliseconds since the epoch.
    pub time_ms: u64,
    /// Unique to the request.
    pub nonce: Nonce,
    /// The addressee.
    pub to: Incarnation,
    /// Digest of the body that follows.
    pub body: BodyDigest,
}

/// A parsed `authorization` header, not yet checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Claimed role.
    pub role: Role,
    /// For a task, the name of its pass.
    pub pass: Option<PassName>,
    /// Sender's clock, milliseconds since the epoch.
    pub time_ms: u64,
    /// Unique to the request.
    pub nonce: Nonce,
    /// The addressee.
    pub to: Incarnation,
    /// Digest of the body that follows.
    pub body: BodyDigest,
    mac: [u8; 32],
}

impl Signature {
    /// Signs a request; `key` is the key of `role`.
    pub fn sign(key: &ReadyKey, role: Role, on: Occasion, request: SignedRequest<'_>) -> Self {
        Signature::by(key, (role, None), on, request)
    }

    /// Signs a request of a task.
    pub fn sign_as_task(pass: &Pass, on: Occasion, request: SignedRequest<'_>) -> Self {
        Signature::by(&pass.key.ready(), (Role::Task, Some(pass.name.clone())), on, request)
    }

    fn by(
        key: &ReadyKey,
        (role, pass): (Role, Option<PassName>),
        Occasion { time_ms, nonce, to, body }: Occasion,
        request: SignedRequest<'_>,
    ) -> Self {
        let mut signature = Signature { role, pass, time_ms, nonce, to, body, mac: [0; 32] };
        signature.mac = signature.over(request, |parts| key.mac(parts));
        signature
    }

    /// The header's value.
    pub fn to_header(&self) -> String {
        let mut header = String::with_capacity(288);
        header.push_str(SCHEME);
        header.push(' ');
        header.push_str(&self.signer());
        header.push(' ');
        header.push_str(&self.time_ms.to_string());
        header.push(' ');
        hex::push(&mut header, &self.nonce.to_bytes());
        header.push(' ');
        hex::push(&mut header, &self.to.0);
        header.push(' ');
        self.body.push(&mut header);
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
        let time_ms = number(words.next()?)?;
        let nonce = Nonce::parse(words.next()?)?;
        let mut to = Incarnation::NONE;
        hex::read(words.next()?, &mut to.0)?;
        let body = BodyDigest::parse(words.next()?, words.next()?)?;
        let mut mac = [0; 32];
        hex::read(words.next()?, &mut mac)?;
        let signature = Signature { role, pass, time_ms, nonce, to, body, mac };
        words.next().is_none().then_some(signature)
    }

    /// True if the holder of `key` signed exactly this request.
    pub fn matches(&self, key: &ReadyKey, request: SignedRequest<'_>) -> bool {
        self.over(request, |parts| key.matches(parts, &self.mac))
    }

    /// Role or pass, as in the header.
    fn signer(&self) -> Cow<'static, str> {
        match &self.pass {
            Some(name) => Cow::Owned(name.to_string()),
            None => Cow::Borrowed(self.role.as_str()),
        }
    }

    /// The signed text. None of its text parts holds a line feed, and the rest has fixed lengths.
    fn over<T>(&self, request: SignedRequest<'_>, then: impl FnOnce(&[&[u8]]) -> T) -> T {
        then(&[
            SCHEME.as_bytes(),
            b"\n",
            self.signer().as_bytes(),
            b"\n",
            request.method.as_bytes(),
            b"\n",
            request.target.as_bytes(),
            b"\n",
            &self.time_ms.to_be_bytes(),
            &self.nonce.to_bytes(),
            &self.to.0,
            &self.body.length.to_be_bytes(),
            &self.body.sha256,
        ])
    }
}

/// The key of answers to requests that were signed with `key`.
pub fn answer_key(key: &Key) -> Key {
    key.derive("hanno answer key")
}

/// A parsed header of an answer, not yet checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnswerSignature {
    /// Digest of the body that follows; `None` if it is streamed.
    pub body: Option<BodyDigest>,
    mac: [u8; 32],
}

impl AnswerSignature {
    /// Signs the answer to the request that carried `nonce`.
    pub fn sign(key: &ReadyKey, nonce: Nonce, status: u16, body: Option<BodyDigest>) -> Self {
        let mut signature = AnswerSignature { body, mac: [0; 32] };
        signature.mac = signature.over(nonce, status, |parts| key.mac(parts));
        signature
    }

    /// The header's value.
    pub fn to_header(&self) -> String {
        let mut header = String::with_capacity(160);
        match &self.body {
            Some(body) => body.push(&mut header),
            None => {
                header.push_str(STREAMED);
                header.push_str(" - ");
            }
        }
        hex::push(&mut header, &self.mac);
        header
    }

    /// Reads a header's value.
    pub fn parse(header: &str) -> Option<Self> {
        let mut words = header.split(' ');
        let body = match (words.next()?, words.next()?) {
            (STREAMED, "-") => None,
            (length, sha256) => Some(BodyDigest::parse(length, sha256)?),
        };
        let mut mac = [0; 32];
        hex::read(words.next()?, &mut mac)?;
        words.next().is_none().then_some(AnswerSignature { body, mac })
    }

    /// True if a holder of `key` signed exactly this answer to the request that carried `nonce`.
    pub fn matches(&self, key: &ReadyKey, nonce: Nonce, status: u16) -> bool {
        self.over(nonce, status, |parts| key.matches(parts, &self.mac))
    }

    fn over<T>(&self, nonce: Nonce, status: u16, then: impl FnOnce(&[&[u8]]) -> T) -> T {
        let streamed = BodyDigest { length: u64::MAX, sha256: [0; 32] };
        let BodyDigest { length, sha256 } = self.body.unwrap_or(streamed);
        let (nonce, status) = (nonce.to_bytes(), status.to_be_bytes());
        then(&[ANSWER_SCHEME, &nonce, &status, &length.to_be_bytes(), &sha256])
    }
}

/// Reads a number in its one canonical form, so the signature covers exactly what the receiver understood.
fn number(text: &str) -> Option<u64> {
    let value: u64 = text.parse().ok()?;
    (!text.starts_with('+') && (text == "0" || !text.starts_with('0'))).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: SignedRequest<'_> = SignedRequest { method: "POST", target: "/rpc?x=1" };
    const NONCE: Nonce = Nonce { stream: 0xab, number: 9 };

    fn occasion() -> Occasion {
        let (to, body) = (Incarnation([3; 16]), BodyDigest::of(b"body"));
        Occasion { time_ms: 1_700_000_000_000, nonce: NONCE, to, body }
    }

    fn client(secret: u8) -> ReadyKey {
        Role::Client.key(&Key::new([secret; 32])).ready()
    }

    #[test]
    fn golden_headers() {
        let header = Signature::sign(&client(7), Role::Client, occasion(), REQUEST).to_header();
        let begin = "Hanno-2 client 1700000000000 00000000000000ab0000000000000009 \
                     03030303030303030303030303030303 4 \
                     230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5 ";
        assert_eq!(
            header.strip_prefix(begin),
            Some("118a27d10cb49b885cb06c41d18f102de991ddc0bf77812eaf4a16e0a8aefec9")
        );
        let cut = |at: usize| header.get(..at).and_then(Signature::parse);
        assert!((0..header.len()).all(|at| cut(at).is_none()));

        let key = answer_key(&Role::Client.key(&Key::new([7; 32]))).ready();
        let whole = AnswerSignature::sign(&key, NONCE, 200, Some(BodyDigest::EMPTY)).to_header();
        let begin = "0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 ";
        assert_eq!(
            whole.strip_prefix(begin),
            Some("0b44768dee899601fa193482c4c271ffcbc22867580230ca3370bb835cf5b555")
        );
        let streamed = AnswerSignature::sign(&key, NONCE, 200, None).to_header();
        assert_eq!(
            streamed.strip_prefix("streamed - "),
            Some("d60628852bc1e914bf6a4b8981ab0a31579eba6e7bb08b6efef8916d53de711a")
        );
        for header in [whole, streamed] {
            let cut = |at: usize| header.get(..at).and_then(AnswerSignature::parse);
            assert!((0..header.len()).all(|at| cut(at).is_none()));
        }
    }

    #[test]
    fn numbers_have_one_form() {
        assert_eq!((number("0"), number("10")), (Some(0), Some(10)));
        assert!(
            ["", "+1", "01", "00", "-1", " 1", "1e3"].iter().all(|text| number(text).is_none())
        );
    }

    #[test]
    fn a_signature_holds_for_its_request_alone() {
        let key = client(7);
        let signature = Signature::sign(&key, Role::Client, occasion(), REQUEST);
        let parsed = Signature::parse(&signature.to_header()).unwrap();
        assert_eq!(parsed, signature);
        assert!(parsed.matches(&key, REQUEST));
        assert!(!parsed.matches(&client(8), REQUEST));
        assert!(!parsed.matches(&Role::Worker.key(&Key::new([7; 32])).ready(), REQUEST));
        assert!(!parsed.matches(&key, SignedRequest { method: "PUT", ..REQUEST }));
        assert!(!parsed.matches(&key, SignedRequest { target: "/rpc?x=2", ..REQUEST }));
        for other in [
            Signature { role: Role::Worker, ..parsed.clone() },
            Signature { time_ms: 1, ..parsed.clone() },
            Signature { nonce: Nonce { number: 10, ..NONCE }, ..parsed.clone() },
            Signature { to: Incarnation([4; 16]), ..parsed.clone() },
            Signature { body: BodyDigest::of(b"bodY"), ..parsed.clone() },
            Signature { body: BodyDigest { length: 5, ..parsed.body }, ..parsed.clone() },
        ] {
            assert!(!other.matches(&key, REQUEST), "{other:?}");
        }
    }

    #[test]
    fn an_answer_holds_for_its_request_alone() {
        let key = answer_key(&Role::Client.key(&Key::new([7; 32]))).ready();
        let signature = AnswerSignature::sign(&key, NONCE, 200, Some(BodyDigest::of(b"answer")));
        let parsed = AnswerSignature::parse(&signature.to_header()).unwrap();
        assert_eq!(parsed, signature);
        assert!(parsed.matches(&key, NONCE, 200));
        assert!(!parsed.matches(&key, NONCE, 421));
        assert!(!parsed.matches(&key, Nonce { number: 10, ..NONCE }, 200));
        assert!(!parsed.matches(&client(7), NONCE, 200), "the key of requests signs no answers");
        for body in [None, Some(BodyDigest::EMPTY)] {
            assert!(!AnswerSignature { body, ..parsed }.matches(&key, NONCE, 200));
        }
    }

    #[test]
    fn a_task_signs_in_no_name_but_its_own() {
        let secret = Key::new([7; 32]);
        let job = crate::JobId { cluster_start: 202_611_201_830, number: 7 };
        let name = PassName { job, user: "ada".to_owned(), expires_ms: 5 };
        let pass = Pass::issue(&secret, name.clone());
        let header = Signature::sign_as_task(&pass, occasion(), REQUEST).to_header();
        let parsed = Signature::parse(&header).unwrap();
        assert_eq!((parsed.role, parsed.pass.as_ref()), (Role::Task, Some(&name)));
        assert!(parsed.matches(&name.key(&secret).ready(), REQUEST));
        for other in [
            PassName { user: "bob".to_owned(), ..name.clone() },
            PassName { expires_ms: 6, ..name.clone() },
        ] {
            let forged = header.replace(&name.to_string(), &other.to_string());
            let parsed = Signature::parse(&forged).unwrap();
            assert!(!parsed.matches(&other.key(&secret).ready(), REQUEST), "{other}");
        }
        let forged = Signature::parse(&header.replace(&name.to_string(), "client")).unwrap();
        assert!(!forged.matches(&client(7), REQUEST));
        assert_eq!(Signature::parse(&header.replace(&name.to_string(), "task")), None);
    }
}

//! Requests as a program would make them that knows the scheme and, where a row says so, a key: with every part of the signature free to
//! be wrong, on a socket of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use protocol::auth::{
    ANSWER_HEADER, AnswerSignature, BodyDigest, HELLO, Hello, Incarnation, Key, Nonce, Occasion,
    Role, Signature, SignedRequest, answer_key,
};
use protocol::wire;
use transport::rpc::now_ms;

use crate::support::http::{Answer, Connection};

/// How long a socket may take to say something.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request that is to be forged.
#[derive(Clone)]
pub(super) struct Forged {
    pub(super) url: String,
    pub(super) method: &'static str,
    pub(super) target: String,
    pub(super) role: Role,
    pub(super) key: Key,
    pub(super) on: Occasion,
    /// What is sent, whatever was signed.
    pub(super) body: Vec<u8>,
}

impl Forged {
    /// A request that is right in everything.
    pub(super) fn right(url: &str, secret: &Key, role: Role, target: &str, body: Vec<u8>) -> Self {
        let to = hello(url, secret).expect("it answers").incarnation;
        let on = occasion(to, BodyDigest::of(&body));
        let (url, target) = (url.to_owned(), target.to_owned());
        Forged { url, method: "POST", target, role, key: role.key(secret), on, body }
    }

    pub(super) fn header(&self) -> String {
        let request = SignedRequest { method: self.method, target: &self.target };
        Signature::sign(&self.key.ready(), self.role, self.on, request).to_header()
    }

    /// Sends it with this header, on a connection of its own.
    pub(super) fn send_with(&self, header: &str) -> Answer {
        let mut connection = Connection::open(&self.url);
        let length = self.body.len();
        let lines = format!("authorization: {header}\r\ncontent-length: {length}\r\n");
        connection.send_head(self.method, &format!("{}{}", self.url, self.target), &lines);
        // An answer may come before the body is read.
        let _ = connection.send(&self.body);
        connection.answer()
    }

    pub(super) fn send(&self) -> Answer {
        self.send_with(&self.header())
    }
}

/// When a request is made that was never made before.
pub(super) fn occasion(to: Incarnation, body: BodyDigest) -> Occasion {
    let nonce = Nonce { stream: rand::random(), number: 1 };
    Occasion { time_ms: now_ms(), nonce, to, body }
}

/// Who answers there, if he proves it.
pub(super) fn hello(url: &str, secret: &Key) -> Option<Hello> {
    greeted(url, secret).map(|(_, hello)| hello)
}

/// The same, and the connection on which both sides have proven who they are.
pub(super) fn greeted(url: &str, secret: &Key) -> Option<(Connection, Hello)> {
    let key = Role::Client.key(secret);
    let on = occasion(Incarnation::NONE, BodyDigest::EMPTY);
    let request = SignedRequest { method: "GET", target: HELLO };
    let header = Signature::sign(&key.ready(), Role::Client, on, request).to_header();
    let mut connection = Connection::open(url);
    let lines = format!("authorization: {header}\r\n");
    connection.send_head("GET", &format!("{url}{HELLO}"), &lines);
    let answer = connection.answer();
    let seal = AnswerSignature::parse(answer.header(ANSWER_HEADER)?)?;
    let is_good = seal.matches(&answer_key(&key).ready(), on.nonce, answer.status)
        && seal.body == Some(BodyDigest::of(&answer.body));
    is_good.then(|| (connection, wire::decode(&answer.body, "hello").unwrap()))
}

/// A socket to `http://host:port` on which anything may be written.
pub(super) fn raw(url: &str) -> TcpStream {
    let stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// All that comes until the other side ends; what it takes of `bytes` before.
pub(super) fn exchange(url: &str, bytes: &[u8]) -> String {
    let mut stream = raw(url);
    // It may end before it has taken everything.
    let _ = stream.write_all(bytes);
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    String::from_utf8_lossy(&heard).into_owned()
}

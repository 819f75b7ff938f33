//! Who may ask for what: forged, altered, repeated and misdirected requests, and bodies that nobody signed for.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use protocol::auth::{BodyDigest, Incarnation, Key, Nonce, Occasion, Role};
use protocol::namenode::{Call, Request};
use protocol::pass::{Pass, PassName};
use protocol::{ClientId, DfsPath, JobId, wire};

use super::forge::{Forged, exchange, hello, occasion, raw};
use super::{Attack, Stand};
use crate::support::Options;

/// Unfinished bodies at once, and bytes of each.
const BODIES: usize = 30;
const BODY_BYTES: usize = 63 << 20;

const ATTACKS: &[Attack] = &[
    ("bodies that nobody signed for and that never end", unsigned_bodies),
    ("bodies under a wrong signature that never end", wrongly_signed_bodies),
    ("a signed body that never ends", slow_body),
    ("a body that is not the one that was signed", another_body),
    ("a body that is longer than was signed", longer_body),
    ("a signed length beyond what is taken", huge_length),
    ("the same request twice", repeated),
    ("a request of one daemon to all others", misdirected),
    ("a request to nobody", to_nobody),
    ("another secret", another_secret),
    ("a role's name over another role's key", forged_role),
    ("roles that may not ask this", wrong_roles),
    ("a clock that is far off", skewed),
    ("every cut of a header", cut_headers),
    ("a header with every letter changed", altered_headers),
    ("two headers of authorization", two_headers),
    ("a pass whose name was changed", altered_pass),
    ("many streams of nonces", nonce_flood),
    ("a hello without a key", unsigned_hello),
];

#[test]
fn what_is_not_signed_is_not_heard_and_costs_nothing() {
    Stand::start(Options::default()).suffer(ATTACKS);
}

#[test]
fn a_request_dies_with_the_process_it_was_made_for() {
    let stand = Stand::start(Options { workers: 1, ..Options::default() });
    let before = status_of(&stand);
    let header = before.header();
    before.send_with(&header).is(200);
    let never_sent = Forged { on: again(before.on), ..before.clone() }.header();
    stand.cluster.kill("namenode-1");
    stand.cluster.wait_until("another NameNode", 60, |cluster| {
        let is_new = cluster.pid("namenode-1").is_some_and(|pid| pid != stand.pids["namenode-1"]);
        is_new
            && TcpStream::connect(cluster.namenode.trim_start_matches("http://")).is_ok()
            && hello(&cluster.namenode, &stand.secret)
                .is_some_and(|hello| hello.incarnation != before.on.to)
    });
    // Its memory of nonces is empty, and both are as good as they were.
    for header in [header, never_sent] {
        before.send_with(&header).is(421);
    }
    // Clients that knew the one before find the new one.
    let client = crate::support::client::connect(&stand.cluster.namenode);
    client.status(&DfsPath::root()).unwrap();
}

fn status(number: u64) -> Vec<u8> {
    let call = Call::Status(DfsPath::root());
    wire::encode(&Request::new(ClientId([9; 16]), number, "tester", "", call))
}

/// A right request to the NameNode for a status.
fn status_of(stand: &Stand) -> Forged {
    Forged::right(&stand.cluster.namenode, &stand.secret, Role::Client, "/rpc", status(1))
}

/// The same occasion under another nonce.
fn again(on: Occasion) -> Occasion {
    Occasion { nonce: Nonce { stream: rand::random(), number: 1 }, ..on }
}

/// Sends as much of unfinished bodies as is taken and holds the connections for a while.
fn hold_bodies(stand: &Stand, header: &str) {
    for (url, target) in
        [(&stand.cluster.namenode, "/rpc"), (&stand.cluster.jobtracker, "/rpc/worker")]
    {
        let piece = vec![7; 1 << 20];
        let mut held: Vec<TcpStream> = Vec::new();
        for _ in 0..BODIES {
            let mut stream = raw(url);
            stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
            let head = format!(
                "POST {target} HTTP/1.1\r\nhost: localhost\r\n{header}content-length: {BODY_BYTES}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            // All but the last mebibyte, or what is taken of it.
            let _ = (1..BODY_BYTES >> 20).try_for_each(|_| stream.write_all(&piece));
            held.push(stream);
        }
        stand.works("while bodies are held");
    }
}

fn unsigned_bodies(stand: &Stand) {
    hold_bodies(stand, "");
}

fn wrongly_signed_bodies(stand: &Stand) {
    let mut forged = status_of(stand);
    forged.key = Role::Client.key(&Key::new([9; 32]));
    forged.on.body.length = BODY_BYTES as u64;
    hold_bodies(stand, &format!("authorization: {}\r\n", forged.header()));
}

fn slow_body(stand: &Stand) {
    let forged = status_of(stand);
    let begin = Instant::now();
    let head = format!(
        "POST /rpc HTTP/1.1\r\nhost: localhost\r\nauthorization: {}\r\ncontent-length: {}\r\n\r\n",
        forged.header(),
        forged.body.len()
    );
    let bytes = [head.as_bytes(), &forged.body[1..]].concat();
    let heard = exchange(&forged.url, &bytes);
    assert!(heard.contains(" 408 "), "{heard}");
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
}

fn another_body(stand: &Stand) {
    let right = status_of(stand);
    for at in 0..right.body.len() {
        let mut forged = Forged { on: again(right.on), ..right.clone() };
        forged.body[at] ^= 1;
        forged.send().is(400);
    }
}

fn longer_body(stand: &Stand) {
    let mut forged = status_of(stand);
    forged.body.extend(vec![0; 1 << 20]);
    forged.send().is(400);
}

fn huge_length(stand: &Stand) {
    for length in [(16 << 20) + 1, 1 << 40, u64::MAX] {
        let mut forged = status_of(stand);
        forged.on.body.length = length;
        forged.send().is(413);
    }
}

fn repeated(stand: &Stand) {
    let forged = status_of(stand);
    let header = forged.header();
    forged.send_with(&header).is(200);
    for _ in 0..3 {
        forged.send_with(&header).is(401);
    }
}

fn misdirected(stand: &Stand) {
    let secret = &stand.secret;
    let (namenode, jobtracker) = (&stand.cluster.namenode, &stand.cluster.jobtracker);
    let (first, second) = (hello(namenode, secret).unwrap(), hello(jobtracker, secret).unwrap());
    assert_ne!(first.incarnation, second.incarnation);
    let datanodes: Vec<String> =
        stand.datanodes().into_iter().map(|node| node.http_address).collect();
    assert_eq!(datanodes.len(), 3);
    // A level that is set at one DataNode is set at no other.
    let url = format!("http://{}", datanodes[0]);
    let target = "/logLevel?log=hostile&level=debug&user.name=tester";
    let mut forged = Forged::right(&url, secret, Role::Client, target, Vec::new());
    forged.method = "GET";
    let header = forged.header();
    for other in &datanodes[1..] {
        Forged { url: format!("http://{other}"), ..forged.clone() }.send_with(&header).is(421);
    }
    forged.send_with(&header).is(200);
    let mut forged = status_of(stand);
    forged.on.to = second.incarnation;
    forged.send().is(421);
}

fn to_nobody(stand: &Stand) {
    let mut forged = status_of(stand);
    forged.on.to = Incarnation::NONE;
    forged.send().is(421);
}

fn another_secret(stand: &Stand) {
    let mut forged = status_of(stand);
    forged.key = Role::Client.key(&Key::new([9; 32]));
    forged.send().is(401);
    assert!(hello(&stand.cluster.namenode, &Key::new([9; 32])).is_none());
}

fn forged_role(stand: &Stand) {
    for role in [Role::Datanode, Role::Worker, Role::Jobtracker] {
        let mut forged = status_of(stand);
        forged.key = role.key(&stand.secret);
        forged.send().is(401);
        forged.role = role;
        forged.key = Role::Client.key(&stand.secret);
        forged.send().is(401);
    }
}

fn wrong_roles(stand: &Stand) {
    let (namenode, jobtracker) = (&stand.cluster.namenode, &stand.cluster.jobtracker);
    let all = [Role::Client, Role::Datanode, Role::Worker, Role::Jobtracker];
    for (url, target, allowed) in [
        (namenode, "/rpc", Role::Client),
        (namenode, "/rpc/datanode", Role::Datanode),
        (jobtracker, "/rpc", Role::Client),
        (jobtracker, "/rpc/worker", Role::Worker),
    ] {
        for role in all.into_iter().filter(|role| *role != allowed) {
            Forged::right(url, &stand.secret, role, target, status(1)).send().is(403);
        }
    }
}

fn skewed(stand: &Stand) {
    for off_ms in [-301_000_i64, 301_000, i64::MIN / 2] {
        let mut forged = status_of(stand);
        forged.on.time_ms = forged.on.time_ms.saturating_add_signed(off_ms);
        forged.send().is(401);
    }
}

fn cut_headers(stand: &Stand) {
    let forged = status_of(stand);
    let header = forged.header();
    for end in (0..header.len()).step_by(3) {
        forged.send_with(&header[..end]).is(401);
    }
}

fn altered_headers(stand: &Stand) {
    let forged = status_of(stand);
    let header = forged.header();
    for at in 0..header.len() {
        let mut altered = header.clone().into_bytes();
        altered[at] = if altered[at] == b'1' { b'2' } else { b'1' };
        let answer = forged.send_with(std::str::from_utf8(&altered).unwrap());
        assert_eq!(answer.status, 401, "letter {at} of {header}");
    }
    forged.send_with(&header).is(200);
}

fn two_headers(stand: &Stand) {
    let (right, mut wrong) = (status_of(stand), status_of(stand));
    wrong.key = Role::Client.key(&Key::new([9; 32]));
    let both = format!("{}\r\nauthorization: {}", wrong.header(), right.header());
    right.send_with(&both).is(401);
}

fn altered_pass(stand: &Stand) {
    let job = JobId { cluster_start: 202_611_201_830, number: 1 };
    let expires_ms = transport::rpc::now_ms() + 600_000;
    let name = PassName { job, user: "ann".to_owned(), expires_ms };
    let pass = Pass::issue(&stand.secret, name.clone());
    for other in [
        PassName { user: "tester".to_owned(), ..name.clone() },
        PassName { expires_ms: u64::MAX, ..name.clone() },
        PassName { job: JobId { number: 2, ..job }, ..name },
    ] {
        let forged = status_of(stand);
        let request = protocol::auth::SignedRequest { method: "POST", target: "/rpc" };
        let pass = Pass { name: other, key: pass.key.clone() };
        let signature = protocol::auth::Signature::sign_as_task(&pass, forged.on, request);
        forged.send_with(&signature.to_header()).is(401);
    }
}

fn nonce_flood(stand: &Stand) {
    // Signed, as a task or a program of the owner could: each is remembered at a bounded cost.
    let forged = status_of(stand);
    let mut connection = crate::support::http::Connection::open(&forged.url);
    for number in 0..1_000 {
        let nonce = Nonce { stream: rand::random(), number: number * 1_000_000_007 };
        let header = Forged { on: Occasion { nonce, ..forged.on }, ..forged.clone() }.header();
        let length = forged.body.len();
        let lines = format!("authorization: {header}\r\ncontent-length: {length}\r\n");
        connection.send_head("POST", &format!("{}/rpc", forged.url), &lines);
        connection.send(&forged.body).unwrap();
        connection.answer().is(200);
    }
}

fn unsigned_hello(stand: &Stand) {
    let heard = exchange(
        &stand.cluster.namenode,
        b"GET /hello HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    );
    assert!(heard.contains(" 401 ") && !heard.contains("x-hanno-answer"), "{heard}");
    let digest = BodyDigest::EMPTY;
    let to = occasion(Incarnation([1; 16]), digest);
    let forged = Forged {
        method: "GET",
        target: "/hello".to_owned(),
        on: to,
        body: Vec::new(),
        ..status_of(stand)
    };
    forged.send().is(421);
}

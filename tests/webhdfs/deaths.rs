//! A DataNode is killed in the middle of the second step: the one that serves it, or another that has a part in it. The client
//! is told the truth - all of it went well, or the connection ends - and can do the same again elsewhere; nothing that was
//! acknowledged is lost.

use super::{IO, Web, exception};
use crate::support::http::{Connection, request};
use crate::support::report::assert_no_panics;
use crate::support::{Cluster, data};

/// What is sent before a DataNode dies: some packets.
const BEGUN_BYTES: usize = 5 << 20;
/// What a reader has taken of a file when a DataNode dies.
const TAKEN_BYTES: usize = 1 << 20;
/// A file that sockets do not hold.
const LARGE_BYTES: usize = 64 << 20;
/// Files of writers that were not heard of for so long are closed: longer than writers need to renew their leases, which is every 20 s.
const CLOSED: (&str, &str) = ("HANNO_NAMENODE_LEASE_HARD_MS", "30000");
/// A writer that was silent for so long loses a file that somebody else wants. Here nobody wants that of a writer who lives.
const GIVEN_UP: (&str, &str) = ("HANNO_NAMENODE_LEASE_SOFT_MS", "2000");

/// `host:port` of a URL.
fn address(url: &str) -> &str {
    url.trim_start_matches("http://").split('/').next().unwrap_or_default()
}

/// `datanode-<number>` whose settings name this address.
fn datanode_at(cluster: &Cluster, address: &str) -> String {
    let quoted = format!("\"{address}\"");
    let names = (1..=9).map(|number| format!("datanode-{number}"));
    let mut known = names.filter(|name| {
        let settings = cluster.directory.join(format!("conf/{name}.toml"));
        std::fs::read_to_string(settings).is_ok_and(|text| text.contains(&quoted))
    });
    known.next().unwrap_or_else(|| panic!("no DataNode at {address}"))
}

/// Kills a DataNode and waits for the process in its place.
fn kill(cluster: &Cluster, name: &str) {
    let before = cluster.pid(name);
    cluster.kill(name);
    cluster.wait_until("another process is there", 60, |cluster| {
        cluster.pid(name).is_some_and(|pid| Some(pid) != before)
    });
}

/// An upload that has begun: the head and the first bytes of `content` are sent, and blocks exist.
fn begin(web: &Web, (method, url, path): (&str, &str, &str), content: &[u8]) -> Connection {
    let blocks = || web.ask("GET", &format!("{path}?op=GET_BLOCK_LOCATIONS"));
    let mut connection = Connection::open(url);
    connection.send_head(method, url, &format!("Content-Length: {}\r\n", content.len()));
    connection.send(&content[..BEGUN_BYTES]).unwrap();
    web.cluster.wait_until("the file is being written", 60, |_| {
        let blocks = blocks();
        blocks.status == 200 && blocks.json()["LocatedBlocks"]["isUnderConstruction"] == true
    });
    connection
}

/// A DataNode that has a replica of the last block of `path`, and is not `server`.
fn member(web: &Web, path: &str, server: &str) -> String {
    let blocks = web.ask("GET", &format!("{path}?op=GET_BLOCK_LOCATIONS")).is(200).json();
    let last = &blocks["LocatedBlocks"]["lastLocatedBlock"];
    let nodes = last["locations"].as_array().unwrap_or_else(|| panic!("no block: {blocks}"));
    let names = nodes.iter().map(|node| {
        let (host, port) = (node["ipAddr"].as_str().unwrap(), &node["xferPort"]);
        datanode_at(&web.cluster, &format!("{host}:{port}"))
    });
    names.into_iter().find(|name| name != server).expect("a replica elsewhere")
}

/// Sends the same again until the dead writer's lease is over; what is refused meanwhile says so.
fn repeat(web: &Web, method: &str, rest: &str, content: &[u8], status: u16) {
    web.cluster.wait_until("the dead writer is given up", 60, |_| {
        let answer = web.send(method, rest, content);
        if answer.status == status {
            return true;
        }
        let (found, class, message) = exception(&answer);
        let known = ["AlreadyBeingCreatedException", "RecoveryInProgressException"];
        let name = class.rsplit('.').next().unwrap_or_default();
        assert!(found == 403 && known.contains(&name), "{found} {class} {message}");
        false
    });
}

#[test]
fn an_upload_whose_datanode_dies_ends_unanswered_and_can_be_repeated() {
    let web = Web::start();
    let content = data::bytes(1, 2 * BEGUN_BYTES);
    // Over the remains, elsewhere, at once.
    let url = web.second_step("PUT", "/again?op=CREATE");
    let server = datanode_at(&web.cluster, address(&url));
    let mut connection = begin(&web, ("PUT", &url, "/again"), &content);
    kill(&web.cluster, &server);
    assert_eq!(connection.bytes(100), b"", "no answer");
    let rest = format!("/again?op=CREATE&overwrite=true&excludedatanodes={}", address(&url));
    let elsewhere = web.second_step("PUT", &rest);
    assert_ne!(address(&elsewhere), address(&url));
    request("PUT", &elsewhere, &content).is(201);
    assert!(web.read("/again") == content);
    web.cluster.wait_healthy(60);
    assert_no_panics(&web.cluster);
}

#[test]
fn what_an_upload_leaves_whose_datanode_dies_is_closed_at_what_all_have() {
    let web = Web::start_with(&[GIVEN_UP, CLOSED]);
    let content = data::bytes(1, 2 * BEGUN_BYTES);
    let url = web.second_step("PUT", "/left?op=CREATE");
    let server = datanode_at(&web.cluster, address(&url));
    let mut connection = begin(&web, ("PUT", &url, "/left"), &content);
    kill(&web.cluster, &server);
    assert_eq!(connection.bytes(100), b"", "no answer");
    web.cluster.wait_until("the lease is over", 180, |_| {
        let status = web.ask("GET", "/left?op=GET_BLOCK_LOCATIONS").is(200).json();
        status["LocatedBlocks"]["isUnderConstruction"] == false
    });
    // A file like any other.
    let left = web.read("/left");
    assert!(content[..BEGUN_BYTES].starts_with(&left), "{} bytes", left.len());
    repeat(&web, "POST", "/left?op=APPEND", b"more", 200);
    assert!(web.read("/left") == [&left[..], b"more"].concat());
    let deleted = web.ask("DELETE", "/left?op=DELETE").is(200).json();
    assert_eq!(deleted["boolean"], true);
    web.cluster.wait_healthy(60);
    assert_no_panics(&web.cluster);
}

#[test]
fn an_upload_goes_on_when_another_member_of_its_pipeline_dies() {
    let web = Web::start_on(4, &[]);
    let content = data::bytes(2, 2 * BEGUN_BYTES);
    for method in ["PUT", "POST"] {
        let (op, status) = if method == "PUT" { ("CREATE", 201) } else { ("APPEND", 200) };
        let url = web.second_step(method, &format!("/f?op={op}"));
        let server = datanode_at(&web.cluster, address(&url));
        let mut connection = begin(&web, (method, &url, "/f"), &content);
        kill(&web.cluster, &member(&web, "/f", &server));
        connection.send(&content[BEGUN_BYTES..]).unwrap();
        connection.answer().is(status);
    }
    assert!(web.read("/f") == [&content[..], &content].concat());
    web.cluster.wait_healthy(60);
    assert_no_panics(&web.cluster);
}

#[test]
fn an_append_whose_datanode_dies_keeps_what_was_there_and_can_be_repeated() {
    let web = Web::start_with(&[GIVEN_UP]);
    let (before, content) = (data::bytes(3, 1_234_567), data::bytes(4, 2 * BEGUN_BYTES));
    web.put("/log", &before);
    let url = web.second_step("POST", "/log?op=APPEND");
    let server = datanode_at(&web.cluster, address(&url));
    let mut connection = begin(&web, ("POST", &url, "/log"), &content);
    kill(&web.cluster, &server);
    assert_eq!(connection.bytes(100), b"", "no answer");
    // What was acknowledged is there for readers all the time. As Hadoop's client does, they name whom they could not reach.
    let dead = address(&url);
    let range = format!("/log?op=OPEN&length={}&excludedatanodes={dead}", before.len());
    assert!(web.send("GET", &range, b"").is(200).body == before);
    repeat(&web, "POST", &format!("/log?op=APPEND&excludedatanodes={dead}"), b"end", 200);
    let found = web.read("/log");
    assert!(found.starts_with(&before) && found.ends_with(b"end"), "{} bytes", found.len());
    let between = &found[before.len()..found.len() - 3];
    assert!(content[..BEGUN_BYTES].starts_with(between), "{} bytes", between.len());
    web.cluster.wait_healthy(60);
    assert_no_panics(&web.cluster);
}

/// A download of `/f` of which [`TAKEN_BYTES`] were read.
struct Download {
    opened: String,
    server: String,
    connection: Connection,
    found: Vec<u8>,
}

/// Makes `/f` of several blocks with two replicas each and begins to read it.
fn begin_download(web: &Web, content: &[u8]) -> Download {
    let url = web.second_step("PUT", "/f?op=CREATE&blocksize=4194304&replication=2");
    request("PUT", &url, content).is(201);
    let opened = web.second_step("GET", "/f?op=OPEN");
    let server = datanode_at(&web.cluster, address(&opened));
    let mut connection = Connection::open(&opened);
    connection.send_head("GET", &opened, "");
    let head = connection.head().is(200);
    assert_eq!(head.header("content-length"), Some(content.len().to_string().as_str()));
    let found = connection.bytes(TAKEN_BYTES);
    Download { opened, server, connection, found }
}

#[test]
fn a_download_whose_datanode_dies_ends_short_and_goes_on_elsewhere() {
    let web = Web::start_on(3, &[]);
    let content = data::bytes(5, LARGE_BYTES);
    let Download { opened, server, mut connection, mut found } = begin_download(&web, &content);
    kill(&web.cluster, &server);
    found.extend(connection.bytes(LARGE_BYTES));
    assert!(found.len() < LARGE_BYTES, "the end was not read before");
    assert!(content.starts_with(&found), "{} bytes", found.len());
    let rest = format!("/f?op=OPEN&offset={}&excludedatanodes={}", found.len(), address(&opened));
    found.extend(web.send("GET", &rest, b"").is(200).body);
    assert!(found == content);
    // Nobody is left who has it: a refusal, in words.
    let all: Vec<String> =
        (1..=3).map(|number| crate::support::report::address(&web.cluster, number)).collect();
    let rest = format!("/f?op=OPEN&excludedatanodes={}", all.join(","));
    let (status, class, message) = exception(&web.ask("GET", &rest));
    assert_eq!((status, class.as_str()), (403, IO), "{message}");
    assert_no_panics(&web.cluster);
}

#[test]
fn a_download_goes_on_when_another_holder_of_its_blocks_dies() {
    let web = Web::start_on(3, &[]);
    let content = data::bytes(6, LARGE_BYTES);
    let Download { server, mut connection, mut found, .. } = begin_download(&web, &content);
    kill(&web.cluster, &member(&web, "/f", &server));
    found.extend(connection.bytes(LARGE_BYTES - found.len()));
    assert!(found == content, "{} bytes", found.len());
    assert_no_panics(&web.cluster);
}

//! Checksums that many ask for at once, of a DataNode: clients that are gone, and clients that wait.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::Web;
use crate::support::data;
use crate::support::http::request;

/// Bytes of the file: so many that a checksum takes a hundred steps and more.
const BYTES: usize = 128 << 20;
/// Requests at once: more than the runtime of a DataNode has blocking threads.
const CROWD: usize = 600;
/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);
const SUM: &str = "/f?op=GETFILECHECKSUM";

/// A cluster of one DataNode with a large file.
fn with_a_large_file() -> Web {
    sys::process::raise_open_files();
    let web = Web::start_on(1, &[]);
    let content = data::bytes(7, BYTES);
    web.send("PUT", "/f?op=CREATE&replication=1", &content).is(201);
    web
}

/// The URL of a user's second step.
fn located(web: &Web, method: &str, user: &str, rest: &str) -> String {
    let first = request(method, &web.url(user, &format!("{rest}&noredirect=true")), b"").is(200);
    first.json()["Location"].as_str().unwrap().to_owned()
}

/// Sends a request and does not wait for the answer.
fn ask(url: &str) -> TcpStream {
    let (address, target) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET /{target} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// How an answer begins that says yes.
const SERVED: &[u8; 12] = b"HTTP/1.1 200";

/// True if an answer that says yes has come by now.
fn is_served(stream: &TcpStream) -> bool {
    let mut begin = [0; SERVED.len()];
    stream.set_nonblocking(true).unwrap();
    let found = stream.peek(&mut begin);
    stream.set_nonblocking(false).unwrap();
    found.is_ok_and(|count| begin[..count] == *SERVED)
}

/// What a process has used of processors, in hundredths of a second.
fn spent(web: &Web, daemon: &str) -> u64 {
    let pid = web.cluster.pid(daemon).unwrap();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Behind the name, which may hold anything, the first field is the third.
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let of = |number: usize| rest.split(' ').nth(number - 3).unwrap().parse::<u64>().unwrap();
    of(14) + of(15)
}

#[test]
fn nothing_is_summed_for_clients_that_are_gone() {
    let web = with_a_large_file();
    let (alice, bob) = (located(&web, "GET", "alice", SUM), located(&web, "GET", "bob", SUM));
    let cost = |asked: &dyn Fn()| {
        let before = spent(&web, "datanode-1");
        asked();
        spent(&web, "datanode-1") - before
    };
    let whole = || drop(request("GET", &bob, b"").is(200));
    whole();
    let one = cost(&whole);
    // The last one comes behind all that went before.
    let crowd = cost(&|| {
        (0..CROWD).for_each(|_| drop(ask(&alice)));
        whole();
    });
    // One second for so many connections, and the steps that had begun.
    let most = 100 + one * (CROWD as u64 / 6);
    assert!(crowd < most, "{CROWD} of those who left cost {crowd}, one who stays {one}");
}

#[test]
fn checksums_of_a_crowd_keep_no_others_waiting() {
    let web = with_a_large_file();
    web.ask("PUT", "/open?op=MKDIRS&permission=777").is(200);
    let sum = located(&web, "GET", "alice", SUM);
    let open = located(&web, "GET", "bob", "/f?op=OPEN&length=10");
    let create = located(&web, "PUT", "bob", "/open/f?op=CREATE&replication=1");
    let other = located(&web, "GET", "carol", SUM);
    let mut crowd: Vec<TcpStream> = (0..CROWD).map(|_| ask(&sum)).collect();
    assert_eq!(request("GET", &open, b"").is(200).body.len(), 10);
    // It was not behind those that had no thread: most still wait.
    let served = crowd.iter().filter(|stream| is_served(stream)).count();
    assert!(served < CROWD / 2, "{served} of {CROWD} were served before a read");
    request("PUT", &create, b"x").is(201);
    request("GET", &other, b"").is(200);
    // All are answered: each had its turn, or is told to try again.
    let mut served = 0;
    for stream in &mut crowd {
        stream.set_read_timeout(Some(ANSWER_MAX)).unwrap();
        let mut begin = [0; SERVED.len()];
        stream.read_exact(&mut begin).unwrap();
        match &begin {
            SERVED => served += 1,
            begin => assert_eq!(begin, b"HTTP/1.1 403"),
        }
    }
    assert!(served > 0);
    request("GET", &sum, b"").is(200);
}

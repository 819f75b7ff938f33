//! Connections that ask for nothing, or take for ever to ask, against daemons that may have few descriptors.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::forge::{self, hello, raw};
use super::{Attack, Stand, transfer};
use crate::support::Options;

/// Descriptors that each daemon may have.
const DESCRIPTORS: u64 = 256;
/// Idle connections to each port: many times what there is room for.
const FLOOD: usize = 1_100;
/// Idle connections of one who is known, to each port: more than there is room for.
const KNOWN: usize = 150;
/// Lines of about a kilobyte of a head that has no end: more than buffers of sockets hold.
const HEAD_LINES: usize = 64 << 10;
/// Idle strangers end within twice their time, and some for a busy machine.
const STRANGERS_GONE: Duration = Duration::from_secs(20);

const ATTACKS: &[Attack] = &[
    ("idle connections to the HTTP port of every daemon", idle_http),
    ("heads that come a byte at a time", slow_heads),
    ("heads that never end", endless_heads),
    ("requests that are asked and not read", unread_answers),
];

const KNOWN_ATTACKS: &[Attack] = &[
    ("idle connections of one who can sign", known_idle_http),
    ("idle connections of one with a block's token", known_idle_transfers),
];

#[test]
fn floods_of_connections_displace_themselves() {
    let stand = Stand::start(Options { workers: 1, ..Options::default() });
    let stand = stand.with_few_descriptors();
    stand.suffer(ATTACKS);
}

#[test]
fn idle_connections_of_a_token_keep_nobody_out() {
    let stand = Stand::start(Options { workers: 1, ..Options::default() }.with_files());
    let stand = stand.with_few_descriptors();
    stand.suffer(KNOWN_ATTACKS);
}

impl Stand {
    /// The same cluster, its daemons started anew with few descriptors.
    fn with_few_descriptors(mut self) -> Self {
        let supervisor = parent(self.pids["namenode-1"]);
        let limit = format!("--nofile={DESCRIPTORS}");
        let mut command = std::process::Command::new("prlimit");
        command.args(["--pid", &supervisor.to_string(), &limit]);
        assert!(command.status().unwrap().success());
        for daemon in self.pids.keys() {
            self.cluster.kill(daemon);
        }
        let before = self.pids.clone();
        self.cluster.wait_until("other processes", 60, |cluster| {
            let now = super::pids(cluster);
            now.len() == before.len() && now.iter().all(|(name, pid)| before[name] != *pid)
        });
        self.pids = super::pids(&self.cluster);
        for pid in self.pids.values() {
            let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
            let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
            assert!(line.contains(&DESCRIPTORS.to_string()), "{line}");
        }
        self.cluster.wait_until("a cluster that works", 60, |cluster| {
            let put = cluster.dfs(&["-put", "-f", "LICENSE", "/ready"]);
            put.code == 0 && super::pids(cluster) == self.pids
        });
        self.works("with few descriptors");
        self
    }

    /// HTTP addresses of all daemons.
    fn doors(&self) -> Vec<String> {
        let mut doors = vec![self.cluster.namenode.clone(), self.cluster.jobtracker.clone()];
        let datanodes = self.datanodes();
        doors.extend(datanodes.iter().map(|node| format!("http://{}", node.http_address)));
        doors
    }
}

fn parent(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().parse().unwrap()
}

/// Opens connections, says `word` on each, and goes on with the cluster meanwhile.
fn flood(stand: &Stand, word: &[u8]) -> Vec<TcpStream> {
    // This process is to have the descriptors that the daemons have not.
    sys::process::raise_open_files();
    let mut held = Vec::new();
    for door in stand.doors() {
        for _ in 0..FLOOD {
            // What makes room may be this one, or the one before.
            if let Ok(mut stream) = TcpStream::connect(door.trim_start_matches("http://")) {
                let _ = stream.write_all(word);
                held.push(stream);
            }
        }
        stand.works("among idle connections");
        assert!(hello(&door, &stand.secret).is_some(), "{door} does not answer");
    }
    held
}

fn idle_http(stand: &Stand) {
    let held = flood(stand, b"");
    let begin = Instant::now();
    for mut stream in held {
        let left = STRANGERS_GONE.saturating_sub(begin.elapsed()).max(Duration::from_millis(100));
        stream.set_read_timeout(Some(left)).unwrap();
        let read = stream.read(&mut [0]);
        let is_over = match &read {
            Ok(count) => *count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        assert!(is_over, "a stranger is still there: {read:?}");
    }
}

fn slow_heads(stand: &Stand) {
    let mut streams: Vec<TcpStream> = stand.doors().iter().map(|door| raw(door)).collect();
    let begin = Instant::now();
    let mut bytes =
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ".iter().chain([b'x'].iter().cycle());
    while begin.elapsed() < STRANGERS_GONE {
        let byte = [*bytes.next().unwrap()];
        streams.retain_mut(|stream| stream.write_all(&byte).is_ok());
        if streams.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("{} of the slow ones are still there", streams.len());
}

fn endless_heads(stand: &Stand) {
    for door in stand.doors() {
        let mut stream = raw(&door);
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n");
        let line = [b"x-more: ".to_vec(), vec![b'x'; 1000], b"\r\n".to_vec()].concat();
        // What is refused may still go into the kernel's buffers on both sides, which hold megabytes.
        let lines = (0..HEAD_LINES).take_while(|_| stream.write_all(&line).is_ok()).count();
        assert!(lines < HEAD_LINES, "{door} takes heads without end");
    }
}

fn unread_answers(stand: &Stand) {
    drop(flood(stand, b"GET /jmx HTTP/1.1\r\nhost: localhost\r\n\r\n"));
}

fn known_idle_http(stand: &Stand) {
    let mut held = Vec::new();
    for door in stand.doors() {
        for number in 0..KNOWN {
            let connection = forge::greeted(&door, &stand.secret);
            held.push(connection.unwrap_or_else(|| panic!("{door} does not answer {number}")));
        }
        stand.works("among idle connections of one who can sign");
    }
}

fn known_idle_transfers(stand: &Stand) {
    let block = stand.a_block();
    let read = transfer::read_of(&block, block.token.name);
    let mut held = Vec::new();
    for number in 0..KNOWN {
        let mut connection = transfer::greeted(&block);
        let answer = connection.ask(&read, &block.token);
        assert!(answer.is_ok(), "{number}: {answer:?}");
        held.push(connection);
    }
    stand.works("among idle connections with a token");
}

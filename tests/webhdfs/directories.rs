//! A directory of a hundred thousand entries: listed whole and in batches while others come and go, each entry that was there all
//! the time appears once, in the order of bytes, and a listing costs the NameNode a page of memory, however slow its reader.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use protocol::DfsPath;
use protocol::namenode::{BATCH_CALLS_MAX, calls};
use serde::Deserialize;

use super::Web;
use crate::support::client::connect;
use crate::support::http::Connection;
use crate::support::memory;
use crate::support::report::{Stop, assert_no_panics};

/// Entries that are there all the time.
const ENTRIES: u64 = 100_000;
/// Listings of either kind while entries come and go.
const ROUNDS: usize = 3;
/// Readers that take nothing of a listing but its head.
const SLOW_READERS: usize = 12;
/// What a dozen listings of 28 MB may add to the NameNode's memory.
const GROWTH_MAX_KIB: u64 = 64 << 10;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Whole {
    file_statuses: Statuses,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statuses {
    file_status: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    path_suffix: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Batch {
    directory_listing: Listing,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listing {
    partial_listing: Partial,
    remaining_entries: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Partial {
    file_statuses: Statuses,
}

fn names(statuses: Statuses) -> impl Iterator<Item = String> {
    statuses.file_status.into_iter().map(|entry| entry.path_suffix)
}

/// Names in an order of their own.
fn name(number: u64) -> String {
    format!("{:05}", number * 77_773 % ENTRIES)
}

/// Makes the entries that stay.
fn make(web: &Web) {
    let client = connect(&web.cluster.namenode);
    let call = |number| calls::Mkdirs {
        path: DfsPath::parse(&format!("/big/{}", name(number))).unwrap(),
        mode: 0o755,
        unmasked: None,
        parents: true,
    };
    for first in (0..ENTRIES).step_by(BATCH_CALLS_MAX) {
        let calls = (first..first + BATCH_CALLS_MAX as u64).map(call);
        client.ask_all(calls).unwrap().into_iter().for_each(Result::unwrap);
    }
}

/// Makes and removes entries between, before and behind the others, until it is told to stop.
fn come_and_go(web: &Web, done: &AtomicBool, changes: &AtomicU64) {
    let mut connection = Connection::open(&web.cluster.namenode);
    let mut ask = |method: &str, name: &str, op: &str| {
        let url = web.url(&web.root, &format!("/big/{name}?op={op}"));
        connection.send_head(method, &url, "Content-Length: 0\r\n");
        assert_eq!(connection.answer().is(200).json()["boolean"], true, "{url}");
    };
    for number in 0.. {
        if done.load(Ordering::Relaxed) {
            return;
        }
        let between = format!("{}x", name(number));
        let moved = format!("{}y", name(number * 31));
        for other in [&between, &format!("!{number}"), &format!("~{number}")] {
            ask("PUT", other, "MKDIRS");
        }
        ask("PUT", &between, &format!("RENAME&destination=/big/{moved}"));
        ask("DELETE", &format!("!{number}"), "DELETE");
        ask("DELETE", &moved, "DELETE");
        changes.fetch_add(6, Ordering::Relaxed);
    }
}

/// Strictly ascending, and everything that was there all the time is in it.
fn check(found: &[String], expected: &BTreeSet<String>) {
    let disorder = found.windows(2).find(|pair| pair[0].as_bytes() >= pair[1].as_bytes());
    assert!(disorder.is_none(), "not in order or twice: {disorder:?}");
    let kept = found.iter().filter(|name| expected.contains(*name)).count();
    assert_eq!(kept, expected.len(), "entries that were there all the time");
}

/// Anonymous memory of the NameNode, in KiB.
fn memory_kib(web: &Web) -> u64 {
    memory::own_kib(web.cluster.pid("namenode-1").unwrap()).unwrap()
}

#[test]
fn a_hundred_thousand_entries_are_listed_once_each_while_others_come_and_go() {
    let web = Web::start();
    make(&web);
    let expected: BTreeSet<String> = (0..ENTRIES).map(name).collect();
    assert_eq!(expected.len() as u64, ENTRIES);
    let (done, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    // A connection each: the NameNode ends one that is idle while a long listing is read here.
    let get = |rest: &str| {
        let url = web.url(&web.root, rest);
        let mut connection = Connection::open(&url);
        connection.send_head("GET", &url, "");
        connection.answer().is(200).body
    };
    std::thread::scope(|scope| {
        scope.spawn(|| come_and_go(&web, &done, &changes));
        let _stop = Stop(&done);
        for _ in 0..ROUNDS {
            let before = changes.load(Ordering::Relaxed);
            let whole: Whole = serde_json::from_slice(&get("/big?op=LISTSTATUS")).unwrap();
            check(&names(whole.file_statuses).collect::<Vec<_>>(), &expected);
            let (mut found, mut remaining) = (Vec::<String>::new(), 1);
            while remaining > 0 {
                let after = found.last().cloned().unwrap_or_default();
                let rest = format!("/big?op=LISTSTATUS_BATCH&startAfter={after}");
                let batch: Batch = serde_json::from_slice(&get(&rest)).unwrap();
                remaining = batch.directory_listing.remaining_entries;
                found.extend(names(batch.directory_listing.partial_listing.file_statuses));
            }
            check(&found, &expected);
            assert!(changes.load(Ordering::Relaxed) > before, "others came and went");
        }
    });
    let url = web.url(&web.root, "/big?op=LISTSTATUS");
    let before = memory_kib(&web);
    let readers: Vec<Connection> = (0..SLOW_READERS)
        .map(|_| {
            let mut reader = Connection::open(&url);
            reader.send_head("GET", &url, "");
            reader.head().is(200);
            reader
        })
        .collect();
    // Another listing takes longer than the NameNode needs to fill what buffers there are.
    let whole: Whole = serde_json::from_slice(&get("/big?op=LISTSTATUS")).unwrap();
    check(&names(whole.file_statuses).collect::<Vec<_>>(), &expected);
    let grown = memory_kib(&web).saturating_sub(before);
    println!(
        "{} changes meanwhile; {SLOW_READERS} slow readers: {grown} KiB more",
        changes.load(Ordering::Relaxed)
    );
    assert!(grown < GROWTH_MAX_KIB, "{grown} KiB more for {SLOW_READERS} slow readers");
    drop(readers);
    assert_no_panics(&web.cluster);
}

//! The fault matrix on real processes: damage, stale and old data, broken disks, administration, clocks. `docs/faults.md` lists
//! which test shows which fault.

mod admin;
mod clocks;
mod damage;
mod engine;
mod live;
mod matrix;
mod metadata;
mod slow;
mod stale;
mod volumes;
mod writers;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::client::connect;
use crate::support::report::{
    Stop, address, admin_state, assert_no_panics, datanodes, flip_a_bit, live_count, wait_live,
};
use crate::support::{Cluster, Options};

/// One worker, because these tests run no jobs.
fn options(datanodes: u32) -> Options {
    Options { datanodes, workers: 1, ..Options::tight() }
}

/// Writes `content` to the path, in blocks of `block_size`.
fn put(cluster: &Cluster, path: &str, content: &[u8], (block_size, replication): (u64, u32)) {
    let mut source = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut source, content).unwrap();
    let (size, replication) =
        (format!("dfs.blocksize={block_size}"), format!("dfs.replication={replication}"));
    let source = source.path().to_str().unwrap();
    cluster.dfs(&["-D", &size, "-D", &replication, "-put", "-f", source, path]).ok();
}

/// The path has this content, whichever replica is read.
#[track_caller]
fn assert_content(cluster: &Cluster, path: &str, content: &[u8]) {
    let found = cluster.dfs(&["-cat", path]).ok().stdout;
    assert!(found == content, "{path}: {} bytes instead of {}", found.len(), content.len());
}

/// True if the DataNode whose data is in `datanode-<number>` has told everything it has after `begin`.
fn has_reported_since(cluster: &Cluster, number: u32, begin: Instant) -> bool {
    let address = address(cluster, number);
    let nodes = datanodes(cluster);
    let node = nodes.iter().find(|node| node["info"]["transfer_address"] == *address);
    let reported_ms = node.and_then(|node| node["last_report_ms"].as_u64());
    reported_ms.is_some_and(|ms| Duration::from_millis(ms) < begin.elapsed())
}

/// Kills a daemon and waits for the process that the cluster starts in its place.
fn kill_and_wait(cluster: &Cluster, daemon: &str) {
    let before = cluster.pid(daemon);
    cluster.kill(daemon);
    cluster.wait_until("a new process is there", 60, |cluster| {
        cluster.pid(daemon).is_some_and(|pid| Some(pid) != before)
    });
}

/// Why safe mode is on; empty if it is off.
fn safe_mode_reason(cluster: &Cluster) -> String {
    let text = cluster.hanno(&["admin", "report", "--json"]).stdout_text();
    let report: Value = serde_json::from_str(&text).unwrap_or_default();
    report["status"]["safe_mode"].as_str().unwrap_or_default().to_owned()
}

/// The checksum file of a replica.
fn meta_of(block: &Path) -> PathBuf {
    PathBuf::from(format!("{}.meta", block.display()))
}

/// Copies a tree of files.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

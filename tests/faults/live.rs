//! Decommission, balancer, changes of replication and re-replication at once on a cluster that is written and read meanwhile: no
//! read fails, and in the end everything is exactly where it should be.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::{
    Stop, address, admin_state, assert_content, assert_no_panics, kill_and_wait, options, put,
    wait_live,
};
use crate::support::{Cluster, data, processes};

/// Blocks of this size.
const BLOCK_BYTES: u64 = 1 << 20;
/// Files at the beginning.
const FILES: u64 = 8;

fn content(number: u64) -> Vec<u8> {
    data::bytes(number, 200_000 + (number as usize * 777_777) % 2_500_000)
}

/// How many replicas each block has on DataNodes other than `without`.
fn counts(cluster: &Cluster, without: Option<u32>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for (number, path) in cluster.replicas() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        *counts.entry(name).or_default() += u32::from(Some(number) != without);
    }
    counts
}

#[test]
fn moving_replicas_about_under_load_fails_no_read_and_ends_exactly() {
    let exclude = tempfile::NamedTempFile::new().unwrap();
    let mut options = options(5);
    let file = exclude.path().to_str().unwrap().to_owned();
    options.variables.push(("HANNO_NAMENODE_HOSTS_EXCLUDE_FILE", file));
    options.variables.push(("HANNO_DATANODE_IO_TIMEOUT_MS", "2000".to_owned()));
    let cluster = Cluster::start(options);
    for number in 0..FILES {
        put(&cluster, &format!("/f{number}"), &content(number), (BLOCK_BYTES, 3));
    }
    let (done, reads, files) = (AtomicBool::new(false), AtomicU32::new(0), Mutex::new(FILES));
    let drained = address(&cluster, 2);
    std::thread::scope(|scope| {
        for reader in 0..2u64 {
            let (cluster, done, reads, files) = (&cluster, &done, &reads, &files);
            scope.spawn(move || {
                let mut choices = data::Choices::new(reader);
                while !done.load(Ordering::Relaxed) {
                    let number = choices.below(*files.lock().unwrap());
                    assert_content(cluster, &format!("/f{number}"), &content(number));
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let number = *files.lock().unwrap();
                put(&cluster, &format!("/f{number}"), &content(number), (BLOCK_BYTES, 3));
                *files.lock().unwrap() += 1;
            }
        });
        let stop_load = Stop(&done);
        fs::write(exclude.path(), format!("{drained}\n")).unwrap();
        cluster.hanno(&["dfsadmin", "-refreshNodes"]).ok();
        for replication in ["1", "4", "3"] {
            cluster.dfs(&["-setrep", replication, "/f0", "/f1", "/f2"]).ok();
        }
        cluster.hanno(&["balancer", "-threshold", "1"]).ok();
        // One that is not drained dies and comes back: copies begin, and some become too many.
        let victim = "datanode-4";
        processes::pause(cluster.pid(victim).unwrap());
        wait_live(&cluster, 4);
        kill_and_wait(&cluster, victim);
        wait_live(&cluster, 5);
        cluster.wait_until("it is drained", 90, |cluster| {
            admin_state(cluster, &drained) == "Decommissioned"
        });
        drop(stop_load);
    });
    assert!(reads.load(Ordering::Relaxed) > 10, "there was load");
    let files = files.into_inner().unwrap();
    println!("{files} files, {} reads", reads.load(Ordering::Relaxed));
    cluster.wait_until("exactly three replicas of each block elsewhere", 60, |cluster| {
        counts(cluster, Some(2)).values().all(|count| *count == 3)
    });
    for number in 0..files {
        assert_content(&cluster, &format!("/f{number}"), &content(number));
    }
    fs::write(exclude.path(), "").unwrap();
    cluster.hanno(&["dfsadmin", "-refreshNodes"]).ok();
    cluster.wait_until("exactly three replicas of each block", 60, |cluster| {
        counts(cluster, None).values().all(|count| *count == 3)
    });
    cluster.wait_healthy(60);
    let total: usize = (0..files).map(|n| content(n).len().div_ceil(BLOCK_BYTES as usize)).sum();
    assert_eq!(counts(&cluster, None).len(), total, "no block more and none less");
    assert_no_panics(&cluster);
}

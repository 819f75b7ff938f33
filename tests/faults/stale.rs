//! What comes back from the past: a replica whose file went on without it, a data directory and a metadata directory of last week.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{
    assert_content, assert_no_panics, copy_tree, datanodes, has_reported_since, kill_and_wait,
    options, put, safe_mode_reason, wait_live,
};
use crate::support::{Cluster, data, processes};

/// Blocks of this size.
const BLOCK_BYTES: u64 = 1 << 20;
/// How long replicas of unknown blocks are kept in these tests, ms.
const GRACE_MS: u64 = 1500;

fn cluster(datanodes: u32) -> Cluster {
    let mut options = options(datanodes);
    options.variables.push(("HANNO_NAMENODE_UNKNOWN_GRACE_MS", GRACE_MS.to_string()));
    options.variables.push(("HANNO_DATANODE_IO_TIMEOUT_MS", "2000".to_owned()));
    Cluster::start(options.with_files())
}

/// Holds a DataNode still until everybody believes that it is dead.
fn suspend(cluster: &Cluster, daemon: &str, live_count: usize) {
    processes::pause(cluster.pid(daemon).unwrap());
    wait_live(cluster, live_count);
}

#[test]
fn replicas_of_a_file_that_went_on_without_them_are_never_served() {
    let cluster = cluster(3);
    let old = |number: u64| data::bytes(number, 200_000);
    let names = ["/overwritten", "/appended", "/cut", "/deleted", "/kept"];
    for (number, name) in (0..).zip(names) {
        put(&cluster, name, &old(number), (BLOCK_BYTES, 3));
    }
    cluster.wait_until("all are everywhere", 60, |cluster| cluster.replicas().len() == 15);
    suspend(&cluster, "datanode-1", 2);
    let new = data::bytes(50, 200_000);
    put(&cluster, "/overwritten", &new, (BLOCK_BYTES, 3));
    let more = tempfile::NamedTempFile::new().unwrap();
    fs::write(more.path(), &new).unwrap();
    cluster.dfs(&["-appendToFile", more.path().to_str().unwrap(), "/appended"]).ok();
    cluster.dfs(&["-truncate", "-w", "100000", "/cut"]).ok();
    cluster.dfs(&["-rm", "-skipTrash", "/deleted"]).ok();
    let expected = [
        ("/overwritten", new.clone()),
        ("/appended", [old(1), new].concat()),
        ("/cut", old(2)[..100_000].to_vec()),
        ("/kept", old(4)),
    ];
    // It starts anew, from what is on its disk, and is soon the only one.
    cluster.kill("datanode-1");
    wait_live(&cluster, 3);
    for _ in 0..3 {
        for (name, content) in &expected {
            assert_content(&cluster, name, content);
        }
    }
    cluster.wait_until("only what belongs to a file is left", 60, |cluster| {
        cluster.replicas().len() == 12
    });
    cluster.wait_healthy(60);
    for (path, content) in &expected {
        let same = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes == *content);
        let count = cluster.replicas().iter().filter(|(_, path)| same(path)).count();
        assert_eq!(count, 3, "{path}: every replica has the new bytes");
    }
}

#[test]
fn a_data_directory_of_last_week_brings_nothing_back_and_loses_nothing() {
    let cluster = cluster(3);
    let content = |number: u64| data::bytes(number, 100_000 + number as usize);
    for number in 0..12 {
        put(&cluster, &format!("/f{number}"), &content(number), (BLOCK_BYTES, 3));
    }
    cluster.wait_until("all are everywhere", 60, |cluster| cluster.replicas().len() == 36);
    let (directory, week_ago) =
        (cluster.directory.join("datanode-1"), cluster.directory.join("week-ago"));
    copy_tree(&directory, &week_ago);
    for number in 0..6 {
        cluster.dfs(&["-rm", "-skipTrash", &format!("/f{number}")]).ok();
    }
    for number in 12..18 {
        put(&cluster, &format!("/f{number}"), &content(number), (BLOCK_BYTES, 3));
    }
    put(&cluster, "/f6", &content(99), (BLOCK_BYTES, 3));
    suspend(&cluster, "datanode-1", 2);
    fs::rename(&directory, cluster.directory.join("today")).unwrap();
    fs::rename(&week_ago, &directory).unwrap();
    let count =
        |cluster: &Cluster| cluster.replicas().iter().filter(|(number, _)| *number == 1).count();
    assert_eq!(count(&cluster), 12, "the directory of last week");
    kill_and_wait(&cluster, "datanode-1");
    wait_live(&cluster, 3);
    let expected: Vec<Vec<u8>> = (7..18).map(content).chain([content(99)]).collect();
    let is_expected = |path: &Path| fs::read(path).is_ok_and(|bytes| expected.contains(&bytes));
    // Its seven replicas of deleted blocks go when the grace is over, and it gets what it lacks: as many as it had.
    cluster.wait_until("it has what it should have", 60, |cluster| {
        count(cluster) == 12 && cluster.replicas().iter().all(|(_, path)| is_expected(path))
    });
    cluster.wait_healthy(60);
    for number in 0..6 {
        assert_eq!(cluster.dfs(&["-test", "-e", &format!("/f{number}")]).code, 1);
    }
    for number in 7..18 {
        assert_content(&cluster, &format!("/f{number}"), &content(number));
    }
    assert_content(&cluster, "/f6", &content(99));
    for (_, path) in cluster.replicas() {
        assert!(is_expected(&path), "{}", path.display());
    }
}

/// Four files that the NameNode knows and six that it does not any more: it was started anew on metadata of last week.
struct WeekAgo {
    cluster: Cluster,
    /// Where the metadata of today is.
    today: PathBuf,
    /// Replicas of all ten files.
    before: BTreeSet<(u32, PathBuf)>,
}

/// Of the same length, so that nothing but ids and stamps tells blocks apart.
fn content(number: u64) -> Vec<u8> {
    data::bytes(number, 50_000)
}

impl WeekAgo {
    fn start() -> Self {
        let cluster = cluster(2);
        let put_all = |numbers: std::ops::Range<u64>| {
            for number in numbers {
                put(&cluster, &format!("/f{number}"), &content(number), (BLOCK_BYTES, 2));
            }
        };
        put_all(0..4);
        cluster.wait_healthy(60);
        let (directory, week_ago) =
            (cluster.directory.join("namenode-1"), cluster.directory.join("week-ago"));
        copy_tree(&directory, &week_ago);
        put_all(4..10);
        cluster.wait_until("all are on disk", 60, |cluster| cluster.replicas().len() == 20);
        let before = cluster.replicas().into_iter().collect();
        let today = cluster.directory.join("today");
        fs::rename(&directory, &today).unwrap();
        fs::rename(&week_ago, &directory).unwrap();
        kill_and_wait(&cluster, "namenode-1");
        cluster.wait_until("it says that its metadata is old", 60, |cluster| {
            safe_mode_reason(cluster).contains("metadata directory is older than the data")
        });
        WeekAgo { cluster, today, before }
    }
}

#[test]
fn a_namenode_on_metadata_of_last_week_deletes_nothing_and_says_why() {
    let WeekAgo { cluster, today, before } = WeekAgo::start();
    let refused = |cluster: &Cluster| cluster.dfs(&["-mkdir", "/x"]);
    assert_eq!(refused(&cluster).code, 1);
    // Not by itself, and not by hand; what it knows can be read.
    let leave = cluster.hanno(&["dfsadmin", "-safemode", "leave"]).stdout_text();
    assert!(leave.contains("Safe mode is ON"), "{leave}");
    for number in 0..4 {
        assert_content(&cluster, &format!("/f{number}"), &content(number));
    }
    assert_eq!(cluster.dfs(&["-test", "-e", "/f4"]).code, 1, "it does not know this one");
    // Longer than unknown replicas are kept, by the clock of its own heartbeats.
    let started = Instant::now();
    cluster.wait_until("the grace is over thrice", 60, |cluster| {
        datanodes(cluster).len() == 2 && started.elapsed().as_millis() as u64 > 3 * GRACE_MS
    });
    let after: BTreeSet<_> = cluster.replicas().into_iter().collect();
    assert_eq!(after, before, "nothing is deleted");
    let directory = cluster.directory.join("namenode-1");
    fs::rename(&directory, cluster.directory.join("week-ago")).unwrap();
    fs::rename(&today, &directory).unwrap();
    kill_and_wait(&cluster, "namenode-1");
    cluster.wait_until("the newest metadata serves", 60, |cluster| refused(cluster).code == 0);
    for number in 0..10 {
        assert_content(&cluster, &format!("/f{number}"), &content(number));
    }
    cluster.wait_healthy(60);
}

#[test]
fn forced_on_with_metadata_of_last_week_nothing_of_the_lost_files_is_taken_for_new_ones() {
    let WeekAgo { cluster, before, .. } = WeekAgo::start();
    let left = cluster.hanno(&["dfsadmin", "-safemode", "forceExit"]).ok().stdout_text();
    assert!(left.contains("Safe mode is OFF"), "{left}");
    for number in 20..26 {
        put(&cluster, &format!("/f{number}"), &content(number), (BLOCK_BYTES, 2));
    }
    let all: Vec<u64> = (0..4).chain(20..26).collect();
    let check = |cluster: &Cluster| {
        for number in &all {
            assert_content(cluster, &format!("/f{number}"), &content(*number));
        }
    };
    check(&cluster);
    // The replicas of the lost files are told again, and by everybody.
    let begin = Instant::now();
    kill_and_wait(&cluster, "namenode-1");
    cluster.wait_until("everything is told", 60, |cluster| {
        safe_mode_reason(cluster).is_empty()
            && (1..=2).all(|number| has_reported_since(cluster, number, begin))
    });
    check(&cluster);
    let lost: Vec<Vec<u8>> = (4..10).map(content).collect();
    cluster.wait_until("only those of the lost files are deleted", 60, |cluster| {
        let replicas = cluster.replicas();
        let is_lost = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| lost.contains(&bytes));
        replicas.len() == 20 && !replicas.iter().any(|(_, path)| is_lost(path))
    });
    assert_eq!(before.iter().filter(|(_, path)| path.is_file()).count(), 8, "of those before");
    cluster.wait_healthy(60);
    check(&cluster);
    assert_no_panics(&cluster);
}

//! One disk for all daemons of a cluster: files fill it up to what is left to the masters, it can be emptied, and nobody has to help.

use std::fs;

use crate::support::mount::Ballast;
use crate::support::rig::{self, FileSystem, Rig};
use crate::support::{Cluster, Options, data};

/// Puts at once: what all of them write together must not go beyond what is left to the masters either.
const WRITERS: usize = 6;
/// Bytes of one file.
const FILE_BYTES: usize = 20 << 20;
/// Files that each writer tries: together many times what there is room for.
const FILES: usize = 20;

fn is_safe(cluster: &Cluster) -> bool {
    cluster.hanno(&["dfsadmin", "-safemode", "get"]).stdout_text().contains("Safe mode is ON")
}

/// Puts files until there is no room; the names of those that went in.
fn fill(cluster: &Cluster, source: &str) -> Vec<String> {
    let fill_one = |writer: usize| {
        let mut there = Vec::new();
        for number in 0..FILES {
            let path = format!("/full/{writer}-{number}");
            let put = cluster.dfs(&["-put", source, &path]);
            if put.code == 0 {
                there.push(path);
            } else {
                let told = put.stderr.contains("delete files") && put.stderr.contains("add disks");
                assert!(told, "{}", put.stderr);
            }
        }
        there
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || fill_one(writer))).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    })
}

#[test]
fn a_disk_that_files_fill_can_be_emptied_also_if_the_masters_share_it() {
    if !rig::is_possible(FileSystem::Ext4) {
        return;
    }
    let options = Options { workers: 1, ..Options::tight() };
    let rig = Rig::start_on_one_disk(FileSystem::Ext4, options);
    let cluster = rig.cluster();
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("source");
    let content = data::bytes(11, FILE_BYTES);
    fs::write(&source, &content).unwrap();
    cluster.dfs(&["-mkdir", "/full"]).ok();
    let there = fill(cluster, source.to_str().unwrap());
    assert!(there.len() > 1 && there.len() < WRITERS * FILES, "{there:?}");
    // Files alone do not stop the NameNode.
    assert!(!is_safe(cluster));
    cluster.dfs(&["-touchz", "/still-taken"]).ok();
    // Others do.
    let ballast = Ballast::fill(&cluster.directory, 1 << 20);
    cluster.wait_until("safe mode is on", 60, is_safe);
    assert_ne!(cluster.dfs(&["-touchz", "/refused"]).code, 0);
    let (kept, removed) = there.split_first().unwrap();
    for path in removed {
        cluster.dfs(&["-rm", "-skipTrash", path]).ok();
    }
    assert!(cluster.dfs(&["-cat", kept]).ok().stdout == content);
    cluster.wait_until("there is room: safe mode is off", 60, |cluster| !is_safe(cluster));
    drop(ballast);
    cluster.wait_until("files are taken again", 60, |cluster| {
        cluster.dfs(&["-put", "-f", source.to_str().unwrap(), "/again"]).code == 0
    });
    assert!(cluster.dfs(&["-cat", "/again"]).ok().stdout == content);
    cluster.wait_healthy(60);
}

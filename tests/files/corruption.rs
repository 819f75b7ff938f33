//! Damaged replicas: readers never get wrong bytes, and the cluster heals.

use std::fs;
use std::path::Path;

use protocol::DfsPath;

use crate::support::client::connect;
use crate::support::report::{address, flip_a_bit};
use crate::support::{Cluster, Options, data};

const LEN: usize = 3_000_000;

fn dfs(path: &str) -> DfsPath {
    DfsPath::parse(path).unwrap()
}

fn cluster_with_a_file() -> (Cluster, Vec<u8>) {
    let cluster = Cluster::start(Options::tight());
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("x");
    let content = data::bytes(42, LEN);
    fs::write(&source, &content).unwrap();
    cluster.dfs(&["-put", source.to_str().unwrap(), "/x"]).ok();
    cluster.wait_until("three replicas are there", 60, |cluster| cluster.replicas().len() == 3);
    (cluster, content)
}

#[test]
fn a_flipped_bit_in_one_replica_is_read_around_and_healed() {
    for offset in [0, LEN as u64 / 2, LEN as u64 - 1] {
        let (cluster, content) = cluster_with_a_file();
        // The one that readers are sent to first, and another one.
        let located = connect(&cluster.namenode).locations(&dfs("/x"), 0, 1).unwrap();
        let first = &located.blocks[0].replicas[0].transfer_address;
        let mut replicas = cluster.replicas();
        replicas.sort_by_key(|(number, _)| address(&cluster, *number) != *first);
        for (_, path) in &replicas[..2] {
            flip_a_bit(path, offset);
        }
        for _ in 0..3 {
            assert!(cluster.dfs(&["-cat", "/x"]).ok().stdout == content);
        }
        cluster.wait_until("the damaged replicas that were read are replaced", 60, |cluster| {
            let good = |path: &Path| fs::read(path).is_ok_and(|bytes| bytes == content);
            let _ = cluster.dfs(&["-cat", "/x"]);
            cluster.replicas().iter().filter(|(_, path)| good(path)).count() >= 2
        });
    }
}

#[test]
fn when_all_replicas_are_corrupt_the_error_names_the_block_and_no_wrong_byte_comes_out() {
    let (cluster, content) = cluster_with_a_file();
    for (_, path) in cluster.replicas() {
        flip_a_bit(&path, 2_000_000);
    }
    let outcome = cluster.dfs(&["-cat", "/x"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("blk_") && outcome.stderr.contains("/x"), "{}", outcome.stderr);
    let local = tempfile::tempdir().unwrap();
    let copy = local.path().join("copy");
    cluster.dfs(&["-get", "-ignoreCrc", "/x", copy.to_str().unwrap()]).ok();
    for bytes in [fs::read(&copy).unwrap(), cluster.dfs(&["-cat", "-ignoreCrc", "/x"]).ok().stdout]
    {
        let differs = |(a, b): (&u8, &u8)| a != b;
        assert_eq!(bytes.len(), content.len());
        assert_eq!(bytes.iter().zip(&content).filter(|pair| differs(*pair)).count(), 1);
    }
    assert!(outcome.stdout.len() < content.len() && content.starts_with(&outcome.stdout));
    assert_eq!(cluster.replicas().len(), 3, "nothing may be deleted");
}

#[test]
fn replicas_corrupt_in_different_places_still_make_the_whole_file() {
    let (cluster, content) = cluster_with_a_file();
    for ((_, path), offset) in cluster.replicas().iter().zip([100_000, 1_500_000, 2_900_000]) {
        flip_a_bit(path, offset);
    }
    assert!(cluster.dfs(&["-cat", "/x"]).ok().stdout == content);
}

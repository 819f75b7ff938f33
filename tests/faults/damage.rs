//! Damaged files below a running DataNode: readers get the right bytes or an error that names the block, what can be repaired
//! is, and nothing is deleted where no good copy is left.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use super::{assert_content, assert_no_panics, flip_a_bit, meta_of, options, put};
use crate::support::client::connect;
use crate::support::{Cluster, data};

/// One block of a file in these tests: some hundred checksums.
const BLOCK_BYTES: u64 = 1 << 20;

/// The block files of the one-block file that was put last, by DataNode.
fn replicas_of(cluster: &Cluster, length: u64) -> Vec<(u32, PathBuf)> {
    let mut found = Vec::new();
    cluster.wait_until("three replicas are on disk", 60, |cluster| {
        found = cluster.replicas();
        found.retain(|(_, path)| fs::metadata(path).is_ok_and(|file| file.len() == length));
        found.len() == 3
    });
    found
}

#[test]
fn every_damage_to_a_replica_or_its_checksums_is_read_around_and_healed() {
    let mut options = options(4);
    options.variables.push(("HANNO_DATANODE_SCAN_PERIOD_S", "1".to_owned()));
    let cluster = Cluster::start(options);
    type Damage = fn(&std::path::Path, &std::path::Path);
    let damages: [(&str, Damage); 8] = [
        ("a bit of the checksums", |block, _| flip_a_bit(&meta_of(block), 100)),
        ("a bit of their header", |block, _| flip_a_bit(&meta_of(block), 3)),
        ("no checksums", |block, _| fs::remove_file(meta_of(block)).unwrap()),
        ("empty checksums", |block, _| fs::write(meta_of(block), "").unwrap()),
        ("checksums of another block", |block, other| {
            fs::copy(meta_of(other), meta_of(block)).map(drop).unwrap();
        }),
        ("no block file", |block, _| fs::remove_file(block).unwrap()),
        ("a longer block file", |block, _| {
            let mut bytes = fs::read(block).unwrap();
            bytes.extend([7; 600]);
            fs::write(block, bytes).unwrap();
        }),
        ("a shorter block file", |block, _| {
            fs::File::options().write(true).open(block).unwrap().set_len(1000).unwrap();
        }),
    ];
    // Its checksums are of another block, and nobody touches them.
    let sound = data::bytes(99, 250_000);
    put(&cluster, "/sound", &sound, (BLOCK_BYTES, 3));
    let other = replicas_of(&cluster, sound.len() as u64)[0].1.clone();
    let mut files = Vec::new();
    for (number, (name, damage)) in (0..).zip(damages) {
        // Each file has a length of its own, by which its replicas are found.
        let content = data::bytes(number, 300_000 + 512 * number as usize);
        let path = format!("/f{number}");
        put(&cluster, &path, &content, (BLOCK_BYTES, 3));
        let replicas = replicas_of(&cluster, content.len() as u64);
        // Two of three; a reader may well begin with the third.
        for (_, block) in &replicas[..2] {
            damage(block, &other);
        }
        println!("{path}: {name}");
        assert_content(&cluster, &path, &content);
        files.push((path, name, content, replicas));
    }
    cluster.wait_until("every damaged replica is found and replaced", 60, |cluster| {
        let good = |content: &[u8]| {
            let same = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes == content);
            cluster.replicas().iter().filter(|(_, path)| same(path) && meta_is_right(path)).count()
        };
        files.iter().all(|(.., content, _)| good(content) == 3)
    });
    cluster.wait_healthy(60);
    for (path, _, content, _) in &files {
        assert_content(&cluster, path, content);
    }
    assert_no_panics(&cluster);
}

/// The checksum file says of the block file what it contains.
fn meta_is_right(block: &std::path::Path) -> bool {
    let (Ok(bytes), Ok(meta)) = (fs::read(block), fs::read(meta_of(block))) else { return false };
    protocol::meta::check_header(&meta).is_ok_and(|layout| {
        let crcs = meta.get(layout.header_bytes()..);
        crcs.is_some_and(|crcs| protocol::checksum::verify(&bytes, crcs).is_ok())
    })
}

#[test]
fn when_every_replica_is_damaged_in_another_place_nothing_is_lost_or_deleted() {
    let cluster = Cluster::start(options(3));
    let content = data::bytes(1, 3_000_000);
    put(&cluster, "/x", &content, (8 << 20, 3));
    let replicas = replicas_of(&cluster, content.len() as u64);
    for ((_, path), offset) in replicas.iter().zip([100_000, 1_500_000, 2_900_000]) {
        flip_a_bit(path, offset);
    }
    let damaged: Vec<Vec<u8>> = replicas.iter().map(|(_, path)| fs::read(path).unwrap()).collect();
    assert_content(&cluster, "/x", &content);
    cluster.wait_until("all are known to be damaged", 60, |cluster| {
        assert_content(cluster, "/x", &content);
        let report = cluster.hanno(&["fsck", "/"]);
        let text = report.stdout_text();
        report.code == 1 && text.contains("/x: CORRUPT") && text.contains("is CORRUPT\n")
    });
    // Through a restart of everybody that decides.
    let begin = Instant::now();
    super::kill_and_wait(&cluster, "namenode-1");
    cluster.wait_until("it knows everything again and may delete", 60, |cluster| {
        super::safe_mode_reason(cluster).is_empty()
            && (1..=3).all(|number| super::has_reported_since(cluster, number, begin))
    });
    assert_content(&cluster, "/x", &content);
    for ((_, path), before) in replicas.iter().zip(&damaged) {
        assert!(fs::read(path).unwrap() == *before, "{} is as it was", path.display());
    }
    // What can be read of it is copied, which heals it.
    cluster.dfs(&["-cp", "/x", "/y"]).ok();
    cluster.dfs(&["-rm", "-skipTrash", "/x"]).ok();
    assert_content(&cluster, "/y", &content);
    cluster.wait_healthy(60);
}

#[test]
fn a_block_without_a_good_chunk_is_named_and_the_rest_of_its_file_can_be_salvaged() {
    let cluster = Cluster::start(options(3));
    // Blocks of different lengths, so that the files of the last one are found.
    let content = data::bytes(2, 2 * BLOCK_BYTES as usize + 70_000);
    cluster.dfs(&["-mkdir", "/d"]).ok();
    put(&cluster, "/d/x", &content, (BLOCK_BYTES, 3));
    let last = replicas_of(&cluster, 70_000);
    for (_, path) in &last {
        flip_a_bit(path, 40_000);
    }
    let block = last[0].1.file_name().unwrap().to_string_lossy().into_owned();
    let block = block.split('_').take(2).collect::<Vec<_>>().join("_");
    let read = cluster.dfs(&["-cat", "/d/x"]);
    assert_eq!(read.code, 1);
    assert!(content.starts_with(&read.stdout), "no wrong byte");
    assert!(read.stderr.contains("/d/x") && read.stderr.contains("blk_"), "{}", read.stderr);
    cluster.wait_until("fsck names the file", 60, |cluster| {
        cluster.dfs(&["-cat", "/d/x"]);
        cluster.hanno(&["fsck", "/"]).stdout_text().contains("/d/x: CORRUPT")
    });
    let list = cluster.hanno(&["fsck", "/", "-list-corruptfileblocks"]);
    assert_eq!(list.code, 255);
    assert!(list.stdout_text().contains(&format!("{block}\t/d/x\n")), "{}", list.stdout_text());
    // What cannot be saved is told, and not deleted.
    cluster.dfs(&["-touchz", "/lost+found"]).ok();
    let refused = cluster.hanno(&["fsck", "/", "-move", "-delete"]);
    assert_eq!(refused.code, 255, "{}", refused.stderr);
    assert!(refused.stderr.contains("/d/x: cannot be saved: "), "{}", refused.stderr);
    assert!(refused.stdout_text().contains("under path '/' is CORRUPT"));
    cluster.dfs(&["-test", "-e", "/d/x"]).ok();
    cluster.dfs(&["-rm", "-skipTrash", "/lost+found"]).ok();
    cluster.hanno(&["fsck", "/", "-move"]);
    let kept = cluster.dfs(&["-cat", "/lost+found/d/x/0"]).ok().stdout;
    assert!(kept == content[..2 * BLOCK_BYTES as usize], "the good blocks");
    for (_, path) in &last {
        assert!(path.is_file(), "the damaged replicas stay");
    }
}

#[test]
fn the_scanner_finds_and_heals_what_nobody_reads() {
    let mut options = options(4);
    options.variables.push(("HANNO_DATANODE_SCAN_PERIOD_S", "1".to_owned()));
    let cluster = Cluster::start(options);
    let content = data::bytes(3, 600_000);
    put(&cluster, "/x", &content, (BLOCK_BYTES, 3));
    let replicas = replicas_of(&cluster, content.len() as u64);
    flip_a_bit(&replicas[0].1, 300_000);
    let is_good = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes == content);
    cluster.wait_until("there are three good replicas and no other", 60, |cluster| {
        let all = cluster.replicas();
        all.len() == 3 && all.iter().all(|(_, path)| is_good(path))
    });
    cluster.wait_healthy(60);
}

/// The table of a DataNode is no proof that a file is there: who reads it finds out, and so does a comparison if nobody reads.
#[test]
fn replica_files_that_somebody_deleted_are_noticed_and_made_anew() {
    let mut options = options(3);
    options.variables.push(("HANNO_DATANODE_COMPARE_PERIOD_S", "0".to_owned()));
    let mut cluster = Cluster::start(options);
    let content = data::bytes(4, 500_000);
    put(&cluster, "/read", &content, (BLOCK_BYTES, 3));
    let replicas = replicas_of(&cluster, content.len() as u64);
    let all_there = |cluster: &Cluster| {
        let is_good = |(_, path): &(u32, PathBuf)| fs::read(path).is_ok_and(|b| b == content);
        cluster.replicas().iter().filter(|replica| is_good(replica)).count() == 3
    };
    let meta = fs::read(meta_of(&replicas[0].1)).unwrap();
    replicas.iter().for_each(|(_, path)| fs::remove_file(path).unwrap());
    let is_missing = |cluster: &Cluster| {
        let report = cluster.hanno(&["fsck", "/"]);
        report.code == 1 && report.stdout_text().contains("/read: MISSING")
    };
    assert!(!is_missing(&cluster), "nobody has looked yet");
    assert_eq!(cluster.dfs(&["-cat", "/read"]).code, 1);
    cluster.wait_until("one reader has noticed all", 60, is_missing);
    // What is found at a start counts again.
    let [kept, ..] = &replicas[..] else { panic!() };
    fs::write(meta_of(&kept.1), &meta).unwrap();
    fs::write(&kept.1, &content).unwrap();
    let period = ("HANNO_DATANODE_COMPARE_PERIOD_S", "1".to_owned());
    cluster.options.variables.retain(|(name, _)| *name != period.0);
    cluster.options.variables.push(period);
    cluster.restart();
    cluster.wait_until("it is copied", 60, all_there);
    cluster.wait_healthy(60);
    // Nobody reads.
    let aside = cluster.directory.join("aside");
    fs::rename(&kept.1, &aside).unwrap();
    cluster.wait_until("the comparison notices", 60, all_there);
    cluster.wait_healthy(60);
    // All at once, and one of them comes back.
    for (_, path) in cluster.replicas() {
        fs::remove_file(path).unwrap();
    }
    cluster.wait_until("fsck names the file", 60, is_missing);
    fs::write(meta_of(&kept.1), meta).unwrap();
    fs::write(&kept.1, &content).unwrap();
    cluster.wait_until("the file that came back is found and copied", 60, all_there);
    cluster.wait_healthy(60);
    assert_content(&cluster, "/read", &content);
    assert_no_panics(&cluster);
}

/// Whoever can call the NameNode may name any replica; only what its DataNode finds counts.
#[test]
fn a_client_that_calls_good_replicas_bad_changes_nothing() {
    let cluster = Cluster::start(options(3));
    let content = data::bytes(5, 500_000);
    put(&cluster, "/x", &content, (BLOCK_BYTES, 3));
    let replicas = replicas_of(&cluster, content.len() as u64);
    let client = connect(&cluster.namenode);
    let path = protocol::DfsPath::parse("/x").unwrap();
    let located = client.locations(&path, 0, u64::MAX).unwrap();
    let block = &located.blocks[0];
    let bad = block.replicas.iter().map(|node| protocol::namenode::BadReplica {
        block: block.id,
        stamp: block.stamp,
        datanode: node.id,
    });
    let bad: Vec<_> = bad.collect();
    for _ in 0..10 {
        client.call(protocol::namenode::Call::ReportBadReplicas(bad.clone())).unwrap();
    }
    let report = cluster.hanno(&["fsck", "/"]).ok().stdout_text();
    assert!(report.contains("is HEALTHY"), "{report}");
    flip_a_bit(&replicas[0].1, 1000);
    client.call(protocol::namenode::Call::ReportBadReplicas(bad)).unwrap();
    cluster.wait_until("the damaged one is replaced", 60, |cluster| {
        let good = |(_, path): &(u32, PathBuf)| fs::read(path).is_ok_and(|b| b == content);
        cluster.replicas().iter().filter(|replica| good(replica)).count() == 3
    });
    cluster.wait_healthy(60);
}

//! Files as a power cut leaves them, made on purpose: everything is killed, files are changed, everything starts.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use client::dfs::{CreateOptions, DfsClient};
use protocol::DfsPath;
use protocol::meta::Layout;

use crate::support::client::connect;
use crate::support::{Cluster, Options, data, switch};

/// Bytes that are synced; they end in the middle of a chunk.
const SYNCED: usize = 100_100;
/// Where that chunk begins.
const CHUNK: u64 = SYNCED as u64 / 512 * 512;

fn start() -> Cluster {
    let mut options = Options { workers: 1, ..Options::tight() };
    options.variables.push(("HANNO_NAMENODE_RECOVERY_RETRY_MS", "1000".to_owned()));
    Cluster::start(options)
}

fn path(text: &str) -> DfsPath {
    DfsPath::parse(text).unwrap()
}

/// The one block file that each DataNode has in `rbw`, and its meta file.
fn unfinished(cluster: &Path) -> Vec<(PathBuf, PathBuf)> {
    let of = |number: u32| {
        let folder = cluster.join(format!("datanode-{number}/rbw"));
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let blocks: Vec<PathBuf> = entries.filter(|path| path.extension().is_none()).collect();
        let [block] = blocks.as_slice() else { panic!("{blocks:?}") };
        (block.clone(), block.with_extension("meta"))
    };
    (1..=3).map(of).collect()
}

fn append(path: &Path, junk: &[u8]) {
    fs::File::options().append(true).open(path).unwrap().write_all(junk).unwrap();
}

fn overwrite(path: &Path, junk: &[u8], at: u64) {
    fs::File::options().write(true).open(path).unwrap().write_all_at(junk, at).unwrap();
}

fn cut_to(path: &Path, length: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// How a test leaves the files of one DataNode: its number from 0, block file, meta file.
type Change = fn(usize, &Path, &Path);

/// Waits until the file is closed.
fn recover(cluster: &Cluster, client: &DfsClient, name: &str) {
    cluster.wait_until("the file is closed", 60, |_| {
        client.recover_lease(&path(name)).unwrap_or(false)
    });
}

fn content(client: &DfsClient, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.open(&path(name)).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

/// Synced with and without the length: all that was synced is there, three times.
fn check_whole(what: &str, change: Change) {
    for kind in ["length", "data", "appended"] {
        println!("{what}, {kind}");
        let mut cluster = start();
        let client = connect(&cluster.namenode);
        let bytes = data::bytes(7, SYNCED + 50);
        let mut writer = client.create(&path("/f"), CreateOptions::default()).unwrap();
        writer.write_all(&bytes[..SYNCED]).unwrap();
        match kind {
            "length" => writer.hsync_with_length().unwrap(),
            "data" => writer.hsync().unwrap(),
            _ => {
                // Closed, and begun again by somebody who has synced nothing yet.
                writer.close().unwrap();
                cluster.wait_healthy(60);
                writer = client.append(&path("/f"), false).unwrap();
                writer.write_all(&bytes[SYNCED..]).unwrap();
                writer.hflush().unwrap();
            }
        }
        let directory = cluster.directory.clone();
        let dead = || {
            drop(writer);
            for (number, (block, meta)) in unfinished(&directory).iter().enumerate() {
                change(number, block, meta);
            }
        };
        switch::cut(&mut cluster, || (), dead);
        let client = connect(&cluster.namenode);
        recover(&cluster, &client, "/f");
        let found = content(&client, "/f");
        assert!(found.len() >= SYNCED && found[..SYNCED] == bytes[..SYNCED], "{}", found.len());
        cluster.wait_healthy(60);
    }
}

#[test]
fn junk_behind_synced_bytes_or_their_checksums_takes_none_of_them() {
    check_whole("junk", |number, block, meta| {
        append(block, &[0xa5; 100]);
        append(meta, &vec![0x5a; 3 * number]);
    });
}

#[test]
fn a_checksum_that_is_half_replaced_takes_no_synced_bytes() {
    check_whole("torn", |_, _, meta| overwrite(meta, b"new", Layout::CURRENT.crc_position(CHUNK)));
}

#[test]
fn one_member_with_all_that_was_synced_is_enough() {
    check_whole("one member", |number, block, _| match number {
        0 => cut_to(block, 60_000),
        1 => append(block, &[0xa5; 10]),
        _ => cut_to(block, 512),
    });
}

/// Nobody has what was promised: what there is can be read, before and after the file is closed there; `fsck` tells until it is gone.
#[test]
fn a_file_whose_synced_bytes_are_on_no_disk_is_closed_and_told_of() {
    let mut cluster = start();
    let client = connect(&cluster.namenode);
    let bytes = data::bytes(8, SYNCED);
    let mut writer = client.create(&path("/f"), CreateOptions::default()).unwrap();
    writer.write_all(&bytes).unwrap();
    writer.hsync_with_length().unwrap();
    let directory = cluster.directory.clone();
    let dead = || {
        drop(writer);
        for ((block, _), length) in unfinished(&directory).iter().zip([60_000, 51_200, 1000]) {
            cut_to(block, length);
        }
    };
    switch::cut(&mut cluster, || (), dead);
    let client = connect(&cluster.namenode);
    // Of 60,000 bytes, the whole chunks are proved.
    let left = 60_000 / 512 * 512;
    let mut begin = vec![0; left];
    cluster.wait_until("what there is can be read", 60, |_| {
        let read = client.open(&path("/f")).and_then(|mut reader| reader.read_at(0, &mut begin));
        read.is_ok_and(|count| count == left)
    });
    assert!(begin == bytes[..left]);
    recover(&cluster, &client, "/f");
    assert!(content(&client, "/f") == bytes[..left]);
    let report = cluster.hanno(&["fsck", "/"]);
    let lost = format!("/f: CORRUPT: {} bytes that a writer had synced are lost", SYNCED - left);
    assert!(report.stdout_text().contains(&lost), "{}", report.stdout_text());
    assert_ne!(report.code, 0);
    let mut writer = client.append(&path("/f"), false).unwrap();
    writer.write_all(b"more").unwrap();
    writer.close().unwrap();
    assert_eq!(content(&client, "/f").len(), left + 4);
    assert_ne!(cluster.hanno(&["fsck", "/"]).code, 0, "still told");
    client.delete(&path("/f"), false).unwrap();
    cluster.wait_healthy(60);
}

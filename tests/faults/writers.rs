//! A pipeline member that dies while the last packet is synced and renamed into place: what `close` promised holds, and what the
//! dead one had left half-finished is never served.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use client::dfs::CreateOptions;
use protocol::DfsPath;

use super::{assert_no_panics, connect, options, wait_live};
use crate::support::{Cluster, data};

/// Bytes of each file: two packets and a bit, so that the end is not the first packet.
const FILE_BYTES: usize = 2_200_000;
/// Latest moment after the begin of `close` at which a member is killed: syncs and renames have ended by then.
const MOMENT_MAX_US: u64 = 6000;

/// The DataNode with this address.
fn name_of(cluster: &Cluster, address: &str) -> String {
    let number = (1..=4).find(|number| super::address(cluster, *number) == address);
    format!("datanode-{}", number.expect("a DataNode of this cluster"))
}

#[test]
fn a_member_that_dies_while_the_block_is_finalized_leaves_a_whole_file() {
    let mut options = options(4);
    options.variables.push(("HANNO_DATANODE_IO_TIMEOUT_MS", "2000".to_owned()));
    let cluster = Cluster::start(options);
    let client = connect(&cluster.namenode);
    let seed = 11;
    let mut choices = data::Choices(seed);
    let mut files = Vec::new();
    for round in 0..12u64 {
        let path = DfsPath::parse(&format!("/f{round}")).unwrap();
        let content = data::bytes(round, FILE_BYTES + round as usize);
        let mut writer = client.create(&path, CreateOptions::default()).unwrap();
        writer.write_all(&content).unwrap();
        writer.hflush().unwrap();
        let located = client.locations(&path, 0, u64::MAX).unwrap();
        let members = &located.blocks[0].replicas;
        let victim = name_of(&cluster, &members[round as usize % members.len()].transfer_address);
        let pid = cluster.pid(&victim).unwrap();
        let moment = Duration::from_micros(choices.below(MOMENT_MAX_US));
        println!("round {round}: {victim} dies {moment:?} after the begin of close");
        std::thread::scope(|scope| {
            let begin = Instant::now();
            scope.spawn(move || {
                while begin.elapsed() < moment {
                    std::hint::spin_loop();
                }
                sys::process::kill(pid).unwrap();
            });
            writer.close().unwrap();
        });
        let mut found = Vec::new();
        client.open(&path).unwrap().read_to_end(&mut found).unwrap();
        assert!(found == content, "{path}: {} of {} bytes", found.len(), content.len());
        files.push((path, content));
        cluster.wait_until("another process has taken its place", 30, |cluster| {
            cluster.pid(&victim) != Some(pid)
        });
        wait_live(&cluster, 4);
    }
    cluster.wait_healthy(60);
    // Each replica on disk is that of a file, whole.
    for (_, replica) in cluster.replicas() {
        let bytes = std::fs::read(&replica).unwrap();
        assert!(files.iter().any(|(_, content)| *content == bytes), "{}", replica.display());
    }
    assert_no_panics(&cluster);
}

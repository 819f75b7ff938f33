//! A member of a pipeline that is not dead but held still most of the time: it is replaced while the file is written, and spared
//! for new files.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::dfs::{CreateOptions, DfsClient};
use protocol::{DatanodeId, DfsPath};

use super::{address, assert_no_panics, connect, options, wait_live};
use crate::support::{Cluster, data, processes};

/// How long the slow one is held still, and how long it runs in between. In each short run all packets that are under way go through, a dozen,
/// and on a fast machine as many again: that must stay well below the 10 MiB/s from which on nobody counts as slow. Not long enough still to
/// look dead.
const STILL: Duration = Duration::from_millis(3000);
const RUNS: Duration = Duration::from_millis(10);
/// Bytes per write: a packet.
const PACKET_BYTES: usize = 1 << 20;
/// Most packets of a file: those of four short runs and of the writer's own buffers, and as many again.
const PACKETS_MAX: usize = 120;

fn has_replica(client: &DfsClient, path: &DfsPath, datanode: DatanodeId) -> bool {
    let located = client.locations(path, 0, u64::MAX).unwrap();
    located.blocks.last().unwrap().replicas.iter().any(|replica| replica.id == datanode)
}

/// Writes packets until the slow member is out of the pipeline; the file's content, `None` if it stays.
fn write_until_replaced(
    client: &DfsClient,
    path: &DfsPath,
    victim: DatanodeId,
    mut writer: client::dfs::DfsWriter,
) -> Option<Vec<u8>> {
    let content = data::bytes(3, PACKETS_MAX * PACKET_BYTES);
    let mut end = 0;
    for packet in content.chunks(PACKET_BYTES) {
        writer.write_all(packet).unwrap();
        end += packet.len();
        if !has_replica(client, path, victim) {
            writer.close().unwrap();
            return Some(content[..end].to_vec());
        }
    }
    None
}

#[test]
fn a_member_that_holds_up_its_pipeline_is_replaced_and_spared() {
    std::thread::scope(|scope| {
        for place in 0..3 {
            scope.spawn(move || hold_up(place));
        }
    });
}

/// Holds up a pipeline at this place, on a cluster of its own.
fn hold_up(place: usize) {
    let mut options = options(4);
    // It is late with everything, and must not seem dead.
    for (name, ms) in [("HANNO_NAMENODE_STALE_MS", 20_000), ("HANNO_NAMENODE_DEAD_MS", 40_000)] {
        options.variables.push((name, ms.to_string()));
    }
    let cluster = Cluster::start(options);
    let client = connect(&cluster.namenode);
    let path = DfsPath::parse("/slow").unwrap();
    let mut writer = client.create(&path, CreateOptions::default()).unwrap();
    writer.write_all(b"begin").unwrap();
    writer.hflush().unwrap();
    let victim = writer.pipeline()[place].clone();
    let is_victim = |number: &u32| address(&cluster, *number) == victim.transfer_address;
    let (victim, number) = (victim.id, (1..=4).find(is_victim).unwrap());
    let pid = cluster.pid(&format!("datanode-{number}")).unwrap();
    let done = AtomicBool::new(false);
    let begin = Instant::now();
    let content = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                processes::pause(pid);
                std::thread::sleep(STILL);
                sys::process::resume(pid).unwrap();
                std::thread::sleep(RUNS);
            }
        });
        let _stop = super::Stop(&done);
        write_until_replaced(&client, &path, victim, writer)
    });
    let log = std::fs::read_to_string(cluster.directory.join("logs/namenode-1.log")).unwrap();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("holds up a pipeline")).collect();
    let Some(content) = content else {
        panic!("place {place}, {victim}: still there after {PACKETS_MAX} packets; told: {told:?}");
    };
    println!("member {place}: replaced after {} bytes, {:?}", content.len(), begin.elapsed());
    assert!(!told.is_empty(), "place {place}: the NameNode is told");
    let blamed = told.iter().all(|line| line.contains(&victim.to_string()));
    assert!(blamed, "place {place}, {victim}: nobody else is blamed: {told:?}");
    let mut found = Vec::new();
    client.open(&path).unwrap().read_to_end(&mut found).unwrap();
    assert!(found[..5] == *b"begin" && found[5..] == content, "place {place}");
    wait_live(&cluster, 4);
    for number in 0..8 {
        let path = DfsPath::parse(&format!("/next{number}")).unwrap();
        let mut writer = client.create(&path, CreateOptions::default()).unwrap();
        writer.write_all(b"x").unwrap();
        writer.close().unwrap();
        assert!(!has_replica(&client, &path, victim), "it is spared");
    }
    cluster.wait_healthy(60);
    assert_no_panics(&cluster);
}

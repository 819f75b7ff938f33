//! A pipeline member that dies while the last packet is synced and renamed into place: what `close` promised holds, and what the
//! dead one had left half-finished is never served. And one that stands still while others are filled up from it.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use client::dfs::{CreateOptions, DfsClient};
use protocol::DfsPath;
use transport::Timeouts;
use transport::rpc::CallOptions;

use super::{assert_no_panics, connect, options, wait_live};
use crate::support::client::config;
use crate::support::{Cluster, data, processes, wait};

/// Bytes of each file: two packets and a bit, so that the end is not the first packet.
const FILE_BYTES: usize = 2_200_000;
/// Latest moment after the begin of `close` at which a member is killed: syncs and renames have ended by then.
const MOMENT_MAX_US: u64 = 6000;

/// The DataNode with this address.
fn name_of(cluster: &Cluster, address: &str) -> String {
    let number = (1..=4).find(|number| super::address(cluster, *number) == address);
    format!("datanode-{}", number.expect("a DataNode of this cluster"))
}

/// A client that waits for so long.
fn connect_with(cluster: &Cluster, timeouts: Timeouts) -> DfsClient {
    let calls = CallOptions::default();
    DfsClient::connect_with(&config(&cluster.namenode), calls, timeouts).unwrap()
}

#[track_caller]
fn check_content(client: &DfsClient, path: &DfsPath, content: &[u8]) {
    let mut found = Vec::new();
    client.open(path).unwrap().read_to_end(&mut found).unwrap();
    assert!(found == content, "{path}: {} of {} bytes", found.len(), content.len());
}

#[test]
fn a_member_that_dies_while_the_block_is_finalized_leaves_a_whole_file() {
    let mut options = options(4);
    options.variables.push(("HANNO_DATANODE_IO_TIMEOUT_MS", "2000".to_owned()));
    let cluster = Cluster::start(options);
    let client = connect(&cluster.namenode);
    let seed = 11;
    let mut choices = data::Choices::new(seed);
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
        check_content(&client, &path, &content);
        files.push((path, content));
        cluster.wait_until("another process has taken its place", 60, |cluster| {
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

/// What one member alone has on disk is not synced yet where there are others.
#[test]
fn a_sync_waits_for_a_second_member_that_is_away_for_a_moment() {
    let mut options = options(3);
    options.variables.extend([
        ("HANNO_DATANODE_IO_TIMEOUT_MS", "1000".to_owned()),
        // Nobody counts as dead.
        ("HANNO_NAMENODE_STALE_MS", "30000".to_owned()),
        ("HANNO_NAMENODE_DEAD_MS", "60000".to_owned()),
    ]);
    let cluster = Cluster::start(options);
    let timeouts = Timeouts {
        connect: Duration::from_secs(1),
        io: Duration::from_secs(2),
        idle: Duration::from_millis(500),
    };
    let client = connect_with(&cluster, timeouts);
    let path = DfsPath::parse("/f").unwrap();
    let content = data::bytes(6, 20_000);
    let mut writer = client.create(&path, CreateOptions::default()).unwrap();
    writer.write_all(&content[..10_000]).unwrap();
    writer.hsync().unwrap();
    let first = writer.pipeline()[0].transfer_address.clone();
    let others = (1..=3).filter(|number| super::address(&cluster, *number) != first);
    let others: Vec<u32> =
        others.map(|number| cluster.pid(&format!("datanode-{number}")).unwrap()).collect();
    others.iter().for_each(|pid| processes::pause(*pid));
    writer.write_all(&content[10_000..]).unwrap();
    let members = || client.locations(&path, 0, 1).unwrap().blocks[0].replicas.len();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            cluster.wait_until("one member is left", 60, |_| members() == 1);
            others.iter().for_each(|pid| sys::process::resume(*pid).unwrap());
        });
        writer.hsync().unwrap();
    });
    assert!(writer.pipeline().len() >= 2, "{:?}", writer.pipeline());
    writer.close().unwrap();
    check_content(&client, &path, &content);
    assert_no_panics(&cluster);
}

/// All wait as long for their neighbours, as they do by default.
#[test]
fn a_member_that_stands_still_is_left_out_and_none_of_those_before_it() {
    let mut options = options(3);
    options.variables.extend([
        ("HANNO_DATANODE_IO_TIMEOUT_MS", "6000".to_owned()),
        // Nobody counts as dead.
        ("HANNO_NAMENODE_STALE_MS", "30000".to_owned()),
        ("HANNO_NAMENODE_DEAD_MS", "60000".to_owned()),
    ]);
    let cluster = Cluster::start(options);
    let timeouts = Timeouts { io: Duration::from_secs(6), ..Timeouts::default() };
    let client = connect_with(&cluster, timeouts);
    let path = DfsPath::parse("/f").unwrap();
    let content = data::bytes(6, 20_000);
    let mut writer = client.create(&path, CreateOptions::default()).unwrap();
    writer.write_all(&content[..10_000]).unwrap();
    writer.hsync().unwrap();
    let members = |writer: &client::dfs::DfsWriter| {
        let members = writer.pipeline().iter();
        members.map(|member| member.transfer_address.clone()).collect::<Vec<_>>()
    };
    let before = members(&writer);
    let last = cluster.pid(&name_of(&cluster, &before[2])).unwrap();
    processes::pause(last);
    writer.write_all(&content[10_000..]).unwrap();
    writer.hsync().unwrap();
    assert_eq!(members(&writer), before[..2], "both in front of it are healthy");
    sys::process::resume(last).unwrap();
    writer.close().unwrap();
    check_content(&client, &path, &content);
    assert_no_panics(&cluster);
}

/// Longer than a DataNode takes to count as dead and some tries at a recovery after that.
const RECOVERIES: Duration = Duration::from_secs(12);

/// Of three members two stand still while bytes are synced, and go on; then the one with these bytes does while it fills the others up.
#[test]
fn bytes_that_one_member_has_are_waited_for_when_it_stands_still_while_others_are_filled() {
    let mut options = options(3);
    options.variables.extend([
        ("HANNO_DATANODE_IO_TIMEOUT_MS", "1000".to_owned()),
        ("HANNO_NAMENODE_RECOVERY_RETRY_MS", "1000".to_owned()),
        // The two that stand still for a moment do not count as dead, the last one does.
        ("HANNO_NAMENODE_STALE_MS", "3000".to_owned()),
        ("HANNO_NAMENODE_DEAD_MS", "6000".to_owned()),
    ]);
    let cluster = Cluster::start(options);
    let timeouts = Timeouts {
        connect: Duration::from_secs(1),
        io: Duration::from_secs(3),
        idle: Duration::from_millis(500),
    };
    let client = connect_with(&cluster, timeouts);
    let path = DfsPath::parse("/f").unwrap();
    let content = data::bytes(5, 40_000);
    let mut writer = client.create(&path, CreateOptions::default()).unwrap();
    writer.write_all(&content[..10_000]).unwrap();
    writer.hsync_with_length().unwrap();
    let pids = [1, 2, 3].map(|number| {
        let address = super::address(&cluster, number);
        (address, cluster.pid(&format!("datanode-{number}")).unwrap())
    });
    let pid_of = |address: &str| pids.iter().find(|(of, _)| of == address).unwrap().1;
    let [first, others @ ..] = &writer
        .pipeline()
        .iter()
        .map(|member| pid_of(&member.transfer_address))
        .collect::<Vec<_>>()[..]
    else {
        panic!("a pipeline has members")
    };
    others.iter().for_each(|pid| processes::pause(*pid));
    writer.write_all(&content[10_000..30_000]).unwrap();
    writer.hsync_with_length().unwrap();
    assert_eq!(writer.pipeline().len(), 1, "the others stand still");
    others.iter().for_each(|pid| sys::process::resume(*pid).unwrap());
    processes::pause(*first);
    writer.write_all(&content[30_000..]).unwrap();
    let synced = writer.hsync();
    assert!(synced.is_err(), "nobody who goes on has all of it");
    drop(writer);
    let is_closed = || client.is_file_closed(&path).unwrap();
    assert!(!wait::until(RECOVERIES, is_closed), "closed without the one that has all of it");
    sys::process::resume(*first).unwrap();
    cluster.wait_until("the file is closed", 60, |_| is_closed());
    let mut found = Vec::new();
    client.open(&path).unwrap().read_to_end(&mut found).unwrap();
    assert!(found.len() >= 30_000 && content.starts_with(&found), "{} bytes", found.len());
    cluster.wait_healthy(60);
    assert_no_panics(&cluster);
}

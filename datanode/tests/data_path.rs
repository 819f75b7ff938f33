//! Files through real DataNodes and a real NameNode: every size, damage, stopped DataNodes, restarts.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};

use crate::common::{Cluster, dfs, flip, sample, until};
use client::dfs::{CreateOptions, DfsError, Parents};
use protocol::ErrorKind;

const MIB: usize = 1 << 20;

/// Flips one bit in `block_of(path)` on one DataNode, the first that readers try; returns its number.
fn damage_first(cluster: &Cluster, path: &str, at: u64) -> usize {
    let first = cluster.locations(path).blocks[0].replicas[0].id;
    let number = cluster.number_of(first);
    // The last replica of a pipeline appears after its acknowledgement.
    until("the replica is there", || cluster.block_files(number).len() == 1);
    flip(&cluster.block_files(number)[0], at);
    number
}

#[test]
fn every_size_comes_back() {
    for local_socket in [true, false] {
        let cluster = Cluster::start(3, local_socket);
        let block = 2 * MIB + 512;
        let edges = [512, MIB, 2 * MIB, block, block + MIB, 2 * block];
        let mut sizes: BTreeSet<usize> = [0, 1, 300, 3 * block].into();
        sizes.extend(edges.iter().flat_map(|edge| [edge - 1, *edge, edge + 1]));
        for size in sizes {
            let data = sample(size, size as u32);
            let path = format!("/dir/size-{size}");
            cluster.put(&path, &data, block as u64);
            let status = cluster.client.status(&dfs(&path)).unwrap();
            assert_eq!((status.length, status.open), (size as u64, false));
            assert!(cluster.get(&path).unwrap() == data, "size {size}");
            for located in cluster.locations(&path).blocks {
                assert_eq!(located.replicas.len(), 3, "size {size}");
            }
        }
        let mut reader = cluster.client.open(&dfs(&format!("/dir/size-{}", 3 * block))).unwrap();
        let data = sample(3 * block, 3 * block as u32);
        let mut buffer = vec![0; 70_000];
        for at in [0, 1, 511, block - 35_000, 2 * block - 1, 3 * block - 10, 3 * block, 5] {
            let count = reader.read_at(at as u64, &mut buffer).unwrap();
            let end = (at + buffer.len()).min(data.len());
            assert!(buffer[..count] == data[at..end], "read_at {at}");
        }
        reader.seek(SeekFrom::End(-3)).unwrap();
        let mut tail = Vec::new();
        reader.read_to_end(&mut tail).unwrap();
        assert_eq!(tail, data[data.len() - 3..]);
        assert_eq!(cluster.client.list(&dfs("/dir")).count(), 22);
    }
}

#[test]
fn flushed_data_survives_mixed_writes() {
    let cluster = Cluster::start(3, true);
    let data = sample(3 * MIB, 5);
    let options = CreateOptions { block_size: Some(MIB as u64), ..CreateOptions::default() };
    let mut writer = cluster.client.create(&dfs("/f"), options).unwrap();
    let mut at = 0;
    for (step, size) in [1, 510, 1, 512, 1000, 600_000, 447_000, 5, 700_000].into_iter().enumerate()
    {
        writer.write_all(&data[at..at + size]).unwrap();
        at += size;
        match step % 3 {
            0 => writer.hflush().unwrap(),
            1 => writer.hsync().unwrap(),
            _ => {}
        }
    }
    writer.write_all(&data[at..]).unwrap();
    writer.close().unwrap();
    assert!(cluster.get("/f").unwrap() == data);
}

#[test]
fn a_writer_dropped_before_close_leaves_nothing() {
    let cluster = Cluster::start(1, true);
    let mut writer = cluster.client.create(&dfs("/gone"), CreateOptions::default()).unwrap();
    writer.write_all(&sample(2 * MIB, 1)).unwrap();
    drop(writer);
    assert!(cluster.client.try_status(&dfs("/gone")).unwrap().is_none());
}

#[test]
fn close_publishes_in_one_step() {
    let cluster = Cluster::start(2, true);
    let options = CreateOptions { publish_as: Some(dfs("/final")), ..CreateOptions::default() };
    let mut writer = cluster.client.create(&dfs("/.temporary"), options).unwrap();
    writer.write_all(b"hello").unwrap();
    assert!(cluster.client.try_status(&dfs("/final")).unwrap().is_none());
    writer.close().unwrap();
    assert!(cluster.client.try_status(&dfs("/.temporary")).unwrap().is_none());
    assert_eq!(cluster.get("/final").unwrap(), b"hello");
}

#[test]
fn directories_are_made_only_below_one_that_exists() {
    let cluster = Cluster::start(2, true);
    let (client, root) = (&cluster.client, dfs("/out/_temporary"));
    client.mkdirs(&root, 0o755, true).unwrap();
    let options =
        || CreateOptions { parents: Parents::Below(root.clone()), ..CreateOptions::default() };
    for name in ["/out/_temporary/a/part", "/out/_temporary/a/b/c/part"] {
        let mut writer = client.create(&dfs(name), options()).unwrap();
        writer.write_all(b"hello").unwrap();
        writer.close().unwrap();
        assert_eq!(cluster.get(name).unwrap(), b"hello");
    }
    client.set_quota(&root, Some(1)).unwrap();
    let refused = client.create(&dfs("/out/_temporary/new/part"), options()).unwrap_err();
    assert_eq!(refused.kind(), Some(ErrorKind::NamespaceQuotaExceeded), "{refused}");
    client.delete(&root, true).unwrap();
    let refused = client.create(&dfs("/out/_temporary/a/part"), options()).unwrap_err();
    assert_eq!(refused.kind(), Some(ErrorKind::NotFound));
    assert!(client.try_status(&root).unwrap().is_none());
}

#[test]
fn a_flipped_bit_is_read_around_reported_and_repaired() {
    for (local_socket, at) in [(true, 0), (false, 700_000), (true, 1_499_999)] {
        let cluster = Cluster::start(4, local_socket);
        let data = sample(1_500_000, 9);
        cluster.put("/f", &data, 8 * MIB as u64);
        let number = damage_first(&cluster, "/f", at);
        until("the bad replica is read, and then replaced", || {
            assert!(cluster.get("/f").unwrap() == data, "bit at {at}");
            let replicas = cluster.locations("/f").blocks.remove(0).replicas;
            let numbers: Vec<usize> = replicas.iter().map(|r| cluster.number_of(r.id)).collect();
            numbers.len() == 3 && !numbers.contains(&number)
        });
        assert!(cluster.get("/f").unwrap() == data, "after the repair, bit at {at}");
    }
}

#[test]
fn damaged_and_missing_meta_files_are_read_around() {
    for damage in 0..4 {
        let cluster = Cluster::start(3, true);
        let data = sample(100_000, 3);
        cluster.put("/f", &data, MIB as u64);
        until_everywhere(&cluster);
        let first = cluster.locations("/f").blocks[0].replicas[0].id;
        let block = cluster.block_files(cluster.number_of(first)).remove(0);
        let meta = block.with_file_name(format!("{}.meta", block.file_name().unwrap().display()));
        match damage {
            0 => flip(&meta, 3),
            1 => flip(&meta, 100),
            2 => fs::remove_file(&meta).unwrap(),
            _ => fs::write(&block, &data[..50_000]).unwrap(),
        }
        assert!(cluster.get("/f").unwrap() == data, "damage {damage}");
    }
}

/// Waits for the third replica of the one block: it is finalized after its acknowledgement.
fn until_everywhere(cluster: &Cluster) {
    until("finalized on all three", || {
        (0..3).all(|number| !cluster.block_files(number).is_empty())
    });
}

#[test]
fn all_replicas_damaged() {
    let cluster = Cluster::start(3, true);
    let data = sample(3 * MIB, 11);
    cluster.put("/apart", &data, 8 * MIB as u64);
    until_everywhere(&cluster);
    for number in 0..3 {
        flip(&cluster.block_files(number)[0], 1000 + 600_000 * number as u64);
    }
    assert!(cluster.get("/apart").unwrap() == data, "good chunks are put together");
    cluster.client.delete(&dfs("/apart"), false).unwrap();
    until("deleted", || (0..3).all(|number| cluster.block_files(number).is_empty()));

    cluster.put("/same", &data, 8 * MIB as u64);
    until_everywhere(&cluster);
    for number in 0..3 {
        flip(&cluster.block_files(number)[0], 2_000_000);
    }
    let error = cluster.get("/same").unwrap_err();
    let error = error.get_ref().and_then(|e| e.downcast_ref::<DfsError>()).unwrap();
    let offset_expected = 2_000_000 / 512 * 512;
    assert!(
        matches!(error, DfsError::Corrupt { offset, .. } if *offset == offset_expected),
        "{error}"
    );
    assert!(error.to_string().contains("/same"), "{error}");
    let mut reader = cluster.client.open(&dfs("/same")).unwrap();
    let mut rest = vec![0; MIB / 2];
    reader.read_at(2 * MIB as u64, &mut rest).unwrap();
    assert!(rest == data[2 * MIB..2 * MIB + MIB / 2], "the rest can be read");
}

/// Writes, stops DataNode `victim` after `stop_at` bytes, continues writing, and reads back.
fn check_stop(count: usize, victim: usize, stop_at: usize) {
    let mut cluster = Cluster::start(count, true);
    let data = sample(9 * MIB + 77, 13);
    let options = CreateOptions { block_size: Some(4 * MIB as u64), ..CreateOptions::default() };
    let mut writer = cluster.client.create(&dfs("/f"), options).unwrap();
    writer.write_all(&data[..stop_at]).unwrap();
    cluster.stop_datanode(victim);
    writer.write_all(&data[stop_at..]).unwrap();
    writer.close().unwrap();
    assert!(cluster.get("/f").unwrap() == data, "{count} DataNodes, {victim} stopped at {stop_at}");
    cluster.start_datanode(victim);
    cluster.wait_live(count);
    until("every block has three replicas again", || {
        cluster.locations("/f").blocks.iter().all(|block| block.replicas.len() == 3)
    });
    assert!(cluster.get("/f").unwrap() == data);
}

#[test]
fn a_put_survives_each_member_with_three_datanodes() {
    for victim in 0..3 {
        check_stop(3, victim, [0, 2 * MIB + 5, 9 * MIB + 77][victim]);
    }
}

#[test]
fn a_put_survives_each_member_with_four_datanodes() {
    for victim in 0..4 {
        check_stop(4, victim, [MIB, 4 * MIB - 1, 3 * MIB, 6 * MIB][victim]);
    }
}

#[test]
fn restart_finds_what_was_there_and_drops_what_is_stale() {
    let mut cluster = Cluster::start(3, true);
    let data = sample(3 * MIB, 17);
    cluster.put("/kept", &data, MIB as u64);
    cluster.put("/deleted", &data, MIB as u64);
    let stray = cluster.directory(0).join("finalized/stray");
    cluster.stop_datanode(0);
    fs::write(&stray, "what is this").unwrap();
    cluster.client.delete(&dfs("/deleted"), false).unwrap();
    cluster.start_datanode(0);
    cluster.wait_live(3);
    until("the stale replicas are deleted", || cluster.block_files(0).len() == 3);
    assert!(!stray.is_file() && cluster.directory(0).join("quarantine/stray").is_file());
    cluster.stop_datanode(1);
    cluster.stop_datanode(2);
    assert!(cluster.get("/kept").unwrap() == data, "from the restarted DataNode alone");
}

#[test]
fn a_file_whose_writer_is_gone_is_recovered() {
    let cluster = Cluster::start(3, true);
    let data = sample(2 * MIB + 100, 19);
    let writer_client = cluster.connect();
    let mut writer = writer_client.create(&dfs("/f"), CreateOptions::default()).unwrap();
    writer.write_all(&data).unwrap();
    writer.hflush().unwrap();
    // The writer stays silent and open: its lease is taken away.
    until("the file is closed", || cluster.client.recover_lease(&dfs("/f")).unwrap_or(false));
    let read = cluster.get("/f").unwrap();
    assert!(read == data, "all that was flushed is there: {} of {}", read.len(), data.len());
    let refused = writer.write_all(&data).is_err() || writer.close().is_err();
    assert!(refused, "the old writer cannot finish");
    assert!(cluster.get("/f").unwrap() == data);
}

#[test]
fn a_flush_before_the_first_appended_byte_keeps_what_was_there() {
    let cluster = Cluster::start(3, true);
    let data = sample(1024, 23);
    cluster.put("/f", &data, MIB as u64);
    let other = cluster.connect();
    let mut writer = other.append(&dfs("/f"), false).unwrap();
    writer.hflush().unwrap();
    until("the file is closed", || cluster.client.recover_lease(&dfs("/f")).unwrap_or(false));
    assert!(cluster.get("/f").unwrap() == data);
    drop(writer);
}

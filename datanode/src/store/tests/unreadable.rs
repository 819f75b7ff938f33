//! Sectors that a disk does not return take what is in them, and no more.

use std::path::PathBuf;

use super::{STAMP, packet, sample};
use crate::core::replica::Intent;
use crate::store::*;
use sys::disk::sim::Machine;

const COUNT: u64 = 8;
/// A record of 1000 bytes takes three sectors.
const RECORD_BYTES: usize = 3 * 512;

fn config(path: PathBuf, small_bytes_max: u32) -> VolumeConfig {
    let (reserved_bytes, trash_grace) = (Some(0), Duration::ZERO);
    VolumeConfig { path, reserved_bytes, trash_grace, bypass_cache: false, small_bytes_max }
}

fn open(path: &std::path::Path) -> Arc<Store> {
    Arc::new(Store::open(&[config(path.join("volume"), 4096)], 1 << 20, None).unwrap())
}

/// A machine on which a process has written [`COUNT`] small replicas, each with a sync of its own, and ended.
fn filled() -> (Machine, PathBuf) {
    let machine = Machine::new(3);
    let root = machine.add_disk(16 << 20);
    let store = open(&root);
    for block in 1..=COUNT {
        let mut writer = store.write(BlockId(block), STAMP, Intent::Create, None).unwrap();
        let mut packet = packet(0, &sample(1000));
        packet.header.last = true;
        writer.write(packet).unwrap();
        writer.finalize().unwrap();
    }
    drop(store);
    machine.kill();
    machine.start();
    (machine, root)
}

fn segment(machine: &Machine, root: &std::path::Path) -> PathBuf {
    let folder = root.join("volume").join(volume::SMALL);
    machine.files(&folder).remove(0)
}

fn blocks(store: &Store) -> Vec<u64> {
    store.replicas().iter().map(|replica| replica.block.0).collect()
}

#[test]
fn a_sector_of_a_shared_file_takes_only_its_own_replica() {
    let length = {
        let (machine, root) = filled();
        machine.bytes(&segment(&machine, &root)).unwrap().len()
    };
    for sector in 0..length / 512 {
        let (machine, root) = filled();
        let path = segment(&machine, &root);
        machine.spoil(&path, sector * 512..sector * 512 + 1).unwrap();
        let store = open(&root);
        assert!(store.failed_volumes().is_empty(), "sector {sector}");
        let place = (sector * 512).checked_sub(512);
        let hit = place.map(|at| (at / RECORD_BYTES + 1) as u64);
        let is_header = place.is_some_and(|at| at % RECORD_BYTES == 0);
        let held = blocks(&store);
        for block in (1..=COUNT).filter(|block| Some(*block) != hit) {
            assert!(held.contains(&block), "sector {sector} took {block}: {held:?}");
            let opened = store.open_any(BlockId(block)).unwrap();
            verify_range(BlockId(block), &opened.block, &opened.meta, 0, 1000, |_| ()).unwrap();
        }
        // One whose header is good is known, where a sync had it: its readers find what is lost.
        let is_held = hit.is_some_and(|block| held.contains(&block));
        assert!(!(is_header && is_held), "sector {sector}");
        assert!(is_header || hit.is_none_or(|hit| hit == COUNT) || is_held, "sector {sector}");
        // It works on, and so does the next start.
        let mut writer = store.write(BlockId(50), STAMP, Intent::Create, None).unwrap();
        writer.write(packet(0, &sample(300))).unwrap();
        writer.finalize().unwrap();
        drop(store);
        machine.kill();
        machine.start();
        assert!(blocks(&open(&root)).contains(&50), "sector {sector}");
    }
}

#[test]
fn what_cannot_be_read_at_all_takes_its_disk_out_of_service() {
    let (machine, root) = filled();
    let path = segment(&machine, &root);
    machine.spoil(&path, 0..machine.bytes(&path).unwrap().len()).unwrap();
    let other = machine.add_disk(1 << 20).join("volume");
    let configs = [config(root.join("volume"), 4096), config(other, 0)];
    let store = Store::open(&configs, 1 << 20, Some(1)).unwrap();
    assert_eq!(store.failed_volumes().len(), 1);
    assert!(machine.bytes(&path).is_ok(), "it stays where it is");
}

#[test]
fn a_read_of_a_shared_file_that_fails_once_takes_nothing() {
    let (machine, root) = filled();
    let begin = machine.operations();
    drop(open(&root));
    let operations = machine.operations() - begin;
    let mut survived = 0;
    for at in 1..=operations {
        let (machine, root) = filled();
        machine.plan(at, sys::disk::sim::Fault::Io);
        if let Ok(store) = Store::open(&[config(root.join("volume"), 4096)], 1 << 20, None) {
            survived += 1;
            assert_eq!(blocks(&store), (1..=COUNT).collect::<Vec<_>>(), "operation {at}");
        }
    }
    assert!(survived > COUNT, "of {operations}");
}

#[test]
fn a_compaction_goes_on_beside_what_cannot_be_read() {
    let (machine, root) = filled();
    let path = segment(&machine, &root);
    // The data of the second, and of the segment's last.
    machine.spoil(&path, 512 + RECORD_BYTES + 600..512 + RECORD_BYTES + 601).unwrap();
    let store = open(&root);
    (3..=7).for_each(|block| store.delete(BlockId(block), STAMP));
    store.empty_trash(&|| false);
    assert_eq!(store.pop_suspect(), Some(BlockId(2)), "it is looked at again");
    for block in [1, 8] {
        let opened = store.open_any(BlockId(block)).unwrap();
        verify_range(BlockId(block), &opened.block, &opened.meta, 0, 1000, |_| ()).unwrap();
    }
    let segments = machine.files(&root.join("volume").join(volume::SMALL));
    assert_eq!(segments.len(), 2, "the others have moved");
}

#[test]
fn what_a_writer_left_counts_up_to_the_first_sector_that_cannot_be_read() {
    let (machine, root) = filled();
    let store = open(&root);
    let mut writer = store.write(BlockId(60), STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, &sample(9000))).unwrap();
    writer.sync_entry().unwrap();
    drop((writer, store));
    machine.kill();
    machine.start();
    let folder = root.join("volume").join(volume::RBW);
    let path = machine.files(&folder).into_iter().find(|path| path.extension().is_none()).unwrap();
    machine.spoil(&path, 5000..5001).unwrap();
    let store = open(&root);
    assert!(store.failed_volumes().is_empty());
    let left = store.replicas().into_iter().find(|one| one.block == BlockId(60)).unwrap();
    assert_eq!((left.length, left.state), (4608, State::Unfinished));
    assert_eq!(store.replica_count(), COUNT as usize + 1);
}

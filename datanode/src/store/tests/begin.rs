//! Writes that cannot begin, and what is there afterwards.

use protocol::transfer::Resume;
use sys::disk::sim::{Fault, Machine};

use super::failures::{mixed, open};
use super::{STAMP, packet, sample};
use crate::store::*;

const NEXT: GenerationStamp = GenerationStamp(STAMP.0 + 1);

fn resume(store: &Arc<Store>, block: BlockId, offset: u64) -> Result<ReplicaWriter, StoreError> {
    let prior = store.open_any(block)?.replica.stamp;
    store.write(block, GenerationStamp(prior.0 + 1), Some(Resume { prior, offset }), None)
}

fn check_bytes(store: &Store, block: BlockId) {
    let opened = store.open_any(block).unwrap();
    let length = opened.replica.length;
    verify_range(block, &opened.block, &opened.meta, 0, length, |_| ()).unwrap();
    let mut found = vec![0; length as usize];
    opened.block.read_exact_at(&mut found, 0).unwrap();
    assert!(found == sample(700));
}

type Way = fn(&Arc<Store>, BlockId) -> bool;

/// An append, a write that goes on, a recovery.
const WAYS: [(u64, Way); 3] = [
    (2, |store, block| resume(store, block, 700).is_ok()),
    (1, |store, block| resume(store, block, 700).is_ok()),
    (1, |store, block| {
        let _ = store.begin_recovery(block, NEXT);
        store.update(block, NEXT, 700).is_ok()
    }),
];

#[test]
fn a_write_that_cannot_begin_leaves_the_replica_that_there_was() {
    for fault in [Fault::Io, Fault::Descriptors] {
        let mut kept_count = 0;
        for (at, (number, begin)) in (1..40).flat_map(|at| WAYS.map(|way| (at, way))) {
            let (machine, root, _) = mixed(at);
            let (store, block) = (open(&root).unwrap(), BlockId(number));
            machine.plan(at, fault);
            let has_begun = begin(&store, block);
            if has_begun || !store.failed_volumes().is_empty() || machine.fired() == 0 {
                continue;
            }
            kept_count += 1;
            let all: Vec<u64> = store.replicas().iter().map(|replica| replica.block.0).collect();
            assert!(all.contains(&number), "{fault:?} at operation {at} of block {number}");
            check_bytes(&store, block);
            let mut writer = resume(&store, block, 700).unwrap();
            writer.write(packet(700, &sample(100))).unwrap();
            writer.finalize().unwrap();
        }
        assert!(kept_count > 5, "{kept_count} after {fault:?}");
    }
}

#[test]
fn a_sync_without_descriptors_keeps_what_was_written() {
    for is_last in [false, true] {
        let machine = Machine::new(1);
        let root = machine.add_disk(1 << 20);
        let store = open(&root).unwrap();
        let mut writer = store.write(BlockId(1), STAMP, None, None).unwrap();
        writer.write(packet(0, &sample(700))).unwrap();
        machine.plan(1, Fault::Descriptors);
        let refused = match is_last {
            true => writer.finalize(),
            false => writer.sync_entry().inspect_err(|_| drop(writer)),
        };
        assert!(matches!(refused, Err(StoreError::Shortage { .. })), "{refused:?}");
        assert!(store.failed_volumes().is_empty());
        check_bytes(&store, BlockId(1));
    }
}

/// What a failed write left is read, and is what a start would find; if that fails too, nothing is known of it.
#[test]
fn what_nobody_can_read_after_a_failed_write_does_not_count() {
    let mut unknown_count = 0;
    for (at, next) in (1..20).flat_map(|at| (1..12).map(move |next| (at, next))) {
        let machine = Machine::new(at);
        let root = machine.add_disk(1 << 20);
        let store = open(&root).unwrap();
        let mut writer = store.write(BlockId(1), STAMP, None, None).unwrap();
        writer.write(packet(0, &sample(700))).unwrap();
        machine.plan(at, Fault::Full);
        machine.plan(at + next, Fault::Io);
        let written = writer.write(packet(512, &sample(3000)[512..])).is_ok();
        drop(writer);
        if written || machine.fired() < 2 {
            continue;
        }
        unknown_count += 1;
        let (found, failed_count) = (store.replicas(), store.failed_volumes().len());
        machine.kill();
        drop(store);
        machine.start();
        match failed_count {
            0 => assert_eq!(open(&root).unwrap().replicas(), found, "faults at {at}, {next} later"),
            _ => assert_eq!(found, []),
        }
    }
    assert!(unknown_count > 10, "{unknown_count} times");
}

#[test]
fn after_a_failed_write_nothing_succeeds_that_could_promise_it() {
    for is_last in [false, true] {
        let machine = Machine::new(1);
        let root = machine.add_disk(1 << 20);
        let store = open(&root).unwrap();
        let mut writer = store.write(BlockId(1), STAMP, None, None).unwrap();
        writer.write(packet(0, &sample(700))).unwrap();
        machine.plan(1, Fault::Full);
        // Large enough to be written behind.
        writer.write(packet(1024 - 512, &sample(300 << 10))).unwrap();
        assert!(writer.in_flight().is_err());
        let refused = if is_last { writer.finalize() } else { writer.sync_entry() };
        assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
    }
}

/// Operations of an append after a recovery, which a start may have come before.
fn operations_of_append(restarts: bool) -> u64 {
    let machine = Machine::new(1);
    let root = machine.add_disk(1 << 20);
    let mut store = open(&root).unwrap();
    let block = BlockId(1);
    let mut writer = store.write(block, STAMP, None, None).unwrap();
    writer.write(packet(0, &sample(700))).unwrap();
    drop(writer);
    if restarts {
        machine.kill();
        drop(store);
        machine.start();
        store = open(&root).unwrap();
    }
    store.begin_recovery(block, NEXT).unwrap();
    store.update(block, NEXT, 700).unwrap();
    let before = machine.operations();
    drop(resume(&store, block, 700).unwrap());
    machine.operations() - before
}

#[test]
fn a_replica_is_written_again_once() {
    assert_eq!(operations_of_append(true), operations_of_append(false));
}

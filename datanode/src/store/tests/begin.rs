//! Writes that cannot begin, and what is there afterwards.

use std::path::PathBuf;

use protocol::transfer::Resume;
use sys::disk::sim::{Fault, Machine};

use super::failures::{mixed, open};
use super::{STAMP, packet, sample};
use crate::core::replica::{Begin, Intent, Refusal};
use crate::store::*;

const NEXT: GenerationStamp = GenerationStamp(STAMP.0 + 1);

/// A store of block 1, whose writer has written 700 bytes.
fn begun(seed: u64) -> (Machine, PathBuf, Arc<Store>, ReplicaWriter) {
    let machine = Machine::new(seed);
    let root = machine.add_disk(1 << 20);
    let store = open(&root).unwrap();
    let mut writer = store.write(BlockId(1), STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, &sample(700))).unwrap();
    (machine, root, store, writer)
}

fn resume(store: &Arc<Store>, block: BlockId, offset: u64) -> Result<ReplicaWriter, StoreError> {
    let prior = store.open_any(block)?.replica.stamp;
    store.write(
        block,
        GenerationStamp(prior.0 + 1),
        Intent::Resume(Resume { prior, offset, after_break: false }),
        None,
    )
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

/// Begins to append to block 1 of [`mixed`], whose operation `at` fails. True if that was where the files move.
fn fails_while_files_move(at: u64) -> Option<bool> {
    let (machine, root, _) = mixed(at);
    let (store, block) = (open(&root).unwrap(), BlockId(1));
    let handle = Arc::new(WriterHandle::new(None));
    let mut moving = Some(store.moves.moving(block));
    let old = store.replicas.lock()[&block].clone();
    let replica = Replica { stamp: NEXT, state: State::Receiving, ..old.replica };
    let entry = Entry { writer: Some(Arc::clone(&handle)), ..Entry::new(replica, 0) };
    store.replicas.lock().insert(block, entry);
    machine.plan(at, Fault::Io);
    let parts = (Arc::clone(&handle), Begin::Resume { offset: 700 }, Some(old.clone()));
    let failed = ReplicaWriter::begin(&store, replica, 0, parts, &mut moving).err()?;
    let moves = moving.is_some();
    assert_eq!(moves, failed.left == Some(old.replica), "operation {at}");
    let is_held = || store.replicas.lock().get(&block).is_some_and(|entry| entry.writer.is_some());
    assert!(
        !(is_held() && handle.stop(Duration::ZERO)),
        "operation {at}: its writer has not ended"
    );
    store.put_back(block, &handle, Some(old), failed);
    assert!(!is_held() && handle.stop(Duration::ZERO), "operation {at}");
    Some(moves)
}

#[test]
fn a_write_that_cannot_begin_holds_its_replica_until_the_table_is_right() {
    let moves: Vec<bool> = (1..).map_while(fails_while_files_move).collect();
    // The two files are renamed; whatever takes long comes afterwards.
    assert_eq!(moves.iter().filter(|moves| **moves).count(), 2, "{moves:?}");
    assert!(moves.len() > 10, "{moves:?}");
}

#[test]
fn a_sync_without_descriptors_keeps_what_was_written() {
    for is_last in [false, true] {
        let (machine, _, store, mut writer) = begun(1);
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
        let (machine, root, store, mut writer) = begun(at);
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
        let (machine, _, _store, mut writer) = begun(1);
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
    let (machine, root, mut store, writer) = begun(1);
    let block = BlockId(1);
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

/// The copy that replaces a stale replica may fail, even because its source is damaged.
#[test]
fn a_stale_replica_stays_until_a_copy_of_the_current_one_is_complete() {
    for is_finalized in [true, false] {
        let (machine, root, store, writer) = begun(1);
        let block = BlockId(1);
        if is_finalized {
            writer.finalize().unwrap();
        } else {
            drop(writer);
        }
        let old = store.open_any(block).unwrap().replica;
        let mut copy = store.write(block, NEXT, Intent::Copy, None).unwrap();
        copy.write(packet(0, &sample(512))).unwrap();
        assert_eq!(store.open_any(block).unwrap().replica, old);
        drop(copy);
        assert_eq!(store.open_any(block).unwrap().replica, old);
        check_bytes(&store, block);
        let mut copy = store.write(block, NEXT, Intent::Copy, None).unwrap();
        copy.write(packet(0, &sample(700))).unwrap();
        copy.finalize().unwrap();
        check_bytes(&store, block);
        let expected = Replica { stamp: NEXT, state: State::Finalized, ..old };
        assert_eq!(store.replicas(), [expected]);
        let is_old = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.contains(&format!("_{STAMP}"))
                && !path.components().any(|part| part.as_os_str() == "trash")
        };
        assert!(!machine.files(&root).iter().any(is_old), "{:?}", machine.files(&root));
        drop(store);
        assert_eq!(open(&root).unwrap().replicas(), [expected]);
    }
}

/// The only one that goes on with a block must have its bytes.
#[test]
fn nobody_goes_on_with_a_damaged_replica() {
    let (machine, root, store, writer) = begun(2);
    let block = BlockId(1);
    drop(writer);
    let path =
        machine.files(&root).into_iter().find(|path| path.ends_with(format!("blk_1_{STAMP}")));
    machine.tamper(&path.unwrap(), |bytes| bytes[100] ^= 1).unwrap();
    let resumed = resume(&store, block, 700);
    assert!(matches!(resumed, Err(StoreError::Corrupt { offset: 0, .. })), "{resumed:?}");
    // The writer lost the last acknowledgement, and tries again under a later stamp.
    let (machine, root, store, writer) = begun(5);
    drop(writer);
    let mut again = resume(&store, block, 700).unwrap();
    again.write(packet(512, &sample(700)[512..])).unwrap();
    again.finalize().unwrap();
    let name = format!("blk_1_{NEXT}");
    let path = machine.files(&root).into_iter().find(|path| path.ends_with(&name)).unwrap();
    machine.tamper(&path, |bytes| bytes[100] ^= 1).unwrap();
    let later = GenerationStamp(NEXT.0 + 1);
    for after_break in [false, true] {
        let intent = Intent::Resume(Resume { prior: STAMP, offset: 700, after_break });
        let resumed = store.write(block, later, intent, None).map(drop);
        assert!(matches!(resumed, Err(StoreError::Corrupt { offset: 0, .. })), "{resumed:?}");
    }
    // The writer lost the last acknowledgement, and what it wrote is finalized under the stamp that it had.
    for offset in [700, 100] {
        let (machine, root, store, writer) = begun(6);
        writer.finalize().unwrap();
        let name = format!("blk_1_{STAMP}");
        let path = machine.files(&root).into_iter().find(|path| path.ends_with(&name)).unwrap();
        machine.tamper(&path, |bytes| bytes[10] ^= 1).unwrap();
        let intent = Intent::Resume(Resume { prior: STAMP, offset, after_break: true });
        let resumed = store.write(block, NEXT, intent, None).map(drop);
        assert!(matches!(resumed, Err(StoreError::Corrupt { offset: 0, .. })), "{resumed:?}");
    }
    let (_, _, store, writer) = begun(3);
    writer.finalize().unwrap();
    store.report_bad(&store.open_any(block).unwrap().replica);
    let resumed = resume(&store, block, 700);
    let damaged = StoreError::Refused { block, refusal: Refusal::Damaged };
    assert_eq!(resumed.unwrap_err().to_string(), damaged.to_string());
    let mut copy = store.write(block, NEXT, Intent::Copy, None).unwrap();
    copy.write(packet(0, &sample(700))).unwrap();
    copy.finalize().unwrap();
    resume(&store, block, 700).unwrap().finalize().unwrap();
}

/// Else it would be asked for bytes that it does not have, again and again.
#[test]
fn a_recovery_that_found_damage_begins_the_next_one_with_what_is_proved() {
    let (machine, root, store, writer) = begun(4);
    let block = BlockId(1);
    drop(writer);
    let name = format!("blk_1_{STAMP}");
    let path = machine.files(&root).into_iter().find(|path| path.ends_with(&name)).unwrap();
    machine.tamper(&path, |bytes| bytes[600] ^= 1).unwrap();
    assert_eq!(store.begin_recovery(block, NEXT).unwrap().replica().unwrap().length, 700);
    let updated = store.update(block, NEXT, 700);
    assert!(matches!(updated, Err(StoreError::Corrupt { offset: 512, .. })), "{updated:?}");
    let later = GenerationStamp(NEXT.0 + 1);
    assert_eq!(store.begin_recovery(block, later).unwrap().replica().unwrap().length, 512);
    store.update(block, later, 512).unwrap();
    assert!(store.open_any(block).unwrap().replica.is_finalized());
}

//! One failure of a simulated disk at each operation in turn.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};

use protocol::datanode::Changes;
use protocol::transfer::Resume;
use sys::disk::sim::{Fault, Machine};

use super::{STAMP, check, packet, sample, volume};
use crate::core::replica::Intent;
use crate::scanner::scan;
use crate::store::*;

/// Blocks of which some are finalized and some are not.
const BLOCKS: [u64; 4] = [1, 2, 256, 257];

pub(super) fn open(root: &Path) -> Result<Arc<Store>, Error> {
    Store::open(&[volume(root.join("volume"))], 1 << 20, None).map(Arc::new)
}

/// Failures of a volume, at any moment of a check.
const FAILURES: u64 = 250;

/// Replicas of every kind, left by a process that was killed.
pub(super) fn mixed(seed: u64) -> (Machine, PathBuf, Vec<Replica>) {
    let machine = Machine::new(seed);
    let root = machine.add_disk(1 << 20);
    let store = open(&root).unwrap();
    for number in BLOCKS {
        let mut writer = store.write(BlockId(number), STAMP, Intent::Create, None).unwrap();
        writer.write(packet(0, &sample(700))).unwrap();
        match number % 2 {
            0 => writer.finalize().unwrap(),
            _ => drop(writer),
        }
    }
    let replicas = store.replicas();
    machine.kill();
    drop(store);
    machine.start();
    (machine, root, replicas)
}

/// A writer that has lost its replica with the volume still has the files open. What it writes there must not get into a replica that counts again.
#[test]
fn a_volume_comes_back_once_its_writers_have_let_go() {
    let (block, data) = (BlockId(1), sample(3000));
    let machine = Machine::new(5);
    let roots = [machine.add_disk(1 << 20), machine.add_disk(1 << 20)];
    let store = Store::open(&roots.map(|root| volume(root.join("volume"))), 1 << 20, None);
    let store = Arc::new(store.unwrap());
    let mut writer = store.write(block, STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, &data[..100])).unwrap();
    writer.sync_entry().unwrap();
    machine.plan(1, Fault::Sync);
    assert!(writer.sync().is_err());
    assert_eq!((store.failed_volumes().len(), store.replicas()), (1, vec![]));
    store.check_volumes();
    assert!(writer.write(packet(0, &data[..2000])).is_err(), "it is not its replica any more");
    drop(writer);
    store.check_volumes();
    assert!(store.failed_volumes().is_empty());
    let stamp = GenerationStamp(STAMP.0 + 1);
    let found = store.begin_recovery(block, stamp).unwrap().replica().unwrap();
    assert!(found.length >= 100, "{found:?}");
    store.update(block, stamp, found.length).unwrap();
    let opened = store.open_replica(block, stamp).unwrap();
    verify_range(block, &opened.block, &opened.meta, 0, found.length, |_| ()).unwrap();
}

#[test]
fn a_volume_never_comes_back_between_its_failure_and_the_stop_of_its_writers() {
    let machine = Machine::new(6);
    let root = machine.add_disk(1 << 20);
    let store = open(&root).unwrap();
    let (checks, over) = (AtomicU64::new(0), AtomicBool::new(false));
    // One that ran meanwhile has ended, and one more.
    let wait = || {
        let end = checks.load(Ordering::SeqCst) + 2;
        while checks.load(Ordering::SeqCst) < end {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                store.check_volumes();
                checks.fetch_add(1, Ordering::SeqCst);
            }
        });
        let (mut early_count, mut back_count) = (0, 0);
        for number in 0..FAILURES {
            let Ok(writer) = store.write(BlockId(number), STAMP, Intent::Create, None) else {
                break;
            };
            store.fence(0, &std::io::Error::other("gone"));
            wait();
            early_count += u64::from(store.failed_volumes().is_empty());
            drop(writer);
            wait();
            back_count += u64::from(store.failed_volumes().is_empty());
        }
        over.store(true, Ordering::SeqCst);
        assert_eq!((early_count, back_count), (0, FAILURES));
    });
}

/// The cluster is stored on each disk. One that does not have it yet belongs to the DataNode nevertheless.
#[test]
fn a_disk_that_misses_the_first_contact_is_not_lost() {
    let cluster = ClusterId([1; 16]);
    let begin = || {
        let machine = Machine::new(5);
        let roots = [machine.add_disk(1 << 20), machine.add_disk(1 << 20)];
        (machine, roots)
    };
    let open = |roots: &[PathBuf; 2]| {
        Store::open(&roots.each_ref().map(|root| volume(root.join("volume"))), 1 << 20, None)
    };
    let (machine, roots) = begin();
    let store = open(&roots).unwrap();
    machine.set_broken(&roots[1], true);
    store.check_volumes();
    store.adopt_cluster(cluster).unwrap();
    machine.repair(&roots[1]);
    store.check_volumes();
    assert_eq!(store.failed_volumes(), Vec::<String>::new());

    for at in 1..40 {
        let (machine, roots) = begin();
        let store = open(&roots).unwrap();
        let owner = store.datanode();
        machine.plan(at, Fault::Kill);
        let is_adopted = store.adopt_cluster(cluster).is_ok();
        machine.kill();
        drop(store);
        machine.start();
        let store = open(&roots).unwrap();
        assert_eq!((store.datanode(), store.failed_volumes().len()), (owner, 0), "at {at}");
        assert!(!is_adopted || store.cluster() == Some(cluster));
        store.adopt_cluster(cluster).unwrap();
    }
}

/// What the store has to report.
fn changes(store: &Store) -> Changes {
    store.changes().pending().take().unwrap_or_default()
}

/// A replica that a disk does not return once is still the good one that it was; nobody else may have one.
#[test]
fn a_disk_that_fails_one_read_has_damaged_nothing() {
    let (machine, root, _) = mixed(7);
    let store = open(&root).unwrap();
    let block = BlockId(2);
    changes(&store);
    for read in 1..=3 {
        machine.plan(read, Fault::Io);
        scan(&store, block, |_| ());
        assert_eq!(changes(&store).bad, [], "read {read}");
        assert_eq!(store.pop_suspect(), Some(block), "read {read}");
        scan(&store, block, |_| ());
        assert_eq!((changes(&store).bad, store.pop_suspect()), (vec![], None), "read {read}");
    }
    for _ in 0..2 {
        assert_eq!(changes(&store).bad, []);
        machine.plan(2, Fault::Io);
        scan(&store, block, |_| ());
    }
    assert_eq!(changes(&store).bad.len(), 1);
}

/// A disk that returns nothing at all has no damaged replicas: it is out of service until it works again, and then has what it had.
#[test]
fn a_disk_that_fails_for_a_time_has_damaged_nothing() {
    let machine = Machine::new(7);
    let roots = [machine.add_disk(1 << 20), machine.add_disk(1 << 20)];
    let store =
        Store::open(&roots.each_ref().map(|root| volume(root.join("volume"))), 1 << 20, None);
    let (store, block) = (Arc::new(store.unwrap()), BlockId(2));
    let mut writer = store.write(block, STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, &sample(700))).unwrap();
    writer.finalize().unwrap();
    changes(&store);
    roots.iter().for_each(|root| machine.set_broken(root, true));
    scan(&store, block, |_| ());
    let reported = changes(&store);
    assert_eq!((reported.bad, reported.deleted), (vec![], vec![block]));
    roots.iter().for_each(|root| machine.set_broken(root, false));
    store.check_volumes();
    let reported = changes(&store);
    assert_eq!((reported.bad, reported.received.len()), (vec![], 1));
}

/// A failed cut or write leaves a checksum that covers other bytes than before; what is acknowledged later must not stand on it.
#[test]
fn what_a_failed_cut_or_write_left_is_proved_before_it_counts() {
    let (block, data) = (BlockId(1), sample(3000));
    for fault in [Fault::Io, Fault::Full] {
        for at in 1..60 {
            let machine = Machine::new(at);
            let root = machine.add_disk(1 << 20);
            let store = open(&root).unwrap();
            let mut writer = store.write(block, STAMP, Intent::Create, None).unwrap();
            writer.write(packet(0, &data[..2000])).unwrap();
            drop(writer);
            machine.plan(at, fault);
            let resume = |stamp: u64, offset: usize| {
                let prior = store.open_any(block).ok()?.replica.stamp;
                let resume =
                    Intent::Resume(Resume { prior, offset: offset as u64, after_break: false });
                store.write(block, GenerationStamp(stamp), resume, None).ok()
            };
            if let Some(mut writer) = resume(1002, 700) {
                let _ = writer.write(packet(512, &data[512..1300]));
            }
            let Some(found) = store.replicas().first().copied() else { continue };
            let mut synced = 0;
            if let Some(mut writer) = resume(1003, found.length as usize)
                && writer.sync_entry().is_ok()
            {
                synced = found.length;
            }
            machine.cut_power();
            drop(store);
            machine.start();
            let left = open(&root).unwrap().replicas().first().map_or(0, |left| left.length);
            assert!(left >= synced, "{left} of {synced} bytes, {fault:?} at operation {at}");
        }
    }
}

/// After a failed sync the bytes can be read and are not on the disk: a sync of another process counts only after they were written again.
#[test]
fn what_a_failed_sync_left_is_written_again_before_it_counts() {
    let (block, data) = (BlockId(1), sample(3000));
    let mut failed_count = 0;
    for (seed, at) in (1..40).flat_map(|seed| [1, 2, 3].map(|at| (seed, at))) {
        let machine = Machine::new(seed);
        let root = machine.add_disk(1 << 20);
        let store = open(&root).unwrap();
        let mut writer = store.write(block, STAMP, Intent::Create, None).unwrap();
        writer.write(packet(0, &data[..2000])).unwrap();
        machine.plan(at, Fault::Io);
        let synced = writer.sync_entry();
        drop(writer);
        machine.kill();
        drop(store);
        machine.start();
        let store = open(&root).unwrap();
        let Some(found) = store.replicas().first().copied().filter(|_| synced.is_err()) else {
            continue;
        };
        failed_count += 1;
        let resume =
            Intent::Resume(Resume { prior: found.stamp, offset: found.length, after_break: false });
        let mut writer = store.write(block, GenerationStamp(1002), resume, None).unwrap();
        writer.sync_entry().unwrap();
        machine.cut_power();
        drop(writer);
        drop(store);
        machine.start();
        let left = open(&root).unwrap().replicas().first().map_or(0, |left| left.length);
        assert!(left >= found.length, "{left} of {} bytes, seed {seed}, {at}", found.length);
    }
    assert!(failed_count > 60, "{failed_count} syncs failed");
}

/// What happens to 700 promised bytes of a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    /// Its writer goes on and syncs.
    Sync,
    /// Its writer goes on and completes it.
    Finalize,
    /// It is complete, and somebody appends to it.
    Append,
}

/// Goes on with a replica until it fails.
fn go_on_until_full(
    store: &Arc<Store>,
    mut writer: ReplicaWriter,
    then: Then,
) -> Result<(), StoreError> {
    let data = sample(1300);
    let prior = writer.stamp();
    if then == Then::Append {
        writer.finalize()?;
        let resume = Intent::Resume(Resume { prior, offset: 700, after_break: false });
        writer = store.write(BlockId(1), GenerationStamp(1002), resume, None)?;
    }
    writer.write(packet(512, &data[512..]))?;
    match then {
        Then::Finalize => writer.finalize(),
        Then::Sync | Then::Append => writer.sync_entry(),
    }
}

/// A full disk fails whatever needs room. What was promised stays, and what a recovery promises of it is on the disk.
#[test]
fn a_full_disk_takes_nothing_that_was_promised() {
    let (block, data, thens) =
        (BlockId(1), sample(1300), [Then::Sync, Then::Finalize, Then::Append]);
    let mut failed_count = 0;
    let cases = (1..30).flat_map(|seed| (1..30).map(move |at| (seed, at)));
    for ((seed, at), then) in cases.flat_map(|case| thens.map(|then| (case, then))) {
        let machine = Machine::new(seed);
        let root = machine.add_disk(1 << 20);
        let store = open(&root).unwrap();
        let mut writer = store.write(block, STAMP, Intent::Create, None).unwrap();
        writer.write(packet(0, &data[..700])).unwrap();
        writer.sync_entry().unwrap();
        machine.plan(at, Fault::Full);
        let Err(_) = go_on_until_full(&store, writer, then) else { continue };
        failed_count += 1;
        let found = store.replicas().first().copied();
        let case = format!("seed {seed}, operation {at}, {then:?}: {found:?}");
        assert!(found.is_some_and(|found| found.length >= 700), "{case}");
        let stamp = GenerationStamp(1003);
        let length = store.begin_recovery(block, stamp).unwrap().replica().unwrap().length;
        assert!(length >= 700, "{case}: {length}");
        store
            .update(block, stamp, length)
            .unwrap_or_else(|error| panic!("{case}, {length}: {error}"));
        machine.cut_power();
        drop(store);
        machine.start();
        let store = open(&root).unwrap();
        check(&store, 1, stamp, &data[..length as usize], State::Finalized);
    }
    assert!(failed_count > 300, "{failed_count} failed");
}

/// A directory that exists need not be on the disk.
#[test]
fn directories_of_a_process_that_was_killed_are_durable_before_they_are_used() {
    let mut at = 1;
    loop {
        let machine = Machine::new(at);
        let root = machine.add_disk(1 << 20);
        let write = || -> Result<(), StoreError> {
            let store = open(&root).map_err(|_| StoreError::Full)?;
            let mut writer = store.write(BlockId(1), STAMP, Intent::Create, None)?;
            writer.write(packet(0, &sample(700)))?;
            writer.finalize()
        };
        machine.plan(at, Fault::Kill);
        let first = write();
        if machine.fired() == 0 {
            first.unwrap();
            break;
        }
        machine.start();
        let written = open(&root).unwrap().replicas().iter().any(Replica::is_finalized);
        if !written {
            write().unwrap();
            machine.cut_power();
            machine.start();
            let found = open(&root).unwrap().replicas();
            assert!(found.iter().any(Replica::is_finalized), "operation {at}: {found:?}");
        }
        at += 1;
    }
    assert!(at > 50, "{at} operations");
}

/// A process that ends while it finalizes leaves a name that is not on disk yet; the next one reports it.
#[test]
fn what_a_start_finds_survives_a_power_cut() {
    for (seed, at) in (1..20).flat_map(|seed| (1..20).map(move |at| (seed, at))) {
        let machine = Machine::new(seed);
        let root = machine.add_disk(1 << 20);
        let store = open(&root).unwrap();
        let mut writer = store.write(BlockId(1), STAMP, Intent::Create, None).unwrap();
        writer.write(packet(0, &sample(700))).unwrap();
        machine.plan(at, Fault::Kill);
        let _ = writer.finalize();
        machine.kill();
        drop(store);
        machine.start();
        let store = open(&root).unwrap();
        let found: Vec<Replica> =
            store.replicas().into_iter().filter(Replica::is_finalized).collect();
        machine.cut_power();
        drop(store);
        machine.start();
        let left = open(&root).unwrap().replicas();
        assert!(found.iter().all(|replica| left.contains(replica)), "seed {seed}, operation {at}");
    }
}

#[test]
fn a_start_on_a_disk_that_does_not_answer_once_puts_nothing_away() {
    let mut at = 1;
    loop {
        let (machine, root, replicas) = mixed(at);
        machine.plan(at, Fault::Io);
        drop(open(&root));
        if machine.fired() == 0 {
            break;
        }
        machine.kill();
        machine.start();
        assert_eq!(open(&root).unwrap().replicas(), replicas, "operation {at}");
        at += 1;
    }
    assert!(at > 30, "{at} operations");
}

/// Continues the replica at `offset`, if the machine lets it, and adds data up to `end`.
fn go_on(store: &Arc<Store>, stamp: u64, offset: usize, end: usize) {
    let (block, data) = (BlockId(1), sample(3000));
    let Ok(found) = store.open_any(block) else { return };
    let resume = Intent::Resume(Resume {
        prior: found.replica.stamp,
        offset: offset as u64,
        after_break: false,
    });
    let Ok(mut writer) = store.write(block, GenerationStamp(stamp), resume, None) else { return };
    if end > offset {
        let begin = offset / 512 * 512;
        let _ = writer.write(packet(begin as u64, &data[begin..end]));
    }
}

#[test]
fn synced_bytes_survive_every_way_of_going_on_within_their_chunk() {
    type Way = fn(&Arc<Store>);
    // Further data is cut off again; or a writer that continued what was finalized ended without a word.
    let ways: [(Way, Way); 2] = [
        (
            |store| {
                go_on(store, 1002, 1347, 2166);
                go_on(store, 1003, 1701, 1708);
            },
            |store| go_on(store, 1004, 1371, 1400),
        ),
        (
            |store| {
                store.begin_recovery(BlockId(1), GenerationStamp(1002)).unwrap();
                store.update(BlockId(1), GenerationStamp(1002), 1347).unwrap();
                go_on(store, 1003, 1347, 1347);
            },
            |store| go_on(store, 1004, 1347, 1900),
        ),
    ];
    for ((before, last), seed) in ways.into_iter().flat_map(|way| (0..40).map(move |n| (way, n))) {
        for at in 1..40 {
            let machine = Machine::new(seed);
            let root = machine.add_disk(1 << 20);
            let store = open(&root).unwrap();
            let mut writer = store.write(BlockId(1), STAMP, Intent::Create, None).unwrap();
            writer.write(packet(0, &sample(1347))).unwrap();
            writer.sync_entry().unwrap();
            drop(writer);
            before(&store);
            machine.plan(at, Fault::PowerCut);
            last(&store);
            machine.cut_power();
            drop(store);
            machine.start();
            let left = open(&root).unwrap().replicas()[0].length;
            assert!(left >= 1347, "{left} bytes, seed {seed}, operation {at}");
        }
    }
}

#[test]
fn a_sync_that_fails_behind_its_writer_is_noticed_or_does_not_happen() {
    for is_early in [false, true] {
        let machine = Machine::new(1);
        let root = machine.add_disk(16 << 20);
        let store = open(&root).unwrap();
        let mut writer = store.write(BlockId(1), STAMP, Intent::Create, None).unwrap();
        writer.sync_ahead();
        while store.behind_count() == 0 {
            let end = writer.length();
            writer.write(packet(end, &sample(100 << 10))).unwrap();
        }
        if is_early {
            drop(writer);
            let before = machine.operations();
            assert!(store.run_behind());
            assert_eq!(machine.operations(), before);
            assert!(store.failed_volumes().is_empty());
        } else {
            machine.plan(1, Fault::Io);
            assert!(store.run_behind());
            drop(writer);
            assert_eq!(store.failed_volumes().len(), 1);
            assert_eq!(store.replica_count(), 0);
        }
    }
}

#[test]
fn a_disk_that_fails_at_the_first_contact_is_one_that_failed() {
    for (at, fault) in (1..20).flat_map(|at| [Fault::Io, Fault::Full].map(|fault| (at, fault))) {
        let machine = Machine::new(at);
        let roots = [machine.add_disk(1 << 20), machine.add_disk(1 << 20)];
        let configs = roots.each_ref().map(|root| volume(root.join("volume")));
        let store = Store::open(&configs, 1 << 20, Some(1)).unwrap();
        machine.plan(at, fault);
        store.adopt_cluster(ClusterId([7; 16])).unwrap();
        assert_eq!(store.cluster(), Some(ClusterId([7; 16])));
        drop(store);
        machine.forget_plan();
        roots.iter().for_each(|root| machine.repair(root));
        let store = Store::open(&configs, 1 << 20, Some(1)).unwrap();
        assert!(store.failed_volumes().is_empty(), "it works again: {fault:?} at {at}");
    }
}

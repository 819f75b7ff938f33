//! Files that are deleted, brought back or moved while a store runs.

use std::sync::atomic::AtomicBool;

use protocol::datanode::Changes;
use protocol::transfer::Resume;

use super::{STAMP, open, packet, sample, volume};
use crate::core::replica::Intent;
use crate::store::volume::ReplicaPaths;
use crate::store::*;

const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
const ENOMEM: i32 = 12;
const EIO: i32 = 5;
const NEVER: &dyn Fn() -> bool = &|| false;

fn write(store: &Arc<Store>, block: u64, bytes: usize) {
    let mut writer = store.write(BlockId(block), STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, &sample(bytes))).unwrap();
    writer.finalize().unwrap();
}

fn paths(store: &Store, block: u64) -> ReplicaPaths {
    match store.find(BlockId(block), |_| true).unwrap().1 {
        Place::Files(paths) => paths,
        Place::Small(small) => panic!("{small:?} has no files of its own"),
    }
}

/// The next message to the NameNode.
fn told(store: &Store) -> Changes {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        loop {
            if let Some(changes) = store.changes().pending().take() {
                return changes;
            }
            store.changes().added().await;
        }
    })
}

#[test]
fn a_file_that_somebody_deleted_is_given_up_by_the_first_reader() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    (1..=2).for_each(|block| write(&store, block, 3000));
    told(&store);
    std::fs::remove_file(paths(&store, 1).block).unwrap();
    let begin = |block| store.begin_recovery(BlockId(block), GenerationStamp(STAMP.0 + 9)).unwrap();
    store.vouch_from(STAMP, store.loss_count());
    let is_sure = Found::Nothing { since: Some(STAMP) };
    assert_eq!(begin(7), is_sure);
    let loss_count = store.loss_count();
    let error = store.open_at_least(BlockId(1), STAMP).unwrap_err();
    assert!(matches!(error, StoreError::Vanished(_)), "{error}");
    assert_eq!(told(&store).deleted, [BlockId(1)]);
    assert_eq!(begin(1), Found::Nothing { since: None });
    store.vouch_from(STAMP, loss_count);
    assert_eq!(begin(1), Found::Nothing { since: None }, "it was lost meanwhile");
    assert!(matches!(store.open_any(BlockId(1)), Err(StoreError::NotFound(_))));
    // Another reader had opened it before, and cannot read on: what is gone is not reported bad, or the NameNode would wait for its end.
    let (second, newer) =
        (store.open_any(BlockId(2)).unwrap().replica, GenerationStamp(STAMP.0 + 1));
    store.report_bad(&Replica { block: BlockId(1), ..second });
    store.report_bad(&Replica { stamp: newer, ..second });
    assert!(store.changes().pending().take().is_none());
    // Missing checksums count as damage: the bytes may be all that is left.
    std::fs::remove_file(paths(&store, 2).meta).unwrap();
    let error = store.open_at_least(BlockId(2), STAMP).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert_eq!(told(&store).bad.len(), 1);
    assert_eq!(store.replica_count(), 1);
    assert!(store.failed_volumes().is_empty());
}

/// A writer keeps its files open while somebody removes or replaces them.
#[test]
fn nothing_is_acknowledged_in_files_that_somebody_removes() {
    for (name, is_replaced) in [("", false), (".meta", false), ("", true), (".meta", true)] {
        for is_synced in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let store = open(root.path());
            let mut writer = store.write(BlockId(1), STAMP, Intent::Create, None).unwrap();
            writer.write(packet(0, &sample(3000))).unwrap();
            writer.sync_entry().unwrap();
            let file = format!("{}{name}", paths(&store, 1).block.display());
            let bytes = std::fs::read(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            if is_replaced {
                std::fs::write(&file, bytes).unwrap();
            }
            let outcome = match is_synced {
                true => writer.sync_entry(),
                false => writer.finalize(),
            };
            assert!(matches!(outcome, Err(StoreError::Vanished(_))), "{name} {outcome:?}");
            assert_eq!(store.replica_count(), usize::from(is_synced), "until its writer ends");
        }
    }
}

/// A folder of finalized replicas stays open to be synced.
#[test]
fn a_folder_that_somebody_removes_or_replaces_is_opened_again() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    write(&store, 1, 3000);
    let folder = paths(&store, 1).block.parent().unwrap().to_owned();
    let away = root.path().join("away");
    std::fs::rename(&folder, &away).unwrap();
    let mut writer = store.write(BlockId(2), STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, &sample(3000))).unwrap();
    assert!(writer.finalize().is_err());
    write(&store, 3, 3000);
    std::fs::rename(&folder, root.path().join("too")).unwrap();
    std::fs::rename(&away, &folder).unwrap();
    write(&store, 4, 3000);
    assert!(paths(&store, 4).block.is_file());
    assert!(store.failed_volumes().is_empty());
    drop(store);
    let found = open(root.path());
    let finalized = found.replicas().into_iter().filter(Replica::is_finalized);
    assert_eq!(finalized.map(|replica| replica.block.0).collect::<Vec<_>>(), [1, 4]);
}

/// Under the new stamp it would count for more than good replicas on DataNodes that do not answer now.
#[test]
fn a_damaged_replica_ends_no_recovery() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    write(&store, 1, 3000);
    let file = paths(&store, 1).block;
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[700] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let stamp = GenerationStamp(STAMP.0 + 1);
    store.begin_recovery(BlockId(1), stamp).unwrap();
    let error = store.update(BlockId(1), stamp, 3000).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { offset: 512, .. }), "{error}");
    bytes[700] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    store.update(BlockId(1), stamp, 3000).unwrap();
    assert_eq!(store.replicas()[0].stamp, stamp);
}

/// Whoever meets a read that fails has the disk checked, and several may at the same time.
#[test]
fn a_disk_that_is_checked_by_several_at_once_works() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| store.volumes[0].check().unwrap()));
        }
    });
}

/// A replica that was written again while its volume was out of service is there twice when the DataNode starts.
#[test]
fn of_two_finalized_replicas_the_good_one_is_kept() {
    for damaged in 0..2 {
        let root = tempfile::tempdir().unwrap();
        let roots = ["a", "b"].map(|name| root.path().join(name));
        let volumes = roots.each_ref().map(|root| volume(root.clone()));
        let store = Arc::new(Store::open(&volumes, 1 << 20, None).unwrap());
        write(&store, 1, 3000);
        let ReplicaPaths { block, meta } = paths(&store, 1);
        drop(store);
        let owner = roots.iter().find(|root| block.starts_with(root)).unwrap();
        for file in [&block, &meta] {
            for other in &roots {
                let copy = other.join(file.strip_prefix(owner).unwrap());
                std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
                if copy != *file {
                    std::fs::copy(file, copy).unwrap();
                }
            }
        }
        let file = roots[damaged].join(block.strip_prefix(owner).unwrap());
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[700] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        let store = Store::open(&volumes, 1 << 20, None).unwrap();
        let opened = store.open_any(BlockId(1)).unwrap();
        verify_range(BlockId(1), &opened.block, &opened.meta, 0, 3000, |_| ()).unwrap();
    }
}

/// A copy without its files is there as long as nobody has looked.
#[test]
fn a_copy_that_cannot_be_read_is_the_worse_one() {
    let root = tempfile::tempdir().unwrap();
    let volumes = ["a", "b"].map(|name| volume(root.path().join(name)));
    let store = Arc::new(Store::open(&volumes, 1 << 20, None).unwrap());
    write(&store, 1, 3000);
    let replica = store.replicas()[0];
    let holder = usize::from(!paths(&store, 1).block.starts_with(root.path().join("a")));
    let [good, absent] = [holder, 1 - holder].map(|volume| Entry::new(replica, volume));
    assert!(scan::Found::default().is_better(&good, &absent, &store.volumes).unwrap());
    assert!(!scan::Found::default().is_better(&absent, &good, &store.volumes).unwrap());
}

#[test]
fn what_the_disks_hold_counts_whatever_the_table_says() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    (1..=600).for_each(|block| write(&store, block, 700));
    let half = store.write(BlockId(700), STAMP, Intent::Create, None).unwrap();
    told(&store);
    assert_eq!(store.compare_with_disks(NEVER), Differences::default());
    // One is deleted, one disappears and returns, an old one returns beside its successor.
    std::fs::remove_file(paths(&store, 300).block).unwrap();
    let (away, aside) = (paths(&store, 301), ReplicaPaths::new(root.path(), BlockId(301), STAMP));
    for (from, to) in [(&away.block, &aside.block), (&away.meta, &aside.meta)] {
        std::fs::rename(from, to).unwrap();
    }
    let old = store.volumes[0].finalized_paths(BlockId(302), GenerationStamp(STAMP.0 - 1));
    std::fs::copy(paths(&store, 302).block, &old.block).unwrap();
    let differences = store.compare_with_disks(NEVER);
    assert_eq!(differences, Differences { lost: 2, found: 0, stale: 1 });
    assert_eq!(told(&store).deleted, [BlockId(300), BlockId(301)]);
    assert!(!old.block.try_exists().unwrap());
    for (from, to) in [(&aside.block, &away.block), (&aside.meta, &away.meta)] {
        std::fs::rename(from, to).unwrap();
    }
    let differences = store.compare_with_disks(NEVER);
    assert_eq!(differences, Differences { lost: 0, found: 1, stale: 0 });
    let received = told(&store).received;
    assert_eq!(received.iter().map(|replica| replica.block).collect::<Vec<_>>(), [BlockId(301)]);
    assert_eq!(store.pop_suspect(), Some(BlockId(301)), "it is not trusted blindly");
    assert_eq!(store.compare_with_disks(NEVER), Differences::default());
    drop(half);
}

/// Runs two readers, which `read` until it ends, and comparisons with the disks alongside `work`: nothing that nobody touched is lost, found or damaged.
fn beside_readers(store: &Store, read: &(dyn Fn() + Sync), work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    let has_ended = || over.load(Ordering::Acquire);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !has_ended() {
                    read();
                }
            });
        }
        scope.spawn(|| {
            while !has_ended() {
                assert_eq!(store.compare_with_disks(&has_ended), Differences::default());
            }
        });
        work();
        over.store(true, Ordering::Release);
    });
}

/// Either it is there, or it does not exist.
fn is_sound(opened: Result<OpenReplica, StoreError>) {
    match opened {
        Ok(_) | Err(StoreError::NotFound(_)) => {}
        Err(error) => panic!("{}", protocol::error::chain(&error)),
    }
}

#[test]
fn who_opens_a_replica_while_it_is_finalized_finds_it() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    // Either it has not begun yet, or its writer has just taken it further.
    let read = || {
        let all = store.replicas().into_iter();
        all.for_each(|replica| is_sound(store.open_at_least(replica.block, replica.stamp)));
    };
    beside_readers(&store, &read, || {
        for round in 0..300 {
            write(&store, round, 600);
            // An append takes it out of the finalized ones and back under a newer stamp.
            let (newer, resume) = (
                GenerationStamp(STAMP.0 + 1),
                Resume { prior: STAMP, offset: 600, after_break: false },
            );
            let mut writer =
                store.write(BlockId(round), newer, Intent::Resume(resume), None).unwrap();
            writer.write(packet(512, &sample(800)[512..])).unwrap();
            writer.finalize_unsynced().unwrap();
        }
    });
    let changes = told(&store);
    assert_eq!((changes.bad.len(), changes.deleted.len()), (0, 0));
    assert_eq!(store.replica_count(), 300);
}

#[test]
fn who_opens_a_replica_while_it_is_deleted_finds_it_or_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    beside_readers(&store, &|| is_sound(store.open_any(BlockId(1))), || {
        for _ in 0..300 {
            store
                .write(BlockId(1), STAMP, Intent::Create, None)
                .unwrap()
                .finalize_unsynced()
                .unwrap();
            store.delete(BlockId(1), STAMP);
        }
    });
    let changes = told(&store);
    assert_eq!((changes.bad.len(), changes.deleted), (0, vec![BlockId(1)]));
    assert_eq!(store.replica_count(), 0);
}

#[test]
fn what_a_comparison_finds_on_a_volume_that_is_coming_back_stays() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    (1..=2).for_each(|block| write(&store, block, 3000));
    store.fence(0, &std::io::Error::from_raw_os_error(EIO));
    assert_eq!(store.replica_count(), 0);
    let volume = &store.volumes[0];
    volume.reopen().unwrap();
    let mut found = scan::Found::default();
    scan::scan(volume, 0, &store.volumes, &mut found).unwrap();
    volume.unfence();
    let differences = store.compare_with_disks(NEVER);
    assert_eq!(differences, Differences { lost: 0, found: 2, stale: 0 });
    assert_eq!(store.take_back(0, found.replicas), 0);
    assert_eq!(store.compare_with_disks(NEVER), Differences::default());
    assert!((1..=2).all(|block| store.open_any(BlockId(block)).is_ok()));
}

#[test]
fn a_process_without_descriptors_says_nothing_of_its_disks() {
    use std::io::Error;
    for errno in [EMFILE, ENFILE, ENOMEM] {
        let error = StoreError::io(BlockId(1), Error::from_raw_os_error(errno));
        assert!(matches!(error, StoreError::Shortage { .. }) && !error.is_bad_replica());
    }
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    write(&store, 1, 100);
    store.fence_unless_short(0, &Error::from_raw_os_error(EMFILE));
    assert!(store.failed_volumes().is_empty() && store.replica_count() == 1);
    store.fence_unless_short(0, &Error::from_raw_os_error(EIO));
    assert_eq!(store.failed_volumes().len(), 1, "EIO is the disk's");
}

/// Whoever took it out of service has emptied the table, and nobody does so again.
#[test]
fn nothing_of_a_volume_that_has_failed_gets_into_the_table() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    write(&store, 1, 3000);
    store.fence(0, &std::io::Error::from_raw_os_error(EIO));
    let mut differences = Differences::default();
    store.take_or_discard(0, BlockId(1), STAMP, &mut differences);
    assert_eq!((store.replica_count(), differences), (0, Differences::default()));
    let volume = &store.volumes[0];
    volume.reopen().unwrap();
    volume.unfence();
    assert_eq!(store.compare_with_disks(NEVER).found, 1);
}

#[test]
fn a_complete_replica_is_not_given_up_for_one_that_is_still_coming() {
    let root = tempfile::tempdir().unwrap();
    let config = |name: &str| volume(root.path().join(name));
    let store = Arc::new(Store::open(&[config("a"), config("b")], 1 << 20, None).unwrap());
    write(&store, 1, 3000);
    let index = store.replicas.lock()[&BlockId(1)].volume;
    let old = paths(&store, 1).block;
    store.fence(index, &std::io::Error::from_raw_os_error(EIO));
    let mut copy = store.write(BlockId(1), STAMP, Intent::Copy, None).unwrap();
    copy.write(packet(0, &sample(1024))).unwrap();
    store.check_volumes();
    assert!(store.failed_volumes().is_empty());
    assert_eq!(store.compare_with_disks(NEVER), Differences::default());
    assert!(old.try_exists().unwrap(), "it may be all that there is");
    drop(copy);
    assert_eq!(store.compare_with_disks(NEVER).found, 1);
    assert!(store.open_any(BlockId(1)).unwrap().replica.is_finalized());
}

/// One disk fails, the block is written again on the other, that fails, and the first comes back with the older replica.
#[test]
fn the_newer_of_two_replicas_is_in_use_in_whatever_order_their_disks_come_back() {
    let failure = || std::io::Error::from_raw_os_error(EIO);
    for is_compared in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let config = |name: &str| volume(root.path().join(name));
        let store = Arc::new(Store::open(&[config("a"), config("b")], 1 << 20, None).unwrap());
        write(&store, 1, 3000);
        let first = store.replicas.lock()[&BlockId(1)].volume;
        store.fence(first, &failure());
        let newer = GenerationStamp(STAMP.0 + 1);
        let mut copy = store.write(BlockId(1), newer, Intent::Copy, None).unwrap();
        copy.write(packet(0, &sample(1024))).unwrap();
        copy.finalize().unwrap();
        let second = store.replicas.lock()[&BlockId(1)].volume;
        assert_ne!(first, second);
        store.fence(second, &failure());
        store.restore(first).unwrap();
        let stamp = || store.open_any(BlockId(1)).unwrap().replica.stamp;
        assert_eq!(stamp(), STAMP);
        if is_compared {
            store.volumes[second].reopen().unwrap();
            store.volumes[second].unfence();
            let found = Differences { lost: 0, found: 1, stale: 0 };
            assert_eq!(store.compare_with_disks(NEVER), found);
        } else {
            store.restore(second).unwrap();
        }
        assert_eq!(stamp(), newer);
        assert_eq!(told(&store).received.last().map(|replica| replica.stamp), Some(newer));
        assert_eq!(store.compare_with_disks(NEVER), Differences::default());
        let at_rest = store.volumes[first].finalized_paths(BlockId(1), STAMP).block;
        assert!(!at_rest.try_exists().unwrap(), "the older one is in the trash");
    }
}

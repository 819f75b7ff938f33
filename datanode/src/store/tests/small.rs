//! Small replicas that share files.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use protocol::transfer::Resume;

use super::{STAMP, packet, sample};
use crate::core::replica::Intent;
use crate::store::volume::SMALL;
use crate::store::*;

const NEVER: &dyn Fn() -> bool = &|| false;
const NEXT: GenerationStamp = GenerationStamp(STAMP.0 + 1);

fn config(root: &Path, small_bytes_max: u32) -> VolumeConfig {
    let (reserved_bytes, trash_grace) = (Some(0), Duration::ZERO);
    let path = root.join("volume");
    VolumeConfig { path, reserved_bytes, trash_grace, bypass_cache: true, small_bytes_max }
}

fn open(root: &Path) -> Arc<Store> {
    Arc::new(Store::open(&[config(root, 4096)], 1 << 20, None).unwrap())
}

fn begin(store: &Arc<Store>, block: u64, data: &[u8]) -> ReplicaWriter {
    let mut writer = store.write(BlockId(block), STAMP, Intent::Create, None).unwrap();
    let mut packet = packet(0, data);
    packet.header.last = true;
    writer.write(packet).unwrap();
    writer
}

fn put(store: &Arc<Store>, block: u64, data: &[u8]) {
    begin(store, block, data).finalize().unwrap();
}

fn read(store: &Store, block: u64) -> Vec<u8> {
    let opened = store.open_any(BlockId(block)).unwrap();
    let length = opened.replica.length;
    verify_range(BlockId(block), &opened.block, &opened.meta, 0, length, |_| ()).unwrap();
    let mut bytes = vec![0; length as usize];
    opened.block.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn files(root: &Path, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.join("volume").join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

fn blocks(store: &Store) -> Vec<u64> {
    store.replicas().iter().map(|replica| replica.block.0).collect()
}

#[test]
fn they_share_a_file_and_are_there_after_a_start() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for block in 1..=20 {
        put(&store, block, &sample(block as usize * 200));
    }
    store.write(BlockId(21), STAMP, Intent::Create, None).unwrap().finalize().unwrap();
    put(&store, 22, &sample(5000));
    assert_eq!(files(root.path(), SMALL).len(), 1);
    assert_eq!(files(root.path(), "finalized").len(), 2, "one is not small");
    assert!(files(root.path(), "rbw").is_empty());
    drop(store);
    let store = open(root.path());
    assert_eq!(blocks(&store), (1..=22).collect::<Vec<_>>());
    assert!(store.replicas().iter().all(Replica::is_finalized));
    for block in 1..=20 {
        assert_eq!(read(&store, block), sample(block as usize * 200));
    }
    assert_eq!(store.compare_with_disks(NEVER), Differences::default());
    // What an earlier start has written gets no more.
    put(&store, 23, &sample(10));
    assert_eq!(files(root.path(), SMALL).len(), 2);
}

#[test]
fn several_are_finalized_together() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let sizes = [100, 4096, 5000, 0, 700];
    let writers = (1..).zip(sizes).map(|(block, size)| begin(&store, block, &sample(size)));
    let outcomes = ReplicaWriter::finalize_all(writers.collect::<Vec<_>>());
    assert!(outcomes.len() == 5 && outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    drop(store);
    let store = open(root.path());
    for (block, size) in (1..).zip(sizes) {
        assert_eq!(read(&store, block), sample(size), "block {block}");
    }
    assert_eq!(files(root.path(), "finalized").len(), 2, "the largest has files");
    assert!(ReplicaWriter::finalize_all([]).is_empty());
}

#[test]
fn one_that_goes_on_gets_files_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let data = sample(3000);
    put(&store, 1, &data[..1000]);
    let resume = Intent::Resume(Resume { prior: STAMP, offset: 1000, after_break: false });
    let mut writer = store.write(BlockId(1), NEXT, resume, None).unwrap();
    writer.write(packet(512, &data[512..])).unwrap();
    writer.finalize().unwrap();
    assert_eq!(read(&store, 1), data);
    assert_eq!(files(root.path(), "finalized").len(), 2);
    assert!(files(root.path(), "tmp").is_empty());
    drop(store);
    let store = open(root.path());
    assert_eq!(store.replicas()[0].stamp, NEXT);
    assert_eq!(read(&store, 1), data);
    // A recovery that finds it complete gives it a new stamp.
    put(&store, 2, &data[..700]);
    store.begin_recovery(BlockId(2), NEXT).unwrap().replica().unwrap();
    store.update(BlockId(2), NEXT, 700).unwrap();
    assert_eq!(read(&store, 2), &data[..700]);
    drop(store);
    assert_eq!(open(root.path()).replicas()[1].stamp, NEXT);
}

#[test]
fn what_a_writer_leaves_is_unfinished_in_files() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    drop(begin(&store, 1, &sample(700)));
    let left = store.replicas()[0];
    assert_eq!((left.length, left.state), (700, State::Unfinished));
    assert_eq!(files(root.path(), "rbw").len(), 2);
    assert!(files(root.path(), SMALL).is_empty());
    drop(store);
    assert_eq!(open(root.path()).replicas()[0].length, 700);
}

#[test]
fn those_that_nobody_waits_for_are_finalized_together() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for block in 1..=50 {
        begin(&store, block, &sample(100)).finalize_behind();
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while store.replicas().iter().any(|replica| !replica.is_finalized()) {
        assert!(Instant::now() < deadline, "{:?}", store.replicas());
        std::thread::yield_now();
    }
    assert_eq!(store.replica_count(), 50);
}

#[test]
fn deleted_ones_stay_away_and_give_back_their_space() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for block in 1..=10 {
        put(&store, block, &sample(4000));
    }
    drop(store);
    let store = open(root.path());
    (1..=8).for_each(|block| store.delete(BlockId(block), STAMP));
    drop(store);
    let store = open(root.path());
    assert_eq!(blocks(&store), [9, 10]);
    let old = files(root.path(), SMALL);
    store.empty_trash(NEVER);
    let new = files(root.path(), SMALL);
    assert!(old.len() == 1 && new.len() == 1 && old != new, "{old:?} {new:?}");
    assert!(fs::metadata(&new[0]).unwrap().len() < 10_000);
    for block in [9, 10] {
        assert_eq!(read(&store, block), sample(4000));
    }
    drop(store);
    let store = open(root.path());
    assert_eq!(blocks(&store), [9, 10]);
    [9, 10].into_iter().for_each(|block| store.delete(BlockId(block), STAMP));
    store.empty_trash(NEVER);
    assert!(files(root.path(), SMALL).is_empty());
}

#[test]
fn what_many_starts_have_left_becomes_one_file() {
    let root = tempfile::tempdir().unwrap();
    for block in 1..=6 {
        let store = open(root.path());
        put(&store, block, &sample(1000 + block as usize));
    }
    let store = open(root.path());
    assert_eq!(files(root.path(), SMALL).len(), 6);
    for _ in 0..10 {
        store.compacted.lock().take();
        store.empty_trash(NEVER);
    }
    assert_eq!(files(root.path(), SMALL).len(), 1);
    for block in 1..=6 {
        assert_eq!(read(&store, block), sample(1000 + block as usize));
    }
    drop(store);
    let store = open(root.path());
    assert_eq!(blocks(&store), (1..=6).collect::<Vec<_>>());
    // Nothing is gained by moving that one.
    let one = files(root.path(), SMALL);
    store.empty_trash(NEVER);
    assert_eq!(files(root.path(), SMALL), one);
}

#[test]
fn damage_to_one_takes_no_other() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for block in 1..=5 {
        put(&store, block, &sample(1000));
    }
    drop(store);
    let path = files(root.path(), SMALL).remove(0);
    let pristine = fs::read(&path).unwrap();
    let flip = |at: usize| {
        let mut bytes = pristine.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
    };
    let record = |number: usize| 512 + number * 1536;
    // The header of the segment: its records name it, too.
    flip(9);
    assert_eq!(blocks(&open(root.path())), [1, 2, 3, 4, 5]);
    // The header of a record.
    flip(record(2) + 25);
    assert_eq!(blocks(&open(root.path())), [1, 2, 4, 5]);
    // The data of one that a sync has covered: the reader finds it, as in a file.
    flip(record(1) + 500);
    let store = open(root.path());
    assert_eq!(blocks(&store), [1, 2, 3, 4, 5]);
    let opened = store.open_any(BlockId(2)).unwrap();
    let verified = verify_range(BlockId(2), &opened.block, &opened.meta, 0, 1000, |_| ());
    assert!(matches!(verified, Err(StoreError::Corrupt { .. })));
    drop((store, opened));
    // The data of the last one, of which nothing says that it was on disk.
    flip(record(4) + 500);
    assert_eq!(blocks(&open(root.path())), [1, 2, 3, 4]);
    // A segment that ends anywhere has what is whole.
    for end in (0..pristine.len()).step_by(97) {
        fs::write(&path, &pristine[..end]).unwrap();
        let whole = (0..5).filter(|number| record(*number) + 64 + 56 + 1000 <= end).count();
        assert_eq!(open(root.path()).replica_count(), whole, "cut at {end}");
        for stranger in files(root.path(), "quarantine") {
            fs::remove_file(stranger).unwrap();
        }
    }
}

#[test]
fn a_damaged_one_is_replaced_by_a_copy() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, 1, &sample(1000));
    let path = files(root.path(), SMALL).remove(0);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"damage", 512 + 64 + 56).unwrap();
    let mut copy = store.write(BlockId(1), STAMP, Intent::Copy, None).unwrap();
    copy.write(packet(0, &sample(1000))).unwrap();
    copy.finalize().unwrap();
    assert_eq!(read(&store, 1), sample(1000));
    drop(store);
    let store = open(root.path());
    assert_eq!(read(&store, 1), sample(1000));
    assert_eq!(store.replica_count(), 1);
}

#[test]
fn a_segment_that_somebody_removes_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, 1, &sample(1000));
    drop(store);
    let store = open(root.path());
    put(&store, 2, &sample(1000));
    fs::remove_file(files(root.path(), SMALL).remove(0)).unwrap();
    assert_eq!(store.compare_with_disks(NEVER).lost, 1);
    assert_eq!(blocks(&store), [2]);
}

fn replace_by_a_copy(path: &Path) {
    let copy = path.with_extension("copy");
    fs::copy(path, &copy).unwrap();
    fs::rename(copy, path).unwrap();
}

#[test]
fn nothing_is_acknowledged_in_a_segment_that_somebody_removes() {
    let move_away =
        |path: &Path| fs::rename(path, path.ancestors().nth(3).unwrap().join("x")).unwrap();
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let ways: [&dyn Fn(&Path); 3] = [&remove, &move_away, &replace_by_a_copy];
    for away in ways {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        put(&store, 1, &sample(1000));
        drop(store.changes().pending().take());
        away(&files(root.path(), SMALL).remove(0));
        put(&store, 2, &sample(1000));
        // A group, one that nobody waits for, and one that needs no sync.
        let writers = (3..=6).map(|block| begin(&store, block, &sample(700)));
        let outcomes = ReplicaWriter::finalize_all(writers.collect::<Vec<_>>());
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        away(&files(root.path(), SMALL).pop().unwrap());
        let third = files(root.path(), SMALL).len();
        begin(&store, 7, &sample(300)).finalize_unsynced().unwrap();
        assert_eq!(files(root.path(), SMALL).len(), third + 1);
        let told = store.changes().pending().take().unwrap();
        let deleted: Vec<u64> = told.deleted.iter().map(|block| block.0).collect();
        assert_eq!(deleted, (1..=6).collect::<Vec<_>>(), "what was in them before is given up");
        assert_eq!(blocks(&store), [7]);
        put(&store, 8, &sample(100));
        assert_eq!(files(root.path(), SMALL).len(), third + 1, "one is made for all");
        // As a kill ends it: what is acknowledged is what a start finds.
        drop(store);
        let store = open(root.path());
        for (block, size) in [(7, 300), (8, 100)] {
            assert_eq!(read(&store, block), sample(size));
        }
    }
}

#[test]
fn a_copy_that_a_compaction_made_into_a_removed_segment_is_not_used() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    (1..=10).for_each(|block| put(&store, block, &sample(4000)));
    drop(store);
    let store = open(root.path());
    (1..=8).for_each(|block| store.delete(BlockId(block), STAMP));
    put(&store, 11, &sample(10));
    fs::remove_file(files(root.path(), SMALL).pop().unwrap()).unwrap();
    store.empty_trash(NEVER);
    drop(store);
    let store = open(root.path());
    assert_eq!(blocks(&store), [9, 10]);
    [9, 10].into_iter().for_each(|block| assert_eq!(read(&store, block), sample(4000)));
}

#[test]
fn a_removed_folder_of_segments_takes_its_disk_out_of_service_until_it_is_read_anew() {
    let root = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&[config(root.path(), 4096)], 1 << 20, Some(1)).unwrap());
    put(&store, 1, &sample(1000));
    fs::remove_dir_all(root.path().join("volume").join(SMALL)).unwrap();
    let refused = begin(&store, 2, &sample(1000)).finalize();
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(store.failed_volumes().len(), 1);
    store.check_volumes();
    assert!(store.failed_volumes().is_empty());
    put(&store, 3, &sample(1000));
    drop(store);
    assert_eq!(blocks(&open(root.path())), [3]);
}

#[test]
fn a_directory_of_the_layout_before_is_taken_over_and_kept_where_nothing_is_small() {
    let root = tempfile::tempdir().unwrap();
    let version = || fs::read_to_string(root.path().join("volume/VERSION")).unwrap();
    let store = Arc::new(Store::open(&[config(root.path(), 0)], 1 << 20, None).unwrap());
    put(&store, 1, &sample(1000));
    assert!(version().starts_with("layout 1\n"));
    assert_eq!(files(root.path(), "finalized").len(), 2);
    drop(store);
    let store = open(root.path());
    put(&store, 2, &sample(1000));
    assert!(version().starts_with("layout 2\n"));
    drop(store);
    let store = Arc::new(Store::open(&[config(root.path(), 0)], 1 << 20, None).unwrap());
    assert!(version().starts_with("layout 2\n"));
    assert_eq!(blocks(&store), [1, 2]);
    assert_eq!(read(&store, 2), sample(1000));
}

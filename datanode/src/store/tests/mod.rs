//! The store on real directories: the state a restart finds after every way of ending.

mod bad;
mod begin;
mod compare;
mod deletions;
mod failures;
mod power;
mod repeated;
mod simulation;
mod small;
mod tail;
mod unreadable;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use protocol::meta;
use protocol::transfer::{ReplicaSummary, Resume};
use transport::{PacketPool, PooledPacket};

use super::*;
use crate::core::replica::{Intent, Refusal};

pub(super) const STAMP: GenerationStamp = GenerationStamp(1001);

fn volume(path: PathBuf) -> VolumeConfig {
    let (reserved_bytes, trash_grace) = (Some(0), Duration::ZERO);
    VolumeConfig { path, reserved_bytes, trash_grace, bypass_cache: true, small_bytes_max: 0 }
}

pub(super) fn open(root: &Path) -> Arc<Store> {
    Arc::new(Store::open(&[volume(root.join("volume"))], 1 << 20, None).unwrap())
}

#[test]
fn a_directory_that_goes_away_is_fenced_and_comes_back_with_what_it_held() {
    let root = tempfile::tempdir().unwrap();
    let config = |name: &str| volume(root.path().join(name));
    let configs = [config("a"), config("b")];
    let store = Arc::new(Store::open(&configs, 1 << 20, None).unwrap());
    let data = sample(3000);
    for block in 1..=6 {
        let mut writer = store.write(BlockId(block), STAMP, Intent::Create, None).unwrap();
        writer.write(packet(0, &data)).unwrap();
        writer.finalize().unwrap();
    }
    store.check_volumes();
    assert_eq!((store.failed_volumes().len(), store.replicas().len()), (0, 6));
    let (away, aside) = (root.path().join("b"), root.path().join("aside"));
    fs::rename(&away, &aside).unwrap();
    let half = store.write(BlockId(7), STAMP, Intent::Create, None).unwrap();
    store.check_volumes();
    assert_eq!(store.failed_volumes(), [away.display().to_string()]);
    assert!(!store.is_lost());
    drop(half);
    assert_eq!(store.replicas().len(), 3);
    // Data written now goes to the other volume, and the directory is not created again.
    for block in 8..=9 {
        store.write(BlockId(block), STAMP, Intent::Create, None).unwrap().finalize().unwrap();
    }
    store.check_volumes();
    assert!(!away.try_exists().unwrap());
    fs::rename(&aside, &away).unwrap();
    store.check_volumes();
    assert!(store.failed_volumes().is_empty());
    for block in 1..=6 {
        check(&store, block, STAMP, &data, State::Finalized);
    }
    // An empty disk in its place is accepted as well; what it held is gone.
    fs::rename(&away, &aside).unwrap();
    store.check_volumes();
    fs::create_dir(&away).unwrap();
    store.check_volumes();
    assert!(store.failed_volumes().is_empty());
    assert_eq!(store.replicas().len(), 5);
    drop(store);
    Store::open(&configs, 1 << 20, None).unwrap();
}

#[test]
fn a_writer_whose_volume_was_given_up_says_so_and_leaves_its_successor_alone() {
    let root = tempfile::tempdir().unwrap();
    let config = |name: &str| volume(root.path().join(name));
    let store = Arc::new(Store::open(&[config("a"), config("b")], 1 << 20, None).unwrap());
    let data = sample(3000);
    let lost = |result: Result<(), StoreError>| matches!(result, Err(StoreError::NotFound(_)));
    let [mut empty, mut some, done] = [1, 2, 3].map(|number| {
        let at = BlockId(number);
        // The first volume is chosen each time.
        store.next_volume.store(0, Ordering::Relaxed);
        store.write(at, STAMP, Intent::Create, None).unwrap()
    });
    some.write(packet(0, &data[..1024])).unwrap();
    store.fence(0, &std::io::Error::other("gone"));
    assert_eq!(store.replica_count(), 0);
    let successors = [1, 2].map(|number| {
        let mut writer = store.write(BlockId(number), STAMP, Intent::Create, None).unwrap();
        writer.write(packet(0, &data)).unwrap();
        writer
    });
    assert!(lost(empty.sync_entry()) && lost(some.write(packet(1024, &data[1024..]))));
    assert!(lost(done.finalize_unsynced()));
    drop((empty, some));
    successors.into_iter().for_each(|writer| writer.finalize().unwrap());
    for number in [1, 2] {
        check(&store, number, STAMP, &data, State::Finalized);
    }
    assert_eq!(store.replica_count(), 2);
}

#[test]
fn as_many_directories_may_fail_as_are_tolerated() {
    let root = tempfile::tempdir().unwrap();
    let config = |name: &str| volume(root.path().join(name));
    // A file where the directory should be: this is what a broken disk looks like.
    fs::write(root.path().join("b"), "").unwrap();
    let configs = [config("a"), config("b")];
    assert!(Store::open(&configs, 1 << 20, Some(0)).is_err());
    let store = Store::open(&configs, 1 << 20, Some(1)).unwrap();
    assert_eq!(store.failed_volumes().len(), 1);
    fs::remove_dir_all(root.path().join("a")).unwrap();
    store.check_volumes();
    assert!(store.is_lost());
}

pub(super) fn packet(offset: u64, data: &[u8]) -> PooledPacket {
    let mut packet = PacketPool::default().take();
    packet.header.offset = offset;
    packet.append(data, data.len().max(1));
    packet.seal();
    packet
}

pub(super) fn sample(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 % 251) as u8).collect()
}

fn check(store: &Store, block: u64, stamp: GenerationStamp, data: &[u8], state: State) {
    let opened = store.open_any(BlockId(block)).unwrap();
    let length = data.len() as u64;
    assert_eq!(opened.replica, Replica { block: BlockId(block), stamp, length, state });
    verify_range(BlockId(block), &opened.block, &opened.meta, 0, length, |_| ()).unwrap();
    let mut found = vec![0; data.len()];
    opened.block.read_exact_at(&mut found, 0).unwrap();
    assert!(found == data);
}

#[test]
fn finalized_unfinished_and_damaged_replicas_after_a_restart() {
    let root = tempfile::tempdir().unwrap();
    let data = sample(5000);
    {
        let store = open(root.path());
        for block in 1..=4 {
            let mut writer = store.write(BlockId(block), STAMP, Intent::Create, None).unwrap();
            writer.write(packet(0, &data)).unwrap();
            if block == 1 {
                writer.finalize().unwrap();
            }
        }
        check(&store, 1, STAMP, &data, State::Finalized);
        check(&store, 2, STAMP, &data, State::Unfinished);
    }
    let rbw = root.path().join("volume/rbw");
    // A bit of block 3 is flipped in its sixth chunk; the checksums of block 4 end after three.
    let mut bytes = data.clone();
    bytes[2700] ^= 1;
    fs::write(rbw.join("blk_3_1001"), &bytes).unwrap();
    let meta_file = fs::OpenOptions::new().write(true).open(rbw.join("blk_4_1001.meta")).unwrap();
    meta_file.set_len(meta::HEADER_BYTES as u64 + 3 * 4 + 2).unwrap();
    let store = open(root.path());
    check(&store, 1, STAMP, &data, State::Finalized);
    check(&store, 2, STAMP, &data, State::Unfinished);
    check(&store, 3, STAMP, &data[..2560], State::Unfinished);
    check(&store, 4, STAMP, &data[..1536], State::Unfinished);
}

#[test]
fn a_finalize_cut_between_its_renames_is_completed() {
    let root = tempfile::tempdir().unwrap();
    let data = sample(700);
    {
        let store = open(root.path());
        let mut writer = store.write(BlockId(256), STAMP, Intent::Create, None).unwrap();
        writer.write(packet(0, &data)).unwrap();
    }
    let volume = root.path().join("volume");
    fs::create_dir(volume.join("finalized/01")).unwrap();
    let name = "blk_256_1001.meta";
    fs::rename(volume.join("rbw").join(name), volume.join("finalized/01").join(name)).unwrap();
    check(&open(root.path()), 256, STAMP, &data, State::Finalized);
}

#[test]
fn a_writer_that_was_cut_between_its_renames_has_lost_nothing() {
    for from in ["rbw", "finalized/01"] {
        let root = tempfile::tempdir().unwrap();
        let data = sample(700);
        {
            let store = open(root.path());
            let mut writer = store.write(BlockId(256), STAMP, Intent::Create, None).unwrap();
            writer.write(packet(0, &data)).unwrap();
            if from != "rbw" {
                writer.finalize().unwrap();
            }
        }
        let volume = root.path().join("volume");
        let meta_file = volume.join(from).join("blk_256_1001.meta");
        fs::rename(meta_file, volume.join("rbw/blk_256_1002.meta")).unwrap();
        check(&open(root.path()), 256, GenerationStamp(1002), &data, State::Unfinished);
        assert_eq!(fs::read_dir(volume.join("quarantine")).unwrap().count(), 0);
    }
}

#[test]
fn a_resume_cuts_within_a_chunk_and_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let (block, newer) = (BlockId(7), GenerationStamp(1002));
    let data = sample(3000);
    let mut writer = store.write(block, STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, &data)).unwrap();
    assert!(matches!(writer.write(packet(3072, &data)), Err(StoreError::Gap { .. })));
    drop(writer);
    let resume = Intent::Resume(Resume { prior: STAMP, offset: 1300, after_break: false });
    let mut writer = store.write(block, newer, resume, None).unwrap();
    assert_eq!(writer.length(), 1300);
    writer.write(packet(1024, &data[1024..2000])).unwrap();
    assert!(matches!(
        store.write(block, newer, Intent::Create, None),
        Err(StoreError::Refused { refusal: Refusal::Exists, .. })
    ));
    writer.finalize().unwrap();
    check(&store, 7, newer, &data[..2000], State::Finalized);
    drop(store);
    check(&open(root.path()), 7, newer, &data[..2000], State::Finalized);
}

#[test]
fn readers_see_what_all_members_have_while_a_writer_is_there_and_after_it() {
    let root = tempfile::tempdir().unwrap();
    let data = sample(3000);
    {
        let store = open(root.path());
        let visible = || store.open_at_least(BlockId(1), STAMP).unwrap().replica.length;
        let mut writer = store.write(BlockId(1), STAMP, Intent::Create, None).unwrap();
        writer.write(packet(0, &data)).unwrap();
        assert_eq!(visible(), 0);
        writer.note_acked(1024);
        assert_eq!(visible(), 1024);
        drop(writer);
        assert_eq!(visible(), 1024, "a broken pipeline takes back nothing and adds nothing");
        let resume = Intent::Resume(Resume { prior: STAMP, offset: 1024, after_break: false });
        let mut writer = store.write(BlockId(1), GenerationStamp(1002), resume, None).unwrap();
        writer.write(packet(1024, &data[1024..])).unwrap();
        assert_eq!(visible(), 1024);
        writer.note_acked(3000);
        drop(writer);
        assert_eq!(visible(), 3000);
    }
    let store = open(root.path());
    let unfinished = store.open_at_least(BlockId(1), STAMP).unwrap().replica;
    assert_eq!((unfinished.length, unfinished.state), (3000, State::Unfinished));
}

#[test]
fn the_checksum_of_a_last_chunk_is_not_trusted_where_more_than_readers_see_is_in_it() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let block = BlockId(1);
    let tail = || {
        let opened = store.open_at_least(block, STAMP).unwrap();
        (opened.replica.length, opened.replica.state, opened.is_tail_open)
    };
    let mut writer = store.write(block, STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, &sample(3000))).unwrap();
    writer.note_acked(700);
    assert_eq!(tail(), (700, State::Receiving, true));
    drop(writer);
    assert_eq!(tail(), (700, State::Unfinished, true));
    let resume = Intent::Resume(Resume { prior: STAMP, offset: 700, after_break: false });
    let mut writer = store.write(block, STAMP, resume, None).unwrap();
    writer.write(packet(512, &sample(3000)[512..])).unwrap();
    // As in a finalize that waits for the disk.
    let volume = &store.volumes[0];
    let receiving = store.find(block, |_| true).unwrap().0;
    let (from, to) = (volume.paths(&receiving), volume.finalized_paths(block, STAMP));
    store.volumes[0].finalized_folder(block).unwrap();
    from.rename(&to).unwrap();
    store.replicas.lock().get_mut(&block).unwrap().replica.state = State::Finalizing;
    assert_eq!(tail(), (700, State::Finalizing, true));
    to.rename(&from).unwrap();
    writer.finalize().unwrap();
    assert_eq!(tail(), (3000, State::Finalized, false));
}

/// Readers were promised more than what has come so far, and a recovery would believe that its writer went no further.
#[test]
fn a_prefix_counts_only_when_all_of_it_is_there() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let (block, data) = (BlockId(256), sample(3000));
    let next = GenerationStamp(STAMP.0 + 1);
    let mut old = store.write(block, STAMP, Intent::Create, None).unwrap();
    old.write(packet(0, &data[..700])).unwrap();
    old.finalize().unwrap();
    let found = || store.open_any(block).unwrap().replica;
    let seen = || store.open_at_least(block, next).map(|opened| opened.replica.length);
    let is_absent = || assert!(matches!(seen(), Err(StoreError::NotFound(_))));
    for is_broken in [true, false] {
        let mut prefix = store.write(block, next, Intent::Prefix, None).unwrap();
        prefix.write(packet(0, &data[..1024])).unwrap();
        prefix.note_acked(1024);
        is_absent();
        assert_eq!((found().stamp, found().length), (STAMP, 700));
        if is_broken {
            drop(prefix);
            is_absent();
            assert_eq!(found().state, State::Finalized);
            continue;
        }
        prefix.write(packet(1024, &data[1024..])).unwrap();
        is_absent();
        prefix.leave().unwrap();
    }
    assert_eq!(seen().unwrap(), 3000);
    assert_eq!((found().stamp, found().state), (next, State::Unfinished));
    assert_eq!(store.changes().pending().take().unwrap().unfinished.len(), 1);
    // A start finds it, and one that was cut between its two files.
    drop(store);
    let volume = root.path().join("volume");
    for is_cut in [false, true] {
        if is_cut {
            let name = format!("blk_256_{}", next.0);
            fs::rename(volume.join("rbw").join(&name), volume.join("tmp").join(&name)).unwrap();
        }
        let store = open(root.path());
        let left = store.open_any(block).unwrap().replica;
        assert_eq!((left.stamp, left.length, left.state), (next, 3000, State::Unfinished));
    }
}

#[test]
fn a_damaged_replica_is_read_until_a_good_one_takes_its_place() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let (block, data) = (BlockId(256), sample(3000));
    let mut writer = store.write(block, STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, &data)).unwrap();
    writer.finalize().unwrap();
    let refused = store.write(block, STAMP, Intent::Create, None);
    assert!(matches!(refused, Err(StoreError::Refused { refusal: Refusal::Exists, .. })));

    let mut damaged = data.clone();
    damaged[1000] ^= 1;
    fs::write(root.path().join("volume/finalized/01/blk_256_1001"), &damaged).unwrap();
    let read = || {
        let replica = store.open_replica(block, STAMP).unwrap();
        let mut found = vec![0; replica.replica.length as usize];
        replica.block.read_exact_at(&mut found, 0).unwrap();
        (replica.replica.state, found)
    };
    let is_damaged = || assert_eq!(read(), (State::Finalized, damaged.clone()));
    {
        let mut writer = store.write(block, STAMP, Intent::Copy, None).unwrap();
        is_damaged();
        writer.write(packet(0, &data[..1024])).unwrap();
        is_damaged();
        let second = store.write(block, STAMP, Intent::Copy, None);
        assert!(matches!(second, Err(StoreError::Refused { refusal: Refusal::Exists, .. })));
    }
    is_damaged();
    let mut writer = store.write(block, STAMP, Intent::Copy, None).unwrap();
    writer.write(packet(0, &data)).unwrap();
    is_damaged();
    writer.finalize().unwrap();
    check(&store, 256, STAMP, &data, State::Finalized);
}

#[test]
fn a_recovery_cuts_restamps_and_finalizes_once() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let (block, newer) = (BlockId(9), GenerationStamp(1005));
    let data = sample(2000);
    let mut writer = store.write(block, STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, &data)).unwrap();
    drop(writer);
    let summary = store.begin_recovery(block, newer).unwrap().replica().unwrap();
    assert_eq!(summary, ReplicaSummary { stamp: STAMP, length: 2000, finalized: false });
    assert!(store.write(block, newer, Intent::Create, None).is_err(), "the recovery has it");
    store.update(block, newer, 1999).unwrap();
    store.update(block, newer, 1999).unwrap();
    assert!(store.update(block, newer, 1998).is_err());
    check(&store, 9, newer, &data[..1999], State::Finalized);
    let nothing = Found::Nothing { since: None };
    assert_eq!(store.begin_recovery(BlockId(10), newer).unwrap(), nothing);
}

#[test]
fn deletion_spares_newer_stamps_and_empties_the_trash() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let mut writer = store.write(BlockId(3), STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, &sample(10))).unwrap();
    writer.finalize().unwrap();
    store.delete(BlockId(3), GenerationStamp(1000));
    check(&store, 3, STAMP, &sample(10), State::Finalized);
    store.delete(BlockId(3), STAMP);
    assert!(matches!(store.open_any(BlockId(3)), Err(StoreError::NotFound(_))));
    store.delete(BlockId(3), STAMP);
    let trash = root.path().join("volume/trash");
    assert_eq!(fs::read_dir(&trash).unwrap().count(), 2);
    let looks = Cell::new(0);
    store.empty_trash(&|| looks.replace(looks.get() + 1) == 1);
    assert_eq!(fs::read_dir(&trash).unwrap().count(), 1, "it ends between two files");
    store.empty_trash(&|| false);
    assert_eq!(fs::read_dir(&trash).unwrap().count(), 0);
}

#[test]
fn a_writer_that_ends_with_large_packets_on_their_way_leaves_all_of_them() {
    let root = tempfile::tempdir().unwrap();
    let data = sample((3 << 20) + 100);
    let store = open(root.path());
    for block in [1, 2] {
        let mut writer = store.write(BlockId(block), STAMP, Intent::Create, None).unwrap();
        writer.bypass_cache();
        for (number, chunk) in data.chunks(1 << 20).enumerate() {
            writer.write(packet((number << 20) as u64, chunk)).unwrap();
        }
        assert_eq!(writer.length(), data.len() as u64);
        assert_eq!(writer.in_flight().unwrap(), 0, "the small packet came after the large ones");
        writer.write(packet(data.len() as u64 - 100, &data[..1 << 20])).unwrap();
        match block {
            1 => drop(writer),
            _ => writer.finalize_unsynced().unwrap(),
        }
    }
    let whole = [&data[..3 << 20], &data[..1 << 20]].concat();
    check(&store, 1, STAMP, &whole, State::Unfinished);
    check(&store, 2, STAMP, &whole, State::Finalized);
    drop(store);
    let store = open(root.path());
    check(&store, 1, STAMP, &whole, State::Unfinished);
    check(&store, 2, STAMP, &whole, State::Finalized);
}

/// Rewrites a meta file in the format of the first version.
fn to_first_version(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let preamble = *b"hnmt\x01\x00\x01\x00\x00\x02\x00\x00";
    let crc = crc32fast::hash(&preamble).to_le_bytes();
    fs::write(path, [&preamble[..], &crc, &bytes[meta::HEADER_BYTES..]].concat()).unwrap();
}

#[test]
fn meta_files_of_the_first_version_are_read_and_renewed_by_who_writes() {
    let root = tempfile::tempdir().unwrap();
    let data = sample(3000);
    {
        let store = open(root.path());
        for block in [1, 2] {
            let mut writer = store.write(BlockId(block), STAMP, Intent::Create, None).unwrap();
            writer.write(packet(0, &data[..1300])).unwrap();
            if block == 1 {
                writer.finalize().unwrap();
            }
        }
    }
    let volume = root.path().join("volume");
    to_first_version(&volume.join("finalized/00/blk_1_1001.meta"));
    to_first_version(&volume.join("rbw/blk_2_1001.meta"));
    let store = open(root.path());
    check(&store, 1, STAMP, &data[..1300], State::Finalized);
    check(&store, 2, STAMP, &data[..1300], State::Unfinished);
    let newer = GenerationStamp(1002);
    for block in [1, 2] {
        let resume = Intent::Resume(Resume { prior: STAMP, offset: 1300, after_break: false });
        let mut writer = store.write(BlockId(block), newer, resume, None).unwrap();
        writer.write(packet(1024, &data[1024..])).unwrap();
        writer.finalize().unwrap();
        check(&store, block, newer, &data, State::Finalized);
        let meta_file = volume.join(format!("finalized/00/blk_{block}_1002.meta"));
        let bytes = fs::read(meta_file).unwrap();
        assert_eq!(meta::check_header(&bytes), Ok(meta::Layout::CURRENT));
        assert_eq!(bytes.len() as u64, meta::Layout::CURRENT.file_bytes(3000));
    }
    drop(store);
    check(&open(root.path()), 1, newer, &data, State::Finalized);
}

//! The last chunk of a replica that is being written: readers get its bytes as they were written, or none.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use protocol::meta::Layout;
use protocol::token::{AccessMode, Holder, TokenName};
use protocol::transfer::{Read, Resume};
use transport::PacketPool;

use super::{STAMP, open, packet, sample};
use crate::core::replica::Intent;
use crate::scanner;
use crate::store::*;
use crate::transfer::Serving;

const BLOCK: BlockId = BlockId(1);
const NEXT: GenerationStamp = GenerationStamp(STAMP.0 + 1);

const TOKEN: TokenName =
    TokenName { mode: AccessMode::Read, period: 0, expires_ms: 0, holder: Holder::CLUSTER };

/// What a reader gets of the first packet, after comparing it with its checksums.
fn read(store: &Store, stamp: GenerationStamp, offset: u64) -> Result<Vec<u8>, StoreError> {
    let read = Read { block: BLOCK, stamp, token: TOKEN, offset, length: u64::MAX };
    let mut serving = Serving::begin(store, &read)?;
    let mut packet = PacketPool::default().take();
    serving.next_packet(&mut packet)?;
    let offset = packet.header.offset;
    packet
        .verify()
        .map_err(|error| StoreError::Corrupt { block: BLOCK, offset: offset + error.offset })?;
    Ok(packet.data().to_vec())
}

fn is_corrupt_at<T>(read: &Result<T, StoreError>, at: u64) -> bool {
    matches!(read, Err(StoreError::Corrupt { offset, .. }) if *offset == at)
}

/// A replica of which readers may see `visible` bytes of `written`, in packets that end there.
fn written(written: &[usize], visible: usize) -> (tempfile::TempDir, Arc<Store>, ReplicaWriter) {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let mut writer = store.write(BLOCK, STAMP, Intent::Create, None).unwrap();
    let data = sample(*written.last().unwrap());
    let mut begin = 0;
    for end in written {
        writer.write(packet(begin as u64, &data[begin..*end])).unwrap();
        begin = end / 512 * 512;
    }
    writer.note_acked(visible as u64);
    (root, store, writer)
}

fn paths(store: &Store) -> [PathBuf; 2] {
    let replica = store.replicas()[0];
    let paths = store.volumes[0].paths(&replica);
    [paths.block, paths.meta]
}

fn flip(path: &std::path::Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_in_the_open_chunk_is_an_error_and_is_reported_once_the_replica_is_complete() {
    for (ends, visible) in [(&[100][..], 100), (&[100, 200], 200), (&[600], 600), (&[600], 550)] {
        let (_root, store, writer) = written(ends, visible);
        let begin = visible / 512 * 512;
        assert_eq!(read(&store, STAMP, 0).unwrap(), sample(visible));
        flip(&paths(&store)[0], begin + 5);
        let (all, last) = (read(&store, STAMP, 0), read(&store, STAMP, visible as u64 - 1));
        assert!(is_corrupt_at(&all, begin as u64), "{ends:?} {visible}: {all:?}");
        assert!(is_corrupt_at(&last, begin as u64), "{ends:?} {visible}: {last:?}");
        assert_eq!(store.pop_suspect(), None);
        writer.finalize().unwrap();
        drop(store.changes().pending().take());
        assert_eq!(store.pop_suspect(), Some(BLOCK));
        scanner::scan(&store, BLOCK, |_| ());
        let told = store.changes().pending().take().unwrap();
        assert_eq!(told.bad.len(), 1, "{told:?}");
    }
}

#[test]
fn a_flipped_bit_in_the_last_chunk_of_what_is_appended_to_is_an_error() {
    let (_root, store, writer) = written(&[700], 700);
    writer.finalize().unwrap();
    let resume = Intent::Resume(Resume { prior: STAMP, offset: 700, after_break: false });
    let mut writer = store.write(BLOCK, NEXT, resume, None).unwrap();
    assert_eq!(read(&store, STAMP, 0).unwrap(), sample(700));
    flip(&paths(&store)[0], 600);
    assert!(is_corrupt_at(&read(&store, STAMP, 0), 512));
    flip(&paths(&store)[0], 600);
    writer.write(packet(512, &sample(900)[512..])).unwrap();
    assert_eq!(read(&store, STAMP, 0).unwrap(), sample(700), "the others have no more");
    writer.note_acked(900);
    assert_eq!(read(&store, STAMP, 0).unwrap(), sample(900));
    flip(&paths(&store)[0], 800);
    assert!(is_corrupt_at(&read(&store, STAMP, 0), 512));
    drop(writer);
}

/// Chunks that are complete go as they are: it is for the reader to compare them.
#[test]
fn damage_elsewhere_is_for_the_reader() {
    let (_root, store, _writer) = written(&[600], 600);
    flip(&paths(&store)[0], 5);
    assert!(is_corrupt_at(&read(&store, STAMP, 0), 0));
    assert_eq!(read(&store, STAMP, 512).unwrap(), sample(600)[512..]);
}

/// As between the steps of a writer: bytes that have no checksum yet, and a checksum that is damaged while a tail is good.
#[test]
fn what_proves_the_bytes_may_be_older_or_elsewhere() {
    let (_root, store, _writer) = written(&[100], 100);
    let [block, meta] = paths(&store);
    let mut longer = sample(100);
    longer.extend([7; 300]);
    std::fs::write(&block, &longer).unwrap();
    assert_eq!(read(&store, STAMP, 0).unwrap(), sample(100));
    flip(&meta, Layout::CURRENT.crc_position(0) as usize);
    assert_eq!(read(&store, STAMP, 0).unwrap(), sample(100), "the tail of the packet");
    flip(&block, 99);
    assert!(is_corrupt_at(&read(&store, STAMP, 0), 0));
}

#[test]
fn readers_beside_a_writer_get_what_was_written() {
    let (_root, store, mut writer) = written(&[1], 1);
    let data = sample(12_000);
    let (is_over, begun) = (AtomicBool::new(false), std::sync::Barrier::new(3));
    std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| {
            scope.spawn(|| {
                begun.wait();
                loop {
                    let found = read(&store, STAMP, 0).unwrap();
                    assert!(!found.is_empty() && data.starts_with(&found), "{}", found.len());
                    if is_over.load(Ordering::Acquire) {
                        break;
                    }
                }
            })
        });
        begun.wait();
        for end in (2..=data.len()).step_by(7) {
            let begin = (end - 1) / 512 * 512;
            // From the chunk in which the packet before ended.
            let begin = begin.min((end.saturating_sub(7)) / 512 * 512);
            writer.write(packet(begin as u64, &data[begin..end])).unwrap();
            writer.note_acked(end as u64);
        }
        is_over.store(true, Ordering::Release);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    writer.finalize().unwrap();
    assert_eq!(store.pop_suspect(), None, "nothing seemed damaged");
}

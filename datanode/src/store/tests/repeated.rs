//! Writers that repeat what is complete: its bytes stay as they are, whatever their packets say.

use protocol::checksum::CHUNK_BYTES;
use protocol::transfer::Resume;

use super::{STAMP, check, open, packet, sample};
use crate::core::replica::{Intent, Refusal};
use crate::store::*;

const BLOCK: BlockId = BlockId(1);
const NEXT: GenerationStamp = GenerationStamp(STAMP.0 + 1);
const LATER: GenerationStamp = GenerationStamp(STAMP.0 + 2);

/// A store of a block that is complete with these bytes.
fn complete(data: &[u8]) -> (tempfile::TempDir, Arc<Store>) {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let mut writer = store.write(BLOCK, STAMP, Intent::Create, None).unwrap();
    writer.write(packet(0, data)).unwrap();
    writer.finalize().unwrap();
    (root, store)
}

fn resume(
    store: &Arc<Store>,
    (stamp, prior): (GenerationStamp, GenerationStamp),
    (offset, after_break): (u64, bool),
) -> Result<ReplicaWriter, StoreError> {
    store.write(BLOCK, stamp, Intent::Resume(Resume { prior, offset, after_break }), None)
}

fn differs<T: std::fmt::Debug>(written: &Result<T, StoreError>) {
    assert!(matches!(written, Err(StoreError::Differs { .. })), "{written:?}");
}

#[test]
fn an_append_repeats_the_last_chunk_and_nothing_else() {
    let data = sample(1300);
    let (_root, store) = complete(&data);
    for offset in [0, 512, 1023] {
        let refused = resume(&store, (NEXT, STAMP), (offset, false)).map(drop);
        assert!(
            matches!(
                refused,
                Err(StoreError::Refused { refusal: Refusal::Within { kept: 1300, .. }, .. })
            ),
            "{offset}: {refused:?}"
        );
    }
    let mut other = sample(2000);
    other[1299] ^= 1;
    let mut writer = resume(&store, (NEXT, STAMP), (1300, false)).unwrap();
    differs(&writer.write(packet(1024, &other[1024..])));
    drop(writer);
    let mut writer = resume(&store, (LATER, STAMP), (1300, true)).unwrap();
    writer.write(packet(1024, &sample(2000)[1024..])).unwrap();
    writer.finalize().unwrap();
    check(&store, BLOCK.0, LATER, &sample(2000), State::Finalized);
}

/// Whoever went on with a replica leaves it unfinished: its first bytes stay complete.
#[test]
fn what_was_complete_stays_so_for_those_who_come_after_a_break() {
    let data = sample(1300);
    let other: Vec<u8> = data.iter().map(|byte| byte ^ 1).collect();
    for breaks in 0..3 {
        let (_root, store) = complete(&data);
        for number in 0..breaks {
            let stamp = GenerationStamp(NEXT.0 + number);
            drop(resume(&store, (stamp, STAMP), (0, true)).unwrap());
        }
        let stamp = GenerationStamp(NEXT.0 + breaks);
        let mut writer = resume(&store, (stamp, STAMP), (0, true)).unwrap();
        assert_eq!(writer.length(), 1300);
        differs(&writer.write(packet(0, &other)));
        differs(&writer.write(packet(512, &other[512..])));
        // Equal bytes change nothing, whatever their packet ends with.
        writer.write(packet(0, &data[..100])).unwrap();
        writer.write(packet(0, &data)).unwrap();
        writer.finalize().unwrap();
        check(&store, BLOCK.0, stamp, &data, State::Finalized);
    }
}

#[test]
fn nothing_new_takes_the_place_of_what_was_complete() {
    let data = sample(2 * CHUNK_BYTES);
    let (_root, store) = complete(&data);
    let is_refused = |begun: Result<ReplicaWriter, StoreError>| {
        let begun = begun.map(drop);
        assert!(
            matches!(begun, Err(StoreError::Refused { refusal: Refusal::Exists, .. })),
            "{begun:?}"
        );
    };
    is_refused(store.write(BLOCK, NEXT, Intent::Create, None));
    is_refused(resume(&store, (LATER, NEXT), (0, true)));
    check(&store, BLOCK.0, STAMP, &data, State::Finalized);
    // Nor once somebody has begun to go on with it.
    drop(resume(&store, (NEXT, STAMP), (1024, false)).unwrap());
    is_refused(store.write(BLOCK, NEXT, Intent::Create, None));
    is_refused(resume(&store, (GenerationStamp(LATER.0 + 1), LATER), (0, true)));
    check(&store, BLOCK.0, NEXT, &data, State::Unfinished);
}

//! Deletions that the NameNode orders, again and again until it hears of them.

use super::{STAMP, open, packet, sample};
use crate::core::replica::Intent;
use crate::store::*;

fn put(store: &Arc<Store>, block: u64, intent: Intent) {
    let mut writer = store.write(BlockId(block), STAMP, intent, None).unwrap();
    writer.write(packet(0, &sample(700))).unwrap();
    writer.finalize().unwrap();
}

fn blocks(store: &Store) -> Vec<u64> {
    store.replicas().iter().map(|replica| replica.block.0).collect()
}

#[test]
fn an_order_takes_what_was_there_when_it_came_and_no_copy_that_came_meanwhile() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    (1..=3).for_each(|block| put(&store, block, Intent::Create));
    let orders = [(BlockId(1), STAMP), (BlockId(2), STAMP)];
    assert!(store.order_deletions(&orders));
    assert!(!store.order_deletions(&orders), "somebody is at it");
    // Before that one comes to it, the replica is deleted otherwise, and a copy of the same stamp comes.
    store.delete(BlockId(1), STAMP);
    put(&store, 1, Intent::Copy);
    store.delete_ordered();
    assert_eq!(blocks(&store), [1, 3]);
    // An order for that copy is carried out.
    assert!(store.order_deletions(&orders));
    store.delete_ordered();
    assert_eq!(blocks(&store), [3]);
    let told = store.changes().pending().take().unwrap();
    assert_eq!(told.deleted, [1, 2].map(BlockId));
}

#[test]
fn an_order_for_what_is_gone_is_answered_at_once_and_takes_nothing_later() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, 1, Intent::Create);
    drop(store.changes().pending().take());
    assert!(store.order_deletions(&[(BlockId(1), STAMP), (BlockId(2), STAMP)]));
    put(&store, 2, Intent::Copy);
    let told = store.changes().pending().take().unwrap();
    assert!(told.deleted.is_empty() && told.received[0].block == BlockId(2), "{told:?}");
    store.delete_ordered();
    assert_eq!(blocks(&store), [2]);
}

#[test]
fn a_damaged_replica_that_a_copy_has_replaced_is_not_deleted() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, 1, Intent::Create);
    let path = store.volumes[0].paths(&store.replicas()[0]).block;
    std::fs::write(path, &sample(701)[1..]).unwrap();
    assert!(store.order_deletions(&[(BlockId(1), STAMP)]));
    put(&store, 1, Intent::Copy);
    store.delete_ordered();
    assert_eq!(blocks(&store), [1]);
    let (start, newer) = (store.replicas()[0].stamp, GenerationStamp(STAMP.0 - 1));
    assert!(!store.order_deletions(&[(BlockId(1), newer)]), "it is newer than {start}");
}

//! What is so large that it is taken apart, or kept, in pieces; a restart may come between them.

use protocol::namenode::{Call, Reply};

use super::harness::{Harness, canonical, create, dfs, written};

#[test]
fn a_large_tree_is_deleted_in_steps_and_a_restart_in_between_goes_on() {
    let mut harness = Harness::with_nodes(1, 3);
    for number in 0..300 {
        harness.write(&format!("/big/d{}/f{number}", number % 7), 10, 3);
    }
    harness.checkpoint();
    let deleted = harness.call(Call::Delete { path: dfs("/big"), recursive: true });
    assert_eq!(deleted, Ok(Reply::Flag(true)));
    assert_eq!(harness.state.ns.inode_count(), 1, "gone at once for everybody");
    assert!(harness.state.ns.block_count() > 200, "but not yet taken apart");
    for _ in 0..10 {
        harness.state.ns.collect(20);
        harness.checkpoint();
        let mut reloaded = harness.reload();
        reloaded.ns.check().unwrap();
        while reloaded.ns.collect(50) {}
        assert_eq!(reloaded.ns.block_count(), 0);
    }
    harness.work();
    assert_eq!(harness.state.ns.block_count(), 0);
    assert!(!harness.commands.is_empty(), "replicas are deleted");
    harness.checkpoint();
    assert_eq!(harness.rows.keys().filter(|key| key[0] == b'i').count(), 1);
}

#[test]
fn a_file_with_many_blocks_spans_rows() {
    let mut harness = Harness::with_nodes(1, 3);
    let created = match harness.call(create("/f", false, None, true)) {
        Ok(Reply::Created(created)) => created,
        other => panic!("{other:?}"),
    };
    let mut block = created.first_block.unwrap();
    for round in 0..300 {
        if round % 40 == 0 {
            harness.checkpoint();
            assert_eq!(
                canonical(&mut harness.reload().ns),
                canonical(&mut harness.state.ns),
                "round {round}"
            );
        }
        let previous = Some(written(&block, 1000));
        block = match harness.call(Call::AddBlock { file: created.file, previous, exclude: vec![] })
        {
            Ok(Reply::Block(block)) => block,
            other => panic!("{other:?}"),
        };
        assert_eq!(block.offset, (round + 1) * 1000);
        if round % 64 == 20 {
            harness.checkpoint();
            let abandon = Call::AbandonBlock { file: created.file, block: block.id };
            assert_eq!(harness.call(abandon), Ok(Reply::Done));
            harness.checkpoint();
            let add = Call::AddBlock { file: created.file, previous: None, exclude: vec![] };
            let Ok(Reply::Block(other)) = harness.call(add) else { panic!("no block") };
            block = other;
        }
    }
    harness.checkpoint();
    assert_eq!(canonical(&mut harness.reload().ns), canonical(&mut harness.state.ns));
    assert!(harness.rows.keys().filter(|key| key[0] == b'o').count() >= 4);
    let delete = Call::Delete { path: dfs("/f"), recursive: false };
    assert_eq!(harness.call(delete), Ok(Reply::Flag(true)));
    harness.checkpoint();
    assert_eq!(harness.rows.keys().filter(|key| key[0] == b'o').count(), 0);
}

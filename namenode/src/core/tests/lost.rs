//! Files whose promised bytes are on no DataNode any more: closed at what there is, marked, and nothing waits for ever.

use protocol::datanode::{Command, CommitRecovery, Heartbeat};
use protocol::namenode::{Appended, Call, FsckFile, LocatedBlock, Reply};
use protocol::{DatanodeId, ErrorKind, GenerationStamp};

use super::harness::{
    Harness, canonical, create, dfs, replica, written, written_durably, written_on,
};
use crate::core::state::Output;

/// What readers of "/f" were promised.
const KNOWN: u64 = 500;

fn id(number: u8) -> DatanodeId {
    DatanodeId([number; 16])
}

/// "/f" with [`KNOWN`] synced bytes, whose writer is gone.
fn abandoned(h: &mut Harness) -> LocatedBlock {
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let block = created.first_block.unwrap();
    let (file, stamp) = (created.file, block.stamp);
    let sync = Call::SyncBlock { file, block: block.id, stamp, length: KNOWN };
    assert_eq!(h.call(sync), Ok(Reply::Done));
    h.pass(5100, &[1, 2, 3]);
    block
}

/// The stamp of the last recovery that was ordered, and the bytes that were promised.
fn last_recovery(h: &Harness) -> (GenerationStamp, u64) {
    let mut commands = h.commands.iter().rev();
    let found = commands.find_map(|(_, command)| match command {
        Command::Recover { stamp, length_min, .. } => Some((*stamp, *length_min)),
        _ => None,
    });
    found.expect("a recovery is ordered")
}

fn ordered(h: &Harness) -> GenerationStamp {
    let (stamp, length_min) = last_recovery(h);
    assert_eq!(length_min, KNOWN);
    stamp
}

/// The last recovery has found nothing.
fn commit_nothing(
    h: &mut Harness,
    block: &LocatedBlock,
    answered: &[u8],
    without: &[u8],
) -> Result<(), ErrorKind> {
    let ids = |numbers: &[u8]| numbers.iter().copied().map(id).collect::<Vec<_>>();
    let commit = CommitRecovery {
        block: block.id,
        stamp: last_recovery(h).0,
        length: 0,
        replicas: Vec::new(),
        answered: ids(answered),
        without: ids(without),
    };
    let (mut out, now) = (Output::default(), h.now);
    let answer = h.state.commit_recovery(&mut h.nodes, &commit, now, &mut out).unwrap();
    h.records.extend(out.records);
    answer.map_err(|error| error.kind)
}

fn commit(
    h: &mut Harness,
    block: &LocatedBlock,
    (length, replicas): (u64, &[u8]),
    answered: &[u8],
) -> (Result<(), ErrorKind>, Output) {
    let ids = |numbers: &[u8]| numbers.iter().copied().map(id).collect::<Vec<_>>();
    let commit = CommitRecovery {
        block: block.id,
        stamp: ordered(h),
        length,
        replicas: ids(replicas),
        answered: ids(answered),
        without: Vec::new(),
    };
    let (mut out, now) = (Output::default(), h.now);
    let answer = h.state.commit_recovery(&mut h.nodes, &commit, now, &mut out).unwrap();
    h.records.extend(out.records.iter().cloned());
    (answer.map_err(|error| error.kind), out)
}

fn fsck(h: &Harness, path: &str) -> FsckFile {
    match h.read(&Call::Fsck { path: dfs(path), after: None }) {
        Ok(Reply::Fsck(mut page)) => page.files.pop().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn append(h: &mut Harness) -> Appended {
    match h.call(Call::Append { path: dfs("/f"), new_block: false }) {
        Ok(Reply::Appended(appended)) => appended,
        other => panic!("{other:?}"),
    }
}

#[test]
fn where_nobody_has_what_was_promised_the_file_is_closed_at_what_there_is_and_marked() {
    let mut h = Harness::with_nodes(1, 3);
    let block = abandoned(&mut h);
    let (ended, out) = commit(&mut h, &block, (480, &[1, 2, 3]), &[1, 2, 3]);
    assert_eq!(ended, Ok(()));
    let [loss] = out.lost.as_slice() else { panic!("{:?}", out.lost) };
    assert_eq!((loss.path.as_str(), loss.length, loss.lost), ("/f", 480, 20));
    let found = fsck(&h, "/f");
    assert_eq!((found.status.length, found.status.open, found.lost_bytes), (480, false, 20));
    // For good, and whichever way it is loaded.
    assert_eq!(canonical(&mut h.replay().ns), canonical(&mut h.state.ns));
    h.checkpoint();
    let loaded = h.reload();
    h.restart(loaded);
    assert_eq!(fsck(&h, "/f").lost_bytes, 20);
    // Until it is rewritten.
    h.write("/f", 10, 3);
    assert_eq!(fsck(&h, "/f").lost_bytes, 0);
}

#[test]
fn a_member_that_was_not_heard_is_waited_for_up_to_the_hard_limit() {
    let mut h = Harness::with_nodes(1, 3);
    let block = abandoned(&mut h);
    assert_eq!(fsck(&h, "/f").awaited, Vec::<String>::new(), "all are there");
    let refused = Err(ErrorKind::InvalidArgument);
    for answered in [&[1, 2][..], &[1, 3], &[], &[1, 2, 2]] {
        assert_eq!(commit(&mut h, &block, (480, &[1, 2]), answered).0, refused, "{answered:?}");
    }
    let silent = h.call(Call::Append { path: dfs("/f"), new_block: false }).unwrap_err();
    assert_eq!(silent.kind, ErrorKind::RecoveryInProgress);
    // All of it is there again.
    let whole = commit(&mut h, &block, (KNOWN, &[1, 2, 3]), &[1, 2, 3]);
    assert_eq!((whole.0, whole.1.lost.len(), fsck(&h, "/f").lost_bytes), (Ok(()), 0, 0));

    let mut h = Harness::with_nodes(1, 3);
    let block = abandoned(&mut h);
    h.pass(5100, &[1, 2]);
    let away = h.call(Call::Append { path: dfs("/f"), new_block: false }).unwrap_err();
    assert!(
        away.message.ends_with(&format!("may need datanodes that are dead: {}", id(3))),
        "{away}"
    );
    assert_eq!(
        fsck(&h, "/f").awaited,
        [h.nodes.node(h.nodes.index(id(3)).unwrap()).info.transfer_address.clone()]
    );
    let nothing = commit(&mut h, &block, (0, &[]), &[1, 2]).0;
    assert_eq!(nothing, refused, "where nobody has a byte, whoever is away has them");
    assert_eq!(commit(&mut h, &block, (480, &[1, 2]), &[1, 2]).0, Ok(()));
    let found = fsck(&h, "/f");
    assert_eq!((found.lost_bytes, found.awaited), (20, Vec::new()), "it waits for nobody now");
    assert_eq!(append(&mut h).length, 480, "it can be appended to");
}

/// The bytes may be only on members that a writer, which found no way to continue, named as failed one after the other.
#[test]
fn members_that_a_writer_gave_up_are_asked_and_waited_for_until_others_have_it_all() {
    let mut h = Harness::with_nodes(1, 5);
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let (file, mut block) = (created.file, created.first_block.unwrap());
    let first = block.replicas.clone();
    let sync = Call::SyncBlock { file, block: block.id, stamp: block.stamp, length: KNOWN };
    assert_eq!(h.call(sync), Ok(Reply::Done));
    for failed in [vec![first[1].id, first[2].id], vec![first[0].id]] {
        let (id, stamp, replicas) = (block.id, block.stamp, Vec::new());
        let written = written_on((id, stamp), KNOWN, replicas, 0);
        let again = Call::RecoverPipeline { file, block: written, failed, slow: None };
        let Ok(Reply::Block(next)) = h.call(again) else { panic!("no pipeline") };
        block = next;
    }
    assert!(block.replicas.iter().all(|member| member.id != first[0].id));
    // Whichever way it is loaded.
    assert_eq!(canonical(&mut h.replay().ns), canonical(&mut h.state.ns));
    h.checkpoint();
    let loaded = h.reload();
    h.restart(loaded);
    h.pass(5100, &[1, 2, 3, 4, 5]);
    let asked = h.commands.iter().rev().find_map(|(_, command)| match command {
        Command::Recover { replicas, .. } => Some(replicas.clone()),
        _ => None,
    });
    let asked = asked.expect("a recovery is ordered");
    assert!(first.iter().all(|member| asked.contains(member)), "{asked:?}");
    let last: Vec<u8> = block.replicas.iter().map(|member| member.id.0[0]).collect();
    let ended = commit(&mut h, &block, (0, &[]), &last).0;
    assert_eq!(ended, Err(ErrorKind::InvalidArgument), "{last:?} are not all");
    let (ended, out) = commit(&mut h, &block, (KNOWN, &[first[0].id.0[0]]), &[1, 2, 3, 4, 5]);
    assert_eq!((ended, out.lost.len()), (Ok(()), 0));
    h.checkpoint();
    assert_eq!(canonical(&mut h.reload().ns), canonical(&mut h.state.ns));
    assert!(h.rows.keys().all(|key| key[0] != b'p'), "their row goes with them");
}

/// "/f" after a restart of the NameNode in the middle of a repair: of its pipeline only those have registered that were to get the flushed bytes from its
/// only survivor. Also how its writer would repeat the call.
fn survivor_is_late(h: &mut Harness) -> (LocatedBlock, Call) {
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let first = created.first_block.unwrap();
    let again = |block: &LocatedBlock| {
        let replicas = vec![first.replicas[0].id];
        let block = written_on((block.id, block.stamp), KNOWN, replicas, 0);
        let failed = first.replicas[1..].iter().map(|member| member.id).collect();
        Call::RecoverPipeline { file: created.file, block, failed, slow: None }
    };
    let Ok(Reply::Block(block)) = h.call(again(&first)) else { panic!("no pipeline") };
    h.restart_alone();
    for added in &block.replicas[1..] {
        h.register(added.id.0[0]);
        h.report(added.id.0[0], vec![], vec![]);
    }
    let again = again(&block);
    (block, again)
}

#[test]
fn a_pipeline_goes_on_where_its_bytes_are_and_waits_for_them() {
    let mut h = Harness::with_nodes(1, 5);
    let (block, again) = survivor_is_late(&mut h);
    let survivor = block.replicas[0].id;
    let refused = h.call(again.clone()).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused}");
    h.register(survivor.0[0]);
    let Ok(Reply::Block(next)) = h.call(again) else { panic!("no pipeline") };
    assert_eq!((next.replicas[0].id, next.replicas.len()), (survivor, 3));
}

#[test]
fn a_block_of_which_nobody_has_a_byte_is_kept_while_a_member_may_come_with_some() {
    let mut h = Harness::with_nodes(1, 5);
    let (block, _) = survivor_is_late(&mut h);
    let [survivor, asked @ ..] = [0, 1, 2].map(|member| block.replicas[member].id.0[0]);
    // They are new in the pipeline: that they have nothing says nothing of what its other members had.
    let nothing = |h: &mut Harness| {
        h.pass(600, &asked);
        commit_nothing(h, &block, &asked, &asked)
    };
    h.pass(5100, &asked);
    assert_eq!(nothing(&mut h), Err(ErrorKind::InvalidArgument));
    assert!(h.state.ns.block(block.id).is_some());
    h.register(survivor);
    assert!(nothing(&mut h).is_err(), "it is there and was not asked");
    h.pass(2100, &asked);
    assert!(nothing(&mut h).is_err(), "it is dead, and may come back");
    h.pass(2000, &asked);
    assert_eq!(nothing(&mut h), Ok(()), "the wait is over");
    assert!(h.state.ns.block(block.id).is_none());
}

/// What was flushed was acknowledged by every member of the pipeline. So one that is sure to have acknowledged nothing speaks for one that is gone for good.
#[test]
fn a_block_of_which_nobody_was_promised_a_byte_is_dropped_at_once() {
    let mut h = Harness::with_nodes(1, 4);
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let block = created.first_block.unwrap();
    let [gone, here @ ..] = [0, 1, 2].map(|member| block.replicas[member].id.0[0]);
    let stranger = (1..=4).find(|number| *number != gone && !here.contains(number)).unwrap();
    h.pass(5100, &[here[0], here[1], stranger]);
    let mut end = |answered: &[u8], without: &[u8]| {
        h.pass(600, &[here[0], here[1], stranger]);
        commit_nothing(&mut h, &block, answered, without)
    };
    assert_eq!(end(&here, &[]), Err(ErrorKind::InvalidArgument));
    assert!(end(&[], &here).is_err(), "they have nothing now, and do not vouch");
    assert!(end(&[stranger], &[stranger]).is_err(), "it was in no pipeline");
    assert_eq!(end(&here[1..], &here), Ok(()));
    assert!(h.state.ns.block(block.id).is_none());
}

/// The answer to a call that is repeated at a restarted NameNode names only those that have registered: the others never became members.
#[test]
fn who_registered_after_a_pipeline_was_handed_out_does_not_vouch_for_it() {
    let mut h = Harness::with_nodes(1, 3);
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let block = created.first_block.unwrap();
    h.restart_alone();
    for number in 1..=3 {
        h.register(number);
    }
    h.pass(5100, &[1, 2]);
    h.pass(600, &[1, 2]);
    let refused = commit_nothing(&mut h, &block, &[1, 2], &[1, 2]);
    assert_eq!(refused, Err(ErrorKind::InvalidArgument));
    // All are there, and nobody has anything: so it is after a power cut.
    assert_eq!(commit_nothing(&mut h, &block, &[], &[1, 2, 3]), Ok(()));
    assert!(h.state.ns.block(block.id).is_none());
}

/// A NameNode that was stopped takes all DataNodes for dead for a moment: what is written then must be on disk all the same.
#[test]
fn nothing_that_is_on_no_disk_is_committed_while_all_datanodes_seem_dead() {
    let mut h = Harness::with_nodes(1, 3);
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let (file, block) = (created.file, created.first_block.unwrap());
    h.pass(2200, &[]);
    let unsynced = |block: &LocatedBlock| written_durably(block, KNOWN, 0);
    let failed = vec![block.replicas[2].id];
    let again = Call::RecoverPipeline { file, block: unsynced(&block), failed, slow: None };
    let Ok(Reply::Block(block)) = h.call(again) else { panic!("no pipeline") };
    assert_eq!((block.replicas.len(), block.durable_min), (2, 2));
    let complete = |last| Call::Complete { file, last: Some(last), publish: None };
    let refused = h.call(complete(unsynced(&block))).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotReplicatedYet);
    assert!(!h.state.ns.block(block.id).unwrap().complete, "an old replica may be all there is");
    let refused = h.call(complete(written(&block, KNOWN))).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotReplicatedYet, "nobody is there");
    for member in &block.replicas {
        h.register(member.id.0[0]);
        h.report(member.id.0[0], vec![replica(&block, KNOWN)], Vec::new());
    }
    assert_eq!(h.call(complete(written(&block, KNOWN))), Ok(Reply::Done));
}

/// Where all have told their room, one disk is too few for what needs two; a node that is about to tell it may have plenty.
#[test]
fn a_node_that_has_not_told_its_room_is_not_full() {
    let mut h = Harness::with_nodes(1, 1);
    let node = h.register_silently(2);
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(2), true)) else {
        panic!("not created")
    };
    assert_eq!(created.first_block.unwrap().replicas.len(), 1);
    h.nodes.heartbeat(node, &Heartbeat::default(), h.now.mono_ms);
    let Ok(Reply::Created(created)) = h.call(create("/g", false, Some(2), true)) else {
        panic!("not created")
    };
    assert!(created.first_block.is_none(), "its writer asks for a block, and is refused");
}

/// It may be the only one with what was flushed: readers must not take what the others say for all.
#[test]
fn a_dead_member_of_an_open_block_is_told_to_readers_after_the_others() {
    let mut h = Harness::with_nodes(1, 3);
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let members = created.first_block.unwrap().replicas;
    let [dead, here @ ..] = [0, 1, 2].map(|member| members[member].id.0[0]);
    let located = |h: &mut Harness| {
        let all = Call::Locations { path: dfs("/f"), offset: 0, length: u64::MAX };
        let Ok(Reply::Located(located)) = h.call(all) else { panic!("no locations") };
        located.blocks[0].replicas.iter().map(|node| node.id).collect::<Vec<_>>()
    };
    h.pass(2200, &here);
    let found = located(&mut h);
    assert_eq!((found.len(), found.last()), (3, Some(&id(dead))));
    h.pass(2200, &[]);
    assert_eq!(located(&mut h), [], "nobody can be asked");
}

/// Nor what those say who have registered with a NameNode that was just restarted.
#[test]
fn readers_of_an_open_block_learn_that_a_member_has_not_registered_yet() {
    let mut h = Harness::with_nodes(1, 3);
    let created = h.call(create("/f", false, Some(3), true));
    assert!(matches!(created, Ok(Reply::Created(_))), "{created:?}");
    let located = |h: &mut Harness| {
        let all = Call::Locations { path: dfs("/f"), offset: 0, length: u64::MAX };
        let Ok(Reply::Located(located)) = h.call(all) else { panic!("no locations") };
        let block = &located.blocks[0];
        (block.replicas.len(), block.has_unseen_members)
    };
    assert_eq!(located(&mut h), (3, false));
    h.restart_alone();
    for (number, expected) in [(1, (1, true)), (2, (2, true)), (3, (3, false))] {
        h.register(number);
        assert_eq!(located(&mut h), expected);
    }
}

/// Its writer must find more before it claims that something is on disk.
#[test]
fn a_pipeline_that_became_short_must_still_be_on_two_disks() {
    let mut h = Harness::with_nodes(1, 3);
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let block = created.first_block.unwrap();
    let failed = vec![block.replicas[1].id, block.replicas[2].id];
    let (file, block) = (created.file, written(&block, KNOWN));
    let again = Call::RecoverPipeline { file, block, failed, slow: None };
    let Ok(Reply::Block(block)) = h.call(again) else { panic!("no pipeline") };
    assert_eq!((block.replicas.len(), block.durable_min), (1, 2));
}

/// A writer is believed only about the DataNodes that it was given.
#[test]
fn a_writer_names_no_others_than_its_pipeline_and_each_once() {
    let mut h = Harness::with_nodes(1, 5);
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let block = created.first_block.unwrap();
    let is_stranger = |number: &u8| block.replicas.iter().all(|member| member.id != id(*number));
    let stranger = (1..=5).find(is_stranger).unwrap();
    let complete = |last| Call::Complete { file: created.file, last: Some(last), publish: None };
    // One that is not in it, and one twice: the room of both would be released.
    for forged in [id(stranger), block.replicas[0].id] {
        let mut last = written(&block, KNOWN);
        last.replicas[2] = forged;
        let refused = h.call(complete(last)).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::InvalidArgument, "{refused}");
    }
    assert!(!h.holders(block.id).contains(&stranger));
    assert_eq!(h.call(complete(written(&block, KNOWN))), Ok(Reply::Done));
}

#[test]
fn a_file_of_which_nothing_is_left_is_closed_too() {
    let mut h = Harness::with_nodes(1, 3);
    let block = abandoned(&mut h);
    let (ended, out) = commit(&mut h, &block, (0, &[]), &[1, 2, 3]);
    assert_eq!((ended, out.lost[0].lost), (Ok(()), KNOWN));
    let found = fsck(&h, "/f");
    assert_eq!((found.blocks.len(), found.status.length, found.lost_bytes), (0, 0, KNOWN));
    assert_eq!(canonical(&mut h.replay().ns), canonical(&mut h.state.ns));
}

/// Bytes that a snapshot of the root shows of "/f"; its blocks have no fewer.
fn shown(h: &Harness, snapshot: &str) -> u64 {
    let path = dfs(&format!("/.snapshot/{snapshot}/f"));
    match h.read(&Call::Locations { path, offset: 0, length: u64::MAX }) {
        Ok(Reply::Located(located)) => {
            let sum: u64 = located.blocks.iter().map(|block| block.length).sum();
            assert_eq!(located.status.length, sum, "{snapshot}");
            sum
        }
        other => panic!("{other:?}"),
    }
}

fn take(h: &mut Harness, name: &str) {
    h.call(Call::CreateSnapshot { path: dfs("/"), name: Some(name.to_owned()) }).unwrap();
}

/// Writes 700 bytes behind what there is.
fn go_on(h: &mut Harness, has: u64) {
    let appended = append(h);
    let (block, length) = match appended.last {
        Some(last) => (last, has + 700),
        None => {
            let add = Call::AddBlock { file: appended.file, previous: None, exclude: Vec::new() };
            let Ok(Reply::Block(block)) = h.call(add) else { panic!("another block") };
            (block, 700)
        }
    };
    let complete =
        Call::Complete { file: appended.file, last: Some(written(&block, length)), publish: None };
    assert_eq!(h.call(complete), Ok(Reply::Done));
}

/// What is written after a loss was not there when the snapshot was taken.
#[test]
fn a_snapshot_shows_nothing_in_the_place_of_what_was_lost() {
    for left in [0, 180] {
        let mut h = Harness::with_nodes(1, 3);
        h.call(Call::AllowSnapshot(dfs("/"))).unwrap();
        let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
            panic!("not created")
        };
        let (file, block) = (created.file, created.first_block.unwrap());
        for (length, name) in [(200, "early"), (KNOWN, "late")] {
            let sync = Call::SyncBlock { file, block: block.id, stamp: block.stamp, length };
            assert_eq!(h.call(sync), Ok(Reply::Done));
            take(&mut h, name);
        }
        h.checkpoint();
        h.pass(5100, &[1, 2, 3]);
        match left {
            0 => assert_eq!(commit_nothing(&mut h, &block, &[1, 2, 3], &[1, 2, 3]), Ok(())),
            _ => assert_eq!(commit(&mut h, &block, (left, &[1, 2, 3]), &[1, 2, 3]).0, Ok(())),
        }
        let both = |h: &Harness| ["early", "late"].map(|name| shown(h, name));
        assert_eq!(both(&h), [left, left]);
        h.check_replay();
        go_on(&mut h, left);
        take(&mut h, "after");
        assert_eq!((both(&h), shown(&h, "after")), ([left, left], left + 700));
        h.check_replay();
        let delete = Call::Delete { path: dfs("/f"), recursive: false };
        assert_eq!(h.call(delete), Ok(Reply::Flag(true)));
        h.work();
        assert_eq!((both(&h), shown(&h, "after")), ([left, left], left + 700));
        h.check_replay();
    }
}

/// The same where the file was cut since, so that the snapshot has a list of its own.
#[test]
fn a_list_of_a_snapshot_loses_what_is_lost() {
    let mut h = Harness::with_nodes(1, 3);
    h.call(Call::AllowSnapshot(dfs("/"))).unwrap();
    h.write("/f", 300, 3);
    take(&mut h, "first");
    h.write("/g", 300, 3);
    h.call(Call::Concat { target: dfs("/f"), sources: vec![dfs("/g")] }).unwrap();
    assert_eq!(h.call(Call::Truncate { path: dfs("/f"), length: 300 }), Ok(Reply::Flag(true)));
    h.checkpoint();
    let block = append(&mut h).last.unwrap();
    h.pass(5100, &[1, 2, 3]);
    // After the hard limit nobody is waited for.
    h.pass(6000, &[1, 2, 3]);
    assert_eq!(commit_nothing(&mut h, &block, &[1, 2, 3], &[1, 2, 3]), Ok(()));
    assert_eq!(shown(&h, "first"), 0);
    h.check_replay();
}

/// A block after which a snapshot has more does not grow: what is appended would take the place of what follows.
#[test]
fn an_append_leaves_alone_what_a_snapshot_has_before_more() {
    let mut h = Harness::with_nodes(1, 3);
    h.call(Call::AllowSnapshot(dfs("/"))).unwrap();
    ["/f", "/g", "/h"].iter().for_each(|path| drop(h.write(path, 300, 3)));
    h.call(Call::Concat { target: dfs("/f"), sources: vec![dfs("/g"), dfs("/h")] }).unwrap();
    take(&mut h, "whole");
    let located = |h: &Harness| {
        let path = dfs("/.snapshot/whole/f");
        match h.read_as_namenode(&Call::Locations { path, offset: 0, length: u64::MAX }) {
            Ok(Reply::Located(located)) => {
                let blocks = located.blocks.iter().map(|block| (block.id, block.length));
                blocks.collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let before = located(&h);
    assert_eq!(before.len(), 3);
    assert_eq!(h.call(Call::Truncate { path: dfs("/f"), length: 600 }), Ok(Reply::Flag(true)));
    let file = append(&mut h);
    assert_eq!(file.last, None, "the next block is a new one");
    let add = Call::AddBlock { file: file.file, previous: None, exclude: vec![] };
    let Ok(Reply::Block(block)) = h.call(add) else { panic!("a block") };
    assert_eq!(located(&h), before);
    let last = Some(written(&block, 700));
    h.call(Call::Complete { file: file.file, last, publish: None }).unwrap();
    assert_eq!(located(&h), before);
    h.check_replay();
    h.call(Call::Delete { path: dfs("/f"), recursive: false }).unwrap();
    h.work();
    assert_eq!(located(&h), before);
    h.check_replay();
}

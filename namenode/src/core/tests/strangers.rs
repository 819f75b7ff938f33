//! What somebody without rights learns, changes and costs: nothing of others, and never more than a bound.

use protocol::datanode::{Changes, Command};
use protocol::namenode::{Answer, Call, Reply, WrittenBlock};
use protocol::token::Receipt;
use protocol::{DatanodeId, ErrorKind, RemoteError};

use super::harness::{Harness, create, dfs, replica, written};
use crate::core::rights::Caller;

const STRANGER: Caller<'static> = Caller { user: "stranger", groups: &[], is_superuser: false };

fn mkdirs(path: &str) -> Call {
    Call::Mkdirs { path: dfs(path), mode: 0o755, unmasked: None, parents: true }
}

fn set_mode(harness: &mut Harness, path: &str, mode: u16) {
    assert_eq!(harness.call(Call::SetMode { path: dfs(path), mode }), Ok(Reply::Done));
}

fn snapshot(harness: &mut Harness, path: &str, name: &str) {
    let name = Some(name.to_owned());
    harness.call(Call::CreateSnapshot { path: dfs(path), name }).unwrap();
}

#[track_caller]
fn refusal(answer: Answer) -> RemoteError {
    answer.expect_err("it is refused")
}

/// Clients draw their ids and inodes are counted: whoever says another's learns and ends nothing.
#[test]
fn the_id_of_a_client_is_worth_nothing_to_another_user() {
    let mut h = Harness::with_nodes(1, 3);
    assert_eq!(h.call(mkdirs("/closed")), Ok(Reply::Done));
    set_mode(&mut h, "/closed", 0o700);
    let create = create("/closed/secret-name", false, None, false);
    let first = h.call_again(1000, create.clone());
    let Ok(Reply::Created(created)) = &first else { panic!("{first:?}") };
    let file = created.file;
    let abandon = Call::AbandonFile { file, keep: false, unused: None };
    let complete = Call::Complete { file, last: None, publish: None };
    let add = Call::AddBlock { file, previous: None, exclude: Vec::new() };
    for call in [abandon, complete, add] {
        let no = refusal(h.call_as(STRANGER, call));
        assert_eq!(no.kind, ErrorKind::LeaseExpired);
        assert!(!no.message.contains("secret-name"), "{no}");
    }
    let no = refusal(h.request(1000, STRANGER, create.clone()));
    assert_eq!(no.kind, ErrorKind::PermissionDenied, "the first answer is the owner's");
    assert_eq!(h.call_again(1000, create), first);
}

#[test]
fn differences_name_nothing_in_directories_that_were_or_are_closed() {
    let mut h = Harness::new(1);
    for path in ["/d/open", "/d/closed"] {
        assert_eq!(h.call(mkdirs(path)), Ok(Reply::Done));
    }
    h.call(Call::AllowSnapshot(dfs("/d"))).unwrap();
    snapshot(&mut h, "/d", "empty");
    assert_eq!(h.call(mkdirs("/d/open/seen")), Ok(Reply::Done));
    snapshot(&mut h, "/d", "seen");
    set_mode(&mut h, "/d/closed", 0o700);
    assert_eq!(h.call(mkdirs("/d/closed/secret")), Ok(Reply::Done));
    snapshot(&mut h, "/d", "secret");
    set_mode(&mut h, "/d/closed", 0o755);
    let mut differences = |from: &str, to: &str| {
        let (from, to) = (from.to_owned(), to.to_owned());
        h.call_as(STRANGER, Call::SnapshotDiff { path: dfs("/d"), from, to, skip: 0 })
    };
    let Ok(Reply::SnapshotDiff { entries, .. }) = differences("empty", "seen") else {
        panic!("what is open is listed")
    };
    assert!(entries.iter().any(|entry| entry.path == "open/seen"), "{entries:?}");
    for (from, to) in [("seen", "secret"), ("secret", "seen"), ("empty", "secret")] {
        assert_eq!(refusal(differences(from, to)).kind, ErrorKind::PermissionDenied, "{from} {to}");
    }
}

/// Whoever may write to a file appends to it and gives that up: the file is there as before, unless its directory lets them delete it.
#[test]
fn who_may_only_write_a_file_cannot_delete_it_by_abandoning_it() {
    for (mode, may_delete) in [(0o755, false), (0o1777, false), (0o777, true)] {
        let mut h = Harness::with_nodes(1, 3);
        assert_eq!(h.call(mkdirs("/shared")), Ok(Reply::Done));
        h.write("/shared/log", 10, 1);
        set_mode(&mut h, "/shared", mode);
        set_mode(&mut h, "/shared/log", 0o666);
        let append = Call::Append { path: dfs("/shared/log"), new_block: true };
        let appended = h.call_as(STRANGER, append);
        let Ok(Reply::Appended(appended)) = appended else { panic!("{appended:?}") };
        let abandon = |file| Call::AbandonFile { file, keep: false, unused: None };
        assert_eq!(h.call_as(STRANGER, abandon(appended.file)), Ok(Reply::Flag(true)), "{mode:o}");
        let found = h.read(&Call::Status(dfs("/shared/log")));
        match may_delete {
            true => assert_eq!(refusal(found).kind, ErrorKind::NotFound, "{mode:o}"),
            false => assert!(
                matches!(&found, Ok(Reply::Status(it)) if it.length == 10 && !it.open),
                "{mode:o}: {found:?}"
            ),
        }
    }
    // What somebody has made in a directory for all is theirs to give up.
    let mut h = Harness::with_nodes(1, 3);
    assert_eq!(h.call(mkdirs("/tmp")), Ok(Reply::Done));
    set_mode(&mut h, "/tmp", 0o1777);
    let created = h.call_as(STRANGER, create("/tmp/f", false, None, true));
    let Ok(Reply::Created(created)) = created else { panic!("{created:?}") };
    let abandon = Call::AbandonFile { file: created.file, keep: false, unused: None };
    assert_eq!(h.call_as(STRANGER, abandon), Ok(Reply::Flag(true)));
    assert_eq!(refusal(h.read(&Call::Status(dfs("/tmp/f")))).kind, ErrorKind::NotFound);
}

/// With a token that is left, somebody writes other bytes of the same length to a DataNode that never had the block: what was there stays.
#[test]
fn a_replica_that_nobody_asked_for_takes_no_place() {
    let mut h = Harness::with_nodes(1, 4);
    for number in 0..8 {
        let replication = number % 3 + 1;
        let block = h.write(&format!("/{number}"), 10, replication);
        let all = h.holders(block.id);
        assert_eq!(all.len(), usize::from(replication));
        for other in (1..=4).filter(|other| !all.contains(other)) {
            let received = vec![replica(&block, 10)];
            let needless = h.needless(other, &Changes { received, ..Changes::default() });
            assert_eq!(needless, [block.id]);
            assert_eq!(h.holders(block.id), all, "{number}: {other}");
            let node = h.node(other);
            assert!(h.state.blocks.doomed.contains(node, block.id, block.stamp));
        }
    }
}

/// It counts where there are too few, for it may be a copy of which this NameNode does not know; and goes first once there are enough.
#[test]
fn a_replica_that_nobody_asked_for_goes_before_those_that_were_there() {
    for returns in [1, 2] {
        let mut h = Harness::with_nodes(1, 3);
        let block = h.write("/f", 10, 2);
        let [first, second] = h.holders(block.id)[..] else { panic!("two") };
        let other = (1..=3).find(|other| ![first, second].contains(other)).unwrap();
        let (gone, left) = if returns == 1 { (first, second) } else { (second, first) };
        let deleted = vec![block.id];
        h.changes(gone, &Changes { deleted, ..Changes::default() });
        let received = vec![replica(&block, 10)];
        h.changes(other, &Changes { received: received.clone(), ..Changes::default() });
        let mut two = [left, other];
        two.sort_unstable();
        assert_eq!(h.holders(block.id), two);
        // A disk comes back: its node tells all that it has.
        h.report(gone, received, vec![]);
        assert_eq!(h.holders(block.id), [first, second]);
    }
}

/// A copy that was ordered may come after its time.
#[test]
fn a_late_copy_was_asked_for() {
    let mut h = Harness::with_nodes(1, 3);
    let block = h.write("/f", 10, 1);
    h.call(Call::SetReplication { path: dfs("/f"), replication: 2 }).unwrap();
    h.work();
    let target = h.commands.iter().find_map(|(_, command)| match command {
        Command::Replicate { targets, .. } => Some(targets[0].id.0[0]),
        _ => None,
    });
    let target = target.expect("a copy is ordered");
    let timeout_ms = h.state.settings.pending_timeout_ms;
    h.pass(timeout_ms + 100, &[1, 2, 3]);
    h.call(Call::SetReplication { path: dfs("/f"), replication: 1 }).unwrap();
    let received = vec![replica(&block, 10)];
    h.changes(target, &Changes { received, ..Changes::default() });
    let node = h.node(target);
    assert!(!h.state.blocks.reports.is_unasked(node, block.id));
    assert_eq!(h.holders(block.id).len(), 1);
}

#[test]
fn a_page_of_snapshots_ends_where_their_children_are_many() {
    let (children, snapshots) = (10_000, 40);
    let mut h = Harness::new(1);
    for child in 0..children {
        assert_eq!(h.call(mkdirs(&format!("/d/{child}"))), Ok(Reply::Done));
    }
    h.call(Call::AllowSnapshot(dfs("/d"))).unwrap();
    (0..snapshots).for_each(|number| snapshot(&mut h, "/d", &format!("s{number:02}")));
    let (mut names, mut pages) = (Vec::new(), 0);
    loop {
        let start_after = names.last().cloned().unwrap_or_default();
        let call = Call::List { path: dfs("/d/.snapshot"), start_after, limit: 1000 };
        let Ok(Reply::Listing { entries, remaining }) = h.read(&call) else { panic!("listed") };
        assert!(entries.iter().all(|entry| entry.children_count == children), "{entries:?}");
        names.extend(entries.into_iter().map(|entry| entry.name));
        assert_eq!(names.len() as u64 + remaining, snapshots);
        pages += 1;
        if remaining == 0 {
            break;
        }
    }
    assert_eq!((pages, names.len() as u64), (2, snapshots));
}

#[test]
fn a_file_has_no_more_blocks_than_one_answer_names() {
    let mut h = Harness::with_nodes(1, 3);
    h.state.settings.file_blocks_max = 3;
    for path in ["/a", "/b", "/c", "/e"] {
        h.write(path, 10, 1);
    }
    let concat = |sources: &[&str]| Call::Concat {
        target: dfs("/a"),
        sources: sources.iter().map(|path| dfs(path)).collect(),
    };
    let no = refusal(h.call(concat(&["/b", "/c", "/e"])));
    assert_eq!(no.kind, ErrorKind::LimitExceeded);
    assert!(no.message.contains("dfs.namenode.fs-limits.max-blocks-per-file): 4 > 3"), "{no}");
    assert_eq!(h.call(concat(&["/b", "/c"])), Ok(Reply::Done));
    let appended = h.call(Call::Append { path: dfs("/a"), new_block: true });
    let Ok(Reply::Appended(appended)) = appended else { panic!("{appended:?}") };
    let add = Call::AddBlock { file: appended.file, previous: None, exclude: Vec::new() };
    assert_eq!(refusal(h.call(add)).kind, ErrorKind::LimitExceeded);
}

#[test]
fn a_writer_calls_only_members_of_its_pipeline_slow() {
    let mut h = Harness::with_nodes(1, 4);
    let created = h.call(create("/f", false, Some(2), true));
    let Ok(Reply::Created(created)) = created else { panic!("{created:?}") };
    let block = created.first_block.unwrap();
    let members: Vec<DatanodeId> = block.replicas.iter().map(|node| node.id).collect();
    let all: Vec<DatanodeId> = (1..=4)
        .map(|number| {
            let node = h.node(number);
            h.nodes.node(node).info.id
        })
        .collect();
    let stranger = *all.iter().find(|id| !members.contains(id)).unwrap();
    let mut call_slow = |id: DatanodeId, block: protocol::namenode::LocatedBlock| {
        let written = written(&block, 0);
        let failed = Vec::new();
        let call =
            Call::RecoverPipeline { file: created.file, block: written, failed, slow: Some(id) };
        let Ok(Reply::Block(block)) = h.call(call) else { panic!("it goes on") };
        let slow = h.nodes.slow(h.now.mono_ms).count();
        (slow, block)
    };
    let (slow, block) = call_slow(stranger, block);
    assert_eq!(slow, 0);
    assert_eq!(call_slow(members[0], block).0, 1);
}

#[test]
fn where_blocks_lie_and_move_is_the_superusers_to_know() {
    let mut h = Harness::with_nodes(1, 3);
    let block = h.write("/f", 10, 1);
    let datanode = block.replicas[0].id;
    for call in [Call::BlocksOn { datanode, after: None, limit: 10 }, Call::MoveStates(Vec::new())]
    {
        assert!(h.read(&call).is_ok());
        assert_eq!(refusal(h.call_as(STRANGER, call)).kind, ErrorKind::PermissionDenied);
    }
}

/// A block is written when DataNodes say so, each with its receipt. Nothing that a writer says takes the place of one.
#[test]
fn what_no_datanode_has_given_a_receipt_for_is_not_written() {
    let mut h = Harness::with_nodes(1, 3);
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(2), true)) else {
        panic!("not created")
    };
    let (file, block) = (created.file, created.first_block.unwrap());
    let good = written(&block, 10);
    let complete = |last| Call::Complete { file, last: Some(last), publish: None };
    let swapped = good.receipts.iter().rev().copied().collect();
    let more = [&good.receipts[..], &good.receipts[..1]].concat();
    for receipts in [vec![Receipt::default(); 2], swapped, more, written(&block, 11).receipts] {
        let no = refusal(h.call(complete(WrittenBlock { receipts, ..good.clone() })));
        assert_eq!(no.kind, ErrorKind::InvalidArgument, "{no}");
    }
    let none = WrittenBlock { receipts: Vec::new(), ..good.clone() };
    assert_eq!(refusal(h.call(complete(none))).kind, ErrorKind::NotReplicatedYet);
    assert!(h.state.ns.open_block(file).is_some(), "it is still being written");
    assert_eq!(h.call(complete(good)), Ok(Reply::Done));
}

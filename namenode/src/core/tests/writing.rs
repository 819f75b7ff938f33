//! Writing, leases, recovery, safe mode, answers after a restart: one scenario each.

use std::collections::BTreeSet;

use protocol::datanode::{Changes, Command, CommitRecovery, Replica};
use protocol::namenode::{
    Answer, Body, Call, Created, LocatedBlock, MoveState, Publish, ReplicaMove, Reply,
    SafeModeAction,
};
use protocol::transfer::WRITE_MANY_BYTES_MAX;
use protocol::{ClientId, DatanodeId, ErrorKind, GenerationStamp};

use super::harness::{
    Harness, canonical, create, dfs, replica, settings, stamp_after, written, written_durably,
    written_on,
};
use crate::core::random::Generator;
use crate::core::retry_cache::{RETAINED_MS, RetryCache};
use crate::core::rights::Caller;
use crate::core::safe_mode::SafeMode;
use crate::core::state::{Output, State};

fn created(answer: Answer) -> Created {
    match answer {
        Ok(Reply::Created(created)) => created,
        other => panic!("{other:?}"),
    }
}

fn block(answer: Answer) -> LocatedBlock {
    match answer {
        Ok(Reply::Block(block)) => block,
        other => panic!("{other:?}"),
    }
}

fn refusal(answer: Answer) -> (ErrorKind, String) {
    let error = answer.unwrap_err();
    (error.kind, error.message)
}

fn commit(harness: &mut Harness, block: &LocatedBlock, stamp: GenerationStamp, length: u64) {
    let replicas = block.replicas.iter().map(|info| info.id).collect();
    commit_on(harness, block, stamp, (length, replicas)).unwrap();
}

fn commit_on(
    harness: &mut Harness,
    block: &LocatedBlock,
    stamp: GenerationStamp,
    (length, replicas): (u64, Vec<DatanodeId>),
) -> Result<(), protocol::RemoteError> {
    let (block, answered, without) = (block.id, Vec::new(), Vec::new());
    let commit = CommitRecovery { block, stamp, length, replicas, answered, without };
    let mut out = Output::default();
    let now = harness.now;
    let answer = harness.state.commit_recovery(&mut harness.nodes, &commit, now, &mut out).unwrap();
    harness.records.extend(out.records);
    answer
}

/// The last recovery of a block that was ordered: who leads it, and its stamp.
fn ordered(harness: &Harness, of: &LocatedBlock) -> Option<(u8, GenerationStamp)> {
    harness.commands.iter().rev().find_map(|(node, command)| match command {
        Command::Recover { block, stamp, .. } if *block == of.id => {
            Some((harness.nodes.node(*node).info.id.0[0], *stamp))
        }
        _ => None,
    })
}

fn mkdirs(path: &str, parents: bool) -> Call {
    Call::Mkdirs { path: dfs(path), mode: 0o755, unmasked: None, parents }
}

fn delete(path: &str, recursive: bool) -> Call {
    Call::Delete { path: dfs(path), recursive }
}

fn rename(from: &str, to: &str) -> Call {
    Call::Rename { from: dfs(from), to: dfs(to), overwrite: Some(false) }
}

fn create_in_parent(path: &str) -> Call {
    match create(path, false, None, false) {
        Call::Create(create) => {
            Call::Create(protocol::namenode::Create { parents: false, ..create })
        }
        other => other,
    }
}

/// Checks what a namespace with the files /a/f and /y refuses, and in which words.
fn check_refusals(table: &[(Call, ErrorKind, &str)]) {
    let mut h = Harness::with_nodes(1, 3);
    h.write("/a/f", 10, 3);
    h.write("/y", 10, 3);
    for (call, kind, message) in table {
        let (found_kind, found) = refusal(h.call(call.clone()));
        assert_eq!((found_kind, found.as_str()), (*kind, *message), "{call:?}");
    }
}

#[test]
fn refusals_to_make_speak_hdfs() {
    use ErrorKind::{AlreadyExists, InvalidArgument, NotFound, ParentNotDirectory};
    let new = |path: &str, overwrite| create(path, overwrite, None, false);
    check_refusals(&[
        (mkdirs("/a/f", true), AlreadyExists, "Path is not a directory: /a/f"),
        (mkdirs("/a/f/x", true), ParentNotDirectory, "/a/f (is not a directory)"),
        (mkdirs("/q/x", false), NotFound, "Parent directory doesn't exist: /q"),
        (new("/a/f", false), AlreadyExists, "/a/f for client host1 already exists"),
        (new("/a", true), AlreadyExists, "/a already exists as a directory"),
        (new("/a/f/x", true), ParentNotDirectory, "/a/f (is not a directory)"),
        (create_in_parent("/q/f"), NotFound, "Parent directory doesn't exist: /q"),
        (
            create("/r", true, Some(1025), false),
            InvalidArgument,
            "Requested replication factor of 1025 exceeds maximum of 512 for /r",
        ),
    ]);
}

#[test]
fn other_refusals_speak_hdfs() {
    use ErrorKind::{AlreadyExists, InvalidArgument, IsDirectory, NotEmpty, NotFound};
    let nobody = Call::SetOwner { path: dfs("/a"), owner: String::new(), group: String::new() };
    let times = Call::SetTimes { path: dfs("/q"), mtime_ms: None, atime_ms: None };
    let list = Call::List { path: dfs("/q"), start_after: String::new(), limit: 1 };
    let locations = Call::Locations { path: dfs("/a"), offset: 0, length: 1 };
    let kinds = "Source /a/f and destination /a must both be directories";
    check_refusals(&[
        (delete("/a", false), NotEmpty, "`/a is non empty': Directory is not empty"),
        (rename("/a/f", "/a"), AlreadyExists, kinds),
        (rename("/a", "/a"), AlreadyExists, "The source /a and destination /a are the same"),
        (rename("/a/f", "/q/x"), NotFound, "rename destination parent /q not found."),
        (rename("/a/f", "/y"), AlreadyExists, "rename destination /y already exists"),
        (nobody, InvalidArgument, "Both owner and group are empty."),
        (times, NotFound, "File/Directory /q does not exist."),
        (Call::Status(dfs("/q")), NotFound, "File does not exist: /q"),
        (list, NotFound, "File /q does not exist."),
        (locations, IsDirectory, "Path is not a file: /a"),
    ]);
}

#[test]
fn a_full_disk_can_be_emptied() {
    let mut h = Harness::with_nodes(1, 3);
    h.write("/y", 10, 3);
    assert!(h.state.note_resources(true));
    let (kind, message) = refusal(h.call(mkdirs("/x", true)));
    assert_eq!(kind, ErrorKind::SafeMode);
    assert!(message.contains("can still be deleted"), "{message}");
    let (kind, message) = refusal(h.call(Call::SafeMode(SafeModeAction::Leave)));
    assert_eq!(kind, ErrorKind::SafeMode);
    assert!(message.starts_with("Safe mode stays ON. Resources are low"), "{message}");
    assert_eq!(h.call(delete("/y", true)), Ok(Reply::Flag(true)));
    assert!(h.state.is_safe_mode_on());
    assert!(!h.state.note_resources(false) && !h.state.is_safe_mode_on());
    assert_eq!(h.call(mkdirs("/x", true)), Ok(Reply::Done));
}

/// What fills the disk that a DataNode shares with the NameNode may be replicas of files that were deleted while the DataNode was away.
#[test]
fn a_datanode_that_comes_back_while_resources_are_low_is_rid_of_what_was_deleted() {
    let mut h = Harness::with_nodes(1, 3);
    let old = h.write("/y", 10, 3);
    let kept = h.write("/z", 10, 1);
    let open = created(h.call(create("/open", false, None, true))).first_block.unwrap();
    h.pass(2100, &[1, 2]);
    assert!(h.state.note_resources(true));
    assert_eq!(h.call(delete("/y", true)), Ok(Reply::Flag(true)));
    h.work();
    h.commands.clear();
    h.register(3);
    h.report(3, vec![replica(&old, 10)], vec![]);
    h.pass(200, &[1, 2, 3]);
    let deleted = (h.node(3), Command::Delete(vec![(old.id, old.stamp)]));
    assert!(!h.commands.contains(&deleted), "not before its grace is over");
    h.pass(300, &[1, 2, 3]);
    assert!(h.commands.contains(&deleted), "{:?}", h.commands);
    // What a dead writer holds is given back, and a full DataNode is relieved.
    h.pass(5000, &[1, 2, 3]);
    assert!(ordered(&h, &open).is_some());
    let from = h.holders(kept.id)[0];
    let to = (1..=3).find(|number| !h.holders(kept.id).contains(number)).unwrap();
    let (from, to) = (DatanodeId([from; 16]), DatanodeId([to; 16]));
    let moved = h.call(Call::MoveReplicas(vec![ReplicaMove { block: kept.id, from, to }]));
    assert_eq!(moved, Ok(Reply::Moves(vec![MoveState::Moving])));
    assert!(h.state.is_safe_mode_on());
}

#[test]
fn a_batch_of_which_all_is_refused_for_now_is_refused_as_a_whole_and_can_be_sent_again() {
    let mut h = Harness::with_nodes(1, 3);
    let batch = || Body::Batch(vec![mkdirs("/a", false), mkdirs("/a/b", false)]);
    for mode in [SafeMode::Startup { reached_ms: None }, SafeMode::Manual] {
        h.state.safe_mode = mode;
        let one = h.call_again(7, mkdirs("/a", false));
        assert_eq!(
            one.clone().unwrap_err().message.lines().next(),
            Some("Cannot create directory /a. Name node is in safe mode.")
        );
        assert_eq!(h.call_again(7, batch()), one);
    }
    h.state.safe_mode = SafeMode::Off;
    let done = Ok(Reply::Batch(vec![Ok(Reply::Done), Ok(Reply::Done)]));
    assert_eq!(h.call_again(7, batch()), done);
    h.state.safe_mode = SafeMode::LowResources;
    let mixed = Body::Batch(vec![mkdirs("/x", false), delete("/a", true)]);
    let Ok(Reply::Batch(answers)) = h.call_again(8, mixed) else { panic!("a part was done") };
    assert!(answers[0].is_err() && answers[1] == Ok(Reply::Flag(true)), "{answers:?}");
    assert_eq!(h.call_again(9, Body::Batch(vec![])), Ok(Reply::Batch(vec![])));
}

/// A rename is made, its answer lost, and before it is repeated another user is refused more calls than were ever remembered.
#[test]
fn a_repeated_change_gets_its_first_answer_however_often_another_user_is_refused() {
    let mut h = Harness::new(1);
    assert_eq!(h.call(mkdirs("/a", false)), Ok(Reply::Done));
    let rename = || Call::Rename { from: dfs("/a"), to: dfs("/b"), overwrite: Some(false) };
    let first = h.call_again(1000, rename());
    assert_eq!(first, Ok(Reply::Done));
    let nobody = Caller { user: "nobody", groups: &[], is_superuser: false };
    let batch = Body::Batch((0..1000).map(|_| mkdirs("/x/y", false)).collect());
    h.client = ClientId([66; 16]);
    for _ in 0..420 {
        let Ok(Reply::Batch(answers)) = h.call_as(nobody, batch.clone()) else { panic!("refused") };
        assert!(answers.iter().all(Result::is_err));
    }
    h.client = ClientId([1; 16]);
    assert_eq!(h.call_again(1000, rename()), first);
}

#[test]
fn a_user_who_makes_too_many_changes_waits_and_nobody_else_does() {
    let mut h = Harness::new(1);
    h.state.retry = RetryCache::with_room(100_000);
    h.state.retry.begin(h.now);
    assert_eq!(h.call(mkdirs("/open", false)), Ok(Reply::Done));
    let mode = Call::SetMode { path: dfs("/open"), mode: 0o777 };
    assert_eq!(h.call_again(1000, mode.clone()), Ok(Reply::Done));
    let greedy = Caller { user: "greedy", groups: &[], is_superuser: false };
    h.client = ClientId([66; 16]);
    let mut numbers = 0..;
    let (count, refused) = loop {
        let count = numbers.next().unwrap();
        let answer = h.call_as(greedy, mkdirs(&format!("/open/{count}"), false));
        if answer != Ok(Reply::Done) {
            break (count, answer);
        }
    };
    assert!(count > 500, "{count}");
    let (kind, message) = refusal(refused);
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(message.starts_with("greedy has made too many changes"), "{message}");
    let made = h.number() - 1;
    // What was made has its answer, what was refused was not made, and others go on.
    let again = Caller { user: "greedy", groups: &[], is_superuser: false };
    let last = mkdirs(&format!("/open/{}", count - 1), false);
    assert_eq!(h.request(made, again, last), Ok(Reply::Done));
    assert!(h.read(&Call::Status(dfs(&format!("/open/{count}")))).is_err());
    h.client = ClientId([1; 16]);
    assert_eq!(h.call_again(1000, mode), Ok(Reply::Done));
    assert_eq!(h.call(mkdirs("/open/ann", false)), Ok(Reply::Done));
    h.pass(RETAINED_MS + 1000, &[]);
    assert_eq!(h.call_as(greedy, mkdirs("/open/later", false)), Ok(Reply::Done));
}

#[test]
fn a_batch_ends_where_its_answers_are_too_long_whether_it_reads_or_changes() {
    let mut h = Harness::new(1);
    assert_eq!(h.call(mkdirs("/d", false)), Ok(Reply::Done));
    for number in 0..1000 {
        let name = format!("/d/{number:0250}");
        assert_eq!(h.call(mkdirs(&name, false)), Ok(Reply::Done));
    }
    let list = || Call::List { path: dfs("/d"), start_after: String::new(), limit: 1000 };
    let mut calls: Vec<Call> = (0..999).map(|_| list()).collect();
    calls.push(mkdirs("/made", false));
    let Ok(Reply::Batch(answers)) = h.call_again(5000, Body::Batch(calls)) else { panic!() };
    let made = answers.iter().take_while(|answer| answer.is_ok()).count();
    assert!((20..100).contains(&made), "{made}");
    for answer in &answers[made..] {
        let error = answer.as_ref().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    }
    assert!(h.read(&Call::Status(dfs("/made"))).is_err());
    // It was not made, and not remembered as refused either.
    let last = h.call_again(5000, Body::Batch(vec![mkdirs("/made", false)]));
    assert!(matches!(&last, Ok(Reply::Batch(answers)) if answers[0] == Ok(Reply::Done)));
}

#[test]
fn files_made_in_one_message_go_one_way_and_reserve_little() {
    let mut h = Harness::with_nodes(1, 6);
    let block_size = 4 * u64::from(WRITE_MANY_BYTES_MAX);
    h.state.settings.block_size = block_size;
    let free = |h: &Harness| -> u64 { h.nodes.iter().map(|(_, node)| node.free()).sum() };
    let before = free(&h);
    let creates = |begin: u64, count| {
        let paths = (begin..begin + count).map(|number| format!("/f{number}"));
        Body::Batch(paths.map(|path| create(&path, false, Some(3), true)).collect())
    };
    let targets = |answers: Answer| -> Vec<BTreeSet<DatanodeId>> {
        let Ok(Reply::Batch(answers)) = answers else { panic!("{answers:?}") };
        let block = |answer: Answer| match answer {
            Ok(Reply::Created(created)) => created.first_block.unwrap(),
            other => panic!("{other:?}"),
        };
        let blocks = answers.into_iter().map(block);
        blocks.map(|block| block.replicas.iter().map(|replica| replica.id).collect()).collect()
    };
    let together = targets(h.call_again(100, creates(0, 50)));
    assert!(together.iter().all(|targets| *targets == together[0]), "{together:?}");
    assert_eq!(together[0].len(), 3);
    assert_eq!(before - free(&h), 50 * 3 * u64::from(WRITE_MANY_BYTES_MAX));
    let alone: BTreeSet<_> =
        (0..20).flat_map(|n| targets(h.call_again(200 + n, creates(100 + n, 1)))).collect();
    assert!(alone.len() > 1, "each message is judged by itself");
    assert_eq!(before - free(&h), 50 * 3 * u64::from(WRITE_MANY_BYTES_MAX) + 20 * 3 * block_size);
}

#[test]
fn safe_mode_refuses_changes_in_hdfs_words() {
    let mut h = Harness::with_nodes(1, 3);
    h.write("/y", 10, 3);
    assert_eq!(h.call(Call::SafeMode(SafeModeAction::Enter)), Ok(Reply::Flag(true)));
    for (call, start) in [
        (create("/x", true, None, false), "Cannot create file/x. Name node is in safe mode.\n"),
        (mkdirs("/x", true), "Cannot create directory /x. Name node is in safe mode.\n"),
        (delete("/y", true), "Cannot delete /y. Name node is in safe mode.\n"),
    ] {
        let (kind, message) = refusal(h.call(call));
        assert_eq!(kind, ErrorKind::SafeMode);
        assert!(message.starts_with(start), "{message}");
    }
    assert_eq!(h.call(Call::SafeMode(SafeModeAction::Leave)), Ok(Reply::Flag(false)));
    assert_eq!(h.call(delete("/y", true)), Ok(Reply::Flag(true)));
}

#[test]
fn complete_waits_for_two_disks_and_publishes_in_one_step() {
    let mut h = Harness::with_nodes(1, 3);
    h.write("/out", 7, 3);
    let file = created(h.call(create("/out._COPYING_", false, None, true)));
    let first = file.first_block.clone().unwrap();
    let complete = |block: &LocatedBlock, durable_count, overwrite| {
        let last = written_durably(block, 500, durable_count);
        let publish = Some(Publish { path: dfs("/out"), overwrite });
        Call::Complete { file: file.file, last: Some(last), publish }
    };
    let (kind, message) = refusal(h.call(complete(&first, 2, false)));
    assert_eq!(
        (kind, message.as_str()),
        (ErrorKind::AlreadyExists, "rename destination /out already exists")
    );
    assert!(h.state.ns.file(file.file).unwrap().open.is_some(), "nothing happened");
    let records = h.records.len();
    assert_eq!(h.call(complete(&first, 2, true)), Ok(Reply::Done));
    assert_eq!(h.records.len(), records + 1, "close, replace and rename are one record");
    assert_eq!(h.state.ns.path_of(file.file).unwrap(), "/out");
    assert_eq!(h.holders(first.id).len(), 2, "the third has not reported");
    h.work();
    let deletions = h.commands.iter().filter(|(_, command)| matches!(command, Command::Delete(_)));
    assert_eq!(deletions.count(), 3, "the old file's replicas");
}

#[test]
fn answers_outlive_a_restart_with_and_without_a_checkpoint() {
    for with_checkpoint in [false, true] {
        let mut h = Harness::with_nodes(1, 3);
        let calls = [
            Call::Mkdirs { path: dfs("/d"), mode: 0o755, unmasked: None, parents: false },
            create("/d/f", false, None, true),
            Call::Delete { path: dfs("/d/f"), recursive: false },
            Call::Rename { from: dfs("/d"), to: dfs("/e"), overwrite: None },
        ];
        let mut answers = Vec::new();
        for call in &calls {
            answers.push((h.number() + 1, call.clone(), h.call(call.clone())));
            if with_checkpoint {
                h.checkpoint();
            }
        }
        let before = canonical(&mut h.state.ns);
        let loaded = h.reload();
        h.state = State::new(loaded, settings(), Generator::new(5), h.now);
        for number in 1..=3 {
            h.register(number);
            h.report(number, vec![], vec![]);
        }
        h.work();
        for (number, call, answer) in answers {
            assert_eq!(h.call_again(number, call.clone()), answer, "{call:?}");
        }
        assert_eq!(canonical(&mut h.state.ns), before, "nothing happened twice");
    }
}

#[test]
fn a_failed_pipeline_goes_on_under_a_new_stamp() {
    let mut h = Harness::with_nodes(1, 4);
    let file = created(h.call(create("/f", false, None, true)));
    let first = file.first_block.unwrap();
    let failed = first.replicas[1].id;
    let recover = Call::RecoverPipeline {
        file: file.file,
        block: written(&first, 300),
        failed: vec![failed],
        slow: None,
    };
    let second = block(h.call(recover));
    assert_eq!(second.id, first.id);
    assert!(second.stamp > first.stamp);
    assert_eq!(second.length, 300);
    let ids: Vec<_> = second.replicas.iter().map(|info| info.id).collect();
    assert_eq!(ids[..2], [first.replicas[0].id, first.replicas[2].id], "survivors in their order");
    assert!(ids.len() == 3 && !ids.contains(&failed), "and the fourth DataNode");
    let stale = Call::Complete { file: file.file, last: Some(written(&first, 900)), publish: None };
    assert_eq!(refusal(h.call(stale)).0, ErrorKind::InvalidArgument);
    let last = Some(written(&second, 900));
    assert_eq!(h.call(Call::Complete { file: file.file, last, publish: None }), Ok(Reply::Done));
    // The failed DataNode comes back with its old replica.
    let number = failed.0[0];
    h.commands.clear();
    h.changes(number, &Changes { received: vec![replica(&first, 300)], ..Changes::default() });
    h.work();
    assert!(!h.holders(first.id).contains(&number));
    let expected = Command::Delete(vec![(first.id, first.stamp)]);
    assert_eq!(h.commands, [(h.node(number), expected)]);
}

#[test]
fn a_datanode_that_held_up_a_pipeline_is_spared_where_others_can_take_the_block() {
    let mut h = Harness::with_nodes(1, 4);
    let file = created(h.call(create("/f", false, None, true)));
    let first = file.first_block.unwrap();
    let slow = first.replicas[1].id;
    let recover = Call::RecoverPipeline {
        file: file.file,
        block: written(&first, 300),
        failed: vec![slow],
        slow: Some(slow),
    };
    let second = block(h.call(recover));
    assert!(second.replicas.iter().all(|replica| replica.id != slow));
    let has_slow = |h: &mut Harness, name: String, replication| {
        let file = created(h.call(create(&name, false, Some(replication), true)));
        file.first_block.unwrap().replicas.iter().any(|replica| replica.id == slow)
    };
    for number in 0..20 {
        assert!(!has_slow(&mut h, format!("/a{number}"), 3), "three others are there");
        assert!(has_slow(&mut h, format!("/b{number}"), 4), "four are only there with it");
    }
    for _ in 0..61 {
        h.pass(5000, &[1, 2, 3, 4]);
    }
    assert!((0..20).any(|number| has_slow(&mut h, format!("/c{number}"), 3)), "not for ever");
}

#[test]
fn a_file_whose_writer_died_is_recovered() {
    let mut h = Harness::with_nodes(1, 3);
    let alive = [1, 2, 3];
    let file = created(h.call(create("/f", false, None, true)));
    let open = file.first_block.unwrap();
    h.pass(4900, &alive);
    assert!(ordered(&h, &open).is_none(), "not before the hard limit");
    h.call(Call::RenewLease).unwrap();
    h.pass(4900, &alive);
    assert!(ordered(&h, &open).is_none(), "renewed");
    h.pass(200, &alive);
    let (leader, stamp) = ordered(&h, &open).unwrap();
    assert!(stamp > open.stamp);
    h.pass(3500, &alive);
    assert_eq!(ordered(&h, &open), Some((leader, stamp)), "it is under way");
    h.pass(500, &alive);
    let (other, newer) = ordered(&h, &open).unwrap();
    assert!(newer > stamp && other != leader, "ordered again, of another DataNode");
    let ids: Vec<DatanodeId> = open.replicas.iter().map(|info| info.id).collect();
    let late = commit_on(&mut h, &open, stamp, (700, ids.clone())).unwrap_err();
    assert_eq!(late.kind, ErrorKind::InvalidArgument, "the first recovery was replaced");
    let stolen = Call::Complete { file: file.file, last: Some(written(&open, 800)), publish: None };
    assert_eq!(refusal(h.call(stolen)).0, ErrorKind::LeaseExpired);
    commit_on(&mut h, &open, newer, (700, ids[..2].to_vec())).unwrap();
    commit_on(&mut h, &open, newer, (700, ids[..2].to_vec())).unwrap();
    let Ok(Reply::Status(status)) = h.call(Call::Status(dfs("/f"))) else { panic!("no status") };
    assert_eq!((status.length, status.open), (700, false));
    assert_eq!(h.holders(open.id), [ids[0].0[0].min(ids[1].0[0]), ids[0].0[0].max(ids[1].0[0])]);
    h.checkpoint();
    assert_eq!(canonical(&mut h.reload().ns), canonical(&mut h.state.ns));
}

#[test]
fn recovery_works_after_a_restart_and_without_any_replica() {
    let mut h = Harness::with_nodes(1, 3);
    let file = created(h.call(create("/f", false, None, true)));
    let open = file.first_block.unwrap();
    let lost = created(h.call(create("/lost", false, None, true))).first_block.unwrap();
    h.checkpoint();
    h.state = State::new(h.reload(), settings(), Generator::new(5), h.now);
    h.nodes = crate::core::nodes::Datanodes::new(1000, 2000, 100);
    h.state.safe_mode = SafeMode::Off;
    let number = open.replicas[0].id.0[0];
    h.register(number);
    h.report(number, vec![], vec![replica(&open, 123)]);
    h.pass(5100, &[number]);
    let (leader, stamp) = ordered(&h, &open).unwrap();
    assert_eq!(leader, number);
    commit_on(&mut h, &open, stamp, (123, vec![DatanodeId([number; 16])])).unwrap();
    assert_eq!(h.state.ns.file(file.file).unwrap().length, 123);
    // Nobody but dead DataNodes has the other: in the end it is closed without the block.
    let ids: Vec<u8> = lost.replicas.iter().map(|info| info.id.0[0]).collect();
    assert!(ids.contains(&number));
    h.pass(20_000, &[]);
    let status = match h.call(Call::Status(dfs("/lost"))) {
        Ok(Reply::Status(status)) => status,
        other => panic!("{other:?}"),
    };
    assert_eq!((status.length, status.open), (0, false));
}

#[test]
fn a_deleted_open_file_is_in_no_later_record() {
    let mut h = Harness::with_nodes(1, 3);
    for number in 0..50 {
        created(h.call(create(&format!("/d/f{number}"), false, None, true)));
    }
    let open = created(h.call(create("/d/a", false, None, true))).first_block.unwrap();
    h.checkpoint();
    assert_eq!(h.call(delete("/d", true)), Ok(Reply::Flag(true)));
    assert!(h.state.ns.block(open.id).is_some(), "not collected yet");
    let records = h.records.len();
    h.now.mono_ms += 6000;
    let mut out = Output::default();
    let now = h.now;
    h.state.tick(&mut h.nodes, now, &mut out).unwrap();
    assert!(out.records.is_empty(), "its lease is over, but nobody cares");
    let ids = open.replicas.iter().map(|info| info.id).collect();
    assert!(commit_on(&mut h, &open, open.stamp, (5, ids)).is_err());
    assert_eq!(h.records.len(), records);
    assert_eq!(canonical(&mut h.reload().ns), canonical(&mut h.state.ns));
}

#[test]
fn other_clients_take_over() {
    let mut h = Harness::with_nodes(1, 3);
    let file = created(h.call(create("/f", false, None, true)));
    let open = file.first_block.unwrap();
    h.client = ClientId([2; 16]);
    let busy = refusal(h.call(create("/f", false, None, true)));
    assert_eq!(busy.0, ErrorKind::AlreadyBeingCreated);
    assert!(busy.1.starts_with("Failed to CREATE_FILE /f for"), "{}", busy.1);
    h.pass(1100, &[1, 2, 3]);
    let soft = refusal(h.call(create("/f", false, None, true)));
    assert_eq!(soft.0, ErrorKind::RecoveryInProgress, "the soft limit is over");
    let (_, stamp) = ordered(&h, &open).unwrap();
    assert_eq!(stamp, stamp_after(open.stamp));
    assert_eq!(h.call(Call::RecoverLease(dfs("/f"))), Ok(Reply::Flag(false)));
    commit(&mut h, &open, stamp, 5);
    assert_eq!(h.call(Call::RecoverLease(dfs("/f"))), Ok(Reply::Flag(true)));
    let empty = created(h.call(create("/g", false, None, false)));
    h.client = ClientId([1; 16]);
    assert_eq!(h.call(Call::RecoverLease(dfs("/g"))), Ok(Reply::Flag(true)), "no block: at once");
    h.client = ClientId([2; 16]);
    let late = Call::Complete { file: empty.file, last: None, publish: None };
    assert_eq!(refusal(h.call(late)).0, ErrorKind::LeaseExpired);
}

/// A NameNode that stood still heard nobody: whoever called before keeps what it writes, and is given up after its own silence only.
#[test]
fn a_writer_does_not_pay_for_a_namenode_that_stood_still() {
    let mut h = Harness::with_nodes(1, 3);
    created(h.call(create("/f", false, None, true)));
    h.pass(500, &[1, 2, 3]);
    h.now.mono_ms += 3_600_000;
    h.client = ClientId([2; 16]);
    let busy = refusal(h.call(create("/f", false, None, true)));
    assert_eq!(busy.0, ErrorKind::AlreadyBeingCreated);
    h.client = ClientId([1; 16]);
    assert_eq!(h.call(Call::RenewLease), Ok(Reply::Done), "what was sent meanwhile");
    h.pass(900, &[1, 2, 3]);
    h.client = ClientId([2; 16]);
    let busy = refusal(h.call(create("/f", false, None, true)));
    assert_eq!(busy.0, ErrorKind::AlreadyBeingCreated);
    h.pass(100, &[1, 2, 3]);
    let silent = refusal(h.call(create("/f", false, None, true)));
    assert_eq!(silent.0, ErrorKind::RecoveryInProgress);
}

/// A writer ends its own file by the inode, never what is at the path by now.
#[test]
fn an_abandoned_file_is_the_writers_own() {
    let mut h = Harness::with_nodes(1, 3);
    let (first, second) = (ClientId([1; 16]), ClientId([2; 16]));
    let abandon = |file, keep, unused| Call::AbandonFile { file, keep, unused };
    h.client = first;
    let lost = created(h.call(create("/f", false, None, true)));
    h.client = second;
    let other = created(h.call(create("/f", true, None, true)));
    h.client = first;
    for keep in [false, true] {
        for file in [lost.file, other.file] {
            let refused = refusal(h.call(abandon(file, keep, None)));
            assert_eq!(refused.0, ErrorKind::LeaseExpired);
        }
    }
    let status = h.call(Call::Status(dfs("/f")));
    assert!(matches!(status, Ok(Reply::Status(status)) if status.inode == other.file));
    // Wherever it is by now.
    h.client = second;
    let rename = Call::Rename { from: dfs("/f"), to: dfs("/g"), overwrite: Some(false) };
    assert_eq!(h.call(rename), Ok(Reply::Done));
    assert_eq!(h.call(abandon(other.file, false, None)), Ok(Reply::Flag(true)));
    assert_eq!(refusal(h.call(Call::Status(dfs("/g")))).0, ErrorKind::NotFound);
}

/// What was promised stays. A last block to which nothing was sent goes without asking anybody; others are recovered.
#[test]
fn an_abandoned_file_that_is_kept_is_closed() {
    let mut h = Harness::with_nodes(1, 3);
    let abandon = |file, unused| Call::AbandonFile { file, keep: true, unused };
    for (path, is_unused) in [("/empty", true), ("/begun", false)] {
        let made = created(h.call(create(path, false, None, true)));
        let open = made.first_block.unwrap();
        let unused = is_unused.then_some(open.id);
        assert_eq!(h.call(abandon(made.file, unused)), Ok(Reply::Flag(is_unused)));
        assert_eq!(ordered(&h, &open).is_none(), is_unused);
        if let Some((_, stamp)) = ordered(&h, &open) {
            commit(&mut h, &open, stamp, 5);
        }
        let length = if is_unused { 0 } else { 5 };
        let status = h.call(Call::Status(dfs(path)));
        let is_closed =
            |found: &protocol::namenode::FileStatus| !found.open && found.length == length;
        assert!(matches!(&status, Ok(Reply::Status(found)) if is_closed(found)), "{status:?}");
    }
    let empty = created(h.call(create("/none", false, None, false)));
    assert_eq!(h.call(abandon(empty.file, None)), Ok(Reply::Flag(true)));
}

#[test]
fn safe_mode_ends_when_the_blocks_are_there() {
    let mut h = Harness::with_nodes(1, 3);
    let blocks: Vec<LocatedBlock> =
        (0..10).map(|number| h.write(&format!("/f{number}"), 10, 3)).collect();
    h.state = State::new(h.replay(), settings(), Generator::new(5), h.now);
    h.nodes = crate::core::nodes::Datanodes::new(1000, 2000, 100);
    let all: Vec<Replica> = blocks.iter().map(|block| replica(block, 10)).collect();
    h.work();
    assert!(h.state.is_safe_mode_on());
    h.register(1);
    h.work();
    assert!(h.state.is_safe_mode_on(), "it has not reported");
    h.report(1, all[..5].to_vec(), vec![]);
    h.pass(5000, &[1]);
    assert!(h.state.is_safe_mode_on(), "half of the blocks");
    assert!(h.commands.is_empty(), "and nothing is ordered");
    h.register(2);
    h.report(2, all[5..].to_vec(), vec![]);
    h.work();
    assert!(!h.state.is_safe_mode_on());
    assert!(!h.commands.is_empty(), "now copies are made");
}

#[test]
fn a_block_on_one_disk_is_committed_and_copied_before_its_writer_is_told() {
    for more in [false, true] {
        let mut h = Harness::with_nodes(1, 4);
        let file = created(h.call(create("/f", false, None, true)));
        let first = file.first_block.unwrap();
        let survivor = first.replicas[0].id;
        let last = written_on((first.id, first.stamp), 500, vec![survivor], 1);
        let again = match more {
            true => Call::AddBlock { file: file.file, previous: Some(last), exclude: Vec::new() },
            false => Call::Complete { file: file.file, last: Some(last), publish: None },
        };
        assert_eq!(refusal(h.call(again.clone())).0, ErrorKind::NotReplicatedYet);
        assert_eq!(h.state.ns.file(file.file).unwrap().length, 500, "committed");
        assert_eq!(canonical(&mut h.replay().ns), canonical(&mut h.state.ns), "and journalled");
        h.work();
        let [(source, Command::Replicate { targets, .. })] = &h.commands[..] else {
            panic!("{:?}", h.commands);
        };
        assert_eq!((*source, targets.len()), (h.node(survivor.0[0]), 2), "copies at once");
        let target = targets[0].id.0[0];
        let number = h.number();
        let refused = refusal(h.call_again(number, again.clone()));
        assert_eq!(refused.0, ErrorKind::NotReplicatedYet, "the same call is judged anew");
        h.changes(target, &Changes { received: vec![replica(&first, 500)], ..Changes::default() });
        match h.call_again(number, again.clone()) {
            Ok(Reply::Block(block)) => assert_eq!(block.offset, 500),
            answer => assert_eq!(answer, Ok(Reply::Done)),
        }
        let records = h.records.len();
        h.call_again(number, again).unwrap();
        assert_eq!(h.records.len(), records, "the good answer is remembered");
    }
}

/// The last member of a pipeline that finishes may have reported the replica before, as unfinished.
#[test]
fn a_replica_that_is_about_to_be_finished_is_not_deleted() {
    let mut h = Harness::with_nodes(1, 4);
    let file = created(h.call(create("/f", false, None, true)));
    let first = file.first_block.unwrap();
    let unsynced = first.replicas[0].id.0[0];
    h.report(unsynced, Vec::new(), vec![replica(&first, 200)]);
    let last = written_durably(&first, 500, 2);
    let complete = Call::Complete { file: file.file, last: Some(last), publish: None };
    assert_eq!(h.call(complete), Ok(Reply::Done));
    h.work();
    assert_eq!((h.state.blocks.doomed_count(), h.commands.len()), (0, 0), "{:?}", h.commands);
    let received = Changes { received: vec![replica(&first, 500)], ..Changes::default() };
    h.changes(unsynced, &received);
    assert!(h.holders(first.id).contains(&unsynced));
}

#[test]
fn a_replica_that_is_not_on_disk_counts_when_it_is_reported() {
    // Whether the first DataNode reports before the end, after it, or never.
    for (before, after) in [(true, false), (false, true), (false, false)] {
        let mut h = Harness::with_nodes(1, 4);
        let file = created(h.call(create("/f", false, None, true)));
        let first = file.first_block.unwrap();
        let unsynced = first.replicas[0].id.0[0];
        let received = Changes { received: vec![replica(&first, 500)], ..Changes::default() };
        if before {
            h.changes(unsynced, &received);
        }
        let last = written_durably(&first, 500, 2);
        let complete = Call::Complete { file: file.file, last: Some(last), publish: None };
        assert_eq!(h.call(complete), Ok(Reply::Done));
        assert_eq!(h.holders(first.id).contains(&unsynced), before);
        h.work();
        assert!(h.commands.is_empty(), "it is waited for");
        if after {
            h.changes(unsynced, &received);
        }
        h.pass(500, &[1, 2, 3, 4]);
        assert_eq!(h.holders(first.id).contains(&unsynced), before || after);
        assert_eq!(h.commands.is_empty(), before || after, "{:?}", h.commands);
    }
}

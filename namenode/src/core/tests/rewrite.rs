//! Append, sync, truncate and concat: scenarios, refusals in HDFS's words, and random sequences against lists of bytes.

use std::collections::{BTreeMap, BTreeSet};

use protocol::datanode::{Changes, Command, CommitRecovery, Replica};
use protocol::namenode::{
    Answer, Appended, Call, CorruptReason, LocatedBlock, Reply, WrittenBlock,
};
use protocol::{CallId, ClientId, DatanodeId, ErrorKind, GenerationStamp};

use super::harness::{Harness, canonical, create, dfs, replica, written, written_durably};
use crate::core::random::Generator;
use crate::core::state::Output;

fn append(path: &str) -> Call {
    Call::Append { path: dfs(path), new_block: false }
}

fn appended(answer: Answer) -> Appended {
    match answer {
        Ok(Reply::Appended(appended)) => appended,
        other => panic!("{other:?}"),
    }
}

fn last_of(h: &mut Harness, path: &str) -> LocatedBlock {
    let all = Call::Locations { path: dfs(path), offset: 0, length: u64::MAX };
    match h.call(all) {
        Ok(Reply::Located(mut located)) => located.blocks.pop().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn length_of(h: &mut Harness, path: &str) -> (u64, bool) {
    match h.call(Call::Status(dfs(path))) {
        Ok(Reply::Status(status)) => (status.length, status.open),
        other => panic!("{other:?}"),
    }
}

fn complete(h: &mut Harness, file: &Appended, last: Option<WrittenBlock>) {
    let call = Call::Complete { file: file.file, last, publish: None };
    assert_eq!(h.call(call), Ok(Reply::Done));
}

fn refused(h: &mut Harness, call: Call) -> (ErrorKind, String) {
    let error = h.call(call).unwrap_err();
    (error.kind, error.message)
}

fn end_recovery(
    h: &mut Harness,
    block: &LocatedBlock,
    stamp: GenerationStamp,
    (length, replicas): (u64, Vec<DatanodeId>),
) -> Result<(), ErrorKind> {
    let (block, answered, without) = (block.id, Vec::new(), Vec::new());
    let commit = CommitRecovery { block, stamp, length, replicas, answered, without };
    let mut out = Output::default();
    let now = h.now;
    let answer = h.state.commit_recovery(&mut h.nodes, &commit, now, &mut out).unwrap();
    h.records.extend(out.records);
    answer.map_err(|error| error.kind)
}

#[test]
fn an_appended_block_keeps_its_bytes_whoever_dies() {
    let mut h = Harness::with_nodes(1, 4);
    let first = h.write("/f", 500, 3);
    let file = appended(h.call(append("/f")));
    let last = file.last.clone().unwrap();
    assert_eq!((last.id, last.length, file.length, file.prior), (first.id, 500, 500, first.stamp));
    assert!(last.stamp > first.stamp);
    assert_eq!(length_of(&mut h, "/f"), (500, true), "it has not become shorter");
    let seen = last_of(&mut h, "/f");
    assert_eq!((seen.stamp, seen.length, seen.open), (first.stamp, 500, true), "and is readable");
    h.check_replay();
    // The writer dies before any DataNode has received the new stamp.
    h.pass(5100, &[1, 2, 3, 4]);
    let recover = h.commands.iter().rev().find_map(|(_, command)| match command {
        Command::Recover { old_stamp, stamp, length_min, .. } => {
            Some((*old_stamp, *stamp, *length_min))
        }
        _ => None,
    });
    let (old_stamp, stamp, length_min) = recover.unwrap();
    assert_eq!((old_stamp, length_min), (first.stamp, 500), "the old replicas have a vote");
    let ids: Vec<DatanodeId> = last.replicas.iter().map(|info| info.id).collect();
    let short = end_recovery(&mut h, &last, stamp, (499, ids.clone()));
    assert_eq!(short, Err(ErrorKind::InvalidArgument), "nothing that was promised is cut off");
    let none = end_recovery(&mut h, &last, stamp, (0, vec![]));
    assert_eq!(none, Err(ErrorKind::InvalidArgument));
    end_recovery(&mut h, &last, stamp, (510, ids)).unwrap();
    assert_eq!(length_of(&mut h, "/f"), (510, false));
    h.check_replay();
}

/// Also while a NameNode that has just started does not know all replicas.
#[test]
fn a_replica_that_arrives_while_its_block_is_written_on_is_deleted_when_that_is_done() {
    let mut h = Harness::with_nodes(1, 4);
    let old = h.write("/old", 500, 1);
    h.restart_alone();
    for number in 1..=4 {
        h.register(number);
    }
    h.report(old.replicas[0].id.0[0], vec![replica(&old, 500)], Vec::new());
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let first = created.first_block.unwrap();
    let late = first.replicas[0].id;
    let last = Some(written_durably(&first, 500, 2));
    let complete = |last| Call::Complete { file: created.file, last, publish: None };
    assert_eq!(h.call(complete(last)), Ok(Reply::Done));
    let second = appended(h.call(append("/f"))).last.unwrap();
    assert!(second.replicas.iter().all(|member| member.id != late), "it has not reported it");
    let received = vec![replica(&first, 500)];
    h.changes(late.0[0], &Changes { received, ..Changes::default() });
    assert_eq!(h.call(complete(Some(written(&second, 600)))), Ok(Reply::Done));
    h.work();
    // Until it knows all replicas.
    h.pass(31_000, &[1, 2, 3, 4]);
    let deleted = (h.node(late.0[0]), up_to_before(&second));
    assert!(h.commands.contains(&deleted), "{:?}", h.commands);
}

/// What a DataNode left behind when its writer was stopped arrives after the writer says that all is there.
#[test]
fn a_report_from_before_the_last_stamp_takes_no_good_replica_away() {
    let mut h = Harness::with_nodes(1, 3);
    let first = h.write("/f", 500, 3);
    let file = appended(h.call(append("/f")));
    let last = file.last.clone().unwrap();
    complete(&mut h, &file, Some(written(&last, 600)));
    let holders = h.holders(first.id);
    for late in [
        Changes { unfinished: vec![replica(&first, 500)], ..Changes::default() },
        Changes { received: vec![replica(&first, 500)], ..Changes::default() },
        Changes { received: vec![replica(&last, 600)], ..Changes::default() },
    ] {
        h.changes(last.replicas[0].id.0[0], &late);
        assert_eq!(h.holders(first.id), holders, "{late:?}");
    }
    // Once the node has reported the newest itself, an older one is what it has left: the disk of the newer one failed.
    let older = Changes { received: vec![replica(&first, 500)], ..Changes::default() };
    h.changes(last.replicas[0].id.0[0], &older);
    assert_eq!(h.holders(first.id).len(), 2);
    let newer = Changes { received: vec![replica(&last, 600)], ..Changes::default() };
    last.replicas.iter().for_each(|member| h.changes(member.id.0[0], &newer));
    assert_eq!(h.holders(first.id), holders);
    // A full report later on is the truth, and so is what the node says after it.
    h.pass(200_000, &[1, 2, 3]);
    let number = last.replicas[0].id.0[0];
    h.report(number, vec![replica(&first, 500)], Vec::new());
    assert_eq!(h.holders(first.id).len(), 2);
    h.changes(number, &Changes { received: vec![replica(&last, 600)], ..Changes::default() });
    assert_eq!(h.holders(first.id).len(), 3);
    h.state.blocks.check(&h.state.ns);
}

/// The order to delete what is older than this block.
fn up_to_before(block: &LocatedBlock) -> Command {
    Command::Delete(vec![(block.id, GenerationStamp(block.stamp.0 - 1))])
}

/// The only one that went on may have done so on damaged bytes.
#[test]
fn stale_replicas_stay_until_there_are_enough_good_ones() {
    let mut h = Harness::with_nodes(1, 3);
    let first = h.write("/f", 500, 3);
    let file = appended(h.call(append("/f")));
    let last = file.last.clone().unwrap();
    let [left, one, other] = [0, 1, 2].map(|place: usize| last.replicas[place].id);
    let failed = vec![left];
    let recover =
        Call::RecoverPipeline { file: file.file, block: written(&last, 500), failed, slow: None };
    let Ok(Reply::Block(second)) = h.call(recover) else { panic!("no pipeline") };
    complete(&mut h, &file, Some(written(&second, 600)));
    h.work();
    let deleted = (h.node(left.0[0]), up_to_before(&second));
    assert!(h.commands.contains(&deleted), "two are enough: {:?}", h.commands);
    h.changes(left.0[0], &Changes { deleted: vec![first.id], ..Changes::default() });
    h.commands.clear();
    let bad = |h: &mut Harness, id: DatanodeId| {
        let bad = vec![replica(&second, 600)];
        h.changes(id.0[0], &Changes { bad, ..Changes::default() });
        h.work();
    };
    // They cannot be copied: their bytes are bad.
    bad(&mut h, one);
    for stale in [
        Changes { received: vec![replica(&first, 500)], ..Changes::default() },
        Changes { unfinished: vec![replica(&last, 550)], ..Changes::default() },
    ] {
        h.changes(left.0[0], &stale);
        h.work();
    }
    bad(&mut h, other);
    let is_delete = |(_, command): &(_, Command)| matches!(command, Command::Delete(_));
    assert!(!h.commands.iter().any(is_delete), "{:?}", h.commands);
    let seen: Vec<_> = h.state.blocks.corrupt_replicas(first.id).map(|(_, why)| why).collect();
    let stale = |why: &&CorruptReason| **why == CorruptReason::GenstampMismatch;
    assert_eq!((seen.len(), seen.iter().filter(stale).count()), (3, 1));
    assert_eq!(last_of(&mut h, "/f").replicas.len(), 2, "no stale one is offered to a reader");
    h.state.blocks.check(&h.state.ns);
}

#[test]
fn replicas_count_under_their_old_stamp_until_the_pipeline_works() {
    let mut h = Harness::with_nodes(1, 5);
    let first = h.write("/f", 500, 3);
    let file = appended(h.call(append("/f")));
    let last = file.last.clone().unwrap();
    let left = last.replicas[0].id;
    let recover = |block: &LocatedBlock, length, failed: &[DatanodeId]| Call::RecoverPipeline {
        file: file.file,
        block: written(block, length),
        failed: failed.to_vec(),
        slow: None,
    };
    let prior = |h: &Harness| h.state.ns.file(file.file).unwrap().open.as_deref().unwrap().prior;
    let Ok(Reply::Block(second)) = h.call(recover(&last, 500, &[left])) else {
        panic!("no pipeline")
    };
    assert_eq!(prior(&h), Some(first.stamp), "nobody has acknowledged anything since");
    let sync = |block: &LocatedBlock, length| Call::SyncBlock {
        file: file.file,
        block: block.id,
        stamp: block.stamp,
        length,
    };
    assert_eq!(refused(&mut h, sync(&last, 600)).0, ErrorKind::InvalidArgument, "an old stamp");
    assert_eq!(h.call(sync(&second, 600)), Ok(Reply::Done));
    assert_eq!((prior(&h), length_of(&mut h, "/f")), (None, (600, true)));
    assert_eq!(refused(&mut h, sync(&second, 599)).0, ErrorKind::InvalidArgument, "shorter");
    let abandon = Call::AbandonBlock { file: file.file, block: last.id };
    assert_eq!(refused(&mut h, abandon).0, ErrorKind::InvalidArgument, "it has data");
    let next = second.replicas[1].id;
    let Ok(Reply::Block(third)) = h.call(recover(&second, 600, &[left, next])) else {
        panic!("no pipeline")
    };
    assert_eq!(prior(&h), Some(second.stamp));
    h.check_replay();
    h.commands.clear();
    complete(&mut h, &file, Some(written(&third, 700)));
    h.work();
    let stale: Vec<_> = h
        .commands
        .iter()
        .filter(|(node, command)| {
            *node == h.node(left.0[0]) && matches!(command, Command::Delete(_))
        })
        .collect();
    assert_eq!(stale.len(), 1, "the replica that was left behind goes: {:?}", h.commands);
    assert_eq!(length_of(&mut h, "/f"), (700, false));
    h.check_replay();
}

#[test]
fn appending_goes_on_in_the_last_block_or_after_it() {
    let mut h = Harness::with_nodes(1, 3);
    h.write("/full", 1000, 3);
    h.write("/part", 10, 3);
    assert_eq!(appended(h.call(append("/full"))).last, None, "it has no room");
    let call = Call::Append { path: dfs("/part"), new_block: true };
    let file = appended(h.call(call));
    assert_eq!((file.last.clone(), file.length), (None, 10));
    let add = Call::AddBlock { file: file.file, previous: None, exclude: vec![] };
    let Ok(Reply::Block(block)) = h.call(add) else { panic!("no block") };
    assert_eq!(block.offset, 10);
    complete(&mut h, &file, Some(written(&block, 20)));
    assert_eq!(length_of(&mut h, "/part"), (30, false));
    h.check_replay();
}

#[test]
fn refusals_speak_hdfs() {
    let mut h = Harness::with_nodes(1, 3);
    for (path, length) in [("/a/f", 10), ("/a/g", 10), ("/b/f", 10)] {
        h.write(path, length, 3);
    }
    h.call(create("/a/empty", false, None, false)).unwrap();
    let concat = |target: &str, sources: &[&str]| Call::Concat {
        target: dfs(target),
        sources: sources.iter().map(|source| dfs(source)).collect(),
    };
    let truncate = |path: &str, length| Call::Truncate { path: dfs(path), length };
    let own = CallId { client: h.client, number: 0 }.of("ann").client;
    let busy = format!(
        "Failed to APPEND_FILE /a/empty for {own} on host1 because current leaseholder is trying to recreate file."
    );
    use ErrorKind::{AlreadyBeingCreated, AlreadyExists, InvalidArgument, NotFound};
    let table: &[(Call, ErrorKind, &str)] = &[
        (append("/q"), NotFound, "Failed to append to non-existent file /q for client host1"),
        (
            append("/a"),
            AlreadyExists,
            "Cannot append to directory /a; already exists as a directory.",
        ),
        (append("/a/empty"), AlreadyBeingCreated, &busy),
        (truncate("/q", 1), NotFound, "File does not exist: /q"),
        (truncate("/a", 1), NotFound, "Path is not a file: /a"),
        (
            truncate("/a/f", 11),
            InvalidArgument,
            "Cannot truncate to a larger file size. Current size: 10, truncate size: 11.",
        ),
        (concat("/a/f", &[]), InvalidArgument, "No sources given"),
        (
            concat("/a/f", &["/b/f"]),
            InvalidArgument,
            "Source file /b/f is not in the same directory with the target /a/f",
        ),
        (
            concat("/a/f", &["/a/f"]),
            InvalidArgument,
            "concat: the src file /a/f is the same with the target file /a/f",
        ),
        (
            concat("/a/f", &["/a/empty"]),
            InvalidArgument,
            "concat: source file /a/empty is invalid or empty or underConstruction",
        ),
        (
            concat("/a/f", &["/a/g", "/a/g"]),
            InvalidArgument,
            "concat: at least two of the source files are the same",
        ),
        (
            concat("/a/empty", &["/a/g"]),
            InvalidArgument,
            "concat: target file /a/empty is under construction",
        ),
        (concat("/a/f", &["/a/q"]), NotFound, "File does not exist: /a/q"),
    ];
    let before = canonical(&mut h.state.ns);
    for (call, kind, message) in table {
        let found = refused(&mut h, call.clone());
        assert_eq!((found.0, found.1.as_str()), (*kind, *message), "{call:?}");
    }
    assert_eq!(canonical(&mut h.state.ns), before, "nothing has changed");
    h.client = ClientId([2; 16]);
    let (kind, message) = refused(&mut h, append("/a/empty"));
    let end = format!("on host1 because this file lease is currently owned by {own}");
    assert!(kind == AlreadyBeingCreated && message.ends_with(&end), "{message}");
}

#[test]
fn a_cut_that_is_tried_again_leaves_out_one_target_after_the_other() {
    let wanted = [(3u8, [3, 2, 2, 2, 2, 2]), (2, [2, 1, 1, 2, 2, 1]), (1, [1; 6])];
    for (replicas, expected) in wanted {
        let mut h = Harness::with_nodes(1, replicas);
        h.write("/f", 500, replicas.into());
        assert_eq!(h.call(Call::Truncate { path: dfs("/f"), length: 123 }), Ok(Reply::Flag(false)));
        let mut tries: Vec<Vec<_>> = Vec::new();
        while tries.len() < expected.len() {
            h.commands.clear();
            h.pass(100, &Vec::from_iter(1..=replicas));
            tries.extend(h.commands.iter().filter_map(|(leader, command)| match command {
                Command::Cut { targets, .. } => {
                    assert_eq!(h.nodes.node(*leader).info.id, targets[0].id, "it makes one itself");
                    Some(targets.iter().map(|info| info.id).collect())
                }
                _ => None,
            }));
        }
        assert_eq!(tries.iter().map(Vec::len).collect::<Vec<_>>(), expected, "{replicas} replicas");
        let all: BTreeSet<_> = tries.iter().flatten().collect();
        for id in all {
            let is_left_out = tries.iter().any(|targets| !targets.contains(id));
            assert!(is_left_out || replicas == 1, "a bad target does not stay in the way");
        }
    }
}

#[test]
fn a_cut_within_a_block_is_a_copy() {
    let mut h = Harness::with_nodes(1, 3);
    let old = h.write("/f", 500, 3);
    h.commands.clear();
    let cut = Call::Truncate { path: dfs("/f"), length: 123 };
    assert_eq!(h.call(cut), Ok(Reply::Flag(false)));
    assert_eq!(length_of(&mut h, "/f"), (123, true));
    let seen = last_of(&mut h, "/f");
    let expected = (old.id, old.stamp, 123, false);
    assert_eq!((seen.id, seen.stamp, seen.length, seen.open), expected, "read from the old block");
    assert_eq!(refused(&mut h, append("/f")).0, ErrorKind::RecoveryInProgress);
    h.check_replay();
    h.pass(100, &[1, 2, 3]);
    let orders: Vec<_> = h
        .commands
        .iter()
        .filter_map(|(_, command)| match command {
            Command::Cut { source, source_stamp, block, stamp, length, targets, .. } => {
                assert_eq!((*source, *source_stamp, *length), (old.id, old.stamp, 123));
                Some((*block, *stamp, targets.iter().map(|info| info.id).collect::<Vec<_>>()))
            }
            _ => None,
        })
        .collect();
    let [(block, stamp, targets)] = &orders[..] else { panic!("{:?}", h.commands) };
    assert_eq!(targets.len(), 3);
    let new = LocatedBlock { id: *block, stamp: *stamp, ..seen };
    let (length, replicas) = (123, targets.clone());
    end_recovery(&mut h, &new, *stamp, (length, replicas)).unwrap();
    assert_eq!(length_of(&mut h, "/f"), (123, false));
    assert_eq!(h.holders(*block).len(), 3);
    h.commands.clear();
    h.work();
    let deletions = h
        .commands
        .iter()
        .filter(|(_, command)| matches!(command, Command::Delete(doomed) if doomed[0].0 == old.id));
    assert_eq!(deletions.count(), 3, "the old block goes");
    h.check_replay();
    assert_eq!(h.call(Call::Truncate { path: dfs("/f"), length: 0 }), Ok(Reply::Flag(true)));
    assert_eq!((length_of(&mut h, "/f"), h.state.ns.block_count()), ((0, false), 0));
    h.check_replay();
}

/// A cluster whose DataNodes obey at once.
struct Model {
    h: Harness,
    files: BTreeMap<String, Vec<u64>>,
    random: Generator,
}

impl Model {
    fn end_of(&mut self, file: &Appended, blocks: &mut Vec<u64>) {
        let mut last = file.last.clone();
        if let Some(block) = &last {
            let end = block.length + self.random.next_number() % (1001 - block.length);
            *blocks.last_mut().unwrap() = end;
            last = Some(LocatedBlock { length: end, ..block.clone() });
        }
        let mut previous = last.map(|block| written(&block, block.length));
        for _ in 0..self.random.below(70) {
            let (file, exclude) = (file.file, vec![]);
            let add = Call::AddBlock { file, previous: previous.take(), exclude };
            let Ok(Reply::Block(block)) = self.h.call(add) else { panic!("no block") };
            let length = 1 + self.random.next_number() % 1000;
            blocks.push(length);
            previous = Some(written(&block, length));
        }
        complete(&mut self.h, file, previous);
    }

    fn step(&mut self) {
        let names = ["/a", "/b", "/c"];
        let path = names[self.random.below(3)];
        let mut blocks = self.files.remove(path).unwrap_or_default();
        match self.random.below(5) {
            0 | 1 if !blocks.is_empty() => {
                let new_block = self.random.below(4) == 0;
                let file = appended(self.h.call(Call::Append { path: dfs(path), new_block }));
                assert_eq!(file.length, blocks.iter().sum::<u64>());
                self.end_of(&file, &mut blocks);
            }
            2 if !blocks.is_empty() => {
                let length = self.random.next_number() % (blocks.iter().sum::<u64>() + 1);
                self.truncate(path, length, &mut blocks);
            }
            3 => {
                let sources: Vec<&str> = names
                    .into_iter()
                    .filter(|name| self.files.get(*name).is_some_and(|b| !b.is_empty()))
                    .collect();
                if !sources.is_empty() && !blocks.is_empty() {
                    let paths = sources.iter().map(|source| dfs(source)).collect();
                    let call = Call::Concat { target: dfs(path), sources: paths };
                    assert_eq!(self.h.call(call), Ok(Reply::Done));
                    for source in sources {
                        blocks.extend(self.files.remove(source).unwrap());
                    }
                }
            }
            _ => {
                let length = 1 + self.random.next_number() % 1000;
                self.h.write(path, length, 3);
                blocks = vec![length];
            }
        }
        self.files.insert(path.to_owned(), blocks);
    }

    fn truncate(&mut self, path: &str, length: u64, blocks: &mut Vec<u64>) {
        let call = Call::Truncate { path: dfs(path), length };
        let at_once = self.h.call(call) == Ok(Reply::Flag(true));
        let mut rest = length;
        blocks.retain_mut(|block| {
            *block = (*block).min(rest);
            rest -= *block;
            *block > 0
        });
        if at_once {
            return;
        }
        if self.random.below(2) == 0 {
            self.h.check_replay();
        }
        self.h.commands.clear();
        self.h.pass(100, &[1, 2, 3]);
        for (_, command) in std::mem::take(&mut self.h.commands) {
            if let Command::Cut { block, stamp, length, targets, .. } = command {
                let replicas = targets.iter().map(|info| info.id).collect();
                let located = LocatedBlock { id: block, ..last_of(&mut self.h, path) };
                end_recovery(&mut self.h, &located, stamp, (length, replicas)).unwrap();
            }
        }
    }

    fn compare(&mut self) {
        for (path, blocks) in self.files.clone() {
            let answer = self.h.call(Call::Status(dfs(&path)));
            if blocks.is_empty() && answer.is_err() {
                continue;
            }
            assert_eq!(
                length_of(&mut self.h, &path),
                (blocks.iter().sum::<u64>(), false),
                "{path}"
            );
            let all = Call::Locations { path: dfs(&path), offset: 0, length: u64::MAX };
            let Ok(Reply::Located(located)) = self.h.call(all) else { panic!("no locations") };
            let lengths: Vec<u64> = located.blocks.iter().map(|block| block.length).collect();
            assert_eq!(lengths, blocks, "{path}");
        }
    }
}

#[test]
fn random_changes_keep_the_bytes_that_a_list_has() {
    needs::seeds::for_each(60, |seed| {
        let mut model = Model {
            h: Harness::with_nodes(seed, 3),
            files: BTreeMap::new(),
            random: Generator::new(seed),
        };
        for _ in 0..25 {
            model.step();
            model.compare();
        }
        model.h.check_replay();
    });
}

#[test]
fn a_block_that_was_never_written_to_goes_when_its_file_is_closed() {
    let mut h = Harness::with_nodes(1, 3);
    h.write("/full", 1000, 3);
    for round in 0..2 {
        let file = appended(h.call(append("/full")));
        let add = Call::AddBlock { file: file.file, previous: None, exclude: vec![] };
        assert!(matches!(h.call(add), Ok(Reply::Block(_))), "round {round}");
        complete(&mut h, &file, None);
        assert_eq!(length_of(&mut h, "/full"), (1000, false));
        assert_eq!(h.state.ns.file(file.file).unwrap().blocks.len(), 1);
        h.check_replay();
    }
    // A block with promised bytes does not.
    let file = appended(h.call(append("/full")));
    let add = Call::AddBlock { file: file.file, previous: None, exclude: vec![] };
    let Ok(Reply::Block(block)) = h.call(add) else { panic!("no block") };
    let sync = Call::SyncBlock { file: file.file, block: block.id, stamp: block.stamp, length: 1 };
    assert_eq!(h.call(sync), Ok(Reply::Done));
    let call = Call::Complete { file: file.file, last: None, publish: None };
    assert!(refused(&mut h, call).1.ends_with("of /full is not committed"));
}

#[test]
fn a_replica_that_reports_late_from_before_an_append_is_stale() {
    let mut h = Harness::with_nodes(1, 4);
    let first = h.write("/f", 500, 2);
    let other = (1..=4).find(|number| !h.holders(first.id).contains(number)).unwrap();
    let file = appended(h.call(append("/f")));
    let last = file.last.clone().unwrap();
    h.changes(other, &Changes { received: vec![replica(&first, 500)], ..Changes::default() });
    complete(&mut h, &file, Some(written(&last, 600)));
    assert_eq!(h.holders(first.id).len(), 2);
    h.commands.clear();
    h.work();
    let expected = Command::Delete(vec![(first.id, first.stamp)]);
    assert_eq!(h.commands, [(h.node(other), expected)]);
}

/// A recovery that was never committed has given a replica a later stamp than the metadata knows.
#[test]
fn the_order_to_delete_an_open_block_names_the_latest_stamp_that_a_node_has() {
    let mut h = Harness::with_nodes(1, 3);
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let first = created.first_block.unwrap();
    let [one, other] = [0, 1].map(|place: usize| first.replicas[place].id.0[0]);
    let later = GenerationStamp(first.stamp.0 + 1);
    let received = vec![Replica { stamp: later, ..replica(&first, 500) }];
    h.changes(one, &Changes { received, ..Changes::default() });
    h.call(Call::Delete { path: dfs("/f"), recursive: false }).unwrap();
    h.work();
    for (number, stamp) in [(one, later), (other, first.stamp)] {
        let deleted = (h.node(number), Command::Delete(vec![(first.id, stamp)]));
        assert!(h.commands.contains(&deleted), "{:?}", h.commands);
    }
}

#[test]
fn blocks_that_were_moved_stay_when_a_snapshot_of_their_former_file_is_collected() {
    for (deleted_before, checkpointed) in [(true, false), (true, true), (false, false)] {
        let mut h = Harness::with_nodes(1, 3);
        h.call(Call::Mkdirs { path: dfs("/d"), mode: 0o755, unmasked: None, parents: true })
            .unwrap();
        h.call(Call::AllowSnapshot(dfs("/d"))).unwrap();
        let take = |name: &str| Call::CreateSnapshot { path: dfs("/d"), name: Some(name.into()) };
        let delete = |name: &str| Call::DeleteSnapshot { path: dfs("/d"), name: name.into() };
        h.write("/d/f", 500, 3);
        h.write("/d/b", 700, 3);
        h.call(take("s")).unwrap();
        h.call(take("t")).unwrap();
        h.call(delete("s")).unwrap();
        if !deleted_before {
            h.work();
        }
        h.call(delete("t")).unwrap();
        if checkpointed {
            h.checkpoint();
        }
        h.call(Call::Concat { target: dfs("/d/f"), sources: vec![dfs("/d/b")] }).unwrap();
        h.work();
        h.check_replay();
        assert_eq!(h.state.ns.block_count(), 2, "{deleted_before} {checkpointed}");
        let loaded = if checkpointed { h.reload() } else { h.replay() };
        h.restart(loaded);
        h.work();
        assert_eq!(h.state.ns.block_count(), 2, "{deleted_before} {checkpointed}");
        assert_eq!(length_of(&mut h, "/d/f"), (1200, false));
    }
}

/// A replay does not collect between the records: former versions of a file can wait for that when the file is joined to another.
#[test]
fn what_a_replay_makes_of_a_joined_file_that_had_former_versions_loads_again() {
    let mut h = Harness::with_nodes(1, 3);
    h.call(Call::Mkdirs { path: dfs("/d"), mode: 0o755, unmasked: None, parents: true }).unwrap();
    h.call(Call::AllowSnapshot(dfs("/d"))).unwrap();
    h.write("/d/f", 500, 3);
    h.write("/d/b", 700, 3);
    h.call(Call::CreateSnapshot { path: dfs("/d"), name: Some("s".to_owned()) }).unwrap();
    h.call(Call::SetMode { path: dfs("/d/b"), mode: 0o600 }).unwrap();
    h.call(Call::DeleteSnapshot { path: dfs("/d"), name: "s".to_owned() }).unwrap();
    h.work();
    h.call(Call::Concat { target: dfs("/d/f"), sources: vec![dfs("/d/b")] }).unwrap();
    let rows = h.replay().ns.take_rows();
    h.rows = rows.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    h.rows_at = h.records.len();
    let loaded = h.reload();
    h.restart(loaded);
    h.work();
    assert_eq!((h.state.ns.block_count(), length_of(&mut h, "/d/f")), (2, (1200, false)));
}

/// Ends the cut that was ordered last.
fn end_cut(h: &mut Harness, path: &str, length: u64) {
    h.commands.clear();
    h.pass(100, &[1, 2, 3]);
    let cut = h.commands.iter().find_map(|(_, command)| match command {
        Command::Cut { block, stamp, targets, .. } => {
            Some((*block, *stamp, targets.iter().map(|info| info.id).collect::<Vec<_>>()))
        }
        _ => None,
    });
    let (id, stamp, targets) = cut.unwrap();
    let located = LocatedBlock { id, ..last_of(h, path) };
    end_recovery(h, &located, stamp, (length, targets)).unwrap();
}

#[test]
fn a_file_that_was_cut_after_a_snapshot_is_joined_right_after_that_is_deleted() {
    for works_before in [true, false] {
        let mut h = Harness::with_nodes(1, 3);
        h.call(Call::Mkdirs { path: dfs("/d"), mode: 0o755, unmasked: None, parents: true })
            .unwrap();
        h.call(Call::AllowSnapshot(dfs("/d"))).unwrap();
        let concat = |target: &str, source: &str| Call::Concat {
            target: dfs(target),
            sources: vec![dfs(source)],
        };
        h.write("/d/f", 500, 3);
        h.write("/d/b", 700, 3);
        h.write("/d/c", 600, 3);
        h.call(concat("/d/b", "/d/c")).unwrap();
        h.work();
        let take = Call::CreateSnapshot { path: dfs("/d"), name: Some("s".into()) };
        h.call(take).unwrap();
        let cut = Call::Truncate { path: dfs("/d/b"), length: 900 };
        assert_eq!(h.call(cut), Ok(Reply::Flag(false)));
        end_cut(&mut h, "/d/b", 200);
        if works_before {
            h.work();
        }
        h.call(Call::DeleteSnapshot { path: dfs("/d"), name: "s".into() }).unwrap();
        // Its versions are collected; a replay does that later.
        h.work();
        h.call(concat("/d/f", "/d/b")).unwrap();
        h.checkpoint();
        let replayed = h.replay();
        let reloaded = h.reload();
        h.work();
        assert_eq!(h.state.ns.block_count(), 3, "{works_before}");
        for loaded in [replayed, reloaded] {
            h.restart(loaded);
            h.work();
            let all = Call::Locations { path: dfs("/d/f"), offset: 0, length: u64::MAX };
            let Ok(Reply::Located(located)) = h.call(all) else { panic!("no locations") };
            let lengths: Vec<u64> = located.blocks.iter().map(|block| block.length).collect();
            assert_eq!(lengths, [500, 700, 200], "{works_before}");
            assert_eq!(length_of(&mut h, "/d/f"), (1400, false));
        }
    }
}

#[test]
fn a_joined_file_that_a_snapshot_shows_as_it_was_is_cut() {
    let mut h = Harness::with_nodes(1, 3);
    h.call(Call::Mkdirs { path: dfs("/d"), mode: 0o755, unmasked: None, parents: true }).unwrap();
    h.call(Call::AllowSnapshot(dfs("/d"))).unwrap();
    h.write("/d/f", 500, 3);
    let snapshot = |name: &str| Call::CreateSnapshot { path: dfs("/d"), name: Some(name.into()) };
    h.call(snapshot("s")).unwrap();
    h.write("/d/b", 700, 3);
    h.write("/d/c", 300, 3);
    h.check_replay();
    let sources = vec![dfs("/d/b"), dfs("/d/c")];
    h.call(Call::Concat { target: dfs("/d/f"), sources }).unwrap();
    h.check_replay();
    assert_eq!(h.call(Call::Truncate { path: dfs("/d/f"), length: 900 }), Ok(Reply::Flag(false)));
    h.check_replay();
    h.commands.clear();
    h.pass(100, &[1, 2, 3]);
    let (block, stamp, targets) = h
        .commands
        .iter()
        .find_map(|(_, command)| match command {
            Command::Cut { block, stamp, targets, .. } => {
                Some((*block, *stamp, targets.iter().map(|info| info.id).collect::<Vec<_>>()))
            }
            _ => None,
        })
        .unwrap();
    let located = LocatedBlock { id: block, ..last_of(&mut h, "/d/f") };
    end_recovery(&mut h, &located, stamp, (400, targets)).unwrap();
    h.work();
    h.check_replay();
    let lengths = |h: &mut Harness| -> Vec<u64> {
        let all = Call::Locations { path: dfs("/d/f"), offset: 0, length: u64::MAX };
        let Ok(Reply::Located(located)) = h.call(all) else { panic!("no locations") };
        located.blocks.iter().map(|block| block.length).collect()
    };
    assert_eq!((length_of(&mut h, "/d/f"), lengths(&mut h)), ((900, false), vec![500, 400]));
    h.checkpoint();
    let loaded = h.reload();
    h.restart(loaded);
    assert_eq!((length_of(&mut h, "/d/f"), lengths(&mut h)), ((900, false), vec![500, 400]));
}

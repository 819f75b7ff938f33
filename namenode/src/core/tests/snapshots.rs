//! Snapshots against a slow model that copies the whole tree for each; and a restart at any point against the live state.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use protocol::acl::{AclChange, AclEntry};
use protocol::namenode::{Answer, Call, ContentSummary, FileStatus, Reply};
use protocol::xattr::{Xattr, XattrFlag};
use protocol::{BlockId, ErrorKind, InodeId};

use super::differences;
use super::harness::{Harness, canonical, create, dfs, written};
use crate::core::namespace::Namespace;
use crate::core::rights::Caller;
use crate::core::state::Loaded;
use crate::error::CoreError;

/// A file or directory as a test sees it.
#[derive(Clone, PartialEq, Debug)]
struct Node {
    status: FileStatus,
    /// Bytes of its blocks.
    blocks: Vec<u64>,
    acl: Vec<AclEntry>,
    xattrs: Vec<Xattr>,
}

/// Nodes by path below the root of a copy; "" is that root.
type Tree = BTreeMap<String, Node>;

/// Blocks of files; two copies of a file differ if these do.
type Ids = BTreeMap<InodeId, Vec<BlockId>>;

/// Every snapshot as the live tree was when it was taken.
#[derive(Default)]
struct Model {
    snapshots: BTreeMap<(String, String), (Tree, Ids)>,
}

#[derive(Clone, Debug)]
enum Op {
    Mkdirs(String),
    Write { path: String, length: u64 },
    Open { path: String },
    Append { path: String, more: u64, close: bool },
    Sync { path: String, length: u64 },
    Truncate { path: String, length: u64 },
    Concat { target: String, source: String },
    SetAcl { path: String, entries: &'static str },
    SetXattr { path: String, name: &'static str, value: Option<u8> },
    Recover,
    Rename { from: String, to: String, overwrite: bool },
    Delete(String),
    SetMode { path: String, mode: u16 },
    SetTimes { path: String, atime_ms: u64 },
    SetReplication { path: String, replication: u16 },
    Allow(String),
    Disallow(String),
    Create { path: String, name: &'static str },
    Name { path: String, from: &'static str, to: &'static str },
    Drop { path: String, name: &'static str },
    Collect(usize),
    Checkpoint,
}

fn query(harness: &Harness, call: Call) -> Answer {
    harness.read_as_namenode(&call)
}

fn list(harness: &Harness, path: &str) -> Vec<FileStatus> {
    let mut all: Vec<FileStatus> = Vec::new();
    loop {
        let start_after = all.last().map(|entry| entry.name.clone()).unwrap_or_default();
        match query(harness, Call::List { path: dfs(path), start_after, limit: 2 }) {
            Ok(Reply::Listing { entries, remaining }) => {
                all.extend(entries);
                if remaining == 0 {
                    return all;
                }
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

fn blocks(harness: &Harness, path: &str) -> Vec<(BlockId, u64)> {
    let reader = crate::core::query::Reader {
        caller: Caller::NAMENODE,
        host: "",
        now: harness.now,
        txid: 0,
    };
    let call = Call::Locations { path: dfs(path), offset: 0, length: u64::MAX };
    match harness.state.query(&harness.nodes, &call, reader) {
        Ok(Reply::Located(located)) => {
            let seen = located.blocks.iter().filter(|block| block.length > 0);
            seen.map(|block| (block.id, block.length)).collect()
        }
        other => panic!("{path}: {other:?}"),
    }
}

/// The blocks of the files in a tree that readers see something of.
fn ids(harness: &Harness, tree: &Tree) -> Ids {
    let files = tree.values().filter(|node| !node.status.directory);
    files
        .map(|node| {
            let file = harness.state.ns.file(node.status.inode).unwrap();
            let count = node.blocks.len();
            (node.status.inode, file.blocks[..count].to_vec())
        })
        .collect()
}

/// The tree below a path, by walking it.
fn tree(harness: &Harness, top: &str) -> Tree {
    let mut found = Tree::new();
    let mut stack = vec![String::new()];
    while let Some(way) = stack.pop() {
        let path = format!("{}{way}", top.trim_end_matches('/'));
        let path = if path.is_empty() { "/".to_owned() } else { path };
        let Ok(Reply::Status(mut status)) = query(harness, Call::Status(dfs(&path))) else {
            panic!("{path} is missing")
        };
        // Snapshots are of what is complete, and have none themselves.
        (status.open, status.snapshottable) = (false, false);
        let (acl, xattrs) = match (
            query(harness, Call::GetAcl(dfs(&path))),
            query(harness, Call::GetXattrs { path: dfs(&path), names: vec![] }),
        ) {
            (Ok(Reply::Acl(acl)), Ok(Reply::Xattrs(xattrs))) => (acl, xattrs),
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(acl.mode, status.mode, "{path}");
        assert_eq!(status.has_acl, !acl.entries.is_empty(), "{path}");
        let mut node = Node { status, blocks: Vec::new(), acl: acl.entries, xattrs };
        if node.status.directory {
            let entries = list(harness, &path);
            assert_eq!(entries.len() as u64, node.status.children_count, "{path}");
            stack.extend(entries.iter().map(|entry| format!("{way}/{}", entry.name)));
        } else {
            node.blocks = blocks(harness, &path).iter().map(|(_, length)| *length).collect();
            assert_eq!(node.blocks.iter().sum::<u64>(), node.status.length, "{path}");
        }
        found.insert(way, node);
    }
    found
}

fn summary(tree: &Tree) -> ContentSummary {
    tree.values().fold(ContentSummary::default(), |mut sum, node| {
        let status = &node.status;
        sum.directory_count += u64::from(status.directory);
        sum.file_count += u64::from(!status.directory);
        sum.length += status.length;
        sum.space_consumed += status.length * u64::from(status.replication);
        sum
    })
}

fn carry_out(harness: &mut Harness, model: &mut Model, op: &Op) {
    let call = match op.clone() {
        Op::Mkdirs(path) => {
            Call::Mkdirs { path: dfs(&path), mode: 0o755, unmasked: None, parents: true }
        }
        Op::Write { path, length } => {
            let Ok(Reply::Created(created)) = harness.call(create(&path, true, None, length > 0))
            else {
                return;
            };
            let last = created.first_block.map(|block| written(&block, length));
            Call::Complete { file: created.file, last, publish: None }
        }
        Op::Open { path } => {
            // One block is complete, the next is being written.
            if let Ok(Reply::Created(created)) = harness.call(create(&path, true, None, true)) {
                let previous = created.first_block.map(|block| written(&block, 77));
                let add = Call::AddBlock { file: created.file, previous, exclude: vec![] };
                harness.call(add).unwrap();
            }
            return;
        }
        Op::Append { path, more, close } => return append(harness, &path, (more, close)),
        Op::Sync { path, length } => return sync(harness, &path, length),
        Op::Truncate { path, length } => Call::Truncate { path: dfs(&path), length },
        Op::Concat { target, source } => {
            Call::Concat { target: dfs(&target), sources: vec![dfs(&source)] }
        }
        Op::SetAcl { path, entries } => {
            let change = AclChange::Modify(AclEntry::parse_list(entries, true).unwrap());
            Call::ChangeAcl { path: dfs(&path), change }
        }
        Op::SetXattr { path, name, value: Some(value) } => {
            let (name, value) = (name.to_owned(), vec![value; 5]);
            Call::SetXattr { path: dfs(&path), name, value, flag: XattrFlag::CreateOrReplace }
        }
        Op::SetXattr { path, name, value: None } => {
            Call::RemoveXattr { path: dfs(&path), name: name.to_owned() }
        }
        Op::Recover => return harness.recover_all(),
        Op::Rename { from, to, overwrite } => {
            Call::Rename { from: dfs(&from), to: dfs(&to), overwrite: Some(overwrite) }
        }
        Op::Delete(path) => Call::Delete { path: dfs(&path), recursive: true },
        Op::SetMode { path, mode } => Call::SetMode { path: dfs(&path), mode },
        Op::SetTimes { path, atime_ms } => {
            Call::SetTimes { path: dfs(&path), mtime_ms: None, atime_ms: Some(atime_ms) }
        }
        Op::SetReplication { path, replication } => {
            Call::SetReplication { path: dfs(&path), replication }
        }
        Op::Allow(path) => Call::AllowSnapshot(dfs(&path)),
        Op::Disallow(path) => Call::DisallowSnapshot(dfs(&path)),
        Op::Create { .. } | Op::Name { .. } | Op::Drop { .. } => {
            return change_snapshots(harness, model, op);
        }
        Op::Collect(count) => {
            harness.state.ns.collect(count);
            return;
        }
        Op::Checkpoint => return harness.checkpoint(),
    };
    let _ = harness.call(call);
}

fn change_snapshots(harness: &mut Harness, model: &mut Model, op: &Op) {
    match op.clone() {
        Op::Create { path, name } => {
            let call = Call::CreateSnapshot { path: dfs(&path), name: Some(name.to_owned()) };
            if harness.call(call).is_ok() {
                let copy = tree(harness, &path);
                let root = copy[""].status.inode;
                let key = (root.to_string(), name.to_owned());
                let ids = ids(harness, &copy);
                assert!(model.snapshots.insert(key, (copy, ids)).is_none(), "one of a name");
            }
        }
        Op::Name { path, from, to } => {
            let root = inode_of(harness, &path);
            let (from, to) = (from.to_owned(), to.to_owned());
            let call =
                Call::RenameSnapshot { path: dfs(&path), from: from.clone(), to: to.clone() };
            if harness.call(call).is_ok() {
                let root = root.unwrap().to_string();
                let copy = model.snapshots.remove(&(root.clone(), from)).unwrap();
                model.snapshots.insert((root, to), copy);
            }
        }
        Op::Drop { path, name } => {
            let root = inode_of(harness, &path);
            let call = Call::DeleteSnapshot { path: dfs(&path), name: name.to_owned() };
            if harness.call(call).is_ok() {
                let key = (root.unwrap().to_string(), name.to_owned());
                model.snapshots.remove(&key).unwrap();
            }
        }
        other => panic!("{other:?}"),
    }
}

/// Appends up to the end of a block; the file stays open unless it is closed.
fn append(harness: &mut Harness, path: &str, (more, close): (u64, bool)) {
    let Ok(Reply::Appended(file)) =
        harness.call(Call::Append { path: dfs(path), new_block: false })
    else {
        return;
    };
    let block = match file.last {
        Some(last) => last,
        None => {
            let add = Call::AddBlock { file: file.file, previous: None, exclude: vec![] };
            match harness.call(add) {
                Ok(Reply::Block(block)) => block,
                other => panic!("{other:?}"),
            }
        }
    };
    if close {
        let last = Some(written(&block, (block.length + more).min(1000)));
        let complete = Call::Complete { file: file.file, last, publish: None };
        // Where the replicas of a raised number are not there yet, it stays open.
        let refused = harness.call(complete).err().map(|refusal| refusal.kind);
        assert!(matches!(refused, None | Some(ErrorKind::NotReplicatedYet)), "{refused:?}");
    }
}

/// What was written to an open file so far can be read.
fn sync(harness: &mut Harness, path: &str, length: u64) {
    let Some(id) = inode_of(harness, path) else { return };
    let Some(block) = harness.state.ns.open_block(id) else { return };
    let stamp = harness.state.ns.block(block).unwrap().stamp;
    let _ = harness.call(Call::SyncBlock { file: id, block, stamp, length });
}

fn inode_of(harness: &Harness, path: &str) -> Option<InodeId> {
    match query(harness, Call::Status(dfs(path))) {
        Ok(Reply::Status(status)) => Some(status.inode),
        _ => None,
    }
}

/// Every snapshot shows what the tree was; so do summaries.
fn check(harness: &Harness, model: &Model) {
    let ns = &harness.state.ns;
    assert_eq!(ns.history.live.len(), model.snapshots.len());
    for ((root, name), (expected, _)) in &model.snapshots {
        let root = ns.path_of(InodeId(root.parse().unwrap())).expect("roots stay");
        let at = format!("{}/.snapshot/{name}", root.trim_end_matches('/'));
        assert_eq!(&tree(harness, &at), expected, "{at}");
        let answer = query(harness, Call::ContentSummary(dfs(&at)));
        assert_eq!(answer, Ok(Reply::Summary(summary(expected))), "{at}");
    }
}

/// Nothing is kept that neither the tree nor a snapshot has, and the sums agree.
fn check_settled(harness: &Harness, model: &Model) {
    let ns = &harness.state.ns;
    let live = tree(harness, "/");
    let mut inodes: BTreeSet<InodeId> = BTreeSet::new();
    let mut complete: BTreeSet<BlockId> = BTreeSet::new();
    let mut look = |top: &str, tree: &Tree| {
        for (way, node) in tree {
            inodes.insert(node.status.inode);
            if !node.status.directory {
                let seen = blocks(harness, &format!("{top}{way}"));
                complete.extend(seen.iter().map(|(id, _)| *id));
            }
        }
    };
    look("", &live);
    for ((root, name), (tree, _)) in &model.snapshots {
        let root = ns.path_of(InodeId(root.parse().unwrap())).unwrap();
        look(&format!("{}/.snapshot/{name}", root.trim_end_matches('/')), tree);
    }
    complete.retain(|block| ns.block(*block).is_some_and(|info| info.complete));
    let held: BTreeSet<InodeId> = ns.inodes.iter().map(|(id, _)| id).collect();
    assert_eq!(held, inodes);
    let blocks = ns.blocks.iter().filter(|(_, info)| info.complete);
    assert_eq!(blocks.map(|(id, _)| id).collect::<BTreeSet<_>>(), complete);
    let history = &ns.history;
    let watched: usize = history.watch.values().map(BTreeSet::len).sum();
    let versions: usize = history.versions.values().map(Vec::len).sum();
    assert_eq!(watched, versions);
    if model.snapshots.is_empty() {
        let tables = (history.versions.len(), history.stamps.len(), history.former.len());
        assert_eq!(tables, (0, 0, 0));
        assert_eq!((history.homes.len(), history.retained.len()), (0, 0));
    }
    let whole = ns.whole(InodeId::ROOT);
    assert_eq!(whole.inode_count(), inodes.len() as u64, "what is kept is counted");
    let space_of = |id: InodeId| {
        let Some(file) = ns.file(id) else { return 0 };
        let block_bytes = |block: BlockId| match ns.block(block) {
            Some(info) if info.complete => info.length,
            _ => file.block_size,
        };
        let bytes: u64 = ns.blocks_of(id).into_iter().map(block_bytes).sum();
        bytes * u64::from(ns.replication_in(id))
    };
    let space: u64 = inodes.into_iter().map(space_of).sum();
    assert_eq!(whole.space_consumed, space, "so is its space");
}

/// Everything that a difference compares.
fn compared((tree, ids): (&Tree, &Ids)) -> differences::Copy {
    let entry = |(way, node): (&String, &Node)| {
        let Node { status, acl, xattrs, .. } = node;
        let FileStatus { inode, owner, group, mode, replication, length, .. } = status;
        let length = if status.directory { 0 } else { *length };
        let rights = format!("{owner} {group} {mode} {acl:?} {xattrs:?}");
        let blocks = ids.get(inode);
        (way.clone(), (inode.0, format!("{rights} {replication} {length} {blocks:?}")))
    };
    tree.iter().map(entry).collect()
}

fn check_differences(harness: &Harness, model: &Model) {
    let ns = &harness.state.ns;
    for (root_id, root) in &ns.history.roots {
        let path = ns.path_of(*root_id).unwrap();
        let present = tree(harness, &path);
        let present_ids = ids(harness, &present);
        let mut moments: Vec<(&str, differences::Copy)> = Vec::new();
        for snapshot in root.snapshots.values() {
            let (tree, ids) = &model.snapshots[&(root_id.to_string(), snapshot.name.clone())];
            moments.push((&snapshot.name, compared((tree, ids))));
        }
        moments.push(("", compared((&present, &present_ids))));
        for (index, (from, earlier)) in moments.iter().enumerate() {
            for (to, later) in &moments[index..] {
                let told = differences::told(harness, &path, (from, to));
                let expected = differences::expected(earlier, later);
                assert_eq!(told, expected, "{path}: {from} to {to}");
                for (way, node) in present.iter().filter(|(_, node)| node.status.directory) {
                    let told = differences::told(harness, &format!("{path}{way}"), (from, to));
                    let part = |copy| part(copy, node.status.inode.0);
                    if let (Some(earlier), Some(later)) = (part(earlier), part(later)) {
                        let expected = differences::expected(&earlier, &later);
                        assert_eq!(told, expected, "{path}{way}: {from} to {to}");
                    }
                }
            }
        }
    }
}

/// What of a copy is in a directory, wherever that was; `None` if it was not there.
fn part(copy: &differences::Copy, id: u64) -> Option<differences::Copy> {
    let (top, _) = copy.iter().find(|(_, (found, _))| *found == id)?;
    let below = |way: &String| {
        let rest = way.strip_prefix(top.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
    };
    Some(copy.iter().filter_map(|(way, entry)| Some((below(way)?, entry.clone()))).collect())
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    prop::collection::vec(name, 1..4).prop_map(|names| format!("/{}", names.join("/")))
}

/// Few directories have snapshots, so that much happens in each.
fn top() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["/a", "/b", "/a/b", "/"]).prop_map(str::to_owned)
}

fn op() -> impl Strategy<Value = Op> {
    let name = || prop::sample::select(vec!["s", "t", "u"]);
    let length = prop_oneof![Just(0), 1_u64..1000];
    let acl =
        prop::sample::select(vec!["user:bob:rwx", "user:bob:r--", "group:staff:r-x,mask::r--"]);
    let xattr = prop::sample::select(vec!["user.a", "user.b"]);
    prop_oneof![
        4 => path().prop_map(Op::Mkdirs),
        6 => (path(), length).prop_map(|(path, length)| Op::Write { path, length }),
        1 => path().prop_map(|path| Op::Open { path }),
        3 => (path(), 1_u64..600, any::<bool>())
            .prop_map(|(path, more, close)| Op::Append { path, more, close }),
        3 => (path(), 1_u64..1000).prop_map(|(path, length)| Op::Sync { path, length }),
        2 => (path(), 0_u64..1200).prop_map(|(path, length)| Op::Truncate { path, length }),
        1 => (path(), path()).prop_map(|(target, source)| Op::Concat { target, source }),
        2 => (path(), acl).prop_map(|(path, entries)| Op::SetAcl { path, entries }),
        2 => (path(), xattr, prop::option::weighted(0.7, 0_u8..9))
            .prop_map(|(path, name, value)| Op::SetXattr { path, name, value }),
        2 => Just(Op::Recover),
        6 => (path(), path(), any::<bool>())
            .prop_map(|(from, to, overwrite)| Op::Rename { from, to, overwrite }),
        5 => path().prop_map(Op::Delete),
        2 => (path(), 0_u16..0o1000).prop_map(|(path, mode)| Op::SetMode { path, mode }),
        2 => (path(), 1_u64..100).prop_map(|(path, atime_ms)| Op::SetTimes { path, atime_ms }),
        2 => (path(), 1_u16..4)
            .prop_map(|(path, replication)| Op::SetReplication { path, replication }),
        3 => top().prop_map(Op::Allow),
        1 => top().prop_map(Op::Disallow),
        6 => (top(), name()).prop_map(|(path, name)| Op::Create { path, name }),
        1 => (top(), name(), name()).prop_map(|(path, from, to)| Op::Name { path, from, to }),
        4 => (top(), name()).prop_map(|(path, name)| Op::Drop { path, name }),
        2 => (1_usize..20).prop_map(Op::Collect),
        1 => Just(Op::Checkpoint),
    ]
}

fn settle(ns: &mut Namespace) {
    while ns.collect(7) {}
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn every_snapshot_is_the_copy_that_it_promises(ops in prop::collection::vec(op(), 1..90)) {
        let mut harness = Harness::with_nodes(1, 3);
        let mut model = Model::default();
        for dir in ["/a", "/b", "/a/b"] {
            harness.call(Call::Mkdirs { path: dfs(dir), mode: 0o755, unmasked: None, parents: true }).unwrap();
        }
        for op in &ops {
            harness.now.wall_ms += 7;
            carry_out(&mut harness, &mut model, op);
            check(&harness, &model);
        }
        check_differences(&harness, &model);
        let (mut reloaded, mut replayed) = (harness.reload(), harness.replay());
        harness.work();
        settle(&mut harness.state.ns);
        check_settled(&harness, &model);
        harness.state.blocks.check(&harness.state.ns);
        check(&harness, &model);
        let live = canonical(&mut harness.state.ns);
        prop_assert_eq!(&live, &canonical(&mut reloaded.ns));
        prop_assert_eq!(&live, &canonical(&mut replayed.ns));
        harness.checkpoint();
        prop_assert_eq!(&live, &canonical(&mut harness.reload().ns));
    }
}

fn rename(from: &str, to: &str) -> Op {
    Op::Rename { from: from.to_owned(), to: to.to_owned(), overwrite: false }
}

/// What snapshots keep of such directories would be charged to itself.
#[test]
fn a_directory_is_deleted_with_the_one_that_it_was_in() {
    let name = str::to_owned;
    let mut harness = Harness::with_nodes(1, 3);
    let mut model = Model::default();
    for op in [
        Op::Mkdirs(name("/a/b/c")),
        Op::Write { path: name("/a/b/c/d"), length: 5 },
        Op::Allow(name("/")),
        Op::Create { path: name("/"), name: "s" },
        rename("/a/b/c", "/c"),
        rename("/a", "/c/a"),
        Op::Delete(name("/c")),
        Op::Checkpoint,
        Op::Collect(3),
        Op::Create { path: name("/"), name: "t" },
        Op::Drop { path: name("/"), name: "s" },
    ] {
        carry_out(&mut harness, &mut model, &op);
        check(&harness, &model);
        let (mut reloaded, mut replayed) = (harness.reload(), harness.replay());
        settle(&mut harness.state.ns);
        check_settled(&harness, &model);
        let live = canonical(&mut harness.state.ns);
        assert_eq!(live, canonical(&mut reloaded.ns), "{op:?}");
        assert_eq!(live, canonical(&mut replayed.ns), "{op:?}");
    }
}

/// Versions that no snapshot needs any more are collected later. Until then directories can have been in each other while a snapshot of another one lives.
#[test]
fn directories_that_were_moved_into_each_other_are_followed_to_an_end() {
    let name = str::to_owned;
    let mut harness = Harness::with_nodes(1, 3);
    let mut model = Model::default();
    for op in [
        Op::Mkdirs(name("/a/b/c")),
        Op::Mkdirs(name("/m")),
        Op::Allow(name("/m")),
        Op::Create { path: name("/m"), name: "s" },
        Op::Allow(name("/a")),
        Op::Create { path: name("/a"), name: "t" },
        rename("/a/b/c", "/c"),
        Op::Drop { path: name("/a"), name: "t" },
        rename("/a", "/c/a"),
        Op::Mkdirs(name("/c/a/b/e")),
    ] {
        carry_out(&mut harness, &mut model, &op);
        check(&harness, &model);
    }
    let (from, to) = (name("s"), String::new());
    let diff = Call::SnapshotDiff { path: dfs("/m"), from, to, skip: 0 };
    assert!(
        matches!(harness.read(&diff), Ok(Reply::SnapshotDiff { entries, .. }) if entries.is_empty())
    );
    harness.checkpoint();
    let (mut reloaded, mut replayed) = (harness.reload(), harness.replay());
    [&mut harness.state.ns, &mut reloaded.ns, &mut replayed.ns].into_iter().for_each(settle);
    check_settled(&harness, &model);
    let live = canonical(&mut harness.state.ns);
    assert_eq!(live, canonical(&mut reloaded.ns));
    assert_eq!(live, canonical(&mut replayed.ns));
}

/// Who looks for the place of what only a snapshot has follows the parents of directories up to the root.
#[test]
fn damaged_rows_in_which_two_directories_are_in_each_other_are_refused() {
    let name = str::to_owned;
    let mut h = Harness::with_nodes(1, 3);
    let mut model = Model::default();
    for op in [Op::Mkdirs(name("/a/b")), Op::Mkdirs(name("/a/c")), Op::Allow(name("/"))] {
        carry_out(&mut h, &mut model, &op);
    }
    let [a, b] = ["/a", "/a/b"].map(|path| inode_of(&h, path).unwrap());
    for op in [Op::Create { path: name("/"), name: "s" }, Op::Delete(name("/a/c"))] {
        carry_out(&mut h, &mut model, &op);
    }
    h.checkpoint();
    let parent_of_b = protocol::wire::encode(&a);
    let mut loaded = Loaded::default();
    for (key, value) in &h.rows {
        let mut value = value.clone();
        if key[..] == [&b"i"[..], &a.0.to_be_bytes()].concat() {
            value.splice(..parent_of_b.len(), protocol::wire::encode(&b));
        }
        loaded.load_row(key, &value).unwrap();
    }
    assert!(matches!(loaded.ns.finish_load(), Err(CoreError::Unreachable { count: 2 })));
}

/// Calls in order, and what each is refused with; nothing if it is not.
fn refusals() -> Vec<(Call, &'static str)> {
    let path = || dfs("/d");
    let snapshot = |name: &str| Call::CreateSnapshot { path: dfs("/d"), name: Some(name.into()) };
    let rename =
        |from: &str, to: &str| Call::Rename { from: dfs(from), to: dfs(to), overwrite: Some(true) };
    let delete = |path: &str| Call::Delete { path: dfs(path), recursive: true };
    let mkdirs =
        |path: &str| Call::Mkdirs { path: dfs(path), mode: 0o755, unmasked: None, parents: true };
    vec![
        (snapshot("s"), "Directory is not a snapshottable directory: /d"),
        (Call::AllowSnapshot(dfs("/x")), "Directory does not exist: /x"),
        (Call::AllowSnapshot(dfs("/d/f")), "`/d/f': Is not a directory"),
        (mkdirs("/d/.snapshot"), "\".snapshot\" is a reserved name."),
        (Call::DisallowSnapshot(path()), ""),
        (Call::AllowSnapshot(path()), ""),
        (Call::AllowSnapshot(path()), ""),
        (
            Call::AllowSnapshot(dfs("/d/sub")),
            "Nested snapshottable directories not allowed: path=/d/sub, the ancestor /d is already a snapshottable directory.",
        ),
        (
            Call::AllowSnapshot(dfs("/")),
            "Nested snapshottable directories not allowed: path=/, the subdirectory /d is already a snapshottable directory.",
        ),
        (snapshot("a/b"), "Invalid path name Invalid snapshot name: a/b"),
        (snapshot(".snapshot"), "Invalid path name Invalid snapshot name: .snapshot"),
        (snapshot("s"), ""),
        (
            snapshot("s"),
            "Failed to add snapshot: there is already a snapshot with the same name \"s\".",
        ),
        (snapshot("t"), ""),
        (
            Call::RenameSnapshot { path: path(), from: "s".into(), to: "t".into() },
            "The snapshot t already exists for directory /d",
        ),
        (
            Call::RenameSnapshot { path: path(), from: "x".into(), to: "y".into() },
            "The snapshot x does not exist for directory /d",
        ),
        (
            Call::DeleteSnapshot { path: path(), name: "x".into() },
            "Cannot delete snapshot x from path /d: the snapshot does not exist.",
        ),
        (
            Call::DisallowSnapshot(path()),
            "The directory /d has snapshot(s). Please redo the operation after removing all the snapshots.",
        ),
        (
            delete("/d"),
            "The directory /d cannot be deleted since /d is snapshottable and already has snapshots",
        ),
        (mkdirs("/d/.snapshot/s/x"), "Modification on a read-only snapshot is disallowed"),
        (mkdirs("/d/.snapshot/z"), "Modification on a read-only snapshot is disallowed"),
        (delete("/d/.snapshot/s/f"), "Modification on a read-only snapshot is disallowed"),
        (rename("/d/.snapshot/s/f", "/x"), "Modification on a read-only snapshot is disallowed"),
        (rename("/d/f", "/d/.snapshot/s/q"), "Modification on a read-only snapshot is disallowed"),
        (
            create("/d/.snapshot/s/q", true, None, true),
            "Modification on a read-only snapshot is disallowed",
        ),
        (
            Call::SnapshotDiff { path: path(), from: "s".into(), to: "x".into(), skip: 0 },
            "Cannot find the snapshot of directory /d with name x",
        ),
        (Call::Status(dfs("/d/.snapshot/x")), "File does not exist: /d/.snapshot/x"),
        (Call::Status(dfs("/d/.snapshot/s/f/y")), "/d/.snapshot/s/f (is not a directory)"),
        (Call::Status(dfs("/d/sub/.snapshot")), "File does not exist: /d/sub/.snapshot"),
    ]
}

#[test]
fn refusals_are_hdfs_words() {
    let mut harness = Harness::with_nodes(1, 3);
    harness.write("/d/f", 10, 3);
    harness.write("/d/sub/g", 10, 3);
    for (call, expected) in refusals() {
        let said = format!("{call:?}");
        let text = harness.call(call).map_or_else(|refusal| refusal.message, |_| String::new());
        assert_eq!(text, expected, "{said}");
    }
    harness.write("/e/f", 10, 3);
    harness.call(Call::AllowSnapshot(dfs("/e"))).unwrap();
    let (from, to) = (dfs("/e"), dfs("/d/e"));
    let nested = harness.call(Call::Rename { from, to, overwrite: Some(true) }).unwrap_err();
    assert_eq!(nested.kind, ErrorKind::Snapshot);
    // Names have kinds of their own, of a new snapshot and of one that gets another name.
    harness.call(Call::CreateSnapshot { path: dfs("/e"), name: Some("s".to_owned()) }).unwrap();
    let (long, longest) = ("n".repeat(256), "n".repeat(255));
    for (name, kind) in [
        ("a:b", ErrorKind::InvalidName),
        ("..", ErrorKind::InvalidName),
        (".snapshot", ErrorKind::InvalidName),
        (long.as_str(), ErrorKind::NameTooLong),
    ] {
        let make = Call::CreateSnapshot { path: dfs("/e"), name: Some(name.to_owned()) };
        assert_eq!(harness.call(make).unwrap_err().kind, kind, "{name}");
        let from = "s".to_owned();
        let rename = Call::RenameSnapshot { path: dfs("/e"), from, to: name.to_owned() };
        assert_eq!(harness.call(rename).unwrap_err().kind, kind, "{name}");
    }
    let make = Call::CreateSnapshot { path: dfs("/e"), name: Some(longest) };
    assert!(harness.call(make).is_ok());
}

#[test]
fn a_snapshot_without_a_name_is_called_after_the_time() {
    let mut harness = Harness::with_nodes(1, 3);
    harness.now.wall_ms = 1_795_215_599_123;
    harness.call(Call::AllowSnapshot(dfs("/"))).unwrap();
    let made = harness.call(Call::CreateSnapshot { path: dfs("/"), name: None });
    assert_eq!(made, Ok(Reply::Path(dfs("/.snapshot/s20261120-225959.123"))));
}

/// Every page of the snapshots of a directory, and after it the pages that follow.
fn told(harness: &Harness, path: &str) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    loop {
        let after = all.last().map(|(number, _)| *number);
        let answer = harness.read(&Call::Snapshots { path: dfs(path), after });
        let Ok(Reply::Snapshots { entries, remaining }) = answer else { panic!("{answer:?}") };
        all.extend(entries.into_iter().map(|snapshot| (snapshot.number, snapshot.status.name)));
        if remaining == 0 {
            return all;
        }
    }
}

#[test]
fn snapshots_are_told_by_age_with_numbers_that_never_come_again() {
    let mut harness = Harness::with_nodes(1, 3);
    let named = |all: &[(u64, &str)]| -> Vec<(u64, String)> {
        all.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
    };
    for path in ["/d", "/e"] {
        harness.write(&format!("{path}/f"), 10, 3);
        harness.call(Call::AllowSnapshot(dfs(path))).unwrap();
    }
    assert_eq!(told(&harness, "/d"), []);
    for (path, kind) in [("/d/f", ErrorKind::Snapshot), ("/x", ErrorKind::NotFound)] {
        let refused = harness.read(&Call::Snapshots { path: dfs(path), after: None });
        assert_eq!(refused.unwrap_err().kind, kind, "{path}");
    }
    let take = |harness: &mut Harness, path: &str, name: &str| {
        let name = Some(name.to_owned());
        harness.call(Call::CreateSnapshot { path: dfs(path), name }).unwrap();
    };
    for (path, name) in [("/d", "z"), ("/e", "b"), ("/d", "a"), ("/d", "c")] {
        take(&mut harness, path, name);
    }
    let first = told(&harness, "/d")[0].0;
    let expected = named(&[(first, "z"), (first + 2, "a"), (first + 3, "c")]);
    assert_eq!(told(&harness, "/d"), expected);
    harness.state.settings.list_limit = 1;
    assert_eq!(told(&harness, "/d"), expected, "in pages");
    harness.call(Call::DeleteSnapshot { path: dfs("/d"), name: "c".to_owned() }).unwrap();
    let (from, to) = ("z".to_owned(), "y".to_owned());
    harness.call(Call::RenameSnapshot { path: dfs("/d"), from, to }).unwrap();
    harness.checkpoint();
    harness.restart(harness.reload());
    take(&mut harness, "/d", "c");
    let expected = named(&[(first, "y"), (first + 2, "a"), (first + 4, "c")]);
    assert_eq!(told(&harness, "/d"), expected);
    assert_eq!(told(&harness, "/e"), named(&[(first + 1, "b")]));
}

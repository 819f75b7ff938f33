//! The namespace against a slow model ([`super::namespace_model`]): sequences of every change that there is, by users with and
//! without rights, with quotas, snapshots and restarts in between; and what a restart finds against the live state.

use std::collections::BTreeMap;

use proptest::prelude::*;
use protocol::ErrorKind;
use protocol::InodeId;
use protocol::acl::{AclChange, AclEntry};
use protocol::namenode::{Answer, Call, ContentSummary, QuotaChange, Reply, WrittenBlock};
use protocol::xattr::XattrFlag;

use super::differences;
use super::harness::{Harness, canonical, create, dfs, written_on};
use super::namespace_model::{BLOCK, Body, Model, Node, Open, Outcome, Tree, parent};
use crate::core::rights::Caller;

#[derive(Clone, Debug)]
enum Op {
    Mkdirs {
        path: String,
        parents: bool,
        mode: u16,
        unmasked: Option<u16>,
    },
    Write {
        path: String,
        overwrite: bool,
        length: u64,
    },
    /// Leaves the file open, with this many bytes flushed.
    Start {
        path: String,
        overwrite: bool,
        flushed: u64,
    },
    Append {
        path: String,
        more: u64,
        close: bool,
    },
    Sync {
        path: String,
        length: u64,
    },
    Close {
        path: String,
        length: u64,
    },
    Truncate {
        path: String,
        length: u64,
    },
    Concat {
        target: String,
        source: String,
    },
    Rename {
        from: String,
        to: String,
        overwrite: Option<bool>,
    },
    Delete {
        path: String,
        recursive: bool,
    },
    SetReplication {
        path: String,
        replication: u16,
    },
    SetMode {
        path: String,
        mode: u16,
    },
    SetOwner {
        path: String,
        owner: &'static str,
        group: &'static str,
    },
    ChangeAcl {
        path: String,
        change: AclChange,
    },
    SetXattr {
        path: String,
        name: &'static str,
        value: Option<Vec<u8>>,
    },
    SetQuota {
        path: String,
        names: QuotaChange,
        space: QuotaChange,
    },
    Allow {
        path: String,
        allow: bool,
    },
    Snapshot {
        path: String,
        name: &'static str,
    },
    NameSnapshot {
        path: String,
        from: &'static str,
        to: &'static str,
    },
    DropSnapshot {
        path: String,
        name: &'static str,
    },
    /// DataNodes end the recoveries under way.
    Recover,
    /// Deleted trees are taken apart in part.
    Collect(usize),
    Checkpoint,
    /// The namespace is what a restart finds.
    Restart {
        from_log: bool,
    },
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
enum User {
    Superuser,
    Alice,
    Bob,
}

/// Groups of the users.
struct Groups {
    staff: Vec<String>,
    both: Vec<String>,
}

impl Groups {
    fn new() -> Groups {
        let both = vec!["staff".to_owned(), "supergroup".to_owned()];
        Groups { staff: vec!["staff".to_owned()], both }
    }

    fn caller(&self, user: User) -> Caller<'_> {
        match user {
            User::Superuser => Caller { user: "ann", groups: &[], is_superuser: true },
            User::Alice => Caller { user: "alice", groups: &self.both, is_superuser: false },
            User::Bob => Caller { user: "bob", groups: &self.staff, is_superuser: false },
        }
    }
}

fn outcome(answer: Answer) -> Outcome {
    match answer {
        Ok(Reply::Flag(flag)) => Ok(Some(flag)),
        Ok(Reply::Done | Reply::Path(_)) => Ok(None),
        Ok(other) => panic!("{other:?}"),
        // Which of several quotas is named first is not the model's matter.
        Err(refusal) if refusal.kind == ErrorKind::SpaceQuotaExceeded => {
            Err(ErrorKind::NamespaceQuotaExceeded)
        }
        Err(refusal) => Err(refusal.kind),
    }
}

/// The system and the model side by side.
struct Pair {
    harness: Harness,
    model: Model,
    groups: Groups,
    /// Who writes, or wrote, each file.
    writers: BTreeMap<InodeId, User>,
}

impl Pair {
    fn new() -> Pair {
        let mut harness = Harness::with_nodes(1, 3);
        let mut model = Model::new();
        let groups = Groups::new();
        // Everybody may begin.
        harness.call(Call::SetMode { path: dfs("/"), mode: 0o777 }).unwrap();
        model.set_mode(groups.caller(User::Superuser), "/", 0o777).unwrap();
        Pair { harness, model, groups, writers: BTreeMap::new() }
    }

    /// Does the same on both sides and compares what comes of it.
    fn step(&mut self, user: User, op: &Op) {
        self.harness.now.wall_ms += 7;
        let has_quotas = self.model.nodes.values().any(
            |node| matches!(&node.body, Body::Directory { quota, .. } if *quota != (None, None)),
        );
        if has_quotas || matches!(op, Op::Concat { .. }) {
            // Only then what snapshots still hold is certain.
            while self.harness.state.ns.collect(1000) {}
        }
        if self.step_open_file(op) || self.step_inside(op) {
            return;
        }
        let actual = self.carry_out(user, op);
        let caller = self.groups.caller(user);
        let exceeded = actual == Err(ErrorKind::NamespaceQuotaExceeded);
        let expected = self.model.change(exceeded, |model| apply(model, caller, op));
        assert_eq!(actual, expected, "{user:?} {op:?}");
    }

    /// What the client does with a file that it has open; nothing if it has not.
    fn step_open_file(&mut self, op: &Op) -> bool {
        let (path, length, close) = match op {
            Op::Sync { path, length } => (path, *length, false),
            Op::Close { path, length } => (path, *length, true),
            _ => return false,
        };
        let Some(file) = self.model.get(path).and_then(Node::file) else { return true };
        if file.open != Open::Written {
            return true;
        }
        let length = file.writing.map_or(0, |(_, known)| known.max(length));
        let writing = file.writing.is_some();
        let id = self.inode_of(path);
        if close {
            let last = self.harness.state.ns.open_block(id).map(|_| self.last(id, length));
            let call = Call::Complete { file: id, last, publish: None };
            assert_eq!(self.go_on(id, call), Ok(Reply::Done), "{op:?}");
            self.model.close(path, length);
        } else if writing {
            let WrittenBlock { id: block, stamp, .. } = self.last(id, length);
            let call = Call::SyncBlock { file: id, block, stamp, length };
            assert_eq!(self.go_on(id, call), Ok(Reply::Done), "{op:?}");
            self.model.sync(path, length);
        }
        true
    }

    /// What happens inside the NameNode.
    fn step_inside(&mut self, op: &Op) -> bool {
        let (harness, groups) = (&mut self.harness, &self.groups);
        match op {
            Op::Recover => {
                for user in [User::Superuser, User::Alice, User::Bob] {
                    harness.call_as(groups.caller(user), Call::RenewLease).unwrap();
                }
                harness.recover_all();
                self.model.recover();
            }
            Op::Collect(count) => drop(harness.state.ns.collect(*count)),
            Op::Checkpoint => harness.checkpoint(),
            Op::Restart { from_log } => {
                let loaded = if *from_log { harness.replay() } else { harness.reload() };
                harness.restart(loaded);
                if *from_log {
                    // All rows are out of date.
                    harness.rows.clear();
                    harness.checkpoint();
                }
            }
            _ => return false,
        }
        true
    }

    fn inode_of(&self, path: &str) -> InodeId {
        self.harness.state.ns.resolve(&dfs(path)).unwrap().id
    }

    /// The last block of an open file as its writer knows it.
    fn last(&self, file: InodeId, length: u64) -> WrittenBlock {
        let ns = &self.harness.state.ns;
        let block = ns.open_block(file).unwrap();
        let replicas = ns.file(file).unwrap().open.as_ref().unwrap().targets.clone();
        let stamp = ns.block(block).unwrap().stamp;
        written_on((block, stamp), length, replicas, 3)
    }

    fn carry_out(&mut self, user: User, op: &Op) -> Outcome {
        match op {
            Op::Write { path, overwrite, length } => {
                let file = self.open_new(user, create(path, *overwrite, None, *length > 0))?;
                let last = (*length > 0).then(|| self.last(file, *length));
                let call = Call::Complete { file, last, publish: None };
                outcome(self.go_on(file, call))
            }
            Op::Start { path, overwrite, flushed } => {
                let file = self.open_new(user, create(path, *overwrite, None, true))?;
                self.flush(file, *flushed);
                Ok(None)
            }
            Op::Append { path, more, close } => self.append(user, path, (*more, *close)),
            op => {
                let call = call_of(op);
                let caller = self.groups.caller(user);
                let answer = self.harness.call_as(caller, call.clone());
                let again = self.harness.request(self.harness.number(), caller, call);
                assert_eq!(answer, again, "a repeated call gets the first answer");
                outcome(answer)
            }
        }
    }

    fn open_new(&mut self, user: User, call: Call) -> Result<InodeId, ErrorKind> {
        match self.harness.call_as(self.groups.caller(user), call) {
            Ok(Reply::Created(created)) => {
                self.writers.insert(created.file, user);
                Ok(created.file)
            }
            answer => Err(outcome(answer).expect_err("it is a refusal")),
        }
    }

    fn flush(&mut self, file: InodeId, length: u64) {
        if length > 0 {
            let WrittenBlock { id: block, stamp, .. } = self.last(file, length);
            let call = Call::SyncBlock { file, block, stamp, length };
            assert_eq!(self.go_on(file, call), Ok(Reply::Done));
        }
    }

    /// A call of the user who writes the file.
    fn go_on(&mut self, file: InodeId, call: Call) -> Answer {
        self.harness.call_as(self.groups.caller(self.writers[&file]), call)
    }

    fn append(&mut self, user: User, path: &str, (more, close): (u64, bool)) -> Outcome {
        let call = Call::Append { path: dfs(path), new_block: false };
        let file = match self.harness.call_as(self.groups.caller(user), call) {
            Ok(Reply::Appended(file)) => file,
            answer => return Err(outcome(answer).expect_err("it is a refusal")),
        };
        let (id, length) = (file.file, file.last.as_ref().map_or(0, |last| last.length));
        self.writers.insert(id, user);
        if file.last.is_none() {
            let add = Call::AddBlock { file: id, previous: None, exclude: vec![] };
            if let Err(refusal) = self.go_on(id, add) {
                let close = Call::Complete { file: id, last: None, publish: None };
                self.go_on(id, close).unwrap();
                return outcome(Err(refusal));
            }
        }
        if close {
            let last = Some(self.last(id, (length + more).min(BLOCK)));
            self.go_on(id, Call::Complete { file: id, last, publish: None }).unwrap();
        }
        Ok(None)
    }
}

/// What a client sends for an operation of one call.
fn call_of(op: &Op) -> Call {
    match op.clone() {
        Op::Mkdirs { path, parents, mode, unmasked } => {
            Call::Mkdirs { path: dfs(&path), mode, unmasked, parents }
        }
        Op::Truncate { path, length } => Call::Truncate { path: dfs(&path), length },
        Op::Concat { target, source } => {
            Call::Concat { target: dfs(&target), sources: vec![dfs(&source)] }
        }
        Op::Rename { from, to, overwrite } => {
            Call::Rename { from: dfs(&from), to: dfs(&to), overwrite }
        }
        Op::Delete { path, recursive } => Call::Delete { path: dfs(&path), recursive },
        Op::SetReplication { path, replication } => {
            Call::SetReplication { path: dfs(&path), replication }
        }
        Op::SetMode { path, mode } => Call::SetMode { path: dfs(&path), mode },
        Op::SetOwner { path, owner, group } => {
            Call::SetOwner { path: dfs(&path), owner: owner.to_owned(), group: group.to_owned() }
        }
        Op::ChangeAcl { path, change } => Call::ChangeAcl { path: dfs(&path), change },
        Op::SetXattr { path, name, value: Some(value) } => Call::SetXattr {
            path: dfs(&path),
            name: name.to_owned(),
            value,
            flag: XattrFlag::CreateOrReplace,
        },
        Op::SetXattr { path, name, value: None } => {
            Call::RemoveXattr { path: dfs(&path), name: name.to_owned() }
        }
        Op::SetQuota { path, names, space } => Call::SetQuota { path: dfs(&path), names, space },
        Op::Allow { path, allow: true } => Call::AllowSnapshot(dfs(&path)),
        Op::Allow { path, allow: false } => Call::DisallowSnapshot(dfs(&path)),
        Op::Snapshot { path, name } => {
            Call::CreateSnapshot { path: dfs(&path), name: Some(name.to_owned()) }
        }
        Op::NameSnapshot { path, from, to } => {
            Call::RenameSnapshot { path: dfs(&path), from: from.to_owned(), to: to.to_owned() }
        }
        Op::DropSnapshot { path, name } => {
            Call::DeleteSnapshot { path: dfs(&path), name: name.to_owned() }
        }
        other => panic!("{other:?} is not one call"),
    }
}

/// The same on the model.
fn apply(model: &mut Model, caller: Caller<'_>, op: &Op) -> Outcome {
    match op.clone() {
        Op::Mkdirs { path, parents, mode, unmasked } => {
            model.mkdirs(caller, &path, parents, (mode, unmasked))
        }
        Op::Write { path, overwrite, length } => {
            model.create(caller, &path, overwrite, length > 0)?;
            model.close(&path, length);
            Ok(None)
        }
        Op::Start { path, overwrite, flushed } => {
            model.create(caller, &path, overwrite, true)?;
            model.sync(&path, flushed);
            Ok(None)
        }
        Op::Append { path, more, close } => {
            model.append(caller, &path)?;
            if close {
                let known = model.get(&path).and_then(Node::file).and_then(|file| file.writing);
                let length = known.map_or(0, |(_, known)| known) + more;
                model.close(&path, length.min(BLOCK));
            }
            Ok(None)
        }
        Op::Truncate { path, length } => model.truncate(caller, &path, length),
        Op::Concat { target, source } => model.concat(caller, &target, &source),
        Op::Rename { from, to, overwrite: None } => model.rename(caller, &from, &to),
        Op::Rename { from, to, overwrite: Some(overwrite) } => {
            model.rename_with_options(caller, (&from, &to), overwrite)
        }
        Op::Delete { path, recursive } => model.delete(caller, &path, recursive),
        Op::SetReplication { path, replication } => {
            model.set_replication(caller, &path, replication.into())
        }
        Op::SetMode { path, mode } => model.set_mode(caller, &path, mode),
        Op::SetOwner { path, owner, group } => model.set_owner(caller, &path, owner, group),
        Op::ChangeAcl { path, change } => model.change_acl(caller, &path, &change),
        Op::SetXattr { path, name, value } => model.set_xattr(caller, &path, name, value),
        Op::SetQuota { path, names, space } => model.set_quota(caller, &path, (names, space)),
        Op::Allow { path, allow } => model.allow(caller, &path, allow),
        Op::Snapshot { path, name } => model.create_snapshot(caller, &path, name),
        Op::NameSnapshot { path, from, to } => model.rename_snapshot(caller, &path, from, to),
        Op::DropSnapshot { path, name } => model.delete_snapshot(caller, &path, name),
        other => panic!("{other:?} changes nothing in the model"),
    }
}

fn query(harness: &Harness, call: Call) -> Reply {
    harness.read_as_namenode(&call).unwrap_or_else(|error| panic!("{call:?}: {error:?}"))
}

/// A path shows what the model has there.
fn check_node(harness: &Harness, path: &str, (node, live): (&Node, bool)) {
    let Reply::Status(status) = query(harness, Call::Status(dfs(path))) else { panic!("{path}") };
    assert_eq!(
        (status.owner.as_str(), status.group.as_str(), status.mode),
        (node.owner.as_str(), node.group.as_str(), node.mode),
        "{path}"
    );
    assert_eq!(status.has_acl, !node.acl.is_empty(), "{path}");
    if !node.acl.is_empty() {
        let Reply::Acl(acl) = query(harness, Call::GetAcl(dfs(path))) else { panic!("{path}") };
        assert_eq!((acl.mode, &acl.entries), (node.mode, &node.acl), "{path}");
    }
    let call = Call::GetXattrs { path: dfs(path), names: vec![] };
    let Reply::Xattrs(xattrs) = query(harness, call) else { panic!("{path}") };
    let expected = node.xattrs.iter();
    assert!(xattrs.iter().map(|xattr| (&xattr.name, &xattr.value)).eq(expected), "{path}");
    let Some(file) = node.file() else {
        assert!(status.directory, "{path}");
        return;
    };
    let open = live && file.open != Open::No;
    assert_eq!(
        (status.length, u64::from(status.replication), status.open),
        (file.visible(), file.replication, open),
        "{path}"
    );
}

/// All names of a directory, two per page.
fn list(harness: &Harness, path: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    loop {
        let start_after = names.last().cloned().unwrap_or_default();
        match query(harness, Call::List { path: dfs(path), start_after, limit: 2 }) {
            Reply::Listing { entries, remaining } => {
                names.extend(entries.into_iter().map(|entry| entry.name));
                if remaining == 0 {
                    return names;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

fn name(path: &str) -> &str {
    &path[path.rfind('/').unwrap() + 1..]
}

fn check_live(pair: &Pair) {
    let Pair { harness, model, .. } = pair;
    for (path, node) in &model.nodes {
        check_node(harness, path, (node, true));
        let Body::Directory { quota, .. } = &node.body else { continue };
        let children = model.below(path).filter(|(at, _)| parent(at) == path);
        assert_eq!(list(harness, path), children.map(|(at, _)| name(at)).collect::<Vec<_>>());
        let Reply::Summary(sum) = query(harness, Call::ContentSummary(dfs(path))) else {
            panic!("{path}")
        };
        let (names, length, space) = model.size(path);
        let ContentSummary { snapshot_file_count, snapshot_directory_count, .. } = sum;
        let kept = snapshot_file_count + snapshot_directory_count;
        assert_eq!(sum.file_count + sum.directory_count - kept, names, "{path}");
        assert_eq!(sum.length - sum.snapshot_length, length, "{path}");
        assert_eq!(sum.space_consumed - sum.snapshot_space_consumed, space, "{path}");
        let quota = if path == "/" { (quota.0.or(Some(i64::MAX as u64)), quota.1) } else { *quota };
        assert_eq!((sum.quota, sum.space_quota), quota, "{path}");
    }
    assert_eq!(harness.state.ns.inode_count(), model.nodes.len() as u64);
}

/// Every snapshot shows the copy that was made.
fn check_snapshots(pair: &Pair) {
    for (root, node) in &pair.model.nodes {
        for (snapshot, copy) in node.snapshots().into_iter().flatten() {
            let top = format!("{}/.snapshot/{snapshot}", root.trim_end_matches('/'));
            for (way, node) in copy {
                let path = format!("{top}{way}");
                check_node(&pair.harness, &path, (node, false));
                if node.is_directory() {
                    let here = copy.keys().filter(|at| !at.is_empty() && *at != way);
                    let here = here.filter(|at| at[..at.rfind('/').unwrap()] == **way);
                    let here: Vec<&str> = here.map(|at| name(at)).collect();
                    assert_eq!(list(&pair.harness, &path), here, "{path}");
                }
            }
        }
    }
}

/// Differences between all moments of all directories with snapshots.
fn check_differences(pair: &Pair) {
    let compared = |copy: &Tree| -> differences::Copy {
        let entry = |(way, node): (&String, &Node)| {
            let file = node.file().map(|file| {
                let mut blocks: Vec<u64> = file.blocks.iter().map(|(id, _)| *id).collect();
                blocks.extend(file.writing.filter(|(_, known)| *known > 0).map(|(id, _)| id));
                (blocks, file.visible(), file.replication)
            });
            let Node { id, owner, group, mode, acl, xattrs, .. } = node;
            (way.clone(), (*id, format!("{owner} {group} {mode} {acl:?} {xattrs:?} {file:?}")))
        };
        copy.iter().map(entry).collect()
    };
    for (root, node) in &pair.model.nodes {
        let Some(all) = node.snapshots() else { continue };
        let mut moments: Vec<(u64, &str, differences::Copy)> = Vec::new();
        let names = &pair.harness.state.ns.history.roots[&pair.inode_of(root)].names;
        for (name, copy) in all {
            moments.push((names[name], name, compared(copy)));
        }
        moments.sort_by_key(|(at, ..)| *at);
        moments.push((u64::MAX, "", compared(&pair.model.copy(root))));
        for (index, (_, from, earlier)) in moments.iter().enumerate() {
            for (_, to, later) in &moments[index..] {
                let told = differences::told(&pair.harness, root, (from, to));
                let expected = differences::expected(earlier, later);
                assert_eq!(told, expected, "{root}: {from} to {to}");
            }
        }
    }
}

/// A restart finds what is there, from the log alone and from the checkpoint with the log after it.
fn check_restarts(pair: &mut Pair) {
    let harness = &mut pair.harness;
    let (mut reloaded, mut replayed) = (harness.reload(), harness.replay());
    harness.work();
    harness.state.blocks.check(&harness.state.ns);
    let live = canonical(&mut harness.state.ns);
    assert_eq!(live, canonical(&mut reloaded.ns), "from the checkpoint");
    assert_eq!(live, canonical(&mut replayed.ns), "from the log");
}

fn path() -> impl Strategy<Value = String> {
    let name = || prop::sample::select(vec!["a", "b", "c c"]);
    prop_oneof![
        1 => Just("/".to_owned()),
        12 => name().prop_map(|a| format!("/{a}")),
        14 => (name(), name()).prop_map(|(a, b)| format!("/{a}/{b}")),
        6 => (name(), name(), name()).prop_map(|(a, b, c)| format!("/{a}/{b}/{c}")),
    ]
}

/// Few directories have snapshots, so that much happens in each.
fn top() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["/a", "/b", "/a/b", "/"]).prop_map(str::to_owned)
}

fn user() -> impl Strategy<Value = User> {
    prop_oneof![5 => Just(User::Superuser), 2 => Just(User::Alice), 2 => Just(User::Bob)]
}

fn mode() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![0o777, 0o755, 0o700, 0o1777, 0o770, 0o750, 0o644, 0o666, 0o1775])
}

/// Full blocks often, so that files of several come about.
fn length() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 2 => Just(BLOCK), 3 => 1..BLOCK]
}

fn acl_change() -> impl Strategy<Value = AclChange> {
    let list = prop::sample::select(vec![
        "user:bob:rwx",
        "user:alice:r-x,group:staff:rwx",
        "group:staff:r--,mask::r--",
        "default:user:bob:rwx,default:group::r-x",
        "default:user::rwx,default:group::---,default:other::r-x",
        "user::rwx,group::r-x,other::---",
    ]);
    let entries = |text: &str| AclEntry::parse_list(text, true).unwrap();
    prop_oneof![
        6 => list.clone().prop_map(move |text| AclChange::Modify(entries(text))),
        1 => list.clone().prop_map(move |text| AclChange::Remove(entries(text))),
        1 => list.prop_map(move |text| AclChange::Replace(entries(text))),
        1 => Just(AclChange::RemoveDefault),
        1 => Just(AclChange::RemoveAll),
    ]
}

fn quota(most: u64) -> impl Strategy<Value = QuotaChange> {
    prop_oneof![
        1 => Just(QuotaChange::Keep),
        2 => Just(QuotaChange::Clear),
        3 => (1..most).prop_map(QuotaChange::Set),
    ]
}

fn file_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (path(), any::<bool>(), length())
            .prop_map(|(path, overwrite, length)| Op::Write { path, overwrite, length }),
        3 => (path(), any::<bool>(), length())
            .prop_map(|(path, overwrite, flushed)| Op::Start { path, overwrite, flushed }),
        5 => (path(), 1..BLOCK, any::<bool>())
            .prop_map(|(path, more, close)| Op::Append { path, more, close }),
        2 => (path(), 1..BLOCK).prop_map(|(path, length)| Op::Sync { path, length }),
        2 => (path(), 1..BLOCK).prop_map(|(path, length)| Op::Close { path, length }),
        4 => (path(), 0..BLOCK * 2).prop_map(|(path, length)| Op::Truncate { path, length }),
        2 => (path(), path()).prop_map(|(target, source)| Op::Concat { target, source }),
        2 => (path(), 1_u16..5)
            .prop_map(|(path, replication)| Op::SetReplication { path, replication }),
    ]
}

fn tree_op() -> impl Strategy<Value = Op> {
    let overwrite = prop_oneof![Just(None), Just(Some(false)), Just(Some(true))];
    prop_oneof![
        4 => (path(), any::<bool>(), mode(), prop::option::of(mode())).prop_map(
            |(path, parents, mode, unmasked)| Op::Mkdirs { path, parents, mode, unmasked }
        ),
        6 => (path(), path(), overwrite)
            .prop_map(|(from, to, overwrite)| Op::Rename { from, to, overwrite }),
        4 => (path(), any::<bool>()).prop_map(|(path, recursive)| Op::Delete { path, recursive }),
    ]
}

fn rights_op() -> impl Strategy<Value = Op> {
    let owner = prop::sample::select(vec!["", "alice", "bob", "ann"]);
    let group = prop::sample::select(vec!["", "staff", "supergroup"]);
    let value = prop::option::weighted(0.7, prop::collection::vec(any::<u8>(), 0..3));
    prop_oneof![
        3 => (path(), mode()).prop_map(|(path, mode)| Op::SetMode { path, mode }),
        2 => (path(), owner, group)
            .prop_map(|(path, owner, group)| Op::SetOwner { path, owner, group }),
        4 => (path(), acl_change()).prop_map(|(path, change)| Op::ChangeAcl { path, change }),
        3 => (path(), prop::sample::select(vec!["user.a", "user.b"]), value)
            .prop_map(|(path, name, value)| Op::SetXattr { path, name, value }),
        2 => (path(), quota(12), quota(9000))
            .prop_map(|(path, names, space)| Op::SetQuota { path, names, space }),
    ]
}

fn snapshot_op() -> impl Strategy<Value = Op> {
    let name = || prop::sample::select(vec!["s", "t", "u"]);
    prop_oneof![
        4 => (top(), prop::bool::weighted(0.8)).prop_map(|(path, allow)| Op::Allow { path, allow }),
        6 => (top(), name()).prop_map(|(path, name)| Op::Snapshot { path, name }),
        1 => (top(), name(), name())
            .prop_map(|(path, from, to)| Op::NameSnapshot { path, from, to }),
        3 => (top(), name()).prop_map(|(path, name)| Op::DropSnapshot { path, name }),
    ]
}

fn inner_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => Just(Op::Recover),
        2 => (1_usize..20).prop_map(Op::Collect),
        2 => Just(Op::Checkpoint),
        1 => any::<bool>().prop_map(|from_log| Op::Restart { from_log }),
    ]
}

fn sequence() -> impl Strategy<Value = Vec<(User, Op)>> {
    let op = prop_oneof![
        10 => file_op().boxed(),
        8 => tree_op().boxed(),
        6 => rights_op().boxed(),
        6 => snapshot_op().boxed(),
        3 => inner_op().boxed(),
    ];
    prop::collection::vec((user(), op), 1..OPS_MAX)
}

fn check_sequence(ops: &[(User, Op)]) {
    let mut pair = Pair::new();
    for (number, (user, op)) in ops.iter().enumerate() {
        pair.step(*user, op);
        check_live(&pair);
        if number % SNAPSHOT_CHECK_PERIOD == 0 || matches!(op, Op::Restart { .. } | Op::Recover) {
            check_snapshots(&pair);
        }
    }
    check_snapshots(&pair);
    check_differences(&pair);
    check_restarts(&mut pair);
    check_snapshots(&pair);
}

/// Sequences in each of the two tests: the tests run side by side.
const SEQUENCES: u32 = 5_000;
/// Operations of a sequence, at most.
const OPS_MAX: usize = 40;
/// Every this many operations all snapshots are checked.
const SNAPSHOT_CHECK_PERIOD: usize = 4;

proptest! {
    #![proptest_config(ProptestConfig { cases: SEQUENCES, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_is_as_the_model_says(ops in sequence()) {
        check_sequence(&ops);
    }

    #[test]
    fn every_other_sequence_is_as_the_model_says(ops in sequence()) {
        check_sequence(&ops);
    }
}

//! Rights: the exact words of refusals, and the checker against a slow model that reads rules off a flat list of paths.

use std::collections::BTreeMap;

use proptest::prelude::*;
use protocol::namenode::{Answer, Call, Publish, Reply, SafeModeAction};
use protocol::{ErrorKind, InodeId};

use super::harness::{Harness, canonical, create, dfs};
use crate::core::rights::Caller;

/// Users of the tests and their groups. `ann` is the superuser.
const BOB: Caller<'static> = Caller { user: "bob", groups: &[], is_superuser: false };

fn refusal(answer: Answer) -> String {
    let error = answer.unwrap_err();
    assert_eq!(error.kind, ErrorKind::PermissionDenied, "{error}");
    error.message
}

fn own(harness: &mut Harness, path: &str, (owner, group, mode): (&str, &str, u16)) {
    let (owner, group) = (owner.to_owned(), group.to_owned());
    harness.call(Call::SetOwner { path: dfs(path), owner, group }).unwrap();
    harness.call(Call::SetMode { path: dfs(path), mode }).unwrap();
}

fn mkdirs(path: &str) -> Call {
    Call::Mkdirs { path: dfs(path), mode: 0o755, unmasked: None, parents: true }
}

fn list(path: &str) -> Call {
    Call::List { path: dfs(path), start_after: String::new(), limit: 10 }
}

fn read(path: &str) -> Call {
    Call::Locations { path: dfs(path), offset: 0, length: 1 }
}

fn delete(path: &str) -> Call {
    Call::Delete { path: dfs(path), recursive: true }
}

fn rename(from: &str, to: &str, overwrite: Option<bool>) -> Call {
    Call::Rename { from: dfs(from), to: dfs(to), overwrite }
}

fn chmod(path: &str, mode: u16) -> Call {
    Call::SetMode { path: dfs(path), mode }
}

fn chown(path: &str, owner: &str, group: &str) -> Call {
    let (owner, group) = (owner.to_owned(), group.to_owned());
    Call::SetOwner { path: dfs(path), owner, group }
}

fn touch(path: &str) -> Call {
    Call::SetTimes { path: dfs(path), mtime_ms: Some(5), atime_ms: None }
}

fn setrep(path: &str) -> Call {
    Call::SetReplication { path: dfs(path), replication: 2 }
}

/// /p (alice:grp 755) with /p/f (alice:grp 640), /p/t (alice:grp 1777) with /p/t/x of alice, /p/closed (alice:grp 700) with
/// /p/closed/f, and /p/open (bob:grp 755) with /p/open/d (alice:grp 755) and a file in it.
fn sample() -> Harness {
    let mut h = Harness::with_nodes(1, 3);
    h.write("/p/f", 10, 3);
    h.write("/p/t/x", 10, 3);
    h.write("/p/closed/f", 10, 3);
    h.write("/p/open/d/f", 10, 3);
    own(&mut h, "/p/open/d/f", ("alice", "grp", 0o644));
    for (path, mode) in [
        ("/p", 0o755),
        ("/p/f", 0o640),
        ("/p/t", 0o1777),
        ("/p/t/x", 0o666),
        ("/p/closed/f", 0o666),
        ("/p/closed", 0o700),
        ("/p/open/d", 0o755),
    ] {
        own(&mut h, path, ("alice", "grp", mode));
    }
    own(&mut h, "/p/open", ("bob", "grp", 0o755));
    h
}

#[test]
fn refusals_speak_hdfs() {
    let mut h = sample();
    let p = r#"inode="/p":alice:grp:drwxr-xr-x"#;
    let root = r#"inode="/":root:supergroup:drwxr-xr-x"#;
    let closed = r#"inode="/p/closed":alice:grp:drwx------"#;
    let file = r#"inode="/p/f":alice:grp:-rw-r-----"#;
    let below = r#"inode="/p/open/d":alice:grp:drwxr-xr-x"#;
    let stuck = "Permission denied by sticky bit: user=bob, path=\"/p/t/x\":alice:grp:-rw-rw-rw-, \
                 parent=\"/p/t\":alice:grp:drwxrwxrwt";
    let denied = |access: &str, inode: &str| {
        format!("Permission denied: user=bob, access={access}, {inode}")
    };
    for (call, text) in [
        (mkdirs("/p/new"), denied("WRITE", p)),
        (mkdirs("/p/new/a/b"), denied("WRITE", p)),
        (mkdirs("/new"), denied("WRITE", root)),
        (create("/p/new", false, None, false), denied("WRITE", p)),
        (create("/p/f", true, None, false), denied("WRITE", p)),
        (create("/p/t/x/y", true, None, false), "/p/t/x (is not a directory)".to_owned()),
        (read("/p/f"), denied("READ", file)),
        (read("/p/closed/f"), denied("EXECUTE", closed)),
        (Call::Status(dfs("/p/closed/f")), denied("EXECUTE", closed)),
        (Call::Status(dfs("/p/closed/missing")), denied("EXECUTE", closed)),
        (list("/p/closed"), denied("READ_EXECUTE", closed)),
        (Call::ContentSummary(dfs("/p")), denied("READ_EXECUTE", closed)),
        (Call::Fsck { path: dfs("/p"), after: None }, denied("READ_EXECUTE", closed)),
        (delete("/p/f"), denied("WRITE", p)),
        (delete("/p/t/x"), stuck.to_owned()),
        (delete("/p/open/d"), denied("ALL", below)),
        (rename("/p/t/x", "/p/t/y", None), stuck.to_owned()),
        (rename("/p/open/d", "/p/d", None), denied("WRITE", p)),
        (rename("/p/open/d", "/p", None), denied("WRITE", p)),
        (rename("/p/f", "/p/open/f", Some(false)), denied("WRITE", p)),
        (rename("/p/open/d/f", "/p/t/x", Some(true)), denied("WRITE", below)),
        (setrep("/p/f"), denied("WRITE", file)),
        (touch("/p/f"), denied("WRITE", file)),
        (Call::RecoverLease(dfs("/p/f")), denied("WRITE", file)),
        (
            chmod("/p/f", 0o777),
            "Permission denied. user=bob is not the owner of inode=/p/f".to_owned(),
        ),
        (
            chown("/p/f", "", "staff"),
            "Permission denied. user=bob is not the owner of inode=/p/f".to_owned(),
        ),
        (
            chown("/p/open", "alice", ""),
            "User bob is not a super user (non-super user cannot change owner).".to_owned(),
        ),
        (chown("/p/open", "", "staff"), "User bob does not belong to staff".to_owned()),
        (
            Call::SafeMode(SafeModeAction::Enter),
            "Access denied for user bob. Superuser privilege is required".to_owned(),
        ),
    ] {
        let before = canonical(&mut h.state.ns);
        let error = h.call_as(BOB, call.clone()).unwrap_err();
        assert_eq!(error.message, text, "{call:?}");
        assert_eq!(canonical(&mut h.state.ns), before, "{call:?} has changed something");
        let ann = Caller { user: "ann", groups: &[], is_superuser: true };
        match h.call_as(ann, call.clone()) {
            Ok(_) => h = sample(),
            Err(error) => {
                assert_ne!(error.kind, ErrorKind::PermissionDenied, "{call:?} of the superuser");
            }
        }
    }
}

#[test]
fn owners_and_members_may() {
    let mut h = sample();
    let groups = ["staff".to_owned(), "grp".to_owned()];
    let carl = Caller { user: "carl", groups: &groups, is_superuser: false };
    assert!(h.call_as(carl, read("/p/f")).is_ok(), "by the group's bits");
    assert!(refusal(h.call_as(carl, setrep("/p/f"))).contains("access=WRITE"));
    let alice = Caller { user: "alice", groups: &groups, is_superuser: false };
    h.call_as(alice, chown("/p/f", "alice", "staff")).unwrap();
    h.call_as(alice, chmod("/p/f", 0o040)).unwrap();
    assert!(
        refusal(h.call_as(alice, read("/p/f"))).contains("access=READ"),
        "the group's bits do not help the owner"
    );
    assert!(h.call_as(carl, read("/p/f")).is_ok());
    assert_eq!(h.call_as(alice, delete("/p/t/x")), Ok(Reply::Flag(true)));
    assert_eq!(h.call_as(BOB, mkdirs("/p/t/mine")), Ok(Reply::Done));
    let Ok(Reply::Status(status)) = h.call_as(BOB, Call::Status(dfs("/p/t/mine"))) else {
        panic!("no status")
    };
    assert_eq!(
        (status.owner.as_str(), status.group.as_str()),
        ("bob", "grp"),
        "the parent's group"
    );
    assert_eq!(h.call_as(BOB, rename("/p/t/mine", "/p/t/moved", Some(false))), Ok(Reply::Done));
    assert_eq!(h.call_as(BOB, delete("/p/t/moved")), Ok(Reply::Flag(true)));
    assert!(refusal(h.call_as(BOB, delete("/"))).contains("access=ALL"));
}

#[test]
fn publishing_needs_the_rights_of_a_rename() {
    let mut h = sample();
    let Ok(Reply::Created(created)) = h.call_as(BOB, create("/p/t/new", false, None, false)) else {
        panic!("not created")
    };
    let complete = |path: &str| {
        let publish = Some(Publish { path: dfs(path), overwrite: true });
        Call::Complete { file: created.file, last: None, publish }
    };
    assert!(refusal(h.call_as(BOB, complete("/p/t/x"))).contains("sticky bit"));
    assert!(refusal(h.call_as(BOB, complete("/p/y"))).contains("access=WRITE"));
    assert_eq!(h.call_as(BOB, complete("/p/t/y")), Ok(Reply::Done));
}

#[test]
fn the_trash_takes_only_what_may_be_deleted() {
    let mut h = sample();
    h.call(mkdirs("/user/bob/.Trash/Current")).unwrap();
    for path in ["/user/bob", "/user/bob/.Trash", "/user/bob/.Trash/Current"] {
        own(&mut h, path, ("bob", "grp", 0o700));
    }
    let into_trash = rename("/p/open/d", "/user/bob/.Trash/Current/d", Some(false));
    assert!(refusal(h.call_as(BOB, into_trash)).contains("access=ALL"), "/p/open/d is alice's");
    assert!(h.call_as(BOB, rename("/p/open/d", "/user/bob/d", Some(false))).is_ok());
}

#[test]
fn nothing_is_smuggled_into_the_trash() {
    let mut h = sample();
    // Bob's own directories, named like a trash before they are in one, and alice's entries in them.
    h.call(mkdirs("/p/open/t/.Trash/Current")).unwrap();
    h.call(mkdirs("/user/bob")).unwrap();
    let bobs = ["/p/open/t", "/p/open/t/.Trash", "/p/open/t/.Trash/Current", "/user/bob"];
    for path in bobs {
        own(&mut h, path, ("bob", "grp", 0o700));
    }
    own(&mut h, "/user", ("root", "grp", 0o1777));
    let move_in = rename("/p/open/d", "/p/open/t/.Trash/Current", None);
    assert_eq!(h.call_as(BOB, move_in), Ok(Reply::Flag(true)), "not the trash of anybody yet");
    for smuggle in [
        rename("/p/open/t/.Trash", "/user/bob", None),
        rename("/p/open/t/.Trash", "/user/bob/.Trash", None),
        rename("/p/open/t/.Trash", "/user/bob/.Trash", Some(false)),
        rename("/p/open/t", "/user/new", None),
        rename("/p/open/t", "/user", None),
        rename("/p/open/t", "/user/bob", Some(true)),
    ] {
        let text = refusal(h.call_as(BOB, smuggle.clone()));
        assert!(text.contains("access=ALL"), "{smuggle:?}: {text}");
    }
    // Elsewhere it is a directory like others.
    assert_eq!(h.call_as(BOB, rename("/p/open/t", "/user/bob", None)), Ok(Reply::Flag(true)));
}

#[test]
fn without_permissions_only_owners_and_the_superuser_are_asked_for() {
    let mut h = sample();
    h.state.settings.permissions = false;
    assert!(h.call_as(BOB, read("/p/closed/f")).is_ok());
    assert_eq!(h.call_as(BOB, delete("/p/t/x")), Ok(Reply::Flag(true)));
    assert!(refusal(h.call_as(BOB, chmod("/p/f", 0))).contains("is not the owner"));
    assert!(refusal(h.call_as(BOB, chown("/p/open", "eve", ""))).contains("is not a super user"));
    assert_eq!(h.call_as(BOB, Call::SafeMode(SafeModeAction::Enter)), Ok(Reply::Flag(true)));
}

/// What the model knows of a path.
#[derive(Clone, Debug)]
struct Node {
    directory: bool,
    owner: String,
    group: String,
    mode: u16,
}

/// The tree as a flat list, and a user.
struct Model<'a> {
    nodes: BTreeMap<String, Node>,
    caller: Caller<'a>,
}

impl Model<'_> {
    fn of<'a>(harness: &Harness, caller: Caller<'a>) -> Model<'a> {
        let ns = &harness.state.ns;
        let mut nodes = BTreeMap::new();
        let mut stack = vec![InodeId::ROOT];
        while let Some(id) = stack.pop() {
            let inode = ns.inode(id).unwrap();
            let status = ns.status(id, inode, "");
            let node = Node {
                directory: status.directory,
                owner: status.owner,
                group: status.group,
                mode: status.mode,
            };
            nodes.insert(ns.path_of(id).unwrap(), node);
            stack.extend(inode.directory().into_iter().flat_map(|d| d.children.iter()));
        }
        Model { nodes, caller }
    }

    fn grants(&self, path: &str, bits: &str) -> bool {
        let Some(node) = self.nodes.get(path) else { return true };
        let class = if node.owner == self.caller.user {
            node.mode / 0o100 % 8
        } else if self.caller.groups.contains(&node.group) {
            node.mode / 0o10 % 8
        } else {
            node.mode % 8
        };
        bits.chars().all(|bit| match bit {
            'r' => [4, 5, 6, 7].contains(&class),
            'w' => [2, 3, 6, 7].contains(&class),
            _ => [1, 3, 5, 7].contains(&class),
        })
    }

    fn parent(path: &str) -> String {
        match path.rfind('/') {
            Some(0) | None => "/".to_owned(),
            Some(end) => path[..end].to_owned(),
        }
    }

    fn ancestors(path: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut at = path.to_owned();
        while at != "/" {
            at = Model::parent(&at);
            found.insert(0, at.clone());
        }
        found
    }

    /// May follow the path, as far as it exists; `None` if a file is in the way before that is clear.
    fn passes(&self, path: &str) -> Option<bool> {
        for ancestor in Model::ancestors(path) {
            match self.nodes.get(&ancestor) {
                Some(node) if !node.directory => return None,
                Some(_) if !self.grants(&ancestor, "x") => return Some(false),
                _ => {}
            }
        }
        Some(true)
    }

    fn deepest(&self, path: &str) -> String {
        let ancestors = Model::ancestors(path);
        ancestors.into_iter().rev().find(|at| self.nodes.contains_key(at)).unwrap_or_default()
    }

    fn stuck(&self, path: &str) -> bool {
        let parent = &self.nodes[&Model::parent(path)];
        let user = self.caller.user;
        self.nodes.get(path).is_some_and(|entry| {
            parent.mode & 0o1000 != 0 && parent.owner != user && entry.owner != user
        })
    }

    fn below<'b>(&'b self, path: &'b str) -> impl Iterator<Item = &'b String> {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        self.nodes.keys().filter(move |at| *at != "/" && at.starts_with(&prefix))
    }

    fn may_delete(&self, path: &str) -> bool {
        if path != "/" {
            let parent = Model::parent(path);
            if self.nodes.contains_key(&parent) && (!self.grants(&parent, "w") || self.stuck(path))
            {
                return false;
            }
        }
        if !self.nodes.contains_key(path) {
            return true;
        }
        let mut directories = self.below(path).chain([self.nodes.get_key_value(path).unwrap().0]);
        let clear = directories.all(|at| self.below(at).next().is_none() || self.grants(at, "rwx"));
        clear && self.below(path).all(|at| !self.stuck(at))
    }

    fn may_leave(&self, path: &str) -> bool {
        let parent = Model::parent(path);
        path == "/"
            || !self.nodes.contains_key(&parent)
            || (self.grants(&parent, "w") && !self.stuck(path))
    }

    fn is_owner(&self, path: &str) -> bool {
        self.nodes.get(path).is_none_or(|node| node.owner == self.caller.user)
    }

    fn is_directory(&self, path: &str) -> bool {
        self.nodes.get(path).is_some_and(|node| node.directory)
    }

    /// Whether the call must be refused for lack of rights; `None` where another refusal comes first.
    fn denies(&self, op: &Op) -> Option<bool> {
        if self.caller.is_superuser {
            return Some(false);
        }
        let path = op.path();
        if matches!(op, Op::Chown(_, owner, group) if owner.is_empty() && group.is_empty()) {
            return None;
        }
        if !self.passes(path)? {
            return Some(true);
        }
        let exists = self.nodes.contains_key(path);
        let ancestor = || path == "/" || self.grants(&self.deepest(path), "w");
        Some(!match op {
            Op::Status(_) => true,
            Op::List(_) => !self.is_directory(path) || self.grants(path, "rx"),
            Op::Read(_) => self.grants(path, "r"),
            Op::Count(_) => {
                let mut all = self.below(path).map(String::as_str).chain([path]);
                all.all(|at| !self.is_directory(at) || self.grants(at, "rx"))
            }
            Op::Mkdirs(_) => exists || ancestor(),
            Op::Create(_, overwrite) => {
                let replaces = *overwrite && exists && !self.is_directory(path);
                ancestor() && (!replaces || self.grants(path, "w"))
            }
            Op::Delete(_) => self.may_delete(path),
            Op::Setrep(_) | Op::Touch(_) => self.grants(path, "w"),
            Op::Chmod(..) => self.is_owner(path),
            Op::Chown(_, owner, group) => {
                let fine = (owner.is_empty() || owner == self.caller.user)
                    && (group.is_empty() || self.caller.groups.contains(group));
                self.is_owner(path) && (!exists || fine)
            }
            Op::Rename(_, to, options) => {
                if !self.passes(to)? {
                    return Some(true);
                }
                let into = options.is_none() && self.is_directory(to);
                let enters = match into {
                    true => self.grants(to, "w"),
                    false => to == "/" || self.grants(&self.deepest(to), "w"),
                };
                self.may_leave(path) && enters && (options.is_none() || self.may_leave(to))
            }
        })
    }
}

#[derive(Clone, Debug)]
enum Op {
    Status(String),
    List(String),
    Read(String),
    Count(String),
    Mkdirs(String),
    Create(String, bool),
    Delete(String),
    Setrep(String),
    Touch(String),
    Chmod(String, u16),
    Chown(String, String, String),
    Rename(String, String, Option<bool>),
}

impl Op {
    fn path(&self) -> &str {
        match self {
            Op::Status(path)
            | Op::List(path)
            | Op::Read(path)
            | Op::Count(path)
            | Op::Mkdirs(path)
            | Op::Create(path, _)
            | Op::Delete(path)
            | Op::Setrep(path)
            | Op::Touch(path)
            | Op::Chmod(path, _)
            | Op::Chown(path, ..)
            | Op::Rename(path, ..) => path,
        }
    }

    fn call(&self) -> Call {
        match self {
            Op::Status(path) => Call::Status(dfs(path)),
            Op::List(path) => list(path),
            Op::Read(path) => read(path),
            Op::Count(path) => Call::ContentSummary(dfs(path)),
            Op::Mkdirs(path) => mkdirs(path),
            Op::Create(path, overwrite) => create(path, *overwrite, None, false),
            Op::Delete(path) => delete(path),
            Op::Setrep(path) => setrep(path),
            Op::Touch(path) => touch(path),
            Op::Chmod(path, mode) => chmod(path, *mode),
            Op::Chown(path, owner, group) => chown(path, owner, group),
            Op::Rename(from, to, options) => rename(from, to, *options),
        }
    }
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b"]);
    prop_oneof![
        1 => Just("/".to_owned()),
        20 => prop::collection::vec(name, 1..4).prop_map(|names| format!("/{}", names.join("/"))),
    ]
}

fn mode() -> impl Strategy<Value = u16> {
    // Mostly generous, so that deep paths are reached.
    prop_oneof![3 => Just(0o777), 2 => Just(0o1777), 2 => Just(0o755), 5 => 0_u16..0o2000]
}

fn op() -> impl Strategy<Value = Op> {
    let options = prop_oneof![Just(None), Just(Some(false)), Just(Some(true))];
    let name = || prop::sample::select(vec!["", "u0", "u1"]).prop_map(str::to_owned);
    let group = prop::sample::select(vec!["", "g0", "g1"]).prop_map(str::to_owned);
    prop_oneof![
        1 => path().prop_map(Op::Status),
        1 => path().prop_map(Op::List),
        1 => path().prop_map(Op::Read),
        1 => path().prop_map(Op::Count),
        3 => path().prop_map(Op::Mkdirs),
        3 => (path(), any::<bool>()).prop_map(|(path, overwrite)| Op::Create(path, overwrite)),
        2 => path().prop_map(Op::Delete),
        1 => path().prop_map(Op::Setrep),
        1 => path().prop_map(Op::Touch),
        4 => (path(), mode()).prop_map(|(path, mode)| Op::Chmod(path, mode)),
        3 => (path(), name(), group).prop_map(|(path, owner, group)| Op::Chown(path, owner, group)),
        3 => (path(), path(), options).prop_map(|(from, to, options)| Op::Rename(from, to, options)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_checker_agrees_with_the_model(ops in prop::collection::vec((0_usize..5, op()), 1..100)) {
        let groups: [&[String]; 3] = [&[], &["g0".to_owned()], &["g0".to_owned(), "g1".to_owned()]];
        let callers = [
            Caller { user: "u0", groups: groups[1], is_superuser: false },
            Caller { user: "u1", groups: groups[2], is_superuser: false },
            Caller { user: "u2", groups: groups[0], is_superuser: false },
            Caller { user: "ann", groups: groups[0], is_superuser: true },
        ];
        let mut harness = Harness::with_nodes(1, 1);
        harness.call(chmod("/", 0o777)).unwrap();
        for (who, op) in &ops {
            // The superuser acts twice as often, so that there is something to be refused.
            let caller = callers[(*who).min(3)];
            let model = Model::of(&harness, caller);
            let before = canonical(&mut harness.state.ns);
            let answer = harness.call_as(caller, op.call());
            let denied = matches!(&answer, Err(e) if e.kind == ErrorKind::PermissionDenied);
            if let Some(expected) = model.denies(op) {
                prop_assert_eq!(denied, expected, "{:?} by {}: {:?}", op, caller.user, answer);
            }
            if denied {
                prop_assert_eq!(canonical(&mut harness.state.ns), before);
            }
        }
    }
}

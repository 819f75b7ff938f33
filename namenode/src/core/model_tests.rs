//! The namespace against a slow model that is a map from paths to nodes; and a restart at any point against the live state.

use std::collections::BTreeMap;

use proptest::prelude::*;
use protocol::ErrorKind;
use protocol::namenode::{Answer, Call, ContentSummary, QuotaChange, Reply};

use super::harness::{Harness, canonical, create, dfs, written};
use super::permission::Caller;

#[derive(Clone, PartialEq, Debug)]
enum Node {
    Directory,
    File { length: u64, replication: u16 },
}

#[derive(Clone, Debug)]
enum Op {
    Mkdirs { path: String, parents: bool },
    Write { path: String, overwrite: bool, length: u64 },
    Rename { from: String, to: String, overwrite: Option<bool> },
    Delete { path: String, recursive: bool },
    SetReplication { path: String, replication: u16 },
    SetQuota { path: String, names: QuotaChange, space: QuotaChange },
    Checkpoint,
}

/// What came of an operation.
type Outcome = Result<Option<bool>, ErrorKind>;

/// What a file's first block counts for while it is written: block size times replicas.
const WRITING: u64 = 1000 * 3;

#[derive(Clone, Default)]
struct Model {
    nodes: BTreeMap<String, Node>,
    /// Names and space.
    quotas: BTreeMap<String, (Option<u64>, Option<u64>)>,
}

impl Model {
    fn get(&self, path: &str) -> Option<&Node> {
        if path == "/" { Some(&Node::Directory) } else { self.nodes.get(path) }
    }

    fn parent(path: &str) -> &str {
        match path.rfind('/') {
            Some(0) | None => "/",
            Some(end) => &path[..end],
        }
    }

    fn ancestors(path: &str) -> Vec<String> {
        let ends = path.char_indices().skip(1).filter(|(_, c)| *c == '/').map(|(end, _)| end);
        ends.map(|end| path[..end].to_owned()).collect()
    }

    fn file_above(&self, path: &str) -> bool {
        Model::ancestors(path).iter().any(|at| matches!(self.get(at), Some(Node::File { .. })))
    }

    fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a String, &'a Node)> {
        self.nodes.iter().filter(move |(at, _)| path == "/" || at.starts_with(&format!("{path}/")))
    }

    fn make_parents(&mut self, path: &str) {
        for at in Model::ancestors(path) {
            self.nodes.entry(at).or_insert(Node::Directory);
        }
    }

    /// Whether so much more below `path` fits into the quotas above it that are not above `except` as well.
    fn fits(&self, path: &str, except: &str, (names, space): (u64, u64)) -> Result<(), ErrorKind> {
        let above = |path: &str| {
            let mut all = Model::ancestors(path);
            all.push("/".to_owned());
            all
        };
        let excepted = if except.is_empty() { Vec::new() } else { above(except) };
        for at in above(path).iter().filter(|at| !excepted.contains(at)) {
            let Some(&(name_quota, space_quota)) = self.quotas.get(at) else { continue };
            let used = self.summary(at);
            let more = used.file_count + used.directory_count + names;
            let too_many = names > 0 && name_quota.is_some_and(|quota| more > quota);
            let bytes = used.space_consumed + space;
            if too_many || space > 0 && space_quota.is_some_and(|quota| bytes > quota) {
                return Err(ErrorKind::NamespaceQuotaExceeded);
            }
        }
        Ok(())
    }

    /// Names that making `path` with its parents adds.
    fn missing(&self, path: &str) -> u64 {
        1 + Model::ancestors(path).iter().filter(|at| self.get(at).is_none()).count() as u64
    }

    fn remove(&mut self, path: &str) {
        self.quotas.retain(|at, _| at != path && !at.starts_with(&format!("{path}/")));
        self.nodes.retain(|at, _| at != path && !at.starts_with(&format!("{path}/")));
    }

    fn relocate(&mut self, from: &str, to: &str) {
        let moved: Vec<(String, Node)> = self
            .nodes
            .iter()
            .filter(|(at, _)| *at == from || at.starts_with(&format!("{from}/")))
            .map(|(at, node)| (format!("{to}{}", &at[from.len()..]), node.clone()))
            .collect();
        let quotas: Vec<_> = self
            .quotas
            .iter()
            .filter(|(at, _)| *at == from || at.starts_with(&format!("{from}/")))
            .map(|(at, quota)| (format!("{to}{}", &at[from.len()..]), *quota))
            .collect();
        self.remove(from);
        self.nodes.extend(moved);
        self.quotas.extend(quotas);
    }

    /// A refused operation changes nothing.
    fn apply(&mut self, op: &Op) -> Outcome {
        let mut next = self.clone();
        let outcome = next.try_apply(op);
        if outcome.is_ok() {
            *self = next;
        }
        outcome
    }

    fn try_apply(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Mkdirs { path, parents } => self.mkdirs(path, *parents),
            Op::Write { path, overwrite, length } => self.write(path, *overwrite, *length),
            Op::Rename { from, to, overwrite: None } => self.rename(from, to).map(Some),
            Op::Rename { from, to, overwrite: Some(overwrite) } => {
                self.rename_with_options(from, to, *overwrite)
            }
            Op::Delete { path, recursive } => {
                if self.file_above(path) {
                    return Err(ErrorKind::NotDirectory);
                }
                if path == "/" || self.get(path).is_none() {
                    return Ok(Some(false));
                }
                if !recursive && self.below(path).next().is_some() {
                    return Err(ErrorKind::NotEmpty);
                }
                self.remove(path);
                Ok(Some(true))
            }
            Op::SetReplication { path, replication } => {
                if self.file_above(path) {
                    return Err(ErrorKind::NotDirectory);
                }
                let Some(&Node::File { length, replication: old }) = self.get(path) else {
                    return Ok(Some(false));
                };
                let more = u64::from(replication.saturating_sub(old));
                self.fits(path, "", (0, length * more))?;
                self.nodes.insert(path.clone(), Node::File { length, replication: *replication });
                Ok(Some(true))
            }
            Op::SetQuota { path, names, space } => self.set_quota(path, *names, *space),
            Op::Checkpoint => Ok(None),
        }
    }

    fn set_quota(&mut self, path: &str, names: QuotaChange, space: QuotaChange) -> Outcome {
        if self.file_above(path) {
            return Err(ErrorKind::NotDirectory);
        }
        match self.get(path) {
            None => return Err(ErrorKind::NotFound),
            Some(Node::File { .. }) => return Err(ErrorKind::NotDirectory),
            Some(Node::Directory) => {}
        }
        if path == "/" && names == QuotaChange::Clear {
            return Err(ErrorKind::InvalidArgument);
        }
        let quota = self.quotas.entry(path.to_owned()).or_default();
        for (slot, change) in [(&mut quota.0, names), (&mut quota.1, space)] {
            match change {
                QuotaChange::Keep => {}
                QuotaChange::Clear => *slot = None,
                QuotaChange::Set(value) => *slot = Some(value),
            }
        }
        Ok(None)
    }

    fn mkdirs(&mut self, path: &str, parents: bool) -> Outcome {
        if self.file_above(path) {
            return Err(ErrorKind::NotDirectory);
        }
        match self.get(path) {
            Some(Node::Directory) if parents => return Ok(None),
            Some(_) => return Err(ErrorKind::AlreadyExists),
            None => {}
        }
        if !parents && self.get(Model::parent(path)).is_none() {
            return Err(ErrorKind::NotFound);
        }
        self.fits(path, "", (self.missing(path), 0))?;
        self.make_parents(path);
        self.nodes.insert(path.to_owned(), Node::Directory);
        Ok(None)
    }

    fn write(&mut self, path: &str, overwrite: bool, length: u64) -> Outcome {
        if self.file_above(path) {
            return Err(ErrorKind::NotDirectory);
        }
        match self.get(path) {
            Some(Node::Directory) => return Err(ErrorKind::AlreadyExists),
            Some(_) if !overwrite => return Err(ErrorKind::AlreadyExists),
            _ => {}
        }
        self.remove(path);
        let space = if length > 0 { WRITING } else { 0 };
        self.fits(path, "", (self.missing(path), space))?;
        self.make_parents(path);
        self.nodes.insert(path.to_owned(), Node::File { length, replication: 3 });
        Ok(None)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<bool, ErrorKind> {
        if from == "/" || self.get(from).is_none() {
            return Ok(false);
        }
        let is_file = matches!(self.get(from), Some(Node::File { .. }));
        if from == to {
            return Ok(is_file);
        }
        let name = &from[from.rfind('/').unwrap()..];
        let target = match self.get(to) {
            Some(Node::Directory) => format!("{}{name}", to.trim_end_matches('/')),
            Some(_) => return Ok(false),
            None => to.to_owned(),
        };
        if target == from {
            return Ok(is_file);
        }
        if self.get(&target).is_some() || target.starts_with(&format!("{from}/")) {
            return Ok(false);
        }
        if self.get(Model::parent(&target)) != Some(&Node::Directory) {
            return Ok(false);
        }
        self.fits(&target, from, self.size(from))?;
        self.relocate(from, &target);
        Ok(true)
    }

    fn rename_with_options(&mut self, from: &str, to: &str, overwrite: bool) -> Outcome {
        if self.file_above(from) {
            return Err(ErrorKind::NotDirectory);
        }
        let Some(source) = self.get(from).cloned() else { return Err(ErrorKind::NotFound) };
        if from == to {
            return Err(ErrorKind::AlreadyExists);
        }
        if from == "/" || to == "/" || to.starts_with(&format!("{from}/")) {
            return Err(ErrorKind::InvalidArgument);
        }
        if let Some(target) = self.get(to) {
            let same_kind = (source == Node::Directory) == (*target == Node::Directory);
            if !same_kind || !overwrite {
                return Err(ErrorKind::AlreadyExists);
            }
            if self.below(to).next().is_some() {
                return Err(ErrorKind::NotEmpty);
            }
        }
        if self.file_above(to) {
            return Err(ErrorKind::NotDirectory);
        }
        if self.get(Model::parent(to)).is_none() {
            return Err(ErrorKind::NotFound);
        }
        self.remove(to);
        self.fits(to, from, self.size(from))?;
        self.relocate(from, to);
        Ok(None)
    }

    /// Names and space below and with `path`.
    fn size(&self, path: &str) -> (u64, u64) {
        let total = self.summary(path);
        (total.file_count + total.directory_count, total.space_consumed)
    }

    fn summary(&self, path: &str) -> ContentSummary {
        let own = self.get(path).into_iter();
        let (quota, space_quota) = self.quotas.get(path).copied().unwrap_or_default();
        let quota = if path == "/" { quota.or(Some(i64::MAX as u64)) } else { quota };
        own.chain(self.below(path).map(|(_, node)| node)).fold(
            ContentSummary { quota, space_quota, ..ContentSummary::default() },
            |mut sum, node| {
                match node {
                    Node::Directory => sum.directory_count += 1,
                    Node::File { length, replication } => {
                        sum.file_count += 1;
                        sum.length += length;
                        sum.space_consumed += length * u64::from(*replication);
                    }
                }
                sum
            },
        )
    }
}

fn outcome(answer: Answer) -> Outcome {
    match answer {
        Ok(Reply::Flag(flag)) => Ok(Some(flag)),
        Ok(Reply::Done) => Ok(None),
        Ok(other) => panic!("{other:?}"),
        // Which of several quotas is named first is not the model's matter.
        Err(refusal) if refusal.kind == ErrorKind::SpaceQuotaExceeded => {
            Err(ErrorKind::NamespaceQuotaExceeded)
        }
        Err(refusal) => Err(refusal.kind),
    }
}

fn carry_out(harness: &mut Harness, op: &Op) -> Outcome {
    let call = match op {
        Op::Mkdirs { path, parents } => {
            Call::Mkdirs { path: dfs(path), mode: 0o755, parents: *parents }
        }
        Op::Write { path, overwrite, length } => {
            let created = match harness.call(create(path, *overwrite, None, *length > 0)) {
                Ok(Reply::Created(created)) => created,
                Ok(other) => panic!("{other:?}"),
                Err(refusal) => return outcome(Err(refusal)),
            };
            let last = created.first_block.map(|block| written(&block, *length));
            Call::Complete { file: created.file, last, publish: None }
        }
        Op::Rename { from, to, overwrite } => {
            Call::Rename { from: dfs(from), to: dfs(to), overwrite: *overwrite }
        }
        Op::Delete { path, recursive } => Call::Delete { path: dfs(path), recursive: *recursive },
        Op::SetReplication { path, replication } => {
            Call::SetReplication { path: dfs(path), replication: *replication }
        }
        Op::SetQuota { path, names, space } => {
            Call::SetQuota { path: dfs(path), names: *names, space: *space }
        }
        Op::Checkpoint => {
            harness.checkpoint();
            return Ok(None);
        }
    };
    let answer = harness.call(call.clone());
    let again = harness.call_again(harness.number(), call);
    assert_eq!(answer, again, "a repeated call gets the first answer");
    outcome(answer)
}

fn check(harness: &Harness, model: &Model) {
    let query = |call: Call| {
        harness.state.query_namespace(&call, Caller::NAMENODE).expect("a read of the namespace")
    };
    for (path, node) in model.nodes.iter().chain([(&"/".to_owned(), &Node::Directory)]) {
        let Ok(Reply::Status(status)) = query(Call::Status(dfs(path))) else {
            panic!("{path} is missing")
        };
        match node {
            Node::Directory => {
                assert!(status.directory);
                let children: Vec<String> = model
                    .below(path)
                    .filter(|(at, _)| Model::parent(at) == path)
                    .map(|(at, _)| at[at.rfind('/').unwrap() + 1..].to_owned())
                    .collect();
                assert_eq!(list(harness, path), children);
            }
            Node::File { length, replication } => {
                assert_eq!((status.length, status.replication), (*length, *replication));
                assert!(!status.open);
            }
        }
        let summary = query(Call::ContentSummary(dfs(path)));
        assert_eq!(summary, Ok(Reply::Summary(model.summary(path))), "{path}");
    }
    assert_eq!(harness.state.ns.inode_count(), model.nodes.len() as u64 + 1);
}

/// All names of a directory, two per page.
fn list(harness: &Harness, path: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    loop {
        let start_after = names.last().cloned().unwrap_or_default();
        let call = Call::List { path: dfs(path), start_after, limit: 2 };
        match harness.state.query_namespace(&call, Caller::NAMENODE) {
            Some(Ok(Reply::Listing { entries, remaining })) => {
                names.extend(entries.into_iter().map(|entry| entry.name));
                if remaining == 0 {
                    return names;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c c"]);
    prop_oneof![
        1 => Just("/".to_owned()),
        30 => prop::collection::vec(name, 1..4).prop_map(|names| format!("/{}", names.join("/"))),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let overwrite = prop_oneof![Just(None), Just(Some(false)), Just(Some(true))];
    let length = prop_oneof![Just(0), 1_u64..1000];
    let change = |most: u64| {
        prop_oneof![
            1 => Just(QuotaChange::Keep),
            1 => Just(QuotaChange::Clear),
            3 => (1..most).prop_map(QuotaChange::Set),
        ]
    };
    prop_oneof![
        2 => (path(), change(12), change(9000))
            .prop_map(|(path, names, space)| Op::SetQuota { path, names, space }),
        3 => (path(), any::<bool>()).prop_map(|(path, parents)| Op::Mkdirs { path, parents }),
        5 => (path(), any::<bool>(), length)
            .prop_map(|(path, overwrite, length)| Op::Write { path, overwrite, length }),
        4 => (path(), path(), overwrite)
            .prop_map(|(from, to, overwrite)| Op::Rename { from, to, overwrite }),
        2 => (path(), any::<bool>()).prop_map(|(path, recursive)| Op::Delete { path, recursive }),
        1 => (path(), 1_u16..5)
            .prop_map(|(path, replication)| Op::SetReplication { path, replication }),
        1 => Just(Op::Checkpoint),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 170, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_the_model_and_survives_a_restart(ops in prop::collection::vec(op(), 1..120)) {
        let mut harness = Harness::with_nodes(1, 3);
        let mut model = Model::default();
        for op in &ops {
            harness.now.wall_ms += 7;
            prop_assert_eq!(carry_out(&mut harness, op), model.apply(op), "{:?}", op);
            check(&harness, &model);
        }
        let (mut reloaded, mut replayed) = (harness.reload(), harness.replay());
        harness.work();
        harness.state.blocks.check(&harness.state.ns);
        let live = canonical(&mut harness.state.ns);
        prop_assert_eq!(&live, &canonical(&mut reloaded.ns));
        prop_assert_eq!(&live, &canonical(&mut replayed.ns));
    }
}

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

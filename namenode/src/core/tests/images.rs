//! Images that somebody made up: every number of every row is replaced by numbers that no NameNode writes. What still loads is used as a cluster is, and
//! nothing in it may end the process or go round for ever.

use protocol::namenode::{Call, QuotaChange, Reply};
use protocol::xattr::XattrFlag;
use protocol::{DfsPath, InodeId};

use super::harness::{Harness, create, dfs, settings};
use crate::core::inodes::encode;
use crate::core::random::Generator;
use crate::core::safe_mode::SafeMode;
use crate::core::state::{Loaded, State};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Entries that a walk may list: many times what is there.
const LISTED_MAX: usize = 1000;

/// A tree with all kinds of rows: two snapshots, a moved directory and a deleted file in them, open files, one that is being truncated, quotas, attributes.
fn sample() -> Harness {
    let mut harness = Harness::with_nodes(1, 3);
    let make =
        |path: &str| Call::Mkdirs { path: dfs(path), mode: 0o755, unmasked: None, parents: true };
    let snapshot =
        |name: &str| Call::CreateSnapshot { path: dfs("/a"), name: Some(name.to_owned()) };
    harness.write("/a/b/f", 700, 2);
    harness.write("/a/cut", 900, 3);
    harness.write("/a/gone", 10, 3);
    let rename = |from, to| Call::Rename { from: dfs(from), to: dfs(to), overwrite: None };
    let calls = [
        make("/a/b/c"),
        make("/a/d"),
        Call::SetXattr {
            path: dfs("/a/b"),
            name: "user.x".to_owned(),
            value: vec![7; 5],
            flag: XattrFlag::Create,
        },
        Call::SetQuota {
            path: dfs("/a/d"),
            names: QuotaChange::Set(100),
            space: QuotaChange::Set(1 << 40),
        },
        Call::AllowSnapshot(dfs("/a")),
        snapshot("s1"),
        rename("/a/b", "/a/d/b"),
        snapshot("s2"),
        Call::Delete { path: dfs("/a/gone"), recursive: true },
        Call::Truncate { path: dfs("/a/cut"), length: 300 },
        create("/open", true, Some(3), true),
    ];
    for call in calls {
        harness.call(call.clone()).unwrap_or_else(|refusal| panic!("{call:?}: {refusal}"));
    }
    harness
}

fn rows() -> Rows {
    let mut harness = sample();
    harness.checkpoint();
    harness.rows.into_iter().collect()
}

/// What a start makes of them.
fn load(rows: &Rows) -> Option<Loaded> {
    let mut loaded = Loaded::default();
    rows.iter().try_for_each(|(key, value)| loaded.load_row(key, value)).ok()?;
    loaded.ns.finish_load().ok()?;
    Some(loaded)
}

/// Everything below `path` as clients see it.
fn walk(harness: &Harness, path: &str) -> Vec<String> {
    let (mut stack, mut all) = (vec![path.to_owned()], Vec::new());
    while let Some(path) = stack.pop() {
        assert!(all.len() < LISTED_MAX, "a ring at {path}");
        // A name that came from nowhere can make a path that is none.
        let Ok(parsed) = path.parse() else { continue };
        all.push(path.clone());
        let list = Call::List { path: parsed, start_after: String::new(), limit: 100 };
        let Ok(Reply::Listing { entries, .. }) = harness.read(&list) else { continue };
        let below = entries.into_iter().filter(|entry| !entry.name.is_empty());
        stack.extend(below.map(|entry| format!("{}/{}", path.trim_end_matches('/'), entry.name)));
    }
    all
}

/// What clients, an administrator and time do with it.
fn put_to_use(loaded: Loaded) {
    let mut harness = Harness::with_nodes(1, 3);
    for (id, _) in loaded.ns.all() {
        let _ = (loaded.ns.path_of(id), loaded.ns.is_within(id, InodeId::ROOT));
    }
    harness.state = State::new(loaded, settings(), Generator::new(1), harness.now);
    harness.state.safe_mode = SafeMode::Off;
    let tops = ["/", "/a/.snapshot/s1", "/a/.snapshot/s2"];
    for path in tops.iter().flat_map(|top| walk(&harness, top)) {
        let Ok(path) = path.parse::<DfsPath>() else { continue };
        let _ = harness.read(&Call::Status(path.clone()));
        let _ = harness.read(&Call::ContentSummary(path.clone()));
        let _ = harness.read(&Call::Fsck { path: path.clone(), after: None });
        let _ = harness.read(&Call::Locations { path, offset: 0, length: u64::MAX });
    }
    let (from, to) = ("s1".to_owned(), String::new());
    let _ = harness.read(&Call::SnapshotDiff { path: dfs("/a"), from, to, skip: 0 });
    for path in ["/a", "/a/d/b/f", "/open", "/a/cut"] {
        let _ = harness.call(Call::Append { path: dfs(path), new_block: false });
        let _ = harness.call(Call::SetReplication { path: dfs(path), replication: 512 });
        let _ = harness.call(Call::RecoverLease(dfs(path)));
    }
    let _ = harness.call(create("/a/d/new", true, Some(3), true));
    harness.work();
    let _ = harness.call(Call::DeleteSnapshot { path: dfs("/a"), name: "s1".to_owned() });
    let _ = harness.call(Call::Delete { path: dfs("/a/d"), recursive: true });
    harness.work();
    harness.checkpoint();
}

/// The row that was replaced, for who looks for what it did.
struct Replaced<'a>(&'a [u8], &'a [u8]);

impl Drop for Replaced<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the row {:?} is {:?}", self.0, self.1);
        }
    }
}

/// Numbers that no NameNode writes where they do not belong: extremes, and ids of others.
fn numbers() -> Vec<u64> {
    let ids = 0..12;
    let extremes = [0, 1, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX];
    extremes.into_iter().chain(ids.map(|id| InodeId::ROOT.0 + id)).collect()
}

/// `value` with the number that begins at `start` replaced, as postcard writes numbers.
fn spliced(value: &[u8], start: usize, number: u64) -> Vec<u8> {
    let rest = &value[start..];
    let length = rest.iter().position(|byte| *byte < 0x80).map_or(rest.len(), |last| last + 1);
    [&value[..start], &encode(&number), &rest[length..]].concat()
}

#[test]
fn whatever_loads_can_be_used() {
    let whole = rows();
    put_to_use(load(&whole).expect("what was written loads"));
    let mut loaded_count = 0;
    let mut try_one = |index: usize, row: (Vec<u8>, Vec<u8>)| {
        let mut rows = whole.clone();
        let _replaced = Replaced(&row.0, &row.1);
        rows[index] = row.clone();
        rows.sort();
        if let Some(loaded) = load(&rows) {
            loaded_count += 1;
            put_to_use(loaded);
        }
    };
    for (index, (key, value)) in whole.iter().enumerate() {
        for number in numbers() {
            for start in 0..value.len() {
                try_one(index, (key.clone(), spliced(value, start, number)));
            }
            for start in (1..key.len().saturating_sub(7)).step_by(8) {
                let mut key = key.clone();
                key[start..start + 8].copy_from_slice(&number.to_be_bytes());
                try_one(index, (key, value.clone()));
            }
        }
    }
    assert!(loaded_count > 1000, "only {loaded_count} of them load: this tests nothing");
}

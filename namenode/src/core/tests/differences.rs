//! What a difference between two moments of a tree must say, found by comparing two whole copies; and what the core says.

use std::collections::{BTreeMap, BTreeSet};

use protocol::namenode::{Call, DiffKind, Reply};

use super::harness::{Harness, dfs};

/// A copy of a tree: what is at a path below its root ("" for the root), and everything a difference compares of it.
pub(crate) type Copy = BTreeMap<String, (u64, String)>;

fn split(way: &str) -> (&str, &str) {
    way.rsplit_once('/').expect("below the root")
}

/// Differences of two copies, one line each.
pub(crate) fn expected(earlier: &Copy, later: &Copy) -> BTreeSet<String> {
    let by_id = |copy: &Copy| -> BTreeMap<u64, String> {
        copy.iter().map(|(way, (id, _))| (*id, way.clone())).collect()
    };
    let (before, after) = (by_id(earlier), by_id(later));
    let mut lines = BTreeSet::new();
    let touched = |way: &str, lines: &mut BTreeSet<String>| {
        lines.insert(format!("M {way}"));
    };
    for (id, from) in &before {
        let Some(to) = after.get(id) else {
            if from.is_empty() {
                continue;
            }
            let (parent, _) = split(from);
            if after.contains_key(&earlier[parent].0) {
                lines.insert(format!("- {from}"));
                touched(parent, &mut lines);
            }
            continue;
        };
        if earlier[from] != later[to] {
            touched(from, &mut lines);
        }
        if from.is_empty() {
            continue;
        }
        let ((parent, name), (new_parent, new_name)) = (split(from), split(to));
        let (parent_id, new_parent_id) = (earlier[parent].0, later[new_parent].0);
        if parent_id == new_parent_id && name == new_name {
            continue;
        }
        if after.contains_key(&parent_id) {
            lines.insert(format!("R {from} -> {to}"));
            touched(parent, &mut lines);
        }
        if let Some(way) = before.get(&new_parent_id) {
            touched(way, &mut lines);
            if !after.contains_key(&parent_id) {
                lines.insert(format!("+ {way}/{new_name}"));
            }
        }
    }
    for (_, to) in after.iter().filter(|(id, _)| !before.contains_key(*id)) {
        let (parent, name) = split(to);
        if let Some(way) = before.get(&later[parent].0) {
            lines.insert(format!("+ {way}/{name}"));
            touched(way, &mut lines);
        }
    }
    lines
}

/// What the core says of two moments of a directory, by their names.
pub(crate) fn told(harness: &Harness, path: &str, (from, to): (&str, &str)) -> BTreeSet<String> {
    let (from, to) = (from.to_owned(), to.to_owned());
    let call = Call::SnapshotDiff { path: dfs(path), from, to, skip: 0 };
    let answer = harness.read_as_namenode(&call);
    let Ok(Reply::SnapshotDiff { entries, .. }) = answer else { panic!("{answer:?}") };
    let slash = |way: &str| if way.is_empty() { String::new() } else { format!("/{way}") };
    let mut lines = BTreeSet::new();
    for entry in &entries {
        let path = slash(&entry.path);
        let line = match entry.kind {
            DiffKind::Created => format!("+ {path}"),
            DiffKind::Deleted => format!("- {path}"),
            DiffKind::Modified => format!("M {path}"),
            DiffKind::Renamed => {
                let target = entry.target.as_ref().expect("a rename has a target");
                format!("R {path} -> {}", slash(target))
            }
        };
        assert!(lines.insert(line.clone()), "{line} twice");
    }
    lines
}

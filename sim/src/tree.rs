//! The model of the tree that the keeper changes, and the changes.

use std::collections::{BTreeMap, BTreeSet};

use needs::random::Random;
use protocol::DfsPath;
use protocol::namenode::Call;

/// The directory that is the keeper's own. Snapshots are taken of it.
pub(crate) const TOP: &str = "/keep";
/// Names in each directory.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const SNAPSHOTS: [&str; 4] = ["s1", "s2", "s3", "s4"];
/// Most directories above an entry.
const DEPTH_MAX: usize = 3;

/// Files by their numbers, and directories (`None`), by their paths below the top, whose own is empty.
pub(crate) type Entries = BTreeMap<String, Option<u64>>;

/// A state of the tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) entries: Entries,
    pub(crate) snapshots: BTreeMap<String, Entries>,
    /// Files that the keeper owns, and that are where their writer made them.
    pub(crate) outside: BTreeSet<u64>,
}

/// A change of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Mkdir(String),
    /// A file comes from where its writer made it.
    Take(u64, DfsPath, String),
    Move {
        from: String,
        to: String,
        overwrite: bool,
    },
    Delete(String),
    Snapshot(String),
    RenameSnapshot(String, String),
    DeleteSnapshot(String),
}

impl Tree {
    /// The tree after a change; `None` if the change must be refused.
    pub(crate) fn after(&self, change: &Change) -> Option<Tree> {
        let mut tree = self.clone();
        let is_done = match change {
            Change::Mkdir(path) => {
                self.is_free(path) && tree.entries.insert(path.clone(), None).is_none()
            }
            Change::Take(file, _, to) => {
                let is_there = self.is_free(to) && tree.outside.remove(file);
                tree.entries.insert(to.clone(), Some(*file));
                is_there
            }
            Change::Move { from, to, overwrite } => {
                let is_allowed = self.may_move(from, to, *overwrite);
                tree.entries.remove(to);
                let moved: Vec<String> = self.below(from).cloned().collect();
                for path in moved {
                    let kind = tree.entries.remove(&path).flatten();
                    tree.entries.insert(format!("{to}{}", &path[from.len()..]), kind);
                }
                is_allowed
            }
            Change::Delete(path) => {
                for path in self.below(path) {
                    tree.entries.remove(path);
                }
                self.entries.contains_key(path)
            }
            Change::Snapshot(name) => {
                tree.snapshots.insert(name.clone(), self.entries.clone()).is_none()
            }
            Change::RenameSnapshot(from, to) => {
                let taken = tree.snapshots.remove(from);
                let is_there = taken.is_some();
                is_there && tree.snapshots.insert(to.clone(), taken.unwrap_or_default()).is_none()
            }
            Change::DeleteSnapshot(name) => tree.snapshots.remove(name).is_some(),
        };
        is_done.then_some(tree)
    }

    fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || self.entries.get(path) == Some(&None)
    }

    /// Something new can have this path.
    fn is_free(&self, path: &str) -> bool {
        self.is_directory(parent(path)) && !self.entries.contains_key(path)
    }

    /// An entry and all that is below it.
    fn below(&self, path: &str) -> impl Iterator<Item = &String> {
        let inside = format!("{path}/");
        self.entries.keys().filter(move |it| *it == path || it.starts_with(&inside))
    }

    fn may_move(&self, from: &str, to: &str, overwrite: bool) -> bool {
        let Some(source) = self.entries.get(from) else { return false };
        if from == to || to.starts_with(&format!("{from}/")) || !self.is_directory(parent(to)) {
            return false;
        }
        match self.entries.get(to) {
            None => true,
            Some(target) => {
                let is_replaced = target.is_some() == source.is_some();
                overwrite && is_replaced && self.below(to).count() == 1
            }
        }
    }

    /// A path that may be free or not.
    fn draw_path(&self, random: &mut Random) -> String {
        let is_above = |path: &&String| self.is_directory(path) && depth(path) < DEPTH_MAX;
        let above: Vec<&String> = self.entries.keys().filter(is_above).collect();
        let above = random.pick(&above).filter(|_| !random.one_in(3));
        format!("{}/{}", above.map_or("", String::as_str), NAMES[random.below(NAMES.len())])
    }

    /// An entry, or seldom any path.
    fn draw_entry(&self, random: &mut Random) -> String {
        let entries: Vec<&String> = self.entries.keys().collect();
        match random.pick(&entries).filter(|_| !random.one_in(8)) {
            Some(path) => path.clone(),
            None => self.draw_path(random),
        }
    }
}

impl Change {
    /// Draws a change; `file` is one that the keeper owns, and where it is outside of the tree.
    pub(crate) fn draw(tree: &Tree, file: Option<(u64, DfsPath)>, random: &mut Random) -> Self {
        let snapshot = |random: &mut Random| SNAPSHOTS[random.below(SNAPSHOTS.len())].to_owned();
        match (random.below(16), file) {
            (0..=2, _) => Change::Mkdir(tree.draw_path(random)),
            (3..=7, Some((file, path))) => Change::Take(file, path, tree.draw_path(random)),
            (3..=9, _) => Change::Move {
                from: tree.draw_entry(random),
                to: tree.draw_path(random),
                overwrite: random.one_in(3),
            },
            (10..=12, _) => Change::Delete(tree.draw_entry(random)),
            (13, _) => Change::Snapshot(snapshot(random)),
            (14, _) => Change::RenameSnapshot(snapshot(random), snapshot(random)),
            _ => Change::DeleteSnapshot(snapshot(random)),
        }
    }

    pub(crate) fn call(&self) -> Call {
        let top = || path_of("");
        match self.clone() {
            Change::Mkdir(path) => {
                let path = path_of(&path);
                Call::Mkdirs { path, mode: 0o755, unmasked: None, parents: false }
            }
            Change::Take(_, from, to) => {
                Call::Rename { from, to: path_of(&to), overwrite: Some(false) }
            }
            Change::Move { from, to, overwrite } => {
                Call::Rename { from: path_of(&from), to: path_of(&to), overwrite: Some(overwrite) }
            }
            Change::Delete(path) => Call::Delete { path: path_of(&path), recursive: true },
            Change::Snapshot(name) => Call::CreateSnapshot { path: top(), name: Some(name) },
            Change::RenameSnapshot(from, to) => Call::RenameSnapshot { path: top(), from, to },
            Change::DeleteSnapshot(name) => Call::DeleteSnapshot { path: top(), name },
        }
    }
}

/// The path of what is below the top.
pub(crate) fn path_of(below: &str) -> DfsPath {
    DfsPath::parse(&format!("{TOP}{below}")).expect("a path")
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_made_or_refused() {
        let name = |text: &str| text.to_owned();
        let moves = |from: &str, to: &str, overwrite| Change::Move {
            from: name(from),
            to: name(to),
            overwrite,
        };
        let mut tree = Tree { outside: [7, 8].into(), ..Tree::default() };
        let take = |file, to: &str| Change::Take(file, path_of("/x"), name(to));
        for (change, is_done, left) in [
            (Change::Mkdir(name("/a/b")), false, ""),
            (Change::Mkdir(name("/a")), true, "/a"),
            (take(7, "/a/c"), true, "/a /a/c"),
            (take(7, "/a/d"), false, "/a /a/c"),
            (Change::Mkdir(name("/a/c/d")), false, "/a /a/c"),
            (moves("/a", "/a/d", false), false, "/a /a/c"),
            (Change::Snapshot(name("s1")), true, "/a /a/c"),
            (moves("/a", "/b", false), true, "/b /b/c"),
            (take(8, "/c"), true, "/b /b/c /c"),
            (moves("/c", "/b/c", false), false, "/b /b/c /c"),
            (moves("/c", "/b", true), false, "/b /b/c /c"),
            (moves("/c", "/b/c", true), true, "/b /b/c"),
            (Change::Snapshot(name("s1")), false, "/b /b/c"),
            (Change::RenameSnapshot(name("s1"), name("s2")), true, "/b /b/c"),
            (Change::Delete(name("/b")), true, ""),
            (Change::Delete(name("/b")), false, ""),
            (Change::DeleteSnapshot(name("s1")), false, ""),
        ] {
            let after = tree.after(&change);
            assert_eq!(after.is_some(), is_done, "{change:?} of {tree:?}");
            tree = after.unwrap_or(tree);
            let paths: Vec<&str> = tree.entries.keys().map(String::as_str).collect();
            assert_eq!(paths.join(" "), left, "{change:?}");
        }
        assert_eq!(tree.snapshots["s2"]["/a/c"], Some(7));
    }
}

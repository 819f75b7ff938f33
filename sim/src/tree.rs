//! The model of the tree that the keeper changes, and the changes.

use std::collections::{BTreeMap, BTreeSet};

use needs::random::Random;
use protocol::DfsPath;
use protocol::checksum::CHUNK_BYTES;
use protocol::namenode::Call;

use crate::client::BLOCK_BYTES;
use crate::content::Content;

/// The directory that is the keeper's own. Snapshots are taken of it.
pub(crate) const TOP: &str = "/keep";
/// Names in each directory.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const SNAPSHOTS: [&str; 4] = ["s1", "s2", "s3", "s4"];
/// Most directories above an entry.
const DEPTH_MAX: usize = 3;

/// Files, and directories (`None`), by their paths below the top, whose own is empty.
pub(crate) type Entries = BTreeMap<String, Option<Kept>>;

/// A file that the keeper owns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// The number under which a writer made it: it is the same file wherever it is moved.
    pub(crate) number: u64,
    pub(crate) content: Content,
}

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
    Take(Kept, DfsPath, String),
    Move {
        from: String,
        to: String,
        overwrite: bool,
    },
    Delete(String),
    Snapshot(String),
    RenameSnapshot(String, String),
    DeleteSnapshot(String),
    /// What some files hold comes to the end of another.
    Concat {
        target: String,
        sources: Vec<String>,
    },
    Truncate(String, u64),
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
                let is_there = self.is_free(to) && tree.outside.remove(&file.number);
                tree.entries.insert(to.clone(), Some(file.clone()));
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
            Change::Concat { target, sources } => {
                let joined = self.joined(target, sources)?;
                sources.iter().for_each(|source| drop(tree.entries.remove(source)));
                tree.entries.insert(target.clone(), Some(joined)).is_some()
            }
            Change::Truncate(path, length) => {
                let file = self.file(path).filter(|file| *length <= file.content.length())?;
                let cut = Kept { content: file.content.cut(*length), ..file.clone() };
                tree.entries.insert(path.clone(), Some(cut)).is_some()
            }
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

    pub(crate) fn file(&self, path: &str) -> Option<&Kept> {
        self.entries.get(path)?.as_ref()
    }

    /// Where a file is.
    pub(crate) fn place_of(&self, number: u64) -> Option<&String> {
        let is_it = |(_, kept): &(_, &Option<Kept>)| {
            kept.as_ref().is_some_and(|kept| kept.number == number)
        };
        self.entries.iter().find(is_it).map(|(path, _)| path)
    }

    /// A file with the bytes of others, unless that is forbidden: they must lie beside it, hold something, and be in no snapshot.
    fn joined(&self, target: &str, sources: &[String]) -> Option<Kept> {
        let mut joined = self.file(target)?.clone();
        let mut numbers = BTreeSet::from([joined.number]);
        for path in sources {
            let source = self.file(path)?;
            let shown = self.snapshots.values().flat_map(|entries| entries.values().flatten());
            let is_shown = shown.into_iter().any(|it| it.number == source.number);
            let is_beside = parent(path) == parent(target) && numbers.insert(source.number);
            if !is_beside || is_shown || source.content.length() == 0 {
                return None;
            }
            joined.content = joined.content.followed_by(&source.content);
        }
        Some(joined)
    }

    /// A path that may be free or not.
    fn draw_path(&self, random: &mut Random) -> String {
        let is_above = |path: &&String| self.is_directory(path) && depth(path) < DEPTH_MAX;
        let above: Vec<&String> = self.entries.keys().filter(is_above).collect();
        let above = random.pick(&above).filter(|_| !random.one_in(3));
        format!("{}/{}", above.map_or("", String::as_str), NAMES[random.below(NAMES.len())])
    }

    /// A file, or seldom any entry.
    fn draw_file(&self, random: &mut Random) -> String {
        let files: Vec<&String> =
            self.entries.iter().filter_map(|(path, kept)| kept.as_ref().map(|_| path)).collect();
        match random.pick(&files).filter(|_| !random.one_in(16)) {
            Some(path) => path.clone(),
            None => self.draw_entry(random),
        }
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
    pub(crate) fn draw(tree: &Tree, file: Option<(Kept, DfsPath)>, random: &mut Random) -> Self {
        let snapshot = |random: &mut Random| SNAPSHOTS[random.below(SNAPSHOTS.len())].to_owned();
        match (random.below(22), file) {
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
            (15, _) => Change::DeleteSnapshot(snapshot(random)),
            (16..=18, _) => Change::draw_concat(tree, random),
            _ => Change::draw_truncate(tree, random),
        }
    }

    /// Draws files that lie beside each other, or seldom any.
    fn draw_concat(tree: &Tree, random: &mut Random) -> Self {
        let target = tree.draw_file(random);
        let is_beside = |path: &&String| {
            parent(path) == parent(&target) && **path != target && tree.file(path).is_some()
        };
        let beside: Vec<&String> = tree.entries.keys().filter(is_beside).collect();
        let count = 1 + random.below(2);
        let sources = (0..count).map(|_| match random.pick(&beside) {
            Some(path) if !random.one_in(8) => path.clone(),
            _ => tree.draw_file(random),
        });
        Change::Concat { sources: sources.collect(), target }
    }

    /// Draws a length: most of them lie within a block.
    fn draw_truncate(tree: &Tree, random: &mut Random) -> Self {
        let path = tree.draw_file(random);
        let has = tree.file(&path).map_or(0, |file| file.content.length());
        let within = random.within(0..has + 1);
        let length = match random.below(8) {
            0 => has + random.within(0..2),
            1 => within - within % CHUNK_BYTES as u64,
            2 => within - within % BLOCK_BYTES,
            _ => within,
        };
        Change::Truncate(path, length)
    }

    /// True if it wants, or shows, a file that is at rest.
    pub(crate) fn wants_rest(&self) -> bool {
        matches!(self, Change::Snapshot(_) | Change::Concat { .. } | Change::Truncate(..))
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
            Change::Concat { target, sources } => {
                let sources = sources.iter().map(|source| path_of(source)).collect();
                Call::Concat { target: path_of(&target), sources }
            }
            Change::Truncate(path, length) => Call::Truncate { path: path_of(&path), length },
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
        let kept = |number| Kept { number, content: Content::of(number, 600) };
        let take = |number, to: &str| Change::Take(kept(number), path_of("/x"), name(to));
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
        assert_eq!(tree.snapshots["s2"]["/a/c"], Some(kept(7)));
    }

    #[test]
    fn files_are_joined_and_cut_unless_a_snapshot_shows_what_would_go() {
        let name = |text: &str| text.to_owned();
        let concat = |target: &str, sources: &[&str]| Change::Concat {
            target: name(target),
            sources: sources.iter().map(|source| name(source)).collect(),
        };
        let cut = |path: &str, length| Change::Truncate(name(path), length);
        let kept = |number, length| Some(Kept { number, content: Content::of(number, length) });
        let mut tree = Tree::default();
        tree.entries.insert(name("/d"), None);
        for (path, file) in
            [("/a", kept(1, 600)), ("/b", kept(2, 700)), ("/c", kept(3, 0)), ("/d/e", kept(4, 10))]
        {
            tree.entries.insert(name(path), file);
        }
        for (change, is_done, lengths) in [
            (concat("/a", &["/d/e"]), false, "/a 600 /b 700 /c 0 /d/e 10"),
            (concat("/a", &["/c"]), false, "/a 600 /b 700 /c 0 /d/e 10"),
            (concat("/a", &["/a"]), false, "/a 600 /b 700 /c 0 /d/e 10"),
            (concat("/a", &["/b", "/b"]), false, "/a 600 /b 700 /c 0 /d/e 10"),
            (concat("/d", &["/b"]), false, "/a 600 /b 700 /c 0 /d/e 10"),
            (concat("/c", &["/b"]), true, "/a 600 /c 700 /d/e 10"),
            (cut("/c", 701), false, "/a 600 /c 700 /d/e 10"),
            (cut("/d", 0), false, "/a 600 /c 700 /d/e 10"),
            (Change::Snapshot(name("s1")), true, "/a 600 /c 700 /d/e 10"),
            (cut("/c", 500), true, "/a 600 /c 500 /d/e 10"),
            (concat("/a", &["/c"]), false, "/a 600 /c 500 /d/e 10"),
            (Change::DeleteSnapshot(name("s1")), true, "/a 600 /c 500 /d/e 10"),
            (concat("/a", &["/c"]), true, "/a 1100 /d/e 10"),
        ] {
            let after = tree.after(&change);
            assert_eq!(after.is_some(), is_done, "{change:?} of {tree:?}");
            tree = after.unwrap_or(tree);
            let files = tree.entries.iter().filter_map(|(path, kept)| Some((path, kept.as_ref()?)));
            let files = files.map(|(path, kept)| format!("{path} {}", kept.content.length()));
            assert_eq!(files.collect::<Vec<_>>().join(" "), lengths, "{change:?}");
        }
        let joined = Content::of(1, 600).followed_by(&Content::of(2, 500));
        assert_eq!(tree.file("/a").map(|file| &file.content), Some(&joined));
    }
}

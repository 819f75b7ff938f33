//! The names on a disk. Paths are compared by their bytes: none of them has an empty or a dotted part.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{MAIN_SEPARATOR, Path};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Directory,
    File(u64),
}

/// Paths from the root, and what they stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(BTreeMap<OsString, Node>);

impl Names {
    pub(super) fn get(&self, path: &Path) -> Option<Node> {
        self.0.get(path.as_os_str()).copied()
    }

    pub(super) fn insert(&mut self, path: &Path, node: Node) {
        self.0.insert(path.as_os_str().to_owned(), node);
    }

    pub(super) fn remove(&mut self, path: &Path) -> Option<Node> {
        self.0.remove(path.as_os_str())
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&Path) -> bool) {
        self.0.retain(|path, _| is_kept(Path::new(path)));
    }

    /// The files; one comes as often as it has names.
    pub(super) fn files(&self) -> impl Iterator<Item = u64> {
        self.0.values().filter_map(|node| match node {
            Node::File(id) => Some(*id),
            Node::Directory => None,
        })
    }

    /// What is below a directory, however deep.
    pub(super) fn below(&self, directory: &Path) -> impl Iterator<Item = (&Path, Node)> {
        let mut begin = directory.as_os_str().to_owned();
        begin.push(MAIN_SEPARATOR.to_string());
        let after = self.0.range(begin.clone()..);
        let below = after.take_while(move |(path, _)| {
            path.as_encoded_bytes().starts_with(begin.as_encoded_bytes())
        });
        below.map(|(path, node)| (Path::new(path), *node))
    }

    /// What is in a directory itself.
    pub(super) fn inside(&self, directory: &Path) -> impl Iterator<Item = &Path> {
        let begin = directory.as_os_str().len() + 1;
        let is_inside = move |path: &&Path| {
            !path.as_os_str().as_encoded_bytes()[begin..].contains(&(MAIN_SEPARATOR as u8))
        };
        self.below(directory).map(|(path, _)| path).filter(is_inside)
    }
}

/// True for the root and all that is below it.
pub(super) fn is_below(path: &Path, root: &Path) -> bool {
    let (path, root) = (path.as_os_str().as_encoded_bytes(), root.as_os_str().as_encoded_bytes());
    let rest = path.strip_prefix(root);
    rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == MAIN_SEPARATOR as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_directory_has_its_whole_name_before_it() {
        let mut names = Names::default();
        for (path, node) in [
            ("/d", Node::Directory),
            ("/d-1", Node::File(1)),
            ("/d/a", Node::Directory),
            ("/d/a/b", Node::File(2)),
            ("/d0", Node::File(3)),
        ] {
            names.insert(Path::new(path), node);
        }
        let below: Vec<&Path> = names.below(Path::new("/d")).map(|(path, _)| path).collect();
        assert_eq!(below, [Path::new("/d/a"), Path::new("/d/a/b")]);
        let inside: Vec<&Path> = names.inside(Path::new("/d")).collect();
        assert_eq!(inside, [Path::new("/d/a")]);
        assert!(is_below(Path::new("/d"), Path::new("/d")));
        assert!(is_below(Path::new("/d/a"), Path::new("/d")));
        assert!(!is_below(Path::new("/d0"), Path::new("/d")));
    }
}

//! The two file systems of the shell: the destination of a path.

use std::fmt;
use std::path::{Path, PathBuf};

use protocol::namenode::COPYING_SUFFIX;
use protocol::path::ELEMENT_BYTES_MAX;
use protocol::{DfsPath, PathError};

use super::temporary::unused_name;

/// A path and the file system that it belongs to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum FsPath {
    /// In the namespace of the cluster.
    Cluster(DfsPath),
    /// On this machine: absolute, with `.` and `..` resolved as text only, as Hadoop's shell does it.
    Machine(PathBuf),
}

impl FsPath {
    /// The path, if it is one of the cluster.
    pub(crate) fn cluster(&self) -> Option<&DfsPath> {
        match self {
            FsPath::Cluster(path) => Some(path),
            FsPath::Machine(_) => None,
        }
    }

    /// True below `/.reserved/raw`.
    pub(crate) fn is_raw(&self) -> bool {
        self.cluster().is_some_and(|path| path.of_raw().is_some())
    }

    /// The path, if it is one of this machine.
    pub(crate) fn machine(&self) -> Option<&Path> {
        match self {
            FsPath::Cluster(_) => None,
            FsPath::Machine(path) => Some(path),
        }
    }

    /// The last element; `None` for the root.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            FsPath::Cluster(path) => path.name(),
            FsPath::Machine(path) => path.file_name()?.to_str(),
        }
    }

    /// The directory that holds it; `None` for the root.
    pub(crate) fn parent(&self) -> Option<FsPath> {
        match self {
            FsPath::Cluster(path) => path.parent().map(FsPath::Cluster),
            FsPath::Machine(path) => path.parent().map(Path::to_owned).map(FsPath::Machine),
        }
    }

    /// The entry `name` of this directory.
    pub(crate) fn child(&self, name: &str) -> Result<FsPath, PathError> {
        match self {
            FsPath::Cluster(path) => path.join(name).map(FsPath::Cluster),
            FsPath::Machine(path) => Ok(FsPath::Machine(path.join(name))),
        }
    }

    /// The name beside it under which a copy begins: its own with [`COPYING_SUFFIX`]; `None` if that is too long for a name.
    pub(crate) fn copying(&self) -> Option<FsPath> {
        let name = format!("{}{COPYING_SUFFIX}", self.name()?);
        self.beside(&name)
    }

    /// Another such name, which nobody has, however long its own is.
    pub(crate) fn copying_unnamed(&self) -> Option<FsPath> {
        self.beside(&unused_name())
    }

    fn beside(&self, name: &str) -> Option<FsPath> {
        let fits = name.len() <= ELEMENT_BYTES_MAX;
        fits.then(|| self.parent()?.child(name).ok()).flatten()
    }

    /// True for `/` of either file system.
    pub(crate) fn is_root(&self) -> bool {
        self.parent().is_none()
    }

    /// True if `self` is `ancestor` or lies below it.
    pub(crate) fn starts_with(&self, ancestor: &FsPath) -> bool {
        match (self, ancestor) {
            (FsPath::Cluster(path), FsPath::Cluster(ancestor)) => path.starts_with(ancestor),
            (FsPath::Machine(path), FsPath::Machine(ancestor)) => path.starts_with(ancestor),
            _ => false,
        }
    }
}

impl fmt::Display for FsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FsPath::Cluster(path) => path.fmt(f),
            FsPath::Machine(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_have_names_parents_and_children() {
        let cluster = |text: &str| FsPath::Cluster(DfsPath::parse(text).unwrap());
        let machine = |text: &str| FsPath::Machine(PathBuf::from(text));
        for place in [&cluster as &dyn Fn(&str) -> FsPath, &machine] {
            let (root, directory, file) = (place("/"), place("/a"), place("/a/b"));
            assert!(root.is_root() && !directory.is_root());
            assert_eq!((root.name(), file.name()), (None, Some("b")));
            assert_eq!(file.parent(), Some(directory.clone()));
            assert_eq!(directory.child("b").unwrap(), file);
            assert_eq!(file.copying(), Some(place("/a/b._COPYING_")));
            let unnamed = directory.child(&"b".repeat(250)).unwrap();
            assert_eq!((unnamed.copying(), root.copying()), (None, None));
            let unnamed = unnamed.copying_unnamed().unwrap();
            assert!(unnamed.name().unwrap().ends_with(COPYING_SUFFIX) && unnamed != file);
            assert_eq!(unnamed.parent(), Some(directory.clone()));
            assert!(file.starts_with(&directory) && !place("/ab").starts_with(&directory));
            assert_eq!(file.to_string(), "/a/b");
        }
        assert!(!machine("/a/b").starts_with(&cluster("/a")));
        assert_eq!(machine("/a").child("b:c").unwrap(), machine("/a/b:c"));
        assert!(cluster("/a").child("b:c").is_err());
    }
}

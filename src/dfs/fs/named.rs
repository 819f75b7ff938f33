//! Paths as users type them: absolute, relative to `/user/<name>`, or with a scheme; the scheme `file` means this machine. Messages repeat the path as typed.

use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use protocol::address::{self, AddressError, Side, Site, Typed};
use protocol::namenode::FileStatus;
use protocol::{DfsPath, PathError, glob};

use super::error::Failure;
use super::path::FsPath;

/// A path and how the user wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    /// The path as typed, for people.
    pub(crate) typed: String,
    /// The path in its file system.
    pub(crate) path: FsPath,
}

impl Named {
    /// The entry `name` of this directory.
    pub(crate) fn child(&self, name: &str) -> Result<Named, Failure> {
        let typed = self.typed_child(name);
        let path =
            self.path.child(name).map_err(|error| Failure::at(&*typed, error.to_string()))?;
        Ok(Named { typed, path })
    }

    /// How a user would have written that entry.
    pub(super) fn typed_child(&self, name: &str) -> String {
        let typed = self.typed.as_str();
        // Doubled slashes of a name that was put together from variables are left out below it.
        let start = match typed.find("://") {
            Some(at) => at + "://".len(),
            None => usize::from(typed.starts_with('/')),
        };
        let typed = match typed[start..].contains("//") {
            true => Cow::Owned(format!("{}{}", &typed[..start], single_slashes(&typed[start..]))),
            false => Cow::Borrowed(typed),
        };
        match &*typed {
            "." => name.to_owned(),
            typed if typed.ends_with('/') => format!("{typed}{name}"),
            typed => format!("{typed}/{name}"),
        }
    }

    /// A path of the cluster that no user typed.
    pub(crate) fn untyped(path: DfsPath) -> Named {
        Named { typed: path.to_string(), path: FsPath::Cluster(path) }
    }

    /// The path in the cluster's namespace, for what only the cluster can do.
    pub(crate) fn cluster(&self) -> Result<&DfsPath, Failure> {
        self.path.cluster().ok_or_else(|| Failure::at(&*self.typed, "Operation not supported"))
    }
}

/// A file or directory that exists.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Its path, with the form that the user typed.
    pub(crate) named: Named,
    /// Its status.
    pub(crate) status: FileStatus,
}

/// Resolves typed paths to [`Named`] ones for one NameNode.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    user: String,
    site: Site,
}

impl Resolver {
    /// A resolver for `user`, with the NameNode of `site`.
    pub(crate) fn new(user: &str, site: Site) -> Self {
        Resolver { user: user.to_owned(), site }
    }

    /// `hanno://host:port`.
    pub(crate) fn file_system(&self) -> String {
        self.site.file_system()
    }

    /// A path with scheme and authority, for messages in that form.
    pub(crate) fn qualified(&self, path: &FsPath) -> String {
        match path {
            FsPath::Cluster(path) => format!("{}{path}", self.file_system()),
            FsPath::Machine(path) => format!("file:{}", path.display()),
        }
    }

    /// A path of the cluster, for commands that accept no other.
    pub(crate) fn cluster_path(&self, text: &str) -> Result<DfsPath, Failure> {
        self.cluster_only(&self.resolve(text)?)
    }

    /// The path, if it is one of the cluster.
    pub(crate) fn cluster_only(&self, named: &Named) -> Result<DfsPath, Failure> {
        match &named.path {
            FsPath::Cluster(path) => Ok(path.clone()),
            FsPath::Machine(_) => {
                let (typed, expected) = (named.typed.clone(), self.file_system());
                Err(refused(AddressError::Wrong { typed, expected }))
            }
        }
    }

    /// True for a path of this machine.
    pub(crate) fn is_machine(&self, text: &str) -> bool {
        matches!(self.site.locate(text), Ok((_, Side::Machine)))
    }

    /// Checks `text` without expanding globs.
    pub(crate) fn resolve(&self, text: &str) -> Result<Named, Failure> {
        if text.is_empty() {
            return Err(Failure::empty_path());
        }
        let (typed, side) = self.site.locate(text).map_err(refused)?;
        let name = format!("{}{}", typed.prefix, normal(typed.path));
        let name = if name.is_empty() { ".".to_owned() } else { name };
        let absolute = self.absolute(&typed, side)?;
        if side == Side::Machine {
            return Ok(Named { typed: name, path: FsPath::Machine(PathBuf::from(absolute)) });
        }
        match DfsPath::parse(&absolute) {
            Ok(path) => Ok(Named { typed: name, path: FsPath::Cluster(path) }),
            Err(error @ (PathError::LongElement { .. } | PathError::Long)) => Err(error.into()),
            Err(_) => Err(Failure::Usage(format!(
                "Pathname {absolute} from {}{absolute} is not a valid DFS filename.",
                self.file_system()
            ))),
        }
    }

    /// A path of this machine whose bytes are no text; `None` for any other operand.
    pub(crate) fn resolve_bytes(&self, operand: &OsStr) -> Result<Option<Named>, Failure> {
        if operand.to_str().is_some() {
            return Ok(None);
        }
        let text = operand.to_string_lossy();
        let (Typed { prefix, .. }, side) = self.site.locate(&text).map_err(refused)?;
        if side != Side::Machine {
            return Ok(None);
        }
        // A scheme is text, so it is as long as in the operand.
        let bytes = &operand.as_bytes()[prefix.len()..];
        let here = env::current_dir().map_err(|error| Failure::local(".", &error))?;
        let path = plain(&here.join(OsStr::from_bytes(bytes)));
        Ok(Some(Named { typed: text.into_owned(), path: FsPath::Machine(path) }))
    }

    /// Splits `text` if it is a path of the cluster or of this machine.
    pub(crate) fn accept<'a>(&self, text: &'a str) -> Result<Typed<'a>, Failure> {
        self.site.locate(text).map(|(typed, _)| typed).map_err(refused)
    }

    /// The path from the root, with `.` and `..` resolved.
    fn absolute(&self, typed: &Typed<'_>, side: Side) -> Result<String, Failure> {
        let base = match (typed.is_relative(), side) {
            (false, _) => "/".to_owned(),
            (true, Side::Cluster) => address::home(&self.user),
            (true, Side::Machine) => {
                let here = env::current_dir().map_err(|error| Failure::local(".", &error))?;
                here.to_string_lossy().into_owned()
            }
        };
        Ok(address::absolute(&base, typed.path))
    }
}

/// The text with one slash for each row of slashes.
fn single_slashes(text: &str) -> String {
    let mut single = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '/' || !single.ends_with('/') {
            single.push(c);
        }
    }
    single
}

fn refused(error: AddressError) -> Failure {
    Failure::Text(error.to_string())
}

/// A path from the root without `.` and `..`, which stand for what they say as text.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            _ => {}
        }
    }
    plain
}

/// The typed path without `.` and `..`, except at the start of a relative path.
fn normal(path: &str) -> String {
    if !path.split('/').any(|element| matches!(element, "." | "..")) {
        return path.to_owned();
    }
    let mut kept: Vec<&str> = Vec::new();
    for element in path.split('/') {
        match element {
            "" | "." => {}
            ".." if path.starts_with('/') => drop(kept.pop()),
            ".." if kept.last().is_some_and(|last| *last != "..") => drop(kept.pop()),
            element => kept.push(element),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", kept.join("/"))
}

/// An operand as text. The file system's names are Unicode.
pub(crate) fn text_of(operand: &OsStr) -> Result<&str, Failure> {
    operand
        .to_str()
        .ok_or_else(|| Failure::at(operand.to_string_lossy(), "Invalid path name: not UTF-8"))
}

/// Expands the braces of a pattern.
pub(crate) fn alternatives(text: &str) -> Result<Vec<String>, Failure> {
    glob::expand_braces(text).map_err(|error| Failure::at(text, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolver(site: impl FnOnce(Site) -> Site) -> Resolver {
        let aliases = ["hdfs://h:8020".to_owned()];
        Resolver::new("ann", site(Site::new("http://h:9870/", &aliases)))
    }

    #[test]
    fn doubled_slashes_are_left_out_below_a_directory() {
        for (typed, child) in [
            ("/a//b", "/a/b/c"),
            ("/a/b", "/a/b/c"),
            ("hdfs://h:8020//a", "hdfs://h:8020/a/c"),
            ("ü//b", "ü/b/c"),
            (".", "c"),
        ] {
            let path = FsPath::Machine(PathBuf::from("/a"));
            assert_eq!(Named { typed: typed.to_owned(), path }.typed_child("c"), child);
        }
    }

    #[test]
    fn typed_paths_resolve_and_are_echoed() {
        let resolver = resolver(|site| site);
        for (text, typed, path) in [
            ("/a b/'q\"ü", "/a b/'q\"ü", "/a b/'q\"ü"),
            ("/a/", "/a", "/a"),
            ("/", "/", "/"),
            ("//", "/", "/"),
            ("a/b", "a/b", "/user/ann/a/b"),
            ("-x", "-x", "/user/ann/-x"),
            (".", ".", "/user/ann"),
            ("../bob/./x", "../bob/x", "/user/bob/x"),
            ("x/../y", "y", "/user/ann/y"),
            ("/../..", "/", "/"),
            ("/a/./b/..", "/a", "/a"),
            ("hanno://h:9870/a", "hanno://h:9870/a", "/a"),
            ("webhdfs://h:9870", "webhdfs://h:9870", "/"),
            ("hdfs:///a/", "hdfs:///a", "/a"),
            ("hdfs:/a", "hdfs:/a", "/a"),
            ("HDFS://h:8020/a", "HDFS://h:8020/a", "/a"),
        ] {
            let named = resolver.resolve(text).unwrap();
            assert_eq!(
                (named.typed.as_str(), named.path.to_string().as_str()),
                (typed, path),
                "{text}"
            );
            assert!(named.cluster().is_ok(), "{text}");
        }
    }

    #[test]
    fn paths_of_this_machine_have_a_scheme() {
        let resolver = resolver(|site| site);
        for (text, typed, path) in [
            ("file:///a/b:c", "file:///a/b:c", "/a/b:c"),
            ("file:/a/./x/..", "file:/a", "/a"),
            ("FILE:///", "FILE:///", "/"),
        ] {
            let named = resolver.resolve(text).unwrap();
            assert_eq!(
                (named.typed.as_str(), named.path.to_string().as_str()),
                (typed, path),
                "{text}"
            );
            assert!(matches!(named.path, FsPath::Machine(_)) && resolver.is_machine(text));
            let refusal = named.cluster().unwrap_err().to_string();
            assert_eq!(refusal, format!("`{typed}': Operation not supported"));
            assert!(resolver.cluster_path(text).unwrap_err().to_string().starts_with("Wrong FS: "));
        }
        let error = resolver.resolve("file://other/a").unwrap_err();
        assert_eq!(error.to_string(), "Wrong FS: file://other/a, expected: file:///");
        let resolver = self::resolver(Site::with_machine_default);
        assert_eq!(resolver.resolve("/a").unwrap().path, FsPath::Machine(PathBuf::from("/a")));
        let here = env::current_dir().unwrap().join("a");
        assert_eq!(resolver.resolve("a").unwrap().path, FsPath::Machine(here));
        assert!(resolver.resolve("hdfs:///a").unwrap().cluster().is_ok());
    }

    #[test]
    fn other_file_systems_are_refused() {
        let resolver = resolver(|site| site);
        for (text, message) in [
            ("hanno://other:9870/a", "Wrong FS: hanno://other:9870/a, expected: hanno://h:9870"),
            ("hdfs://other/a", "Wrong FS: hdfs://other/a, expected: hanno://h:9870"),
            ("s3a://b/c", "No FileSystem for scheme \"s3a\""),
        ] {
            assert!(resolver.resolve(text).unwrap_err().to_string().starts_with(message), "{text}");
        }
        for (text, message) in [
            ("", "Can not create a Path from an empty string"),
            ("/a:b", "Pathname /a:b from hanno://h:9870/a:b is not a valid DFS filename."),
        ] {
            let Err(Failure::Usage(found)) = resolver.resolve(text) else { panic!("{text}") };
            assert_eq!(found, message);
        }
    }

    #[test]
    fn children_keep_the_style_of_their_directory() {
        let resolver = resolver(|site| site);
        for (text, typed) in [
            ("/", "/x"),
            ("/a", "/a/x"),
            (".", "x"),
            ("a", "a/x"),
            ("hdfs:///", "hdfs:///x"),
            ("hanno://h:9870/a", "hanno://h:9870/a/x"),
        ] {
            assert_eq!(resolver.resolve(text).unwrap().child("x").unwrap().typed, typed);
        }
    }
}

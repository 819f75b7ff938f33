//! Paths as users type them: absolute, relative to `/user/<name>`, or with a scheme; the scheme `file` means this machine. What
//! was typed is what is echoed.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

use protocol::{DfsPath, PathError};

use super::error::Failure;
use super::place::Place;

/// Schemes that mean this file system; the authority, if any, is the NameNode's HTTP address.
const HTTP_SCHEMES: [&str; 2] = ["hanno", "webhdfs"];
/// Scheme that means this file system although its authority is another port of the NameNode.
const HDFS_SCHEME: &str = "hdfs";
/// Scheme that means this machine.
const MACHINE_SCHEME: &str = "file";

/// A path and how the user wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    /// For people.
    pub(crate) typed: String,
    /// For the file system that it belongs to.
    pub(crate) path: Place,
}

impl Named {
    /// The entry `name` of this directory.
    pub(crate) fn child(&self, name: &str) -> Result<Named, Failure> {
        let typed = match self.typed.as_str() {
            "." => name.to_owned(),
            typed if typed.ends_with('/') => format!("{typed}{name}"),
            typed => format!("{typed}/{name}"),
        };
        let path =
            self.path.child(name).map_err(|error| Failure::at(&*typed, error.to_string()))?;
        Ok(Named { typed, path })
    }

    /// A path of the cluster that no user typed.
    pub(crate) fn untyped(path: DfsPath) -> Named {
        Named { typed: path.to_string(), path: Place::Cluster(path) }
    }

    /// The path in the cluster's namespace, for what only the cluster can do.
    pub(crate) fn cluster(&self) -> Result<&DfsPath, Failure> {
        self.path.cluster().ok_or_else(|| Failure::at(&*self.typed, "Operation not supported"))
    }
}

/// A typed path, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Typed<'a> {
    /// Scheme, lower case; `None` for a plain path.
    pub(crate) scheme: Option<String>,
    /// `host:port` after `//`; empty if absent.
    pub(crate) authority: &'a str,
    /// The text before the path: scheme and authority.
    pub(crate) prefix: &'a str,
    /// The path, without slashes at its end.
    pub(crate) path: &'a str,
}

/// Takes `text` apart.
pub(crate) fn take_apart(text: &str) -> Typed<'_> {
    let scheme_len = scheme_len(text);
    let (scheme, rest) = match scheme_len {
        Some(len) => (Some(text[..len].to_ascii_lowercase()), &text[len + 1..]),
        None => (None, text),
    };
    let authority = match scheme.as_ref().and(rest.strip_prefix("//")) {
        Some(after) => &after[..after.find('/').unwrap_or(after.len())],
        None => "",
    };
    let slashes = if scheme.is_some() && rest.starts_with("//") { 2 } else { 0 };
    let prefix_len = text.len() - rest.len() + slashes + authority.len();
    let (prefix, path) = text.split_at(prefix_len);
    let trimmed = path.trim_end_matches('/');
    let path = if trimmed.is_empty() && !path.is_empty() { "/" } else { trimmed };
    Typed { scheme, authority, prefix, path }
}

/// Length of a leading `scheme` before `:/`. A colon elsewhere is part of the path (and refused there).
fn scheme_len(text: &str) -> Option<usize> {
    let len = text.find(":/")?;
    let scheme = &text[..len];
    let well_formed = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    well_formed.then_some(len)
}

/// Turns typed paths into [`Named`] ones for one NameNode.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    user: String,
    /// `host:port` of the NameNode that is called.
    authority: String,
    /// Paths without a scheme are this machine's.
    is_machine_default: bool,
}

impl Resolver {
    /// For `user` at the NameNode with address `base` (`http://host:port`).
    pub(crate) fn new(user: &str, base: &str) -> Self {
        let authority = base.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Resolver { user: user.to_owned(), authority, is_machine_default: false }
    }

    /// The same with this machine as the file system of paths without a scheme (`-fs file:///`).
    pub(crate) fn with_machine_default(self, is_machine_default: bool) -> Self {
        Resolver { is_machine_default, ..self }
    }

    /// `hanno://host:port`.
    pub(crate) fn file_system(&self) -> String {
        format!("hanno://{}", self.authority)
    }

    /// A path with scheme and authority, for messages that name it so.
    pub(crate) fn qualified(&self, path: &Place) -> String {
        match path {
            Place::Cluster(path) => format!("hanno://{}{path}", self.authority),
            Place::Machine(path) => format!("file:{}", path.display()),
        }
    }

    /// A path of the cluster, for commands that know no other.
    pub(crate) fn cluster_path(&self, text: &str) -> Result<DfsPath, Failure> {
        match self.resolve(text)?.path {
            Place::Cluster(path) => Ok(path),
            Place::Machine(_) => Err(self.wrong_file_system(text, &self.file_system())),
        }
    }

    /// True for a path of this machine.
    pub(crate) fn is_machine(&self, text: &str) -> bool {
        self.is_of_machine(&take_apart(text))
    }

    fn is_of_machine(&self, typed: &Typed<'_>) -> bool {
        typed.scheme.as_deref().map_or(self.is_machine_default, |scheme| scheme == MACHINE_SCHEME)
    }

    fn wrong_file_system(&self, text: &str, expected: &str) -> Failure {
        Failure::Text(format!("Wrong FS: {text}, expected: {expected}"))
    }

    /// Checks `text` without expanding globs.
    pub(crate) fn resolve(&self, text: &str) -> Result<Named, Failure> {
        if text.is_empty() {
            return Err(Failure::Usage("Can not create a Path from an empty string".to_owned()));
        }
        let typed = self.accept(text)?;
        let shown = format!("{}{}", typed.prefix, normal(typed.path));
        let shown = if shown.is_empty() { ".".to_owned() } else { shown };
        let absolute = self.absolute(&typed)?;
        if self.is_of_machine(&typed) {
            return Ok(Named { typed: shown, path: Place::Machine(PathBuf::from(absolute)) });
        }
        match DfsPath::parse(&absolute) {
            Ok(path) => Ok(Named { typed: shown, path: Place::Cluster(path) }),
            Err(error @ (PathError::LongElement { .. } | PathError::Long)) => {
                Err(Failure::Text(error.to_string()))
            }
            Err(_) => Err(Failure::Usage(format!(
                "Pathname {absolute} from {}{absolute} is not a valid DFS filename.",
                self.file_system()
            ))),
        }
    }

    /// A target that is written with a slash at its end must be a directory that is there.
    pub(crate) fn check_slash(
        &self,
        text: &str,
        target: &Named,
        is_there: bool,
    ) -> Result<(), Failure> {
        if is_there || !text.ends_with('/') || target.path.is_root() {
            return Ok(());
        }
        let qualified = self.qualified(&target.path);
        Err(Failure::at(text, format!("No such file or directory: `{qualified}'")))
    }

    /// Takes `text` apart if it is a path of the cluster or of this machine.
    pub(crate) fn accept<'a>(&self, text: &'a str) -> Result<Typed<'a>, Failure> {
        let typed = take_apart(text);
        let host = |authority: &str| authority.split(':').next().unwrap_or_default().to_owned();
        let ours = match typed.scheme.as_deref() {
            None => true,
            Some(scheme) if HTTP_SCHEMES.contains(&scheme) => {
                typed.authority.is_empty() || typed.authority == self.authority
            }
            Some(HDFS_SCHEME) => {
                typed.authority.is_empty() || host(typed.authority) == host(&self.authority)
            }
            Some(MACHINE_SCHEME) if typed.authority.is_empty() => true,
            Some(MACHINE_SCHEME) => return Err(self.wrong_file_system(text, "file:///")),
            Some(scheme) => {
                return Err(Failure::Text(format!("No FileSystem for scheme \"{scheme}\"")));
            }
        };
        if ours { Ok(typed) } else { Err(self.wrong_file_system(text, &self.file_system())) }
    }

    /// The path from the root on, `.` and `..` resolved.
    fn absolute(&self, typed: &Typed<'_>) -> Result<String, Failure> {
        let relative = typed.scheme.is_none() && !typed.path.starts_with('/');
        let base = match relative {
            false => String::new(),
            true if self.is_machine_default => {
                let here = env::current_dir().map_err(|error| Failure::local(".", &error))?;
                here.to_string_lossy().into_owned()
            }
            true => format!("/user/{}", self.user),
        };
        let mut elements: Vec<&str> = Vec::new();
        for element in base.split('/').chain(typed.path.split('/')) {
            match element {
                "" | "." => {}
                ".." => {
                    elements.pop();
                }
                element => elements.push(element),
            }
        }
        Ok(format!("/{}", elements.join("/")))
    }
}

/// What is typed without `.` and `..`, but for those at the start of a relative path.
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

/// The NameNode that a typed path names, if it names one by its HTTP address.
pub(crate) fn named_namenode(text: &str) -> Option<String> {
    let typed = take_apart(text);
    let scheme = typed.scheme?;
    let known = HTTP_SCHEMES.contains(&scheme.as_str()) && !typed.authority.is_empty();
    known.then(|| format!("http://{}", typed.authority))
}

/// True for a text with the scheme of this machine.
pub(crate) fn has_machine_scheme(text: &str) -> bool {
    take_apart(text).scheme.as_deref() == Some(MACHINE_SCHEME)
}

/// An operand as text. The file system's names are Unicode.
pub(crate) fn text_of(operand: &OsStr) -> Result<&str, Failure> {
    operand
        .to_str()
        .ok_or_else(|| Failure::at(operand.to_string_lossy(), "Invalid path name: not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_paths_resolve_and_are_echoed() {
        let resolver = Resolver::new("ann", "http://h:9870");
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
        let resolver = Resolver::new("ann", "http://h:9870");
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
            assert!(matches!(named.path, Place::Machine(_)) && resolver.is_machine(text));
            let refusal = named.cluster().unwrap_err().to_string();
            assert_eq!(refusal, format!("`{typed}': Operation not supported"));
            assert!(resolver.cluster_path(text).unwrap_err().to_string().starts_with("Wrong FS: "));
        }
        let error = resolver.resolve("file://other/a").unwrap_err();
        assert_eq!(error.to_string(), "Wrong FS: file://other/a, expected: file:///");
        let resolver = resolver.with_machine_default(true);
        assert_eq!(resolver.resolve("/a").unwrap().path, Place::Machine(PathBuf::from("/a")));
        let here = env::current_dir().unwrap().join("a");
        assert_eq!(resolver.resolve("a").unwrap().path, Place::Machine(here));
        assert!(resolver.resolve("hdfs:///a").unwrap().cluster().is_ok());
    }

    #[test]
    fn other_file_systems_are_refused() {
        let resolver = Resolver::new("ann", "http://h:9870/");
        for (text, message) in [
            ("hanno://other:9870/a", "Wrong FS: hanno://other:9870/a, expected: hanno://h:9870"),
            ("hdfs://other/a", "Wrong FS: hdfs://other/a, expected: hanno://h:9870"),
            ("s3a://b/c", "No FileSystem for scheme \"s3a\""),
        ] {
            assert_eq!(resolver.resolve(text).unwrap_err().to_string(), message);
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
    fn a_slash_at_the_end_wants_a_directory() {
        let resolver = Resolver::new("ann", "http://h:9870/");
        for (text, is_there, refused) in
            [("/a/", false, true), ("/a/", true, false), ("/a", false, false), ("/", false, false)]
        {
            let named = resolver.resolve(text).unwrap();
            assert_eq!(resolver.check_slash(text, &named, is_there).is_err(), refused, "{text}");
        }
    }

    #[test]
    fn children_keep_the_style_of_their_directory() {
        let resolver = Resolver::new("ann", "http://h:9870");
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

    #[test]
    fn an_address_in_a_path_is_found() {
        assert_eq!(named_namenode("hanno://a:1/x").as_deref(), Some("http://a:1"));
        for text in ["/x", "hdfs://a:1/x", "hanno:///x", "x"] {
            assert_eq!(named_namenode(text), None, "{text}");
        }
    }
}

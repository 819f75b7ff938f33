//! Absolute paths of the file system, checked once where they enter.
//!
//! Invariants of a [`DfsPath`]: starts with `/`; no empty, `.` or `..` element; no `:` and no control character but the tab; at most
//! [`PATH_BYTES_MAX`] bytes, [`ELEMENT_BYTES_MAX`] per element and [`DEPTH_MAX`] elements; no slash at the end but for the root.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest path in bytes of UTF-8; bounds every message with a path.
pub const PATH_BYTES_MAX: usize = 8000;
/// Longest element in bytes of UTF-8, as `dfs.namenode.fs-limits.max-component-length`.
pub const ELEMENT_BYTES_MAX: usize = 255;
/// Deepest path, as HDFS's MAX_PATH_DEPTH.
pub const DEPTH_MAX: usize = 1000;

/// A name below the root that nobody can create: its contents belong to the system, as in HDFS.
pub const RESERVED: &str = ".reserved";
/// The directory under which the whole tree appears again, with its attributes of the namespace `raw`, as in HDFS.
pub const RESERVED_RAW: &str = "/.reserved/raw";

/// A checked absolute path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DfsPath(String);

impl DfsPath {
    /// The root directory.
    pub fn root() -> Self {
        DfsPath("/".to_owned())
    }

    /// Checks `text`; repeated slashes collapse into one, and one at the end is dropped.
    ///
    /// # Errors
    /// [`PathError`] names the first rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let shortened = |text: &str| text.chars().take(PATH_BYTES_MAX).collect::<String>();
        let fail = |reason| PathError::Rule { path: shortened(text), reason };
        if !text.starts_with('/') {
            return Err(fail("it is not absolute"));
        }
        let mut path = String::with_capacity(text.len());
        let mut depth = 0;
        for element in text.split('/').filter(|element| !element.is_empty()) {
            if element.len() > ELEMENT_BYTES_MAX {
                let directory = if path.is_empty() { "/".to_owned() } else { path };
                let (name, length) = (shortened(element), element.len());
                return Err(PathError::LongElement { name, directory, length });
            }
            check_element(element).map_err(fail)?;
            path.push('/');
            path.push_str(element);
            depth += 1;
        }
        if path.len() > PATH_BYTES_MAX || depth > DEPTH_MAX {
            return Err(PathError::Long);
        }
        if path.is_empty() {
            path.push('/');
        }
        Ok(DfsPath(path))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for `/`.
    pub fn is_root(&self) -> bool {
        self.0.len() == 1
    }

    /// The elements from the root down; none for the root.
    pub fn elements(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|element| !element.is_empty())
    }

    /// The last element; `None` for the root.
    pub fn name(&self) -> Option<&str> {
        self.elements().next_back()
    }

    /// The directory that holds it; `None` for the root.
    pub fn parent(&self) -> Option<DfsPath> {
        if self.is_root() {
            return None;
        }
        let end = self.0.rfind('/').expect("a path starts with a slash");
        Some(DfsPath(self.0[..end.max(1)].to_owned()))
    }

    /// `name` below this directory; `name` may have several elements.
    ///
    /// # Errors
    /// As [`DfsPath::parse`].
    pub fn join(&self, name: &str) -> Result<DfsPath, PathError> {
        DfsPath::parse(&format!("{}/{name}", self.0))
    }

    /// The path that one below [`RESERVED_RAW`] stands for; `None` for all others.
    pub fn of_raw(&self) -> Option<DfsPath> {
        match self.0.strip_prefix(RESERVED_RAW)? {
            "" => Some(DfsPath::root()),
            plain if plain.starts_with('/') => Some(DfsPath(plain.to_owned())),
            _ => None,
        }
    }

    /// True if `self` is `ancestor` or lies below it.
    pub fn starts_with(&self, ancestor: &DfsPath) -> bool {
        match self.0.strip_prefix(ancestor.as_str()) {
            Some(rest) => ancestor.is_root() || rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }
}

/// Checks one element of a path.
///
/// # Errors
/// The rule it breaks, as a phrase.
pub fn check_element(element: &str) -> Result<(), &'static str> {
    match element {
        "" => Err("it has an empty element"),
        "." | ".." => Err("`.` and `..` are not allowed"),
        _ if element.len() > ELEMENT_BYTES_MAX => Err("an element is longer than 255 bytes"),
        _ if element.contains(['/', ':']) => Err("an element contains `/` or `:`"),
        _ if element.chars().any(|c| c.is_control() && c != '\t') => {
            Err("an element contains a control character")
        }
        _ => Ok(()),
    }
}

impl fmt::Display for DfsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DfsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for DfsPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        DfsPath::parse(text)
    }
}

impl TryFrom<String> for DfsPath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, PathError> {
        DfsPath::parse(&text)
    }
}

impl From<DfsPath> for String {
    fn from(path: DfsPath) -> String {
        path.0
    }
}

/// Text that is not a path of the file system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It breaks a rule.
    #[error("Invalid path name: `{path}': {reason}")]
    Rule {
        /// The text.
        path: String,
        /// The rule.
        reason: &'static str,
    },
    /// An element is too long.
    #[error(
        "The maximum path component name limit of {name} in directory {directory} is exceeded: limit={ELEMENT_BYTES_MAX} length={length}"
    )]
    LongElement {
        /// The element.
        name: String,
        /// Its directory.
        directory: String,
        /// Its length, bytes.
        length: usize,
    },
    /// It is too long, or too deep.
    #[error("Pathname too long.  Limit {PATH_BYTES_MAX} characters, {DEPTH_MAX} levels.")]
    Long,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_form_is_a_fixed_point() {
        for (text, canonical) in [
            ("/", "/"),
            ("//", "/"),
            ("/a/", "/a"),
            ("//a///b", "/a/b"),
            ("/a\tb", "/a\tb"),
            ("/ü 'q\"/-x", "/ü 'q\"/-x"),
        ] {
            let path = DfsPath::parse(text).unwrap();
            assert_eq!(path.as_str(), canonical);
            assert_eq!(DfsPath::parse(path.as_str()).unwrap(), path);
        }
    }

    #[test]
    fn bad_paths_are_refused() {
        let long = format!("/{}", "x".repeat(256));
        let deep = "/a".repeat(1001);
        for text in ["", "a", "/a/..", "/./a", "/a:b", "/a\0b", "/a\nb", "/a\u{1b}b", &long, &deep]
        {
            assert!(DfsPath::parse(text).is_err(), "{text:?}");
        }
        assert!(postcard::from_bytes::<DfsPath>(&postcard::to_allocvec("/../x").unwrap()).is_err());
    }

    #[test]
    fn limits_speak_hdfs() {
        let name = "x".repeat(300);
        let error = DfsPath::parse(&format!("/d/{name}/y")).unwrap_err().to_string();
        let expected = format!(
            "The maximum path component name limit of {name} in directory /d is exceeded: limit=255 length=300"
        );
        assert_eq!(error, expected);
        for text in ["/a".repeat(1001), format!("/{}", "x".repeat(250)).repeat(32)] {
            let error = DfsPath::parse(&text).unwrap_err().to_string();
            assert_eq!(error, "Pathname too long.  Limit 8000 characters, 1000 levels.");
        }
    }

    #[test]
    fn what_is_below_the_raw_directory_stands_for_another_path() {
        for (path, plain) in [
            ("/.reserved/raw", Some("/")),
            ("/.reserved/raw/a/b", Some("/a/b")),
            ("//.reserved//raw//a", Some("/a")),
            ("/.reserved/raw/.reserved/raw/a", Some("/.reserved/raw/a")),
            ("/.reserved/rawer/a", None),
            ("/.reserved", None),
            ("/a/.reserved/raw", None),
            ("/", None),
        ] {
            let found = DfsPath::parse(path).unwrap().of_raw();
            assert_eq!(found.as_ref().map(DfsPath::as_str), plain, "{path}");
        }
    }

    #[test]
    fn family() {
        let path = DfsPath::parse("/a/b").unwrap();
        assert_eq!(path.parent().unwrap().as_str(), "/a");
        assert_eq!(path.parent().unwrap().parent().unwrap().as_str(), "/");
        assert_eq!(path.name(), Some("b"));
        assert!(
            path.starts_with(&DfsPath::root()) && path.starts_with(&DfsPath::parse("/a").unwrap())
        );
        assert!(!DfsPath::parse("/ab").unwrap().starts_with(&DfsPath::parse("/a").unwrap()));
    }
}

//! Files of this machine as sources and targets of copies.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use protocol::address::{AddressError, Scheme, Typed};
use protocol::glob::{self, Pattern};

use super::error::Failure;
use super::named::alternatives;
use super::temporary::unused_name;
use crate::output::without_number;

/// The path that an operand names: plain, or with the scheme `file`. Any other scheme is refused, so that nobody's cluster becomes a directory here; a colon
/// that begins no scheme is part of a name.
pub(crate) fn path_of(operand: &OsStr) -> Result<PathBuf, Failure> {
    if operand.is_empty() {
        return Err(Failure::empty_path());
    }
    let Some(typed) = operand.to_str().map(Typed::new) else { return Ok(PathBuf::from(operand)) };
    match typed.scheme {
        None => Ok(PathBuf::from(operand)),
        Some(Scheme::Machine) if typed.authority.is_empty() => Ok(PathBuf::from(typed.path)),
        Some(_) => {
            let typed = operand.to_string_lossy().into_owned();
            let refusal = AddressError::Wrong { typed, expected: "file:///".to_owned() };
            Err(Failure::Text(refusal.to_string()))
        }
    }
}

/// The paths that an operand names: itself if it exists, otherwise all matches if it is a glob, otherwise itself.
pub(crate) fn expand(operand: &OsStr) -> Result<Vec<PathBuf>, Failure> {
    let path = path_of(operand)?;
    let text = match path.to_str() {
        Some(text) if glob::is_glob(text) && fs::symlink_metadata(&path).is_err() => text,
        _ => return Ok(vec![path]),
    };
    let mut found: Vec<PathBuf> =
        alternatives(text)?.iter().flat_map(|text| matches(text)).collect();
    found.sort();
    found.dedup();
    Ok(if found.is_empty() { vec![path] } else { found })
}

fn matches(text: &str) -> Vec<PathBuf> {
    let mut here = vec![PathBuf::from(if text.starts_with('/') { "/" } else { "" })];
    for element in text.split('/').filter(|element| !element.is_empty()) {
        let pattern = Pattern::new(element);
        let mut next = Vec::new();
        for directory in here {
            match pattern.literal() {
                Some(name) => next.push(directory.join(name)),
                None => next.extend(matching_children(&directory, &pattern)),
            }
        }
        here = next;
    }
    here.retain(|path| fs::symlink_metadata(path).is_ok());
    here
}

/// A directory that cannot be read matches nothing, as in every shell.
fn matching_children(directory: &Path, pattern: &Pattern) -> Vec<PathBuf> {
    let listed = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(entries) = fs::read_dir(listed) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| pattern.matches(name)))
        .map(|entry| directory.join(entry.file_name()))
        .collect()
}

/// Name of a source as an entry of the target directory.
pub(crate) fn name_of(path: &Path) -> Result<String, Failure> {
    let name = match path.file_name() {
        Some(name) => name.to_owned(),
        // `.`, `..` and `/` have their name elsewhere.
        None => path
            .canonicalize()
            .map_err(|error| Failure::local(path, &error))?
            .file_name()
            .map(OsString::from)
            .unwrap_or_default(),
    };
    name.into_string()
        .map_err(|_| Failure::at(path.to_string_lossy(), "Invalid path name: not UTF-8"))
}

/// True if two paths lead to one file or one directory.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path| {
        let there = fs::metadata(path).ok()?;
        (there.is_file() || there.is_dir()).then(|| (there.dev(), there.ino()))
    };
    identity(one).is_some_and(|found| identity(other) == Some(found))
}

/// Standard input as a source: if the process was started without one, it would seem to be empty.
pub(crate) fn check_stdin() -> Result<(), Failure> {
    sys::streams::check_stdin().map_err(|error| {
        let reason = without_number(&error.to_string());
        Failure::Text(format!("cannot read standard input: {reason}"))
    })
}

/// Entries of a directory, by name.
pub(crate) fn sorted_entries(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |error| Failure::local(directory, &error);
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        entries.push(entry.map_err(fail)?.path());
    }
    entries.sort();
    Ok(entries)
}

/// An unused temporary name beside `path`, however long that name is.
pub(crate) fn copying(path: &Path) -> PathBuf {
    path.with_file_name(unused_name())
}

/// A target needs a parent directory; Hadoop's message names the target and its full path.
pub(crate) fn check_parent(target: &Path) -> Result<(), Failure> {
    match target.parent() {
        Some(parent)
            if !parent.as_os_str().is_empty() && matches!(parent.try_exists(), Ok(false)) =>
        {
            let there = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
            let text = format!("No such file or directory: `file:{}'", there.display());
            Err(Failure::at(target.to_string_lossy(), text))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_paths_or_file_uris() {
        for (operand, path) in [
            ("a b", "a b"),
            ("/a", "/a"),
            ("file:///a", "/a"),
            ("file:/a", "/a"),
            ("file:x", "file:x"),
            ("hdfs:x", "hdfs:x"),
            ("a/hdfs:/x", "a/hdfs:/x"),
            ("12:30", "12:30"),
            ("-", "-"),
        ] {
            assert_eq!(path_of(OsStr::new(operand)).unwrap(), Path::new(path));
        }
        for (operand, text) in [
            ("file://host/a", "Wrong FS: file://host/a, expected: file:///"),
            ("hdfs:///t/x", "Wrong FS: hdfs:///t/x, expected: file:///"),
            ("hdfs:/t/x", "Wrong FS: hdfs:/t/x, expected: file:///"),
            ("WebHDFS://h:1/x", "Wrong FS: WebHDFS://h:1/x, expected: file:///"),
            ("s3a://b/x", "Wrong FS: s3a://b/x, expected: file:///"),
        ] {
            assert_eq!(path_of(OsStr::new(operand)).unwrap_err().to_string(), text);
            assert!(expand(OsStr::new(operand)).is_err(), "{operand}");
        }
    }

    #[test]
    fn names_and_links_of_one_file_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "").unwrap();
        fs::write(path("other"), "").unwrap();
        fs::hard_link(path("file"), path("name")).unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        std::os::unix::fs::symlink(".", path("up")).unwrap();
        for (one, other, expected) in [
            ("file", "file", true),
            ("file", "name", true),
            ("link", "up/name", true),
            ("up", ".", true),
            ("file", "other", false),
            ("none", "none", false),
        ] {
            assert_eq!(is_same(&path(one), &path(other)), expected, "{one} {other}");
        }
        let device = Path::new("/dev/null");
        assert!(!is_same(device, device), "nothing in a device can be lost");
    }

    #[test]
    fn an_existing_name_is_not_a_glob() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["a1", "a2", "b[1]", "b1"] {
            fs::write(path(name), "").unwrap();
        }
        assert_eq!(expand(path("a*").as_os_str()).unwrap(), [path("a1"), path("a2")]);
        assert_eq!(expand(path("{b1,a1}").as_os_str()).unwrap(), [path("a1"), path("b1")]);
        assert_eq!(expand(path("b[1]").as_os_str()).unwrap(), [path("b[1]")]);
        assert_eq!(expand(path("x*").as_os_str()).unwrap(), [path("x*")]);
        assert!(expand(OsStr::new(&"{a,b}".repeat(20))).is_err());
        assert_eq!(
            name_of(&path(".")).unwrap(),
            directory.path().file_name().unwrap().to_str().unwrap()
        );
    }
}

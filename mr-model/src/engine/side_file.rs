//! A side file as a job names it (Hadoop's distributed cache), and the links through which attempts find it.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use protocol::address::{Scheme, Typed};
use protocol::record::RECORD_FILE;

use crate::error::{Error, Result};

/// A side file as the job names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SideFile {
    /// The name that tasks use.
    pub name: String,
    /// Where the driver finds it.
    pub origin: Origin,
}

/// Where the driver finds a side file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A file on the driver's machine.
    Local(PathBuf),
    /// A file in the cluster's file system, as typed.
    Cluster(String),
}

impl SideFile {
    /// A file on the driver's machine, with its path unchanged.
    ///
    /// # Errors
    /// If the name leads out of a directory.
    pub fn of_machine(path: &str, name: &str) -> Result<SideFile, Error> {
        check_name(name, path)?;
        Ok(SideFile { name: name.to_owned(), origin: Origin::Local(path.into()) })
    }

    /// Parses `PATH` or `PATH#NAME`. With a scheme (`hdfs:///…`, `webhdfs://…`) it is a file of the cluster, with `file:` or none a local
    /// one.
    ///
    /// # Errors
    /// A file system that is not known, or a name that leads out of a directory.
    pub fn parse(text: &str) -> Result<SideFile, Error> {
        Self::parse_or(text, |place| Origin::Local(place.into()))
    }

    /// As [`SideFile::parse`]; a path without a scheme is of the cluster's file system.
    ///
    /// # Errors
    /// The same.
    pub fn parse_of_cluster(text: &str) -> Result<SideFile, Error> {
        Self::parse_or(text, |place| Origin::Cluster(place.to_owned()))
    }

    fn parse_or(text: &str, bare: impl FnOnce(&str) -> Origin) -> Result<SideFile, Error> {
        let (place, name) = match text.split_once('#') {
            Some((place, name)) => (place, Some(name)),
            None => (text, None),
        };
        let typed = Typed::new(place);
        let origin = match &typed.scheme {
            None => bare(place),
            Some(Scheme::Machine) if typed.authority.is_empty() => Origin::Local(typed.path.into()),
            Some(Scheme::Namenode | Scheme::Hdfs) => Origin::Cluster(place.to_owned()),
            Some(Scheme::Machine | Scheme::Unknown(_)) => {
                return Err(Error::usage(format!(
                    "side file `{text}`: no such file system (there are webhdfs://, hdfs:/// and file:///)"
                )));
            }
        };
        let last = place.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let name = name.unwrap_or(last);
        check_name(name, text)?;
        Ok(SideFile { name: name.to_owned(), origin })
    }
}

/// With this begin the names of the engine's own files in the directory of an attempt, where side files have links.
pub const ENGINE_PREFIX: &str = ".hanno.";

/// Refuses names that lead out of a directory or are the engine's; `text` is what the user typed.
///
/// # Errors
/// If the name is such a one.
pub fn check_name(name: &str, text: &str) -> Result<(), Error> {
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return Err(Error::usage(format!("side file `{text}` has no usable name")));
    }
    if name == RECORD_FILE || name.starts_with(ENGINE_PREFIX) {
        return Err(Error::SideFileTaken { name: name.to_owned() });
    }
    Ok(())
}

/// Creates a link to each side file in the directory of an attempt.
///
/// # Errors
/// A name that is taken there; errors of the file system.
pub fn link(files: &BTreeMap<String, PathBuf>, directory: &Path) -> Result<(), Error> {
    for (name, place) in files {
        let link = directory.join(name);
        symlink(place, &link).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::SideFileTaken { name: name.clone() },
            _ => Error::file("create", &link)(error),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_places_of_side_files() {
        for (text, name, origin) in [
            ("data/stop.txt", "stop.txt", Origin::Local("data/stop.txt".into())),
            ("stop.txt#words", "words", Origin::Local("stop.txt".into())),
            ("file:///tmp/a", "a", Origin::Local("/tmp/a".into())),
            ("hdfs://nn:8020/x/y.gz#z", "z", Origin::Cluster("hdfs://nn:8020/x/y.gz".into())),
            ("hdfs:///x", "x", Origin::Cluster("hdfs:///x".into())),
            ("file:/tmp/a#b", "b", Origin::Local("/tmp/a".into())),
        ] {
            assert_eq!(SideFile::parse(text).unwrap(), SideFile { name: name.into(), origin });
        }
        for bad in ["", "a#", "a#b/c", "a#..", "s3://b/x", "file://host/x", "foo:/x"] {
            assert!(SideFile::parse(bad).is_err(), "{bad}");
        }
        for taken in [".record", ".hanno.map.data"] {
            let error = SideFile::parse(&format!("x#{taken}")).unwrap_err();
            assert!(matches!(&error, Error::SideFileTaken { name } if name == taken), "{error}");
        }
    }

    #[test]
    fn a_name_that_is_taken_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("taken"), "the engine's").unwrap();
        let files = [("taken".to_owned(), "/the/copy".into())].into();
        let error = link(&files, directory.path()).unwrap_err();
        assert!(matches!(&error, Error::SideFileTaken { name } if name == "taken"), "{error}");
    }
}

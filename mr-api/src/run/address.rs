//! Paths in the arguments of job programs: which file system each belongs to. [`protocol::address`] has the rule.

use std::path::PathBuf;

use client::dfs::DfsClient;
use mr_model::{Error, Result};
use protocol::DfsPath;
use protocol::address::{self, Side, Site};

/// A path and the side it is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Location {
    /// In the file system of the cluster.
    Cluster(DfsPath),
    /// On this machine.
    Machine(PathBuf),
}

/// Which file system `text` names as seen from a cluster, and where; relative paths begin at the home directory of `user`. Every path of a job comes through
/// here, and an empty one, as of a variable that is not set, is none: not the home directory.
pub(crate) fn locate(site: &Site, user: &str, text: &str) -> Result<Location> {
    if text.is_empty() {
        return Err(Error::EmptyPath.into());
    }
    let (typed, side) = site.locate(text)?;
    match side {
        Side::Machine => Ok(Location::Machine(typed.path.into())),
        Side::Cluster => {
            let base = if typed.is_relative() { address::home(user) } else { "/".to_owned() };
            Ok(Location::Cluster(DfsPath::parse(&address::absolute(&base, typed.path))?))
        }
    }
}

/// A path of the cluster that `dfs` is a client of.
pub(crate) fn of_cluster(dfs: &DfsClient, text: &str) -> Result<DfsPath> {
    match locate(&dfs.site(), dfs.user(), text)? {
        Location::Cluster(path) => Ok(path),
        Location::Machine(_) => Err(Error::NotOfCluster { path: text.to_owned() }.into()),
    }
}

/// A path of this machine, for use without a cluster.
pub(crate) fn of_machine(text: &str) -> Result<PathBuf> {
    let site = Site::new("", &[]).with_machine_default();
    match locate(&site, "", text)? {
        Location::Machine(path) => Ok(path),
        Location::Cluster(_) => Err(Error::NotOfMachine { path: text.to_owned() }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_plain_full_or_relative() {
        let site = Site::new("http://host:9870", &["service".to_owned()]);
        let cluster = |path: &str| Location::Cluster(DfsPath::parse(path).unwrap());
        for (text, expected) in [
            ("/a b/c", cluster("/a b/c")),
            ("hanno://host:9870/x/y", cluster("/x/y")),
            ("webhdfs://host/x", cluster("/x")),
            ("hanno:///x", cluster("/x")),
            ("hdfs:///x", cluster("/x")),
            ("hdfs://service/x", cluster("/x")),
            ("hanno://host:9870", cluster("/")),
            ("books/é", cluster("/user/ada/books/é")),
            ("../x", cluster("/user/x")),
            ("file:///x", Location::Machine("/x".into())),
            ("file:/x", Location::Machine("/x".into())),
        ] {
            assert_eq!(locate(&site, "ada", text).unwrap(), expected, "{text}");
        }
        for text in ["hdfs://other/x", "webhdfs://other:1/x", "s3a://b/x", "file://host/x", "/a:b"]
        {
            assert!(locate(&site, "ada", text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_empty_path_is_neither_the_home_directory_nor_this_one() {
        let site = Site::new("http://host:9870", &[]);
        let empty = "Can not create a Path from an empty string";
        assert_eq!(locate(&site, "ada", "").unwrap_err().to_string(), empty);
        assert_eq!(of_machine("").unwrap_err().to_string(), empty);
    }

    #[test]
    fn without_a_cluster_paths_are_of_this_machine() {
        for (text, expected) in [("a/b", "a/b"), ("/a", "/a"), ("file:///a/", "/a"), ("a:b", "a:b")]
        {
            assert_eq!(of_machine(text).unwrap(), PathBuf::from(expected));
        }
        for text in ["hdfs:///x", "hdfs://nn/x", "webhdfs://nn:1/x", "s3a://b/x"] {
            assert!(of_machine(text).is_err(), "{text}");
        }
    }
}

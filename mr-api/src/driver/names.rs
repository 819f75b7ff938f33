//! What the paths of a plan mean on the cluster.

use std::collections::BTreeMap;

use client::dfs::DfsClient;
use protocol::DfsPath;

use crate::Result;
use crate::error::Error;

/// Scheme of full addresses; the authority names the NameNode and is not looked at.
const SCHEME: &str = "hanno://";

/// Translates the paths of a plan.
pub(super) enum Names {
    /// Paths of the cluster's file system; relative ones below the user's home.
    Cluster { home: DfsPath },
    /// Local paths, and where they are in the embedded cluster.
    Embedded { inputs: BTreeMap<String, DfsPath>, outputs: BTreeMap<String, DfsPath> },
}

impl Names {
    pub(super) fn cluster(dfs: &DfsClient) -> Names {
        let home = DfsPath::parse("/user").and_then(|users| users.join(dfs.user()));
        Names::Cluster { home: home.unwrap_or_else(|_| DfsPath::root()) }
    }

    pub(super) fn inputs(&self, paths: &[String]) -> Result<Vec<DfsPath>> {
        let find = |path: &String| match self {
            Names::Cluster { home } => Ok(parse(path, home)?),
            Names::Embedded { inputs, .. } => known(inputs, path),
        };
        paths.iter().map(find).collect()
    }

    pub(super) fn output(&self, path: &str) -> Result<DfsPath> {
        match self {
            Names::Cluster { home } => Ok(parse(path, home)?),
            Names::Embedded { outputs, .. } => known(outputs, path),
        }
    }
}

fn known(names: &BTreeMap<String, DfsPath>, path: &str) -> Result<DfsPath> {
    let name = names.get(path).cloned();
    name.ok_or_else(|| Error::NoInput { path: path.to_owned() }.into())
}

fn parse(text: &str, home: &DfsPath) -> Result<DfsPath, protocol::PathError> {
    match text.strip_prefix(SCHEME) {
        Some(rest) => DfsPath::parse(rest.find('/').map_or("/", |slash| &rest[slash..])),
        None if text.starts_with('/') => DfsPath::parse(text),
        None => home.join(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_plain_full_or_relative() {
        let home = DfsPath::parse("/user/ada").unwrap();
        for (text, expected) in [
            ("/a b/c", "/a b/c"),
            ("hanno://host:9870/x/y", "/x/y"),
            ("hanno:///x", "/x"),
            ("hanno://host", "/"),
            ("books/é", "/user/ada/books/é"),
        ] {
            assert_eq!(parse(text, &home).unwrap().as_str(), expected);
        }
        assert!(parse("../x", &home).is_err());
    }
}

//! Paths as they are typed, and the place that each is in.

use std::{fmt, io};

use protocol::address::{self, Scheme, Side, Site, Typed};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Of another cluster, whose certificate an authority vouches for.
const ENCRYPTED_SCHEME: &str = "swebhdfs";

/// Where a file is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Place {
    /// In the configured cluster, whose NameNode has this `host:port`.
    Cluster { authority: String },
    /// On this machine.
    Machine,
    /// In another cluster, over WebHDFS.
    Web { authority: String, is_encrypted: bool },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Cluster { authority } => write!(f, "hanno://{authority}"),
            Place::Machine => f.write_str("file:"),
            Place::Web { authority, is_encrypted: false } => write!(f, "webhdfs://{authority}"),
            Place::Web { authority, is_encrypted: true } => write!(f, "swebhdfs://{authority}"),
        }
    }
}

/// An absolute path in a place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct Location {
    pub(crate) place: Place,
    pub(crate) path: String,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.path)
    }
}

impl Location {
    /// Reads a path as `user` types it. One that is missing, as a variable without a value leaves it, stands for no directory.
    pub(crate) fn parse(text: &str, site: Option<&Site>, user: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::EmptyPath);
        }
        let typed = Typed::new(text);
        if typed.path.is_empty() {
            return Err(Error::NoPath { address: text.to_owned() });
        }
        let is_called = |site: &Site| site.locate(text).is_ok();
        match &typed.scheme {
            Some(Scheme::Namenode)
                if !typed.authority.is_empty() && !site.is_some_and(is_called) =>
            {
                let authority = match typed.namenode() {
                    Some(url) => address::authority_of(&url).to_owned(),
                    None => typed.authority.to_owned(),
                };
                let path = address::absolute("/", typed.path);
                return Ok(Location { place: Place::Web { authority, is_encrypted: false }, path });
            }
            Some(Scheme::Unknown(scheme)) if scheme == ENCRYPTED_SCHEME => {
                let path = address::absolute("/", typed.path);
                let authority = typed.authority.to_owned();
                if authority.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
                    let text =
                        format!("{text} names no port: {ENCRYPTED_SCHEME}://HOST:PORT{path}");
                    return Err(Error::usage(text));
                }
                return Ok(Location { place: Place::Web { authority, is_encrypted: true }, path });
            }
            Some(Scheme::Hdfs) if !typed.authority.is_empty() && !site.is_some_and(is_called) => {
                return Err(Error::usage(format!(
                    "{text} is another cluster than the configured one: reach it by WebHDFS, webhdfs://HOST:PORT{}",
                    typed.path
                )));
            }
            _ => {}
        }
        let none = Site::new("", &[]);
        let (typed, side) = site.unwrap_or(&none).locate(text)?;
        match side {
            Side::Machine => {
                let base = if typed.path.starts_with('/') { String::new() } else { here(text)? };
                let path = address::absolute(&base, typed.path);
                Ok(Location { place: Place::Machine, path })
            }
            Side::Cluster => {
                let Some(site) = site else {
                    return Err(Error::Cluster(client::dfs::DfsError::NoNamenode));
                };
                let base = if typed.is_relative() { address::home(user) } else { "/".to_owned() };
                let authority = site.authority().to_owned();
                let path = address::absolute(&base, typed.path);
                Ok(Location { place: Place::Cluster { authority }, path })
            }
        }
    }

    /// The path below this one; the same for an empty one.
    pub(crate) fn below(&self, relative: &str) -> Self {
        Location { place: self.place.clone(), path: join(&self.path, relative) }
    }

    /// True for `directory` itself and for what is in it.
    pub(crate) fn is_within(&self, directory: &Location) -> bool {
        let rest = self.path.strip_prefix(directory.path.trim_end_matches('/'));
        self.place == directory.place
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The directory that it is in; the root is in itself.
    pub(crate) fn parent(&self) -> Self {
        let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let path = if parent.is_empty() { "/" } else { parent }.to_owned();
        Location { place: self.place.clone(), path }
    }

    /// The last element of its path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(_, name)| name)
    }
}

/// The working directory, where the relative path `text` begins.
fn here(text: &str) -> Result<String> {
    let unknown = |source| Error::Own {
        what: "tell the working directory of",
        path: text.to_owned(),
        source,
    };
    let here = std::env::current_dir().map_err(unknown)?.into_os_string();
    here.into_string()
        .map_err(|_| unknown(io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8")))
}

/// A path below a directory.
pub(crate) fn join(directory: &str, relative: &str) -> String {
    match (directory, relative) {
        (directory, "") => directory.to_owned(),
        ("/", relative) => format!("/{relative}"),
        (directory, relative) => format!("{directory}/{relative}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_a_place() {
        let site = Site::new("http://nn:9870", &[]);
        let text = |text: &str| Location::parse(text, Some(&site), "ann").map(|it| it.to_string());
        for (typed, expected) in [
            ("/a/b/", "hanno://nn:9870/a/b"),
            ("a", "hanno://nn:9870/user/ann/a"),
            ("webhdfs://nn:9870/a", "hanno://nn:9870/a"),
            ("hdfs://nn/a", "hanno://nn:9870/a"),
            ("hdfs:///a", "hanno://nn:9870/a"),
            ("webhdfs://other:1/a b", "webhdfs://other:1/a b"),
            ("webhdfs://other/a", "webhdfs://other:9870/a"),
            ("swebhdfs://other:9871/a", "swebhdfs://other:9871/a"),
            ("file:///tmp/x", "file:/tmp/x"),
        ] {
            match text(typed) {
                Ok(found) => assert_eq!(found, expected, "{typed}"),
                // Whether a port may be left out there is decided by the address.
                Err(error) => assert_eq!(typed, "hdfs://nn/a", "{error}"),
            }
        }
        let error = text("hdfs://far:8020/a").unwrap_err().to_string();
        assert!(error.contains("webhdfs://HOST:PORT/a"), "{error}");
        assert!(text("s3a://bucket/a").is_err() && text("swebhdfs://other/a").is_err());
        assert!(Location::parse("/a", None, "ann").is_err());
        assert!(Location::parse("webhdfs://h:1/a", None, "ann").is_ok());
    }

    #[test]
    fn a_missing_path_is_no_directory() {
        let site = Site::new("http://nn:9870", &[]);
        for machine in [site.clone(), site.clone().with_machine_default()] {
            let empty = Location::parse("", Some(&machine), "ann").unwrap_err();
            assert!(matches!(empty, Error::EmptyPath), "{empty}");
            assert_eq!(empty.to_string(), "Can not create a Path from an empty string");
        }
        for address in [
            "hdfs://nn:9870",
            "webhdfs://nn:9870",
            "webhdfs://other:1",
            "swebhdfs://other:1",
            "file://",
            "hdfs://",
        ] {
            let none = Location::parse(address, Some(&site), "ann").unwrap_err();
            assert_eq!(none.exit_code(), 255, "{address}");
            let Error::NoPath { address: told } = none else { panic!("{address}: {none}") };
            assert_eq!(told, address);
        }
        let root = Location::parse("webhdfs://nn:9870/", Some(&site), "ann").unwrap();
        assert_eq!(root.to_string(), "hanno://nn:9870/");
    }

    #[test]
    fn paths_are_put_together() {
        let at = |path: &str| Location { place: Place::Machine, path: path.to_owned() };
        assert_eq!(at("/").below("a").path, "/a");
        assert_eq!(at("/a").below("").path, "/a");
        assert_eq!(at("/a").below("b/c").path, "/a/b/c");
        assert_eq!((at("/a/b").parent().path, at("/a").parent().path), ("/a".into(), "/".into()));
        assert_eq!((at("/a/b").name(), at("/").name()), ("b", ""));
        for (path, directory, expected) in [
            ("/a/b", "/a", true),
            ("/a", "/a", true),
            ("/a", "/", true),
            ("/ab", "/a", false),
            ("/a", "/a/b", false),
        ] {
            assert_eq!(at(path).is_within(&at(directory)), expected, "{path} {directory}");
        }
    }
}

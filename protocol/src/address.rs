//! Addresses as people type them, and which file system each leads to. Decided here for every command, job and configuration.
//!
//! ```text
//! /a   a   hdfs:///a   webhdfs:/a    the default file system: the cluster, or this machine with `-fs file:///`
//! webhdfs://H:P/a   hanno://H:P/a    the NameNode with that HTTP address
//! hdfs://A/a                         the cluster whose NameNode has the address A, or for which A is a known alias
//! file:///a   file:/a                this machine
//! anything else                      an error that names it
//! ```
//!
//! Invariant: a path leads to the cluster only if nothing in it names another one. Hosts are compared as text; `localhost` and
//! `127.0.0.1` are the same.

use std::fmt;
use std::net::IpAddr;

/// Port of a NameNode whose address names none, as in HDFS.
pub const NAMENODE_PORT: u16 = 9870;
/// Port of a JobTracker, as `hanno cluster` chooses it and examples name it.
const JOBTRACKER_PORT: u16 = 8088;
/// Longest part of an address that an error message repeats, characters.
const TEXT_CHARS_MAX: usize = 200;
/// How the URL of a daemon that is called from elsewhere begins.
const SECURE_SCHEME: &str = "https://";

/// What a scheme stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// `hanno`, `webhdfs`: a NameNode by its HTTP address.
    Namenode,
    /// `hdfs`: a cluster by the address of a protocol that Hanno does not speak.
    Hdfs,
    /// `file`: this machine.
    Machine,
    /// Anything else, lower case.
    Unknown(String),
}

impl Scheme {
    fn of(text: &str) -> Self {
        match text.to_ascii_lowercase().as_str() {
            "hanno" | "webhdfs" => Scheme::Namenode,
            "hdfs" => Scheme::Hdfs,
            "file" => Scheme::Machine,
            other => Scheme::Unknown(other.to_owned()),
        }
    }
}

/// A typed path, split into its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Typed<'a> {
    /// `None` for a plain path.
    pub scheme: Option<Scheme>,
    /// The text between `//` and the path; empty if absent.
    pub authority: &'a str,
    /// The text before the path: scheme and authority.
    pub prefix: &'a str,
    /// The path, without slashes at its end.
    pub path: &'a str,
}

impl<'a> Typed<'a> {
    /// Splits `text`.
    pub fn new(text: &'a str) -> Self {
        let (scheme, rest) = match scheme_len(text) {
            Some(len) => (Some(Scheme::of(&text[..len])), &text[len + 1..]),
            None => (None, text),
        };
        let after_slashes = scheme.as_ref().and_then(|_| rest.strip_prefix("//"));
        let authority =
            after_slashes.map_or("", |after| &after[..after.find('/').unwrap_or(after.len())]);
        let slashes_len = after_slashes.map_or(0, |_| 2);
        let (prefix, path) = text.split_at(text.len() - rest.len() + slashes_len + authority.len());
        let trimmed = path.trim_end_matches('/');
        let path = if trimmed.is_empty() && !path.is_empty() { "/" } else { trimmed };
        Typed { scheme, authority, prefix, path }
    }

    /// `http://host:port` of the NameNode, if it names one by its HTTP address.
    pub fn namenode(&self) -> Option<String> {
        let is_named = self.scheme == Some(Scheme::Namenode) && !self.authority.is_empty();
        is_named.then(|| url_of(&with_port(self.authority)))
    }

    /// True if it has the scheme for this machine.
    pub fn is_of_machine(&self) -> bool {
        self.scheme == Some(Scheme::Machine)
    }

    /// True for a path that begins neither with a scheme nor with a slash.
    pub fn is_relative(&self) -> bool {
        self.scheme.is_none() && !self.path.starts_with('/')
    }
}

/// Length of a leading `scheme` before `:/`. A colon elsewhere is part of the path.
fn scheme_len(text: &str) -> Option<usize> {
    let len = text.find(":/")?;
    let scheme = &text[..len];
    let well_formed = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    well_formed.then_some(len)
}

/// Which file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The cluster's.
    Cluster,
    /// This machine's.
    Machine,
}

/// Where paths without an authority lead.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Default {
    Cluster,
    Machine,
    /// To another cluster than the one being called: its address, if one is configured.
    Elsewhere(Option<String>),
}

/// The file systems that a command or a job reaches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// `host:port` of the NameNode being called; empty if none is known.
    authority: String,
    /// Other authorities for it, as `hdfs://` addresses have them.
    aliases: Vec<String>,
    default: Default,
}

impl Site {
    /// With the NameNode at `namenode` (`http://host:port`, empty if none is known). `aliases` are its names in `hdfs://` addresses.
    pub fn new(namenode: &str, aliases: &[String]) -> Self {
        let bare = |text: &String| Typed::new(text).authority.to_owned();
        let named =
            |text: &String| if scheme_len(text).is_some() { bare(text) } else { text.clone() };
        Site {
            authority: authority_of(namenode).to_owned(),
            aliases: aliases.iter().map(named).collect(),
            default: Default::Cluster,
        }
    }

    /// Plain paths belong to this machine (`-fs file:///`).
    pub fn with_machine_default(self) -> Self {
        Site { default: Default::Machine, ..self }
    }

    /// One path named the NameNode being called; plain paths still belong to the configured one.
    pub fn with_default_elsewhere(self, configured: Option<&str>) -> Self {
        let configured = configured.map(|address| authority_of(address).to_owned());
        match configured {
            Some(configured) if is_same(&configured, &self.authority) => self,
            configured => Site { default: Default::Elsewhere(configured), ..self },
        }
    }

    /// `host:port` of the NameNode being called.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// `hanno://host:port`.
    pub fn file_system(&self) -> String {
        format!("hanno://{}", self.authority)
    }

    /// Splits `text` and returns whose path it is.
    ///
    /// # Errors
    /// [`AddressError`] if it leads neither to the cluster nor to this machine.
    pub fn locate<'a>(&self, text: &'a str) -> Result<(Typed<'a>, Side), AddressError> {
        let typed = Typed::new(text);
        let side = match &typed.scheme {
            None => self.default_side(text)?,
            Some(Scheme::Machine) if typed.authority.is_empty() => Side::Machine,
            Some(Scheme::Machine) => {
                return Err(AddressError::wrong(text, "file:///".to_owned()));
            }
            Some(Scheme::Namenode | Scheme::Hdfs) if typed.authority.is_empty() => {
                match self.default_side(text)? {
                    // The scheme rules out this machine.
                    Side::Machine | Side::Cluster => Side::Cluster,
                }
            }
            Some(Scheme::Namenode) if is_same(&with_port(typed.authority), &self.authority) => {
                Side::Cluster
            }
            Some(Scheme::Namenode) => return Err(AddressError::wrong(text, self.file_system())),
            Some(Scheme::Hdfs) if self.is_called(typed.authority) => Side::Cluster,
            Some(Scheme::Hdfs) => {
                return Err(AddressError::Foreign {
                    typed: shortened(text),
                    expected: self.file_system(),
                });
            }
            Some(Scheme::Unknown(scheme)) => {
                return Err(AddressError::Scheme { scheme: shortened(scheme) });
            }
        };
        Ok((typed, side))
    }

    /// Whether `hdfs://authority` is this cluster.
    fn is_called(&self, authority: &str) -> bool {
        is_same(authority, &self.authority)
            || self.aliases.iter().any(|alias| is_same(alias, authority))
    }

    fn default_side(&self, text: &str) -> Result<Side, AddressError> {
        match &self.default {
            Default::Cluster => Ok(Side::Cluster),
            Default::Machine => Ok(Side::Machine),
            Default::Elsewhere(configured) => Err(AddressError::Elsewhere {
                typed: shortened(text),
                of: configured.as_ref().map_or_else(
                    || "no cluster that is configured".to_owned(),
                    |configured| format!("hanno://{configured}"),
                ),
                called: self.file_system(),
            }),
        }
    }
}

/// A file system as `-fs` and `fs.defaultFS` name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileSystem {
    /// The cluster in the configuration.
    Configured,
    /// The cluster of the NameNode with this address, `http://host:port`.
    Namenode(String),
    /// This machine.
    Machine,
}

impl FileSystem {
    /// Reads the value of `option`; `site` has the configured cluster.
    ///
    /// # Errors
    /// [`AddressError`] if it is not a file system that can be reached.
    pub fn parse(option: &'static str, text: &str, site: &Site) -> Result<Self, AddressError> {
        let malformed = |reason| AddressError::malformed(option, text, reason);
        if text == "local" || text == "file:" {
            return Ok(FileSystem::Machine);
        }
        let typed = Typed::new(text);
        let is_http = matches!(&typed.scheme, Some(Scheme::Unknown(scheme)) if scheme == "http");
        let is_path = typed.scheme.is_some() && !matches!(typed.path, "" | "/");
        match &typed.scheme {
            _ if is_path => Err(malformed("names a path, not a file system")),
            None => namenode_address(option, text).map(FileSystem::Namenode),
            Some(Scheme::Machine) if typed.authority.is_empty() => Ok(FileSystem::Machine),
            Some(Scheme::Machine) => Err(malformed("this machine is file:///")),
            Some(Scheme::Namenode | Scheme::Hdfs) if typed.authority.is_empty() => {
                Ok(FileSystem::Configured)
            }
            Some(Scheme::Hdfs) if site.is_called(typed.authority) => Ok(FileSystem::Configured),
            Some(Scheme::Hdfs) => Err(AddressError::Foreign {
                typed: format!("{option} {}", shortened(text)),
                expected: site.file_system(),
            }),
            Some(Scheme::Namenode) => namenode_address(option, text).map(FileSystem::Namenode),
            Some(Scheme::Unknown(_)) if is_http => {
                namenode_address(option, text).map(FileSystem::Namenode)
            }
            Some(Scheme::Unknown(scheme)) => {
                Err(AddressError::Scheme { scheme: shortened(scheme) })
            }
        }
    }
}

/// The address of a NameNode, `http://host:port`, from the value of `option`: `host:port`, after `http://`, `webhdfs://`, `hanno://` or nothing.
///
/// # Errors
/// [`AddressError::Malformed`].
pub fn namenode_address(option: &'static str, text: &str) -> Result<String, AddressError> {
    let typed = Typed::new(text);
    let has_port = typed.scheme.is_some() || text.contains(':');
    let malformed = |reason| AddressError::malformed(option, text, reason);
    match typed.scheme {
        None if has_port => daemon_address(text).map_err(malformed),
        Some(Scheme::Namenode) if matches!(typed.path, "" | "/") => {
            daemon_address(&with_port(typed.authority)).map_err(malformed)
        }
        Some(Scheme::Namenode) => Err(malformed(HAS_PATH)),
        Some(Scheme::Unknown(_)) => daemon_address(text).map_err(malformed),
        _ => Err(malformed("is no HTTP address of a NameNode")),
    }
}

/// The address of a JobTracker, `http://host:port`, from the value of `option`, with or without `http://`.
///
/// # Errors
/// [`AddressError::Malformed`]; [`AddressError::NoJobtracker`] for `local`, as Hadoop calls its local runner.
pub fn jobtracker_address(option: &'static str, text: &str) -> Result<String, AddressError> {
    if text.eq_ignore_ascii_case("local") {
        return Err(AddressError::NoJobtracker { option });
    }
    daemon_address(text).map_err(|reason| {
        let (text, example) = (shortened(text), JOBTRACKER_PORT);
        AddressError::Malformed { option, text, reason, example }
    })
}

/// The scheme of the URLs of daemons, spelled here alone.
const SCHEME: &str = "http://";

/// What is wrong with an address that goes on behind its port.
const HAS_PATH: &str = "has a path, which an address of a daemon has not";

/// The address of a daemon, `http://host:port`, with or without `http://`; or what is wrong with it, as a verb phrase.
fn daemon_address(text: &str) -> Result<String, &'static str> {
    let scheme = text.get(..SCHEME.len()).filter(|start| start.eq_ignore_ascii_case(SCHEME));
    let bare = &text[scheme.map_or(0, str::len)..];
    let bare = bare.trim_end_matches('/');
    if bare.contains("://") {
        return Err("has another scheme than http");
    }
    if bare.contains('/') {
        return Err(HAS_PATH);
    }
    let Some((host, port)) = bare.rsplit_once(':') else {
        return Err("has no port");
    };
    let is_host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
            !host.is_empty() && host.bytes().all(fits)
        }
    };
    match port.parse::<u16>() {
        _ if !is_host => Err("has no host"),
        Ok(port) if port > 0 => Ok(url_of(bare)),
        _ => Err("has no port from 1 to 65535"),
    }
}

/// `path` from the root, below `base` if it is relative; `.` and `..` are resolved as text only.
pub fn absolute(base: &str, path: &str) -> String {
    let base = if path.starts_with('/') { "" } else { base };
    let mut elements: Vec<&str> = Vec::new();
    for element in base.split('/').chain(path.split('/')) {
        match element {
            "" | "." => {}
            ".." => drop(elements.pop()),
            element => elements.push(element),
        }
    }
    format!("/{}", elements.join("/"))
}

/// The directory where relative paths of `user` begin.
pub fn home(user: &str) -> String {
    format!("/user/{user}")
}

/// The URL of a daemon at `host:port`.
pub fn url_of(authority: &str) -> String {
    format!("{SCHEME}{authority}")
}

/// The URL of a daemon's pages and of WebHDFS at `host:port`, as somebody elsewhere calls it: encrypted, unless it stays on this machine.
pub fn web_url_of(authority: &str) -> String {
    if is_loopback(authority) { url_of(authority) } else { secure_url_of(authority) }
}

/// The URL of `host:port` for encrypted requests.
pub fn secure_url_of(authority: &str) -> String {
    format!("{SECURE_SCHEME}{authority}")
}

/// True if what is sent to this `host:port` stays on the machine, as its text says; names are not looked up.
pub fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(host, _)| host),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

/// `host:port` of the URL of a daemon.
pub fn authority_of(url: &str) -> &str {
    url.strip_prefix(SCHEME).unwrap_or(url).trim_end_matches('/')
}

fn with_port(authority: &str) -> String {
    let after_host = authority.rfind(']').map_or(0, |end| end + 1);
    match authority[after_host..].contains(':') {
        true => authority.to_owned(),
        false => format!("{authority}:{NAMENODE_PORT}"),
    }
}

/// True if two authorities are one: whatever the case of their letters, and `localhost` is the machine itself.
pub fn is_same(left: &str, right: &str) -> bool {
    let canonical = |text: &str| {
        let text = text.to_ascii_lowercase();
        match text.strip_prefix("localhost") {
            Some(port) if port.is_empty() || port.starts_with(':') => format!("127.0.0.1{port}"),
            _ => text,
        }
    };
    !left.is_empty() && canonical(left) == canonical(right)
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// An address that leads nowhere from here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It names another file system than the one being called.
    #[error("Wrong FS: {typed}, expected: {expected}")]
    Wrong {
        /// The text.
        typed: String,
        /// The file system that it may name.
        expected: String,
    },
    /// An `hdfs://` address that no alias makes this cluster's.
    #[error(
        "Wrong FS: {typed}, expected: {expected} (webhdfs://host:port names a Hanno NameNode; `aliases` in hanno.toml or HANNO_ALIASES, other names of yours)"
    )]
    Foreign {
        /// The text.
        typed: String,
        /// The file system that it may name.
        expected: String,
    },
    /// A plain path beside one that names another cluster than the configured one.
    #[error("Wrong FS: {typed} is of {of}, expected: {called}, which another path names")]
    Elsewhere {
        /// The text.
        typed: String,
        /// The file system it belongs to.
        of: String,
        /// The one being called.
        called: String,
    },
    /// A scheme without a meaning here.
    #[error("No FileSystem for scheme \"{scheme}\" (there are webhdfs, hanno, hdfs and file)")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// The value of an option or variable is not an address.
    #[error("{option}: `{text}' {reason}; give it like http://host:{example}")]
    Malformed {
        /// The option, variable or key.
        option: &'static str,
        /// Its value.
        text: String,
        /// What is wrong, as a verb phrase.
        reason: &'static str,
        /// The port of a daemon that is meant.
        example: u16,
    },
    /// Hadoop's local runner where a JobTracker is to be named.
    #[error("{option} local: for a job in this process, give it --local")]
    NoJobtracker {
        /// The option, variable or key.
        option: &'static str,
    },
}

impl AddressError {
    /// A value that names no NameNode.
    fn malformed(option: &'static str, text: &str, reason: &'static str) -> Self {
        let (text, example) = (shortened(text), NAMENODE_PORT);
        AddressError::Malformed { option, text, reason, example }
    }

    fn wrong(text: &str, expected: String) -> Self {
        AddressError::Wrong { typed: shortened(text), expected }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Cluster => "the cluster",
            Side::Machine => "this machine",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: Result<Side, &str> = Ok(Side::Cluster);
    const M: Result<Side, &str> = Ok(Side::Machine);
    const FOREIGN: Result<Side, &str> = Err("Wrong FS: ");
    const SCHEME: Result<Side, &str> = Err("No FileSystem for scheme ");

    #[test]
    fn what_leaves_the_machine_is_encrypted() {
        for here in
            ["127.0.0.1:1", "localhost:9870", "LocalHost", "[::1]:9864", "[::ffff:127.0.0.1]:1"]
        {
            assert_eq!(web_url_of(here), format!("http://{here}"));
        }
        for there in
            ["nn:9870", "10.0.0.1:9870", "[fe80::1]:9870", "localhost.example:1", "0.0.0.0:1", ""]
        {
            assert_eq!(web_url_of(there), format!("https://{there}"));
        }
    }

    fn site() -> Site {
        Site::new("http://nn:9870/", &["hdfs://old:8020".to_owned(), "service".to_owned()])
    }

    fn check(site: &Site, table: &[(&str, Result<Side, &str>, &str)]) {
        for (text, expected, path) in table {
            match (site.locate(text), expected) {
                (Ok((typed, side)), Ok(expected)) => {
                    assert_eq!((side, typed.path), (*expected, *path), "{text}");
                    assert!(text.starts_with(&format!("{}{}", typed.prefix, typed.path)), "{text}");
                }
                (Err(error), Err(start)) => {
                    assert!(error.to_string().starts_with(start), "{text}: {error}");
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn every_address_leads_to_the_cluster_to_this_machine_or_nowhere() {
        let table = [
            ("/a", C, "/a"),
            ("a/b", C, "a/b"),
            ("/", C, "/"),
            ("//", C, "/"),
            ("", C, ""),
            (".", C, "."),
            ("/a:b", C, "/a:b"),
            ("a:b", C, "a:b"),
            ("hdfs:///a", C, "/a"),
            ("hdfs:/a", C, "/a"),
            ("HDFS:/a/", C, "/a"),
            ("hdfs://nn:9870/a", C, "/a"),
            ("hdfs://NN:9870", C, ""),
            ("hdfs://old:8020/a", C, "/a"),
            ("hdfs://service/a", C, "/a"),
            ("webhdfs://nn:9870/a", C, "/a"),
            ("webhdfs://nn/a", C, "/a"),
            ("webhdfs:///a", C, "/a"),
            ("hanno://nn:9870/", C, "/"),
            ("Hanno:/a", C, "/a"),
            ("file:///a/b:c", M, "/a/b:c"),
            ("file:/a", M, "/a"),
            ("FILE:///", M, "/"),
            ("file://host/a", FOREIGN, ""),
            ("hdfs://nn/a", FOREIGN, ""),
            ("hdfs://nn:8020/a", FOREIGN, ""),
            ("hdfs://nn:9871/a", FOREIGN, ""),
            ("hdfs://old/a", FOREIGN, ""),
            ("hdfs://old:8020x/a", FOREIGN, ""),
            ("hdfs://user@nn:9870/a", FOREIGN, ""),
            ("hdfs://elsewhere/a", FOREIGN, ""),
            ("webhdfs://old:8020/a", FOREIGN, ""),
            ("webhdfs://elsewhere:9870/a", FOREIGN, ""),
            ("hanno://nn:9871/a", FOREIGN, ""),
            ("hanno://nn.example:9870/a", FOREIGN, ""),
            ("s3a://bucket/a", SCHEME, ""),
            ("foo:///a", SCHEME, ""),
            ("http://nn:9870/a", SCHEME, ""),
            ("https://nn:9870/a", SCHEME, ""),
            ("swebhdfs://nn:9870/a", SCHEME, ""),
            ("viewfs:/a", SCHEME, ""),
            ("har:///a", SCHEME, ""),
        ];
        check(&site(), &table);
        let local = Site::new("http://127.0.0.1:9870", &[]);
        check(
            &local,
            &[("hdfs://localhost:9870/a", C, "/a"), ("hdfs://localhost.x:9870/", FOREIGN, "")],
        );
        check(
            &Site::new("", &[]),
            &[("/a", C, "/a"), ("hdfs://x/a", FOREIGN, ""), ("file:/a", M, "/a")],
        );
    }

    #[test]
    fn plain_paths_go_to_the_default() {
        let machine = site().with_machine_default();
        check(
            &machine,
            &[("/a", M, "/a"), ("a", M, "a"), ("hdfs:///a", C, "/a"), ("s3a://b/c", SCHEME, "")],
        );
        let elsewhere = site().with_default_elsewhere(Some("http://mine:9870"));
        let table = [("/a", FOREIGN, ""), ("a", FOREIGN, ""), ("hdfs:///a", FOREIGN, "")];
        check(&elsewhere, &table);
        check(&elsewhere, &[("webhdfs://nn:9870/a", C, "/a"), ("file:/a", M, "/a")]);
        check(&site().with_default_elsewhere(None), &table);
        check(&site().with_default_elsewhere(Some("http://nn:9870")), &[("/a", C, "/a")]);
    }

    #[test]
    fn a_file_system_is_reached_or_refused() {
        let named = |address: &str| Ok(FileSystem::Namenode(address.to_owned()));
        for (text, expected) in [
            ("http://b:1", named("http://b:1")),
            ("http://b:1/", named("http://b:1")),
            ("HTTP://b:1", named("http://b:1")),
            ("b:1", named("http://b:1")),
            ("127.0.0.1:1", named("http://127.0.0.1:1")),
            ("[::1]:1", named("http://[::1]:1")),
            ("webhdfs://b:1", named("http://b:1")),
            ("webhdfs://b:1/", named("http://b:1")),
            ("webhdfs://b", named("http://b:9870")),
            ("webhdfs://[::1]", named("http://[::1]:9870")),
            ("hanno://b:1", named("http://b:1")),
            ("webhdfs://nn:9870", named("http://nn:9870")),
            ("hdfs:///", Ok(FileSystem::Configured)),
            ("hdfs://nn:9870", Ok(FileSystem::Configured)),
            ("hdfs://service", Ok(FileSystem::Configured)),
            ("file:///", Ok(FileSystem::Machine)),
            ("file:/", Ok(FileSystem::Machine)),
            ("local", Ok(FileSystem::Machine)),
            ("hdfs://elsewhere", Err("Wrong FS: -fs hdfs://elsewhere, expected: hanno://nn:9870")),
            ("hdfs://b:9870", Err("Wrong FS: -fs hdfs://b:9870")),
            ("s3a://bucket", Err("No FileSystem for scheme \"s3a\"")),
            ("foo://", Err("No FileSystem for scheme \"foo\"")),
            ("https://b:1", Err("No FileSystem for scheme \"https\"")),
            ("swebhdfs://b:1", Err("No FileSystem for scheme \"swebhdfs\"")),
            ("file://b/", Err("-fs: `file://b/' this machine is file:///")),
            ("webhdfs://b:1/dir", Err("-fs: `webhdfs://b:1/dir' names a path")),
            ("http://b:1/dir", Err("-fs: `http://b:1/dir' names a path")),
            ("b", Err("-fs: `b' is no HTTP address")),
            ("/a", Err("-fs: `/a' is no HTTP address")),
            ("", Err("-fs: `' is no HTTP address")),
            ("b:0", Err("-fs: `b:0' has no port")),
            ("b:x", Err("-fs: `b:x' has no port")),
            ("b:70000", Err("-fs: `b:70000' has no port")),
            ("http://:1", Err("-fs: `http://:1' has no host")),
            ("http://u@b:1", Err("-fs: `http://u@b:1' has no host")),
            ("http://b", Err("-fs: `http://b' has no port")),
        ] {
            let found = FileSystem::parse("-fs", text, &site());
            match (found, expected) {
                (Err(error), Err(start)) => {
                    assert!(error.to_string().starts_with(start), "{text}: {error}");
                }
                (found, expected) => assert_eq!(found.ok(), expected.ok(), "{text}"),
            }
        }
    }

    #[test]
    fn the_address_of_a_daemon_is_explained_by_who_has_it() {
        assert!(namenode_address("HANNO_NAMENODE", "hdfs://b:1").is_err());
        assert!(namenode_address("HANNO_NAMENODE", "file:///").is_err());
    }

    #[test]
    fn what_is_wrong_with_an_address_is_told_for_the_daemon_that_is_meant() {
        assert_eq!(jobtracker_address("-jt", "b:1").unwrap(), "http://b:1");
        for (text, expected) in [
            (
                "webhdfs://b:1",
                "-jt: `webhdfs://b:1' has another scheme than http; give it like http://host:8088",
            ),
            ("b", "-jt: `b' has no port; give it like http://host:8088"),
            ("local", "-jt local: for a job in this process, give it --local"),
            (
                "http://b:1/x",
                "-jt: `http://b:1/x' has a path, which an address of a daemon has not; give it like http://host:8088",
            ),
        ] {
            assert_eq!(jobtracker_address("-jt", text).unwrap_err().to_string(), expected);
        }
        for text in ["http://b:1/x", "b:1/x", "b/x:1", "webhdfs://b:1/x", "webhdfs://b/x"] {
            let told = namenode_address("namenode", text).unwrap_err().to_string();
            let expected = format!(
                "namenode: `{text}' has a path, which an address of a daemon has not; give it like http://host:9870"
            );
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn absolute_paths_are_made_by_words() {
        for (path, expected) in [
            ("a/b", "/user/ann/a/b"),
            ("../bob/./x", "/user/bob/x"),
            ("/a/./b/..", "/a"),
            ("/../..", "/"),
            (".", "/user/ann"),
            ("", "/user/ann"),
        ] {
            assert_eq!(absolute(&home("ann"), path), expected);
        }
    }
}

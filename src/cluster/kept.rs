//! What an earlier start left in a cluster's directory: how many daemons, and files that are not its own.
//!
//! Invariants: no file that somebody else wrote is replaced; a start runs every DataNode and every disk that has blocks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use client::config::CONFIG_FILE;
use serde::{Deserialize, Serialize};

use crate::daemons::Kind;

/// First line of every file that it writes for others to read.
pub(super) const WRITTEN: &str = "# Written by `hanno cluster` at each start.\n";
/// Where the ports are kept.
pub(super) const PORTS_FILE: &str = "conf/ports.toml";
/// DataNodes of a new cluster.
pub(super) const DATANODES_DEFAULT: u16 = 3;
/// Workers of a new cluster.
pub(super) const WORKERS_DEFAULT: u16 = 2;

/// Ports of all daemons.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ports {
    /// NameNode.
    pub(super) namenode: u16,
    /// JobTracker.
    pub(super) jobtracker: u16,
    /// DataNodes, block transfer.
    pub(super) transfer: Vec<u16>,
    /// DataNodes, HTTP.
    pub(super) datanode: Vec<u16>,
    /// Workers, HTTP.
    pub(super) worker: Vec<u16>,
}

impl Ports {
    /// Those of the last start in this directory; none if there was none.
    pub(super) fn kept(root: &Path) -> Result<Ports> {
        let path = root.join(PORTS_FILE);
        match sys::fs::read_input(&path) {
            Ok(text) => toml::from_str(&text)
                .with_context(|| format!("cannot use {}; it can be deleted", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ports::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
}

/// How many daemons there were; 0 if there was no start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Kept {
    /// DataNodes that have a directory.
    datanodes: u16,
    /// Data directories of one of them.
    disks: u16,
    /// Workers of the last start.
    workers: u16,
}

/// Numbers as given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Given {
    pub(super) datanodes: Option<u16>,
    pub(super) disks: Option<u16>,
    pub(super) workers: Option<u16>,
}

/// Numbers of daemons to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Counts {
    pub(super) datanodes: u16,
    pub(super) disks: u16,
    pub(super) workers: u16,
}

impl Kept {
    /// Reads what is there, which may be nothing.
    ///
    /// # Errors
    /// If the directory cannot be read, or if a file in it, where one of a cluster belongs, is somebody else's.
    pub(super) fn read(data: &Path) -> Result<Kept> {
        let mut kept = Kept::default();
        check(&data.join(CONFIG_FILE))?;
        for path in listed(&data.join("conf"))? {
            let is_configuration =
                path.file_stem().and_then(|stem| stem.to_str()).is_some_and(is_daemon);
            if is_configuration && path.extension().is_some_and(|suffix| suffix == "toml") {
                check(&path)?;
            }
        }
        for path in listed(data)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some((kind, rest)) = numbered(name).filter(|_| path.is_dir()) else { continue };
            match (kind, rest.split_once("-disk-")) {
                (Kind::Datanode, None) => kept.datanodes = kept.datanodes.max(number(rest)),
                (Kind::Datanode, Some((_, disk))) => kept.disks = kept.disks.max(number(disk)),
                _ => {}
            }
        }
        kept.workers = Ports::kept(data)?.worker.len().try_into().unwrap_or(u16::MAX);
        Ok(kept)
    }

    /// What to start: as given, else as kept, else the defaults.
    ///
    /// # Errors
    /// If some of the DataNodes or disks that are there would not be started: blocks may be on them alone.
    pub(super) fn counts(self, given: Given, data: &Path) -> Result<Counts> {
        let wanted = |given: Option<u16>, kept: u16, default: u16| {
            given.unwrap_or(if kept == 0 { default } else { kept })
        };
        let counts = Counts {
            datanodes: wanted(given.datanodes, self.datanodes, DATANODES_DEFAULT),
            disks: wanted(given.disks, self.disks, 1),
            workers: wanted(given.workers, self.workers, WORKERS_DEFAULT),
        };
        if counts.datanodes < self.datanodes {
            let left: Vec<String> =
                (counts.datanodes + 1..=self.datanodes).map(|n| format!("datanode-{n}")).collect();
            let (data, left) = (data.display(), left.join(", "));
            bail!(
                "{data} has {left}, and blocks may be there alone: give --datanodes {}",
                self.datanodes
            );
        }
        if counts.disks < self.disks {
            let data = data.display();
            bail!(
                "{data} has disks of DataNodes up to number {0}, and blocks may be there alone: give --disks {0}",
                self.disks
            );
        }
        Ok(counts)
    }
}

/// Refuses a path where somebody else has a file.
pub(super) fn check(path: &Path) -> Result<()> {
    let text = match sys::fs::open_input(path) {
        Ok(file) => io::read_to_string(file),
        Err(error) => Err(error),
    };
    match text {
        Ok(text) if text.starts_with(WRITTEN) || is_ports(path, &text) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
            ) =>
        {
            Err(error).with_context(|| format!("cannot read {}", path.display()))
        }
        _ => bail!(
            "{} was not written by `hanno cluster`, which would replace it: move it away, or give another --data",
            path.display()
        ),
    }
}

/// The ports of earlier versions have no first line of ours.
fn is_ports(path: &Path, text: &str) -> bool {
    path.ends_with(PORTS_FILE) && toml::from_str::<Ports>(text).is_ok()
}

fn is_daemon(name: &str) -> bool {
    name == "ports" || numbered(name).is_some_and(|(_, rest)| number(rest) > 0)
}

/// The daemon that a name begins with, and what follows.
fn numbered(name: &str) -> Option<(Kind, &str)> {
    let kinds = [Kind::Namenode, Kind::Datanode, Kind::Jobtracker, Kind::Worker];
    kinds
        .into_iter()
        .find_map(|kind| Some((kind, name.strip_prefix(kind.name())?.strip_prefix('-')?)))
}

/// 0 for what is no number.
fn number(text: &str) -> u16 {
    text.parse().unwrap_or_default()
}

/// The paths in a directory; none if it is missing.
fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.and_then(|all| all.map(|one| Ok(one?.path())).collect()),
    };
    entries.with_context(|| format!("cannot read {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_and_never_become_less_than_the_blocks_need() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path();
        let fresh = Kept::read(&data.join("new")).unwrap();
        assert_eq!(fresh, Kept::default());
        let counts = fresh.counts(Given::default(), data).unwrap();
        assert_eq!((counts.datanodes, counts.disks, counts.workers), (3, 1, 2));
        for name in ["datanode-1", "datanode-3", "datanode-3-disk-2", "datanode-x", "conf"] {
            fs::create_dir(data.join(name)).unwrap();
        }
        let ports = "namenode = 1\njobtracker = 2\ntransfer = []\ndatanode = []\nworker = [3]\n";
        fs::write(data.join("conf/ports.toml"), ports).unwrap();
        let kept = Kept::read(data).unwrap();
        assert_eq!(kept, Kept { datanodes: 3, disks: 2, workers: 1 });
        let counts = kept.counts(Given::default(), data).unwrap();
        assert_eq!((counts.datanodes, counts.disks, counts.workers), (3, 2, 1));
        let more = Given { datanodes: Some(4), disks: Some(3), workers: Some(2) };
        let counts = kept.counts(more, data).unwrap();
        assert_eq!((counts.datanodes, counts.disks, counts.workers), (4, 3, 2));
        for (given, part) in [
            (Given { datanodes: Some(1), ..more }, "has datanode-2, datanode-3, and blocks"),
            (Given { datanodes: Some(1), ..more }, "give --datanodes 3"),
            (Given { disks: Some(1), ..more }, "give --disks 2"),
        ] {
            let text = kept.counts(given, data).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn files_of_somebody_else_are_refused_by_name() {
        for name in ["hanno.toml", "conf/worker-2.toml", "conf/ports.toml"] {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join(name);
            fs::create_dir(place.path().join("conf")).unwrap();
            fs::write(place.path().join("conf/mine.toml"), "a = 1\n").unwrap();
            fs::write(&path, format!("{WRITTEN}a = 1\n")).unwrap();
            assert!(name.ends_with("ports.toml") || Kept::read(place.path()).is_ok(), "{name}");
            fs::write(&path, "a = 1\n").unwrap();
            let text = Kept::read(place.path()).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains("move it away"), "{text}");
        }
    }
}

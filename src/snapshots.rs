//! `hdfs lsSnapshottableDir`, `hdfs lsSnapshot` and `hdfs snapshotDiff`.

use std::ffi::OsString;
use std::io::Write;

use anyhow::{Result, anyhow};
use client::dfs::DfsClient;
use jiff::tz::TimeZone;
use protocol::DfsPath;
use protocol::namenode::{
    DOT_SNAPSHOT, DiffEntry, DiffKind, SnapshotStatus, SnapshottableDirectory,
};

use crate::connect::{Overrides, describe, file_system};
use crate::dfs::Resolver;
use crate::generic::generic;
use crate::output::{
    EXIT_FAILED, EXIT_OK, local_zone, minute_time, permissions, report, unless_reader_left,
};

pub(crate) const LIST_SNAPSHOTTABLE_USAGE: &str = "Usage: \nhdfs lsSnapshottableDir: \n\tGet the list of snapshottable directories that are owned by the \
     current user.\n\tReturn all the snapshottable directories if the current user is a super user.\n";
pub(crate) const LIST_USAGE: &str = "Usage: \nhdfs lsSnapshot <snapshotDir>: \n\tGet the list of snapshots for a snapshottable directory.\n";
pub(crate) const DIFF_USAGE: &str = "Usage: \nhdfs snapshotDiff <snapshotDir> <from> <to>:\n\tGet the difference between two snapshots, \n\t\
     or between a snapshot and the current tree of a directory.\n\tFor <from>/<to>, users can use \".\" to \
     present the current status,\n\tand use \".snapshot/snapshot_name\" to present a snapshot,\n\twhere \
     \".snapshot/\" can be omitted\n";

/// `hdfs lsSnapshottableDir`.
pub(crate) fn list_snapshottable(words: &[OsString], overrides: &Overrides) -> u8 {
    let (words, overrides) = match generic(words, overrides) {
        Ok(found) => found,
        Err(text) => return wrong(&text),
    };
    if !words.is_empty() {
        return wrong(LIST_SNAPSHOTTABLE_USAGE);
    }
    let print = || -> Result<()> {
        let all = file_system(&overrides.config()?)?.snapshottable_directories()?;
        let text = snapshottable_text(&all, local_zone());
        unless_reader_left(crate::output::out().write_all(text.as_bytes()))?;
        Ok(())
    };
    end("lsSnapshottableDir", print())
}

/// Columns as wide as their widest entry, as HDFS prints them.
fn snapshottable_text(all: &[SnapshottableDirectory], zone: &TimeZone) -> String {
    let width =
        |text: &dyn Fn(&SnapshottableDirectory) -> usize| all.iter().map(text).max().unwrap_or(0);
    let owners = width(&|dir| dir.status.owner.len());
    let groups = width(&|dir| dir.status.group.len());
    let counts = width(&|dir| dir.snapshot_count.to_string().len());
    let quotas = width(&|dir| dir.snapshot_quota.to_string().len());
    let line = |dir: &SnapshottableDirectory| {
        format!(
            "d{} 0 {:<owners$} {:<groups$} 0 {} {:>counts$} {:>quotas$} {}\n",
            permissions(dir.status.mode),
            dir.status.owner,
            dir.status.group,
            minute_time(dir.status.mtime_ms, zone),
            dir.snapshot_count,
            dir.snapshot_quota,
            dir.path,
        )
    };
    match all {
        [] => "\n".to_owned(),
        all => all.iter().map(line).collect(),
    }
}

/// `hdfs lsSnapshot <snapshotDir>`.
pub(crate) fn list_snapshots(words: &[OsString], overrides: &Overrides) -> u8 {
    let (words, overrides) = match generic(words, overrides) {
        Ok(found) => found,
        Err(text) => return wrong(&text),
    };
    let [directory] = &words[..] else {
        return wrong(&format!("Invalid no of arguments\n{LIST_USAGE}"));
    };
    let print = || -> Result<()> {
        let client = file_system(&overrides.config()?)?;
        let path = resolve(&client, directory)?;
        let all = client.snapshots(&path)?;
        let text = snapshots_text(&path.join(DOT_SNAPSHOT)?, &all, local_zone());
        unless_reader_left(crate::output::out().write_all(text.as_bytes()))?;
        Ok(())
    };
    end("lsSnapshot", print())
}

/// Columns as wide as their widest entry.
fn snapshots_text(folder: &DfsPath, all: &[SnapshotStatus], zone: &TimeZone) -> String {
    let width = |text: &dyn Fn(&SnapshotStatus) -> usize| all.iter().map(text).max().unwrap_or(0);
    let owners = width(&|snapshot| snapshot.status.owner.len());
    let groups = width(&|snapshot| snapshot.status.group.len());
    let numbers = width(&|snapshot| snapshot.number.to_string().len());
    let line = |SnapshotStatus { number, status }: &SnapshotStatus| {
        format!(
            "d{} 0 {:<owners$} {:<groups$} 0 {} {number:>numbers$} ACTIVE {folder}/{}\n",
            permissions(status.mode),
            status.owner,
            status.group,
            minute_time(status.mtime_ms, zone),
            status.name,
        )
    };
    match all {
        [] => "\n".to_owned(),
        all => all.iter().map(line).collect(),
    }
}

/// `hdfs snapshotDiff <snapshotDir> <from> <to>`; `.` stands for the present.
pub(crate) fn snapshot_diff(words: &[OsString], overrides: &Overrides) -> u8 {
    let (words, overrides) = match generic(words, overrides) {
        Ok(found) => found,
        Err(text) => return wrong(&text),
    };
    let [directory, from, to] = &words[..] else {
        return wrong(DIFF_USAGE);
    };
    let print = || -> Result<()> {
        let client = file_system(&overrides.config()?)?;
        let path = resolve(&client, directory)?;
        let (from, to) = (snapshot_name(from), snapshot_name(to));
        let entries = client.snapshot_diff(&path, from, to)?;
        let text = diff_text(&path, (from, to), &entries);
        unless_reader_left(crate::output::out().write_all(text.as_bytes()))?;
        Ok(())
    };
    end("snapshotDiff", print())
}

fn snapshot_name(text: &str) -> &str {
    match text {
        "." => "",
        text => text.strip_prefix(".snapshot/").unwrap_or(text),
    }
}

fn diff_text(path: &DfsPath, (from, to): (&str, &str), entries: &[DiffEntry]) -> String {
    let moment = |name: &str| match name {
        "" => "current directory".to_owned(),
        name => format!("snapshot {name}"),
    };
    let mut text =
        format!("Difference between {} and {} under directory {path}:\n", moment(from), moment(to));
    let relative = |path: &str| match path {
        "" => ".".to_owned(),
        path => format!("./{path}"),
    };
    for entry in entries {
        let letter = match entry.kind {
            DiffKind::Created => '+',
            DiffKind::Deleted => '-',
            DiffKind::Modified => 'M',
            DiffKind::Renamed => 'R',
        };
        text.push_str(&format!("{letter}\t{}", relative(&entry.path)));
        if let Some(target) = &entry.target {
            text.push_str(&format!(" -> {}", relative(target)));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

fn resolve(client: &DfsClient, text: &str) -> Result<DfsPath> {
    let resolver = Resolver::new(client.user(), client.site());
    resolver.cluster_path(text).map_err(|failure| anyhow!("{failure}"))
}

fn wrong(text: &str) -> u8 {
    report!("{text}");
    EXIT_FAILED
}

fn end(name: &str, outcome: Result<()>) -> u8 {
    let Err(error) = outcome else { return EXIT_OK };
    let text = describe(error.as_ref());
    let text = text.lines().next().unwrap_or_default();
    report!("{name}: {text}");
    EXIT_FAILED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_read_as_hdfs_prints_them() {
        let entry = |kind, path: &str, target: Option<&str>| DiffEntry {
            kind,
            path: path.to_owned(),
            target: target.map(str::to_owned),
        };
        let entries = [
            entry(DiffKind::Modified, "", None),
            entry(DiffKind::Created, "f", None),
            entry(DiffKind::Deleted, "g", None),
            entry(DiffKind::Renamed, "a", Some("b")),
        ];
        let text = diff_text(&DfsPath::parse("/d").unwrap(), ("s", ""), &entries);
        assert_eq!(
            text,
            "Difference between snapshot s and current directory under directory /d:\nM\t.\n+\t./f\n-\t./g\nR\t./a -> ./b\n\n"
        );
        assert_eq!((snapshot_name("."), snapshot_name(".snapshot/x")), ("", "x"));
    }
}

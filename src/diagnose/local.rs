//! What this machine has of a cluster: logs of its daemons, and the files that configure them.
//!
//! Only plain files under the names that daemons' logs have are opened, and no link is followed: nothing that lies beside them gets in.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::bundle::Bundle;
use super::scrub::{Kind, LEFT_OUT, is_secret_name};
use crate::daemons::Kind as DaemonKind;

/// Bytes of the end of a log: some thousand lines.
const LOG_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a configuration file.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Most files of a folder.
const FILES_MAX: usize = 64;

/// Where to look.
pub(super) struct Folders {
    logs: Vec<PathBuf>,
    configs: Option<PathBuf>,
}

impl Folders {
    /// Those of a cluster on this machine, and folders with logs that the user named.
    pub(super) fn of(cluster: Option<&Path>, logs: &[PathBuf]) -> Self {
        let own = cluster.map(|cluster| cluster.join("logs"));
        Folders {
            logs: own.into_iter().chain(logs.iter().cloned()).collect(),
            configs: cluster.map(|cluster| cluster.join("conf")),
        }
    }

    /// Directories whose paths may be told.
    pub(super) fn own(&self) -> Vec<String> {
        let cluster = self.configs.iter().filter_map(|configs| configs.parent());
        let all = cluster.chain(self.logs.iter().map(PathBuf::as_path));
        all.map(|path| path.to_string_lossy().into_owned()).collect()
    }
}

/// Packs what can be had.
pub(super) fn pack<W: Write>(bundle: &mut Bundle<W>, folders: &Folders) -> Result<()> {
    if folders.logs.is_empty() {
        bundle.lacks("logs", "no `hanno cluster` is known here; name folders with --logs, or attach `journalctl -u 'hanno-*'`");
    }
    for (number, folder) in (1..).zip(&folders.logs) {
        for (name, path) in files(bundle, folder, "log") {
            let text = end_of(&path, LOG_BYTES_MAX);
            bundle.add(&format!("logs-{number}/{name}"), Kind::Log, text)?;
        }
    }
    if let Some(folder) = &folders.configs {
        for (name, path) in files(bundle, folder, "toml") {
            let text = end_of(&path, CONFIG_BYTES_MAX).and_then(|text| without_secrets(&text));
            bundle.add(&format!("files/{name}"), Kind::Facts, text)?;
        }
    }
    Ok(())
}

/// The files of a folder that are called as those of daemons, in order.
fn files<W: Write>(bundle: &mut Bundle<W>, folder: &Path, ending: &str) -> Vec<(String, PathBuf)> {
    let shown = folder.display().to_string();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            bundle.lacks(&shown, &error.to_string());
            return Vec::new();
        }
    };
    let named = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        is_of_daemon(&name, ending).then(|| (name, entry.path()))
    });
    let mut found: Vec<(String, PathBuf)> = named.collect();
    found.sort();
    if found.len() > FILES_MAX {
        bundle.lacks(&shown, &format!("only the first {FILES_MAX} of {} files", found.len()));
        found.truncate(FILES_MAX);
    }
    found
}

/// Digits of the number of a daemon on its machine: more fit nowhere else, and a longer name does not fit into the archive.
const NUMBER_DIGITS_MAX: usize = 9;

/// True for `datanode-2.log` and `datanode.log`, where `log` is the ending.
fn is_of_daemon(name: &str, ending: &str) -> bool {
    let stem = name.strip_suffix(ending).and_then(|stem| stem.strip_suffix('.'));
    let Some(stem) = stem else { return false };
    let (kind, number) = stem.split_once('-').unwrap_or((stem, "1"));
    let is_kind = DaemonKind::ALL.iter().any(|known| known.name() == kind);
    is_kind
        && (1..=NUMBER_DIGITS_MAX).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The last bytes of a plain file, from the begin of a line.
fn end_of(path: &Path, bytes_max: u64) -> Result<String> {
    let opened = sys::fs::open_regular(path);
    let mut file = opened.with_context(|| format!("cannot read {}", path.display()))?;
    let begin = file.metadata()?.len().saturating_sub(bytes_max);
    file.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match begin {
        0 => text.into_owned(),
        _ => text.split_once('\n').map_or("", |(_, whole)| whole).to_owned(),
    })
}

/// A configuration file without the values that lead to secrets.
fn without_secrets(text: &str) -> Result<String> {
    let mut table: Table = toml::from_str(text).context("not TOML")?;
    leave_out(&mut table);
    Ok(lines(&table))
}

fn leave_out(table: &mut Table) {
    for (key, value) in table.iter_mut() {
        match value {
            Value::Table(inner) if !is_secret_name(key) => leave_out(inner),
            value if is_secret_name(key) => *value = Value::String(LEFT_OUT.to_owned()),
            _ => {}
        }
    }
}

/// As `KEY VALUE`: what is left out of lines by its name would take the rest of them along.
fn lines(table: &Table) -> String {
    table.iter().map(|(key, value)| format!("{key} {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_daemons_are_taken() {
        for name in ["namenode-1.log", "worker-12.log", "jobtracker.log"] {
            assert!(is_of_daemon(name, "log"), "{name}");
        }
        for name in [
            "audit.log",
            "namenode-1.toml",
            "namenode-x.log",
            "namenode-.log",
            "secret",
            "namenode-1log",
            "namenode-1234567890.log",
            "x-namenode-1.log",
        ] {
            assert!(!is_of_daemon(name, "log"), "{name}");
        }
    }

    #[test]
    fn a_log_is_taken_from_the_begin_of_a_line_and_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("namenode-1.log");
        fs::write(&path, "first\nsecond\nthird\n").unwrap();
        assert_eq!(end_of(&path, 100).unwrap(), "first\nsecond\nthird\n");
        assert_eq!(end_of(&path, 8).unwrap(), "third\n");
        let link = directory.path().join("namenode-2.log");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(end_of(&link, 100).is_err());
        assert!(end_of(directory.path(), 100).is_err());
    }

    #[test]
    fn settings_that_lead_to_secrets_are_left_out() {
        let text =
            "bind = \"a:1\"\nsecret_file = \"/s\"\n[tls]\nkey = \"/k\"\ncertificate = \"/c\"\n";
        let left = without_secrets(text).unwrap();
        assert!(left.contains("a:1") && left.contains("/c"), "{left}");
        assert!(!left.contains("/s") && !left.contains("/k"), "{left}");
        assert!(without_secrets("bind").is_err());
    }
}

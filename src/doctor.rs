//! `hanno admin doctor`: what this machine offers to its daemons and to the tasks of jobs, and how to fix what it lacks.
//!
//! Invariants: the worker's own start ([`worker::walls`]) determines the limits for tasks, so the report matches what a worker will do; checks are independent;
//! nothing is left behind in the directories examined.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::output::{EXIT_FAILED, EXIT_OK, human_size, print_json, say};

/// After the help.
pub(crate) const EXAMPLES: &str = "Examples:
  hanno admin doctor --dir /data/1 --dir /data/2
  hanno admin doctor --dir /data/1 --worker-config worker.toml --json

The exit code is 1 if something will not work here, 0 if all does, or does with less.";

/// Open files that a daemon may need: a DataNode serves thousands of connections, and a task may have as many.
const OPEN_FILES_WANTED: u64 = 65_536;
/// Below this even a small cluster fails.
const OPEN_FILES_MIN: u64 = 1024;
/// Free part of a disk, bytes or inodes, below which it is time to act.
const FREE_PERCENT_WANTED: u64 = 5;
/// Created in each examined directory, and removed.
const PROBE_PREFIX: &str = ".hanno-doctor-";

/// Arguments of `hanno admin doctor`.
#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// A data directory of a daemon, or where one is to be; may be repeated
    #[arg(long = "dir", default_value = ".")]
    directories: Vec<PathBuf>,
    /// Configuration of the worker that is to run here [default: a worker's defaults]
    #[arg(long)]
    worker_config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Ok,
    /// It works, with less than could be.
    Warn,
    /// A daemon will not work here.
    Fail,
}

/// The finding of a check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Finding {
    check: String,
    status: Status,
    found: String,
    /// The remedy; empty if all is well.
    remedy: String,
}

impl Finding {
    fn new(check: &str, status: Status, found: impl Into<String>, remedy: &str) -> Finding {
        let remedy = if status == Status::Ok { "" } else { remedy };
        Finding { check: check.to_owned(), status, found: found.into(), remedy: remedy.to_owned() }
    }
}

/// Prints all findings; the exit code says whether something will not work.
pub(crate) fn run(args: &DoctorArgs) -> Result<u8> {
    if args.json {
        crate::output::only_json();
    }
    let findings = findings(&args.directories, args.worker_config.as_deref())?;
    if args.json {
        print_json(&findings)?;
    } else {
        findings.iter().for_each(show);
    }
    let has_failed = findings.iter().any(|finding| finding.status == Status::Fail);
    Ok(if has_failed { EXIT_FAILED } else { EXIT_OK })
}

/// What there is to say of this machine, of these directories, and of a worker with this configuration.
pub(crate) fn findings(
    directories: &[PathBuf],
    worker_config: Option<&Path>,
) -> Result<Vec<Finding>> {
    let mut config: worker::Config = match worker_config {
        Some(path) => daemon::config::load(path, "worker", &[])?,
        None => daemon::config::load_without_file("worker", &[])?,
    };
    let kernel = format!("Linux {}", sys::host::kernel_release());
    let mut findings = vec![Finding::new("kernel", Status::Ok, kernel, "")];
    findings.extend([open_files(), clock()]);
    for directory in directories {
        findings.extend([room(directory, config.disk_reserve_bytes), inodes(directory)]);
        findings.extend(walls(directory, &mut config));
    }
    Ok(findings)
}

fn show(finding: &Finding) {
    let Finding { check, status, found, remedy } = finding;
    let status = match status {
        Status::Ok => "ok",
        Status::Warn => "WARN",
        Status::Fail => "FAIL",
    };
    let remedy = if remedy.is_empty() { String::new() } else { format!("; it takes {remedy}") };
    say!("{status:5}{check:18} {found}{remedy}");
}

fn open_files() -> Finding {
    let limit = sys::process::raise_open_files().limit;
    let status = match limit {
        OPEN_FILES_WANTED.. => Status::Ok,
        OPEN_FILES_MIN.. => Status::Warn,
        _ => Status::Fail,
    };
    let remedy = format!("a hard limit of {OPEN_FILES_WANTED} (ulimit -Hn, LimitNOFILE=)");
    Finding::new("open files", status, format!("{limit} per process"), &remedy)
}

fn clock() -> Finding {
    let remedy = "chrony or another NTP client: a request that is minutes off is refused";
    let (status, found) = match sys::clock::is_synchronised() {
        Ok(true) => (Status::Ok, "synchronised".to_owned()),
        Ok(false) => (Status::Warn, "not synchronised, as far as the kernel knows".to_owned()),
        Err(error) => (Status::Warn, format!("cannot be asked ({error})")),
    };
    Finding::new("clock", status, found, remedy)
}

/// Below `reserve_bytes` a worker there ends tasks, and other daemons stop writing soon.
fn room(directory: &Path, reserve_bytes: u64) -> Finding {
    let path = directory.display();
    match sys::fs::space(directory) {
        Err(error) => unreachable("room", directory, &error),
        Ok(sys::fs::Space { capacity, available }) => {
            let (free, all) = (human_size(available), human_size(capacity));
            let found = format!("{path}: {free} of {all} free");
            let status = judge_room(available, capacity, reserve_bytes);
            Finding::new("room", status, found, "free space there, or a larger disk")
        }
    }
}

fn inodes(directory: &Path) -> Finding {
    let path = directory.display();
    match sys::fs::inodes(directory) {
        Err(error) => unreachable("inodes", directory, &error),
        Ok(sys::fs::Inodes { capacity: 0, .. }) => {
            Finding::new("inodes", Status::Ok, format!("{path}: no limit"), "")
        }
        Ok(sys::fs::Inodes { capacity, available }) => {
            let found = format!("{path}: {available} of {capacity} free");
            let status = judge_room(available, capacity, 1);
            Finding::new("inodes", status, found, "fewer files there, or more inodes (mkfs -N)")
        }
    }
}

fn judge_room(free: u64, all: u64, min: u64) -> Status {
    match free {
        _ if free < min => Status::Fail,
        _ if free < all / 100 * FREE_PERCENT_WANTED => Status::Warn,
        _ => Status::Ok,
    }
}

/// The limits for the tasks of a worker whose data is in a directory: performs that part of the worker's start there.
fn walls(directory: &Path, config: &mut worker::Config) -> Vec<Finding> {
    let probe = directory.join(format!("{PROBE_PREFIX}{}", std::process::id()));
    if let Err(error) = directory.metadata() {
        return vec![unreachable("tasks", directory, &error)];
    }
    config.data.clone_from(&probe);
    let found = worker::walls(config);
    let removed = match std::fs::remove_dir_all(&probe) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    let mut findings = match found {
        Ok(walls) => walls.iter().map(|wall| finding(directory, wall)).collect(),
        Err(error) => {
            let found = format!("{}: {}", directory.display(), protocol::error::chain(&error));
            let remedy = "what the line says: a worker does not start so";
            vec![Finding::new("tasks", Status::Fail, found, remedy)]
        }
    };
    if let Err(error) = removed {
        let found = format!("{} cannot be removed: {error}", probe.display());
        findings.push(Finding::new("tasks", Status::Fail, found, "removing it by hand"));
    }
    findings
}

fn finding(directory: &Path, wall: &worker::Wall) -> Finding {
    let status = if wall.is_held { Status::Ok } else { Status::Warn };
    let found = format!("{}: {}", directory.display(), wall.text);
    Finding::new(&format!("tasks: {}", wall.name), status, found, wall.remedy)
}

fn unreachable(check: &str, directory: &Path, error: &std::io::Error) -> Finding {
    let found = format!("{}: {error}", directory.display());
    Finding::new(check, Status::Fail, found, "a directory that is there and this user can reach")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_judged_by_what_is_left() {
        for (free, all, min, status) in [
            (100, 100, 1, Status::Ok),
            (5, 100, 1, Status::Ok),
            (4, 100, 1, Status::Warn),
            (0, 100, 1, Status::Fail),
            (50, 100, 60, Status::Fail),
        ] {
            assert_eq!(judge_room(free, all, min), status, "{free} of {all}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_fails_and_names_itself() {
        let missing = Path::new("/no/such/directory");
        let mut config = worker::Config::default();
        let mut found = walls(missing, &mut config);
        found.extend([room(missing, 1), inodes(missing)]);
        assert_eq!(found.len(), 3);
        for finding in found {
            assert_eq!(finding.status, Status::Fail, "{finding:?}");
            assert!(finding.found.contains("/no/such/directory"), "{finding:?}");
        }
    }
}

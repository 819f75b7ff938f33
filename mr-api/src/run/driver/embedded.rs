//! This program's own cluster, for when none is configured: started for the job and removed when the job is over.
//!
//! Invariant: the cluster's processes and its directory are gone when [`EmbeddedCluster`] is dropped or Ctrl-C ends the driver.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use mr_model::runner::Scratch;
use mr_model::{Error, Result};

use super::behind::remove;

/// Time for the cluster to end by itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How often the driver checks whether it has ended.
const STOP_PAUSE: Duration = Duration::from_millis(20);
/// How many of the cluster's last lines the driver prints when the cluster does not start.
const LAST_WORDS_LINES: usize = 5;

/// Names the `hanno` that starts the cluster.
const BINARY_VARIABLE: &str = "HANNO_BIN";

/// The running cluster of this process, for Ctrl-C: process and directory.
static RUNNING: Mutex<Option<(u32, PathBuf)>> = Mutex::new(None);

pub(in crate::run) struct EmbeddedCluster {
    pub(in crate::run) namenode: String,
    pub(in crate::run) jobtracker: String,
    child: Child,
    /// Removed when the cluster has ended.
    _directory: Scratch,
}

impl EmbeddedCluster {
    pub(in crate::run) fn start() -> Result<Self> {
        let binary = binary(std::env::var_os(BINARY_VARIABLE))?;
        let directory = Scratch::new("embedded")?;
        let log_path = directory.path().join("cluster.log");
        let log = File::create(&log_path).map_err(Error::file("create", &log_path))?;
        let mut child = Command::new(&binary)
            .args(["cluster", "--datanodes", "1", "--workers", "1", "--data"])
            .arg(directory.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(Error::file("start", &binary))?;
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((child.id(), directory.path().to_owned()));
        let ready = child.stdout.take().and_then(wait_until_ready);
        let mut cluster = EmbeddedCluster {
            namenode: String::new(),
            jobtracker: String::new(),
            child,
            _directory: directory,
        };
        let Some((namenode, jobtracker)) = ready else {
            let reason = match last_words(&log_path) {
                words if words.is_empty() => {
                    format!("{} ended without a word: is it `hanno`?", binary.display())
                }
                words => words,
            };
            return Err(Error::ClusterStart { reason }.into());
        };
        cluster.namenode = namenode;
        cluster.jobtracker = jobtracker;
        Ok(cluster)
    }
}

impl Drop for EmbeddedCluster {
    fn drop(&mut self) {
        end(self.child.id(), || matches!(self.child.try_wait(), Ok(None)));
        // Reaps the process if it had to be killed.
        let _ = self.child.wait();
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The `hanno` that starts the cluster: the one that the variable names, or else the nearest one.
fn binary(named: Option<OsString>) -> Result<PathBuf, Error> {
    match named.map(PathBuf::from) {
        Some(path) if path.is_file() => Ok(path),
        Some(path) => Err(Error::NoBinaryThere { variable: BINARY_VARIABLE, path }),
        None => {
            hanno_candidates().into_iter().find(|path| path.is_file()).ok_or(Error::NoClusterBinary)
        }
    }
}

/// Where this program's executable's `hanno` may be, nearest first.
fn hanno_candidates() -> Vec<PathBuf> {
    let mut candidates = Vec::new();
    if let Ok(executable) = std::env::current_exe() {
        let directories = executable.ancestors().skip(1).take(2);
        candidates.extend(directories.map(|directory| directory.join("hanno")));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    candidates.extend(std::env::split_paths(&path).map(|directory| directory.join("hanno")));
    candidates
}

/// For Ctrl-C: ends the cluster of this process, if there is one.
pub(in crate::run) fn end_all() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((pid, directory)) = running {
        end(pid, || sys::process::is_alive(pid));
        remove(&directory);
    }
}

fn end(pid: u32, mut runs: impl FnMut() -> bool) {
    // It may have ended already.
    let _ = sys::process::terminate(pid);
    let deadline = Instant::now() + STOP_TIMEOUT;
    while runs() {
        if Instant::now() > deadline {
            let _ = sys::process::kill(pid);
            return;
        }
        std::thread::sleep(STOP_PAUSE);
    }
}

/// Reads the addresses from the line `ready namenode=… jobtracker=…`; none if the cluster ended first.
fn wait_until_ready(stdout: impl Read) -> Option<(String, String)> {
    for line in BufReader::new(stdout).lines() {
        if let Some(addresses) = parse_ready(&line.ok()?) {
            return Some(addresses);
        }
    }
    None
}

fn parse_ready(line: &str) -> Option<(String, String)> {
    let mut words = line.split_whitespace();
    if words.next()? != "ready" {
        return None;
    }
    let mut value =
        |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    Some((value("namenode")?, value("jobtracker")?))
}

fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_WORDS_LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_that_is_named_is_the_only_one() {
        let text = binary(Some("/nonexistent".into())).unwrap_err().to_string();
        assert_eq!(text, "HANNO_BIN names /nonexistent, and no file is there");
        let here = std::env::current_exe().unwrap();
        assert_eq!(binary(Some(here.clone().into())).unwrap(), here);
    }

    #[test]
    fn the_ready_line_is_read() {
        let line = "ready namenode=http://127.0.0.1:9870 jobtracker=http://127.0.0.1:9871";
        assert_eq!(
            parse_ready(line),
            Some(("http://127.0.0.1:9870".to_owned(), "http://127.0.0.1:9871".to_owned()))
        );
        assert_eq!(parse_ready("starting"), None);
        assert_eq!(parse_ready("ready soon"), None);
    }
}

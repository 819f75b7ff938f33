//! Configuration of the JobTracker.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::Rules;
use crate::error::Error;

/// Settings of a JobTracker. Every key has a default.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Directory of the journal; made if missing. Default `jobtracker`.
    pub data: PathBuf,
    /// `host:port` to listen on. Default `127.0.0.1:9001`: this machine only.
    pub bind: String,
    /// `http://host:port` of the NameNode. Default `http://127.0.0.1:9870`.
    pub namenode: String,
    /// File that holds the cluster secret; must exist. Default `secret`.
    pub secret_file: PathBuf,
    /// Listen on an address that other machines reach although traffic is not encrypted. Default false.
    pub allow_unencrypted: bool,
    /// Host names under which browsers may reach the pages, besides loopback and the address listened on. Default none.
    pub page_hosts: Vec<String>,
    /// Milliseconds without a sign of a worker after which it gets no new work. Default 5,000: five missed reports.
    pub worker_suspect_ms: u64,
    /// Milliseconds without a sign of a worker after which it is given up. Default 30,000: longer than a pause of the machine, shorter than
    /// running a typical map again is worth waiting for.
    pub worker_dead_ms: u64,
    /// Milliseconds that a worker's poll is held open when there is nothing to do. Default 2,000: well below `worker_suspect_ms`, because an idle
    /// worker is known to live by its polls.
    pub poll_ms: u64,
    /// Milliseconds after a restart in which running jobs start nothing new: workers come back and tell what they still run. Default 2,000.
    pub settle_ms: u64,
    /// Milliseconds that a job which ends waits for its attempts to stop before it removes their files. Default 10,000.
    pub stop_wait_ms: u64,
    /// Finished jobs kept for queries. Default 1,000.
    pub history_job_count_max: usize,
    /// Tasks of finished jobs kept for queries; the oldest jobs go first. Default 500,000: some 200 MB.
    pub history_task_count_max: u64,
    /// Bytes that must be free on the disk of `data` for a job to be taken; running jobs go on. Default 100 MiB: what they still
    /// write into the journal fits many times.
    pub free_space_min: u64,
    /// Milliseconds for which the NameNode may be away before a job that needs it fails. Default 1,800,000: half an hour, time for an operator.
    pub namenode_patience_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            data: PathBuf::from("jobtracker"),
            bind: "127.0.0.1:9001".to_owned(),
            namenode: "http://127.0.0.1:9870".to_owned(),
            secret_file: PathBuf::from("secret"),
            allow_unencrypted: false,
            page_hosts: Vec::new(),
            worker_suspect_ms: 5_000,
            worker_dead_ms: 30_000,
            poll_ms: 2_000,
            settle_ms: 2_000,
            stop_wait_ms: 10_000,
            history_job_count_max: 1_000,
            history_task_count_max: 500_000,
            free_space_min: 100 << 20,
            namenode_patience_ms: 1_800_000,
        }
    }
}

impl Config {
    /// Refuses settings that contradict each other.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.worker_suspect_ms <= self.poll_ms {
            return Err(Error::Setting {
                key: "worker_suspect_ms",
                reason: "it must exceed poll_ms, or idle workers look dead",
            });
        }
        if self.worker_dead_ms <= self.worker_suspect_ms {
            return Err(Error::Setting {
                key: "worker_dead_ms",
                reason: "it must exceed worker_suspect_ms",
            });
        }
        Ok(())
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            suspect_after: Duration::from_millis(self.worker_suspect_ms),
            dead_after: Duration::from_millis(self.worker_dead_ms),
            settle: Duration::from_millis(self.settle_ms),
            stop_wait: Duration::from_millis(self.stop_wait_ms),
            history_job_count_max: self.history_job_count_max,
            history_task_count_max: self.history_task_count_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_refused() {
        assert!(Config::default().check().is_ok());
        assert!(Config { poll_ms: 5_000, ..Config::default() }.check().is_err());
        assert!(Config { worker_dead_ms: 4_000, ..Config::default() }.check().is_err());
    }
}

//! Configuration of the JobTracker.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon::ConfigError;
use daemon::access::Auth;
use daemon::groups::{GroupSource, Groups, Superusers};
use daemon::serve::door::CertificateFiles;
use serde::{Deserialize, Serialize};

use crate::core::Rules;
use crate::core::rights::Administrators;
use crate::core::slots::{DEFAULT_QUEUE, QueueRules};
use crate::core::unfinished::{Bounds, Load};
use crate::error::Error;

/// Settings of a JobTracker. Every key has a default.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Directory of the journal; created if missing. Default `jobtracker`.
    pub data: PathBuf,
    /// Further directories, on other disks, for the log and images of the journal, in `jobtracker-journal` below each. If `data` is lost,
    /// one of them is enough for a start, but without the histories. An event counts when it is synced in all. Default none. If the log of
    /// one fails, the JobTracker stops and is started again without that directory.
    pub log_dirs: Vec<PathBuf>,
    /// Milliseconds after which an image of the journal is written if anything changed. Default 3,600,000.
    pub image_interval_ms: u64,
    /// `host:port` to listen on. Default `127.0.0.1:8088`, the port of YARN's web page: only this machine.
    pub bind: String,
    /// `http://host:port` of the NameNode. Default `http://127.0.0.1:9870`.
    pub namenode: String,
    /// File that holds the cluster secret; must exist. Default `secret`.
    pub secret_file: PathBuf,
    /// Certificate and key of an authority, for other clients than Hanno's: `{ certificate = "FILE", key = "FILE" }`. Absent: one that it makes at each start.
    pub tls: Option<CertificateFiles>,
    /// Serves plain requests of other machines, too, for clients that cannot encrypt. Default false.
    pub allow_unencrypted: bool,
    /// Host names under which browsers may reach the pages, besides loopback and the listening address. Default none.
    pub page_hosts: Vec<String>,
    /// How users of pages and APIs prove their identity: `"token"`, by a session (`hanno admin open`) or a signature, or `"simple"`, by the
    /// name alone. Default `"token"`: with `"simple"`, every user of the machine, and every task of a job, could claim to be anybody.
    pub auth: Auth,
    /// Whether changes and refused views are written to `audit.log` of `data`. Default true.
    pub audit: bool,
    /// Size in bytes at which the audit log is rotated. Default 64 MiB, about 400,000 changes.
    pub audit_bytes_max: u64,
    /// Full audit logs that are kept. Default 8.
    pub audit_files_max: u32,
    /// Connections at once; more wait. Default 20,000: 10,000 workers each hold one open and report over another.
    pub connections_max: usize,
    /// Milliseconds without a sign of life of a worker after which it gets no new work. Default 5,000: five missed reports.
    pub worker_suspect_ms: u64,
    /// Milliseconds without a sign of life of a worker after which it is given up. Default 30,000: longer than a pause of the machine, but
    /// short enough compared with running a typical map again.
    pub worker_dead_ms: u64,
    /// Milliseconds for which a worker's poll is held open when there is nothing to do. Default 2,000: well below `worker_suspect_ms`,
    /// because an idle worker proves by its polls that it is alive.
    pub poll_ms: u64,
    /// Milliseconds after a restart in which running jobs start nothing new: workers return and report what they still run. Default 2,000.
    pub settle_ms: u64,
    /// Milliseconds for which an ending job waits for its attempts to stop before it removes their files. Default 10,000.
    pub stop_wait_ms: u64,
    /// Finished jobs kept for queries. Default 1,000.
    pub history_job_count_max: usize,
    /// Tasks of finished jobs kept for queries; the oldest jobs are removed first. Default 500,000: some 200 MB.
    pub history_task_count_max: u64,
    /// Jobs that are not over, of all users; more are refused. Default 10,000, as many applications as YARN takes.
    pub job_count_max: u64,
    /// The same of one user. Default 5,000: half of them, so that others can submit, too.
    pub user_job_count_max: u64,
    /// Tasks of jobs that are not over, of all users; a job that would exceed it is refused. Default 4,000,000: some 60 MB while they wait, without
    /// their splits, and some 1.6 GB when they are done.
    pub task_count_max: u64,
    /// The same of one user. Default 2,000,000: half of them, and the largest job that there can be.
    pub user_task_count_max: u64,
    /// Histories of finished jobs kept as files below `data`; the oldest are removed first. Default 10,000: some 100 MB of ordinary jobs.
    pub history_file_count_max: usize,
    /// Bytes that must be free on the disk of `data`, and on each of `log_dirs`, to accept a job; running jobs continue. Default 100 MiB:
    /// many times what they still write into the journal.
    pub free_space_min: u64,
    /// Milliseconds for which the NameNode may be unavailable before a job that needs it fails. Default 1,800,000: half an hour, time for
    /// an operator.
    pub namenode_patience_ms: u64,
    /// Milliseconds for which a map waits for a slot on a machine that holds its input, and then again for one in its rack. Default 500:
    /// slots become free that often on a busy worker, and reading a remote block costs hardly more. 0 is no wait; a job can set its own
    /// value with its property `locality_wait`.
    pub locality_wait_ms: u64,
    /// Milliseconds for which a queue may have less than its minimum, or than half of its share. After that, attempts of queues with more
    /// than their share are stopped for it. Default 30,000: most slots become free sooner on their own. 0 is never.
    pub preemption_timeout_ms: u64,
    /// Milliseconds that an attempt runs before it can get a backup for being slow. Default 5,000: shorter tasks are not worth a second
    /// attempt.
    pub speculation_after_ms: u64,
    /// Faults of a worker after which no job uses it; a fault is a job that had to avoid it. Default 4, as in Hadoop; 0 is never.
    pub worker_faults_max: u32,
    /// Milliseconds after which one fault of a worker is forgiven. Default 86,400,000: a day, as in Hadoop.
    pub worker_forgive_ms: u64,
    /// File that names workers to drain, by machine or `host:port`, one a line; read at start and by `hanno mradmin -refreshNodes`. Default
    /// empty: none.
    pub workers_exclude_file: PathBuf,
    /// True if a job that names no queue goes to the queue of its user; false: to the queue `default`. Default true.
    pub queue_per_user: bool,
    /// User who passes every check of rights. Default empty: the user that the JobTracker runs as.
    pub superuser: String,
    /// Group whose members have the superuser's rights. Default `supergroup`, as on the NameNode.
    pub supergroup: String,
    /// The source of users' groups. Default `"system"`.
    pub groups: GroupSource,
    /// Groups of each user with `groups = "static"`. Default none.
    pub static_groups: BTreeMap<String, Vec<String>>,
    /// Milliseconds for which the groups of a user are cached. Default 300,000: reading them costs two small files.
    pub groups_ttl_ms: u64,
    /// Who may view and change all jobs, in Hadoop's form: users with commas, a blank, groups with commas; `*` is everybody. Hadoop's
    /// `mapreduce.cluster.administrators`; read at start and by `hanno mradmin -refreshQueues`. Default empty: only the superuser.
    pub administrators: String,
    /// Who may view and change the jobs of a queue, by queue, in the same form; Hadoop's `acl-administer-jobs`. Read together with
    /// `administrators`. Default none.
    pub queue_administrators: BTreeMap<String, String>,
    /// Queues with rules of their own, by name; read at start and by `hanno mradmin -refreshQueues`. Default none.
    pub queues: BTreeMap<String, QueueRules>,
}

/// Largest weight of a queue; more is a mistake.
const QUEUE_WEIGHT_MAX: u32 = 1_000_000;

impl Default for Config {
    fn default() -> Self {
        Config {
            data: PathBuf::from("jobtracker"),
            log_dirs: Vec::new(),
            image_interval_ms: 3_600_000,
            bind: "127.0.0.1:8088".to_owned(),
            namenode: "http://127.0.0.1:9870".to_owned(),
            secret_file: PathBuf::from("secret"),
            tls: None,
            allow_unencrypted: false,
            page_hosts: Vec::new(),
            auth: Auth::Token,
            audit: true,
            audit_bytes_max: 64 << 20,
            audit_files_max: 8,
            connections_max: 20_000,
            worker_suspect_ms: 5_000,
            worker_dead_ms: 30_000,
            poll_ms: 2_000,
            settle_ms: 2_000,
            stop_wait_ms: 10_000,
            history_job_count_max: 1_000,
            history_task_count_max: 500_000,
            job_count_max: 10_000,
            user_job_count_max: 5_000,
            task_count_max: 4_000_000,
            user_task_count_max: 2_000_000,
            history_file_count_max: 10_000,
            free_space_min: 100 << 20,
            namenode_patience_ms: 1_800_000,
            locality_wait_ms: 500,
            preemption_timeout_ms: 30_000,
            speculation_after_ms: 5_000,
            worker_faults_max: 4,
            worker_forgive_ms: 86_400_000,
            workers_exclude_file: PathBuf::new(),
            queue_per_user: true,
            superuser: String::new(),
            supergroup: "supergroup".to_owned(),
            groups: GroupSource::System,
            static_groups: BTreeMap::new(),
            groups_ttl_ms: 300_000,
            administrators: String::new(),
            queue_administrators: BTreeMap::new(),
            queues: BTreeMap::new(),
        }
    }
}

impl Config {
    /// Reads a configuration file, then the overrides in the environment.
    ///
    /// # Errors
    /// [`ConfigError`] names file, key and remedy.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        daemon::config::load(path, "jobtracker", &["tls"])
    }

    /// Refuses settings that contradict each other.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.worker_suspect_ms <= self.poll_ms {
            return Err(Error::Setting {
                key: "worker_suspect_ms",
                reason: "it must exceed poll_ms, or idle workers look dead",
            });
        }
        if !journal::mirrors_are_sound(&self.log_dirs) {
            let reason = "it names a directory twice, or none";
            return Err(Error::Setting { key: "log_dirs", reason });
        }
        if self.image_interval_ms == 0 {
            return Err(Error::Setting { key: "image_interval_ms", reason: "it must not be 0" });
        }
        if self.audit_bytes_max == 0 {
            return Err(Error::Setting { key: "audit_bytes_max", reason: "it must not be 0" });
        }
        if self.connections_max == 0 {
            return Err(Error::Setting { key: "connections_max", reason: "it must be at least 1" });
        }
        if self.worker_dead_ms <= self.worker_suspect_ms {
            return Err(Error::Setting {
                key: "worker_dead_ms",
                reason: "it must exceed worker_suspect_ms",
            });
        }
        let counts = [
            ("job_count_max", self.job_count_max),
            ("user_job_count_max", self.user_job_count_max),
            ("task_count_max", self.task_count_max),
            ("user_task_count_max", self.user_task_count_max),
        ];
        if let Some((key, _)) = counts.into_iter().find(|(_, most)| *most == 0) {
            return Err(Error::Setting { key, reason: "it must be at least 1" });
        }
        if !self.groups.uses(&self.static_groups) {
            let reason = "it has no effect without `groups = \"static\"`";
            return Err(Error::Setting { key: "static_groups", reason });
        }
        // Otherwise any name is that of a user's queue.
        let is_queue = |name: &String| self.queues.contains_key(name) || name == DEFAULT_QUEUE;
        if !self.queue_per_user && !self.queue_administrators.keys().all(is_queue) {
            let reason = "it names a queue that is not among `queues`";
            return Err(Error::Setting { key: "queue_administrators", reason });
        }
        for (name, queue) in &self.queues {
            let refuse = |reason| Err(Error::Setting { key: "queues", reason });
            if name.is_empty() || name.contains(char::is_whitespace) {
                return refuse("the name of a queue is not empty and holds no white space");
            }
            if queue.weight == 0 || queue.weight > QUEUE_WEIGHT_MAX {
                return refuse("the weight of a queue is between 1 and 1000000");
            }
            if queue.percent_max > 100 || queue.user_percent_max > 100 {
                return refuse("a part of the cluster is at most 100 per cent");
            }
            if queue.slots_max > 0 && queue.slots_min > queue.slots_max {
                return refuse("slots_min of a queue must not exceed its slots_max");
            }
        }
        Ok(())
    }

    /// The administrators.
    pub(crate) fn rights(&self) -> Administrators {
        Administrators::parse(&self.administrators, &self.queue_administrators)
    }

    /// The groups of users, and the superusers.
    pub(crate) fn groups(&self) -> Groups {
        let user = match self.superuser.as_str() {
            "" => sys::host::user_name(),
            user => user.to_owned(),
        };
        let superusers = Superusers { user, group: self.supergroup.clone() };
        let ttl = Duration::from_millis(self.groups_ttl_ms);
        Groups::new(self.groups, &self.static_groups, superusers, ttl)
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            suspect_after: Duration::from_millis(self.worker_suspect_ms),
            dead_after: Duration::from_millis(self.worker_dead_ms),
            settle: Duration::from_millis(self.settle_ms),
            stop_wait: Duration::from_millis(self.stop_wait_ms),
            history_job_count_max: self.history_job_count_max,
            history_task_count_max: self.history_task_count_max,
            bounds: Bounds {
                all: Load { jobs: self.job_count_max, tasks: self.task_count_max },
                user: Load { jobs: self.user_job_count_max, tasks: self.user_task_count_max },
            },
            locality_wait: Duration::from_millis(self.locality_wait_ms),
            preemption_timeout: Duration::from_millis(self.preemption_timeout_ms),
            speculation_after: Duration::from_millis(self.speculation_after_ms),
            worker_faults_max: self.worker_faults_max,
            worker_forgive: Duration::from_millis(self.worker_forgive_ms),
            queue_per_user: self.queue_per_user,
            queues: self.queues.clone(),
            administrators: self.rights(),
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
        let with = |queue: QueueRules| {
            let queues = [("etl".to_owned(), queue)].into();
            Config { queues, ..Config::default() }.check()
        };
        let administrators = |queue_per_user, queue: &str| Config {
            queue_per_user,
            queue_administrators: [(queue.to_owned(), "ann".to_owned())].into(),
            ..Config::default()
        };
        assert!(administrators(true, "eve").check().is_ok());
        assert!(administrators(false, DEFAULT_QUEUE).check().is_ok());
        assert!(administrators(false, "eve").check().is_err());
        let groups = |groups| Config {
            groups,
            static_groups: [("ann".to_owned(), vec!["staff".to_owned()])].into(),
            ..Config::default()
        };
        assert!(groups(GroupSource::Static).check().is_ok());
        assert!(groups(GroupSource::System).check().is_err());
        let queue = QueueRules::default;
        assert!(with(QueueRules { slots_min: 2, slots_max: 2, ..queue() }).is_ok());
        assert!(with(QueueRules { weight: 0, ..queue() }).is_err());
        assert!(with(QueueRules { percent_max: 101, ..queue() }).is_err());
        assert!(with(QueueRules { slots_min: 3, slots_max: 2, ..queue() }).is_err());
    }
}

//! Configuration of a NameNode. Every time is in milliseconds, every size in bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use daemon::ConfigError;
use daemon::groups::GroupSource;
use daemon::serve::door::CertificateFiles;
use protocol::namenode::BLOCK_SIZE_MAX;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Fields that have no value by default.
const OPTIONAL: [&str; 8] = [
    "tls",
    "superuser",
    "advertise",
    "secret_file",
    "hosts_file",
    "hosts_exclude_file",
    "topology_script",
    "topology_table",
];

/// How safe a block must be before it counts as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// On two disks, or on all if there are fewer replicas.
    Disk,
    /// In the memory of the DataNodes, as HDFS by default.
    Memory,
}

/// The configuration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `host:port` to listen on. Default `127.0.0.1:9870`, HDFS's port, not reachable from other machines.
    pub bind: String,
    /// `host:port` that the NameNode announces to others. Default: as `bind`.
    pub advertise: Option<String>,
    /// Certificate and key of an authority, for other clients than Hanno's: `{ certificate = "FILE", key = "FILE" }`. Absent: one that it makes at each start.
    pub tls: Option<CertificateFiles>,
    /// Serves plain requests of other machines, too, for clients that cannot encrypt. Default false.
    pub allow_unencrypted: bool,
    /// Where the metadata is kept. Default `hanno-data/namenode`.
    pub data_dir: PathBuf,
    /// Further directories, on other disks, for log and images of the metadata, in `namenode-journal` below each, and for the secret if it
    /// is in `data_dir`. One of them is enough for a start if `data_dir` is lost. A change is answered once all of them have synced it;
    /// each costs one sync per group of changes. If the log in one of them fails, the NameNode stops and is started again without it.
    /// Default none.
    pub log_dirs: Vec<PathBuf>,
    /// The cluster secret; made at the first start. Default: `secret` in `data_dir`.
    pub secret_file: Option<PathBuf>,
    /// Replicas of a file that does not specify a number. Default 3.
    pub replication: u16,
    /// Bytes per block of a file that does not specify a size. Default 128 MiB.
    pub block_size: u64,
    /// Smallest block size that a client may ask for. Default 1 MiB: smaller blocks cost more metadata than they are worth.
    pub block_size_min: u64,
    /// Whether `close` waits for the disks of two DataNodes. Default `"disk"`.
    pub durability: Durability,
    /// How long a DataNode's heartbeat is held when there are no commands. Default 3000.
    pub heartbeat_ms: u64,
    /// Silence after which a DataNode gets no new blocks. Default 30,000.
    pub stale_ms: u64,
    /// Silence after which a DataNode's replicas are copied again elsewhere. Default 60,000, where HDFS waits 630,000: here blocks with one
    /// replica left are copied first and the rest is limited, so a short absence costs little.
    pub dead_ms: u64,
    /// Silence of a writer after which others may take its files. Default 60,000: writers renew their leases every 20,000. Time in which the NameNode
    /// itself stood still does not count.
    pub lease_soft_ms: u64,
    /// Silence of a writer after which its files are closed. Default 1,200,000.
    pub lease_hard_ms: u64,
    /// Least time between two attempts at a block recovery or a cut. Default 10,000. One of which nothing is heard is given up after eight times this and the
    /// time that its bytes take, a later one after up to 64 times.
    pub recovery_retry_ms: u64,
    /// How long the recovery of a file of whose last block nobody has a byte waits for DataNodes that are away: what was only flushed is nowhere else.
    /// Default 86,400,000, a day: networks and machines are repaired sooner, and a file that nobody wrote to ends at last.
    pub recovery_wait_max_ms: u64,
    /// Copies that one DataNode sends at once. Default 4, which leaves disks and links to users.
    pub replication_streams: u32,
    /// Time after which a copy is ordered again. Default 120,000: a block of 128 MiB on a busy link takes less.
    pub replication_timeout_ms: u64,
    /// How long to wait for a replica that was acknowledged before it was on disk, until another one is made. Default 30,000: a busy disk
    /// syncs a block of 128 MiB in that time.
    pub arrival_timeout_ms: u64,
    /// Time after which an unanswered deletion is ordered again. Default 30,000.
    pub delete_retry_ms: u64,
    /// How long a replica of an unknown block is kept. Default 60,000.
    pub unknown_grace_ms: u64,
    /// Most entries in a page of a listing, at most 1000. Default 1000.
    pub list_limit: u32,
    /// Share of the blocks that must have a replica before changes are allowed. Default 0.999.
    pub safe_mode_threshold: f64,
    /// DataNodes that must be available before changes are allowed. Default 1.
    pub safe_mode_datanodes: usize,
    /// How long safe mode lasts beyond the threshold. Default 0, where HDFS waits 30,000: replicas that report late only cause copies that
    /// are trimmed again, while the wait would be the longest part of a restart.
    pub safe_mode_extension_ms: u64,
    /// How long deleted files stay in the trash; 0 turns it off. Default 86,400,000 (a day). HDFS has no trash by default, but most harmful
    /// deletions are noticed within a day, and `-skipTrash` deletes at once.
    pub trash_interval_ms: u64,
    /// Time between checkpoints of the trash; a deleted file can stay this much longer than the interval. Default 3,600,000.
    pub trash_checkpoint_ms: u64,
    /// File that names the DataNodes that may register, as `dfs.hosts`; read at the start and by `-refreshNodes`. It can also be the JSON
    /// list of HDFS's `CombinedHostFileManager`, which also names the nodes that are drained or in maintenance. Default: everybody.
    pub hosts_file: Option<PathBuf>,
    /// File that names the DataNodes to be drained, as `dfs.hosts.exclude`; read at the same times. Default: nobody.
    pub hosts_exclude_file: Option<PathBuf>,
    /// Replicas of a block that must be in service before a DataNode with another one enters maintenance, as
    /// `dfs.namenode.maintenance.replication.min`. Default 1, as HDFS: every file can be read meanwhile.
    pub maintenance_replication_min: u16,
    /// Program that is called with the name of a machine and prints its rack, as `net.topology.script.file.name`. Default: each DataNode
    /// reports its own rack.
    pub topology_script: Option<PathBuf>,
    /// Table `machine /rack` instead of a program, as `net.topology.table.file.name`.
    pub topology_table: Option<PathBuf>,
    /// Bytes that must be free on the disk of `data_dir` and on each of `log_dirs`; below this the NameNode enters safe mode by itself.
    /// Default 100 MiB, as `dfs.namenode.resource.du.reserved`: room for a minute of edits and a checkpoint.
    pub free_space_min: u64,
    /// How often free space is checked. Default 1000, where HDFS checks every 5000: a busy journal grows by several MB in a second.
    pub resource_check_ms: u64,
    /// Changed rows at which a checkpoint step is written. Default 10,000: a few milliseconds of the host's time.
    pub checkpoint_rows: usize,
    /// Time after which a checkpoint step is written if anything changed. Default 2000.
    pub checkpoint_ms: u64,
    /// Time after which an image is written if anything changed, as `dfs.namenode.checkpoint.period`. Default 3,600,000: an image costs as
    /// much as all rows.
    pub image_interval_ms: u64,
    /// Whether permission bits are enforced. Default true. Even if false, only owners can change permissions and owners of files.
    pub permissions: bool,
    /// User who passes every check and can do what only an administrator may. Default: the user that the NameNode runs as.
    pub superuser: Option<String>,
    /// Group whose members have the superuser's rights; group of a new root. Default `supergroup`.
    pub supergroup: String,
    /// Where the groups of users come from. Default `"system"`.
    pub groups: GroupSource,
    /// Groups of each user with `groups = "static"`. Default none.
    pub static_groups: BTreeMap<String, Vec<String>>,
    /// How long the groups of a user are remembered. Default 300,000, as HDFS: reading them costs two small files.
    pub groups_ttl_ms: u64,
    /// Whether calls are logged in `audit.log` of `data_dir`, in HDFS's format. Default true.
    pub audit: bool,
    /// Bytes at which the audit log is rotated. Default 64 MiB, about 300,000 calls.
    pub audit_bytes_max: u64,
    /// Full audit logs that are kept. Default 8.
    pub audit_files_max: u32,
    /// Most files and directories in one directory. Default 1,048,576, as HDFS.
    pub directory_items_max: usize,
    /// Most blocks of a file. Default 10,000, as in HDFS: 1.2 TiB in blocks of 128 MiB. One answer names all blocks of a file, so it bounds what a reader costs.
    pub file_blocks_max: usize,
    /// WebHDFS: who may call it, and as whom.
    pub webhdfs: webhdfs::Config,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            bind: "127.0.0.1:9870".to_owned(),
            advertise: None,
            tls: None,
            allow_unencrypted: false,
            data_dir: PathBuf::from("hanno-data/namenode"),
            log_dirs: Vec::new(),
            secret_file: None,
            replication: 3,
            block_size: 128 << 20,
            block_size_min: 1 << 20,
            durability: Durability::Disk,
            heartbeat_ms: 3000,
            stale_ms: 30_000,
            dead_ms: 60_000,
            lease_soft_ms: 60_000,
            lease_hard_ms: 1_200_000,
            recovery_retry_ms: 10_000,
            recovery_wait_max_ms: 86_400_000,
            replication_streams: 4,
            replication_timeout_ms: 120_000,
            arrival_timeout_ms: 30_000,
            delete_retry_ms: 30_000,
            unknown_grace_ms: 60_000,
            list_limit: protocol::namenode::LIST_ENTRIES_MAX,
            safe_mode_threshold: 0.999,
            safe_mode_datanodes: 1,
            safe_mode_extension_ms: 0,
            trash_interval_ms: 86_400_000,
            trash_checkpoint_ms: 3_600_000,
            hosts_file: None,
            hosts_exclude_file: None,
            maintenance_replication_min: 1,
            topology_script: None,
            topology_table: None,
            free_space_min: 100 << 20,
            resource_check_ms: 1000,
            checkpoint_rows: 10_000,
            checkpoint_ms: 2000,
            image_interval_ms: 3_600_000,
            permissions: true,
            superuser: None,
            supergroup: "supergroup".to_owned(),
            groups: GroupSource::System,
            static_groups: BTreeMap::new(),
            groups_ttl_ms: 300_000,
            audit: true,
            audit_bytes_max: 64 << 20,
            audit_files_max: 8,
            directory_items_max: 1 << 20,
            file_blocks_max: 10_000,
            webhdfs: webhdfs::Config::default(),
        }
    }
}

impl Config {
    /// Reads a TOML file; variables `HANNO_NAMENODE_…` override it.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        daemon::config::load(path, "namenode", &OPTIONAL)
    }

    /// Where the cluster secret is.
    pub fn secret_path(&self) -> PathBuf {
        self.secret_file.clone().unwrap_or_else(|| self.data_dir.join("secret"))
    }

    /// The address that the NameNode announces to others.
    pub fn advertised(&self) -> &str {
        self.advertise.as_deref().unwrap_or(&self.bind)
    }

    /// The user who passes every check.
    pub fn superuser(&self) -> String {
        self.superuser.clone().unwrap_or_else(sys::host::user_name)
    }

    /// How often the host ticks: four times per heartbeat, but no more often than every 20 ms and no less often than every half second.
    pub fn tick_ms(&self) -> u64 {
        (self.heartbeat_ms / 4).clamp(20, 500)
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// [`Error::Config`] names the first key.
    pub fn check(&self) -> Result<(), Error> {
        let rules = [
            (self.replication > 0 && self.replication <= 512, "replication", "must be 1 to 512"),
            (self.block_size_min > 0, "block_size_min", "must not be 0"),
            (self.block_size >= self.block_size_min, "block_size", "is below block_size_min"),
            (self.block_size <= BLOCK_SIZE_MAX, "block_size", "is over 1 TiB"),
            (self.heartbeat_ms > 0, "heartbeat_ms", "must not be 0"),
            (self.stale_ms >= self.heartbeat_ms, "stale_ms", "is below heartbeat_ms"),
            (self.dead_ms >= self.stale_ms, "dead_ms", "is below stale_ms"),
            (self.lease_hard_ms >= self.lease_soft_ms, "lease_hard_ms", "is below lease_soft_ms"),
            (self.replication_streams > 0, "replication_streams", "must not be 0"),
            (self.list_limit > 0, "list_limit", "must not be 0"),
            (self.superuser.as_deref() != Some(""), "superuser", "must be the name of a user"),
            (
                (0.0..=1.0).contains(&self.safe_mode_threshold),
                "safe_mode_threshold",
                "must be 0 to 1",
            ),
            (self.trash_checkpoint_ms > 0, "trash_checkpoint_ms", "must not be 0"),
            (
                journal::mirrors_are_sound(&self.log_dirs),
                "log_dirs",
                "names a directory twice, or none",
            ),
            (
                self.groups.uses(&self.static_groups),
                "static_groups",
                "has no effect without `groups = \"static\"`",
            ),
            (self.resource_check_ms > 0, "resource_check_ms", "must not be 0"),
            (self.audit_bytes_max > 0, "audit_bytes_max", "must not be 0"),
            (self.directory_items_max > 0, "directory_items_max", "must not be 0"),
            (self.file_blocks_max > 0, "file_blocks_max", "must not be 0"),
            (self.checkpoint_rows > 0, "checkpoint_rows", "must not be 0"),
            (self.image_interval_ms > 0, "image_interval_ms", "must not be 0"),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            None => Ok(()),
            Some((_, key, problem)) => Err(Error::Config { key, problem }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_hold_and_mistakes_are_named() {
        Config::default().check().unwrap();
        let bad = Config { dead_ms: 10, ..Config::default() };
        assert_eq!(bad.check().unwrap_err().to_string(), "config: dead_ms is below stale_ms");
    }

    #[test]
    fn a_file_overrides_single_keys() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("namenode.toml");
        std::fs::write(&path, "durability = \"memory\"\nsecret_file = \"/s\"\ndead_ms = 99000\n")
            .unwrap();
        let config = Config::load(&path).unwrap();
        assert_eq!(config.durability, Durability::Memory);
        assert_eq!(config.secret_path(), Path::new("/s"));
        assert_eq!(config.dead_ms, 99_000);
        assert_eq!(config.replication, 3);
        std::fs::write(&path, "replicatoin = 2").unwrap();
        let error = Config::load(&path).unwrap_err().to_string();
        assert!(error.contains("did you mean `replication`?"), "{error}");
    }
}

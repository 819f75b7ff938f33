//! Configuration of a DataNode.

use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon::serve::door::CertificateFiles;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Every key except `namenode`, `secret_file` and `data_directories` has a default. Times end in their unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `http://host:port` of the NameNode. No default.
    pub namenode: String,
    /// File with the cluster secret. No default.
    pub secret_file: PathBuf,
    /// One directory per disk. No default.
    pub data_directories: Vec<PathBuf>,
    /// `host:port` of the block transfer service; port 0 for any. Default `127.0.0.1:0`: this machine only, any port.
    pub bind: String,
    /// `host:port` that others use instead of `bind`, if it differs.
    pub advertise: Option<String>,
    /// `host:port` of the HTTP service (health); port 0 for any. Default `127.0.0.1:0`: this machine only, any port.
    pub http_bind: String,
    /// `host:port` that others use instead of `http_bind`, if it differs.
    pub http_advertise: Option<String>,
    /// Certificate and key of an authority, for other clients than Hanno's: `{ certificate = "FILE", key = "FILE" }`. Absent: one that it makes at each start.
    pub tls: Option<CertificateFiles>,
    /// Serves plain requests of other machines, too, for clients that cannot encrypt. Default false.
    pub allow_unencrypted: bool,
    /// Name of this machine, compared with clients' and workers'. Absent: the network name.
    pub host: Option<String>,
    /// Where it stands, `/rack`. Default `/default-rack`.
    pub rack: String,
    /// Offer an abstract Unix socket to clients on this machine: they map replicas instead of copying them. Default true.
    pub local_socket: bool,
    /// Bytes to leave free in each data directory for other programs. Absent: 1 GiB, or 2 % of the disk if that is more, but at most a tenth of it. New
    /// replicas are refused beyond that; those being written exceed it by at most 4 MiB each.
    pub reserved_bytes: Option<u64>,
    /// Operations at once: one thread and one packet buffer (1 MiB) each; a write of large packets one more thread and two more buffers.
    /// No more than a sixteenth of the descriptors that this process may have. Default 256: at most 768 MiB of buffers.
    /// One user alone gets three quarters.
    pub transfers_max: usize,
    /// Connections at once, idle ones included: one thread each. No more than an eighth of the descriptors that this process may have.
    /// Default 1,024: four for each operation.
    pub connections_max: usize,
    /// Milliseconds to establish a connection to another DataNode. 5 s: they are on the local network.
    pub connect_timeout_ms: u64,
    /// Milliseconds for a peer to make progress, as HDFS's 60 s; also how long idle connections stay open.
    pub io_timeout_ms: u64,
    /// Milliseconds that a writer may be silent between packets. 10 minutes: writers compute; a dead one ends its connection.
    pub writer_idle_ms: u64,
    /// Bytes written to a replica after which it is synced in the background, to keep the last sync short. Default 16 MiB.
    pub sync_interval_bytes: u64,
    /// Write all replicas but the one nearest to its writer bypassing the page cache, which then keeps what is read. Turn it off where memory is plentiful and
    /// the disks are slow. Default true.
    pub bypass_cache: bool,
    /// Replicas of at most so many bytes are appended to files that many of them share: one sync makes all of them durable. Default
    /// 65,536, which covers most files of a source tree; what is larger costs more to write than to sync. 0: every replica has files of its own.
    pub small_replica_bytes_max: u32,
    /// Data directories that may fail before the DataNode gives up. Absent: all but one, since the others still hold good replicas.
    pub failed_volumes_tolerated: Option<usize>,
    /// Milliseconds between checks of every data directory: failed ones go out of service, replaced ones return. 5 s: a check writes and syncs a few bytes.
    pub volume_check_ms: u64,
    /// Most bytes per second that this DataNode sends for the balancer. 100 MiB/s, as HDFS; the NameNode can change it.
    pub balancer_bandwidth_bytes: u64,
    /// Milliseconds that deleted replicas stay in the trash: time to notice a mistaken mass deletion. Default 60,000.
    pub trash_grace_ms: u64,
    /// Seconds within which the scanner verifies every replica once. Three weeks, as HDFS.
    pub scan_period_s: u64,
    /// Seconds between comparisons of this DataNode's table with its disks: they find files that somebody deleted or brought back. 6 hours, as HDFS, because a
    /// comparison lists every directory; 0 for never.
    pub compare_period_s: u64,
    /// Most bytes per second that the scanner reads. 8 MiB/s: negligible beside real work.
    pub scan_rate_bytes: u64,
    /// WebHDFS: who may call it, and as whom.
    pub webhdfs: webhdfs::Config,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            namenode: String::new(),
            secret_file: PathBuf::new(),
            data_directories: Vec::new(),
            bind: "127.0.0.1:0".to_owned(),
            advertise: None,
            http_bind: "127.0.0.1:0".to_owned(),
            http_advertise: None,
            tls: None,
            allow_unencrypted: false,
            host: None,
            rack: "/default-rack".to_owned(),
            local_socket: true,
            reserved_bytes: None,
            transfers_max: 256,
            connections_max: 1024,
            connect_timeout_ms: 5000,
            io_timeout_ms: 60_000,
            writer_idle_ms: 600_000,
            sync_interval_bytes: 16 << 20,
            bypass_cache: true,
            small_replica_bytes_max: 64 << 10,
            failed_volumes_tolerated: None,
            volume_check_ms: 5000,
            balancer_bandwidth_bytes: 100 << 20,
            trash_grace_ms: 60_000,
            scan_period_s: 21 * 24 * 3600,
            compare_period_s: 6 * 3600,
            scan_rate_bytes: 8 << 20,
            webhdfs: webhdfs::Config::default(),
        }
    }
}

impl Config {
    /// Keys that may be absent and have no default.
    pub const OPTIONAL: [&'static str; 6] = [
        "tls",
        "advertise",
        "http_advertise",
        "host",
        "reserved_bytes",
        "failed_volumes_tolerated",
    ];

    /// Checks what the types cannot express.
    ///
    /// # Errors
    /// [`Error::Config`] names the key.
    pub fn check(&self) -> Result<(), Error> {
        let fail = |key, reason| Err(Error::Config { key, reason });
        if self.namenode.is_empty() {
            return fail("namenode", "is missing: the address http://host:port of the NameNode");
        }
        if self.secret_file.as_os_str().is_empty() {
            return fail("secret_file", "is missing: the file with the cluster secret");
        }
        if self.data_directories.is_empty() {
            return fail("data_directories", "is missing: at least one directory for blocks");
        }
        self.check_directories()?;
        let is_name = |name: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
            !name.is_empty() && name != "." && name != ".." && name.chars().all(allowed)
        };
        let levels = self.rack.strip_prefix('/').map(|levels| levels.split('/'));
        if !levels.is_some_and(|mut levels| levels.all(is_name)) {
            return fail(
                "rack",
                "must be `/` and names of letters, digits, `-`, `_`, `.` and `:`, as in `/room/rack`",
            );
        }
        if self.host.as_deref().is_some_and(|host| !is_name(host)) {
            return fail("host", "must be the name of this machine");
        }
        if self.transfers_max == 0 || self.connections_max < self.transfers_max {
            return fail(
                "connections_max",
                "must be at least `transfers_max`, which must not be 0",
            );
        }
        if self.volume_check_ms == 0 || self.balancer_bandwidth_bytes == 0 {
            return fail("volume_check_ms", "and `balancer_bandwidth_bytes` must not be 0");
        }
        if self.failed_volumes_tolerated.is_some_and(|count| count >= self.data_directories.len()) {
            return fail(
                "failed_volumes_tolerated",
                "must be below the number of data directories",
            );
        }
        if self.io_timeout_ms == 0 || self.connect_timeout_ms == 0 || self.writer_idle_ms == 0 {
            return fail("io_timeout_ms", "and the other timeouts must not be 0");
        }
        Ok(())
    }

    fn check_directories(&self) -> Result<(), Error> {
        let name = |at: usize| self.data_directories[at].display().to_string();
        let mut found: Vec<PathBuf> = Vec::with_capacity(self.data_directories.len());
        for (at, directory) in self.data_directories.iter().enumerate() {
            let directory = resolved(directory);
            if let Some(first) = found.iter().position(|other| *other == directory) {
                return Err(Error::SameDirectory { first: name(first), again: name(at) });
            }
            found.push(directory);
        }
        Ok(())
    }

    pub(crate) fn io_timeout(&self) -> Duration {
        Duration::from_millis(self.io_timeout_ms)
    }
}

/// A path without links and dots, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        let start = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        if let (Ok(real), Ok(rest)) = (start.canonicalize(), path.strip_prefix(above)) {
            return real.join(rest);
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        let good = Config {
            namenode: "http://localhost:1".to_owned(),
            secret_file: "secret".into(),
            data_directories: vec!["data".into()],
            ..Config::default()
        };
        good.check().unwrap();
        for (bad, key) in [
            (Config { namenode: String::new(), ..good.clone() }, "namenode"),
            (Config { data_directories: Vec::new(), ..good.clone() }, "data_directories"),
            (Config { rack: "r".to_owned(), ..good.clone() }, "rack"),
            (Config { rack: "/a/".to_owned(), ..good.clone() }, "rack"),
            (Config { rack: "/a b/../c".to_owned(), ..good.clone() }, "rack"),
            (Config { host: Some(String::new()), ..good.clone() }, "host"),
            (Config { connections_max: 1, ..good.clone() }, "connections_max"),
            (Config { writer_idle_ms: 0, ..good.clone() }, "io_timeout_ms"),
        ] {
            assert!(bad.check().unwrap_err().to_string().contains(key));
        }
    }

    #[test]
    fn a_directory_is_named_once() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, place.path().join("link")).unwrap();
        let checked = |names: [&str; 2]| {
            let directories = names.map(|name| place.path().join(name)).to_vec();
            let config = Config { data_directories: directories, ..Config::default() };
            config.check_directories().map_err(|error| error.to_string())
        };
        for same in [["dd", "dd"], ["dd", "./dd/"], ["real", "link"], ["real/a", "link/a"]] {
            let text = checked(same).unwrap_err();
            assert!(text.contains("names one directory twice"), "{text}");
        }
        assert_eq!(checked(["dd", "real"]), Ok(()));
        assert_eq!(checked(["real", "real/a"]), Ok(()));
    }
}

//! A real cluster: `hanno cluster` as a child process on a temporary directory, with tight timers.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use client::ClientConfig;
use client::job::JobClient;

use super::command::{Caller, Outcome};
use super::wait;

/// How long a cluster may take to get ready. Generous: several clusters may start at once on two cores.
const READY_MAX: Duration = Duration::from_secs(60);

/// Who runs the daemons of a cluster and, unless a test says otherwise, its commands.
pub(crate) const SUPERUSER: &str = "tester";

/// What kind of cluster.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) datanodes: u32,
    /// Data directories of each.
    pub(crate) disks: u32,
    pub(crate) workers: u32,
    pub(crate) slots: u32,
    /// Variables for the daemons, e.g. `("HANNO_NAMENODE_DEAD_MS", "2000")`.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Daemons whose data directory is a file system of its own, and its bytes; see [`super::mount`].
    pub(crate) mounts: Vec<(&'static str, u64)>,
    /// Files that fit into each of these; no limit of its own if 0.
    pub(crate) mount_inodes: u32,
    /// Daemons may not pass by the rights of files, even if they are root's.
    pub(crate) unprivileged: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            datanodes: 3,
            disks: 1,
            workers: 2,
            slots: 1,
            variables: Vec::new(),
            mounts: Vec::new(),
            mount_inodes: 0,
            unprivileged: false,
        }
    }
}

impl Options {
    /// The names of all daemons.
    pub(crate) fn daemons(&self) -> Vec<String> {
        let kinds = [
            ("namenode", 1),
            ("datanode", self.datanodes),
            ("jobtracker", 1),
            ("worker", self.workers),
        ];
        let names = |(kind, count)| (1..=count).map(move |number| format!("{kind}-{number}"));
        kinds.into_iter().flat_map(names).collect()
    }

    /// Timers for tests that kill: heartbeat 200 ms, stale 1 s, dead 2 s; small blocks allowed.
    pub(crate) fn tight() -> Self {
        let pairs = [
            ("HANNO_NAMENODE_HEARTBEAT_MS", "200"),
            ("HANNO_NAMENODE_STALE_MS", "1000"),
            ("HANNO_NAMENODE_DEAD_MS", "2000"),
            ("HANNO_NAMENODE_BLOCK_SIZE_MIN", "1024"),
            ("HANNO_JOBTRACKER_POLL_MS", "400"),
            ("HANNO_JOBTRACKER_WORKER_SUSPECT_MS", "1000"),
            ("HANNO_JOBTRACKER_WORKER_DEAD_MS", "2000"),
        ];
        Options {
            variables: pairs.map(|(name, value)| (name, value.to_owned())).to_vec(),
            ..Options::default()
        }
    }
}

impl Options {
    /// Every replica has files of its own, however small it is: for tests that look at them.
    pub(crate) fn with_files(mut self) -> Self {
        self.variables.push(("HANNO_DATANODE_SMALL_REPLICA_BYTES_MAX", "0".to_owned()));
        self
    }
}

/// A running cluster; stopped and its directory removed when dropped (kept if the test panics, and named).
pub(crate) struct Cluster {
    pub(crate) child: Child,
    pub(crate) directory: PathBuf,
    pub(crate) namenode: String,
    pub(crate) jobtracker: String,
    pub(crate) options: Options,
    /// Its ports, at every start.
    ports: Ports,
}

impl Cluster {
    pub(crate) fn start(options: Options) -> Self {
        let directory = fresh_directory();
        Self::start_in(directory, options)
    }

    /// Starts on a directory that may hold an earlier cluster.
    pub(crate) fn start_in(directory: PathBuf, options: Options) -> Self {
        let ports = Ports::take();
        let (child, namenode, jobtracker) = spawn(&directory, &options, ports.base);
        Cluster { child, directory, namenode, jobtracker, options, ports }
    }

    /// Stops everything with SIGTERM and starts again on the same data.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.begin();
    }

    /// Starts again what has ended, on the same data, at the same addresses.
    pub(crate) fn begin(&mut self) {
        let (child, namenode, jobtracker) = spawn(&self.directory, &self.options, self.ports.base);
        (self.child, self.namenode, self.jobtracker) = (child, namenode, jobtracker);
    }

    /// Stops everything; the command must exit 0.
    pub(crate) fn stop(&mut self) {
        sys::process::terminate(self.child.id()).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "hanno cluster ended with {status}");
    }

    /// Runs `hanno ARGS` against this cluster.
    pub(crate) fn hanno<S: AsRef<str>>(&self, args: &[S]) -> Outcome {
        Outcome::of(self.command(&hanno_binary(), args))
    }

    /// Runs `hanno dfs ARGS`.
    pub(crate) fn dfs<S: AsRef<str>>(&self, args: &[S]) -> Outcome {
        Outcome::of(self.caller().dfs(args))
    }

    /// Runs an example job against this cluster.
    pub(crate) fn example<S: AsRef<str>>(&self, name: &str, args: &[S]) -> Outcome {
        Outcome::of(self.caller().example(name, args))
    }

    /// Who runs commands against this cluster, also while somebody else restarts it.
    pub(crate) fn caller(&self) -> Caller {
        Caller { namenode: self.namenode.clone(), jobtracker: self.jobtracker.clone() }
    }

    /// `put - PATH` that writes `begin`, calls `meanwhile`, then writes `rest`.
    pub(crate) fn put_with_a_pause(
        &self,
        path: &str,
        (begin, rest): (&[u8], &[u8]),
        meanwhile: impl FnOnce(),
    ) -> Outcome {
        let mut command = self.command(&hanno_binary(), &["dfs", "-put", "-", path]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // A put that was refused or has given up does not read on.
        let _ = input.write_all(begin).and_then(|()| input.flush());
        meanwhile();
        let _ = input.write_all(rest);
        drop(input);
        Outcome::from(child.wait_with_output().unwrap())
    }

    /// True if a replica is being written on this DataNode.
    pub(crate) fn is_receiving(&self, datanode: &str) -> bool {
        let growing = fs::read_dir(self.seen_by_daemons(datanode).join("rbw"));
        growing.is_ok_and(|mut replicas| replicas.next().is_some())
    }

    /// A command with this cluster's addresses in its environment.
    pub(crate) fn command<S: AsRef<str>>(&self, binary: &Path, args: &[S]) -> Command {
        self.caller().command(binary, args)
    }

    /// Signs a user in at the pages of the `JobTracker` or the `NameNode`; the header by which a browser says so.
    pub(crate) fn session(&self, daemon: &str, user: &str) -> String {
        let links = self.hanno(&["admin", "open", "--user", user]).ok().stdout_text();
        let link = links.lines().find_map(|line| line.strip_prefix(daemon)).unwrap().trim();
        let answer = super::http::request("GET", link, b"").is(303);
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap();
        format!("Cookie: {cookie}\r\n")
    }

    /// A search path that begins with links of Hadoop's names, made in `directory`, and the folder of the binaries.
    pub(crate) fn path_with_links(&self, directory: &Path) -> String {
        let programs = directory.join("bin");
        fs::create_dir(&programs).unwrap();
        self.hanno(&["install-links", programs.to_str().unwrap()]).ok();
        let binary = hanno_binary();
        let built = binary.parent().expect("the build directory");
        let others = std::env::var("PATH").unwrap_or_default();
        format!("{}:{}:{others}", programs.display(), built.display())
    }

    /// A client of its JobTracker, of the superuser.
    pub(crate) fn jobs(&self) -> JobClient {
        let config = ClientConfig {
            user: Some(SUPERUSER.to_owned()),
            jobtracker: Some(self.jobtracker.clone()),
            secret_file: Some(self.directory.join("secret")),
            ..ClientConfig::default()
        };
        JobClient::connect(&config).unwrap()
    }

    /// A directory that tasks may write to.
    pub(crate) fn marks(&self) -> PathBuf {
        marks(&self.directory)
    }

    /// A new directory in [`Cluster::marks`].
    pub(crate) fn marks_of(&self, name: &str) -> PathBuf {
        let marks = self.marks().join(name);
        fs::create_dir(&marks).unwrap();
        open_to_all(&marks);
        marks
    }

    /// Process id of a daemon, e.g. `datanode-2`.
    pub(crate) fn pid(&self, daemon: &str) -> Option<u32> {
        let path = self.directory.join("pids").join(format!("{daemon}.pid"));
        fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    /// The data directory of a daemon as that daemon sees it.
    pub(crate) fn seen_by_daemons(&self, daemon: &str) -> PathBuf {
        let inside = self.directory.join(daemon);
        if self.options.mounts.is_empty() && !self.options.unprivileged {
            return inside;
        }
        let root = PathBuf::from(format!("/proc/{}/root", self.child.id()));
        root.join(inside.strip_prefix("/").unwrap_or(&inside))
    }

    /// Kills a daemon with SIGKILL; the cluster restarts it.
    pub(crate) fn kill(&self, daemon: &str) {
        let settings = self.directory.join(format!("conf/{daemon}.toml"));
        assert!(settings.is_file(), "no daemon is called {daemon}");
        if let Some(pid) = self.pid(daemon) {
            sys::process::kill(pid).unwrap();
        }
    }

    /// Waits until `condition` holds.
    pub(crate) fn wait_until(
        &self,
        what: &str,
        seconds: u64,
        mut condition: impl FnMut(&Self) -> bool,
    ) {
        let held = wait::until(Duration::from_secs(seconds), || condition(self));
        assert!(held, "not within {seconds} s: {what} ({})", self.directory.display());
    }

    /// Waits until every block under `/` has its replicas and none is corrupt.
    pub(crate) fn wait_healthy(&self, seconds: u64) {
        self.wait_until("fsck is healthy with full replication", seconds, Cluster::is_healthy);
    }

    /// True if every block under `/` has its replicas and none is corrupt.
    pub(crate) fn is_healthy(&self) -> bool {
        let report = self.hanno(&["fsck", "/"]);
        let text = report.stdout_text();
        text.contains("is HEALTHY")
            && text.contains("Under-replicated blocks:\t0")
            && text.contains("Corrupt blocks:\t\t0")
            && text.contains("Over-replicated blocks:\t0")
    }

    /// Block files of finalized replicas (not their meta files), by DataNode number.
    pub(crate) fn replicas(&self) -> Vec<(u32, PathBuf)> {
        let mut found = Vec::new();
        for number in 1..=self.options.datanodes {
            let first = format!("datanode-{number}");
            let more = (2..=self.options.disks).map(|disk| format!("{first}-disk-{disk}"));
            let mut folders: Vec<PathBuf> = std::iter::once(first.clone())
                .chain(more)
                .map(|name| self.directory.join(name))
                .collect();
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                    let (path, name) =
                        (entry.path(), entry.file_name().to_string_lossy().into_owned());
                    if path.is_dir() {
                        folders.push(path);
                    } else if name.starts_with("blk_")
                        && !name.ends_with(".meta")
                        && is_finalized(&path)
                    {
                        found.push((number, path));
                    }
                }
            }
        }
        found
    }
}

fn is_finalized(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "finalized")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = sys::process::terminate(self.child.id());
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("the cluster's directory is kept: {}", self.directory.display());
        } else {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Starts everything and waits until it is ready; the addresses of NameNode and JobTracker.
fn spawn(directory: &Path, options: &Options, port_base: u32) -> (Child, String, String) {
    let mut command = super::mount::command(&hanno_binary(), directory, options);
    command.arg("cluster").arg("--data").arg(directory).stdin(Stdio::null()).stdout(Stdio::piped());
    command.args([
        "--datanodes",
        &options.datanodes.to_string(),
        "--disks",
        &options.disks.to_string(),
        "--workers",
        &options.workers.to_string(),
    ]);
    command.args(["--slots", &options.slots.to_string(), "--port-base", &port_base.to_string()]);
    // Whoever runs the NameNode is the superuser.
    command.env("HADOOP_USER_NAME", SUPERUSER);
    // The one place outside its own where a task of a test may leave word.
    let open = format!("[{:?}]", marks(directory));
    fs::create_dir_all(marks(directory)).unwrap();
    open_to_all(&marks(directory));
    command.env("HANNO_WORKER_TASK_WRITABLE_PATHS", open);
    command.envs(options.variables.iter().map(|(name, value)| (*name, value.as_str())));
    let errors =
        fs::File::options().create(true).append(true).open(directory.join("cluster.err")).unwrap();
    command.stderr(errors);
    let mut child = command.spawn().expect("hanno starts");
    let stdout = child.stdout.take().expect("stdout is piped");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let line = receiver.recv_timeout(READY_MAX).unwrap_or_else(|gone| {
        let _ = child.kill();
        let status = child.wait().expect("the cluster's end");
        panic!("the cluster did not get ready: {gone}, {status}\n{}", last_words(directory))
    });
    let address = |name: &str| {
        line.split(' ').find_map(|word| word.strip_prefix(name)).expect("an address").to_owned()
    };
    assert!(line.starts_with("ready "), "{line}");
    (child, address("namenode="), address("jobtracker="))
}

/// What the daemons of a cluster said last, for whoever sees no more of a failure than its text.
fn last_words(directory: &Path) -> String {
    const LINES_MAX: usize = 40;
    let errors = fs::read_to_string(directory.join("cluster.err")).unwrap_or_default();
    let lines: Vec<&str> = errors.lines().collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
}

/// Also to users of jobs, where the worker is root.
fn open_to_all(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
}

fn marks(directory: &Path) -> PathBuf {
    directory.join("marks")
}

/// Ranges of ports for clusters, below the ephemeral ports.
const PORT_RANGES: u32 = 400;
/// Ports of each.
const RANGE_PORTS: u32 = 40;

/// 40 ports in a row for one cluster, which nothing else uses while this lives: a lock keeps other test processes off, and sockets that are bound and do not
/// listen keep the kernel from giving the ports to connections. A daemon can listen on them none the less, as `SO_REUSEADDR` allows.
pub(crate) struct Ports {
    /// The first of them.
    pub(crate) base: u32,
    _lock: fs::File,
    _sockets: Vec<OwnedFd>,
}

impl Ports {
    pub(crate) fn take() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let locks = std::env::temp_dir().join("hanno-test-ports");
        if fs::create_dir(&locks).is_ok() {
            open_to_all(&locks);
        }
        let ranges = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
        let begin = std::process::id() % 20 * 20;
        for range in ranges.take(PORT_RANGES as usize).map(|number| (begin + number) % PORT_RANGES)
        {
            let base = 11_000 + range * RANGE_PORTS;
            let Some(lock) = held(&locks.join(base.to_string())) else { continue };
            let sockets: io::Result<Vec<OwnedFd>> = (base..base + RANGE_PORTS).map(bound).collect();
            if let Ok(sockets) = sockets {
                return Ports { base, _lock: lock, _sockets: sockets };
            }
        }
        panic!("there are no {RANGE_PORTS} free ports in a row")
    }
}

/// A socket that has a port nobody listens on.
fn bound(port: u32) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let port = u16::try_from(port).expect("a port");
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    Ok(socket)
}

/// A file that no other process has locked, whoever made it.
fn held(path: &Path) -> Option<fs::File> {
    let lock = match fs::File::open(path) {
        Ok(lock) => lock,
        Err(_) => fs::File::options().read(true).append(true).create(true).open(path).unwrap(),
    };
    lock.try_lock().ok().map(|()| lock)
}

/// Where clusters of a test run lie that may not write into the build's directory.
pub(crate) const DIRECTORY_VARIABLE: &str = "HANNO_TEST_DIRECTORY";

/// A new directory on the build's file system (a real disk; `/tmp` may be memory).
pub(crate) fn fresh_directory() -> PathBuf {
    let parent = std::env::var_os(DIRECTORY_VARIABLE)
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    fs::create_dir_all(&parent).unwrap();
    tempfile::Builder::new().prefix("cluster-").tempdir_in(parent).unwrap().keep()
}

/// The `hanno` binary under test.
pub(crate) fn hanno_binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_hanno"))
}

/// An example job built with it.
pub(crate) fn example_binary(name: &str) -> PathBuf {
    let path = hanno_binary().parent().expect("the build directory").join("examples").join(name);
    assert!(
        path.is_file(),
        "{} is missing: run the tests with `cargo test`, which builds it",
        path.display()
    );
    path
}

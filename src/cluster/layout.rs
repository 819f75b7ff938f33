//! The contents of a cluster's directory: ports, configuration files, names.
//!
//! Ports are chosen once and kept, so addresses that a user has noted stay valid. They are below the range from which the kernel takes outgoing ports, so a
//! daemon that restarts finds its port free.

use std::fmt::Write as _;
use std::fs;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use client::config::CONFIG_FILE;
use protocol::address::url_of;
use sys::fs::LockFile;
use webhdfs::Auth;

use super::child::Spec;
use super::kept::{self, PORTS_FILE, WRITTEN};
use crate::daemons::Kind;
use crate::output::without_number;

pub(super) use super::kept::Ports;

/// Usual port of the NameNode's web page.
const NAMENODE_PORT: u16 = 9870;
/// Usual port of the JobTracker's web page.
const JOBTRACKER_PORT: u16 = 8088;
/// Range of the other ports: above the well-known ones, below the kernel's.
const PORTS: std::ops::Range<u16> = 10_000..32_000;
/// The NameNode takes changes once this many DataNodes have registered: as many as must have a block on disk before `close` succeeds.
const DURABLE_DATANODES: u16 = 2;
/// Only the owner can read a cluster's directory.
const PRIVATE: u32 = 0o700;
/// Permissions of what it writes; the directories are closed.
const FILE_MODE: u32 = 0o644;
/// Default replication is this, or the number of DataNodes if there are fewer.
const REPLICATION_MAX: u16 = 3;

/// The daemons to run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// DataNodes.
    pub(super) datanode_count: u16,
    /// Data directories of each DataNode.
    pub(super) disk_count: u16,
    /// Slots of each worker.
    pub(super) worker_slots: Vec<u32>,
    /// First port if the user chose.
    pub(super) port_base: Option<u16>,
    /// How callers over HTTP prove who they are.
    pub(super) auth: Auth,
}

/// A cluster's directory, locked.
pub(super) struct Layout {
    root: PathBuf,
    _lock: LockFile,
}

impl Layout {
    /// Creates what is missing and takes the lock.
    pub(super) fn open(data: &Path) -> Result<Self> {
        let cannot_make = |path: &Path| format!("cannot make {}", path.display());
        sys::fs::create_private_dir(data).with_context(|| cannot_make(data))?;
        let root = data.canonicalize().with_context(|| cannot_make(data))?;
        let lock = LockFile::of_directory(&root)?;
        let jobtracker = file_name(Kind::Jobtracker, 1);
        for name in ["conf", "logs", "pids", &jobtracker] {
            let path = root.join(name);
            sys::fs::create_private_dir(&path).with_context(|| cannot_make(&path))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(PRIVATE))
                .with_context(|| cannot_make(&path))?;
        }
        if sys::host::user_id() == 0 {
            // Everything in it is closed by its own mode. Jobs of root's workers run as users of their own, who must pass through to reach their files.
            sys::fs::let_pass(&root).with_context(|| cannot_make(&root))?;
        }
        let layout = Layout { root, _lock: lock };
        daemon::secret::load(&layout.secret(), true)?;
        Ok(layout)
    }

    /// The kept ports where they are free, otherwise new ones; with a port base, exactly those.
    pub(super) fn choose_ports(&self, plan: &Plan) -> Result<Ports> {
        let kept = Ports::kept(&self.root)?;
        let ports = match plan.port_base {
            Some(base) => ports_from(base, plan)?,
            None => {
                let seed = BuildHasherDefault::<DefaultHasher>::new().hash_one(&self.root);
                free_ports(&kept, plan, seed)?
            }
        };
        write(&self.root.join(PORTS_FILE), &format!("{WRITTEN}{}", toml::to_string(&ports)?))?;
        Ok(ports)
    }

    /// Writes every daemon's configuration.
    pub(super) fn write_configs(&self, plan: &Plan, ports: &Ports) -> Result<Vec<Spec>> {
        let namenode = self.spec(Kind::Namenode, 1, &self.namenode_config(plan, ports))?;
        let jobtracker = self.spec(Kind::Jobtracker, 1, &self.jobtracker_config(plan, ports))?;
        let masters = [
            namenode::Config::load(&namenode.config).map(|config| config.free_space_min)?,
            jobtracker::Config::load(&jobtracker.config).map(|config| config.free_space_min)?,
        ];
        let mut specs = vec![namenode];
        for number in 1..=plan.datanode_count {
            let capacity =
                sys::fs::space(&self.root).map(|space| space.capacity).unwrap_or_default();
            let reserve = shared_reserve(capacity, masters);
            let text = self.datanode_config(number, plan, (ports, reserve));
            specs.push(self.spec(Kind::Datanode, number, &text)?);
        }
        specs.push(jobtracker);
        for (number, slots) in (1..).zip(&plan.worker_slots) {
            let text = self.worker_config(number, *slots, ports);
            specs.push(self.spec(Kind::Worker, number, &text)?);
        }
        Ok(specs)
    }

    /// Writes the file that leads clients here; returns its path.
    pub(super) fn write_client_config(&self, ports: &Ports) -> Result<PathBuf> {
        let path = self.root.join(CONFIG_FILE);
        let mut text = WRITTEN.to_owned();
        line(&mut text, "namenode", quoted(&url(ports.namenode)));
        line(&mut text, "jobtracker", quoted(&url(ports.jobtracker)));
        line(&mut text, "secret_file", quoted(&self.secret().to_string_lossy()));
        write(&path, &text)?;
        Ok(path)
    }

    fn namenode_config(&self, plan: &Plan, ports: &Ports) -> String {
        let replication = plan.datanode_count.min(REPLICATION_MAX);
        let mut text = self.common(ports.namenode);
        line(&mut text, "data_dir", self.data(Kind::Namenode, 1));
        line(&mut text, "replication", replication);
        line(&mut text, "safe_mode_datanodes", plan.datanode_count.min(DURABLE_DATANODES));
        webhdfs_table(&mut text, plan.auth);
        text
    }

    fn datanode_config(
        &self,
        number: u16,
        plan: &Plan,
        (ports, reserve): (&Ports, Option<u64>),
    ) -> String {
        let index = usize::from(number - 1);
        let mut text = self.common(ports.transfer[index]);
        line(&mut text, "http_bind", quoted(&local(ports.datanode[index])));
        let first = file_name(Kind::Datanode, number);
        let more = (2..=plan.disk_count).map(|disk| format!("{first}-disk-{disk}"));
        let directories: Vec<String> = std::iter::once(first.clone())
            .chain(more)
            .map(|name| quoted(&self.root.join(name).to_string_lossy()))
            .collect();
        line(&mut text, "data_directories", format!("[{}]", directories.join(", ")));
        line(&mut text, "namenode", quoted(&url(ports.namenode)));
        if let Some(bytes) = reserve {
            line(&mut text, "reserved_bytes", bytes);
        }
        webhdfs_table(&mut text, plan.auth);
        text
    }

    fn jobtracker_config(&self, plan: &Plan, ports: &Ports) -> String {
        let mut text = self.common(ports.jobtracker);
        line(&mut text, "data", self.data(Kind::Jobtracker, 1));
        line(&mut text, "namenode", quoted(&url(ports.namenode)));
        line(&mut text, "auth", quoted(auth_word(plan.auth)));
        text
    }

    fn worker_config(&self, number: u16, slots: u32, ports: &Ports) -> String {
        let mut text = self.common(ports.worker[usize::from(number - 1)]);
        line(&mut text, "data", self.data(Kind::Worker, number));
        line(&mut text, "namenode", quoted(&url(ports.namenode)));
        line(&mut text, "jobtracker", quoted(&url(ports.jobtracker)));
        line(&mut text, "slot_count", slots);
        text
    }

    /// A daemon's own directory, quoted.
    fn data(&self, kind: Kind, number: u16) -> String {
        quoted(&self.root.join(file_name(kind, number)).to_string_lossy())
    }

    fn common(&self, port: u16) -> String {
        let mut text = WRITTEN.to_owned();
        line(&mut text, "bind", quoted(&local(port)));
        line(&mut text, "secret_file", quoted(&self.secret().to_string_lossy()));
        text
    }

    fn secret(&self) -> PathBuf {
        self.root.join("secret")
    }

    fn spec(&self, kind: Kind, number: u16, config_text: &str) -> Result<Spec> {
        let name = file_name(kind, number);
        let path = |folder: &str, suffix| self.root.join(folder).join(format!("{name}.{suffix}"));
        let spec = Spec {
            kind,
            number,
            config: path("conf", "toml"),
            log: path("logs", "log"),
            pid: path("pids", "pid"),
        };
        write(&spec.config, config_text)?;
        Ok(spec)
    }
}

/// Bytes that DataNodes reserve on a disk that the NameNode and the JobTracker use too, if that is more than their default. They stop before the masters do:
/// the reserve is half as much again as the larger of the masters' needs, because replicas may be in progress then.
fn shared_reserve(capacity: u64, masters_need: [u64; 2]) -> Option<u64> {
    // A need that no disk of this size can meet is no reason to leave the disk empty.
    let need = masters_need.into_iter().filter(|need| *need < capacity).max().unwrap_or_default();
    let bytes = need.saturating_add(need / 2);
    (bytes > datanode::core::volumes::reserved_bytes(capacity, None)).then_some(bytes)
}

fn file_name(kind: Kind, number: u16) -> String {
    format!("{}-{number}", kind.name())
}

fn line(text: &mut String, key: &str, value: impl std::fmt::Display) {
    writeln!(text, "{key} = {value}").expect("writing into memory cannot fail");
}

/// The table that NameNode and DataNodes must agree on; it is written last.
fn webhdfs_table(text: &mut String, auth: Auth) {
    text.push_str("[webhdfs]\n");
    line(text, "auth", quoted(auth_word(auth)));
}

fn auth_word(auth: Auth) -> &'static str {
    match auth {
        Auth::Token => "token",
        Auth::Simple => "simple",
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// The URL of a daemon of the cluster.
pub(super) fn url(port: u16) -> String {
    url_of(&local(port))
}

fn write(path: &Path, text: &str) -> Result<()> {
    kept::check(path)?;
    let name = path.file_name().unwrap_or_default().display();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    // It need not outlive a power cut: every start writes it.
    sys::fs::create_anew(&temporary, FILE_MODE)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&temporary, path))
        .inspect_err(|_| drop(fs::remove_file(&temporary)))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Refuses a port base that leaves too few ports, or one of another program, before the directory of a new cluster is made.
pub(super) fn check_port_base(plan: &Plan, data: &Path) -> Result<()> {
    let Some(base) = plan.port_base else { return Ok(()) };
    if usize::from(base) + port_count(plan) - 1 > usize::from(u16::MAX) {
        bail!(
            "--port-base {base} is too high: every daemon needs ports, and the last there is is {}",
            u16::MAX
        );
    }
    // Where the directory is there, a cluster that runs in it may have the ports.
    match data.try_exists().with_context(|| format!("cannot look for {}", data.display()))? {
        true => Ok(()),
        false => ports_from(base, plan).map(drop),
    }
}

fn port_count(plan: &Plan) -> usize {
    2 + 2 * usize::from(plan.datanode_count) + plan.worker_slots.len()
}

/// Ports base, base + 1, …: NameNode, JobTracker, DataNodes (HTTP, transfer), workers. The base has passed the bounds of [`check_port_base`].
fn ports_from(base: u16, plan: &Plan) -> Result<Ports> {
    let mut ports = (base..=u16::MAX).take(port_count(plan));
    let mut take = || {
        let port = ports.next().expect("as many ports as there are daemons");
        match bind(port) {
            Ok(()) => Ok(port),
            Err(error) => bail!("{}", why_not(port, &error)),
        }
    };
    let mut ports = Ports { namenode: take()?, jobtracker: take()?, ..Ports::default() };
    for _ in 0..plan.datanode_count {
        ports.datanode.push(take()?);
        ports.transfer.push(take()?);
    }
    for _ in &plan.worker_slots {
        ports.worker.push(take()?);
    }
    Ok(ports)
}

fn free_ports(kept: &Ports, plan: &Plan, seed: u64) -> Result<Ports> {
    let mut chooser = Chooser { taken: Vec::new(), next: seed };
    let datanodes = usize::from(plan.datanode_count);
    Ok(Ports {
        namenode: chooser.choose(&[kept.namenode, NAMENODE_PORT])?,
        jobtracker: chooser.choose(&[kept.jobtracker, JOBTRACKER_PORT])?,
        transfer: chooser.choose_all(&kept.transfer, datanodes)?,
        datanode: chooser.choose_all(&kept.datanode, datanodes)?,
        worker: chooser.choose_all(&kept.worker, plan.worker_slots.len())?,
    })
}

/// Hands out free ports, each once. Clusters start their search at different places, so two that start at the same time rarely collide.
struct Chooser {
    taken: Vec<u16>,
    next: u64,
}

impl Chooser {
    fn choose_all(&mut self, kept: &[u16], count: usize) -> Result<Vec<u16>> {
        (0..count).map(|index| self.choose(&[kept.get(index).copied().unwrap_or(0)])).collect()
    }

    fn choose(&mut self, preferred: &[u16]) -> Result<u16> {
        let span = u64::from(PORTS.end - PORTS.start);
        let start = self.next;
        let others = (start..start.saturating_add(span)).map(|n| {
            PORTS.start + u16::try_from(n % span).expect("a remainder below a span of ports")
        });
        let usable = |port: &u16| *port != 0 && !self.taken.contains(port) && bind(*port).is_ok();
        let found = preferred.iter().copied().chain(others).find(usable);
        let port = found.context("no free port on this machine")?;
        self.taken.push(port);
        self.next = self.next.wrapping_add(1);
        Ok(port)
    }
}

/// Whether a daemon could listen there now.
fn bind(port: u16) -> io::Result<()> {
    TcpListener::bind(("127.0.0.1", port)).map(drop)
}

/// Why no daemon can.
fn why_not(port: u16, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("port {port} is in use; try another --port-base"),
        io::ErrorKind::PermissionDenied => {
            format!("only root may listen at port {port}; try a --port-base from 1024 on")
        }
        _ => format!("cannot listen at port {port}: {}", without_number(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(datanode_count: u16, workers: usize) -> Plan {
        let auth = Auth::Token;
        Plan {
            datanode_count,
            disk_count: 2,
            worker_slots: vec![1; workers],
            port_base: None,
            auth,
        }
    }

    #[test]
    fn ports_are_free_distinct_and_kept() {
        let first = free_ports(&Ports::default(), &plan(3, 2), 77).unwrap();
        let mut all = vec![first.namenode, first.jobtracker];
        all.extend(first.transfer.iter().chain(&first.datanode).chain(&first.worker));
        assert_eq!(all.len(), 10);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 10);
        assert_eq!(free_ports(&first, &plan(3, 2), 12_345).unwrap(), first);
        let more = free_ports(&first, &plan(4, 3), 12_345).unwrap();
        assert_eq!(more.datanode[..3], first.datanode[..]);
        assert_eq!((more.datanode.len(), more.worker.len()), (4, 3));
        let blocker = TcpListener::bind(("127.0.0.1", first.namenode)).unwrap();
        assert_ne!(free_ports(&first, &plan(3, 2), 77).unwrap().namenode, first.namenode);
        drop(blocker);
    }

    #[test]
    fn a_port_that_cannot_be_had_is_refused_with_the_reason() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let refusal = ports_from(port, &plan(1, 1)).unwrap_err().to_string();
        assert_eq!(refusal, format!("port {port} is in use; try another --port-base"));
        for (kind, expected) in [
            (
                io::ErrorKind::PermissionDenied,
                "only root may listen at port 80; try a --port-base from 1024 on",
            ),
            (io::ErrorKind::AddrInUse, "port 80 is in use; try another --port-base"),
            (io::ErrorKind::AddrNotAvailable, "cannot listen at port 80: address not available"),
        ] {
            assert_eq!(why_not(80, &kind.into()), expected);
        }
    }

    #[test]
    fn datanodes_stop_before_the_masters_they_share_a_disk_with() {
        let mib = 1 << 20;
        for (capacity, need, reserve) in [
            (400 * mib, [100 * mib, 100 * mib], Some(150 * mib)),
            (400 * mib, [0, 100 * mib], Some(150 * mib)),
            (100 << 30, [100 * mib, 100 * mib], None),
            (100 << 30, [4 << 30, 0], Some(6 << 30)),
            (400 * mib, [0, 0], None),
            (400 * mib, [1 << 60, 0], None),
        ] {
            assert_eq!(shared_reserve(capacity, need), reserve, "{capacity} {need:?}");
        }
    }

    #[test]
    fn a_base_is_followed_exactly_or_refused() {
        let base = (0..50)
            .map(|n| 21_000 + n * 20)
            .find(|base| (*base..base + 10).all(|port| bind(port).is_ok()))
            .unwrap();
        let ports = ports_from(base, &plan(3, 2)).unwrap();
        assert_eq!((ports.namenode, ports.jobtracker), (base, base + 1));
        assert_eq!(ports.worker, [base + 8, base + 9]);
        let _blocker = TcpListener::bind(("127.0.0.1", base + 4)).unwrap();
        let text = ports_from(base, &plan(3, 2)).unwrap_err().to_string();
        assert!(text.contains(&(base + 4).to_string()), "{text}");
        let check = |base, data| {
            check_port_base(&Plan { port_base: Some(base), ..plan(3, 2) }, Path::new(data))
        };
        assert!(check(65_526, "/").is_ok() && check(65_527, "/").is_err());
        assert!(check(base, "/").is_ok() && check(base, "/no such directory").is_err());
    }

    #[test]
    fn a_directory_serves_one_cluster_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("deep/c 'ü");
        let layout = Layout::open(&data).unwrap();
        let text = Layout::open(&data).map(drop).unwrap_err().to_string();
        assert!(text.contains("in use by process"), "{text}");
        let plan = plan(2, 1);
        let ports = layout.choose_ports(&plan).unwrap();
        let specs = layout.write_configs(&plan, &ports).unwrap();
        let names: Vec<_> = specs.iter().map(Spec::name).collect();
        assert_eq!(names, ["namenode-1", "datanode-1", "datanode-2", "jobtracker-1", "worker-1"]);
        for spec in specs {
            let text = fs::read_to_string(&spec.config).unwrap();
            text.parse::<toml::Table>().unwrap();
            assert!(text.contains(&format!("{}\"", spec.name())), "{text}");
        }
        let path = layout.write_client_config(&ports).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let client: client::ClientConfig = toml::from_str(&text).unwrap();
        assert_eq!(client.namenode, Some(url(ports.namenode)));
        assert_eq!(client.jobtracker, Some(url(ports.jobtracker)));
        assert_eq!(client.secret_file, Some(layout.secret()));
        drop(layout);
        assert_eq!(Layout::open(&data).unwrap().choose_ports(&plan).unwrap(), ports);
    }
}

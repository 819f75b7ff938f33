//! A daemon that the bench starts itself: a child process with its data in one directory, started and stopped as an operator would.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use protocol::address::url_of;
use protocol::auth::{Key, Role};
use tokio::time::{sleep, timeout};
use transport::rpc::{Health, RpcClient};

/// Longest wait for a start: far beyond the promise, so a slow one is measured instead of reported as a failure.
const START_MAX: Duration = Duration::from_secs(1800);
/// Longest stop: the last rows of the checkpoint are written.
const STOP_MAX: Duration = Duration::from_secs(600);
/// Pause between checks of a process that starts or stops; also the resolution of those times.
const POLL: Duration = Duration::from_millis(50);
/// Time for one check.
const CHECK_MAX: Duration = Duration::from_secs(2);
/// Ticks per second of times in /proc: fixed on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The daemon to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Daemon {
    /// A NameNode.
    Namenode,
    /// A JobTracker, of the NameNode in the same directory.
    Jobtracker {
        /// Port of the NameNode.
        namenode: u16,
    },
}

impl Daemon {
    fn name(self) -> &'static str {
        match self {
            Daemon::Namenode => "namenode",
            Daemon::Jobtracker { .. } => "jobtracker",
        }
    }

    fn config(self, directory: &Path, port: u16) -> String {
        let text = |path: PathBuf| toml::Value::String(path.display().to_string());
        let (data, bind) =
            (text(directory.join(self.name())), format!("bind = \"127.0.0.1:{port}\"\n"));
        match self {
            Daemon::Namenode => format!("{bind}data_dir = {data}\n"),
            Daemon::Jobtracker { namenode } => {
                let namenode = url_of(&format!("127.0.0.1:{namenode}"));
                let secret = text(secret_file(directory));
                format!("{bind}data = {data}\nsecret_file = {secret}\nnamenode = \"{namenode}\"\n")
            }
        }
    }
}

/// The file of the secret: the NameNode creates it, everybody else reads it.
fn secret_file(directory: &Path) -> PathBuf {
    directory.join("namenode").join("secret")
}

/// The process. Dropping it kills it.
pub(super) struct Process {
    name: &'static str,
    child: Child,
    directory: PathBuf,
    address: String,
}

impl Process {
    /// Starts a daemon on `port` of this machine with its data in `directory`.
    pub(super) fn start(daemon: Daemon, directory: &Path, port: u16) -> Result<Process> {
        let name = daemon.name();
        let data = directory.join(name);
        fs::create_dir_all(&data).with_context(|| format!("create {}", data.display()))?;
        let config = directory.join(format!("{name}.toml"));
        let text = daemon.config(directory, port);
        fs::write(&config, text).with_context(|| format!("write {}", config.display()))?;
        let log = log_file(directory, name);
        let log = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("open {}", log.display()))?;
        let child = Command::new(std::env::current_exe().context("find this program")?)
            .args([name, "--config"])
            .arg(&config)
            .args(["--parent", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("start a {name}"))?;
        let address = url_of(&format!("127.0.0.1:{port}"));
        Ok(Process { name, child, directory: directory.to_owned(), address })
    }

    /// A client of it; it must have answered once, because its secret is read from its directory.
    pub(super) fn client(&self, role: Role) -> Result<RpcClient> {
        Ok(RpcClient::new(&self.address, role, Some(&self.secret()?))?)
    }

    pub(super) fn secret(&self) -> Result<Key> {
        Ok(transport::rpc::read_secret(&secret_file(&self.directory))?)
    }

    /// Waits until `condition` holds for its health report.
    pub(super) async fn until(&mut self, condition: impl Fn(&Health) -> bool) -> Result<()> {
        let rpc = RpcClient::new(&self.address, Role::Client, None)?;
        let deadline = Instant::now() + START_MAX;
        loop {
            if let Some(status) =
                self.child.try_wait().with_context(|| format!("look after the {}", self.name))?
            {
                bail!("the {} ended with {status}; see {}", self.name, self.log().display());
            }
            match timeout(CHECK_MAX, rpc.health()).await {
                Ok(Ok(health)) if condition(&health) => return Ok(()),
                _ if Instant::now() > deadline => {
                    bail!("the {} is not ready; see {}", self.name, self.log().display())
                }
                _ => sleep(POLL).await,
            }
        }
    }

    fn log(&self) -> PathBuf {
        log_file(&self.directory, self.name)
    }

    /// Stops it cleanly.
    pub(super) async fn stop(mut self) -> Result<()> {
        Command::new("kill").arg(self.child.id().to_string()).status().context("run kill")?;
        let deadline = Instant::now() + STOP_MAX;
        while self
            .child
            .try_wait()
            .with_context(|| format!("look after the {}", self.name))?
            .is_none()
        {
            if Instant::now() > deadline {
                bail!("the {} does not stop; see {}", self.name, self.log().display());
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Its memory now and its maximum so far, bytes.
    pub(super) fn memory(&self) -> Result<Memory> {
        let text = self.proc("status")?;
        let bytes = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
        };
        let found = bytes("VmRSS:").zip(bytes("VmHWM:"));
        let (now, most) = found.context("the memory of a daemon is not in /proc")?;
        Ok(Memory { now, most })
    }

    /// Processor time it has used, seconds.
    pub(super) fn processor_seconds(&self) -> Result<f64> {
        let text = self.proc("stat")?;
        // The name in parentheses may contain anything; user and system time are the 12th and 13th fields after it.
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: Vec<f64> = rest
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse().ok())
            .collect();
        match ticks[..] {
            [user, system] => Ok((user + system) / TICKS_PER_SECOND),
            _ => bail!("the time of a daemon is not in /proc"),
        }
    }

    fn proc(&self, name: &str) -> Result<String> {
        let path = format!("/proc/{}/{name}", self.child.id());
        sys::fs::read_input(Path::new(&path)).with_context(|| format!("read {path}"))
    }
}

fn log_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.log"))
}

/// Memory of a process, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// At present.
    pub(super) now: u64,
    /// Maximum so far.
    pub(super) most: u64,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; nothing more can be done either way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

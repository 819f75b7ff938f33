//! Starts a task process: its environment, its streams, its limits, its sandbox.
//!
//! Invariant: the process gets from the worker only what is listed here: standard streams, two sockets, the variables that are set, no
//! terminal.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as Pair;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use daemon::params::logs::StreamKind;
use protocol::runner::{COOKIE_VARIABLE, DESCRIPTORS_VARIABLE};
use sys::cgroup::Group;
use sys::process::Limits;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::orders::Options;

/// How long to retry starting a program whose file is open for writing, and the pause between attempts. A new file can stay open a moment
/// longer if another process was being started meanwhile: that process holds the descriptor until it executes its own program.
const BUSY_MAX: Duration = Duration::from_secs(5);
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// A process that has been started.
pub(crate) struct Process {
    pub(crate) child: Child,
    /// Its id, which is also the id of its session and group.
    pub(crate) group: u32,
    /// For messages from and to it.
    pub(crate) socket: UnixStream,
    /// For its connection requests.
    pub(crate) broker: UnixStream,
    /// Standard output and error.
    pub(crate) output: [Output; 2],
    /// Its cgroup, with all its descendants.
    pub(crate) pids: Option<Arc<Group>>,
}

/// A stream of output.
pub(crate) struct Output {
    pub(crate) kind: StreamKind,
    /// `None` once the stream has ended.
    pub(crate) pipe: Option<pipe::Receiver>,
}

/// Starts the process of the runner `id`, with a directory for temporary files.
pub(crate) async fn start(
    options: &Options,
    temporary: &Path,
    id: u64,
    cookie: &str,
) -> io::Result<Process> {
    let deadline = Instant::now() + BUSY_MAX;
    loop {
        match spawn(options, temporary, id, cookie) {
            Err(error)
                if error.kind() == io::ErrorKind::ExecutableFileBusy
                    && Instant::now() < deadline =>
            {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            result => return result,
        }
    }
}

fn spawn(options: &Options, temporary: &Path, id: u64, cookie: &str) -> io::Result<Process> {
    let [(socket, its_socket), (broker, its_broker)] = [pair()?, pair()?];
    let descriptors = format!("{},{}", its_socket.as_raw_fd(), its_broker.as_raw_fd());
    let mut command = Command::new(&options.binary);
    command
        .args(&options.setup.program.args)
        .env_clear()
        .env("HOME", &options.job.path)
        .env("TMPDIR", temporary)
        .env(DESCRIPTORS_VARIABLE, descriptors)
        .env(COOKIE_VARIABLE, cookie)
        .current_dir(&options.job.path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(path) = options.sandbox.search_path() {
        command.env("PATH", path);
    }
    if let Some(language) = std::env::var_os("LANG") {
        command.env("LANG", language);
    }
    let limits = Limits {
        user_threads: options.sandbox.user_threads_max(options.user)?,
        ..options.watch.confinement().limits
    };
    let pids = options.sandbox.group(&format!("runner-{id}"))?;
    let kept = vec![its_socket.into(), its_broker.into()];
    sys::detach::detach(command.as_std_mut(), kept, &limits, pids.as_ref())?;
    let readable = [&options.binary, &options.outputs];
    let job = (&*options.job.path, options.user);
    options.sandbox.confine(command.as_std_mut(), job, temporary, &readable)?;
    let mut child = sys::orphans::start(|| {
        let child = command.spawn()?;
        Ok((child.id().ok_or(io::ErrorKind::NotFound)?, child))
    })?;
    let group = child.id().ok_or(io::ErrorKind::NotFound)?;
    let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?.into_owned_fd()?;
    let stderr = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?.into_owned_fd()?;
    let output = [
        Output { kind: StreamKind::Stdout, pipe: Some(pipe::Receiver::from_owned_fd(stdout)?) },
        Output { kind: StreamKind::Stderr, pipe: Some(pipe::Receiver::from_owned_fd(stderr)?) },
    ];
    Ok(Process { child, group, socket, broker, output, pids: pids.map(Arc::new) })
}

/// A socket for the worker, and its other end.
fn pair() -> io::Result<(UnixStream, Pair)> {
    let (ours, theirs) = Pair::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs))
}

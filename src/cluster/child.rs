//! One daemon as a child process that is kept running.
//!
//! ```text
//! Started -> (ends by itself) -> Paused (0, then 0.1 s doubling to 5 s; from 0 again after 30 s of life) -> Started
//!    |     -> (is killed) -------> Started, unless that happens too often
//!    +------- told to stop --------+--> Stopped (SIGTERM, SIGKILL after 10 s; pid file removed)
//! ```

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use daemon::{Shutdown, supervisor};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::daemons::Kind;
use crate::output::report;

/// Second pause before a restart (the first restart has none).
const RESTART_PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause before a restart.
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);
/// A child that lived this long is healthy: the next restart is at once again.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);
/// This many kills within [`KILLS_WINDOW`] lead to a restart at once: whoever kills wants to see one. More suggest a machine without memory, and count like
/// children that end by themselves.
const KILLS_AT_ONCE_MAX: usize = 100;
const KILLS_WINDOW: Duration = Duration::from_secs(60);
/// The signal that no process can handle.
const SIGKILL: i32 = 9;
/// Time between SIGTERM and SIGKILL.
const STOP_MAX: Duration = Duration::from_secs(10);

/// Bytes at the end of a log that are searched for its last line; longer lines are truncated.
const LOG_TAIL_BYTES: u64 = 4 << 10;

/// What to run.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    /// Which daemon.
    pub(super) kind: Kind,
    /// From 1.
    pub(super) number: u16,
    /// Its configuration.
    pub(super) config: PathBuf,
    /// The file for its standard error.
    pub(super) log: PathBuf,
    /// Holds its process id while it runs.
    pub(super) pid: PathBuf,
}

impl Spec {
    /// `datanode-2`.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.kind.name(), self.number)
    }
}

/// The reports of the children to the start-up code that waits for the cluster to be ready.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Most ends in a row of one child, and the message about it.
    worst: RefCell<Option<(u32, String)>>,
    ready: Cell<bool>,
}

impl Progress {
    /// From now on, children may fail without failing the start.
    pub(super) fn set_ready(&self) {
        self.ready.set(true);
    }

    /// The message if a child ended at least `count` times in a row.
    pub(super) fn failed_at_least(&self, count: u32) -> Option<String> {
        let worst = self.worst.borrow();
        worst.as_ref().filter(|(ends, _)| *ends >= count).map(|(_, text)| text.clone())
    }

    fn note(&self, ends: u32, text: &str) {
        let mut worst = self.worst.borrow_mut();
        if !self.ready.get() && worst.as_ref().is_none_or(|(most, _)| ends > *most) {
            *worst = Some((ends, text.to_owned()));
        }
    }
}

/// A daemon that is restarted whenever it ends.
pub(super) struct Child {
    spec: Spec,
    progress: Rc<Progress>,
    stop: Shutdown,
}

impl Child {
    pub(super) fn new(spec: Spec, progress: Rc<Progress>, stop: Shutdown) -> Self {
        Child { spec, progress, stop }
    }

    /// Starts the daemon and restarts it whenever it ends, until it is told to stop.
    pub(super) async fn keep_running(self) {
        let (mut restarts, mut ends_in_a_row) = (Restarts::default(), 0);
        while !self.stop.has_begun() {
            let started = Instant::now();
            let log_start = fs::metadata(&self.spec.log).map_or(0, |metadata| metadata.len());
            let (end, killed) = match self.live().await {
                Ok(None) => break,
                Ok(Some(status)) => (format!("ended ({status})"), status.signal() == Some(SIGKILL)),
                Err(error) => (format!("cannot be started: {error}"), false),
            };
            let now = Instant::now();
            let healthy = now.duration_since(started) >= HEALTHY_AFTER;
            ends_in_a_row = if healthy { 1 } else { ends_in_a_row + 1 };
            let pause = restarts.pause(killed, healthy, now);
            let text = death_text(&self.spec, &end, log_start);
            self.progress.note(ends_in_a_row, &text);
            report!("hanno cluster: {text}; restarting {}", when(pause));
            tokio::select! {
                () = sleep(pause) => {}
                () = self.stop.wait() => {}
            }
        }
        if let Err(error) = fs::remove_file(&self.spec.pid)
            && error.kind() != io::ErrorKind::NotFound
        {
            report!("hanno cluster: cannot remove {}: {error}", self.spec.pid.display());
        }
    }

    /// One life: the exit status if the daemon ended by itself, `None` if it was stopped.
    async fn live(&self) -> io::Result<Option<ExitStatus>> {
        let log = File::options().create(true).append(true).open(&self.spec.log)?;
        let mut process = Command::new(std::env::current_exe()?)
            .arg(self.spec.kind.name())
            .arg("--config")
            .arg(&self.spec.config)
            .arg("--parent")
            .arg(std::process::id().to_string())
            // A cluster has one service manager, which hears from its parent alone.
            .env_remove(supervisor::SOCKET_VARIABLE)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = process.id().ok_or(io::ErrorKind::NotFound)?;
        write_pid(&self.spec.pid, pid)?;
        tokio::select! {
            status = process.wait() => return status.map(Some),
            () = self.stop.wait() => {}
        }
        sys::process::terminate(pid)?;
        if timeout(STOP_MAX, process.wait()).await.is_err() {
            report!("hanno cluster: {} does not stop; killing it", self.spec.name());
            process.kill().await?;
        }
        Ok(None)
    }
}

/// Readers see the old or the new number, never half of one. It is not synced: it means nothing after a crash of the machine.
fn write_pid(path: &Path, pid: u32) -> io::Result<()> {
    let temporary = path.with_extension("pid.tmp");
    fs::write(&temporary, format!("{pid}\n"))?;
    fs::rename(&temporary, path)
}

/// How a child ended and why, if its log since `log_start` gives a reason: the end of an earlier life explains nothing.
fn death_text(spec: &Spec, end: &str, log_start: u64) -> String {
    let reason = match last_line(&spec.log, log_start) {
        Ok(line) => line,
        Err(error) => Some(format!("its log cannot be read: {error}")),
    };
    let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
    format!("{} {end}{reason}; log: {}", spec.name(), spec.log.display())
}

/// The last line that starts at or after `start` and is not empty.
fn last_line(log: &Path, start: u64) -> io::Result<Option<String>> {
    let file = sys::fs::open_input(log)?;
    let end = file.metadata()?.len();
    let tail_bytes = end.saturating_sub(start).min(LOG_TAIL_BYTES);
    let mut tail = vec![0; tail_bytes as usize];
    file.read_exact_at(&mut tail, end - tail_bytes)?;
    let tail = String::from_utf8_lossy(&tail);
    Ok(tail.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned))
}

/// How often a child ended.
#[derive(Debug, Default)]
struct Restarts {
    /// Ends by itself, in a row, each soon after its start.
    ends: u32,
    /// Times of kills within the window.
    kills: VecDeque<Instant>,
}

impl Restarts {
    /// How long to wait after an end at `now`; `healthy` means that the child had run for a while.
    fn pause(&mut self, killed: bool, healthy: bool, now: Instant) -> Duration {
        if healthy {
            self.ends = 0;
        }
        if killed {
            while self.kills.front().is_some_and(|at| now.duration_since(*at) >= KILLS_WINDOW) {
                self.kills.pop_front();
            }
            if self.kills.len() < KILLS_AT_ONCE_MAX {
                self.kills.push_back(now);
                return Duration::ZERO;
            }
        }
        self.ends = self.ends.saturating_add(1);
        restart_pause(self.ends)
    }
}

fn restart_pause(ends_in_a_row: u32) -> Duration {
    match ends_in_a_row {
        0 | 1 => Duration::ZERO,
        n => (RESTART_PAUSE_MIN * 2u32.saturating_pow((n - 2).min(16))).min(RESTART_PAUSE_MAX),
    }
}

fn when(pause: Duration) -> String {
    if pause.is_zero() { "now".to_owned() } else { format!("in {:.1} s", pause.as_secs_f32()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let pauses: Vec<u128> = (1..=9).map(|n| restart_pause(n).as_millis()).collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(restart_pause(u32::MAX), RESTART_PAUSE_MAX);
        assert_eq!(
            (when(restart_pause(1)), when(restart_pause(3))),
            ("now".into(), "in 0.2 s".into())
        );
    }

    #[test]
    fn the_killed_are_restarted_at_once_but_not_for_ever() {
        let mut restarts = Restarts::default();
        let start = Instant::now();
        for _ in 0..KILLS_AT_ONCE_MAX {
            assert_eq!(restarts.pause(true, false, start), Duration::ZERO);
        }
        assert_eq!(restarts.pause(true, false, start), Duration::ZERO, "the first end");
        assert_eq!(restarts.pause(true, false, start), RESTART_PAUSE_MIN);
        let later = start + KILLS_WINDOW;
        assert_eq!(restarts.pause(true, false, later), Duration::ZERO, "the window is over");
        assert_eq!(restarts.pause(false, false, later), RESTART_PAUSE_MIN * 2, "ends count on");
        assert_eq!(restarts.pause(false, true, later), Duration::ZERO, "it had lived");
    }

    #[test]
    fn only_ends_before_ready_count() {
        let progress = Progress::default();
        progress.note(1, "a");
        progress.note(3, "b");
        progress.note(2, "c");
        assert_eq!(progress.failed_at_least(3).as_deref(), Some("b"));
        assert_eq!(progress.failed_at_least(4), None);
        progress.set_ready();
        progress.note(9, "d");
        assert_eq!(progress.failed_at_least(4), None);
    }

    #[test]
    fn a_death_tells_the_last_line_of_its_own_life() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        let (config, log, pid) = (place("conf"), place("log"), place("pid"));
        let spec = Spec { kind: Kind::Datanode, number: 2, config, log, pid };
        let text = |start| {
            let text = death_text(&spec, "ended", start);
            text.replace(&directory.path().display().to_string(), "")
        };
        assert!(text(0).starts_with("datanode-2 ended: its log cannot be read: "));
        let long = "x".repeat(2 * LOG_TAIL_BYTES as usize);
        let cut = format!("datanode-2 ended: {}; log: /log", &long[..LOG_TAIL_BYTES as usize]);
        for (content, start, expected) in [
            ("", 0, "datanode-2 ended; log: /log"),
            ("\n \n", 0, "datanode-2 ended; log: /log"),
            ("one\n", 0, "datanode-2 ended: one; log: /log"),
            ("one\ntwo\n\n", 0, "datanode-2 ended: two; log: /log"),
            ("one\ntwo", 0, "datanode-2 ended: two; log: /log"),
            ("one\n", 4, "datanode-2 ended; log: /log"),
            ("one\ntwo\n", 4, "datanode-2 ended: two; log: /log"),
            ("one\n", 9, "datanode-2 ended; log: /log"),
            (&long, 0, &cut),
        ] {
            fs::write(&spec.log, content).unwrap();
            assert_eq!(text(start), expected, "{content:?} from {start}");
        }
    }

    #[test]
    fn pid_files_are_replaced_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("worker-1.pid");
        write_pid(&path, 41).unwrap();
        write_pid(&path, 42).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "42\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

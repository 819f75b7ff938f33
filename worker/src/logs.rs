//! Standard output and error of attempts, in `logs/<attempt>/{stdout,stderr}`.
//!
//! Invariants: a log never exceeds its limit by more than one closing line; later output is dropped, but the last bytes stay in memory for
//! the diagnostics of a failure.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use daemon::params::logs::StreamKind;
use protocol::AttemptId;
use sys::beneath::Dir;

/// Bytes of standard error quoted when a task process dies.
const TAIL_BYTES_MAX: usize = 2 << 10;

/// Only the worker can read the logs; it serves them to users who may see them.
const LOG_MODE: u32 = 0o600;

/// The logs of one attempt, being written.
#[derive(Debug)]
pub(crate) struct AttemptLogs {
    stdout: Log,
    stderr: Log,
    tail: VecDeque<u8>,
}

#[derive(Debug)]
struct Log {
    file: File,
    left: u64,
    limit: u64,
}

impl AttemptLogs {
    /// Begins the logs of an attempt below `root`.
    pub(crate) fn create(root: &Dir, attempt: AttemptId, bytes_max: u64) -> io::Result<Self> {
        let directory = root.ensure_dir(attempt.to_string())?;
        let open = |kind: StreamKind| {
            let file = directory.append(kind.name(), LOG_MODE)?;
            Ok::<_, io::Error>(Log { file, left: bytes_max, limit: bytes_max })
        };
        let (stdout, stderr) = (open(StreamKind::Stdout)?, open(StreamKind::Stderr)?);
        Ok(AttemptLogs { stdout, stderr, tail: VecDeque::new() })
    }

    /// Appends output.
    pub(crate) fn append(&mut self, kind: StreamKind, bytes: &[u8]) -> io::Result<()> {
        let log = match kind {
            StreamKind::Stdout => &mut self.stdout,
            StreamKind::Stderr => {
                let fresh = &bytes[bytes.len().saturating_sub(TAIL_BYTES_MAX)..];
                let surplus = (self.tail.len() + fresh.len()).saturating_sub(TAIL_BYTES_MAX);
                self.tail.drain(..surplus);
                self.tail.extend(fresh);
                &mut self.stderr
            }
        };
        log.append(bytes)
    }

    /// The last lines of standard error.
    pub(crate) fn stderr_tail(&self) -> String {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

impl Log {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        let taken = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.file.write_all(&bytes[..taken])?;
        self.left -= taken as u64;
        if self.left == 0 {
            writeln!(self.file, "\n[the log was cut off here, at {} bytes]", self.limit)?;
        }
        Ok(())
    }
}

/// Removes logs without a write for `retention`.
pub(crate) fn prune(root: &Dir, retention: Duration) -> io::Result<()> {
    let Some(limit) = SystemTime::now().checked_sub(retention) else { return Ok(()) };
    for name in root.names()? {
        let modified = |kind: StreamKind| {
            let log = root.dir(&name).ok()?.file(kind.name()).ok()?;
            log.metadata().ok()?.modified().ok()
        };
        let touched =
            [StreamKind::Stdout, StreamKind::Stderr].into_iter().filter_map(modified).max();
        if touched.is_none_or(|touched| touched < limit) {
            root.remove(name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_flood_is_cut_and_its_end_remembered() {
        let root = tempfile::tempdir().unwrap();
        let attempt: AttemptId = "attempt_1_0001_m_000000_0".parse().unwrap();
        let mut logs = AttemptLogs::create(&Dir::open(root.path()).unwrap(), attempt, 100).unwrap();
        for index in 0..1000 {
            logs.append(StreamKind::Stderr, format!("line {index}\n").as_bytes()).unwrap();
        }
        logs.append(StreamKind::Stdout, b"short").unwrap();
        let directory = root.path().join(attempt.to_string());
        let text = fs::read_to_string(directory.join("stderr")).unwrap();
        assert!(text.starts_with("line 0\nline 1\n") && text.len() < 200, "{text}");
        assert!(text.ends_with("[the log was cut off here, at 100 bytes]\n"), "{text}");
        assert_eq!(fs::read_to_string(directory.join("stdout")).unwrap(), "short");
        assert!(logs.stderr_tail().ends_with("line 998\nline 999"));
        assert!(logs.stderr_tail().len() <= TAIL_BYTES_MAX);
    }

    #[test]
    fn old_logs_go() {
        let root = tempfile::tempdir().unwrap();
        let attempt: AttemptId = "attempt_1_0001_m_000000_0".parse().unwrap();
        let dir = Dir::open(root.path()).unwrap();
        drop(AttemptLogs::create(&dir, attempt, 100).unwrap());
        prune(&dir, Duration::from_secs(3600)).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        for kind in [StreamKind::Stdout, StreamKind::Stderr] {
            let file = File::options()
                .append(true)
                .open(root.path().join(attempt.to_string()).join(kind.name()))
                .unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        prune(&dir, Duration::from_secs(3600)).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}

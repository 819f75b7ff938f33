//! Audit logs: one line for each call that was allowed or refused, in the format of HDFS's, so its tools can read them.
//!
//! ```text
//! 2026-01-05 10:30:00,123 INFO FSNamesystem.audit: allowed=true⇥ugi=bob (auth:SIMPLE)⇥ip=/127.0.0.1⇥cmd=open⇥…
//! ```
//!
//! A thread of its own writes. Callers pass lines through a bounded queue: when the disk is slower than the calls, calls wait, and no line is lost. A failing
//! disk costs lines, never the daemon. When the file is full it becomes `audit.log.1`, that one `audit.log.2`, and so on. Each daemon decides what a line says;
//! how lines are kept is decided here, for all.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::mpsc;

/// Most lines that wait for the writer; beyond that, callers wait.
const QUEUE_MAX: usize = 8192;
/// How long lines are collected after the first one: with [`QUEUE_MAX`], calls wait only beyond 800,000 of them a second.
const GATHER: Duration = Duration::from_millis(10);
/// Bytes collected before a write: some hundred lines.
const BUFFER_BYTES: usize = 64 << 10;
/// The file's name in a daemon's data directory.
const FILE_NAME: &str = "audit.log";

/// Where and how many lines are kept.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// Prefix of each line, e.g. `FSNamesystem.audit`.
    pub logger: &'static str,
    /// The directory.
    pub directory: PathBuf,
    /// Size at which the file is rotated, bytes.
    pub bytes_max: u64,
    /// Full files that are kept.
    pub files_max: u32,
}

/// A message to the writer.
enum Message<T> {
    Line(u64, T),
    /// No more will follow.
    End,
}

/// The queue to the writer. The writer turns a line into text.
pub struct Audit<T> {
    queue: mpsc::Sender<Message<T>>,
}

impl<T> Clone for Audit<T> {
    fn clone(&self) -> Self {
        Audit { queue: self.queue.clone() }
    }
}

/// The writer.
pub struct Writer<T> {
    queue: mpsc::Sender<Message<T>>,
    thread: JoinHandle<()>,
}

impl<T: Display + Send + 'static> Audit<T> {
    /// Opens the log and starts its writer.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread not started.
    pub fn start(keeping: Keeping) -> io::Result<(Audit<T>, Writer<T>)> {
        let log = Log::open(keeping)?;
        let (queue, messages) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(log, messages))?;
        Ok((Audit { queue: queue.clone() }, Writer { queue, thread }))
    }

    /// Writes a line with the time `at_ms`. Only a full queue makes this wait.
    pub async fn note(&self, at_ms: u64, line: T) {
        // After the writer has ended, nobody receives it.
        let _ = self.queue.send(Message::Line(at_ms, line)).await;
    }
}

impl<T: Send + 'static> Writer<T> {
    /// Waits until everything noted so far is written.
    pub async fn close(self) {
        let Writer { queue, thread } = self;
        let _ = queue.send(Message::End).await;
        // A writer that panicked has already reported it.
        let _ = tokio::task::spawn_blocking(move || thread.join()).await;
    }
}

/// Appends a text that cannot break its line: lines of refused calls hold text that nobody has checked, even the name of a user.
pub fn put(out: &mut String, text: &str) {
    for (place, piece) in text.split(char::is_control).enumerate() {
        out.push_str(if place > 0 { "?" } else { "" });
        out.push_str(piece);
    }
}

/// The file, and the limits at which it is rotated.
struct Log {
    logger: &'static str,
    path: PathBuf,
    out: BufWriter<File>,
    bytes: u64,
    bytes_max: u64,
    files_max: u32,
    zone: TimeZone,
    has_failed: bool,
}

impl Log {
    fn open(keeping: Keeping) -> io::Result<Log> {
        let Keeping { logger, directory, bytes_max, files_max } = keeping;
        let path = directory.join(FILE_NAME);
        let file = append_to(&path)?;
        let bytes = file.metadata()?.len();
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let zone = TimeZone::system();
        Ok(Log { logger, path, out, bytes, bytes_max, files_max, zone, has_failed: false })
    }

    fn write(&mut self, at_ms: u64, line: &str) -> io::Result<()> {
        let at = Timestamp::from_millisecond(i64::try_from(at_ms).unwrap_or(i64::MAX));
        let at = at.unwrap_or_default().to_zoned(self.zone.clone());
        let time = at.strftime("%Y-%m-%d %H:%M:%S");
        let (milliseconds, logger) = (at_ms % 1000, self.logger);
        let text = format!("{time},{milliseconds:03} INFO {logger}: {line}\n");
        if self.bytes > 0 && self.bytes + text.len() as u64 > self.bytes_max {
            self.rotate()?;
        }
        self.bytes += text.len() as u64;
        self.out.write_all(text.as_bytes())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.out.flush()?;
        // Before anything is moved: if no file can be created, each attempt would push out the oldest one.
        let new = PathBuf::from(format!("{}.new", self.path.display()));
        let file = append_to(&new)?;
        let numbered = |number: u32| PathBuf::from(format!("{}.{number}", self.path.display()));
        for number in (1..self.files_max).rev() {
            move_if_there(&numbered(number), &numbered(number + 1))?;
        }
        if self.files_max > 0 {
            move_if_there(&self.path, &numbered(1))?;
        }
        fs::rename(&new, &self.path)?;
        self.out = BufWriter::with_capacity(BUFFER_BYTES, file);
        self.bytes = 0;
        Ok(())
    }

    /// Logs the first failure of a series.
    fn log_failure(&mut self, outcome: io::Result<()>) {
        if let (Err(error), false) = (&outcome, self.has_failed) {
            tracing::error!(path = %self.path.display(), %error, "the audit log loses lines");
        }
        self.has_failed = outcome.is_err();
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn move_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// Writes lines until the end message; passes them on to the system whenever none waits.
fn write_all<T: Display>(mut log: Log, mut messages: mpsc::Receiver<Message<T>>) {
    while let Some(first) = messages.blocking_recv() {
        // Nobody waits for a line; waking up for each would cost a tenth of the time that calls take.
        std::thread::sleep(GATHER);
        let mut next = Some(first);
        let mut has_ended = false;
        while let Some(message) = next {
            match message {
                Message::Line(at_ms, line) => {
                    let written = log.write(at_ms, &line.to_string());
                    log.log_failure(written);
                }
                Message::End => has_ended = true,
            }
            next = messages.try_recv().ok();
        }
        let flushed = log.out.flush();
        log.log_failure(flushed);
        if has_ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeping(directory: &Path, bytes_max: u64) -> Keeping {
        let directory = directory.to_owned();
        Keeping { logger: "X.audit", directory, bytes_max, files_max: 2 }
    }

    #[test]
    fn full_files_are_put_aside_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let line = "x".repeat(100);
        let mut log = Log::open(keeping(directory.path(), 400)).unwrap();
        for _ in 0..5 {
            log.write(1_767_609_005_678, &line).unwrap();
        }
        drop(log);
        let mut log = Log::open(keeping(directory.path(), 400)).unwrap();
        for _ in 0..8 {
            log.write(1_767_609_005_678, &line).unwrap();
        }
        log.out.flush().unwrap();
        let count = |name: &str| {
            fs::read_to_string(directory.path().join(name)).unwrap_or_default().lines().count()
        };
        assert_eq!(["audit.log", "audit.log.1", "audit.log.2"].map(count), [1, 2, 2]);
        assert!(!directory.path().join("audit.log.3").try_exists().unwrap());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(",678 INFO X.audit: xxx"), "{text}");
    }

    #[test]
    fn where_no_new_file_can_be_made_the_old_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut log = Log::open(keeping(directory.path(), 200)).unwrap();
        let line = "x".repeat(100);
        (0..3).for_each(|_| log.write(0, &line).unwrap());
        log.out.flush().unwrap();
        let new = directory.path().join("audit.log.new");
        fs::create_dir(&new).unwrap();
        (0..5).for_each(|_| assert!(log.write(0, &line).is_err()));
        let is_there = |name: &str| directory.path().join(name).try_exists().unwrap();
        assert_eq!(
            ["audit.log", "audit.log.1", "audit.log.2"].map(is_there),
            [true; 3],
            "nothing was pushed out"
        );
        fs::remove_dir(&new).unwrap();
        log.write(0, &line).unwrap();
        log.out.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    }

    #[tokio::test]
    async fn the_end_waits_for_what_was_noted() {
        let directory = tempfile::tempdir().unwrap();
        let (audit, writer) = Audit::start(keeping(directory.path(), 1 << 20)).unwrap();
        for number in 0..1000 {
            audit.note(0, number).await;
        }
        writer.close().await;
        let text = fs::read_to_string(directory.path().join(FILE_NAME)).unwrap();
        assert_eq!(text.lines().count(), 1000);
        // A remaining holder of the queue does not block.
        audit.note(0, 0).await;
    }

    #[test]
    fn a_line_stays_a_line() {
        let mut out = String::new();
        put(&mut out, "eve\nallowed=true\tugi=root");
        assert_eq!(out, "eve?allowed=true?ugi=root");
    }
}

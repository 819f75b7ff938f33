//! The audit log: one line for each call on the name space that was allowed or denied, in the format of HDFS's
//! `FSNamesystem.audit`, so that its tools read it.
//!
//! ```text
//! 2026-01-05 10:30:00,123 INFO FSNamesystem.audit: allowed=true⇥ugi=bob (auth:SIMPLE)⇥ip=/127.0.0.1⇥cmd=open⇥src=/x⇥dst=null⇥perm=null⇥proto=rpc
//! ```
//!
//! A thread of its own writes. Callers hand lines over through a bounded queue: when the disk is slower than the calls, calls wait,
//! and no line is lost. A disk that fails costs lines, never the NameNode. When the file is full it becomes `audit.log.1`, that one
//! `audit.log.2`, and so on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::acl::AclChange;
use protocol::namenode::{Answer, Call, QuotaChange, SafeModeAction};
use protocol::{DfsPath, ErrorKind};
use tokio::sync::mpsc;

use crate::config::Config;

/// Lines that wait for the writer; beyond that callers wait.
const QUEUE_MAX: usize = 8192;
/// How long lines are collected after the first one: with [`QUEUE_MAX`], calls wait only beyond 800,000 of them a second.
const GATHER: Duration = Duration::from_millis(10);
/// Collected before a write: some hundred lines.
const BUFFER_BYTES: usize = 64 << 10;
/// Room for what is told of a usual call.
const TOLD_BYTES: usize = 160;

/// Where a call came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    /// Address of the client; empty if it is not known.
    pub(crate) address: String,
    /// The protocol.
    pub(crate) protocol: &'static str,
}

/// A line to be.
struct Line {
    at_ms: u64,
    allowed: bool,
    /// [`told`].
    told: String,
    /// `owner:group:rwxr-xr-x` of what was changed.
    permissions: Option<String>,
    protocol: &'static str,
}

impl Line {
    /// All but the time.
    fn text(&self) -> String {
        let Line { allowed, told, protocol, .. } = self;
        let permissions = self.permissions.as_deref().unwrap_or("null");
        format!("allowed={allowed}\t{told}\tperm={permissions}\tproto={protocol}")
    }
}

/// What the writer is told.
enum Message {
    Line(Line),
    /// There will be no more.
    End,
}

/// The queue to the writer.
#[derive(Clone)]
pub(crate) struct Audit {
    queue: mpsc::Sender<Message>,
}

/// The writer.
pub(crate) struct Writer {
    queue: mpsc::Sender<Message>,
    thread: JoinHandle<()>,
}

impl Audit {
    /// Opens the log and starts its writer.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread not started.
    pub(crate) fn start(config: &Config) -> io::Result<(Audit, Writer)> {
        let log = Log::open(
            config.data_dir.join("audit.log"),
            config.audit_bytes_max,
            config.audit_files_max,
        )?;
        let (queue, messages) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("namenode-audit".to_owned())
            .spawn(move || write_all(log, messages))?;
        Ok((Audit { queue: queue.clone() }, Writer { queue, thread }))
    }

    /// Writes what came of a call. Only a full queue makes this wait.
    pub(crate) async fn note(
        &self,
        at_ms: u64,
        (told, permissions, protocol): (String, Option<String>, &'static str),
        answer: &Answer,
    ) {
        if let Some(allowed) = is_allowed(answer) {
            let line = Line { at_ms, allowed, told, permissions, protocol };
            // After the writer has ended nobody listens any more.
            let _ = self.queue.send(Message::Line(line)).await;
        }
    }
}

impl Writer {
    /// Waits until all that was noted so far is written.
    pub(crate) async fn close(self) {
        let Writer { queue, thread } = self;
        let _ = queue.send(Message::End).await;
        // A writer that has panicked has said so.
        let _ = tokio::task::spawn_blocking(move || thread.join()).await;
    }
}

/// Whether an answer is told as allowed or denied; other failures are not told, as in HDFS.
fn is_allowed(answer: &Answer) -> Option<bool> {
    match answer {
        Ok(_) => Some(true),
        Err(error) if error.kind == ErrorKind::PermissionDenied => Some(false),
        Err(_) => None,
    }
}

/// What a call is about: source or target.
#[derive(Clone, Copy, Debug)]
enum About<'a> {
    Nothing,
    Path(&'a DfsPath),
    Paths(&'a [DfsPath]),
    Snapshot(&'a DfsPath, &'a str),
}

impl About<'_> {
    fn put(self, out: &mut String) {
        match self {
            About::Nothing => out.push_str("null"),
            About::Path(path) => put(out, path.as_str()),
            About::Paths(paths) => {
                out.push('[');
                for (place, path) in paths.iter().enumerate() {
                    out.push_str(if place > 0 { ", " } else { "" });
                    put(out, path.as_str());
                }
                out.push(']');
            }
            About::Snapshot(path, name) => {
                put(out, path.as_str());
                out.push_str("/.snapshot/");
                put(out, name);
            }
        }
    }
}

/// Appends a text in which a line stays a line: not even the name of a user is checked before it is refused.
fn put(out: &mut String, text: &str) {
    for (place, piece) in text.split(char::is_control).enumerate() {
        out.push_str(if place > 0 { "?" } else { "" });
        out.push_str(piece);
    }
}

/// What is told of a call, from `ugi` to `dst`; `None` for calls on blocks and leases, which HDFS does not tell either.
pub(crate) fn told((user, host): (&str, &str), call: &Call) -> Option<String> {
    let Entry { command, source, target } = Entry::of(call)?;
    let mut out = String::with_capacity(TOLD_BYTES);
    for (name, text) in [("ugi=", user), (" (auth:SIMPLE)\tip=/", host), ("\tcmd=", command)] {
        out.push_str(name);
        put(&mut out, text);
    }
    for (name, about) in [("\tsrc=", source), ("\tdst=", target)] {
        out.push_str(name);
        about.put(&mut out);
    }
    Some(out)
}

/// What a call is about.
struct Entry<'a> {
    command: &'static str,
    source: About<'a>,
    target: About<'a>,
}

impl<'a> Entry<'a> {
    fn new(command: &'static str, source: About<'a>, target: About<'a>) -> Self {
        Entry { command, source, target }
    }

    fn of_path(command: &'static str, path: &'a DfsPath) -> Self {
        Entry::new(command, About::Path(path), About::Nothing)
    }

    fn of_system(command: &'static str) -> Self {
        Entry::new(command, About::Nothing, About::Nothing)
    }

    fn of(call: &'a Call) -> Option<Self> {
        Some(match call {
            Call::Status(path) => Entry::of_path("getfileinfo", path),
            Call::List { path, .. } => Entry::of_path("listStatus", path),
            Call::ContentSummary(path) => Entry::of_path("contentSummary", path),
            Call::Locations { path, .. } => Entry::of_path("open", path),
            Call::Fsck { path, .. } => Entry::of_path("fsck", path),
            Call::Mkdirs { path, .. } => Entry::of_path("mkdirs", path),
            Call::Create(create) => Entry::of_path("create", &create.path),
            Call::Append { path, .. } => Entry::of_path("append", path),
            Call::Truncate { path, .. } => Entry::of_path("truncate", path),
            Call::Concat { target, sources } => {
                Entry::new("concat", About::Paths(sources), About::Path(target))
            }
            Call::RecoverLease(path) => Entry::of_path("recoverLease", path),
            Call::Rename { from, to, overwrite } => {
                let command = match overwrite {
                    None => "rename",
                    Some(false) => "rename (options=[NONE])",
                    Some(true) => "rename (options=[OVERWRITE])",
                };
                Entry::new(command, About::Path(from), About::Path(to))
            }
            Call::Complete { publish: Some(publish), .. } => {
                Entry::of_path("publish", &publish.path)
            }
            Call::Delete { path, .. } => Entry::of_path("delete", path),
            Call::SetReplication { path, .. } => Entry::of_path("setReplication", path),
            Call::SetMode { path, .. } => Entry::of_path("setPermission", path),
            Call::SetOwner { path, .. } => Entry::of_path("setOwner", path),
            Call::SetTimes { path, .. } => Entry::of_path("setTimes", path),
            Call::CheckAccess { path, .. } => Entry::of_path("checkAccess", path),
            other => return Entry::of_rights(other).or_else(|| Entry::of_administration(other)),
        })
    }

    fn of_rights(call: &'a Call) -> Option<Self> {
        Some(match call {
            Call::GetAcl(path) => Entry::of_path("getAclStatus", path),
            Call::ChangeAcl { path, change } => {
                let command = match change {
                    AclChange::Modify(_) => "modifyAclEntries",
                    AclChange::Remove(_) => "removeAclEntries",
                    AclChange::RemoveDefault => "removeDefaultAcl",
                    AclChange::RemoveAll => "removeAcl",
                    AclChange::Replace(_) => "setAcl",
                };
                Entry::of_path(command, path)
            }
            Call::GetXattrs { path, .. } => Entry::of_path("getXAttrs", path),
            Call::SetXattr { path, .. } => Entry::of_path("setXAttr", path),
            Call::RemoveXattr { path, .. } => Entry::of_path("removeXAttr", path),
            _ => return None,
        })
    }

    fn of_administration(call: &'a Call) -> Option<Self> {
        Some(match call {
            Call::SetQuota { path, names, space } => {
                let clears =
                    [names, space].iter().all(|change| !matches!(change, QuotaChange::Set(_)));
                Entry::of_path(if clears { "clearQuota" } else { "setQuota" }, path)
            }
            Call::AllowSnapshot(path) => Entry::of_path("allowSnapshot", path),
            Call::DisallowSnapshot(path) => Entry::of_path("disallowSnapshot", path),
            Call::CreateSnapshot { path, name } => {
                let name = name.as_deref();
                let target = name.map_or(About::Nothing, |name| About::Snapshot(path, name));
                Entry::new("createSnapshot", About::Path(path), target)
            }
            Call::RenameSnapshot { path, from, to } => {
                let (source, target) = (About::Snapshot(path, from), About::Snapshot(path, to));
                Entry::new("renameSnapshot", source, target)
            }
            Call::DeleteSnapshot { path, name } => {
                Entry::new("deleteSnapshot", About::Snapshot(path, name), About::Nothing)
            }
            Call::SnapshotDiff { path, from, to, .. } => {
                let (source, target) = (About::Snapshot(path, from), About::Snapshot(path, to));
                Entry::new("computeSnapshotDiff", source, target)
            }
            Call::SnapshottableDirectories => Entry::of_system("listSnapshottableDirectory"),
            Call::SafeMode(action) => Entry::of_system(match action {
                SafeModeAction::Get => "safemode_get",
                SafeModeAction::Enter => "safemode_enter",
                SafeModeAction::Leave => "safemode_leave",
                SafeModeAction::ForceLeave => "safemode_force_exit",
            }),
            Call::SaveNamespace => Entry::of_system("saveNamespace"),
            Call::RollEdits => Entry::of_system("rollEditLog"),
            Call::Metasave(_) => Entry::of_system("metaSave"),
            Call::OpenFiles { .. } => Entry::of_system("listOpenFiles"),
            Call::RefreshNodes => Entry::of_system("refreshNodes"),
            Call::ShutDownDatanode { .. } => Entry::of_system("shutdownDatanode"),
            Call::ReadImage { offset: 0, .. } => Entry::of_system("fetchImage"),
            Call::SetBalancerBandwidth(_) => Entry::of_system("setBalancerBandwidth"),
            Call::Datanodes => Entry::of_system("datanodeReport"),
            _ => return None,
        })
    }
}

/// The file, and when it is full.
struct Log {
    path: PathBuf,
    out: BufWriter<File>,
    bytes: u64,
    bytes_max: u64,
    files_max: u32,
    zone: TimeZone,
    has_failed: bool,
}

impl Log {
    fn open(path: PathBuf, bytes_max: u64, files_max: u32) -> io::Result<Log> {
        let file = append_to(&path)?;
        let bytes = file.metadata()?.len();
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let zone = TimeZone::system();
        Ok(Log { path, out, bytes, bytes_max, files_max, zone, has_failed: false })
    }

    fn write(&mut self, at_ms: u64, line: &str) -> io::Result<()> {
        let at = Timestamp::from_millisecond(i64::try_from(at_ms).unwrap_or(i64::MAX));
        let at = at.unwrap_or_default().to_zoned(self.zone.clone());
        let time = at.strftime("%Y-%m-%d %H:%M:%S");
        let text = format!("{time},{:03} INFO FSNamesystem.audit: {line}\n", at_ms % 1000);
        if self.bytes > 0 && self.bytes + text.len() as u64 > self.bytes_max {
            self.rotate()?;
        }
        self.bytes += text.len() as u64;
        self.out.write_all(text.as_bytes())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.out.flush()?;
        // Before anything is moved: where no file can be made, each try would push out the oldest one.
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

    /// Tells the first failure of a series.
    fn tell(&mut self, outcome: io::Result<()>) {
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

/// Writes lines until the end is told; passes them on to the system whenever none waits.
fn write_all(mut log: Log, mut messages: mpsc::Receiver<Message>) {
    while let Some(first) = messages.blocking_recv() {
        // Nobody waits for a line; waking up for each would cost a tenth of the time that calls take.
        std::thread::sleep(GATHER);
        let mut next = Some(first);
        let mut has_ended = false;
        while let Some(message) = next {
            match message {
                Message::Line(line) => {
                    let written = log.write(line.at_ms, &line.text());
                    log.tell(written);
                }
                Message::End => has_ended = true,
            }
            next = messages.try_recv().ok();
        }
        let flushed = log.out.flush();
        log.tell(flushed);
        if has_ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::RemoteError;
    use protocol::namenode::Reply;

    fn dfs(path: &str) -> DfsPath {
        DfsPath::parse(path).unwrap()
    }

    fn line(allowed: bool, user: &str, call: &Call, permissions: Option<&str>) -> String {
        let told = told((user, "127.0.0.1"), call).unwrap();
        let permissions = permissions.map(str::to_owned);
        Line { at_ms: 0, allowed, told, permissions, protocol: "rpc" }.text()
    }

    #[test]
    fn lines_are_hdfs() {
        let start = "allowed=true\tugi=alice (auth:SIMPLE)\tip=/127.0.0.1\tcmd=";
        let rename = Call::Rename { from: dfs("/a"), to: dfs("/b"), overwrite: None };
        let permissions = Some("alice:grp:rw-r--r--");
        for (call, permissions, rest) in [
            (
                Call::Locations { path: dfs("/x"), offset: 0, length: 1 },
                None,
                "open\tsrc=/x\tdst=null\tperm=null\tproto=rpc",
            ),
            (rename, permissions, "rename\tsrc=/a\tdst=/b\tperm=alice:grp:rw-r--r--\tproto=rpc"),
            (
                Call::SafeMode(SafeModeAction::Enter),
                None,
                "safemode_enter\tsrc=null\tdst=null\tperm=null\tproto=rpc",
            ),
            (
                Call::DeleteSnapshot { path: dfs("/d"), name: "s".to_owned() },
                None,
                "deleteSnapshot\tsrc=/d/.snapshot/s\tdst=null\tperm=null\tproto=rpc",
            ),
            (
                Call::Concat { target: dfs("/t"), sources: vec![dfs("/a"), dfs("/b")] },
                permissions,
                "concat\tsrc=[/a, /b]\tdst=/t\tperm=alice:grp:rw-r--r--\tproto=rpc",
            ),
        ] {
            assert_eq!(line(true, "alice", &call, permissions), format!("{start}{rest}"));
        }
        assert_eq!(told(("alice", ""), &Call::RenewLease), None);
        let status = Call::Status(dfs("/x"));
        let forged = line(false, "eve\nallowed=true\tugi=root", &status, None);
        assert!(forged.starts_with("allowed=false\tugi=eve?allowed=true?ugi=root (auth:SIMPLE)\t"));
    }

    #[test]
    fn only_rights_count() {
        let refused = |kind| Err(RemoteError::new(kind, ""));
        assert_eq!(is_allowed(&Ok(Reply::Done)), Some(true));
        assert_eq!(is_allowed(&refused(ErrorKind::PermissionDenied)), Some(false));
        assert_eq!(is_allowed(&refused(ErrorKind::NotFound)), None);
    }

    #[test]
    fn full_files_are_put_aside_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let line = "x".repeat(100);
        let mut log = Log::open(path.clone(), 400, 2).unwrap();
        for _ in 0..5 {
            log.write(1_767_609_005_678, &line).unwrap();
        }
        drop(log);
        let mut log = Log::open(path.clone(), 400, 2).unwrap();
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
        assert!(text.contains(",678 INFO FSNamesystem.audit: xxx"), "{text}");
    }

    #[test]
    fn where_no_new_file_can_be_made_the_old_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut log = Log::open(path.clone(), 200, 2).unwrap();
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
        let config = Config { data_dir: directory.path().to_owned(), ..Config::default() };
        let (audit, writer) = Audit::start(&config).unwrap();
        let call = Call::Status(dfs("/x"));
        for _ in 0..1000 {
            let told = told(("alice", ""), &call).unwrap();
            audit.note(0, (told, None, "rpc"), &Ok(Reply::Done)).await;
        }
        writer.close().await;
        let text = fs::read_to_string(directory.path().join("audit.log")).unwrap();
        assert_eq!(text.lines().count(), 1000);
        // Who still holds the queue is not held up.
        audit.note(0, (String::new(), None, "rpc"), &Ok(Reply::Done)).await;
    }
}

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

use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::acl::AclChange;
use protocol::namenode::{Answer, Call, QuotaChange, SafeModeAction};
use protocol::{DfsPath, ErrorKind};
use tokio::sync::mpsc;

use crate::config::Config;

/// Lines that wait for the writer; beyond that callers wait.
const QUEUE_MAX: usize = 8192;
/// Collected before a write: some hundred lines.
const BUFFER_BYTES: usize = 64 << 10;

/// Where a call came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Origin<'a> {
    /// Address or name of the machine; empty if it is not known.
    pub(crate) host: &'a str,
    /// The protocol.
    pub(crate) protocol: &'static str,
}

/// What a call is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    command: &'static str,
    source: Option<String>,
    target: Option<String>,
    /// Whose owner, group and permissions are told.
    pub(crate) shown: Option<DfsPath>,
}

/// The queue to the writer.
#[derive(Clone)]
pub(crate) struct Audit {
    queue: mpsc::Sender<(u64, String)>,
}

impl Audit {
    /// Opens the log and starts its writer; ends when the last clone is dropped.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread not started.
    pub(crate) fn start(config: &Config) -> io::Result<Audit> {
        let log = Log::open(
            config.data_dir.join("audit.log"),
            config.audit_bytes_max,
            config.audit_files_max,
        )?;
        let (queue, lines) = mpsc::channel(QUEUE_MAX);
        std::thread::Builder::new()
            .name("namenode-audit".to_owned())
            .spawn(move || write_all(log, lines))?;
        Ok(Audit { queue })
    }

    /// Writes what came of a call. Only a full queue makes this wait.
    pub(crate) async fn note(
        &self,
        (at_ms, user, origin): (u64, &str, Origin<'_>),
        (entry, permissions): (&Entry, Option<&str>),
        answer: &Answer,
    ) {
        if let Some(allowed) = is_allowed(answer) {
            let line = line(allowed, user, origin, (entry, permissions));
            // After the writer has ended nobody listens any more.
            let _ = self.queue.send((at_ms, line)).await;
        }
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

fn line(
    allowed: bool,
    user: &str,
    origin: Origin<'_>,
    (entry, permissions): (&Entry, Option<&str>),
) -> String {
    let or_null = |text: Option<&str>| text.unwrap_or("null").to_owned();
    // A user's name is not checked before it is refused.
    let plain = |text: &str| -> String {
        text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    };
    format!(
        "allowed={allowed}\tugi={} (auth:SIMPLE)\tip=/{}\tcmd={}\tsrc={}\tdst={}\tperm={}\tproto={}",
        plain(user),
        plain(origin.host),
        entry.command,
        plain(&or_null(entry.source.as_deref())),
        plain(&or_null(entry.target.as_deref())),
        or_null(permissions),
        origin.protocol,
    )
}

impl Entry {
    fn of_path(command: &'static str, path: &DfsPath) -> Self {
        let source = Some(path.to_string());
        Entry { command, source, target: None, shown: None }
    }

    fn changing(command: &'static str, path: &DfsPath) -> Self {
        Entry { shown: Some(path.clone()), ..Entry::of_path(command, path) }
    }

    fn moving(command: &'static str, from: &DfsPath, to: &DfsPath) -> Self {
        let (target, shown) = (Some(to.to_string()), Some(to.clone()));
        Entry { target, shown, ..Entry::of_path(command, from) }
    }

    fn of_system(command: &'static str) -> Self {
        Entry { command, source: None, target: None, shown: None }
    }

    /// What is told of a call; `None` for calls on blocks and leases, which HDFS does not tell either.
    pub(crate) fn of(call: &Call) -> Option<Entry> {
        Some(match call {
            Call::Status(path) => Entry::of_path("getfileinfo", path),
            Call::List { path, .. } => Entry::of_path("listStatus", path),
            Call::ContentSummary(path) => Entry::of_path("contentSummary", path),
            Call::Locations { path, .. } => Entry::of_path("open", path),
            Call::Fsck { path, .. } => Entry::of_path("fsck", path),
            Call::Mkdirs { path, .. } => Entry::changing("mkdirs", path),
            Call::Create(create) => Entry::changing("create", &create.path),
            Call::Append { path, .. } => Entry::of_path("append", path),
            Call::Truncate { path, .. } => Entry::changing("truncate", path),
            Call::Concat { target, sources } => {
                let sources: Vec<&str> = sources.iter().map(DfsPath::as_str).collect();
                let source = Some(format!("[{}]", sources.join(", ")));
                Entry { source, ..Entry::moving("concat", target, target) }
            }
            Call::RecoverLease(path) => Entry::of_path("recoverLease", path),
            Call::Rename { from, to, overwrite } => {
                let command = match overwrite {
                    None => "rename",
                    Some(false) => "rename (options=[NONE])",
                    Some(true) => "rename (options=[OVERWRITE])",
                };
                Entry::moving(command, from, to)
            }
            Call::Complete { publish: Some(publish), .. } => {
                Entry::changing("publish", &publish.path)
            }
            Call::Delete { path, .. } => Entry::of_path("delete", path),
            Call::SetReplication { path, .. } => Entry::of_path("setReplication", path),
            Call::SetMode { path, .. } => Entry::changing("setPermission", path),
            Call::SetOwner { path, .. } => Entry::changing("setOwner", path),
            Call::SetTimes { path, .. } => Entry::changing("setTimes", path),
            Call::CheckAccess { path, .. } => Entry::of_path("checkAccess", path),
            other => return Entry::of_rights(other).or_else(|| Entry::of_administration(other)),
        })
    }

    fn of_rights(call: &Call) -> Option<Entry> {
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
                Entry::changing(command, path)
            }
            Call::GetXattrs { path, .. } => Entry::of_path("getXAttrs", path),
            Call::SetXattr { path, .. } => Entry::changing("setXAttr", path),
            Call::RemoveXattr { path, .. } => Entry::changing("removeXAttr", path),
            _ => return None,
        })
    }

    fn of_administration(call: &Call) -> Option<Entry> {
        let snapshot = |path: &DfsPath, name: &str| Some(format!("{path}/.snapshot/{name}"));
        Some(match call {
            Call::SetQuota { path, names, space } => {
                let clears =
                    [names, space].iter().all(|change| !matches!(change, QuotaChange::Set(_)));
                Entry::of_path(if clears { "clearQuota" } else { "setQuota" }, path)
            }
            Call::AllowSnapshot(path) => Entry::of_path("allowSnapshot", path),
            Call::DisallowSnapshot(path) => Entry::of_path("disallowSnapshot", path),
            Call::CreateSnapshot { path, name } => {
                let target = name.as_deref().and_then(|name| snapshot(path, name));
                Entry { target, ..Entry::of_path("createSnapshot", path) }
            }
            Call::RenameSnapshot { path, from, to } => {
                let (source, target) = (snapshot(path, from), snapshot(path, to));
                Entry { source, target, ..Entry::of_path("renameSnapshot", path) }
            }
            Call::DeleteSnapshot { path, name } => {
                Entry { source: snapshot(path, name), ..Entry::of_path("deleteSnapshot", path) }
            }
            Call::SnapshotDiff { path, from, to, .. } => {
                let (source, target) = (snapshot(path, from), snapshot(path, to));
                Entry { source, target, ..Entry::of_path("computeSnapshotDiff", path) }
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
        let numbered = |number: u32| PathBuf::from(format!("{}.{number}", self.path.display()));
        for number in (1..self.files_max).rev() {
            move_if_there(&numbered(number), &numbered(number + 1))?;
        }
        match self.files_max {
            0 => fs::remove_file(&self.path)?,
            _ => move_if_there(&self.path, &numbered(1))?,
        }
        self.out = BufWriter::with_capacity(BUFFER_BYTES, append_to(&self.path)?);
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

/// Writes lines until all senders are gone; passes them on to the system whenever none waits.
fn write_all(mut log: Log, mut lines: mpsc::Receiver<(u64, String)>) {
    while let Some((at_ms, line)) = lines.blocking_recv() {
        let written = log.write(at_ms, &line);
        log.tell(written);
        while let Ok((at_ms, line)) = lines.try_recv() {
            let written = log.write(at_ms, &line);
            log.tell(written);
        }
        let flushed = log.out.flush();
        log.tell(flushed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::RemoteError;
    use protocol::namenode::Reply;

    const RPC: Origin<'static> = Origin { host: "127.0.0.1", protocol: "rpc" };

    fn dfs(path: &str) -> DfsPath {
        DfsPath::parse(path).unwrap()
    }

    fn told(call: &Call, permissions: Option<&str>) -> String {
        line(true, "alice", RPC, (&Entry::of(call).unwrap(), permissions))
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
        ] {
            assert_eq!(told(&call, permissions), format!("{start}{rest}"));
        }
        assert_eq!(Entry::of(&Call::RenewLease), None);
        let entry = Entry::of(&Call::Status(dfs("/x"))).unwrap();
        let forged = line(false, "eve\nallowed=true\tugi=root", RPC, (&entry, None));
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
}

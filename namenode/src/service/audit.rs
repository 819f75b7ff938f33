//! What the audit log records of each call on the name space that was allowed or denied, in the format of HDFS's `FSNamesystem.audit`, so
//! that its tools can read it. [`daemon::audit`] keeps the lines.
//!
//! ```text
//! 2026-01-05 10:30:00,123 INFO FSNamesystem.audit: allowed=true⇥ugi=bob (auth:SIMPLE)⇥ip=/127.0.0.1⇥cmd=open⇥src=/x⇥dst=null⇥perm=null⇥proto=rpc
//! ```

use std::fmt;
use std::io;

use daemon::audit::{self, Keeping, put};
use protocol::acl::AclChange;
use protocol::namenode::{Answer, Call, QuotaChange, SafeModeAction};
use protocol::{DfsPath, ErrorKind};

use crate::config::Config;

/// Stands before each line, as in HDFS.
const LOGGER: &str = "FSNamesystem.audit";
/// Room for what is logged of a usual call.
const DETAIL_BYTES: usize = 160;

/// The queue to the writer.
pub(crate) type Audit = audit::Audit<Line>;
/// The writer.
pub(crate) type Writer = audit::Writer<Line>;

/// Where a call came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    /// Address of the client; empty if it is not known.
    pub(crate) address: String,
    /// The protocol.
    pub(crate) protocol: &'static str,
}

/// A line to write: all but the time.
pub(crate) struct Line {
    allowed: bool,
    /// [`detail`].
    detail: String,
    /// `owner:group:rwxr-xr-x` of what was changed.
    permissions: Option<String>,
    protocol: &'static str,
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { allowed, detail, protocol, .. } = self;
        let permissions = self.permissions.as_deref().unwrap_or("null");
        write!(out, "allowed={allowed}\t{detail}\tperm={permissions}\tproto={protocol}")
    }
}

/// Opens the log and starts its writer.
///
/// # Errors
/// If the file cannot be opened or the thread not started.
pub(crate) fn start(config: &Config) -> io::Result<(Audit, Writer)> {
    Audit::start(Keeping {
        logger: LOGGER,
        directory: config.data_dir.clone(),
        bytes_max: config.audit_bytes_max,
        files_max: config.audit_files_max,
    })
}

/// The line of a call that came to an end; none for failures that are not logged, as in HDFS.
pub(crate) fn line(
    (detail, permissions, protocol): (String, Option<String>, &'static str),
    answer: &Answer,
) -> Option<Line> {
    let allowed = is_allowed(answer)?;
    Some(Line { allowed, detail, permissions, protocol })
}

/// Whether an answer is logged as allowed or denied; other failures are not logged, as in HDFS.
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

/// What is logged of a call, from `ugi` to `dst`; `None` for calls on blocks and leases, which HDFS does not log either.
pub(crate) fn detail((user, host): (&str, &str), call: &Call) -> Option<String> {
    let Entry { command, source, target } = Entry::of(call)?;
    let mut out = String::with_capacity(DETAIL_BYTES);
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
            Call::GetStoragePolicy(path) => Entry::of_path("getStoragePolicy", path),
            Call::SetStoragePolicy { path, policy } => {
                let sets = policy.is_some();
                Entry::of_path(if sets { "setStoragePolicy" } else { "unsetStoragePolicy" }, path)
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::RemoteError;
    use protocol::namenode::Reply;

    fn dfs(path: &str) -> DfsPath {
        DfsPath::parse(path).unwrap()
    }

    fn line(allowed: bool, user: &str, call: &Call, permissions: Option<&str>) -> String {
        let detail = detail((user, "127.0.0.1"), call).unwrap();
        let permissions = permissions.map(str::to_owned);
        Line { allowed, detail, permissions, protocol: "rpc" }.to_string()
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
        assert_eq!(detail(("alice", ""), &Call::RenewLease), None);
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
}

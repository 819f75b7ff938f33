//! What the audit log records of each call on the name space that was allowed or denied, in the format of HDFS's `FSNamesystem.audit`, so
//! that its tools can read it. [`daemon::audit`] keeps the lines.
//!
//! ```text
//! 2026-01-05 10:30:00,123 INFO FSNamesystem.audit: allowed=true⇥ugi=bob (auth:SIMPLE)⇥ip=/127.0.0.1⇥cmd=open⇥src=/x⇥dst=null⇥perm=null⇥proto=rpc
//! ```

use std::fmt;
use std::io;

use daemon::audit::{self, Keeping, put};
use protocol::ErrorKind;
use protocol::namenode::{About, Answer, Call, Logged};

use crate::config::Config;

/// Stands before each line, as in HDFS.
const LOGGER: &str = "FSNamesystem.audit";
/// Room for what is logged of a usual call.
const DETAIL_BYTES: usize = 160;
/// Bytes of what is logged of a call: two of the longest paths with their user, or the first of the files that are joined.
const DETAIL_BYTES_MAX: usize = 32 << 10;

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

/// What is logged of a call, from `ugi` to `dst`; `None` for calls on blocks and leases, which HDFS does not log either.
pub(crate) fn detail((user, host): (&str, &str), call: &Call) -> Option<String> {
    let Logged { command, source, target, .. } = call.logged()?;
    let mut out = String::with_capacity(DETAIL_BYTES);
    for (name, text) in [("ugi=", user), (" (auth:SIMPLE)\tip=/", host), ("\tcmd=", command)] {
        out.push_str(name);
        put(&mut out, text);
    }
    for (name, about) in [("\tsrc=", source), ("\tdst=", target)] {
        out.push_str(name);
        put_about(about, &mut out);
    }
    if out.len() > DETAIL_BYTES_MAX {
        out.truncate(out.floor_char_boundary(DETAIL_BYTES_MAX));
        out.push_str("...");
    }
    Some(out)
}

fn put_about(about: About<'_>, out: &mut String) {
    match about {
        About::Nothing => out.push_str("null"),
        About::Path(path) => put(out, path.as_str()),
        About::File(file) => out.push_str(&format!("/.reserved/.inodes/{}", file.0)),
        About::Paths(paths) => {
            out.push('[');
            for (place, path) in paths.iter().enumerate() {
                if out.len() > DETAIL_BYTES_MAX {
                    return;
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::namenode::{Reply, SafeModeAction};
    use protocol::{DfsPath, InodeId, RemoteError};

    fn dfs(path: &str) -> DfsPath {
        DfsPath::parse(path).unwrap()
    }

    fn line(allowed: bool, user: &str, call: &Call, permissions: Option<&str>) -> String {
        let detail = detail((user, "127.0.0.1"), call).unwrap();
        let permissions = permissions.map(str::to_owned);
        Line { allowed, detail, permissions, protocol: "rpc" }.to_string()
    }

    #[test]
    fn a_line_is_bounded_whatever_a_call_names() {
        let long = format!("/{}", ["ü"; 100].concat());
        let sources = (0..10_000).map(|number| dfs(&format!("{long}{number}"))).collect();
        let joined = line(true, "alice", &Call::Concat { target: dfs("/t"), sources }, None);
        assert!((DETAIL_BYTES_MAX..DETAIL_BYTES_MAX + 200).contains(&joined.len()));
        let name = "n".repeat(1 << 20);
        let snapshot = Call::CreateSnapshot { path: dfs("/a"), name: Some(name) };
        let denied = line(false, "alice", &snapshot, None);
        assert!(denied.len() < DETAIL_BYTES_MAX + 200, "{}", denied.len());
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
        let abandon = |keep| Call::AbandonFile { file: InodeId(7), keep, unused: None };
        let deleted = line(true, "alice", &abandon(false), None);
        let rest = "abandonFile\tsrc=/.reserved/.inodes/7\tdst=null\tperm=null\tproto=rpc";
        assert_eq!(deleted, format!("{start}{rest}"));
        assert_eq!(detail(("alice", ""), &abandon(true)), None);
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

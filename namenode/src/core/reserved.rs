//! The directory `/.reserved`, which no edit makes: below `/.reserved/raw` HDFS shows the whole tree again, and with it the extended
//! attributes of the namespace `raw`.
//!
//! `Named::of` runs before every call, read or change, and replaces such paths by the plain ones. The code behind it never sees such a
//! path, so each of them leads to the same inode as its plain one, with the same rights. Only the superuser can make changes by such a
//! path, as in HDFS.

use std::borrow::Cow;

use protocol::namenode::{Call, FileStatus};
use protocol::path::{RESERVED, RESERVED_RAW};
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use super::rights::Caller;
use super::state::State;
use crate::error::refuse;

/// Permission bits of `/.reserved`, as HDFS shows it.
const RESERVED_MODE: u16 = 0o1770;
/// Permission bits of `/.reserved/raw` in the listing of its directory.
const RAW_MODE: u16 = 0o770;

/// A call with the paths that it refers to.
pub(super) struct Named<'a> {
    pub(super) call: Cow<'a, Call>,
    /// One of its paths was below `/.reserved/raw`.
    pub(super) is_raw: bool,
}

impl<'a> Named<'a> {
    /// The call with its plain paths.
    ///
    /// # Errors
    /// A refusal of calls that cannot have such a path.
    pub(super) fn of(call: &'a Call) -> Result<Self, RemoteError> {
        let mut raw = None;
        call.each_path(|path| {
            if raw.is_none() && path.of_raw().is_some() {
                raw = Some(path);
            }
        });
        let Some(path) = raw else {
            return Ok(Named { call: Cow::Borrowed(call), is_raw: false });
        };
        if matches!(call, Call::Concat { .. }) {
            let text =
                format!("Concat operation doesn't support {RESERVED} relative path : {path}");
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        let mut call = call.clone();
        call.each_path_mut(|path| {
            if let Some(plain) = path.of_raw() {
                *path = plain;
            }
        });
        Ok(Named { call: Cow::Owned(call), is_raw: true })
    }
}

impl State {
    /// A changing call with its plain paths.
    ///
    /// # Errors
    /// A refusal, if the caller may not make it by such a path.
    pub(super) fn named_to_change<'a>(
        &self,
        call: &'a Call,
        caller: Caller<'_>,
    ) -> Result<Named<'a>, RemoteError> {
        let named = Named::of(call)?;
        if named.is_raw {
            self.guard(caller).check_superuser()?;
        }
        Ok(named)
    }

    /// Status of `/.reserved`.
    pub(super) fn reserved_status(&self) -> FileStatus {
        FileStatus {
            directory: true,
            mode: RESERVED_MODE,
            children_count: 1,
            ..FileStatus::default()
        }
    }

    /// What `/.reserved` has after a name.
    pub(super) fn reserved_entries(&self, after: &str) -> Vec<FileStatus> {
        let name = RESERVED_RAW.rsplit('/').next().unwrap_or_default();
        let Some(root) = self.ns.inode(InodeId::ROOT).filter(|_| name > after) else {
            return Vec::new();
        };
        let status = self.ns.status(InodeId::ROOT, root, name);
        vec![FileStatus { mode: RAW_MODE, snapshottable: false, ..status }]
    }
}

/// True for `/.reserved` itself.
pub(super) fn is_reserved(path: &DfsPath) -> bool {
    path.as_str().strip_prefix('/') == Some(RESERVED)
}

#[cfg(test)]
mod tests {
    use protocol::namenode::{Answer, DOT_SNAPSHOT, Publish, QuotaChange, Reply};
    use protocol::permission::Action;

    use super::super::query::Reader;
    use super::super::tests::harness::{Harness, create, dfs, written};
    use super::*;

    const BOB: Caller<'_> = Caller { user: "bob", groups: &[], is_superuser: false };

    fn ask(h: &Harness, caller: Caller<'_>, call: &Call) -> Answer {
        h.state.query(&h.nodes, call, Reader { caller, host: "", now: h.now, txid: 0 })
    }

    #[test]
    fn every_read_by_the_raw_path_answers_as_by_the_plain_one() {
        let mut h = Harness::with_nodes(1, 3);
        h.write("/d/f", 100, 3);
        h.call(Call::AllowSnapshot(dfs("/d"))).unwrap();
        let name = Some("s".to_owned());
        h.call(Call::CreateSnapshot { path: dfs("/d"), name }).unwrap();
        h.call(Call::SetMode { path: dfs("/d/f"), mode: 0o600 }).unwrap();
        let ann = Caller { user: "ann", groups: &[], is_superuser: true };
        let snapshot = format!("/d/{DOT_SNAPSHOT}/s/f");
        for (plain, raw) in [
            ("/", "/.reserved/raw".to_owned()),
            ("/d", "/.reserved/raw/d".to_owned()),
            ("/d/f", "/.reserved/raw/d/f".to_owned()),
            ("/d/none", "/.reserved/raw/d/none".to_owned()),
            (&snapshot, format!("/.reserved/raw{snapshot}")),
        ] {
            let calls = |path: &str| {
                let path = dfs(path);
                let (from, to) = ("s".to_owned(), String::new());
                [
                    Call::Status(path.clone()),
                    Call::List { path: path.clone(), start_after: String::new(), limit: 10 },
                    Call::ContentSummary(path.clone()),
                    Call::Locations { path: path.clone(), offset: 0, length: 100 },
                    Call::Fsck { path: path.clone(), after: None },
                    Call::SnapshotDiff { path: path.clone(), from, to, skip: 0 },
                    Call::Snapshots { path: path.clone(), after: None },
                    Call::GetAcl(path.clone()),
                    Call::GetXattrs { path: path.clone(), names: Vec::new() },
                    Call::GetStoragePolicy(path.clone()),
                    Call::CheckAccess { path, action: Action::READ },
                ]
            };
            for caller in [ann, BOB] {
                for (plain, raw) in calls(plain).iter().zip(&calls(&raw)) {
                    assert_eq!(ask(&h, caller, plain), ask(&h, caller, raw), "{raw:?}");
                }
            }
        }
    }

    #[test]
    fn changes_by_the_raw_path_are_the_superusers_and_change_the_plain_one() {
        let mut h = Harness::with_nodes(1, 3);
        h.call(Call::Mkdirs { path: dfs("/d"), mode: 0o777, unmasked: None, parents: true })
            .unwrap();
        let raw = |path: &str| dfs(&format!("/.reserved/raw{path}"));
        let mkdirs = |path| Call::Mkdirs { path, mode: 0o755, unmasked: None, parents: true };
        for call in [
            mkdirs(raw("/d/x")),
            create("/.reserved/raw/d/x", true, None, true),
            Call::Delete { path: raw("/d"), recursive: true },
            Call::Rename { from: dfs("/d"), to: raw("/e"), overwrite: None },
            Call::Rename { from: raw("/d"), to: dfs("/e"), overwrite: Some(true) },
        ] {
            let error = h.call_as(BOB, call).unwrap_err();
            assert_eq!(error.kind, ErrorKind::PermissionDenied);
            assert!(error.message.contains("Superuser privilege is required"), "{error}");
        }
        assert_eq!(h.call(mkdirs(raw("/d/x"))), Ok(Reply::Done));
        let created = h.call(create("/.reserved/raw/d/x/f", true, None, true));
        let Ok(Reply::Created(created)) = created else { panic!("{created:?}") };
        let last = Some(written(&created.first_block.unwrap(), 10));
        let publish = Some(Publish { path: raw("/d/x/g"), overwrite: false });
        assert_eq!(h.call(Call::Complete { file: created.file, last, publish }), Ok(Reply::Done));
        for (call, expected) in [
            (
                Call::Rename { from: raw("/d/x/g"), to: dfs("/d/h"), overwrite: None },
                Reply::Flag(true),
            ),
            (Call::SetReplication { path: raw("/d/h"), replication: 2 }, Reply::Flag(true)),
            (
                Call::SetQuota {
                    path: raw("/d"),
                    names: QuotaChange::Set(3),
                    space: QuotaChange::Keep,
                },
                Reply::Done,
            ),
            (Call::Delete { path: raw("/d/x"), recursive: true }, Reply::Flag(true)),
            (Call::Delete { path: raw(""), recursive: true }, Reply::Flag(false)),
        ] {
            assert_eq!(h.call(call.clone()), Ok(expected), "{call:?}");
        }
        let Ok(Reply::Listing { entries, .. }) =
            h.read(&Call::List { path: dfs("/d"), start_after: String::new(), limit: 9 })
        else {
            panic!("no list")
        };
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["h"]);
    }

    #[test]
    fn what_hdfs_refuses_by_the_raw_path_is_refused() {
        let mut h = Harness::with_nodes(1, 3);
        h.write("/d/a", 10, 3);
        h.write("/d/b", 10, 3);
        for (target, source) in [("/.reserved/raw/d/a", "/d/b"), ("/d/a", "/.reserved/raw/d/b")] {
            let call = Call::Concat { target: dfs(target), sources: vec![dfs(source)] };
            let error = h.call(call).unwrap_err();
            let text =
                "Concat operation doesn't support .reserved relative path : /.reserved/raw/d/";
            assert!(error.message.starts_with(text), "{error}");
        }
        for path in ["/.reserved/raw/.reserved", "/.reserved/raw/.reserved/raw/d/x"] {
            let call = Call::Mkdirs { path: dfs(path), mode: 0o755, unmasked: None, parents: true };
            let error = h.call(call).unwrap_err();
            assert!(error.message.starts_with("File name \".reserved\" is reserved"), "{error}");
        }
        for path in ["/.reserved/raw/.reserved/raw/d", "/.reserved/rawer", "/.reserved/x"] {
            let error = h.read(&Call::Status(dfs(path))).unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound, "{path}");
        }
    }

    #[test]
    fn the_reserved_directory_shows_what_it_has() {
        let h = Harness::with_nodes(1, 3);
        let status = h.read(&Call::Status(dfs("/.reserved")));
        let Ok(Reply::Status(status)) = status else { panic!("{status:?}") };
        assert_eq!((status.directory, status.mode), (true, 0o1770));
        let list = |after: &str| {
            let start_after = after.to_owned();
            let found = h.read(&Call::List { path: dfs("/.reserved"), start_after, limit: 9 });
            let Ok(Reply::Listing { entries, remaining: 0 }) = found else { panic!("{found:?}") };
            entries.into_iter().map(|entry| (entry.name, entry.mode)).collect::<Vec<_>>()
        };
        assert_eq!(list(""), [("raw".to_owned(), 0o770)]);
        assert!(list("raw").is_empty());
    }
}

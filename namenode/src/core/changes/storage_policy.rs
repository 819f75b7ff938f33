//! Storage policies: kept and inherited as in HDFS, as an attribute of the namespace `system`, which no user sees or sets directly. So they
//! are journalled, kept by snapshots, moved and deleted like all attributes.
//!
//! The policy in effect for a path is its own, or that of the nearest directory above that has one. There is one kind of storage. A policy
//! can be set if HDFS, too, would fulfil it with disks where there is nothing else; the others are refused.

use protocol::permission::Action;
use protocol::storage::StoragePolicy;
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use super::planner::{Planned, Planner};
use crate::core::edit::{Edit, Outcome};
use crate::core::inodes::POLICY_NAME;
use crate::core::namespace::Resolved;
use crate::core::rights::Needs;
use crate::error::refuse;

fn invalid(text: String) -> RemoteError {
    refuse(ErrorKind::InvalidArgument, text)
}

impl Planner<'_> {
    pub(super) fn set_storage_policy(
        &mut self,
        path: &DfsPath,
        policy: Option<StoragePolicy>,
    ) -> Planned {
        if let Some(policy) = policy.filter(|policy| !policy.takes_disks()) {
            let policy = policy.definition();
            return Err(invalid(format!(
                "The storage policy {} needs {}, and falls back on nothing; all storage here is DISK",
                policy.name, policy.storage_types[0],
            )));
        }
        let needs = Needs { target: Some(Action::WRITE), ..Needs::default() };
        let missing = || format!("File/Directory does not exist: {path}");
        let Resolved { id, inode } = self.expect(path, needs, missing)?;
        let own = self.state.ns.own_policy(id);
        let is_fixed = |policy: &StoragePolicy| policy.definition().copy_on_create;
        if inode.file().is_some() {
            if let Some(policy) = policy.filter(is_fixed) {
                return Err(invalid(format!("Policy {policy} cannot be set after file creation.")));
            }
            if let Some(existing) = own.filter(is_fixed) {
                let name = existing.definition().name;
                return Err(invalid(format!(
                    "Existing policy {name} cannot be changed after file creation."
                )));
            }
        }
        if policy != own {
            self.push_policy(id, policy);
        }
        Ok(Outcome::Done)
    }

    /// Gives a new file, for good, the policy in effect for its directory if that is one that files copy when they are created.
    pub(super) fn copy_policy(&mut self, file: InodeId, directory: InodeId) {
        let above = self.state.ns.policy(directory);
        if above.is_some_and(|policy| policy.definition().copy_on_create) {
            self.push_policy(file, above);
        }
    }

    fn push_policy(&mut self, inode: InodeId, policy: Option<StoragePolicy>) {
        let value = policy.map(|policy| vec![policy.definition().id]);
        self.edits.push(Edit::SetXattr { inode, name: POLICY_NAME.clone(), value });
    }
}

#[cfg(test)]
mod tests {
    use protocol::namenode::{Call, FileStatus, FsckFile, Reply};
    use protocol::storage::StoragePolicy::{AllSsd, Cold, Hot, LazyPersist, OneSsd, Warm};

    use super::*;
    use crate::core::query::Reader;
    use crate::core::rights::Caller;
    use crate::core::tests::harness::{Harness, create, dfs};

    const BOB: Caller<'_> = Caller { user: "bob", groups: &[], is_superuser: false };

    fn set(path: &str, policy: Option<StoragePolicy>) -> Call {
        Call::SetStoragePolicy { path: dfs(path), policy }
    }

    fn status(h: &Harness, path: &str) -> FileStatus {
        match h.read(&Call::Status(dfs(path))) {
            Ok(Reply::Status(status)) => status,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// Files of a tree with the policies that fsck reports.
    fn fsck(h: &Harness, path: &str, after: Option<&str>) -> Vec<(String, Option<StoragePolicy>)> {
        match h.read(&Call::Fsck { path: dfs(path), after: after.map(dfs) }) {
            Ok(Reply::Fsck(page)) => {
                let row = |file: FsckFile| (file.path.to_string(), file.status.storage_policy);
                page.files.into_iter().map(row).collect()
            }
            other => panic!("{path}: {other:?}"),
        }
    }

    /// The policy in effect; checks that every call that returns it agrees.
    fn shown(h: &Harness, path: &str) -> Option<StoragePolicy> {
        let policy = status(h, path).storage_policy;
        let told = h.read(&Call::GetStoragePolicy(dfs(path)));
        assert_eq!(told, Ok(Reply::StoragePolicy(policy.unwrap_or(Hot))), "{path}");
        let path = dfs(path);
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return policy };
        let listing = h.read(&Call::List { path: parent, start_after: String::new(), limit: 100 });
        let Ok(Reply::Listing { entries, .. }) = listing else { panic!("{listing:?}") };
        let entry = entries.into_iter().find(|entry| entry.name == name).unwrap();
        assert_eq!(entry.storage_policy, policy, "listed {path}");
        if !status(h, path.as_str()).directory {
            assert_eq!(fsck(h, path.as_str(), None)[0].1, policy, "fsck of {path}");
        }
        policy
    }

    #[test]
    fn policies_are_inherited_and_outlive_moves_snapshots_and_restarts() {
        let mut h = Harness::with_nodes(1, 3);
        h.write("/a/b/f", 10, 3);
        h.write("/a/g", 10, 3);
        h.write("/z/f", 10, 3);
        let check = |h: &Harness, expected: &[(&str, Option<StoragePolicy>)]| {
            for (path, policy) in expected {
                assert_eq!(shown(h, path), *policy, "{path}");
            }
        };
        check(&h, &[("/", None), ("/a", None), ("/a/b/f", None)]);
        for (path, policy) in [("/a", AllSsd), ("/a/b", Warm), ("/a/g", OneSsd)] {
            assert_eq!(h.call(set(path, Some(policy))), Ok(Reply::Done));
        }
        let all = [
            ("/", None),
            ("/a", Some(AllSsd)),
            ("/a/b", Some(Warm)),
            ("/a/b/f", Some(Warm)),
            ("/a/g", Some(OneSsd)),
            ("/z/f", None),
        ];
        check(&h, &all);
        h.call(Call::AllowSnapshot(dfs("/a"))).unwrap();
        h.call(Call::CreateSnapshot { path: dfs("/a"), name: Some("s".to_owned()) }).unwrap();
        let moved = [("/a/b", "/z/b"), ("/a/g", "/z/g"), ("/z/f", "/a/f")];
        for (from, to) in moved {
            let call = Call::Rename { from: dfs(from), to: dfs(to), overwrite: None };
            assert_eq!(h.call(call), Ok(Reply::Flag(true)));
        }
        assert_eq!(h.call(set("/z/b", None)), Ok(Reply::Done));
        assert_eq!(h.call(set("/z/b", None)), Ok(Reply::Done), "again");
        let all = [
            ("/z/b/f", None),
            ("/z/g", Some(OneSsd)),
            ("/a/f", Some(AllSsd)),
            ("/a/.snapshot/s", Some(AllSsd)),
            ("/a/.snapshot/s/b", Some(Warm)),
            ("/a/.snapshot/s/b/f", Some(Warm)),
            ("/a/.snapshot/s/g", Some(OneSsd)),
            ("/.reserved/raw/a/f", Some(AllSsd)),
        ];
        check(&h, &all);
        let of_snapshot = [("b/f", Warm), ("g", OneSsd)];
        let row = |(name, policy): (&str, _)| (format!("/a/.snapshot/s/{name}"), Some(policy));
        assert_eq!(fsck(&h, "/a/.snapshot/s", None), of_snapshot.map(row));
        let rest = fsck(&h, "/a/.snapshot/s", Some("/a/.snapshot/s/b"));
        assert_eq!(rest, of_snapshot.map(row), "continued within a directory");
        let replayed = h.replay();
        h.restart(replayed);
        check(&h, &all);
        h.checkpoint();
        let loaded = h.reload();
        h.restart(loaded);
        check(&h, &all);
        for path in ["/a", "/z/g"] {
            assert_eq!(h.call(set(path, None)), Ok(Reply::Done));
        }
        check(&h, &[("/a/f", None), ("/z/g", None), ("/a/.snapshot/s/g", Some(OneSsd))]);
        assert_eq!(h.state.ns.features.policy_count(), 0);
    }

    #[test]
    fn what_disks_cannot_do_is_refused_and_rights_count() {
        let mut h = Harness::with_nodes(1, 3);
        h.write("/d/f", 10, 3);
        h.call(Call::SetMode { path: dfs("/d/f"), mode: 0o600 }).unwrap();
        let invalid = ErrorKind::InvalidArgument;
        let denied = ErrorKind::PermissionDenied;
        let ann = Caller { user: "ann", groups: &[], is_superuser: true };
        for (caller, path, policy, kind, part) in [
            (ann, "/d", Some(Cold), invalid, "The storage policy COLD needs ARCHIVE"),
            (ann, "/x", Some(Hot), ErrorKind::NotFound, "File/Directory does not exist: /x"),
            (ann, "/x", None, ErrorKind::NotFound, "File/Directory does not exist: /x"),
            (BOB, "/d/f", Some(Hot), denied, "access=WRITE"),
            (BOB, "/d", None, denied, "access=WRITE"),
            (ann, "/d/f", Some(LazyPersist), invalid, "cannot be set after file creation."),
        ] {
            let error = h.call_as(caller, set(path, policy)).unwrap_err();
            assert!(error.kind == kind && error.message.contains(part), "{path}: {error:?}");
        }
        let reader = Reader { caller: BOB, host: "", now: h.now, txid: 0 };
        let asked = h.state.query(&h.nodes, &Call::GetStoragePolicy(dfs("/d/f")), reader);
        assert_eq!(asked.unwrap_err().kind, denied);
    }

    #[test]
    fn a_policy_of_new_files_alone_is_copied_to_them() {
        let mut h = Harness::with_nodes(1, 3);
        h.write("/d/old", 10, 3);
        assert_eq!(h.call(set("/d", Some(LazyPersist))), Ok(Reply::Done));
        h.call(create("/d/new/f", true, None, true)).unwrap();
        assert_eq!(h.call(set("/d", None)), Ok(Reply::Done));
        assert_eq!(shown(&h, "/d/old"), None);
        assert_eq!(shown(&h, "/d/new"), None);
        assert_eq!(shown(&h, "/d/new/f"), Some(LazyPersist));
        for policy in [None, Some(Hot)] {
            let error = h.call(set("/d/new/f", policy)).unwrap_err();
            let text = "Existing policy LAZY_PERSIST cannot be changed after file creation.";
            assert_eq!(error.message, text);
        }
    }

    #[test]
    fn it_is_kept_as_an_attribute_that_nobody_sees_or_sets() {
        let mut h = Harness::with_nodes(1, 3);
        h.write("/d/f", 10, 3);
        assert_eq!(h.call(set("/d/f", Some(Warm))), Ok(Reply::Done));
        let kept = h.state.ns.features(status(&h, "/d/f").inode).unwrap();
        assert_eq!(kept.xattrs, [(POLICY_NAME.clone(), vec![5])].into(), "as it is on disk");
        assert_eq!(POLICY_NAME.prefixed(), "system.hsm.block.storage.policy.id");
        for path in ["/d/f", "/.reserved/raw/d/f"] {
            let all = Call::GetXattrs { path: dfs(path), names: Vec::new() };
            assert_eq!(h.read(&all), Ok(Reply::Xattrs(Vec::new())));
            let call = Call::RemoveXattr { path: dfs(path), name: POLICY_NAME.prefixed() };
            assert_eq!(h.call(call).unwrap_err().kind, ErrorKind::PermissionDenied);
        }
    }
}

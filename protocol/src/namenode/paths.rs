//! The paths that a call names. Every kind of call is listed, so a new one does not compile until its paths are listed too.

use super::{Call, Create, Publish};
use crate::DfsPath;

/// Passes each path of `$call` to `$visit`; for shared and for exclusive references.
macro_rules! visit_paths {
    ($call:expr, $visit:ident) => {
        match $call {
            Call::Status(path)
            | Call::ContentSummary(path)
            | Call::RecoverLease(path)
            | Call::AllowSnapshot(path)
            | Call::DisallowSnapshot(path)
            | Call::GetAcl(path)
            | Call::GetStoragePolicy(path)
            | Call::List { path, .. }
            | Call::Locations { path, .. }
            | Call::Mkdirs { path, .. }
            | Call::Create(Create { path, .. })
            | Call::Delete { path, .. }
            | Call::SetReplication { path, .. }
            | Call::SetMode { path, .. }
            | Call::SetOwner { path, .. }
            | Call::SetTimes { path, .. }
            | Call::SetQuota { path, .. }
            | Call::Append { path, .. }
            | Call::Truncate { path, .. }
            | Call::CreateSnapshot { path, .. }
            | Call::RenameSnapshot { path, .. }
            | Call::DeleteSnapshot { path, .. }
            | Call::SnapshotDiff { path, .. }
            | Call::ChangeAcl { path, .. }
            | Call::GetXattrs { path, .. }
            | Call::SetXattr { path, .. }
            | Call::RemoveXattr { path, .. }
            | Call::SetStoragePolicy { path, .. }
            | Call::CheckAccess { path, .. } => $visit(path),
            Call::Fsck { path, after } => {
                $visit(path);
                if let Some(after) = after {
                    $visit(after);
                }
            }
            Call::Rename { from, to, .. } => {
                $visit(from);
                $visit(to);
            }
            Call::Concat { target, sources } => {
                $visit(target);
                for source in sources {
                    $visit(source);
                }
            }
            Call::Complete { publish, .. } => {
                if let Some(Publish { path, .. }) = publish {
                    $visit(path);
                }
            }
            Call::ClusterStatus
            | Call::Datanodes
            | Call::AddBlock { .. }
            | Call::AbandonBlock { .. }
            | Call::RecoverPipeline { .. }
            | Call::RenewLease
            | Call::ReportBadReplicas(_)
            | Call::SafeMode(_)
            | Call::SaveNamespace
            | Call::RollEdits
            | Call::Metasave(_)
            | Call::OpenFiles { .. }
            | Call::TriggerBlockReport { .. }
            | Call::BlockInfo(_)
            | Call::GroupsOf(_)
            | Call::SyncBlock { .. }
            | Call::SnapshottableDirectories
            | Call::RefreshNodes
            | Call::SetBalancerBandwidth(_)
            | Call::BlocksOn { .. }
            | Call::MoveReplicas(_)
            | Call::MoveStates(_)
            | Call::ShutDownDatanode { .. }
            | Call::ReadImage { .. }
            | Call::CheckSuperuser
            | Call::RefreshGroups => {}
        }
    };
}

impl Call {
    /// Passes `visit` each path that the call names.
    pub fn each_path<'a>(&'a self, mut visit: impl FnMut(&'a DfsPath)) {
        visit_paths!(self, visit);
    }

    /// As [`Call::each_path`], for changing the paths.
    pub fn each_path_mut(&mut self, mut visit: impl FnMut(&mut DfsPath)) {
        visit_paths!(self, visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_a_call_is_shown_and_can_be_changed() {
        let dfs = |path: &str| DfsPath::parse(path).unwrap();
        let publish = Some(Publish { path: dfs("/a"), overwrite: false });
        for (mut call, count) in [
            (Call::Status(dfs("/a")), 1),
            (Call::Rename { from: dfs("/a"), to: dfs("/b"), overwrite: None }, 2),
            (Call::Concat { target: dfs("/a"), sources: vec![dfs("/b"), dfs("/c")] }, 3),
            (Call::Fsck { path: dfs("/a"), after: Some(dfs("/a/b")) }, 2),
            (Call::Complete { file: crate::InodeId(1), last: None, publish }, 1),
            (Call::CheckSuperuser, 0),
        ] {
            call.each_path_mut(|path| *path = path.join("x").unwrap());
            let mut seen = Vec::new();
            call.each_path(|path| seen.push(path.name()));
            assert_eq!(seen, vec![Some("x"); count], "{call:?}");
        }
    }
}

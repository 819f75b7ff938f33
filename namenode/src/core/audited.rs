//! Owner, group and mode of what a change affected, for the audit log. They are read right after the change, when its paths are as it left them.

use protocol::DfsPath;
use protocol::namenode::Call;
use protocol::permission::symbols;

use super::state::State;

impl State {
    /// `owner:group:rwxr-xr-x` of what a call has changed; `None` for calls whose line has none, as in HDFS.
    pub(super) fn permissions_after(&self, call: &Call) -> Option<String> {
        let inode = self.ns.resolve(audited_path(call)?).ok()?.inode;
        let (owner, group) = (self.ns.names.text(inode.owner), self.ns.names.text(inode.group));
        Some(format!("{owner}:{group}:{}", symbols(inode.mode)))
    }
}

fn audited_path(call: &Call) -> Option<&DfsPath> {
    match call {
        Call::Create(create) => Some(&create.path),
        Call::Complete { publish: Some(publish), .. } => Some(&publish.path),
        Call::Mkdirs { path, .. }
        | Call::Truncate { path, .. }
        | Call::Concat { target: path, .. }
        | Call::Rename { to: path, .. }
        | Call::SetMode { path, .. }
        | Call::SetOwner { path, .. }
        | Call::SetTimes { path, .. }
        | Call::ChangeAcl { path, .. }
        | Call::SetXattr { path, .. }
        | Call::RemoveXattr { path, .. }
        | Call::SetStoragePolicy { path, .. } => Some(path),
        _ => None,
    }
}

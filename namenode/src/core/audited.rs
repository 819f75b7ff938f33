//! Owner, group and mode of what a change affected, for the audit log. They are read right after the change, when its paths are as it left them.

use protocol::namenode::Call;
use protocol::permission::symbols;

use super::state::State;

impl State {
    /// `owner:group:rwxr-xr-x` of what a call has changed; `None` for calls whose line has none, as in HDFS.
    pub(super) fn permissions_after(&self, call: &Call) -> Option<String> {
        let inode = self.ns.resolve(call.logged()?.changed?).ok()?.inode;
        let (owner, group) = (self.ns.names.text(inode.owner), self.ns.names.text(inode.group));
        Some(format!("{owner}:{group}:{}", symbols(inode.mode)))
    }
}

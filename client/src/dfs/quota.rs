//! Quotas of directories, for the superuser.

use protocol::DfsPath;
use protocol::namenode::{QuotaChange, calls};

use super::client::DfsClient;
use super::error::DfsError;

impl DfsClient {
    /// Limits the number of files and directories in a directory's subtree, itself included; `None` removes the limit.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn set_quota(&self, path: &DfsPath, names: Option<u64>) -> Result<(), DfsError> {
        let (path, names) = (path.clone(), change(names));
        self.link.ask(calls::SetQuota { path, names, space: QuotaChange::Keep })
    }

    /// Limits the bytes times replicas of all files below a directory; `None` removes the limit.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn set_space_quota(&self, path: &DfsPath, bytes: Option<u64>) -> Result<(), DfsError> {
        let (path, space) = (path.clone(), change(bytes));
        self.link.ask(calls::SetQuota { path, names: QuotaChange::Keep, space })
    }
}

fn change(quota: Option<u64>) -> QuotaChange {
    quota.map_or(QuotaChange::Clear, QuotaChange::Set)
}

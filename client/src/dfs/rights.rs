//! Access control lists, extended attributes, and checks of access.

use protocol::DfsPath;
use protocol::acl::{AclChange, AclStatus};
use protocol::namenode::calls;
use protocol::permission::Action;
use protocol::storage::StoragePolicy;
use protocol::xattr::{Xattr, XattrFlag};

use super::client::DfsClient;
use super::error::DfsError;

impl DfsClient {
    /// The access control list.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn acl(&self, path: &DfsPath) -> Result<AclStatus, DfsError> {
        self.link.ask(calls::GetAcl { path: path.clone() })
    }

    /// Changes the access control list.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn change_acl(&self, path: &DfsPath, change: AclChange) -> Result<(), DfsError> {
        self.link.ask(calls::ChangeAcl { path: path.clone(), change })
    }

    /// The extended attributes of these names, or all that the user may see.
    ///
    /// # Errors
    /// [`DfsError`], also if one of them is missing.
    pub fn xattrs(&self, path: &DfsPath, names: &[&str]) -> Result<Vec<Xattr>, DfsError> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.link.ask(calls::GetXattrs { path: path.clone(), names })
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn set_xattr(
        &self,
        path: &DfsPath,
        name: &str,
        value: &[u8],
        flag: XattrFlag,
    ) -> Result<(), DfsError> {
        let (name, value) = (name.to_owned(), value.to_vec());
        self.link.ask(calls::SetXattr { path: path.clone(), name, value, flag })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`DfsError`], also if it is missing.
    pub fn remove_xattr(&self, path: &DfsPath, name: &str) -> Result<(), DfsError> {
        self.link.ask(calls::RemoveXattr { path: path.clone(), name: name.to_owned() })
    }

    /// The storage policy that applies to a path.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn storage_policy(&self, path: &DfsPath) -> Result<StoragePolicy, DfsError> {
        self.link.ask(calls::GetStoragePolicy { path: path.clone() })
    }

    /// Sets the storage policy of a path; `None` to inherit that of the ancestor directories.
    ///
    /// # Errors
    /// [`DfsError`], also for a policy that disks cannot fulfil.
    pub fn set_storage_policy(
        &self,
        path: &DfsPath,
        policy: Option<StoragePolicy>,
    ) -> Result<(), DfsError> {
        self.link.ask(calls::SetStoragePolicy { path: path.clone(), policy })
    }

    /// Asks whether the user may do something with a path.
    ///
    /// # Errors
    /// [`DfsError`]; kind `PermissionDenied` if not.
    pub fn check_access(&self, path: &DfsPath, action: Action) -> Result<(), DfsError> {
        self.link.ask(calls::CheckAccess { path: path.clone(), action })
    }
}

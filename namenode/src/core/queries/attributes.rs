//! Reads of access lists, rights, extended attributes and storage policies, in the live tree and in snapshots.

use protocol::acl::AclStatus;
use protocol::permission::Action;
use protocol::storage::StoragePolicy;
use protocol::xattr::{Xattr, XattrName};
use protocol::{DfsPath, ErrorKind, RemoteError};

use crate::core::namespace::Resolved;
use crate::core::rights::xattr::{NOT_FOUND, allowed_name, invalid, is_open};
use crate::core::rights::{Caller, Needs};
use crate::core::snapshots::{Seen, View};
use crate::core::state::State;
use crate::error::refuse;

const NEEDS_READ: Needs = Needs {
    ownership: false,
    ancestor: None,
    parent: None,
    target: Some(Action::READ),
    subtree: None,
};

fn missing(path: &DfsPath) -> String {
    format!("File/Directory does not exist: {path}")
}

impl State {
    pub(in crate::core) fn acl_status(
        &self,
        path: &DfsPath,
        caller: Caller<'_>,
    ) -> Result<AclStatus, RemoteError> {
        if let Some(view) = self.view(path, caller) {
            return self.acl_view(path, view?);
        }
        let Resolved { id, inode } = self.lookup(path, (caller, Needs::default()), |path| {
            format!("File does not exist: {path}")
        })?;
        Ok(AclStatus {
            owner: self.ns.names.text(inode.owner).to_owned(),
            group: self.ns.names.text(inode.group).to_owned(),
            mode: inode.mode,
            entries: self.ns.acl(id).to_vec(),
        })
    }

    pub(in crate::core) fn check_access(
        &self,
        path: &DfsPath,
        action: Action,
        caller: Caller<'_>,
    ) -> Result<(), RemoteError> {
        if let Some(view) = self.view(path, caller) {
            return self.access_view(path, (view?, action), caller);
        }
        let needs = Needs { target: Some(action), ..Needs::default() };
        let found: Result<Resolved<'_>, RemoteError> =
            self.lookup(path, (caller, needs), |path| format!("Path not found: {path}"));
        found.map(drop)
    }

    /// The attributes named, or all that the caller may see; `is_raw` says that the path was one below `/.reserved/raw`.
    pub(in crate::core) fn xattrs(
        &self,
        path: &DfsPath,
        names: &[String],
        (caller, is_raw): (Caller<'_>, bool),
    ) -> Result<Vec<Xattr>, RemoteError> {
        let asks = (caller, is_raw);
        let wanted: Vec<XattrName> =
            names.iter().map(|name| allowed_name(name, asks)).collect::<Result<_, _>>()?;
        let missing = |path: &DfsPath| format!("cannot find {path}");
        let features = if let Some(view) = self.view(path, caller) {
            let View::Inside(Seen { id, state, .. }) =
                view?.ok_or_else(|| refuse(ErrorKind::NotFound, missing(path)))?
            else {
                return Err(refuse(ErrorKind::NotFound, missing(path)));
            };
            self.guard(caller).check_former((id, state), Action::READ, path.as_str())?;
            state.features(&self.ns, id)
        } else {
            let needs = Needs { target: Some(Action::READ), ..Needs::default() };
            self.ns.features(self.lookup(path, (caller, needs), missing)?.id)
        };
        let all = features.map(|features| &features.xattrs);
        let found = |name: &XattrName, value: &Vec<u8>| Xattr {
            name: name.prefixed(),
            value: value.clone(),
        };
        if wanted.is_empty() {
            let all = all.into_iter().flatten();
            let seen = all.filter(|(name, _)| is_open(name, asks));
            return Ok(seen.map(|(name, value)| found(name, value)).collect());
        }
        let attributes: Option<Vec<Xattr>> =
            wanted.iter().map(|name| Some(found(name, all?.get(name)?))).collect();
        attributes.ok_or_else(|| invalid(NOT_FOUND))
    }

    pub(in crate::core) fn storage_policy(
        &self,
        path: &DfsPath,
        caller: Caller<'_>,
    ) -> Result<StoragePolicy, RemoteError> {
        let policy = match self.view(path, caller) {
            Some(view) => match view? {
                Some(View::Inside(Seen { id, state, policy, .. })) => {
                    let guard = self.guard(caller);
                    guard.check_former((id, state), Action::READ, path.as_str())?;
                    policy
                }
                _ => return Err(refuse(ErrorKind::NotFound, missing(path))),
            },
            None => self.ns.policy(self.lookup(path, (caller, NEEDS_READ), missing)?.id),
        };
        Ok(policy.unwrap_or(StoragePolicy::Hot))
    }
}

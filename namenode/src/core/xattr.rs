//! Extended attributes: who may see and set which, and their limits.

use protocol::namenode::{Answer, Reply};
use protocol::permission::{Action, STICKY};
use protocol::xattr::{XATTR_BYTES_MAX, XATTRS_MAX, Xattr, XattrFlag, XattrName, XattrSpace};
use protocol::{DfsPath, ErrorKind, RemoteError};

use super::command::{Planned, Planner, refuse};
use super::edit::{Edit, Outcome};
use super::namespace::Resolved;
use super::permission::{Caller, Needs};
use super::snapshot_view::{Seen, View};
use super::state::State;

const NOT_FOUND: &str = "At least one of the attributes provided was not found.";

fn invalid(text: impl Into<String>) -> RemoteError {
    refuse(ErrorKind::InvalidArgument, text)
}

/// Whether the caller may see and set attributes of a namespace: `user` everybody, `trusted` the superuser, the others nobody.
fn is_open(space: XattrSpace, caller: Caller<'_>) -> bool {
    match space {
        XattrSpace::User => true,
        XattrSpace::Trusted => caller.is_superuser,
        XattrSpace::Security | XattrSpace::System | XattrSpace::Raw => false,
    }
}

fn allowed_name(name: &str, caller: Caller<'_>) -> Result<XattrName, RemoteError> {
    let name = XattrName::parse(name).map_err(|error| invalid(error.to_string()))?;
    if is_open(name.space, caller) {
        return Ok(name);
    }
    let text = format!("User doesn't have permission for xattr: {}", name.prefixed());
    Err(refuse(ErrorKind::PermissionDenied, text))
}

impl Planner<'_> {
    pub(super) fn set_xattr(
        &mut self,
        path: &DfsPath,
        (name, value): (&str, &[u8]),
        flag: XattrFlag,
    ) -> Planned {
        let name = allowed_name(name, self.caller)?;
        let size = name.name.len() + value.len();
        if size > XATTR_BYTES_MAX {
            return Err(invalid(format!(
                "The XAttr is too big. The maximum combined size of the name and value is {XATTR_BYTES_MAX}, but the total size is {size}"
            )));
        }
        let Resolved { id, .. } = self.changeable(path, name.space)?;
        let features = self.state.ns.features(id);
        let exists = features.is_some_and(|features| features.xattrs.contains_key(&name));
        match flag {
            XattrFlag::Create if exists => {
                let name = &name.name;
                return Err(invalid(format!(
                    "XAttr: {name} already exists. The REPLACE flag must be specified."
                )));
            }
            XattrFlag::Replace if !exists => {
                let name = &name.name;
                return Err(invalid(format!(
                    "XAttr: {name} does not exist. The CREATE flag must be specified."
                )));
            }
            _ => {}
        }
        let count = features.map_or(0, |features| features.xattrs.len());
        if !exists && count >= XATTRS_MAX {
            return Err(invalid(format!(
                "Cannot add additional XAttr to inode, would exceed limit of {XATTRS_MAX}"
            )));
        }
        self.edits.push(Edit::SetXattr { inode: id, name, value: Some(value.to_vec()) });
        Ok(Outcome::Done)
    }

    pub(super) fn remove_xattr(&mut self, path: &DfsPath, name: &str) -> Planned {
        let name = allowed_name(name, self.caller)?;
        let Resolved { id, .. } = self.changeable(path, name.space)?;
        let features = self.state.ns.features(id);
        if features.is_none_or(|features| !features.xattrs.contains_key(&name)) {
            return Err(invalid("No matching attributes found for remove operation"));
        }
        self.edits.push(Edit::SetXattr { inode: id, name, value: None });
        Ok(Outcome::Done)
    }

    /// An inode whose attributes of a namespace the caller may change: `user` ones need WRITE, or in a directory with the sticky bit
    /// ownership.
    fn changeable(&self, path: &DfsPath, space: XattrSpace) -> Result<Resolved<'_>, RemoteError> {
        let guard = self.guard();
        let way = guard.walk(path)?;
        if space == XattrSpace::User {
            let is_sticky = way.found.as_ref().is_some_and(|Resolved { inode, .. }| {
                inode.directory().is_some() && inode.mode & STICKY != 0
            });
            let needs = match is_sticky {
                true => Needs { ownership: true, ..Needs::default() },
                false => Needs { target: Some(Action::WRITE), ..Needs::default() },
            };
            guard.check(path, &way, needs)?;
        }
        let missing = || refuse(ErrorKind::NotFound, format!("cannot find {path}"));
        way.found.ok_or_else(missing)
    }
}

impl State {
    /// The attributes named, or all that the caller may see.
    pub(super) fn xattrs(&self, path: &DfsPath, names: &[String], caller: Caller<'_>) -> Answer {
        let wanted: Vec<XattrName> =
            names.iter().map(|name| allowed_name(name, caller)).collect::<Result<_, _>>()?;
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
            let seen = all.filter(|(name, _)| is_open(name.space, caller));
            return Ok(Reply::Xattrs(seen.map(|(name, value)| found(name, value)).collect()));
        }
        let attributes: Option<Vec<Xattr>> =
            wanted.iter().map(|name| Some(found(name, all?.get(name)?))).collect();
        attributes.map(Reply::Xattrs).ok_or_else(|| invalid(NOT_FOUND))
    }
}

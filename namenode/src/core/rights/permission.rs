//! Rights: who calls, and whether they may, by the rules of HDFS's permission checker.
//!
//! Every path of a call is followed by [`Guard::walk`], which asks for EXECUTE on each directory that is passed; what the call needs
//! besides is one [`Needs`]. The superuser and members of the supergroup pass every check, and with `permissions = false` everybody
//! passes all but the owner's own and the superuser's.
//!
//! Invariant: a refused call has changed nothing, because checks come before its first edit.

use protocol::acl::{AclEntry, AclKind, AclScope};
use protocol::permission::{Action, STICKY, symbols};
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use crate::core::inodes::{At, Features, Inode};
use crate::core::namespace::{Namespace, Resolved, Unresolved};
use crate::error::refuse;

/// Who makes a call, as the rim has established.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller<'a> {
    /// The acting user.
    pub user: &'a str,
    /// Groups that the user belongs to.
    pub groups: &'a [String],
    /// The superuser, or a member of the supergroup.
    pub is_superuser: bool,
}

impl Caller<'static> {
    /// The NameNode itself.
    pub const NAMENODE: Caller<'static> =
        Caller { user: "namenode", groups: &[], is_superuser: true };
}

impl Caller<'_> {
    fn is_member(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// Rights that a call needs on one path, besides passing its directories.
#[derive(Clone, Copy, Default, Debug)]
pub struct Needs {
    /// The caller owns what is there.
    pub ownership: bool,
    /// On the deepest directory that exists above the path.
    pub ancestor: Option<Action>,
    /// On the directory that holds it, if that exists; with WRITE the sticky bit counts, too.
    pub parent: Option<Action>,
    /// On what is there, if anything.
    pub target: Option<Action>,
    /// On every directory of the tree below that is not empty.
    pub subtree: Option<Action>,
}

/// Where a path leads, and through which directories.
#[derive(Clone, Debug)]
pub struct Way<'a> {
    /// What is there.
    pub found: Option<Resolved<'a>>,
    /// The deepest directory above it that exists; the root for the root itself.
    pub ancestor: Resolved<'a>,
    /// How many elements lead to `ancestor`.
    pub ancestor_depth: usize,
    /// How many elements the path has.
    depth: usize,
}

impl<'a> Way<'a> {
    /// The directory that holds or would hold the path, if it exists.
    pub fn parent(&self) -> Option<Resolved<'a>> {
        (self.depth > 0 && self.ancestor_depth + 1 == self.depth).then_some(self.ancestor)
    }
}

/// A path that could not be followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// A file where a directory is needed: its path.
    FileInTheWay(String),
    /// The caller may not pass.
    Denied(RemoteError),
}

impl From<Blocked> for RemoteError {
    fn from(blocked: Blocked) -> RemoteError {
        match blocked {
            Blocked::FileInTheWay(file) => {
                refuse(ErrorKind::ParentNotDirectory, format!("{file} (is not a directory)"))
            }
            Blocked::Denied(error) => error,
        }
    }
}

/// The checks of one call.
#[derive(Clone, Copy)]
pub struct Guard<'a> {
    ns: &'a Namespace,
    caller: Caller<'a>,
    /// Whether permission bits count.
    permissions: bool,
}

impl<'a> Guard<'a> {
    /// Checks for `caller`; `permissions` is the configuration's.
    pub fn new(ns: &'a Namespace, caller: Caller<'a>, permissions: bool) -> Self {
        Guard { ns, caller, permissions }
    }

    /// True if nothing is checked: for the superuser, or without permissions.
    pub fn is_exempt(&self) -> bool {
        self.caller.is_superuser || !self.permissions
    }

    /// Follows a path; the caller needs EXECUTE on every directory on the way.
    ///
    /// # Errors
    /// [`Blocked`].
    pub fn walk(&self, path: &DfsPath) -> Result<Way<'a>, Blocked> {
        let mut ancestor = None;
        let mut denied = None;
        let found = self.ns.resolve_through(path, |depth, directory| {
            let acl = self.ns.acl(directory.id);
            if !self.is_exempt() && !self.allows((directory.inode, acl), Action::EXECUTE) {
                denied = Some((depth, directory));
                return false;
            }
            ancestor = Some((depth, directory));
            true
        });
        if let Some((depth, directory)) = denied {
            let path = prefix(path, depth);
            let denied = self.denied(directory.inode, &path, Action::EXECUTE);
            return Err(Blocked::Denied(denied));
        }
        let found = match found {
            Ok(found) => Some(found),
            Err(Unresolved::Missing) => None,
            Err(Unresolved::FileInTheWay(file)) => return Err(Blocked::FileInTheWay(file)),
        };
        let depth = path.elements().count();
        match (ancestor, &found) {
            (Some((ancestor_depth, ancestor)), _) => {
                Ok(Way { found, ancestor, ancestor_depth, depth })
            }
            // Only the root is reached without passing a directory.
            (None, Some(root)) => Ok(Way { ancestor: *root, found, ancestor_depth: 0, depth }),
            (None, None) => Err(Blocked::FileInTheWay("/".to_owned())),
        }
    }

    /// Checks what a call needs on `path`, which was followed by [`Guard::walk`].
    ///
    /// # Errors
    /// A refusal.
    pub fn check(&self, path: &DfsPath, way: &Way<'a>, needs: Needs) -> Result<(), RemoteError> {
        if !self.is_exempt() {
            self.check_bits(path, way, needs)?;
        }
        let owner = way.found.as_ref().map(|found| self.ns.names.text(found.inode.owner));
        match owner {
            Some(owner)
                if needs.ownership && !self.caller.is_superuser && owner != self.caller.user =>
            {
                let user = self.caller.user;
                let text =
                    format!("Permission denied. user={user} is not the owner of inode={path}");
                Err(refuse(ErrorKind::PermissionDenied, text))
            }
            _ => Ok(()),
        }
    }

    fn check_bits(&self, path: &DfsPath, way: &Way<'a>, needs: Needs) -> Result<(), RemoteError> {
        let target = way.found;
        if let (Some(parent), Some(target), Some(access)) = (way.parent(), target, needs.parent)
            && access.implies(Action::WRITE)
            && self.is_stuck(parent.inode, target.inode)
        {
            let parent_path = prefix(path, way.ancestor_depth);
            return Err(
                self.denied_by_sticky((target.inode, path.as_str()), (parent.inode, &parent_path))
            );
        }
        if let (Some(access), true) = (needs.ancestor, way.depth > 0) {
            self.check_one(way.ancestor, access, || prefix(path, way.ancestor_depth))?;
        }
        if let (Some(access), Some(parent)) = (needs.parent, way.parent()) {
            self.check_one(parent, access, || prefix(path, way.ancestor_depth))?;
        }
        if let (Some(access), Some(target)) = (needs.target, target) {
            self.check_one(target, access, || path.to_string())?;
        }
        if let (Some(access), Some(found)) = (needs.subtree, &way.found) {
            self.check_subtree(found.id, access)?;
        }
        Ok(())
    }

    fn check_one(
        &self,
        at: Resolved<'_>,
        access: Action,
        path: impl FnOnce() -> String,
    ) -> Result<(), RemoteError> {
        self.check_listed((at.inode, self.ns.acl(at.id)), access, path)
    }

    fn check_listed(
        &self,
        listed: (&Inode, &[AclEntry]),
        access: Action,
        path: impl FnOnce() -> String,
    ) -> Result<(), RemoteError> {
        match self.allows(listed, access) {
            true => Ok(()),
            false => Err(self.denied(listed.0, &path(), access)),
        }
    }

    /// Checks one inode by its id; for walks over trees.
    ///
    /// # Errors
    /// A refusal.
    pub fn check_inode(&self, id: InodeId, access: Action) -> Result<(), RemoteError> {
        match self.ns.inode(id) {
            Some(inode) if !self.is_exempt() => {
                self.check_one(Resolved { id, inode }, access, || {
                    self.ns.path_of(id).unwrap_or_default()
                })
            }
            _ => Ok(()),
        }
    }

    /// Checks an inode as it was when a snapshot was taken.
    ///
    /// # Errors
    /// A refusal.
    pub fn check_former(
        &self,
        (id, state): (InodeId, At<'_>),
        access: Action,
        path: &str,
    ) -> Result<(), RemoteError> {
        if self.is_exempt() {
            return Ok(());
        }
        let acl = state.features(self.ns, id).map_or(&[][..], |features| &features.acl);
        self.check_listed((&state.rights(), acl), access, || path.to_owned())
    }

    /// Refuses the superuser the bytes of a file that is closed to the superuser. Code that returns bytes, or moves them to another file,
    /// must call this.
    ///
    /// # Errors
    /// A refusal.
    pub fn check_readable(&self, features: Option<&Features>) -> Result<(), RemoteError> {
        let is_asked = self.permissions && self.caller.is_superuser;
        if !is_asked || !features.is_some_and(Features::is_closed_to_superuser) {
            return Ok(());
        }
        let user = self.caller.user;
        let text = format!(
            "Access is denied for {user} since the superuser is not allowed to perform this operation."
        );
        Err(refuse(ErrorKind::PermissionDenied, text))
    }

    /// True if the caller may know everything about an inode: its owner, or the superuser.
    pub fn owns(&self, inode: &Inode) -> bool {
        self.is_exempt() || self.ns.names.text(inode.owner) == self.caller.user
    }

    /// Every directory of the tree that is not empty must grant `access`, and no sticky bit may protect one of its entries.
    fn check_subtree(&self, top: InodeId, access: Action) -> Result<(), RemoteError> {
        let mut stack = vec![top];
        while let Some(id) = stack.pop() {
            let Some(inode) = self.ns.inode(id) else { continue };
            let Some(directory) = inode.directory().filter(|d| !d.children.is_empty()) else {
                continue;
            };
            let path = || self.ns.path_of(id).unwrap_or_default();
            self.check_one(Resolved { id, inode }, access, path)?;
            for child in directory.children.iter() {
                let Some(below) = self.ns.inode(child) else { continue };
                if self.is_stuck(inode, below) {
                    let parent_path = path();
                    let path = self.ns.path_of(child).unwrap_or_default();
                    return Err(self.denied_by_sticky((below, &path), (inode, &parent_path)));
                }
                if below.directory().is_some() {
                    stack.push(child);
                }
            }
        }
        Ok(())
    }

    /// Reading the totals of a tree needs READ and EXECUTE on each of its directories: checks one of them, and adds to `rest` what may be another.
    ///
    /// # Errors
    /// A refusal.
    pub fn check_directory(&self, id: InodeId, rest: &mut Vec<InodeId>) -> Result<(), RemoteError> {
        let Some(inode) = self.ns.inode(id) else { return Ok(()) };
        let Some(directory) = inode.directory() else { return Ok(()) };
        let path = || self.ns.path_of(id).unwrap_or_default();
        self.check_one(Resolved { id, inode }, Action::READ_EXECUTE, path)?;
        // Of one with files alone nothing is looked at.
        if directory.total.directory_count > 1 {
            rest.extend(directory.children.iter());
        }
        Ok(())
    }

    /// What only the superuser may do.
    ///
    /// # Errors
    /// A refusal.
    pub fn check_superuser(&self) -> Result<(), RemoteError> {
        if self.is_exempt() {
            return Ok(());
        }
        let user = self.caller.user;
        let text = format!("Access denied for user {user}. Superuser privilege is required");
        Err(refuse(ErrorKind::PermissionDenied, text))
    }

    /// Only the superuser gives files away, and only members of a group give files to it.
    ///
    /// # Errors
    /// A refusal.
    pub fn check_new_owner(&self, owner: &str, group: &str) -> Result<(), RemoteError> {
        let Caller { user, is_superuser, .. } = self.caller;
        if is_superuser {
            return Ok(());
        }
        if !owner.is_empty() && owner != user {
            let text =
                format!("User {user} is not a super user (non-super user cannot change owner).");
            return Err(refuse(ErrorKind::PermissionDenied, text));
        }
        if !group.is_empty() && !self.caller.is_member(group) {
            let text = format!("User {user} does not belong to {group}");
            return Err(refuse(ErrorKind::PermissionDenied, text));
        }
        Ok(())
    }

    /// Whether permission bits and list grant `access`: the owner's class counts for the owner alone, then a named user's entry, then
    /// all of the user's groups together, then the others'. Without a list the group is the only one.
    fn allows(&self, (inode, acl): (&Inode, &[AclEntry]), access: Action) -> bool {
        let mask = Action::of_group(inode.mode);
        if self.ns.names.text(inode.owner) == self.caller.user {
            return Action::of_owner(inode.mode).implies(access);
        }
        let access_list = &acl[..acl.partition_point(|entry| entry.scope == AclScope::Access)];
        let group = self.ns.names.text(inode.group);
        if access_list.is_empty() {
            let granted = match self.caller.is_member(group) {
                true => mask,
                false => Action::of_others(inode.mode),
            };
            return granted.implies(access);
        }
        let mut is_matched = false;
        for entry in access_list {
            let grants = entry.action.and(mask).implies(access);
            match entry.kind {
                AclKind::User if entry.name.as_deref() == Some(self.caller.user) => return grants,
                AclKind::Group if self.caller.is_member(entry.name.as_deref().unwrap_or(group)) => {
                    if grants {
                        return true;
                    }
                    is_matched = true;
                }
                _ => {}
            }
        }
        !is_matched && Action::of_others(inode.mode).implies(access)
    }

    /// True if the sticky bit of `parent` keeps the caller from deleting or renaming `entry`.
    fn is_stuck(&self, parent: &Inode, entry: &Inode) -> bool {
        let owns = |inode: &Inode| self.ns.names.text(inode.owner) == self.caller.user;
        parent.mode & STICKY != 0 && !owns(parent) && !owns(entry)
    }

    fn denied(&self, inode: &Inode, path: &str, access: Action) -> RemoteError {
        let (user, described) = (self.caller.user, self.describe(inode, path));
        let text = format!("Permission denied: user={user}, access={access}, inode={described}");
        refuse(ErrorKind::PermissionDenied, text)
    }

    fn denied_by_sticky(
        &self,
        (entry, path): (&Inode, &str),
        (parent, parent_path): (&Inode, &str),
    ) -> RemoteError {
        let text = format!(
            "Permission denied by sticky bit: user={}, path={}, parent={}",
            self.caller.user,
            self.describe(entry, path),
            self.describe(parent, parent_path)
        );
        refuse(ErrorKind::PermissionDenied, text)
    }

    /// `"path":owner:group:drwxr-xr-x`
    fn describe(&self, inode: &Inode, path: &str) -> String {
        let kind = if inode.directory().is_some() { 'd' } else { '-' };
        let (owner, group) = (self.ns.names.text(inode.owner), self.ns.names.text(inode.group));
        format!("\"{path}\":{owner}:{group}:{kind}{}", symbols(inode.mode))
    }
}

/// The first `count` elements of a path.
fn prefix(path: &DfsPath, count: usize) -> String {
    match count {
        0 => "/".to_owned(),
        _ => crate::core::namespace::prefix(path, count),
    }
}

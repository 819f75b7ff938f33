//! Making directories, deleting, and setting owners, modes, times and replication.

use protocol::acl::AclEntry;
use protocol::permission::Action;
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use super::limits::{check_mode, check_name, check_replication};
use super::planner::{Planned, Planner};
use crate::core::edit::{Edit, Outcome};
use crate::core::inodes::Directory;
use crate::core::namespace::Resolved;
use crate::core::rights::{Needs, Way, acl};
use crate::error::refuse;

impl Planner<'_> {
    pub(super) fn mkdirs(
        &mut self,
        path: &DfsPath,
        (mode, unmasked): (u16, Option<u16>),
        parents: bool,
    ) -> Planned {
        check_mode(mode)?;
        unmasked.map_or(Ok(()), check_mode)?;
        let way = self.guard().walk(path)?;
        match &way.found {
            Some(Resolved { inode, .. }) if inode.directory().is_none() => {
                let text = format!("Path is not a directory: {path}");
                return Err(refuse(ErrorKind::AlreadyExists, text));
            }
            Some(_) if parents => return Ok(Outcome::Done),
            Some(_) => {
                let text = format!("{path} already exists as a directory");
                return Err(refuse(ErrorKind::AlreadyExists, text));
            }
            None => {
                let needs = Needs { ancestor: Some(Action::WRITE), ..Needs::default() };
                self.guard().check(path, &way, needs)?;
            }
        }
        let asked = |defaults: &[AclEntry]| acl::asked(defaults, mode, unmasked);
        let (parent, group) =
            self.make_parents((path, &way), parents, |_, defaults| asked(defaults) | 0o300)?;
        let name = path.name().unwrap_or_default().to_owned();
        let mode = asked(&self.defaults);
        self.make_directory(parent, name, &group, mode);
        Ok(Outcome::Done)
    }

    /// Makes what is missing on the way to `path`; returns the directory that will hold it, and that directory's group. `mode_of`
    /// gives a new directory's mode from its parent's and the default list that it inherits.
    pub(super) fn make_parents(
        &mut self,
        (path, way): (&DfsPath, &Way<'_>),
        make: bool,
        mode_of: impl Fn(u16, &[AclEntry]) -> u16,
    ) -> Result<(InodeId, String), RemoteError> {
        let ns = &self.state.ns;
        let Resolved { mut id, inode } = way.ancestor;
        let group = ns.names.text(inode.group).to_owned();
        self.defaults = ns.default_acl(id).to_vec();
        let depth = path.elements().count().saturating_sub(1);
        if way.ancestor_depth < depth && !make {
            let parent = path.parent().unwrap_or_else(DfsPath::root);
            let text = format!("Parent directory doesn't exist: {parent}");
            return Err(refuse(ErrorKind::NotFound, text));
        }
        let mut mode = inode.mode;
        for name in path.elements().take(depth).skip(way.ancestor_depth) {
            mode = mode_of(mode, &self.defaults);
            id = self.make_directory(id, name.to_owned(), &group, mode);
        }
        Ok((id, group))
    }

    fn make_directory(&mut self, parent: InodeId, name: String, group: &str, mode: u16) -> InodeId {
        let id = self.new_inode();
        let (mode, acl) = acl::inherited(&self.defaults, mode, true);
        self.edits.push(Edit::MakeDirectory {
            id,
            parent,
            name,
            owner: self.asked.caller.user.to_owned(),
            group: group.to_owned(),
            mode,
            at_ms: self.now.wall_ms,
        });
        self.push_acl(id, mode, acl);
        id
    }

    /// Gives a new inode the list that it inherits.
    pub(super) fn push_acl(&mut self, inode: InodeId, mode: u16, entries: Vec<AclEntry>) {
        if !entries.is_empty() {
            self.edits.push(Edit::SetAcl { inode, mode, entries });
        }
    }

    pub(super) fn delete(&mut self, path: &DfsPath, recursive: bool) -> Planned {
        let needs =
            Needs { parent: Some(Action::WRITE), subtree: Some(Action::ALL), ..Needs::default() };
        let Some(Resolved { id, inode }) = self.find(path, needs)? else {
            return Ok(Outcome::Flag(false));
        };
        if !recursive && inode.directory().is_some_and(|d: &Directory| !d.children.is_empty()) {
            let text = format!("`{path} is non empty': Directory is not empty");
            return Err(refuse(ErrorKind::NotEmpty, text));
        }
        if path.is_root() {
            return Ok(Outcome::Flag(false));
        }
        self.edits.push(Edit::Delete { inode: id, at_ms: self.now.wall_ms });
        Ok(Outcome::Flag(true))
    }

    pub(super) fn set_replication(&mut self, path: &DfsPath, replication: u16) -> Planned {
        check_replication(path, replication)?;
        let needs = Needs { target: Some(Action::WRITE), ..Needs::default() };
        match self.find(path, needs)? {
            Some(Resolved { id, inode }) if inode.file().is_some() => {
                self.edits.push(Edit::SetReplication { file: id, replication });
                Ok(Outcome::Flag(true))
            }
            _ => Ok(Outcome::Flag(false)),
        }
    }

    pub(super) fn set_mode(&mut self, path: &DfsPath, mode: u16) -> Planned {
        check_mode(mode)?;
        let needs = Needs { ownership: true, ..Needs::default() };
        let found = self.expect(path, needs, || format!("File does not exist: {path}"))?;
        self.edits.push(Edit::SetMode { inode: found.id, mode });
        Ok(Outcome::Done)
    }

    pub(super) fn set_owner(&mut self, path: &DfsPath, owner: &str, group: &str) -> Planned {
        check_name("owner", owner)?;
        check_name("group", group)?;
        if owner.is_empty() && group.is_empty() {
            return Err(refuse(ErrorKind::InvalidArgument, "Both owner and group are empty."));
        }
        let needs = Needs { ownership: true, ..Needs::default() };
        let found = self.expect(path, needs, || format!("File does not exist: {path}"))?;
        self.guard().check_new_owner(owner, group)?;
        let names = &self.state.ns.names;
        let or = |new: &str, old| if new.is_empty() { names.text(old) } else { new }.to_owned();
        let (owner, group) = (or(owner, found.inode.owner), or(group, found.inode.group));
        self.edits.push(Edit::SetOwner { inode: found.id, owner, group });
        Ok(Outcome::Done)
    }

    pub(super) fn set_times(
        &mut self,
        path: &DfsPath,
        mtime_ms: Option<u64>,
        atime_ms: Option<u64>,
    ) -> Planned {
        let needs = Needs { target: Some(Action::WRITE), ..Needs::default() };
        let found =
            self.expect(path, needs, || format!("File/Directory {path} does not exist."))?;
        self.edits.push(Edit::SetTimes { inode: found.id, mtime_ms, atime_ms });
        Ok(Outcome::Done)
    }
}

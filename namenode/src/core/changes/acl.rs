//! Changing access control lists.

use protocol::acl::{ACL_ENTRIES_MAX, AclChange, AclScope};
use protocol::{DfsPath, ErrorKind, RemoteError};

use super::limits::check_name;
use super::planner::{Planned, Planner};
use crate::core::edit::{Edit, Outcome};
use crate::core::namespace::Resolved;
use crate::core::rights::Needs;
use crate::core::rights::acl::{changed, invalid, stored};

impl Planner<'_> {
    pub(super) fn change_acl(&mut self, path: &DfsPath, change: &AclChange) -> Planned {
        let refuse = |text: String| {
            RemoteError::new(ErrorKind::InvalidArgument, format!("{text} Path: {path}"))
        };
        if let AclChange::Modify(entries)
        | AclChange::Remove(entries)
        | AclChange::Replace(entries) = change
        {
            // Each scope has a limit of its own.
            if entries.len() > 2 * ACL_ENTRIES_MAX {
                let (count, max) = (entries.len(), ACL_ENTRIES_MAX);
                return Err(refuse(invalid(&format!(
                    "ACL has {count} entries, which exceeds maximum of {max}."
                ))));
            }
            for name in entries.iter().filter_map(|entry| entry.name.as_deref()) {
                check_name("ACL entry", name)?;
            }
        }
        let needs = Needs { ownership: true, ..Needs::default() };
        let Resolved { id, inode } =
            self.expect(path, needs, || format!("File does not exist: {path}"))?;
        let existing = self.state.ns.whole_acl(id, inode.mode);
        let list = changed(&existing, change).map_err(refuse)?;
        let has_defaults = list.iter().any(|entry| entry.scope == AclScope::Default);
        if has_defaults && inode.directory().is_none() {
            return Err(refuse(invalid("only directories may have a default ACL.")));
        }
        let (mode, entries) = stored(inode.mode, &list);
        self.edits.push(Edit::SetAcl { inode: id, mode, entries });
        Ok(Outcome::Done)
    }
}

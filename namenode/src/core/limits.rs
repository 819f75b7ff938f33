//! Limits of the name space beyond those of [`DfsPath`](protocol::DfsPath): how many entries a directory has, and names that are
//! taken.

use std::collections::BTreeMap;

use protocol::path::RESERVED;
use protocol::{ErrorKind, InodeId, RemoteError};

use super::command::{Planner, refuse};
use super::edit::Edit;
use super::inode::Inode;

impl Planner<'_> {
    /// Refuses what the planned edits would make in a full directory, or under a reserved name.
    pub(super) fn check_limits(&self) -> Result<(), RemoteError> {
        let max = self.state.settings.directory_items_max;
        let ns = &self.state.ns;
        // How many entries the edits so far take from directories that exist.
        let mut removed: BTreeMap<InodeId, usize> = BTreeMap::new();
        for edit in &self.edits {
            let (parent, name, from) = match edit {
                Edit::MakeDirectory { parent, name, .. } | Edit::MakeFile { parent, name, .. } => {
                    (*parent, name, None)
                }
                Edit::Move { inode, parent, name, .. } => {
                    (*parent, name, ns.inode(*inode).map(|inode| inode.parent))
                }
                Edit::Delete { inode, .. } => {
                    if let Some(inode) = ns.inode(*inode) {
                        *removed.entry(inode.parent).or_default() += 1;
                    }
                    continue;
                }
                _ => continue,
            };
            if parent == InodeId::ROOT && name == RESERVED {
                let text = format!(
                    "File name \"{RESERVED}\" is reserved and cannot be created. If this is during upgrade change the name of the existing file or directory to another name before upgrading to the new release."
                );
                return Err(refuse(ErrorKind::InvalidArgument, text));
            }
            let Some(directory) = ns.inode(parent).and_then(Inode::directory) else { continue };
            let gone = removed.get(&parent).copied().unwrap_or(0);
            let count = directory.children.len().saturating_sub(gone);
            if count >= max && from != Some(parent) {
                let path = ns.path_of(parent).unwrap_or_default();
                let text = format!(
                    "The directory item limit of {path} is exceeded: limit={max} items={count}"
                );
                return Err(refuse(ErrorKind::LimitExceeded, text));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use protocol::namenode::{Call, Reply};

    use super::super::harness::{Harness, create, dfs};
    use super::*;

    fn mkdir(path: &str) -> Call {
        Call::Mkdirs { path: dfs(path), mode: 0o755, unmasked: None, parents: true }
    }

    fn rename(from: &str, to: &str, overwrite: bool) -> Call {
        Call::Rename { from: dfs(from), to: dfs(to), overwrite: Some(overwrite) }
    }

    #[test]
    fn full_directories_take_no_more() {
        let mut h = Harness::with_nodes(1, 3);
        h.state.settings.directory_items_max = 2;
        h.write("/d/a", 10, 3);
        h.write("/d/b", 10, 3);
        h.write("/c", 10, 3);
        let full = "The directory item limit of /d is exceeded: limit=2 items=2";
        for call in [mkdir("/d/c"), create("/d/c", false, None, false), rename("/c", "/d/c", false)]
        {
            let error = h.call(call).unwrap_err();
            assert_eq!((error.kind, error.message.as_str()), (ErrorKind::LimitExceeded, full));
        }
        assert_eq!(h.call(rename("/d/a", "/d/c", false)), Ok(Reply::Done), "within it");
        assert_eq!(h.call(rename("/c", "/d/b", true)), Ok(Reply::Done), "in another's place");
        assert!(h.call(create("/d/b", true, None, false)).is_ok());
        assert_eq!(h.call(mkdir("/d")), Ok(Reply::Done), "there already");
    }

    #[test]
    fn reserved_names_are_refused() {
        let mut h = Harness::with_nodes(1, 3);
        h.write("/c", 10, 3);
        for call in [
            mkdir("/.reserved"),
            mkdir("/.reserved/x"),
            create("/.reserved", false, None, false),
            rename("/c", "/.reserved", false),
        ] {
            let error = h.call(call).unwrap_err();
            assert!(error.message.starts_with("File name \".reserved\" is reserved"), "{error}");
        }
        assert_eq!(h.call(mkdir("/x/.reserved")), Ok(Reply::Done));
    }
}

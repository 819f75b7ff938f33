//! Limits of the name space beyond those of [`DfsPath`]: how many entries a directory and how many blocks a file can have, reserved names, and the permitted modes,
//! owners and numbers of replicas.

use std::collections::BTreeMap;

use protocol::namenode::REPLICATION_MAX;
use protocol::path::RESERVED;
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use super::planner::Planner;
use crate::core::edit::Edit;
use crate::core::inodes::Inode;
use crate::error::refuse;

/// Longest name of a user, group or host, bytes; every record that contains one stays small.
const NAME_BYTES_MAX: usize = 255;

impl Planner<'_> {
    /// Refuses planned edits that would make a file of too many blocks: one answer names all of them.
    pub(super) fn check_block_counts(&self) -> Result<(), RemoteError> {
        let max = self.state.settings.file_blocks_max;
        let count_of = |id: &InodeId| self.state.ns.file(*id).map_or(0, |file| file.blocks.len());
        for edit in &self.edits {
            let (file, added) = match edit {
                Edit::AddBlock { file, .. } => (file, 1),
                Edit::Concat { target, sources, .. } => {
                    (target, sources.iter().map(count_of).sum())
                }
                _ => continue,
            };
            let count = count_of(file).saturating_add(added);
            if count > max {
                let text = format!(
                    "File has reached the limit on maximum number of blocks (dfs.namenode.fs-limits.max-blocks-per-file): {count} > {max}"
                );
                return Err(refuse(ErrorKind::LimitExceeded, text));
            }
        }
        Ok(())
    }

    /// Refuses planned edits that would add an entry to a full directory, or under a reserved name.
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

/// Checks the name of a user, group or host.
pub(in crate::core) fn check_name(what: &str, name: &str) -> Result<(), RemoteError> {
    if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let text = format!(
            "the name of the {what} is longer than {NAME_BYTES_MAX} bytes or has control characters"
        );
        return Err(refuse(ErrorKind::InvalidArgument, text));
    }
    Ok(())
}

pub(super) fn check_mode(mode: u16) -> Result<(), RemoteError> {
    if mode > 0o1777 {
        let text = format!("Invalid permission bits: {mode:o}");
        return Err(refuse(ErrorKind::InvalidArgument, text));
    }
    Ok(())
}

/// Checks the wanted number of replicas of a file.
pub(super) fn check_replication(path: &DfsPath, replication: u16) -> Result<(), RemoteError> {
    let text = match replication {
        0 => format!(
            "Requested replication factor of 0 is less than the required minimum of 1 for {path}"
        ),
        1..=REPLICATION_MAX => return Ok(()),
        _ => format!(
            "Requested replication factor of {replication} exceeds maximum of {REPLICATION_MAX} for {path}"
        ),
    };
    Err(refuse(ErrorKind::InvalidArgument, text))
}

#[cfg(test)]
mod tests {
    use protocol::CallId;
    use protocol::namenode::{Body, Call, Reply};

    use super::*;
    use crate::core::asked::Asked;
    use crate::core::rights::Caller;
    use crate::core::state::Output;
    use crate::core::tests::harness::{Harness, create, dfs};

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

    #[test]
    fn a_host_that_is_no_name_is_refused_and_not_kept() {
        let mut h = Harness::with_nodes(1, 3);
        let ann = Caller { user: "ann", groups: &[], is_superuser: true };
        let body: Body = create("/f", false, None, false).into();
        let id = |number| CallId { client: protocol::ClientId([7; 16]), number };
        for (number, host) in
            ["h".repeat(256), "h".repeat(1 << 20), "a\nb".to_owned()].iter().enumerate()
        {
            let asked = Asked::new(id(number as u64), ann, host);
            let mut out = Output::default();
            let answer = h.state.call(&mut h.nodes, (asked, &body), h.now, &mut out).unwrap();
            assert_eq!(answer.unwrap_err().kind, ErrorKind::InvalidArgument);
            assert!(h.state.ns.leases.host(id(0).of("ann").client).is_empty());
        }
        for (number, host) in (10..).zip(["", &"h".repeat(255)]) {
            let asked = Asked::new(id(number), ann, host);
            let mut out = Output::default();
            let call: Body = create(&format!("/f{number}"), false, None, false).into();
            let answer = h.state.call(&mut h.nodes, (asked, &call), h.now, &mut out).unwrap();
            assert!(answer.is_ok(), "{answer:?}");
        }
        assert_eq!(h.state.ns.leases.host(id(0).of("ann").client).len(), 255);
    }
}

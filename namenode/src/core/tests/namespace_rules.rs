//! What the model of the namespace lets a caller do, and how much it lets in: rights, sizes and quotas.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ErrorKind;
use protocol::acl::{AclEntry, AclKind, AclScope};
use protocol::permission::{Action, STICKY};

use super::namespace_model::{BLOCK, Body, File, Model, Node, above, parent};
use crate::core::rights::Caller;

/// What a call needs on a path, as the core's.
#[derive(Clone, Copy, Default)]
pub(super) struct Needs {
    pub(super) ownership: bool,
    pub(super) ancestor: Option<Action>,
    pub(super) parent: Option<Action>,
    pub(super) target: Option<Action>,
    pub(super) subtree: bool,
}

impl Node {
    /// POSIX's algorithm.
    pub(super) fn grants(&self, caller: Caller<'_>, access: Action) -> bool {
        let class = |shift: u16| Action::from_bits(self.mode >> shift);
        if self.owner == caller.user {
            return class(6).implies(access);
        }
        let is_member = |group: &str| caller.groups.iter().any(|own| own == group);
        let list: Vec<&AclEntry> =
            self.acl.iter().filter(|entry| entry.scope == AclScope::Access).collect();
        if list.is_empty() {
            return class(if is_member(&self.group) { 3 } else { 0 }).implies(access);
        }
        let mask = class(3);
        let named = |kind: AclKind| list.iter().filter(move |entry| entry.kind == kind);
        let own = |entry: &&&AclEntry| entry.name.as_deref() == Some(caller.user);
        if let Some(entry) = named(AclKind::User).find(own) {
            return entry.action.and(mask).implies(access);
        }
        let mut groups = named(AclKind::Group)
            .filter(|entry| is_member(entry.name.as_deref().unwrap_or(&self.group)))
            .peekable();
        if groups.peek().is_some() {
            return groups.any(|entry| entry.action.and(mask).implies(access));
        }
        class(0).implies(access)
    }
}

impl Model {
    /// Follows a path: every directory that is passed must grant EXECUTE.
    pub(super) fn walk(&self, caller: Caller<'_>, path: &str) -> Result<(), ErrorKind> {
        for at in above(path) {
            match self.get(at) {
                None => break,
                Some(node) if !node.is_directory() => return Err(ErrorKind::ParentNotDirectory),
                Some(node) if !caller.is_superuser && !node.grants(caller, Action::EXECUTE) => {
                    return Err(ErrorKind::PermissionDenied);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    pub(super) fn is_stuck(&self, caller: Caller<'_>, path: &str) -> bool {
        let (Some(holder), Some(node)) = (self.get(parent(path)), self.get(path)) else {
            return false;
        };
        let owns = |node: &Node| node.owner == caller.user;
        path != "/" && holder.mode & STICKY != 0 && !owns(holder) && !owns(node)
    }

    pub(super) fn check(
        &self,
        caller: Caller<'_>,
        path: &str,
        needs: Needs,
    ) -> Result<(), ErrorKind> {
        if caller.is_superuser {
            return Ok(());
        }
        let has = |path: &str, access: Option<Action>| {
            access
                .is_none_or(|access| self.get(path).is_none_or(|node| node.grants(caller, access)))
        };
        let ancestor = above(path).into_iter().rev().find(|at| self.get(at).is_some());
        let held = if path == "/" { None } else { Some(parent(path)) };
        let may = ancestor.is_none_or(|at| has(at, needs.ancestor))
            && held.is_none_or(|at| has(at, needs.parent))
            && !(needs.parent.is_some() && self.is_stuck(caller, path))
            && has(path, needs.target)
            && (!needs.subtree || self.may_clear(caller, path))
            && !(needs.ownership && self.get(path).is_some_and(|node| node.owner != caller.user));
        if may { Ok(()) } else { Err(ErrorKind::PermissionDenied) }
    }

    /// Everything below may be deleted.
    pub(super) fn may_clear(&self, caller: Caller<'_>, top: &str) -> bool {
        let within = self.below(top).chain(self.nodes.get_key_value(top));
        within.into_iter().all(|(path, node)| {
            let is_full = self.below(path).next().is_some();
            (!is_full || node.grants(caller, Action::ALL))
                && (path == top || !self.is_stuck(caller, path))
        })
    }

    pub(super) fn find(
        &self,
        caller: Caller<'_>,
        path: &str,
        needs: Needs,
    ) -> Result<bool, ErrorKind> {
        self.walk(caller, path)?;
        self.check(caller, path, needs)?;
        Ok(self.get(path).is_some())
    }

    pub(super) fn expect(
        &self,
        caller: Caller<'_>,
        path: &str,
        needs: Needs,
    ) -> Result<(), ErrorKind> {
        match self.find(caller, path, needs)? {
            true => Ok(()),
            false => Err(ErrorKind::NotFound),
        }
    }

    // quotas

    /// Names, bytes and bytes times replicas below and with a path.
    pub(crate) fn size(&self, top: &str) -> (u64, u64, u64) {
        let all = self.below(top).chain(self.nodes.get_key_value(top));
        all.fold((0, 0, 0), |(names, bytes, space), (_, node)| {
            let (more, cost) = node.file().map_or((0, 0), |file| (file.complete(), file.space()));
            (names + 1, bytes + more, space + cost)
        })
    }

    pub(super) fn copies(&self) -> impl Iterator<Item = &Node> {
        let trees = self.nodes.values().filter_map(Node::snapshots).flat_map(BTreeMap::values);
        trees.flat_map(BTreeMap::values)
    }

    /// What snapshots have of a file.
    pub(super) fn copies_of(&self, id: u64) -> impl Iterator<Item = &File> {
        self.copies().filter(move |node| node.id == id).filter_map(Node::file)
    }

    /// Bytes times replicas that a file takes more with another replication: all its blocks and those of its copies have as many replicas as one of these wants.
    pub(super) fn replicas_grow(&self, path: &str, replication: u64) -> u64 {
        let Some(node) = self.get(path) else { return 0 };
        let Some(file) = node.file() else { return 0 };
        let wanted = self.copies_of(node.id).map(|copy| copy.replication).max().unwrap_or(0);
        let own: BTreeSet<u64> = file.block_ids().collect();
        let copied: BTreeMap<u64, u64> =
            self.copies_of(node.id).flat_map(|copy| copy.blocks.iter().copied()).collect();
        let lost = copied.iter().filter(|(id, _)| !own.contains(id)).map(|(_, bytes)| bytes);
        let bytes = file.bytes_taken() + lost.sum::<u64>();
        let more = replication.max(wanted).saturating_sub(file.replication.max(wanted));
        bytes * more
    }

    /// At most what snapshots keep that is not in the tree: of names, those that are gone; of space, also what files had.
    pub(super) fn kept_max(&self) -> (u64, u64) {
        let live: BTreeSet<u64> = self.nodes.values().map(|node| node.id).collect();
        let mut gone = BTreeSet::new();
        let mut space: BTreeMap<u64, u64> = BTreeMap::new();
        for node in self.copies() {
            if !live.contains(&node.id) {
                gone.insert(node.id);
            }
            // A block may have grown to its full size, and the file may have wanted more replicas.
            *space.entry(node.id).or_default() += node.file().map_or(0, |file| {
                (file.blocks.len() as u64 + u64::from(file.writing.is_some()) + 3) * BLOCK * 5
            });
        }
        (gone.len() as u64, space.values().sum())
    }

    /// Whether this much more at `path` fits into the quotas above it that are not above `except` as well.
    pub(super) fn fits(
        &self,
        path: &str,
        except: &str,
        (names, space): (u64, u64),
    ) -> Result<(), ErrorKind> {
        let excepted = if except.is_empty() { Vec::new() } else { above(except) };
        let kept = self.kept_max();
        for at in above(path).into_iter().filter(|at| !excepted.contains(at)) {
            let Some(Node { body: Body::Directory { quota, .. }, .. }) = self.get(at) else {
                continue;
            };
            let (used_names, _, used_space) = self.size(at);
            let over = |quota: Option<u64>, used: u64, kept: u64, more: u64| {
                let is_over =
                    |used: u64| more > 0 && quota.is_some_and(|quota| used + more > quota);
                // What only snapshots have may count below here, and may come along.
                is_over(used)
                    || is_over(used + kept + kept) && self.exceeded
                    || more == 0 && kept > 0 && self.exceeded && quota.is_some()
            };
            if over(quota.0, used_names, kept.0, names) || over(quota.1, used_space, kept.1, space)
            {
                return Err(ErrorKind::NamespaceQuotaExceeded);
            }
        }
        Ok(())
    }
}

impl File {
    pub(crate) fn complete(&self) -> u64 {
        self.blocks.iter().map(|(_, bytes)| bytes).sum()
    }

    pub(crate) fn visible(&self) -> u64 {
        self.complete() + self.writing.map_or(0, |(_, bytes)| bytes)
    }

    /// Of one replica.
    fn bytes_taken(&self) -> u64 {
        self.complete() + if self.writing.is_some() { BLOCK } else { 0 }
    }

    pub(crate) fn space(&self) -> u64 {
        self.bytes_taken() * self.replication
    }

    fn block_ids(&self) -> impl Iterator<Item = u64> {
        self.blocks.iter().chain(&self.writing).map(|(id, _)| *id)
    }

    /// Readers see more behind a block.
    pub(super) fn has_more_after(&self, block: u64) -> bool {
        let seen = self.blocks.iter().chain(self.writing.iter().filter(|(_, known)| *known > 0));
        seen.skip_while(|(id, _)| *id != block).count() > 1
    }
}

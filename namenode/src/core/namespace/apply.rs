//! Applying edits: deterministic, without a clock or a view of DataNodes, the same live and on replay.

use protocol::{BlockId, DatanodeId, GenerationStamp, InodeId};

use super::tree::{Block, Counters, Effect, Namespace};
use crate::core::edit::Edit;
use crate::core::inodes::{
    BlockList, Body, Directory, File, Inode, Leases, NOWHERE, Open, Quota, Totals,
};
use crate::error::CoreError;

/// Inodes that one edit collects at most: a single file or a small tree goes with its own edit.
const COLLECT_WITH_EDIT: usize = 16;

impl Namespace {
    /// Applies one edit.
    ///
    /// # Errors
    /// [`CoreError`] if it does not fit; then nothing has changed.
    pub fn apply(&mut self, edit: &Edit) -> Result<(), CoreError> {
        match edit {
            Edit::Format { .. } | Edit::MakeDirectory { .. } | Edit::MakeFile { .. } => {
                self.apply_make(edit)
            }
            Edit::AddBlock { .. }
            | Edit::DropBlock { .. }
            | Edit::CommitBlock { .. }
            | Edit::RestampBlock { .. }
            | Edit::BeginRecovery { .. }
            | Edit::Close { .. } => self.apply_to_open(edit),
            Edit::Reopen { file, holder, last } => self.reopen(*file, *holder, last.as_ref()),
            Edit::SyncBlock { file, block, length } => self.sync_block(*file, *block, *length),
            Edit::Truncate { file, length, cut, at_ms } => {
                self.truncate(*file, *length, *cut, *at_ms)
            }
            Edit::Concat { target, sources, at_ms } => self.concat(*target, sources, *at_ms),
            Edit::Move { inode, parent, name, at_ms } => {
                self.move_to(*inode, *parent, name, *at_ms)
            }
            Edit::Delete { inode, at_ms } => {
                self.forget_roots(*inode);
                self.detach(*inode, *at_ms)?;
                self.retire(*inode);
                if self.garbage.len() == 1 {
                    self.collect(COLLECT_WITH_EDIT);
                }
                Ok(())
            }
            Edit::SetReplication { .. }
            | Edit::SetMode { .. }
            | Edit::SetOwner { .. }
            | Edit::SetTimes { .. }
            | Edit::SetAcl { .. }
            | Edit::SetXattr { .. } => self.apply_attribute(edit),
            Edit::AllowSnapshot { .. }
            | Edit::DisallowSnapshot { .. }
            | Edit::CreateSnapshot { .. }
            | Edit::RenameSnapshot { .. }
            | Edit::DeleteSnapshot { .. } => self.apply_snapshot(edit),
            Edit::SkipIds { block, stamp } => {
                self.counters.next_block = self.counters.next_block.max(block.0);
                self.counters.next_stamp = self.counters.next_stamp.max(stamp.0);
                self.dirty.counters = true;
                self.gaps.give_up();
                Ok(())
            }
            Edit::Leap { block, stamp } => self.leap(*block, *stamp),
            // It is not about the namespace.
            Edit::Standing(_) => Err(CoreError::BadRecord),
            Edit::SetQuota { directory, names, space } => {
                if self.inodes.get(directory).and_then(Inode::directory).is_none() {
                    let expected = "a directory";
                    return Err(CoreError::NoInode { inode: *directory, expected });
                }
                self.put_quota(*directory, Quota { names: *names, space: *space });
                Ok(())
            }
        }
    }

    /// Goes on with these ids.
    fn leap(&mut self, block: BlockId, stamp: GenerationStamp) -> Result<(), CoreError> {
        let Counters { next_block, next_stamp, .. } = self.counters;
        if block.0 <= next_block || stamp.0 <= next_stamp {
            return Err(CoreError::BadRecord);
        }
        self.gaps.add((next_block, block.0), (next_stamp, stamp.0));
        (self.counters.next_block, self.counters.next_stamp) = (block.0, stamp.0);
        self.dirty.counters = true;
        Ok(())
    }

    fn apply_attribute(&mut self, edit: &Edit) -> Result<(), CoreError> {
        match edit {
            Edit::SetReplication { file, replication } => {
                let before = self.total_of(*file)?;
                self.file_mut(*file)?.replication = *replication;
                let after = self.total_of(*file)?;
                self.adjust_above(*file, before, after);
                self.effects.push(Effect::Replication(*file));
                Ok(())
            }
            Edit::SetMode { inode, mode } => {
                self.inode_mut(*inode)?.mode = *mode;
                Ok(())
            }
            Edit::SetOwner { inode, owner, group } => {
                let (owner, group) = (self.names.intern(owner), self.names.intern(group));
                let inode = self.inode_mut(*inode)?;
                (inode.owner, inode.group) = (owner, group);
                Ok(())
            }
            Edit::SetTimes { inode, mtime_ms, atime_ms } => {
                let inode = self.inode_mut(*inode)?;
                inode.mtime_ms = mtime_ms.unwrap_or(inode.mtime_ms);
                let slot = match &mut inode.body {
                    Body::File(file) => &mut file.atime_ms,
                    Body::Directory(directory) => &mut directory.atime_ms,
                };
                *slot = atime_ms.unwrap_or(*slot);
                Ok(())
            }
            Edit::SetAcl { inode, mode, entries } => {
                self.inode_mut(*inode)?.mode = *mode;
                self.change_features(*inode, |features| features.acl.clone_from(entries))
            }
            Edit::SetXattr { inode, name, value } => {
                self.change_features(*inode, |features| match value {
                    Some(value) => drop(features.xattrs.insert(name.clone(), value.clone())),
                    None => drop(features.xattrs.remove(name)),
                })
            }
            _ => Err(CoreError::BadRecord),
        }
    }

    fn apply_make(&mut self, edit: &Edit) -> Result<(), CoreError> {
        match edit {
            Edit::Format { cluster, owner, group, at_ms } => {
                if !self.inodes.is_empty() {
                    return Err(CoreError::Exists { inode: InodeId::ROOT });
                }
                self.counters.cluster = Some(*cluster);
                self.dirty.counters = true;
                let root = Inode {
                    parent: InodeId::ROOT,
                    name: "".into(),
                    owner: self.names.intern(owner),
                    group: self.names.intern(group),
                    mode: 0o755,
                    mtime_ms: *at_ms,
                    body: empty_directory(),
                };
                self.inodes.insert(InodeId::ROOT, root);
                self.dirty.inodes.insert(InodeId::ROOT);
                Ok(())
            }
            Edit::MakeDirectory { id, parent, name, owner, group, mode, at_ms } => {
                let inode = Inode {
                    parent: *parent,
                    name: name.as_str().into(),
                    owner: self.names.intern(owner),
                    group: self.names.intern(group),
                    mode: *mode,
                    mtime_ms: *at_ms,
                    body: empty_directory(),
                };
                self.attach(*id, inode, *at_ms)
            }
            Edit::MakeFile {
                id,
                parent,
                name,
                owner,
                group,
                mode,
                replication,
                block_size,
                holder,
                at_ms,
            } => {
                let file = File {
                    length: 0,
                    blocks: BlockList::default(),
                    atime_ms: *at_ms,
                    block_size: *block_size,
                    replication: *replication,
                    open: Some(Box::new(Open::by(*holder))),
                };
                let inode = Inode {
                    parent: *parent,
                    name: name.as_str().into(),
                    owner: self.names.intern(owner),
                    group: self.names.intern(group),
                    mode: *mode,
                    mtime_ms: *at_ms,
                    body: Body::File(file),
                };
                self.attach(*id, inode, *at_ms)?;
                self.leases.add(*holder, *id);
                Ok(())
            }
            _ => Err(CoreError::BadRecord),
        }
    }

    fn apply_to_open(&mut self, edit: &Edit) -> Result<(), CoreError> {
        match edit {
            Edit::AddBlock { file, block, stamp, targets } => {
                self.add_block(*file, (*block, *stamp), targets)
            }
            Edit::DropBlock { file, block } => {
                let info = self.check_open_block(*file, *block)?;
                let before = self.total_of(*file)?;
                self.file_mut(*file)?.blocks.pop();
                self.blocks.remove(block);
                let open = self.open_mut(*file)?;
                open.recovery = None;
                open.writing = false;
                let promised = open.known;
                open.confirm(0);
                let targets = std::mem::take(&mut open.targets);
                self.shorten_versions(*file, *block, promised);
                let after = self.total_of(*file)?;
                self.adjust_above(*file, before, after);
                self.effects.push(Effect::Removed {
                    block: *block,
                    stamp: info.stamp,
                    complete: false,
                    targets,
                });
                Ok(())
            }
            Edit::CommitBlock { file, block, length } => self.commit(*file, *block, *length),
            Edit::RestampBlock { file, block, stamp, targets, prior } => {
                self.check_open_block(*file, *block)?;
                let open = self.open_mut(*file)?;
                open.redirect(targets, *prior);
                self.dirty.inodes.insert(*file);
                if let Some(info) = self.blocks.get_mut(block) {
                    info.stamp = *stamp;
                }
                self.raise_stamp(*stamp);
                self.effects.push(Effect::Restamped(*block));
                Ok(())
            }
            Edit::BeginRecovery { file, stamp } => {
                let open = self.open_mut(*file)?;
                open.recovery = Some(*stamp);
                let holder = std::mem::replace(&mut open.holder, Leases::RECOVERER);
                self.leases.remove(holder, *file);
                self.leases.add(Leases::RECOVERER, *file);
                self.raise_stamp(*stamp);
                Ok(())
            }
            Edit::Close { file, at_ms } => {
                if let Some(block) = self.open_block(*file) {
                    return Err(CoreError::NotLastBlock { inode: *file, block });
                }
                let open = self.open_mut(*file)?;
                let (holder, source) = (open.holder, open.source.take());
                self.leases.remove(holder, *file);
                self.file_mut(*file)?.open = None;
                self.release(source.as_slice());
                self.inode_mut(*file)?.mtime_ms = *at_ms;
                Ok(())
            }
            _ => Err(CoreError::BadRecord),
        }
    }

    fn add_block(
        &mut self,
        file: InodeId,
        (block, stamp): (BlockId, GenerationStamp),
        targets: &[DatanodeId],
    ) -> Result<(), CoreError> {
        if self.blocks.contains_key(&block) || self.open_block(file).is_some() {
            return Err(CoreError::NotLastBlock { inode: file, block });
        }
        let before = self.total_of(file)?;
        let open = self.open_mut(file)?;
        open.targets = targets.to_vec();
        open.writing = true;
        self.file_mut(file)?.blocks.push(block);
        let info = Block { file, stamp, length: 0, complete: false };
        self.blocks.insert(block, info);
        let after = self.total_of(file)?;
        self.adjust_above(file, before, after);
        self.counters.next_block = self.counters.next_block.max(block.0 + 1);
        self.raise_stamp(stamp);
        Ok(())
    }

    fn commit(&mut self, file: InodeId, block: BlockId, length: u64) -> Result<(), CoreError> {
        self.check_open_block(file, block)?;
        let before = self.total_of(file)?;
        if let Some(info) = self.blocks.get_mut(&block) {
            info.length = length;
            info.complete = true;
        }
        self.complete_block_count += 1;
        let open = self.open_mut(file)?;
        open.targets = Vec::new();
        open.recovery = None;
        open.writing = false;
        let lost = open.known.saturating_sub(length);
        open.confirm(0);
        let body = self.file_mut(file)?;
        body.length = body.length.saturating_add(length);
        if lost > 0 {
            self.shorten_versions(file, block, lost);
        }
        let after = self.total_of(file)?;
        self.adjust_above(file, before, after);
        self.effects.push(Effect::Completed(block));
        Ok(())
    }

    fn move_to(
        &mut self,
        id: InodeId,
        parent: InodeId,
        name: &str,
        at_ms: u64,
    ) -> Result<(), CoreError> {
        let target = self.inodes.get(&parent).and_then(Inode::directory);
        let target = target.ok_or(CoreError::NoInode { inode: parent, expected: "a directory" })?;
        if self.child(target, name).is_some() || self.is_within(parent, id) {
            return Err(CoreError::Exists { inode: id });
        }
        self.detach(id, at_ms)?;
        let mut inode =
            self.inodes.remove(&id).ok_or(CoreError::NoInode { inode: id, expected: "there" })?;
        inode.parent = parent;
        inode.name = name.into();
        self.attach(id, inode, at_ms)
    }

    /// Adds an inode to its parent.
    fn attach(&mut self, id: InodeId, inode: Inode, at_ms: u64) -> Result<(), CoreError> {
        let (total, parent) = (inode.total(), inode.parent);
        let directory = self.inodes.get(&parent).and_then(Inode::directory);
        let directory =
            directory.ok_or(CoreError::NoInode { inode: parent, expected: "a directory" })?;
        let at = match self.find_child(directory, &inode.name) {
            Err(at) if !self.inodes.contains_key(&id) => at,
            _ => return Err(CoreError::Exists { inode: id }),
        };
        self.inodes.insert(id, inode);
        self.dirty.inodes.insert(id);
        if let Inode { body: Body::Directory(directory), mtime_ms, .. } = self.inode_mut(parent)? {
            directory.children.insert(at, id);
            *mtime_ms = at_ms;
        }
        self.adjust_above(id, Totals::default(), total);
        let retained = self.retained(id);
        self.adjust_retained(parent, Totals::default(), retained);
        self.note_arrival(id, parent);
        self.counters.next_inode = self.counters.next_inode.max(id.0 + 1);
        self.dirty.counters = true;
        Ok(())
    }

    /// Takes an inode out of its parent; it stays in the table with the parent [`NOWHERE`].
    pub(super) fn detach(&mut self, id: InodeId, at_ms: u64) -> Result<(), CoreError> {
        let inode = self.inodes.get(&id).filter(|_| id != InodeId::ROOT);
        let inode = inode.ok_or(CoreError::NoInode { inode: id, expected: "below the root" })?;
        let (total, parent) = (inode.total(), inode.parent);
        let directory = self.inodes.get(&parent).and_then(Inode::directory);
        let at = directory.and_then(|directory| self.find_child(directory, &inode.name).ok());
        let at = at.ok_or(CoreError::NoInode { inode: id, expected: "in a directory" })?;
        self.adjust_above(id, total, Totals::default());
        let retained = self.retained(id);
        self.adjust_retained(parent, retained, Totals::default());
        if let Inode { body: Body::Directory(directory), mtime_ms, .. } = self.inode_mut(parent)? {
            directory.children.remove(at);
            *mtime_ms = at_ms;
        }
        self.inode_mut(id)?.parent = NOWHERE;
        self.note_departure(id);
        Ok(())
    }

    /// Replaces `before` by `after` in the totals of all directories above `id`; above a tree that only snapshots have, in what
    /// they keep. What its versions keep of a file follows its size.
    pub(in crate::core) fn adjust_above(&mut self, id: InodeId, before: Totals, after: Totals) {
        self.add_above(id, before, after);
        self.charge_versions(id);
    }

    fn add_above(&mut self, id: InodeId, before: Totals, after: Totals) {
        let mut at = id;
        loop {
            let parent = match self.inodes.get(&at).map(|inode| inode.parent) {
                Some(NOWHERE) => {
                    if let Some(home) = self.history.homes.get(&at).copied() {
                        self.adjust_retained(home, before, after);
                    }
                    return;
                }
                Some(parent) if at != InodeId::ROOT => parent,
                _ => return,
            };
            if let Some(Inode { body: Body::Directory(directory), .. }) =
                self.inodes.get_mut(&parent)
            {
                directory.total = directory.total.replacing(before, after);
            }
            at = parent;
        }
    }

    /// The last block of a file, if it is not complete.
    pub fn open_block(&self, file: InodeId) -> Option<BlockId> {
        let last = self.file(file)?.blocks.last()?;
        self.blocks.get(last).filter(|info| !info.complete).map(|_| *last)
    }

    pub(super) fn check_open_block(
        &self,
        file: InodeId,
        block: BlockId,
    ) -> Result<Block, CoreError> {
        match self.blocks.get(&block) {
            Some(info) if self.open_block(file) == Some(block) => Ok(*info),
            _ => Err(CoreError::NotLastBlock { inode: file, block }),
        }
    }

    pub(super) fn total_of(&self, id: InodeId) -> Result<Totals, CoreError> {
        let inode = self.inodes.get(&id).ok_or(CoreError::NoInode { inode: id, expected: "there" });
        inode.map(Inode::total)
    }

    /// An inode to change; its row becomes dirty, and what a snapshot sees of it is kept.
    pub(in crate::core) fn inode_mut(&mut self, id: InodeId) -> Result<&mut Inode, CoreError> {
        self.save(id);
        self.dirty.inodes.insert(id);
        self.inodes.get_mut(&id).ok_or(CoreError::NoInode { inode: id, expected: "there" })
    }

    pub(in crate::core) fn file_mut(&mut self, id: InodeId) -> Result<&mut File, CoreError> {
        match &mut self.inode_mut(id)?.body {
            Body::File(file) => Ok(file),
            Body::Directory(_) => Err(CoreError::NoInode { inode: id, expected: "a file" }),
        }
    }

    pub(super) fn open_mut(&mut self, id: InodeId) -> Result<&mut Open, CoreError> {
        let open = self.file_mut(id)?.open.as_deref_mut();
        open.ok_or(CoreError::NoInode { inode: id, expected: "an open file" })
    }

    pub(super) fn raise_stamp(&mut self, stamp: GenerationStamp) {
        self.counters.next_stamp = self.counters.next_stamp.max(stamp.0 + 1);
        self.dirty.counters = true;
    }
}

fn empty_directory() -> Body {
    Body::Directory(Box::new(Directory { total: Totals::DIRECTORY, ..Directory::default() }))
}

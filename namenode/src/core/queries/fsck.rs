//! fsck: a walk over the tree in pages, each with a bounded amount of work. The position is a path, so a page stays right when
//! the tree changes between pages.

use protocol::namenode::{
    AdminState, CorruptReason, DatanodeInfo, DatanodeState, FsckBlock, FsckFile, FsckPage,
    ReplicaState,
};
use protocol::permission::Action;
use protocol::{BlockId, DfsPath, GenerationStamp, InodeId, RemoteError};

use crate::core::blocks::placement;
use crate::core::inodes::{Inode, Name};
use crate::core::namespace::{Resolved, lost_bytes};
use crate::core::nodes::{Datanodes, Node, NodeIndex};
use crate::core::rights::{Caller, Needs};
use crate::core::state::State;

/// Files on a page.
pub(super) const FILES_MAX: usize = 200;
/// Inodes passed for a page.
pub(super) const INODES_MAX: usize = 2_000;
/// Blocks on a page; a file with more is still given whole.
pub(super) const BLOCKS_MAX: usize = 5_000;

/// A directory on the way, and the entry that was passed last.
struct Step {
    directory: InodeId,
    passed: Option<Name>,
}

impl State {
    pub(in crate::core) fn fsck(
        &self,
        nodes: &Datanodes,
        path: &DfsPath,
        after: Option<&DfsPath>,
        caller: Caller<'_>,
    ) -> Result<FsckPage, RemoteError> {
        if let Some(view) = self.view(path, caller) {
            return self.fsck_view(nodes, (path, after), view?, caller);
        }
        let Resolved { id, inode } = self.lookup(path, (caller, Needs::default()), |path| {
            format!("File does not exist: {path}")
        })?;
        let guard = self.guard(caller);
        let access = if inode.file().is_some() { Action::READ } else { Action::READ_EXECUTE };
        guard.check_inode(id, access)?;
        let mut page = FsckPage { files: Vec::new(), directories: Vec::new(), next: None };
        if inode.file().is_some() {
            page.files.extend(self.fsck_file(nodes, id, path.clone()));
            return Ok(page);
        }
        let mut steps = self.steps_to(id, path, after);
        if after.is_none() {
            page.directories.push((path.clone(), 0));
        }
        let mut block_count = 0;
        for passed_count in 0.. {
            let Some(entry) = self.next_entry(&mut steps) else { break };
            let at = steps.iter().try_fold(path.clone(), |at, step| match &step.passed {
                Some(name) => at.join(name),
                None => Ok(at),
            });
            // Only a path that a rename made too long does not fit; its parts were checked.
            let Ok(at) = at else { continue };
            if self.ns.inode(entry).is_some_and(|inode| inode.directory().is_some()) {
                guard.check_inode(entry, Action::READ_EXECUTE)?;
                page.directories.push((at.clone(), number_of_files(&page)));
                steps.push(Step { directory: entry, passed: None });
            } else {
                guard.check_inode(entry, Action::READ)?;
                if let Some(file) = self.fsck_file(nodes, entry, at.clone()) {
                    block_count += file.blocks.len();
                    page.files.push(file);
                }
            }
            let full = page.files.len() >= FILES_MAX || block_count >= BLOCKS_MAX;
            if full || passed_count >= INODES_MAX {
                page.next = Some(at);
                break;
            }
        }
        Ok(page)
    }

    /// The way from `top` to `after`, as far as it still exists.
    fn steps_to(&self, top: InodeId, path: &DfsPath, after: Option<&DfsPath>) -> Vec<Step> {
        let mut steps = vec![Step { directory: top, passed: None }];
        let Some(after) = after.filter(|after| after.starts_with(path)) else { return steps };
        let mut directory = Some(top);
        for name in after.elements().skip(path.elements().count()) {
            let Some(at) = directory else { break };
            if let Some(step) = steps.last_mut() {
                step.passed = Some(name.into());
            }
            let children = self.ns.inode(at).and_then(Inode::directory);
            let child = children.and_then(|directory| self.ns.child(directory, name));
            directory = child.filter(|child| {
                self.ns.inode(*child).is_some_and(|inode| inode.directory().is_some())
            });
            if let Some(directory) = directory {
                steps.push(Step { directory, passed: None });
            }
        }
        steps
    }

    /// The next entry in path order; leaves directories that are done.
    fn next_entry(&self, steps: &mut Vec<Step>) -> Option<InodeId> {
        while let Some(step) = steps.last_mut() {
            let directory = self.ns.inode(step.directory).and_then(Inode::directory);
            // No entry has the empty name, so everything comes after it.
            let passed = step.passed.as_deref().unwrap_or_default();
            let next = directory.and_then(|d| self.ns.children_after(d, passed).0.next());
            if let Some((id, inode)) = next {
                step.passed = Some(inode.name.clone());
                return Some(id);
            }
            steps.pop();
        }
        None
    }

    fn fsck_file(&self, nodes: &Datanodes, id: InodeId, path: DfsPath) -> Option<FsckFile> {
        let (inode, file) = self.status_of(id)?;
        let mut blocks: Vec<FsckBlock> =
            file.blocks.iter().filter_map(|block| self.fsck_block(nodes, *block)).collect();
        // The DataNodes to which the last block is being written; the replicas there are not settled.
        if let (Some(open), Some(last)) = (file.open.as_deref(), blocks.last_mut()) {
            let targets = open.targets.iter().filter_map(|id| nodes.index(*id));
            let targets = targets.map(|index| nodes.node(index));
            if self.ns.open_block(id).is_some() {
                last.replicas = targets.map(|node| (node.info.clone(), state_on(node))).collect();
            }
        }
        let lost_bytes = lost_bytes(self.ns.features(id));
        let awaited = self.awaited(nodes, id).into_iter().map(|id| match nodes.index(id) {
            Some(index) => nodes.node(index).info.transfer_address.clone(),
            None => id.to_string(),
        });
        let awaited = awaited.collect();
        let status = self.ns.status(id, inode, &inode.name);
        Some(FsckFile { path, status, blocks, lost_bytes, awaited })
    }

    pub(super) fn fsck_block(&self, nodes: &Datanodes, block: BlockId) -> Option<FsckBlock> {
        let info = self.ns.block(block)?;
        Some(FsckBlock {
            id: block,
            stamp: info.stamp,
            length: info.length,
            replicas: self.replicas_of(nodes, block),
            misplaced: placement::is_misplaced(nodes, self.blocks.holders(block)),
        })
    }

    /// The replicas of a block that are there to stay, and the bad ones.
    fn replicas_of(&self, nodes: &Datanodes, block: BlockId) -> Vec<(DatanodeInfo, ReplicaState)> {
        let good = self.blocks.holders(block).iter().map(|index| {
            let node = nodes.node(*index);
            (node.info.clone(), state_on(node))
        });
        let bad = self
            .blocks
            .corrupt_replicas(block)
            .map(|(index, reason)| (nodes.node(index).info.clone(), ReplicaState::Corrupt(reason)));
        good.chain(bad).collect()
    }

    /// All of them: also those that are about to be deleted.
    pub(super) fn all_replicas_of(
        &self,
        nodes: &Datanodes,
        (block, stamp): (BlockId, GenerationStamp),
    ) -> Vec<(DatanodeInfo, ReplicaState)> {
        let mut replicas = self.replicas_of(nodes, block);
        let corrupt: Vec<NodeIndex> =
            self.blocks.corrupt_replicas(block).map(|(node, _)| node).collect();
        for (index, up_to) in self.blocks.doomed.of(block) {
            if self.blocks.holders(block).contains(&index) || corrupt.contains(&index) {
                continue;
            }
            let state = match up_to < stamp {
                true => ReplicaState::Corrupt(CorruptReason::GenstampMismatch),
                false => ReplicaState::Excess,
            };
            replicas.push((nodes.node(index).info.clone(), state));
        }
        replicas
    }
}

/// State of a good replica, by the node that holds it.
fn state_on(node: &Node) -> ReplicaState {
    match node.admin {
        AdminState::Normal if node.state == DatanodeState::Live => ReplicaState::Live,
        AdminState::Normal => ReplicaState::Stale,
        AdminState::DecommissionInProgress => ReplicaState::Decommissioning,
        AdminState::Decommissioned => ReplicaState::Decommissioned,
        AdminState::EnteringMaintenance => ReplicaState::EnteringMaintenance,
        AdminState::InMaintenance => ReplicaState::InMaintenance,
    }
}

/// Files on a page so far.
pub(super) fn number_of_files(page: &FsckPage) -> u32 {
    u32::try_from(page.files.len()).unwrap_or(u32::MAX)
}

//! Changing files that exist: append, sync, truncate, concat.

use protocol::namenode::DatanodeState;
use protocol::permission::Action;
use protocol::{BlockId, DatanodeId, DfsPath, ErrorKind, GenerationStamp, InodeId, RemoteError};

use super::planner::{Planned, Planner};
use crate::core::edit::{Allotted, Edit, Outcome};
use crate::core::inodes::File;
use crate::core::namespace::Resolved;
use crate::core::nodes::NodeIndex;
use crate::core::rights::Needs;
use crate::error::refuse;

/// To change a file.
const WRITE: Needs = Needs {
    ownership: false,
    ancestor: None,
    parent: None,
    target: Some(Action::WRITE),
    subtree: None,
};
/// To read a file and take it out of its directory.
const MOVE: Needs = Needs { target: Some(Action::READ), parent: Some(Action::WRITE), ..WRITE };

impl Planner<'_> {
    pub(super) fn append(&mut self, path: &DfsPath, new_block: bool) -> Planned {
        let host = self.asked.host;
        let found = self.expect(path, WRITE, || {
            format!("Failed to append to non-existent file {path} for client {host}")
        })?;
        let Some(file) = found.inode.file() else {
            let text = format!("Cannot append to directory {path}; already exists as a directory.");
            return Err(refuse(ErrorKind::AlreadyExists, text));
        };
        if let Some(refusal) = self.refuse_if_open("APPEND_FILE", path, (found.id, file))? {
            return Ok(refusal);
        }
        let (id, length, block_size) = (found.id, file.length, file.block_size);
        let last = match file.blocks.last() {
            Some(block) if !new_block && !self.state.ns.is_within_version(found.id, *block) => {
                self.go_on_with(path, file, *block)?
            }
            _ => None,
        };
        let reopened = last.as_ref().map(|(last, _)| (last.stamp, last.targets.clone()));
        let holder = self.asked.id().client;
        self.edits.push(Edit::Reopen { file: id, holder, last: reopened });
        let prior = last.as_ref().map_or(GenerationStamp::default(), |(_, prior)| *prior);
        let last = last.map(|(last, _)| last);
        Ok(Outcome::Appended { file: id, block_size, length, last, prior })
    }

    /// The last block of a file under a new stamp, and its old one; `None` if it is full.
    fn go_on_with(
        &mut self,
        path: &DfsPath,
        file: &File,
        block: BlockId,
    ) -> Result<Option<(Allotted, GenerationStamp)>, RemoteError> {
        let Some(info) = self.state.ns.block(block).copied() else { return Ok(None) };
        if info.length >= file.block_size {
            return Ok(None);
        }
        let is_live = |node: &&NodeIndex| self.nodes.node(**node).state == DatanodeState::Live;
        let mut holders: Vec<NodeIndex> =
            self.state.blocks.holders(block).iter().filter(is_live).copied().collect();
        if holders.is_empty() {
            let text = format!(
                "append: lastBlock={block} of src={path} is not sufficiently replicated yet."
            );
            return Err(refuse(ErrorKind::NotReplicatedYet, text));
        }
        holders.sort_by_key(|node| self.nodes.node(*node).info.host != self.asked.host);
        let targets: Vec<DatanodeId> =
            holders.iter().map(|node| self.nodes.node(*node).info.id).collect();
        let room = file.block_size - info.length;
        self.chosen.extend(holders.iter().map(|node| (*node, room)));
        let last = Allotted {
            id: block,
            stamp: self.new_stamp(),
            offset: file.length - info.length,
            length: info.length,
            targets,
            replication: file.replication,
        };
        Ok(Some((last, info.stamp)))
    }

    pub(super) fn sync_block(
        &mut self,
        id: InodeId,
        block: BlockId,
        (stamp, length): (GenerationStamp, u64),
    ) -> Planned {
        let (file, open, path) = self.held(id)?;
        let (known, confirmed, block_size) = (open.known, open.prior.is_none(), file.block_size);
        let info = self.own_block(id, &path, block)?;
        if info.complete && (info.stamp, info.length) == (stamp, length) {
            return Ok(Outcome::Done);
        }
        if info.complete || info.stamp != stamp || length < known || length > block_size {
            let text = format!(
                "block {block} of {path} has stamp {} and {known} bytes, not {stamp} and {length}",
                info.stamp
            );
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        if length > known || !confirmed {
            self.edits.push(Edit::SyncBlock { file: id, block, length });
        }
        Ok(Outcome::Done)
    }

    pub(super) fn truncate(&mut self, path: &DfsPath, length: u64) -> Planned {
        let found = self.expect(path, WRITE, || format!("File does not exist: {path}"))?;
        let Some(file) = found.inode.file() else {
            return Err(refuse(ErrorKind::NotFound, format!("Path is not a file: {path}")));
        };
        if let Some(refusal) = self.refuse_if_open("TRUNCATE_FILE", path, (found.id, file))? {
            return Ok(refusal);
        }
        if length > file.length {
            let text = format!(
                "Cannot truncate to a larger file size. Current size: {}, truncate size: {length}.",
                file.length
            );
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        if length == file.length {
            return Ok(Outcome::Flag(true));
        }
        let (id, at_ms) = (found.id, self.now.wall_ms);
        let (kept, kept_length) = self.state.ns.whole_blocks(&file.blocks, length);
        let within = kept_length < length;
        let source = file.blocks.get(kept).filter(|_| within);
        if let Some(block) = source.filter(|it| self.state.sources(self.nodes, **it).is_empty()) {
            let text = format!(
                "truncate: block={block} of src={path}, in which {length} is, has no replica on a live DataNode: try again later."
            );
            return Err(refuse(ErrorKind::NotReplicatedYet, text));
        }
        let cut = within.then(|| (self.new_block(), self.new_stamp()));
        self.edits.push(Edit::Truncate { file: id, length, cut, at_ms });
        Ok(Outcome::Flag(!within))
    }

    pub(super) fn concat(&mut self, target: &DfsPath, sources: &[DfsPath]) -> Planned {
        let invalid = |text: String| Err(refuse(ErrorKind::InvalidArgument, text));
        if sources.is_empty() {
            return invalid("No sources given".to_owned());
        }
        let found = self.file_at(target, WRITE)?;
        let (id, parent, block_size) = (found.id, found.inode.parent, found.file.block_size);
        if found.file.open.is_some() {
            return invalid(format!("concat: target file {target} is under construction"));
        }
        let mut ids = Vec::with_capacity(sources.len());
        for source in sources {
            let found = self.file_at(source, MOVE)?;
            // Otherwise its bytes could be read after the target's.
            self.guard().check_readable(self.state.ns.features(found.id))?;
            let text = if found.inode.parent != parent {
                format!(
                    "Source file {source} is not in the same directory with the target {target}"
                )
            } else if found.id == id {
                format!("concat: the src file {source} is the same with the target file {target}")
            } else if found.file.open.is_some() || found.file.blocks.is_empty() {
                format!("concat: source file {source} is invalid or empty or underConstruction")
            } else if found.file.block_size > block_size {
                format!(
                    "concat: source file {source} has preferred block size {} which is greater than the target file's preferred block size {block_size}",
                    found.file.block_size
                )
            } else if ids.contains(&found.id) {
                "concat: at least two of the source files are the same".to_owned()
            } else {
                ids.push(found.id);
                continue;
            };
            return invalid(text);
        }
        self.edits.push(Edit::Concat { target: id, sources: ids, at_ms: self.now.wall_ms });
        Ok(Outcome::Done)
    }

    fn file_at(&self, path: &DfsPath, needs: Needs) -> Result<FoundFile<'_>, RemoteError> {
        let Resolved { id, inode } =
            self.expect(path, needs, || format!("File does not exist: {path}"))?;
        match inode.file() {
            Some(file) => Ok(FoundFile { id, inode, file }),
            None => Err(refuse(ErrorKind::NotFound, format!("Path is not a file: {path}"))),
        }
    }
}

struct FoundFile<'a> {
    id: InodeId,
    inode: &'a crate::core::inodes::Inode,
    file: &'a File,
}

//! Applying the edits that change files which were closed: append, truncate, concat.
//!
//! A block that was complete is never cut in place: a truncated file gets a new last block, which DataNodes copy from the old one.
//! So a mapped replica never shrinks under its reader, and whoever else still refers to the old block keeps all of it.

use protocol::{BlockId, ClientId, DatanodeId, GenerationStamp, InodeId};

use super::tree::{Block, Effect, Namespace};
use crate::core::inodes::{Leases, Open};
use crate::error::CoreError;

impl Namespace {
    /// A closed file that an edit opens or changes.
    fn expect_closed(&self, file: InodeId) -> Result<(), CoreError> {
        match self.file(file) {
            Some(body) if body.open.is_none() => Ok(()),
            _ => Err(CoreError::NoInode { inode: file, expected: "a closed file" }),
        }
    }

    pub(in crate::core) fn reopen(
        &mut self,
        file: InodeId,
        holder: ClientId,
        last: Option<&(GenerationStamp, Vec<DatanodeId>)>,
    ) -> Result<(), CoreError> {
        self.expect_closed(file)?;
        let before = self.total_of(file)?;
        let mut open = Open::by(holder);
        if let Some((stamp, targets)) = last {
            let block = self.file(file).and_then(|file| file.blocks.last().copied());
            let block = block.ok_or(CoreError::NoInode { inode: file, expected: "with blocks" })?;
            let info = self.blocks.get_mut(&block).filter(|info| info.complete);
            let info = info.ok_or(CoreError::BadBlock { inode: file, block })?;
            let old = *info;
            *info = Block { stamp: *stamp, length: 0, complete: false, ..old };
            self.complete_block_count -= 1;
            open.targets.clone_from(targets);
            (open.writing, open.prior, open.known) = (true, Some(old.stamp), old.length);
            self.file_mut(file)?.length -= old.length;
            self.raise_stamp(*stamp);
            self.effects.push(Effect::Reopened(block, old.stamp, old.length));
        }
        self.file_mut(file)?.open = Some(Box::new(open));
        self.leases.add(holder, file);
        let after = self.total_of(file)?;
        self.adjust_above(file, before, after);
        Ok(())
    }

    pub(in crate::core) fn sync_block(
        &mut self,
        file: InodeId,
        block: BlockId,
        length: u64,
    ) -> Result<(), CoreError> {
        self.check_open_block(file, block)?;
        let open = self.open_mut(file)?;
        open.confirm(length);
        Ok(())
    }

    pub(in crate::core) fn truncate(
        &mut self,
        file: InodeId,
        length: u64,
        cut: Option<(BlockId, GenerationStamp)>,
        at_ms: u64,
    ) -> Result<(), CoreError> {
        self.expect_closed(file)?;
        self.save(file);
        self.pin_blocks(file);
        let before = self.total_of(file)?;
        let blocks = self.file(file).map(|file| file.blocks.to_vec()).unwrap_or_default();
        let (kept, kept_length) = self.whole_blocks(&blocks, length);
        let (source, gone) = match cut {
            Some((block, _)) => match blocks.get(kept) {
                Some(source) if !self.blocks.contains_key(&block) => {
                    (Some(*source), &blocks[kept + 1..])
                }
                _ => return Err(CoreError::BadBlock { inode: file, block }),
            },
            None if kept_length == length => (None, &blocks[kept..]),
            None => {
                return Err(CoreError::NoInode { inode: file, expected: "with a border there" });
            }
        };
        self.dirty.erased.push((file, blocks.len()));
        let body = self.file_mut(file)?;
        body.blocks.truncate(kept);
        body.length = kept_length;
        if let (Some((block, stamp)), Some(source)) = (cut, source) {
            body.blocks.push(block);
            body.open = Some(Box::new(Open {
                recovery: Some(stamp),
                writing: true,
                known: length - kept_length,
                source: Some(source),
                ..Open::by(Leases::RECOVERER)
            }));
            self.blocks.insert(block, Block { file, stamp, length: 0, complete: false });
            self.counters.next_block = self.counters.next_block.max(block.0 + 1);
            self.raise_stamp(stamp);
            self.leases.add(Leases::RECOVERER, file);
        }
        self.inode_mut(file)?.mtime_ms = at_ms;
        self.release(gone);
        let after = self.total_of(file)?;
        self.adjust_above(file, before, after);
        self.recount_versions(file);
        Ok(())
    }

    /// How many of the blocks lie wholly within `length`, and their bytes.
    pub(in crate::core) fn whole_blocks(&self, blocks: &[BlockId], length: u64) -> (usize, u64) {
        let mut end = 0;
        for (index, block) in blocks.iter().enumerate() {
            let next = end + self.blocks.get(block).map_or(0, |info| info.length);
            if next > length {
                return (index, end);
            }
            end = next;
        }
        (blocks.len(), end)
    }

    /// Releases complete blocks that their file no longer has, unless a snapshot sees them. The one place where blocks leave a file that stays.
    pub(super) fn release(&mut self, blocks: &[BlockId]) {
        for &block in blocks {
            if let Some(file) = self.blocks.get(&block).map(|info| info.file) {
                self.free_block(file, block, &[]);
            }
        }
    }

    pub(in crate::core) fn concat(
        &mut self,
        target: InodeId,
        sources: &[InodeId],
        at_ms: u64,
    ) -> Result<(), CoreError> {
        for &file in sources.iter().chain([&target]) {
            self.expect_closed(file)?;
        }
        for &source in sources {
            self.detach(source, at_ms)?;
            let body = self.file_mut(source)?;
            let (blocks, length) = (std::mem::take(&mut body.blocks), body.length);
            body.length = 0;
            self.dirty.erased.push((source, blocks.len()));
            for block in &blocks {
                if let Some(info) = self.blocks.get_mut(block) {
                    info.file = target;
                }
            }
            let before = self.total_of(target)?;
            let body = self.file_mut(target)?;
            body.blocks.extend(blocks.iter().copied());
            body.length = body.length.saturating_add(length);
            let after = self.total_of(target)?;
            self.adjust_above(target, before, after);
            self.erase(source);
            self.drop_versions(source);
        }
        self.inode_mut(target)?.mtime_ms = at_ms;
        self.effects.push(Effect::Replication(target));
        Ok(())
    }
}

//! What is checked of a namespace that was loaded: it can come from a damaged disk, or from anybody in the place of an image. The invariants are those
//! of `tree`, and that nothing in it goes round in a ring or beyond what a number can hold.

use protocol::path::{DEPTH_MAX, ELEMENT_BYTES_MAX};
use protocol::{BlockId, InodeId};

use super::tree::Namespace;
use crate::core::inodes::{File, Inode, NOWHERE, VersionBlocks};
use crate::error::CoreError;

/// Largest counter. HDFS's are signed, and what comes after it still fits.
const COUNTER_MAX: u64 = i64::MAX as u64;

impl Namespace {
    /// Checks all invariants of the tree; walks everything once.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), CoreError> {
        if self.inodes.is_empty() && self.counters.cluster.is_none() {
            return Ok(());
        }
        if self.counters.cluster.is_none() || !self.inodes.contains_key(&InodeId::ROOT) {
            return Err(CoreError::NoRoot);
        }
        self.check_counters()?;
        let mut block_count = 0;
        for (id, inode) in self.inodes.iter() {
            if id.0 >= self.counters.next_inode {
                return Err(CoreError::Counter("inodes"));
            }
            if let Some(file) = inode.file() {
                let source = file.open.as_deref().and_then(|open| open.source);
                block_count += file.blocks.len() + usize::from(source.is_some());
                if let Some(block) = source.filter(|block| !self.is_source_of(*block, id)) {
                    return Err(CoreError::BadBlock { inode: id, block });
                }
                self.check_file(id, file)?;
            }
        }
        if let Some(id) =
            self.quotas.keys().find(|id| self.inodes.get(*id).and_then(Inode::directory).is_none())
        {
            return Err(CoreError::NoInode { inode: *id, expected: "a directory" });
        }
        block_count += self.kept_blocks().count();
        self.check_features()?;
        if block_count != self.blocks.len() {
            return Err(CoreError::Counter("blocks"));
        }
        self.check_tree()
    }

    fn check_counters(&self) -> Result<(), CoreError> {
        let counters = &self.counters;
        let all = [
            (counters.next_inode, "inodes"),
            (counters.next_block, "blocks"),
            (counters.next_stamp, "stamps"),
            (self.history.next, "snapshots"),
        ];
        match all.into_iter().find(|(next, _)| *next > COUNTER_MAX) {
            Some((_, what)) => Err(CoreError::Counter(what)),
            None if !self.gaps.are_sound(counters.next_block, counters.next_stamp) => {
                Err(CoreError::Counter("gaps"))
            }
            None => Ok(()),
        }
    }

    fn is_source_of(&self, block: BlockId, file: InodeId) -> bool {
        self.blocks.get(&block).is_some_and(|info| info.complete && info.file == file)
    }

    fn check_file(&self, id: InodeId, file: &File) -> Result<(), CoreError> {
        let mut length = 0;
        for (index, &block) in file.blocks.iter().enumerate() {
            let info = self.blocks.get(&block).filter(|info| {
                let open_last = file.open.is_some() && index + 1 == file.blocks.len();
                info.file == id && (info.complete || open_last)
            });
            let info = info.ok_or(CoreError::BadBlock { inode: id, block })?;
            if block.0 >= self.counters.next_block || info.stamp.0 >= self.counters.next_stamp {
                return Err(CoreError::Counter("blocks or stamps"));
            }
            length += if info.complete { info.length } else { 0 };
        }
        if file.length.checked_add(file.known_length()).is_none() {
            return Err(CoreError::BadRow("an open file"));
        }
        let writing = file.open.as_deref().is_some_and(|open| open.writing);
        if length == file.length && writing == self.open_block(id).is_some() {
            return Ok(());
        }
        let block = file.blocks.last().copied().unwrap_or_default();
        Err(CoreError::BadBlock { inode: id, block })
    }

    /// Walks from the root and the tops of deleted trees: each inode is reached once, through the directory it names as its
    /// parent, in order of names; so there are no rings and no names twice. Compares the totals, too.
    fn check_tree(&self) -> Result<(), CoreError> {
        let mut reached = 0_u64;
        let kept = self.history.homes.keys();
        let mut stack: Vec<InodeId> = self.garbage.iter().chain(kept).copied().collect();
        stack.push(InodeId::ROOT);
        while let Some(id) = stack.pop() {
            reached += 1;
            let Some(inode) = self.inodes.get(&id) else { continue };
            let Some(directory) = inode.directory() else { continue };
            let mut previous: Option<&[u8]> = None;
            for (child, entry) in self.children(directory) {
                let name = entry.name.as_bytes();
                if entry.parent != id || previous.is_some_and(|previous| previous >= name) {
                    return Err(CoreError::Detached { inode: child, parent: id });
                }
                previous = Some(name);
                match entry.directory() {
                    Some(_) => stack.push(child),
                    None => reached += 1,
                }
            }
            if inode.parent != NOWHERE && self.sum_children(directory) != directory.total {
                return Err(CoreError::Detached { inode: id, parent: inode.parent });
            }
        }
        match (self.inodes.len() as u64).checked_sub(reached) {
            Some(0) => Ok(()),
            difference => Err(CoreError::Unreachable { count: difference.unwrap_or(0) }),
        }
    }

    /// Checks what versions are made of: their kinds and names, and the lengths of their blocks. Every version is loaded; nothing is derived from them yet.
    /// At a snapshot, directories that it does not see may be within each other: who follows them counts steps.
    ///
    /// # Errors
    /// The first violation.
    pub(super) fn check_versions(&self) -> Result<(), CoreError> {
        for (id, versions) in &self.history.versions {
            let inode = self.inodes.get(id);
            let is_file = inode.is_some_and(|inode| inode.file().is_some());
            for version in versions {
                if version.file.is_some() != is_file || self.file(version.parent).is_some() {
                    return Err(CoreError::BadRow("a version"));
                }
                match *id {
                    InodeId::ROOT if version.parent != *id => {
                        return Err(CoreError::Detached { inode: *id, parent: version.parent });
                    }
                    InodeId::ROOT => {}
                    _ => check_name(&version.name)?,
                }
                if let Some(file) = &version.file {
                    self.check_kept(*id, &file.blocks)?;
                }
            }
        }
        self.check_roots()
    }

    /// Checks that no directory with snapshots was within itself at one of them: what is seen through it would have no end.
    fn check_roots(&self) -> Result<(), CoreError> {
        for (&id, root) in &self.history.roots {
            for &moment in root.snapshots.keys() {
                let mut above = id;
                for _ in 0..DEPTH_MAX {
                    match self.at(above, moment) {
                        Some(state) if above != InodeId::ROOT => above = state.place().0,
                        _ => break,
                    }
                    if above == id {
                        return Err(CoreError::Detached { inode: id, parent: above });
                    }
                }
            }
        }
        Ok(())
    }

    fn check_kept(&self, inode: InodeId, blocks: &VersionBlocks) -> Result<(), CoreError> {
        let VersionBlocks::List(blocks) = blocks else { return Ok(()) };
        let mut sum = 0_u64;
        for &block in blocks {
            let length = self.blocks.get(&block).map_or(0, |info| info.length);
            sum = sum.checked_add(length).ok_or(CoreError::BadBlock { inode, block })?;
        }
        Ok(())
    }
}

/// Checks the name of an entry as far as paths depend on it. What else clients may not choose has changed in time.
pub(super) fn check_name(name: &str) -> Result<(), CoreError> {
    match name {
        "" | "." | ".." => Err(CoreError::BadRow("a name")),
        _ if name.len() > ELEMENT_BYTES_MAX || name.contains(['/', '\0']) => {
            Err(CoreError::BadRow("a name"))
        }
        _ => Ok(()),
    }
}

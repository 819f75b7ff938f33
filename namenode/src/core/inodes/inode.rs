//! Files and directories as they are held in memory.
//!
//! Invariants: names of owners and groups are interned ([`Names`]). A name is stored in its inode alone (its parent's entries are ids in
//! order of names). `File::blocks` is in file order; at most one block is not complete, the last.
//!
//! **What it costs.** There are tens of millions of plain files with one block, so every byte of [`Inode`] is paid by all of them;
//! a size is asserted below. What few inodes have does not belong in [`Inode`] or [`File`]: it goes into a table of its own in
//! `Namespace`, keyed by inode id and taken apart in `Namespace::erase`; what only directories have goes into [`Directory`],
//! which is boxed. A file of one block takes 112 bytes here, 32 in `Namespace::blocks`, 16 for three replicas in `Blocks`, and
//! about 10 in its parent's [`Children`]; names over 22 bytes take their own length besides.

use std::sync::Arc;

use hashbrown::HashMap;
use protocol::{BlockId, ClientId, DatanodeId, GenerationStamp, InodeId};

use super::block_list::BlockList;
use super::children::Children;
use super::name::Name;
use super::totals::Totals;

/// The parent of an inode that was deleted and is not collected yet. Never an id of an inode.
pub const NOWHERE: InodeId = InodeId(0);

/// A file or directory.
#[derive(Clone, PartialEq, Debug)]
pub struct Inode {
    /// Directory that holds it; [`NOWHERE`] for the top of a deleted tree.
    pub parent: InodeId,
    /// Last path element; empty for the root.
    pub name: Name,
    /// Owner.
    pub owner: NameId,
    /// Group.
    pub group: NameId,
    /// Permission bits.
    pub mode: u16,
    /// Modification time, milliseconds since the epoch.
    pub mtime_ms: u64,
    /// What it is.
    pub body: Body,
}

/// What an inode is.
#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    /// A directory.
    Directory(Box<Directory>),
    /// A file.
    File(File),
}

/// A directory.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Directory {
    /// Entries in byte order of names; looked up and listed through `Namespace`, which knows the names.
    pub children: Children,
    /// Totals of the subtree, this directory included; kept up to date by every edit.
    pub total: Totals,
    /// Access time, milliseconds since the epoch: 0 unless somebody has set it.
    pub atime_ms: u64,
}

/// A file.
#[derive(Clone, PartialEq, Debug)]
pub struct File {
    /// Sum of the lengths of its complete blocks, bytes.
    pub length: u64,
    /// Blocks in file order.
    pub blocks: BlockList,
    /// Access time, milliseconds since the epoch.
    pub atime_ms: u64,
    /// Bytes per block.
    pub block_size: u64,
    /// Wanted replicas.
    pub replication: u16,
    /// Set while it is open for writing.
    pub open: Option<Box<Open>>,
}

/// Most members of earlier pipelines that are remembered: enough for some dozen pipelines, and few enough that a writer which keeps
/// changing nodes does not make its row long.
pub const FORMER_MAX: usize = 64;

/// The state of a file that is open for writing.
///
/// ```text
/// Create or Append -> held by a client -> Complete -> closed
///              | lease over
///              v
///           recovery set, held by Leases::RECOVERER -> CommitRecovery or no replica left -> closed
///              ^
///          Truncate within a block (`source` is copied)
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Open {
    /// Who writes it.
    pub holder: ClientId,
    /// The pipeline of the last block, while that is not complete.
    pub targets: Vec<DatanodeId>,
    /// Stamp of the block recovery under way.
    pub recovery: Option<GenerationStamp>,
    /// True while the last block is not complete: it counts with its full size.
    pub writing: bool,
    /// Oldest stamp of replicas of the last block that count, while its pipeline is not known to work under the newest.
    pub prior: Option<GenerationStamp>,
    /// Who was in its pipeline since then, [`FORMER_MAX`] at most: one of them may have more than all of `targets`.
    pub former: Vec<DatanodeId>,
    /// Bytes of the last block, while that is not complete, which every member of its pipeline is known to have.
    pub known: u64,
    /// Block that the last block is copied from, while the file is truncated. It is still in the block map.
    pub source: Option<BlockId>,
}

const _: () = assert!(size_of::<Inode>() == 112, "an inode is paid ten million times");

impl Inode {
    /// The directory, if it is one.
    pub fn directory(&self) -> Option<&Directory> {
        match &self.body {
            Body::Directory(directory) => Some(directory),
            Body::File(_) => None,
        }
    }

    /// Access time, milliseconds since the epoch.
    pub fn atime_ms(&self) -> u64 {
        match &self.body {
            Body::Directory(directory) => directory.atime_ms,
            Body::File(file) => file.atime_ms,
        }
    }

    /// The file, if it is one.
    pub fn file(&self) -> Option<&File> {
        match &self.body {
            Body::File(file) => Some(file),
            Body::Directory(_) => None,
        }
    }

    /// What it adds to the totals of every directory above it.
    pub fn total(&self) -> Totals {
        match &self.body {
            Body::Directory(directory) => directory.total,
            Body::File(file) => Totals {
                length: file.length,
                file_count: 1,
                directory_count: 0,
                space_consumed: file.space_consumed(),
            },
        }
    }
}

impl Open {
    /// The pipeline of its last block becomes `targets`; replicas under `prior` still count.
    pub(in crate::core) fn redirect(
        &mut self,
        targets: &[DatanodeId],
        prior: Option<GenerationStamp>,
    ) {
        let before = std::mem::replace(&mut self.targets, targets.to_vec());
        self.prior = prior;
        if prior.is_none() {
            self.former.clear();
            return;
        }
        // In the order in which they left: the first are the members that had the acknowledged bytes.
        let new = before.into_iter().filter(|member| !self.former.contains(member));
        let new: Vec<DatanodeId> = new.take(FORMER_MAX.saturating_sub(self.former.len())).collect();
        self.former.extend(new);
    }

    /// All of `targets` have the first `known` bytes of the last block, under its stamp.
    pub(in crate::core) fn confirm(&mut self, known: u64) {
        (self.prior, self.known) = (None, known);
        self.former.clear();
    }

    /// Who may have a replica of the last block, while that is not complete.
    pub(in crate::core) fn members(&self) -> impl Iterator<Item = DatanodeId> {
        let gone = self.former.iter().filter(|member| !self.targets.contains(member));
        self.targets.iter().chain(gone).copied()
    }

    /// Just opened by `holder`.
    pub fn by(holder: ClientId) -> Self {
        Open {
            holder,
            targets: Vec::new(),
            recovery: None,
            writing: false,
            prior: None,
            former: Vec::new(),
            known: 0,
            source: None,
        }
    }
}

impl File {
    /// Closed and empty.
    pub fn closed() -> Self {
        File {
            length: 0,
            blocks: BlockList::default(),
            atime_ms: 0,
            block_size: 0,
            replication: 0,
            open: None,
        }
    }

    /// Blocks with bytes that readers may count on.
    pub fn visible_block_count(&self) -> usize {
        let is_hidden = |open: &Open| open.writing && open.known == 0;
        self.blocks.len() - usize::from(self.open.as_deref().is_some_and(is_hidden))
    }

    /// Bytes that readers may count on.
    pub fn visible_length(&self) -> u64 {
        self.length + self.known_length()
    }

    /// Bytes of the last block, while that is not complete, that readers may count on.
    pub fn known_length(&self) -> u64 {
        self.open.as_deref().map_or(0, |open| open.known)
    }

    /// Bytes times replicas; a block that is being written counts with its full size.
    pub fn space_consumed(&self) -> u64 {
        self.space_of_one().saturating_mul(u64::from(self.replication))
    }

    /// As [`File::space_consumed`], of one replica.
    pub fn space_of_one(&self) -> u64 {
        let writing = self.open.as_deref().is_some_and(|open| open.writing);
        self.length.saturating_add(if writing { self.block_size } else { 0 })
    }
}

/// An interned owner or group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameId(u32);

/// The table of interned names. It only grows: a cluster has few users.
#[derive(Default)]
pub struct Names {
    texts: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, u32>,
}

impl Names {
    /// The id of `text`, now and later.
    pub fn intern(&mut self, text: &str) -> NameId {
        if let Some(&id) = self.ids.get(text) {
            return NameId(id);
        }
        let text: Arc<str> = text.into();
        let id = u32::try_from(self.texts.len()).expect("fewer than 2^32 users and groups");
        self.texts.push(Arc::clone(&text));
        self.ids.insert(text, id);
        NameId(id)
    }

    /// The text of an interned name.
    pub fn text(&self, id: NameId) -> &str {
        &self.texts[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_pipelines_the_first_members_are_remembered() {
        let id = |number: u8| DatanodeId([number; 16]);
        let mut open = Open::by(ClientId::default());
        open.targets = vec![id(0), id(1)];
        for number in 2..200 {
            open.redirect(&[id(number), id(number + 1)], Some(GenerationStamp(1)));
        }
        assert_eq!(open.former, (0..64).map(id).collect::<Vec<_>>());
        assert_eq!(open.members().count(), 66);
        open.redirect(&[id(0), id(1)], Some(GenerationStamp(1)));
        assert_eq!(open.members().count(), 64, "each once");
        open.confirm(5);
        assert_eq!(open.members().collect::<Vec<_>>(), [id(0), id(1)]);
    }
}

//! Keeps who opens the files of a replica apart from who moves them.
//!
//! A finalize and an append rename both files of a replica and then say so in the table. Between these steps the table names a place where
//! they are not, which would look like a lost file. A deletion does it the other way round: who opens them then would find none, and a
//! comparison with the disks one that nobody knows.
//!
//! Invariant: while a [`Still`] of a block is held, its files are where the table says, unless somebody else removed them.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use protocol::BlockId;

/// Locks; blocks share them. Enough that two that are busy at once seldom meet.
const SHARD_COUNT: usize = 64;

/// One lock for each group of blocks.
#[derive(Debug)]
pub(super) struct Moves {
    shards: [RwLock<()>; SHARD_COUNT],
}

/// Files of a block stay where they are.
pub(super) type Still<'a> = RwLockReadGuard<'a, ()>;
/// Files of a block move, and the table follows.
pub(super) type Moving<'a> = RwLockWriteGuard<'a, ()>;

impl Default for Moves {
    fn default() -> Self {
        Moves { shards: std::array::from_fn(|_| RwLock::new(())) }
    }
}

impl Moves {
    /// Waits for moves of the block and keeps others from beginning. Never taken twice by a thread.
    pub(super) fn still(&self, block: BlockId) -> Still<'_> {
        self.shard(block).read()
    }

    /// Waits until nobody opens files of the block.
    pub(super) fn moving(&self, block: BlockId) -> Moving<'_> {
        self.shard(block).write()
    }

    fn shard(&self, block: BlockId) -> &RwLock<()> {
        // Neighbours in number are written at the same time.
        &self.shards[(block.0 % SHARD_COUNT as u64) as usize]
    }
}

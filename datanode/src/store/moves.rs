//! Keeps moving the files of a replica apart from opening them.
//!
//! A finalize and an append rename both files of a replica and then update the table. Between these steps the table names a place without the files, which
//! would look like a lost file. A deletion works in the opposite order: anyone who opens the files then would find none, and a comparison with the disks would
//! find files that are not in the table.
//!
//! Invariant: while a [`Still`] of a block is held, its files are where the table has them, unless somebody else removed them.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use protocol::BlockId;

/// Number of locks, which blocks share. Two blocks in use at the same time seldom share one.
const SHARD_COUNT: usize = 64;

/// One lock for each group of blocks.
#[derive(Debug)]
pub(super) struct Moves {
    shards: [RwLock<()>; SHARD_COUNT],
}

/// Files of a block stay where they are.
pub(super) type Still<'a> = RwLockReadGuard<'a, ()>;
/// The files of a block move, and the table follows.
pub(super) type Moving<'a> = RwLockWriteGuard<'a, ()>;

impl Default for Moves {
    fn default() -> Self {
        Moves { shards: std::array::from_fn(|_| RwLock::new(())) }
    }
}

impl Moves {
    /// Waits for moves of the block and prevents others from starting. A thread never takes it twice.
    pub(super) fn still(&self, block: BlockId) -> Still<'_> {
        self.shard(block).read()
    }

    /// Waits until nobody opens files of the block.
    pub(super) fn moving(&self, block: BlockId) -> Moving<'_> {
        self.shard(block).write()
    }

    fn shard(&self, block: BlockId) -> &RwLock<()> {
        // Blocks with neighbouring numbers are written at the same time.
        &self.shards[(block.0 % SHARD_COUNT as u64) as usize]
    }
}

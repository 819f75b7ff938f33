//! Parts of a replica that go to other DataNodes.

use protocol::{BlockId, GenerationStamp};

/// The first bytes of a replica, to be copied under a new stamp.
pub(super) struct Prefix {
    pub block: BlockId,
    pub prior: GenerationStamp,
    pub stamp: GenerationStamp,
    pub length: u64,
}

/// The bytes that a member of a recovery lacks.
pub(super) struct Rest {
    pub block: BlockId,
    pub prior: GenerationStamp,
    pub stamp: GenerationStamp,
    /// Bytes that it has.
    pub offset: u64,
}

/// A block to create from the first bytes of another.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Block to copy from.
    pub source: BlockId,
    /// Its stamp.
    pub source_stamp: GenerationStamp,
    /// The new block.
    pub block: BlockId,
    /// Its stamp.
    pub stamp: GenerationStamp,
    /// Its bytes.
    pub length: u64,
}

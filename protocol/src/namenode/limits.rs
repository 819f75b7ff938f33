//! Limits of the conversation: what a message can hold at most.

/// Most entries in one page of a listing, as `dfs.ls.limit`.
pub const LIST_ENTRIES_MAX: u32 = 1000;
/// Most bytes of an image in one answer: large enough to make the cost of a call negligible.
pub const IMAGE_PIECE_BYTES: usize = 4 << 20;
/// Most calls in one batch; bounds how long the NameNode's loop is held.
pub const BATCH_CALLS_MAX: usize = 1000;
/// Most entries in one page of a snapshot diff: a message stays below a few megabytes.
pub const DIFF_ENTRIES_MAX: usize = 1000;
/// Most DataNodes that a writer can name at once.
pub const DATANODES_MAX: usize = 10_000;
/// Most bad replicas in one report of a reader.
pub const BAD_REPLICAS_MAX: usize = 1000;
/// Most files that one call concatenates.
pub const CONCAT_SOURCES_MAX: usize = 10_000;
/// Most moves of replicas in one call.
pub const MOVES_MAX: usize = 10_000;
/// Largest block of a new file (1 TiB): a volume of a DataNode has room for a whole one.
pub const BLOCK_SIZE_MAX: u64 = 1 << 40;
/// Most replicas a file may want, as `dfs.replication.max`.
pub const REPLICATION_MAX: u16 = 512;
/// Most names of attributes in one call: many times what a file can have.
pub const XATTR_NAMES_MAX: usize = 1000;
/// The end of a name while a file is being copied, as Hadoop's shell has it.
pub const COPYING_SUFFIX: &str = "._COPYING_";
/// Name below a directory under which its snapshots can be read.
pub const DOT_SNAPSHOT: &str = ".snapshot";

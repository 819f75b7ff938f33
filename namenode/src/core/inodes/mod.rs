//! What the namespace is made of: inodes, their names, entries and blocks, and the tables beside them that few inodes are in. Nothing
//! here knows the tree.
//!
//! | file | what |
//! |---|---|
//! | `inode`, `name`, `children`, `block_list`, `totals` | files and directories as they are held in memory |
//! | `table` | inodes and blocks by their ids |
//! | `features`, `quota` | access lists and attributes; quotas |
//! | `lease` | who writes which file |
//! | `history` | former versions, for snapshots |
//! | `row` | what rows of the checkpoint are made of |

mod block_list;
mod children;
pub(in crate::core) mod features;
mod history;
mod inode;
mod lease;
mod name;
pub(in crate::core) mod quota;
pub(in crate::core) mod row;
mod table;
mod totals;

pub use self::block_list::BlockList;
pub use self::children::{Children, Position};
pub use self::features::Features;
pub use self::history::{
    At, FileVersion, History, PRESENT, Root, Snapshot, SnapshotId, Version, VersionBlocks,
};
pub use self::inode::{Body, Directory, FORMER_MAX, File, Inode, NOWHERE, NameId, Names, Open};
pub use self::lease::Leases;
pub use self::name::Name;
pub use self::quota::{Quota, Quotas};
pub use self::row::Row;
pub use self::table::{Key, Table};
pub use self::totals::Totals;

pub(in crate::core) use self::features::{CHUNK_BYTES, FeatureTable, POLICY_NAME};
pub(in crate::core) use self::history::DirtyHistory;
pub(in crate::core) use self::quota::QUOTA_MAX;
pub(in crate::core) use self::row::{
    BlockRow, ROW_BLOCKS, chunk_key, decode, encode, exactly, id_key, with_chunk,
};

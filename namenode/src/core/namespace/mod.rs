//! All of the file system's metadata that is durable: the tree, applying edits to it, and its rows in the checkpoint.
//!
//! | file | what |
//! |---|---|
//! | `tree` | the [`Namespace`]: following paths, taking deleted trees apart |
//! | `sound` | checking the invariants of one that was loaded |
//! | `attributes` | access lists, extended attributes, storage policies and quotas of its inodes |
//! | `apply`, `apply_rewrite` | edits |
//! | `rows` | checkpoint |
//! | `gaps` | ids that were left out |
//! | `lost` | files that were closed without bytes which had been promised |

mod apply;
mod apply_rewrite;
mod attributes;
mod gaps;
mod lost;
mod rows;
mod sound;
mod tree;

pub use self::lost::Loss;
pub use self::tree::{Block, Counters, Effect, Namespace, Resolved, Room, Unresolved};

pub(in crate::core) use self::lost::lost_bytes;
pub(in crate::core) use self::tree::prefix;

//! The tree as it was: keeping what snapshots see, forgetting what none sees any more, and reading a moment (ADR 6).
//!
//! | file | what |
//! |---|---|
//! | `keep`, `forget` | versions of inodes, before a change and after a snapshot is deleted |
//! | `space` | blocks and replicas that only versions of a file keep |
//! | `edits`, `rows` | applying edits of snapshots; checkpoint |
//! | `moments`, `view`, `diff` | the tree at a moment, paths through `.snapshot`, what changed between two moments |

mod diff;
mod edits;
mod forget;
mod keep;
mod moments;
mod rows;
mod space;
mod view;

pub use self::view::SNAPSHOTS_MAX;

pub(in crate::core) use self::diff::entries;
pub(in crate::core) use self::view::{DOT_SNAPSHOT_MODE, Seen, View, page_of, split};

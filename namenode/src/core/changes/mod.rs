//! Judging changing calls: each file handles some of them. It reads the state and returns the edits that a call would make, or refuses the
//! call. Nothing changes here; `command` applies the edits.
//!
//! | file | calls |
//! |---|---|
//! | `planner` | all: which file judges which |
//! | `directories` | making directories, deleting, owner, mode, times, replication |
//! | `files`, `rewrite` | writing files, and append, sync, truncate, concat |
//! | `rename` | both renames |
//! | `quota`, `acl`, `xattr`, `storage_policy`, `snapshots` | what their names say |
//! | `limits` | limits that apply to every call |

mod acl;
mod directories;
mod files;
mod limits;
mod planner;
mod quota;
mod rename;
mod rewrite;
mod snapshots;
mod storage_policy;
mod xattr;

pub use self::rename::TRASH;

pub(in crate::core) use self::limits::check_name;
pub(in crate::core) use self::planner::{Plan, Planner};

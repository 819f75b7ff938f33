//! Judging changing calls: each file takes some of them, reads the state and says which edits a call would make, or refuses it. Nothing
//! changes here; `command` carries the edits out.
//!
//! | file | calls |
//! |---|---|
//! | `planner` | all: which file judges which |
//! | `directories` | making directories, deleting, owner, mode, times, replication |
//! | `files`, `rewrite` | writing files, and append, sync, truncate, concat |
//! | `rename` | both renames |
//! | `quota`, `acl`, `xattr`, `storage_policy`, `snapshots` | what their names say |
//! | `limits` | what is refused whichever call wants it |

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

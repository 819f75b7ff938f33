//! Answers to calls that read. Files and directories as such are in `query`, the rest is here.
//!
//! | file | what |
//! |---|---|
//! | `attributes` | access lists, rights, extended attributes, storage policies |
//! | `snapshots` | paths through `.snapshot`, differences between snapshots |
//! | `fsck`, `fsck_snapshot` | checks of a tree, page by page |
//! | `summary` | totals of trees, in slices |
//! | `inspect` | files being written, one block |

mod attributes;
mod fsck;
mod fsck_snapshot;
mod inspect;
mod snapshots;
mod summary;

//! Answers to calls that read: files and directories as such are in `query`, here is the rest.
//!
//! | file | what |
//! |---|---|
//! | `attributes` | access lists, rights, extended attributes, storage policies |
//! | `snapshots` | paths through `.snapshot`, differences between snapshots |
//! | `fsck`, `fsck_snapshot` | checks of a tree, page by page |
//! | `inspect` | files being written, one block |

mod attributes;
mod fsck;
mod fsck_snapshot;
mod inspect;
mod snapshots;

//! The NameNode without a machine: synchronous and deterministic. Inputs and the time go in; records, answers and commands come
//! out. No clock, no I/O, no async; random choices come from a generator that is passed in.
//!
//! From the ground up; each imports only from those above it in this table:
//!
//! | room | what it holds |
//! |---|---|
//! | `stored` | forms on disk of what messages carry, too |
//! | [`inodes`], [`standing`], [`edit`] | inodes and the tables beside them; standing orders; what changes them |
//! | [`namespace`], [`snapshots`] | the tree that they make, now and as it was; applying edits; rows of the checkpoint |
//! | [`nodes`] | DataNodes, and which of them must leave service |
//! | [`blocks`] | which DataNode holds which replica, and what follows from that |
//! | [`rights`] | who calls, and what they may do |
//! | [`safe_mode`], [`retry_cache`], [`state`] | whether changes are refused, answers given, and all of these as one machine |
//! | [`upkeep`] | what happens with time and as DataNodes come and go |
//! | [`asked`], [`budget`] | a request as the core takes it; what the answers to several calls may have |
//! | [`changes`] | judging a changing call: what it would do, as edits |
//! | [`reserved`], [`query`], [`queries`] | which path a call means; answering one that reads |
//! | [`audited`], [`command`] | the way in for changes: a call is judged, applied and journalled |
//!
//! The namespace with its inodes, the standing orders and the answers given are durable; only edits change them.

pub mod asked;
pub mod audited;
pub mod blocks;
pub mod budget;
pub mod changes;
pub mod command;
pub mod edit;
pub mod inodes;
pub mod namespace;
pub mod nodes;
pub mod now;
pub mod queries;
pub mod query;
pub mod random;
pub mod reserved;
pub mod retry_cache;
pub mod rights;
pub mod safe_mode;
pub mod snapshots;
pub mod standing;
pub mod state;
mod stored;
pub mod upkeep;

#[cfg(test)]
mod tests;

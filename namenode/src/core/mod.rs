//! The NameNode without a machine: synchronous and deterministic. Inputs and the time go in; records, answers and commands come
//! out. No clock, no I/O, no async; random choices come from a generator that is passed in.

pub mod acl;
pub mod acl_change;
pub mod apply;
pub mod apply_rewrite;
pub mod attribute_reads;
pub mod attributes;
pub mod block_list;
pub mod block_set;
pub mod blocks;
pub mod children;
pub mod command;
pub mod datanodes;
pub mod directories;
pub mod drain;
pub mod drains;
pub mod edit;
pub mod features;
pub mod files;
pub mod forget;
pub mod fsck;
pub mod fsck_snapshot;
pub mod history;
pub mod history_rows;
pub mod history_table;
pub mod hosts;
pub mod inode;
pub mod inspect;
pub mod kept;
pub mod lease;
pub mod limits;
pub mod lost;
pub mod moments;
pub mod moves;
pub mod name;
pub mod namespace;
pub mod now;
pub mod permission;
pub mod placement;
pub mod planner;
pub mod query;
pub mod quota;
pub mod quota_table;
pub mod random;
pub mod recoveries;
pub mod recovery;
pub mod redundancy;
pub mod rename;
pub mod replica_set;
pub mod report;
pub mod reserved;
pub mod retry_cache;
pub mod rewrite;
pub mod row;
pub mod rows;
pub mod safe_mode;
pub mod schedule;
pub mod shown;
pub mod snapshot;
pub mod snapshot_diff;
pub mod snapshot_edits;
pub mod snapshot_reads;
pub mod snapshot_view;
pub mod state;
pub mod storage;
pub mod survey;
pub mod table;
pub mod totals;
pub mod unsettled;
pub mod xattr;
pub mod xattr_rights;

#[cfg(test)]
mod differences;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod lost_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod namespace_model;
#[cfg(test)]
mod namespace_rules;
#[cfg(test)]
mod old_metadata_tests;
#[cfg(test)]
mod permission_tests;
#[cfg(test)]
mod rewrite_tests;
#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod snapshot_tests;
#[cfg(test)]
mod snapshot_writing_tests;
#[cfg(test)]
mod writing_tests;

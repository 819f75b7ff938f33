//! Tests of the whole machine, on a [`harness`] with a hand-driven clock: scenarios, models and simulations.

mod differences;
mod formats;
pub(super) mod harness;
mod images;
mod large;
mod lost;
mod model;
mod namespace_model;
mod namespace_rules;
mod old_metadata;
mod permission;
mod recovery;
mod rewrite;
mod simulation;
mod snapshot_writing;
mod snapshots;
mod strangers;
mod writing;

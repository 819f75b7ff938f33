//! Starts real clusters and runs real commands.

pub mod cluster;
pub mod command;
pub mod data;

pub use cluster::{Cluster, Options};
pub use command::Outcome;

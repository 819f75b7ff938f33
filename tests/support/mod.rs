//! Starts real clusters and runs real commands.

pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod command;
pub(crate) mod data;
pub(crate) mod http;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod mount;
pub(crate) mod processes;
pub(crate) mod report;
pub(crate) mod rig;
pub(crate) mod signal;
pub(crate) mod switch;
pub(crate) mod wait;

pub(crate) use cluster::{Cluster, Options};
pub(crate) use command::{Caller, Outcome};

/// A number from the environment.
pub(crate) fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

//! Starts real clusters and runs real commands.

pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod command;
pub(crate) mod data;
pub(crate) mod http;
pub(crate) mod memory;
pub(crate) mod mount;
pub(crate) mod report;
pub(crate) mod room;

pub(crate) use cluster::{Cluster, Options};
pub(crate) use command::Outcome;

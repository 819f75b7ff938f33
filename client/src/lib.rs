//! How programs talk to a cluster: where to find it ([`config`]), files and jobs; Hadoop's configuration files ([`site`]); the namespace as its faces see it
//! ([`namesystem`]); and what a signal makes of what is half done ([`interrupt`]).

pub mod config;
pub mod dfs;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod interrupt;
pub mod job;
pub mod namesystem;
pub mod site;

pub use config::{ClientConfig, Daemon};

//! How programs talk to a cluster: signed calls ([`rpc`]), where to find it ([`config`]), files and jobs; and the namespace as its faces see it
//! ([`namesystem`]).

mod body;
pub mod config;
pub mod dfs;
pub mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod job;
pub mod namesystem;
pub mod pass;
pub mod rpc;

pub use body::Body;
pub use config::{ClientConfig, Daemon};
pub use error::RpcError;

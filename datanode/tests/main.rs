//! Real DataNodes and a real NameNode on sockets and disks.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;
mod data_path;
mod shares;
mod together;

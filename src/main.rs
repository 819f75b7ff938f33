//! The `hanno` command: arguments in, a call to the cluster, text out.
//!
//! One file or folder per command family; nothing here implements the file system or jobs. A family returns the exit code that scripts of Hadoop's tools
//! expect: 0 done, 1 something failed, 255 wrong usage, 130 interrupted; a daemon whose journal stopped ends with 75.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`say!` and `report!` show a terminal nothing that steers it, and go on when the reader leaves"
)]

use std::process::ExitCode;

mod absent;
mod admin;
mod balancer;
mod bench;
mod cli;
mod cluster;
mod connect;
mod daemons;
mod debug;
mod dfs;
mod dfsadmin;
mod diagnose;
mod distcp;
mod doctor;
mod environment;
mod fsck;
mod generic;
mod getconf;
mod haadmin;
mod hadoop;
mod job;
mod offline;
mod output;
mod policies;
mod reference;
mod snapshots;
mod token;
mod top;
mod xml;
mod yarn;

fn main() -> ExitCode {
    let code = cli::run(std::env::args_os().collect());
    ExitCode::from(output::ended(code))
}

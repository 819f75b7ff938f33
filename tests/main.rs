//! End-to-end tests: the real `hanno` binary, real processes, real sockets, real kills. One test binary, one module per
//! subject; [`support`] starts clusters and runs commands.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

mod addresses;
mod browser;
mod capturing;
mod conformance;
mod corruption;
mod disk_full;
mod doctor;
mod faults;
mod guide;
mod hostile_clients;
mod hostile_jobs;
mod interrupts;
mod jobs;
mod kills;
mod monitoring;
mod operation;
mod permissions;
mod power;
mod programs;
mod replay;
mod rest;
mod scheduling;
mod shell;
mod snapshots;
mod soak;
mod streaming;
mod streaming_rules;
mod terminals;
mod views;
mod webhdfs;
mod wide;
mod writing;

//! End-to-end tests: the real `hanno` binary, real processes, real sockets, real kills. One test binary, one module per
//! subject; [`support`] starts clusters and runs commands.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

mod addresses;
mod browser;
mod diagnose;
mod disk_full;
mod doctor;
mod encryption;
mod faults;
mod files;
mod guide;
mod hostile_clients;
mod hostile_jobs;
mod jobs;
mod json;
mod kills;
mod monitoring;
mod observe;
mod operation;
mod power;
mod rest;
mod soak;
mod supervision;
mod terminals;
mod tutorial;
mod views;
mod webhdfs;

//! The journal on real disks with the real sled: damage and mirrors. Kills are in a binary of their own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod mirrors;
mod one_copy;
mod support;

//! The journal on real disks with the real sled: damage, mirrors, kills.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod kill;
mod mirrors;
mod one_copy;
mod support;

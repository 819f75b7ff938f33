//! What the crate as a whole keeps to.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod bounded;
mod properties;

//! Who may do what, and how that is proven: by the cluster secret, a role's key, a task's pass, the token of a block, a delegation token.

pub mod auth;
pub mod delegation;
mod fingerprint;
mod key;
pub mod pass;
pub mod token;

use std::time::Duration;

/// How far a sender's clock may be off.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(300);

//! How near a task runs to its input: the levels that the scheduler tries in order, and that the journal keeps for each attempt.

use serde::{Deserialize, Serialize};

/// How near a worker is to a task's input, nearest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Level {
    /// Its machine holds a replica.
    Node,
    /// Its rack does.
    Rack,
    /// Elsewhere.
    Any,
    /// Elsewhere, and an attempt has failed on this same worker, or its job avoids it.
    Avoided,
}

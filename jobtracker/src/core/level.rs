//! How near a task runs to its input: what the scheduler tries in order, and the journal keeps of an attempt.

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
    /// Elsewhere, and an attempt has failed on this very worker.
    Avoided,
}

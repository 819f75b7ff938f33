//! Where the output of a map, or of a task of a round, is; and lists of them that many tasks share.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::AttemptId;
use crate::wire::at_most;

/// A finished map attempt's output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MapOutput {
    /// The attempt that made it.
    pub attempt: AttemptId,
    /// `host:port` of the worker that serves it.
    pub http_address: String,
    /// Boot id of that worker's kernel.
    pub boot_id: String,
    /// Absolute path of the data file on that machine; the index is beside it.
    pub data_path: String,
}

pub(super) fn as_list<S: Serializer>(
    outputs: &Arc<Vec<MapOutput>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    outputs.as_slice().serialize(serializer)
}

pub(super) fn at_most_shared<'de, const MAX: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Arc<Vec<MapOutput>>, D::Error> {
    at_most::<MAX, D, Vec<MapOutput>>(deserializer).map(Arc::new)
}

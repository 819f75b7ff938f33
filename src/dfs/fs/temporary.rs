//! Names of files that are being copied.

use protocol::namenode::COPYING_SUFFIX;

/// A name for a file being copied that nothing else has.
pub(crate) fn unused_name() -> String {
    format!(".{:016x}{COPYING_SUFFIX}", rand::random::<u64>())
}

//! Names of files that are being copied.

/// A suffix that marks a file being copied, as Hadoop's shell has it.
pub(crate) const COPYING_SUFFIX: &str = "._COPYING_";

/// A name for a file being copied that nothing else has.
pub(crate) fn unused_name() -> String {
    format!(".{:016x}{COPYING_SUFFIX}", rand::random::<u64>())
}

//! Entry points for `fuzz/`: the files of a data directory.

pub use crate::store::fuzz::{replica_files, small_segments, volume_files};

/// The name of a target, and the function that takes its bytes.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] = &[
    ("replica_files", replica_files),
    ("small_segments", small_segments),
    ("volume_files", volume_files),
];

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;

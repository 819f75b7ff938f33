//! What takes any bytes here, for `fuzz/`: the files of a data directory.

pub use crate::store::fuzz::{replica_files, volume_files};

/// The name of a target, and what takes its bytes.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] =
    &[("replica_files", replica_files), ("volume_files", volume_files)];

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_are_taken_as_ever() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds");
        super::replay::replay(seeds.as_ref(), super::DECODERS);
    }
}

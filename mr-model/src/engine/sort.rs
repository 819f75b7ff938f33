//! How attempts set up the sort engine. Local threads and task runners share it, so both produce the same bytes.

use std::path::PathBuf;

use shuffle::{Codec, MapOutputOptions, ReduceOptions};

use crate::map::PARTITION_SEED;

/// Base name of map output files: Hadoop's.
const MAP_OUTPUT_NAME: &str = "file.out";
/// Base name of the files that a reduce merges through.
const REDUCE_NAME: &str = "reduce";

/// Options of a map with `partitions` reduces; its files go into `dir`.
pub fn map_options(
    dir: PathBuf,
    partitions: u32,
    memory_bytes_max: usize,
    merge_factor: usize,
    codec: Codec,
) -> MapOutputOptions {
    MapOutputOptions {
        partitions,
        dir,
        name: MAP_OUTPUT_NAME.to_owned(),
        memory_bytes_max,
        merge_factor,
        codec,
        partition_seed: PARTITION_SEED,
        sync: false,
    }
}

/// Options of a reduce; its files go into `dir`.
pub fn reduce_options(dir: PathBuf, memory_bytes_max: usize, merge_factor: usize) -> ReduceOptions {
    ReduceOptions {
        dir,
        name: REDUCE_NAME.to_owned(),
        memory_bytes_max,
        merge_factor,
        codec: Codec::Lz4,
        group_prefix: None,
    }
}

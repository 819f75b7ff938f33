//! How attempts set up the sort engine. Local threads and task runners share it, so both produce the same bytes.

use std::path::PathBuf;

use shuffle::{Codec, MapOutputOptions, ReduceOptions};

use super::side_file::ENGINE_PREFIX;
use crate::map::PARTITION_SEED;

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
        name: format!("{ENGINE_PREFIX}map"),
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
        name: format!("{ENGINE_PREFIX}reduce"),
        memory_bytes_max,
        merge_factor,
        codec: Codec::Lz4,
        group_prefix: None,
    }
}

//! What attempts ask of the sort engine: the same on threads of a local run and in a task runner, so that both make the same bytes.

use std::path::PathBuf;

use shuffle::{Codec, MapOutputOptions, ReduceOptions};

use crate::map::PARTITION_SEED;

/// Base name of map output files: Hadoop's.
const MAP_OUTPUT_NAME: &str = "file.out";
/// Base name of the files that a reduce merges through.
const REDUCE_NAME: &str = "reduce";

/// A map with `partitions` reduces; its files go into `dir`.
pub(crate) fn map_options(
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

/// A reduce; its files go into `dir`.
pub(crate) fn reduce_options(
    dir: PathBuf,
    memory_bytes_max: usize,
    merge_factor: usize,
) -> ReduceOptions {
    ReduceOptions {
        dir,
        name: REDUCE_NAME.to_owned(),
        memory_bytes_max,
        merge_factor,
        codec: Codec::Lz4,
        group_prefix: None,
    }
}

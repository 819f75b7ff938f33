//! Measures the engine on a total sort of 100-byte records: `sort_floor FILE [MEMORY_MIB]`.
//!
//! Reads the file into memory and sorts it on two threads (half of it each, four partitions by the first key byte). Then it merges the
//! partitions, writes them to a temporary directory and prints the seconds of each phase.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use shuffle::{
    Codec, MapOutput, MapOutputOptions, MapOutputWriter, ReduceInput, ReduceOptions, SegmentSource,
};

type AnyError = Box<dyn Error + Send + Sync>;

const RECORD_BYTES: usize = 100;
const KEY_BYTES: usize = 10;
const PARTITIONS: u32 = 4;
/// Keys are printable characters: 95 of them from the space on.
const KEY_CHARACTERS: u32 = 95;
const MEMORY_MIB_DEFAULT: usize = 256;

fn main() -> Result<(), AnyError> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: sort_floor FILE [MEMORY_MIB]")?;
    let memory = args.next().map_or(Ok(MEMORY_MIB_DEFAULT), |text| text.parse())? << 20;
    let codec = if args.next().as_deref() == Some("none") { Codec::None } else { Codec::Lz4 };
    let start = Instant::now();
    let records = std::fs::read(path)?;
    let read = start.elapsed();
    let dir = tempfile::tempdir()?;
    let dir = dir.path();

    let start = Instant::now();
    let (left, right) = records.split_at(records.len() / RECORD_BYTES / 2 * RECORD_BYTES);
    let outputs = std::thread::scope(|scope| {
        let left = scope.spawn(|| map(left, dir, "map-0", memory, codec));
        let right = map(right, dir, "map-1", memory, codec)?;
        Ok::<_, AnyError>([left.join().map_err(|_| "the map thread panicked")??, right])
    })?;
    let mapped = start.elapsed();

    let start = Instant::now();
    let counts = std::thread::scope(|scope| {
        let lower = scope.spawn(|| reduce(&outputs, 0..PARTITIONS / 2, dir));
        let upper = reduce(&outputs, PARTITIONS / 2..PARTITIONS, dir)?;
        Ok::<_, AnyError>([lower.join().map_err(|_| "the reduce thread panicked")??, upper])
    })?;
    let reduced = start.elapsed();

    println!(
        "read {:.3} s, map {:.3} s, reduce {:.3} s",
        read.as_secs_f64(),
        mapped.as_secs_f64(),
        reduced.as_secs_f64()
    );
    println!("records: {}", counts[0] + counts[1]);
    for output in &outputs {
        println!("{:?}", output.stats);
    }
    Ok(())
}

fn map(
    records: &[u8],
    dir: &Path,
    name: &str,
    memory: usize,
    codec: Codec,
) -> Result<MapOutput, shuffle::Error> {
    let mut writer = MapOutputWriter::new(MapOutputOptions {
        partitions: PARTITIONS,
        dir: dir.to_owned(),
        name: name.to_owned(),
        memory_bytes_max: memory,
        merge_factor: 100,
        codec,
        partition_seed: 1,
        sync: false,
    })?;
    for record in records.chunks_exact(RECORD_BYTES) {
        let (key, value) = record.split_at(KEY_BYTES);
        let partition = u32::from(key[0].saturating_sub(b' ')) * PARTITIONS / KEY_CHARACTERS;
        writer.emit(partition.min(PARTITIONS - 1), key, value)?;
    }
    writer.finish()
}

fn reduce(
    outputs: &[MapOutput],
    partitions: std::ops::Range<u32>,
    dir: &Path,
) -> Result<u64, AnyError> {
    let mut count = 0;
    for partition in partitions {
        let sources = outputs.iter().map(|output| {
            let segment = output.segments[partition as usize];
            SegmentSource::Path {
                path: output.data.clone(),
                offset: segment.offset,
                stored: segment.stored,
            }
        });
        let mut input = ReduceInput::new(
            sources.collect(),
            ReduceOptions {
                dir: dir.to_owned(),
                name: format!("reduce-{partition}"),
                memory_bytes_max: 64 << 20,
                merge_factor: 100,
                codec: Codec::Lz4,
                group_prefix: None,
            },
        )?;
        let file = std::fs::File::create(dir.join(format!("part-{partition}")))?;
        let mut out = std::io::BufWriter::with_capacity(1 << 20, file);
        let mut last = Vec::new();
        while input.next_group()? {
            if input.key() < last.as_slice() {
                return Err("keys are out of order".into());
            }
            last.clear();
            last.extend_from_slice(input.key());
            while let Some(value) = input.next_value()? {
                out.write_all(&last)?;
                out.write_all(value)?;
                count += 1;
            }
        }
        out.flush()?;
    }
    Ok(count)
}

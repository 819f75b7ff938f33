//! Measures the engine on the hot path of WordCount: `wordcount_floor FILE [MEMORY_MIB]`.
//!
//! Reads the file into memory, counts its words on two threads (half of it each, four partitions) through a [`CombiningWriter`], then
//! reduces the partitions. Prints the seconds of each phase, the number of distinct words and the number of words.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use shuffle::{
    Codec, Combine, CombiningWriter, DecodeError, MapOutput, MapOutputOptions, Partitioning,
    ReduceInput, ReduceOptions, SegmentSource,
};

type AnyError = Box<dyn Error + Send + Sync>;

const PARTITIONS: u32 = 4;
const MEMORY_MIB_DEFAULT: usize = 256;

struct Sum;

impl Combine for Sum {
    type Acc = u64;

    fn encode(&self, acc: &u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&acc.to_le_bytes());
    }

    fn decode(&self, bytes: &[u8]) -> Result<u64, DecodeError> {
        let bytes = bytes.try_into().map_err(|_| DecodeError::new("a count has eight bytes"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn merge(&self, into: &mut u64, from: u64) {
        *into += from;
    }
}

fn main() -> Result<(), AnyError> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: wordcount_floor FILE [MEMORY_MIB]")?;
    let memory_mib = args.next().map_or(Ok(MEMORY_MIB_DEFAULT), |text| text.parse())?;
    let start = Instant::now();
    let text = std::fs::read(path)?;
    let read = start.elapsed();
    let dir = tempfile::tempdir()?;

    let start = Instant::now();
    let middle = text.len() / 2;
    let middle =
        middle + text[middle..].iter().position(|b| is_space(*b)).unwrap_or(text.len() - middle);
    let (left, right) = text.split_at(middle);
    let outputs = std::thread::scope(|scope| {
        let left = scope.spawn(|| map(left, dir.path(), "map-0", memory_mib << 20));
        let right = map(right, dir.path(), "map-1", memory_mib << 20)?;
        Ok::<_, AnyError>([left.join().map_err(|_| "the map thread panicked")??, right])
    })?;
    let mapped = start.elapsed();

    let start = Instant::now();
    let halves = std::thread::scope(|scope| {
        let lower = scope.spawn(|| reduce(&outputs, 0..PARTITIONS / 2, dir.path()));
        let upper = reduce(&outputs, PARTITIONS / 2..PARTITIONS, dir.path())?;
        Ok::<_, AnyError>([lower.join().map_err(|_| "the reduce thread panicked")??, upper])
    })?;
    let reduced = start.elapsed();

    let (distinct, words) =
        halves.iter().fold((0, 0), |sum, half| (sum.0 + half.0, sum.1 + half.1));
    println!(
        "read {:.3} s, map {:.3} s, reduce {:.3} s",
        read.as_secs_f64(),
        mapped.as_secs_f64(),
        reduced.as_secs_f64()
    );
    println!("words: {distinct} distinct, {words} in all");
    for output in &outputs {
        println!("{:?}", output.stats);
    }
    Ok(())
}

fn map(
    text: &[u8],
    dir: &Path,
    name: &str,
    memory_bytes_max: usize,
) -> Result<MapOutput, shuffle::Error> {
    let options = MapOutputOptions {
        partitions: PARTITIONS,
        dir: dir.to_owned(),
        name: name.to_owned(),
        memory_bytes_max,
        merge_factor: 100,
        codec: Codec::Lz4,
        partition_seed: 1,
        sync: false,
    };
    let mut writer = CombiningWriter::new(options, Sum, Partitioning::Hash)?;
    for_each_word(text, |word| writer.emit(word, 1))?;
    writer.finish()
}

fn reduce(
    outputs: &[MapOutput],
    partitions: std::ops::Range<u32>,
    dir: &Path,
) -> Result<(u64, u64), AnyError> {
    let (mut distinct, mut words) = (0, 0);
    for partition in partitions {
        let sources = outputs.iter().map(|output| {
            let segment = output.segments[partition as usize];
            SegmentSource::Path {
                path: output.data.clone(),
                offset: segment.offset,
                stored: segment.stored,
            }
        });
        let options = ReduceOptions {
            dir: dir.to_owned(),
            name: format!("reduce-{partition}"),
            memory_bytes_max: 64 << 20,
            merge_factor: 100,
            codec: Codec::Lz4,
            group_prefix: None,
        };
        let mut input = ReduceInput::new(sources.collect(), options)?;
        while input.next_group()? {
            distinct += 1;
            while let Some(value) = input.next_value()? {
                words += Sum.decode(value)?;
            }
        }
    }
    Ok((distinct, words))
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

/// Calls `emit` for each word. Finds white space 64 bytes at a time: one bit per byte, no branch per byte.
fn for_each_word<E>(text: &[u8], mut emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let mut start = 0;
    let mut base = 0;
    let mut chunks = text.chunks_exact(64);
    for chunk in &mut chunks {
        let mut mask = 0u64;
        for (position, word) in chunk.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            mask |= at_most_space(word) << (8 * position);
        }
        while mask != 0 {
            let at = base + mask.trailing_zeros() as usize;
            mask &= mask - 1;
            if is_space(text[at]) {
                if at > start {
                    emit(&text[start..at])?;
                }
                start = at + 1;
            }
        }
        base += 64;
    }
    for word in text[start..].split(|b| is_space(*b)).filter(|word| !word.is_empty()) {
        emit(word)?;
    }
    Ok(())
}

/// One bit for each of the eight bytes that is not above a space.
fn at_most_space(word: u64) -> u64 {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let above = ((word & !HIGH) + 0x5f5f_5f5f_5f5f_5f5f) | word;
    ((!above & HIGH) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

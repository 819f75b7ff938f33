//! The memory bound, as the operating system sees it. Alone in its process, so that the peak is the engine's.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use shuffle::{
    Codec, Combine, CombiningWriter, DecodeError, MapOutputOptions, MapOutputWriter, Partitioning,
    ReduceInput, ReduceOptions, SegmentSource,
};

const BUDGET: usize = 8 << 20;
/// The allowance on top: write buffers, the merge's readers, the allocator's slack, the test itself.
const SLACK: usize = 6 << 20;

struct Count;

impl Combine for Count {
    type Acc = u64;

    fn encode(&self, acc: &u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&acc.to_be_bytes());
    }

    fn decode(&self, bytes: &[u8]) -> Result<u64, DecodeError> {
        bytes
            .try_into()
            .map(u64::from_be_bytes)
            .map_err(|_| DecodeError::new("a count has eight bytes"))
    }

    fn merge(&self, into: &mut u64, from: u64) {
        *into += from;
    }
}

fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

fn options(dir: &std::path::Path, name: &str) -> MapOutputOptions {
    MapOutputOptions {
        partitions: 2,
        dir: dir.to_owned(),
        name: name.to_owned(),
        memory_bytes_max: BUDGET,
        merge_factor: 1000,
        codec: Codec::Lz4,
        partition_seed: 0,
        sync: false,
    }
}

#[test]
fn budgets_hold_for_sorting_combining_and_one_huge_group() {
    let dir = tempfile::tempdir().unwrap();
    let before = peak_bytes();
    let check = |what: &str| {
        let grown = peak_bytes() - before;
        assert!(grown <= BUDGET + SLACK, "{what}: {grown} bytes");
    };

    // 120 MB of records of one key: 15 budgets.
    let mut writer = MapOutputWriter::new(options(dir.path(), "sort")).unwrap();
    let mut value = [0u8; 100];
    for i in 0..1_000_000u64 {
        value[..8].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        writer.emit(1, b"one key", &value).unwrap();
    }
    let output = writer.finish().unwrap();
    check("sorting");
    assert!((15..40).contains(&output.stats.spills), "{:?}", output.stats);

    let segment = output.segments[1];
    let source =
        SegmentSource::Path { path: output.data, offset: segment.offset, stored: segment.stored };
    let reduce = ReduceOptions {
        dir: dir.path().to_owned(),
        name: "reduce".to_owned(),
        memory_bytes_max: BUDGET,
        merge_factor: 100,
        codec: Codec::Lz4,
        group_prefix: None,
    };
    let mut input = ReduceInput::new(vec![source], reduce).unwrap();
    assert!(input.next_group().unwrap());
    let mut count = 0;
    while input.next_value().unwrap().is_some() {
        count += 1;
    }
    assert_eq!((count, input.next_group().unwrap()), (1_000_000, false));
    check("one huge group");

    // 750,000 keys twice each: several full tables.
    let mut writer =
        CombiningWriter::new(options(dir.path(), "combine"), Count, Partitioning::Hash).unwrap();
    for i in 0..1_500_000u64 {
        let key = (i / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        writer.emit(&key, 1).unwrap();
    }
    let output = writer.finish().unwrap();
    check("combining");
    assert!(output.stats.spills >= 3, "{:?}", output.stats);
    assert_eq!(output.segments.iter().map(|s| s.records).sum::<u64>(), 750_000);
}

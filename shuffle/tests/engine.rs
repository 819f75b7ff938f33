//! The engine against sorting a vector in memory, whatever the budgets.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use shuffle::{
    BufferPool, Clock, Codec, Combine, CombiningWriter, DecodeError, Error, Life, MapOutput,
    MapOutputOptions, MapOutputStats, MapOutputTimes, MapOutputWriter, Partitioning, ReduceInput,
    ReduceOptions, SegmentSource, partition_of, read_index, verify_segment,
};

type Records = Vec<(Vec<u8>, Vec<u8>)>;

const SEED: u64 = 11;
/// With these, every record spills; several spills; no practical limit.
const BUDGETS: [usize; 3] = [1, 2_000, 1 << 22];

fn options(
    dir: &Path,
    name: &str,
    partitions: u32,
    memory: usize,
    factor: usize,
    codec: Codec,
) -> MapOutputOptions {
    MapOutputOptions {
        partitions,
        dir: dir.to_owned(),
        name: name.to_owned(),
        memory_bytes_max: memory,
        merge_factor: factor,
        codec,
        partition_seed: SEED,
        sync: false,
    }
}

fn sort(
    dir: &Path,
    name: &str,
    records: &Records,
    partitions: u32,
    memory: usize,
    factor: usize,
) -> MapOutput {
    let mut writer =
        MapOutputWriter::new(options(dir, name, partitions, memory, factor, Codec::Lz4)).unwrap();
    for (key, value) in records {
        writer.emit(partition_of(key, partitions, SEED), key, value).unwrap();
    }
    writer.finish().unwrap()
}

fn source(output: &MapOutput, partition: u32, kind: usize) -> SegmentSource {
    let segment = output.segments[partition as usize];
    let (offset, stored) = (segment.offset, segment.stored);
    match kind % 3 {
        0 => SegmentSource::Path { path: output.data.clone(), offset, stored },
        1 => SegmentSource::File {
            file: std::fs::File::open(&output.data).unwrap().into(),
            offset,
            stored,
        },
        _ => {
            let data = std::fs::read(&output.data).unwrap();
            SegmentSource::Memory(data[offset as usize..(offset + stored) as usize].to_vec())
        }
    }
}

fn reduce_options(dir: &Path, memory: usize, factor: usize) -> ReduceOptions {
    ReduceOptions {
        dir: dir.to_owned(),
        name: "reduce".to_owned(),
        memory_bytes_max: memory,
        merge_factor: factor,
        codec: Codec::Lz4,
        group_prefix: None,
    }
}

/// All groups of the input: the key at each value.
fn groups(mut input: ReduceInput) -> Vec<Records> {
    let mut all = Vec::new();
    while input.next_group().unwrap() {
        let mut group = Vec::new();
        while let Some(value) = input.next_value().unwrap() {
            let value = value.to_vec();
            group.push((input.key().to_vec(), value));
        }
        all.push(group);
    }
    assert!(!input.next_group().unwrap() && input.next_value().unwrap().is_none());
    assert_eq!(input.stats().groups, all.len() as u64);
    assert_eq!(input.stats().records, all.iter().map(|group| group.len() as u64).sum::<u64>());
    all
}

fn file_names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(prop_oneof![Just(0u8), Just(b'a'), Just(b'b'), Just(255)], 0..20),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

fn records(count: usize) -> impl Strategy<Value = Records> {
    prop::collection::vec((keys(), prop::collection::vec(any::<u8>(), 0..40)), 0..count)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn sorting_equals_a_vector(input in records(400), partitions in 1u32..5, factor in 2usize..6) {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = Vec::new();
        for (number, memory) in BUDGETS.into_iter().enumerate() {
            let output = sort(dir.path(), &format!("map-{number}"), &input, partitions, memory, factor);
            prop_assert_eq!(output.stats.records, input.len() as u64);
            if memory == 1 {
                prop_assert_eq!(output.stats.spills, input.len() as u64);
            }
            prop_assert_eq!(&read_index(&output.index).unwrap(), &output.segments);
            bytes.push(std::fs::read(&output.data).unwrap());
            for partition in 0..partitions {
                let mut want: Records =
                    input.iter().filter(|(key, _)| partition_of(key, partitions, SEED) == partition).cloned().collect();
                want.sort_by(|a, b| a.0.cmp(&b.0));
                let segment = source(&output, partition, 2);
                if let SegmentSource::Memory(stored) = &segment {
                    prop_assert_eq!(verify_segment(stored).unwrap().records, want.len() as u64);
                }
                let got = groups(ReduceInput::new(vec![segment], reduce_options(dir.path(), 1 << 20, 10)).unwrap());
                prop_assert_eq!(got.concat(), want);
            }
        }
        prop_assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]), "budgets change the bytes");
        prop_assert_eq!(file_names(dir.path()).len(), 6, "only data and index files are left");
    }

    #[test]
    fn reducing_many_sources_equals_a_vector(maps in prop::collection::vec(records(60), 0..14), factor in 2usize..6, kind in 0usize..3) {
        let dir = tempfile::tempdir().unwrap();
        let outputs: Vec<_> = maps.iter().enumerate()
            .map(|(number, input)| sort(dir.path(), &format!("map-{number}"), input, 1, 1 << 20, 10)).collect();
        let mut want: Records = maps.concat();
        want.sort_by(|a, b| a.0.cmp(&b.0));
        for memory in BUDGETS {
            let sources = outputs.iter().enumerate().map(|(number, output)| source(output, 0, kind + number));
            let input = ReduceInput::new(sources.collect(), reduce_options(dir.path(), memory, factor)).unwrap();
            let got = groups(input);
            prop_assert!(got.iter().all(|group| group.iter().all(|(key, _)| *key == group[0].0)));
            prop_assert!(got.windows(2).all(|pair| pair[0][0].0 < pair[1][0].0));
            prop_assert_eq!(got.concat(), want.clone());
        }
        prop_assert_eq!(file_names(dir.path()).len(), 2 * maps.len());
    }

    #[test]
    fn combining_changes_nothing_but_the_number_of_records(input in prop::collection::vec((keys(), 0u64..1000), 0..500), factor in 2usize..5) {
        let dir = tempfile::tempdir().unwrap();
        let mut want: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for (key, count) in &input {
            *want.entry(key.clone()).or_default() += count;
        }
        let mut datas = Vec::new();
        for (number, memory) in [1, 2_000, 70_000, 1 << 22].into_iter().enumerate() {
            let name = format!("map-{number}");
            let mut writer =
                CombiningWriter::new(options(dir.path(), &name, 3, memory, factor, Codec::None), Sum, Partitioning::Hash).unwrap();
            for (key, count) in &input {
                writer.emit(key, *count).unwrap();
            }
            let output = writer.finish().unwrap();
            prop_assert_eq!(output.stats.records, input.len() as u64);
            prop_assert_eq!(output.segments.iter().map(|s| s.records).sum::<u64>(), want.len() as u64);
            let mut got = BTreeMap::new();
            for partition in 0..3 {
                let input = ReduceInput::new(vec![source(&output, partition, 0)], reduce_options(dir.path(), 1, 2)).unwrap();
                for group in groups(input) {
                    let sum = group.iter().map(|(_, value)| Sum.decode(value).unwrap()).sum();
                    prop_assert_eq!(partition_of(&group[0].0, 3, SEED), partition);
                    got.insert(group[0].0.clone(), sum);
                }
            }
            prop_assert_eq!(&got, &want);
            datas.push(std::fs::read(&output.data).unwrap());
        }
        prop_assert!(datas.windows(2).all(|pair| pair[0] == pair[1]), "budgets change the bytes");
    }
}

struct Sum;

impl Combine for Sum {
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

/// The writer leaves the table early for distinct keys and returns to it for repeated ones; sums are right across both changes.
#[test]
fn the_combiner_adapts_to_its_input() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = CombiningWriter::new(
        options(dir.path(), "map", 2, 6 << 20, 10, Codec::Lz4),
        Sum,
        Partitioning::Hash,
    )
    .unwrap();
    let mut want = BTreeMap::new();
    let mut emit = |key: String| {
        writer.emit(key.as_bytes(), 1).unwrap();
        *want.entry(key.into_bytes()).or_insert(0u64) += 1;
    };
    (0..200_000).for_each(|i| emit(format!("once {i}")));
    (0..400_000).for_each(|i| emit(format!("often {}", i * 7 % 5_000)));
    (0..50_000).for_each(|i| emit(format!("a key that fits no slot {}", i % 100)));
    let output = writer.finish().unwrap();
    let combined = output.stats.combine_input_records - output.stats.combine_output_records;
    assert!(output.stats.spills >= 3, "{:?}", output.stats);
    assert!(combined >= 440_000, "{:?}", output.stats);
    let mut got = BTreeMap::new();
    for partition in 0..2 {
        let input = vec![source(&output, partition, 0)];
        for group in
            groups(ReduceInput::new(input, reduce_options(dir.path(), 1 << 20, 10)).unwrap())
        {
            assert_eq!(group.len(), 1);
            got.insert(group[0].0.clone(), Sum.decode(&group[0].1).unwrap());
        }
    }
    assert!(got == want);
    assert_eq!(file_names(dir.path()), ["map.data", "map.index"]);
}

#[test]
fn long_and_empty_keys_and_values() {
    let dir = tempfile::tempdir().unwrap();
    let long = |byte: u8, len: usize| vec![byte; len];
    let input: Records = vec![
        (long(b'k', 1 << 20), long(1, 3 << 20)),
        (vec![], vec![]),
        (long(b'k', 1 << 20), vec![]),
        (vec![], long(2, 100)),
        (vec![0], vec![]),
        (long(b'k', (1 << 20) - 1), b"shorter".to_vec()),
    ];
    let mut want = input.clone();
    want.sort_by(|a, b| a.0.cmp(&b.0));
    for (number, memory) in [1, 64 << 10, 64 << 20].into_iter().enumerate() {
        let output = sort(dir.path(), &format!("map-{number}"), &input, 1, memory, 2);
        let input =
            ReduceInput::new(vec![source(&output, 0, number)], reduce_options(dir.path(), 1, 2))
                .unwrap();
        assert!(groups(input).concat() == want);
    }
    let mut writer = CombiningWriter::new(
        options(dir.path(), "sum", 1, 1 << 20, 2, Codec::Lz4),
        Sum,
        Partitioning::Hash,
    )
    .unwrap();
    for _ in 0..3 {
        writer.emit(&long(b'k', 2 << 20), 5).unwrap();
        writer.emit(b"", 1).unwrap();
    }
    let output = writer.finish().unwrap();
    let got = groups(
        ReduceInput::new(vec![source(&output, 0, 0)], reduce_options(dir.path(), 1, 2)).unwrap(),
    );
    assert_eq!(
        got.iter().map(|g| (g[0].0.len(), g[0].1[7])).collect::<Vec<_>>(),
        [(0, 3), (2 << 20, 15)]
    );
}

/// Takes some gigabytes of memory, but little disk, because the value compresses well; run it with a command of its own.
#[test]
#[ignore = "takes gigabytes of memory; docs/testing.md names the command"]
fn a_value_of_one_gibibyte_is_sorted_and_reduced() {
    let dir = tempfile::tempdir().unwrap();
    let len = 1 << 30;
    let mut writer =
        MapOutputWriter::new(options(dir.path(), "map", 1, 1 << 20, 2, Codec::Lz4)).unwrap();
    writer.emit(0, b"k", b"before").unwrap();
    {
        let mut value = vec![7; len];
        value[len - 1] = 8;
        writer.emit(0, b"k", &value).unwrap();
    }
    writer.emit(0, b"a", b"after").unwrap();
    let output = writer.finish().unwrap();
    let sources = vec![source(&output, 0, 0)];
    let mut input = ReduceInput::new(sources, reduce_options(dir.path(), 1 << 20, 2)).unwrap();
    assert!(input.next_group().unwrap());
    assert_eq!(input.next_value().unwrap(), Some(&b"after"[..]));
    assert!(input.next_group().unwrap());
    assert_eq!(input.next_value().unwrap(), Some(&b"before"[..]));
    let value = input.next_value().unwrap().unwrap();
    let (last, rest) = value.split_last().unwrap();
    assert!(value.len() == len && *last == 8 && rest.iter().all(|byte| *byte == 7));
    assert!(input.next_value().unwrap().is_none() && !input.next_group().unwrap());
}

#[test]
fn groups_by_prefix_show_every_key() {
    let dir = tempfile::tempdir().unwrap();
    let input: Records = ["b2", "a3", "a1", "c", "b1", "a2", ""]
        .iter()
        .map(|key| (key.as_bytes().to_vec(), vec![]))
        .collect();
    let output = sort(dir.path(), "map", &input, 1, 1 << 20, 10);
    let open = || {
        let options =
            ReduceOptions { group_prefix: Some(|_| 1), ..reduce_options(dir.path(), 1, 2) };
        ReduceInput::new(vec![source(&output, 0, 0)], options).unwrap()
    };
    let keys: Vec<String> = groups(open())
        .iter()
        .map(|group| {
            group.iter().map(|(key, _)| String::from_utf8_lossy(key)).collect::<Vec<_>>().join(",")
        })
        .collect();
    assert_eq!(keys, ["", "a1,a2,a3", "b1,b2", "c"]);

    let mut input = open();
    let mut firsts = Vec::new();
    while input.next_group().unwrap() {
        firsts.push(input.key().to_vec());
    }
    assert_eq!(firsts, [&b""[..], b"a1", b"b1", b"c"], "what a group does not read is skipped");
    assert_eq!(input.stats().records, 7);
}

#[test]
fn no_records_and_more_partitions_than_keys() {
    let dir = tempfile::tempdir().unwrap();
    let output = sort(dir.path(), "none", &vec![], 3, 1 << 20, 10);
    assert_eq!((output.segments.len(), output.stats.spills), (3, 0));
    assert!(
        groups(
            ReduceInput::new(vec![source(&output, 2, 0)], reduce_options(dir.path(), 1, 2))
                .unwrap()
        )
        .is_empty()
    );
    assert!(groups(ReduceInput::new(vec![], reduce_options(dir.path(), 1, 2)).unwrap()).is_empty());
    let output = sort(dir.path(), "few", &vec![(b"key".to_vec(), vec![1])], 1000, 1 << 20, 10);
    assert_eq!(output.segments.iter().filter(|s| s.records == 1).count(), 1);
}

#[test]
fn misuse_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let with = |partitions, factor| {
        MapOutputWriter::new(options(dir.path(), "m", partitions, 1 << 20, factor, Codec::None))
            .map(drop)
    };
    assert!(matches!(with(0, 2), Err(Error::InvalidOption { option: "partitions", .. })));
    assert!(matches!(with(1, 1), Err(Error::InvalidOption { option: "merge_factor", .. })));
    let mut writer =
        MapOutputWriter::new(options(dir.path(), "m", 2, 1 << 20, 2, Codec::None)).unwrap();
    assert!(matches!(
        writer.emit(2, b"", b""),
        Err(Error::PartitionOutOfRange { partition: 2, partitions: 2 })
    ));
    let custom = Partitioning::Custom(Box::new(|_| 9));
    let mut writer =
        CombiningWriter::new(options(dir.path(), "m", 2, 1 << 20, 2, Codec::None), Sum, custom)
            .unwrap();
    writer.emit(b"a", 1).unwrap();
    assert!(matches!(writer.finish(), Err(Error::PartitionOutOfRange { partition: 9, .. })));
    // Zeroed address space, never touched, because the length alone is refused.
    let huge = vec![0; shuffle::RECORD_BYTES_MAX + 1];
    let big_budget = || options(dir.path(), "m", 1, 2 << 30, 2, Codec::None);
    let mut writer = MapOutputWriter::new(big_budget()).unwrap();
    assert!(matches!(writer.emit(0, b"k", &huge), Err(Error::RecordTooLarge { key_bytes: 1, .. })));
    let mut writer = CombiningWriter::new(big_budget(), Sum, Partitioning::Hash).unwrap();
    assert!(matches!(writer.emit(&huge, 1), Err(Error::RecordTooLarge { value_bytes: 0, .. })));
    let nowhere = dir.path().join("missing");
    let mut writer = MapOutputWriter::new(options(&nowhere, "m", 1, 1, 2, Codec::None)).unwrap();
    let error = writer.emit(0, b"k", b"v").unwrap_err();
    assert!(error.to_string().contains("missing/m.spill-0"), "{error}");
    assert_eq!(file_names(dir.path()), Vec::<String>::new(), "nothing half-written is left");
}

/// Keys from none to more bytes than the budget, each again and again, so that equal keys meet in the table, across drains, and as runs of
/// their own.
#[test]
fn keys_of_all_lengths_combine_within_all_budgets() {
    let dir = tempfile::tempdir().unwrap();
    let lengths = [0, 1, 7, 8, 9, 15, 16, 17, 18, 40, 300, 5_000, 70_000, 1_500_000];
    let mut data = Vec::new();
    for (number, budget) in [4 << 10, 50 << 10, 200 << 10, 4 << 20].into_iter().enumerate() {
        let options = options(dir.path(), &format!("map-{number}"), 2, budget, 4, Codec::Lz4);
        let mut writer = CombiningWriter::new(options, Sum, Partitioning::Hash).unwrap();
        let mut want = BTreeMap::new();
        for round in 0..4u64 {
            for length in lengths {
                // Few of the longest, many of the others; they differ only at the end.
                for variant in 0..(100_000 / (length + 1)).clamp(1, 300) as u64 {
                    let mut key = vec![b'k'; length];
                    let end = length.saturating_sub(2);
                    key[end..].copy_from_slice(&variant.to_be_bytes()[6..][..length - end]);
                    writer.emit(&key, round).unwrap();
                    *want.entry(key).or_insert(0) += round;
                }
            }
        }
        let output = writer.finish().unwrap();
        let sources = (0..2).map(|partition| source(&output, partition, 0));
        let mut got = BTreeMap::new();
        for source in sources {
            let input = ReduceInput::new(vec![source], reduce_options(dir.path(), 1 << 20, 10));
            for group in groups(input.unwrap()) {
                assert_eq!(group.len(), 1);
                got.insert(group[0].0.clone(), Sum.decode(&group[0].1).unwrap());
            }
        }
        assert!(got == want, "a budget of {budget}");
        data.push(std::fs::read(&output.data).unwrap());
    }
    assert!(data.windows(2).all(|pair| pair[0] == pair[1]), "budgets change the bytes");
}

/// Damage in the middle of a spilled or fetched file ends the reduce with an error that names the place.
#[test]
fn damage_reaches_the_caller() {
    let dir = tempfile::tempdir().unwrap();
    let input: Records = (0..50_000u32)
        .map(|i| (i.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec(), vec![]))
        .collect();
    let output = sort(dir.path(), "map", &input, 1, 1 << 22, 10);
    let good = std::fs::read(&output.data).unwrap();
    for position in (0..good.len()).step_by(good.len() / 97) {
        let mut bad = good.clone();
        bad[position] ^= 0x20;
        std::fs::write(&output.data, &bad).unwrap();
        let options = reduce_options(dir.path(), 1 << 20, 2);
        let mut records = 0;
        let failure =
            ReduceInput::new(vec![source(&output, 0, 0)], options).and_then(|mut input| {
                while input.next_group()? {
                    records += 1;
                }
                Ok(())
            });
        match failure {
            Err(Error::Corrupt { origin: shuffle::Origin::File(path), offset, .. }) => {
                assert_eq!(path, output.data);
                assert!(offset <= position as u64 && records < 50_000);
            }
            other => panic!("byte {position}: {other:?}"),
        }
    }
}

#[test]
fn times_are_told_by_whoever_has_a_clock() {
    /// Each call returns a time one millisecond later.
    fn clock() -> Duration {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        Duration::from_millis(LOOKS.fetch_add(1, Ordering::Relaxed))
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, clock: Option<Clock>| {
        let options = options(dir.path(), name, 2, 1 << 20, 2, Codec::Lz4);
        let mut writer = MapOutputWriter::new(options).unwrap();
        if let Some(clock) = clock {
            writer = writer.watched(clock, Life::default());
        }
        for i in 0..60_000u64 {
            writer.emit(0, format!("{}", i * i % 20_011).as_bytes(), b"value").unwrap();
        }
        writer.finish().unwrap().stats
    };
    let stats = run("timed", Some(clock));
    assert!(stats.spills > 1 && stats.merge_passes > 1, "{stats:?}");
    let per_spill = Duration::from_millis(1) * u32::try_from(stats.spills).unwrap();
    assert_eq!((stats.times.sort, stats.times.spill), (per_spill, per_spill));
    assert_eq!(stats.times.merge, Duration::from_millis(1));
    let untimed = run("untimed", None);
    assert_eq!(untimed.times, MapOutputTimes::default());
    assert_eq!(MapOutputStats { times: stats.times, ..untimed }, stats, "nothing else differs");
}

#[test]
fn pooled_buffers_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let pool = BufferPool::new(64 << 20);
    let mut datas = Vec::new();
    for round in 0..3 {
        let name = format!("map-{round}");
        let options = options(dir.path(), &name, 2, 4 << 20, 10, Codec::Lz4);
        let mut writer =
            CombiningWriter::with_pool(options, Sum, Partitioning::Hash, &pool).unwrap();
        for i in 0..60_000u64 {
            writer.emit(format!("{}", i * i % 20_011).as_bytes(), i).unwrap();
        }
        datas.push(std::fs::read(writer.finish().unwrap().data).unwrap());
    }
    assert!(datas[0] == datas[1] && datas[1] == datas[2]);
}

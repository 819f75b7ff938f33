//! Jobs in total order: whatever their input is, the parts are sorted one after the other and about equally long.

use std::io::Read;

use mr_api::codec::FileCodec;
use mr_api::formats::{Format, Rows};
use mr_api::job::{Input, rows};
use mr_api::sequence::{Compression, SequenceFiles, SequenceWriter};
use mr_api::{Job, Lines, LocalRunner, Mapper, from_files, map_fn, reduce_fn, text, text_out};
use proptest::prelude::*;

/// The parts of the output of a job that sorts by `map`, in order; `prepare` makes the input and can turn names into full paths.
fn sort<F: Format, M: Mapper<In = F, Key = Vec<u8>, Value = ()>>(
    runner: &LocalRunner,
    reduces: u32,
    map: M,
    prepare: impl FnOnce(&dyn Fn(&str) -> String) -> Input<F>,
) -> Vec<Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let job = Job::new("sort")
        .input(prepare(&path))
        .map(map)
        .total_order()
        .reduce(reduce_fn::<Vec<u8>, (), _>(|key, values, out| {
            while values.next_value()?.is_some() {
                out.write(key, ())?;
            }
            Ok(())
        }))
        .reducers(reduces)
        .output(text_out(path("out")));
    runner.run(job).unwrap();
    let part = |number| std::fs::read_to_string(path(&format!("out/part-r-{number:05}"))).unwrap();
    (0..reduces).map(|number| part(number).lines().map(str::to_owned).collect()).collect()
}

/// The same for lines.
fn sorted(
    lines: &[String],
    reduces: u32,
    runner: &LocalRunner,
    codec: Option<FileCodec>,
) -> Vec<Vec<String>> {
    let map = map_fn::<Lines, Vec<u8>, (), _>(|line, out| out.emit(line.bytes, ()));
    sort(runner, reduces, map, |path| {
        let raw: Vec<u8> =
            lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
        let (name, stored) = match codec {
            Some(codec) => (format!("in.{}", codec.extension()), codec.compress(&raw).unwrap()),
            None => ("in".to_owned(), raw),
        };
        std::fs::write(path(&name), stored).unwrap();
        text([path(&name)])
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn parts_one_after_the_other_are_sorted(lines in prop::collection::vec("[a-d]{1,6}", 1..200), reduces in 1u32..6, gzip: bool) {
        let runner = LocalRunner::new().threads(1).split_bytes(64);
        let mut want = lines.clone();
        want.sort();
        let codec = gzip.then_some(FileCodec::Gzip);
        prop_assert_eq!(sorted(&lines, reduces, &runner, codec).concat(), want);
    }
}

#[test]
fn sorted_input_is_balanced_too() {
    let lines: Vec<String> = (0..60_000).map(|i| format!("{i:08}")).collect();
    let parts = sorted(&lines, 4, &LocalRunner::new(), None);
    assert!(parts.iter().all(|part| (13_000..17_000).contains(&part.len())), "by keys");
    // If places are small, the sample reads each line once.
    let parts = sorted(&lines[..1000], 4, &LocalRunner::new(), None);
    assert!(
        parts.iter().all(|part| part.len() == 250),
        "{:?}",
        parts.iter().map(Vec::len).collect::<Vec<_>>()
    );
}

/// `count` keys in shuffled order.
fn shuffled(count: u64) -> impl Iterator<Item = String> {
    (0..count).map(|i| format!("{:020}", (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn assert_balanced(parts: &[Vec<String>], what: &str) {
    let counts: Vec<usize> = parts.iter().map(Vec::len).collect();
    let fair = counts.iter().sum::<usize>() / counts.len();
    assert!(counts.iter().all(|count| count.abs_diff(fair) < fair / 5), "{what}: {counts:?}");
}

#[test]
fn every_codec_is_sampled() {
    let lines: Vec<String> = shuffled(100_000).collect();
    for codec in [FileCodec::Gzip, FileCodec::Zstd, FileCodec::Snappy, FileCodec::Lz4] {
        let parts = sorted(&lines, 4, &LocalRunner::new(), Some(codec));
        assert_balanced(&parts, codec.extension());
    }
}

#[test]
fn sequence_files_are_sampled() {
    let block = Compression::Block(FileCodec::Snappy);
    for compression in [Compression::None, Compression::Record(FileCodec::Zstd), block] {
        let map = map_fn::<SequenceFiles, Vec<u8>, (), _>(|(key, _), out| out.emit(key, ()));
        let parts = sort(&LocalRunner::new(), 4, map, |path| {
            let mut file =
                SequenceWriter::new(Vec::new(), "K", "V", compression, *b"0123456789abcdef")
                    .unwrap();
            for key in shuffled(40_000) {
                // 2 MiB and more.
                file.push(key.as_bytes(), key.repeat(2).as_bytes()).unwrap();
            }
            std::fs::write(path("in"), file.end().unwrap()).unwrap();
            from_files([path("in")], SequenceFiles)
        });
        assert_balanced(&parts, &format!("{compression:?}"));
    }
}

#[test]
fn rows_are_sampled() {
    let map =
        map_fn::<Rows, Vec<u8>, (), _>(|row, out| out.emit(format!("{row:04}").as_bytes(), ()));
    let parts = sort(&LocalRunner::new(), 3, map, |_| rows(1000, 4));
    let counts: Vec<usize> = parts.iter().map(Vec::len).collect();
    assert!(counts.iter().all(|count| (333..=334).contains(count)), "{counts:?}");
}

#[test]
fn a_mapper_has_in_a_sample_what_it_has_in_a_task() {
    let map = map_fn::<Lines, Vec<u8>, (), _>(|line, out| {
        let context = out.context();
        let input = context.input().ok_or("no input")?.path.clone();
        let mut same = String::new();
        context.open(&input)?.read_to_string(&mut same)?;
        let counts = context.task_counts().ok_or("no counts")?;
        assert_eq!((counts.maps, counts.reduces, same.as_str()), (1, 2, "b\na\n"));
        let linked = std::fs::read_to_string(context.directory().join("side"))?;
        let side = std::fs::read_to_string(context.side_file("side")?)?;
        out.emit([line.bytes, linked.as_bytes(), side.as_bytes()].concat(), ())
    });
    let side = tempfile::tempdir().unwrap();
    let place = side.path().join("side");
    std::fs::write(&place, "!").unwrap();
    let runner = LocalRunner::new().side_file(place.to_str().unwrap()).unwrap();
    let parts = sort(&runner, 2, map, |path| {
        std::fs::write(path("in"), "b\na\n").unwrap();
        text([path("in")])
    });
    assert_eq!(parts, [["a!!"], ["b!!"]]);
}

#[test]
fn a_bad_record_that_may_be_left_out_ends_the_sample_of_its_file_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("one"), "d\nc\nbad\nb\n").unwrap();
    std::fs::write(path("two"), "a\ne\n").unwrap();
    let job = |skips: &str| {
        Job::new("sort")
            .property("mapreduce.map.skip.maxrecords", skips)
            .unwrap()
            .input(text([path("one"), path("two")]))
            .map_fn::<Vec<u8>, (), _>(|line, out| match line.bytes {
                b"bad" => panic!("no such line"),
                line => out.emit(line, ()),
            })
            .total_order()
            .reduce(reduce_fn::<Vec<u8>, (), _>(|key, _, out| out.write(key, ())))
            .reducers(2)
            .output(text_out(path("out")))
    };
    let error = LocalRunner::new().run(job("0")).unwrap_err().to_string();
    assert!(
        error.contains("sampling the input failed at ") && error.contains("one, byte 4: panic at "),
        "{error}"
    );
    // The sample passes; what a task does about the record is the cluster's.
    let error = LocalRunner::new().run(job("1")).unwrap_err().to_string();
    assert!(error.contains("map failed at "), "{error}");
}

#[test]
fn a_failing_mapper_and_a_late_input_are_said_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("in"), "x\n").unwrap();
    let job = |late: bool| {
        let mapped = Job::new("sort")
            .input(text([path("in")]))
            .map_fn::<Vec<u8>, (), _>(|_, _| Err("no such shape".into()))
            .total_order();
        let other = map_fn::<Lines, Vec<u8>, (), _>(|_, _| Ok(()));
        let reduce = reduce_fn::<Vec<u8>, (), _>(|_, _, _| Ok(()));
        if late {
            mapped
                .also(from_files([path("in")], Lines), other)
                .reduce(reduce)
                .reducers(2)
                .output(text_out(path("out")))
        } else {
            mapped.reduce(reduce).reducers(2).output(text_out(path("out")))
        }
    };
    let error = LocalRunner::new().run(job(false)).unwrap_err().to_string();
    assert!(error.contains("no such shape"), "{error}");
    let error = LocalRunner::new().run(job(true)).unwrap_err().to_string();
    assert!(error.contains("comes after all inputs"), "{error}");
}

//! Tests of the total order: places, boundaries, whole jobs.

use proptest::prelude::*;

use super::*;
use crate::codec::Encoder;
use crate::{LocalRunner, from_files, reduce_fn, text, text_out};

fn part(path: &str, start: u64, end: u64) -> MapPart {
    MapPart { path: path.to_owned(), range: SplitRange { start, end } }
}

#[test]
fn places_are_spread_over_what_can_be_cut_and_take_the_rest_once() {
    let splits =
        [(0, vec![part("a", 0, 100), part("b.gz", 0, 50)]), (1, vec![part("c", 1000, 1050)])];
    let found = places(&splits, 8, |_, part| !part.path.ends_with(".gz"));
    let starts: Vec<(&str, u64, u64)> = found
        .iter()
        .map(|place| (place.part.path.as_str(), place.part.range.start, place.part.range.end))
        .collect();
    assert_eq!(
        starts,
        [
            ("a", 0, 100),
            ("a", 25, 100),
            ("a", 50, 100),
            ("a", 75, 100),
            ("b.gz", 0, 50),
            ("c", 1000, 1050),
            ("c", 1025, 1050)
        ]
    );
    assert_eq!(found.last().unwrap().input, 1);
    assert!(places(&[(0, vec![part("empty", 0, 0)])], 8, |_, _| true).is_empty());
}

#[test]
fn boundaries_survive_the_property() {
    for boundaries in [vec![], vec![vec![0, 255], vec![1]], vec![vec![7; 300]]] {
        assert_eq!(decode(&encode(&boundaries)), Some(boundaries));
    }
    assert_eq!(decode("0"), None);
    assert_eq!(decode("zz"), None);
}

/// Sorts `lines` through a job; the parts of the output in order.
fn sorted(lines: &[String], reduces: u32, runner: &LocalRunner, gzip: bool) -> Vec<Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let mut text_of: String = lines.join("\n");
    text_of.push('\n');
    let input = if gzip {
        let mut encoder = FileCodec::Gzip.encoder(Vec::new()).unwrap();
        io::Write::write_all(&mut encoder, text_of.as_bytes()).unwrap();
        std::fs::write(path("in.gz"), (encoder as Box<dyn Encoder<Vec<u8>>>).end().unwrap())
            .unwrap();
        path("in.gz")
    } else {
        std::fs::write(path("in"), text_of).unwrap();
        path("in")
    };
    let job = Job::new("sort")
        .input(text([input]))
        .map_fn::<Vec<u8>, (), _>(|line, out| out.emit(line.bytes, ()))
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn parts_one_after_the_other_are_sorted(lines in prop::collection::vec("[a-d]{1,6}", 1..200), reduces in 1u32..6, gzip: bool) {
        let runner = LocalRunner::new().threads(1).split_bytes(64);
        let mut want = lines.clone();
        want.sort();
        prop_assert_eq!(sorted(&lines, reduces, &runner, gzip).concat(), want);
    }
}

#[test]
fn sorted_input_is_balanced_too() {
    let lines: Vec<String> = (0..60_000).map(|i| format!("{i:08}")).collect();
    let parts = sorted(&lines, 4, &LocalRunner::new(), false);
    assert!(parts.iter().all(|part| (13_000..17_000).contains(&part.len())), "by keys");
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
        let other = crate::map_fn::<crate::Lines, Vec<u8>, (), _>(|_, _| Ok(()));
        let reduce = reduce_fn::<Vec<u8>, (), _>(|_, _, _| Ok(()));
        if late {
            mapped
                .also(from_files([path("in")], crate::Lines), other)
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

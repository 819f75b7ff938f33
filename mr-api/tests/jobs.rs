//! Whole jobs in this process: the same output whatever the splits, the memory and the combiner; unusual shapes; failures.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mr_api::datum::Desc;
use mr_api::job::{Combined, Mapped};
use mr_api::{
    Count, Emit, Job, Line, Lines, LocalRunner, Mapper, Max, Output, Plan, Result, Sink, Sum,
    Values, intermediate, previous, reduce_fn, text, text_out,
};
use proptest::prelude::*;

/// A directory for one job.
struct Bench {
    scratch: tempfile::TempDir,
    runs: std::cell::Cell<u32>,
}

impl Bench {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("in")).unwrap();
        for (name, content) in files {
            fs::write(scratch.path().join("in").join(name), content).unwrap();
        }
        Bench { scratch, runs: std::cell::Cell::new(0) }
    }

    fn input(&self) -> String {
        self.scratch.path().join("in").to_str().unwrap().to_owned()
    }

    fn output(&self) -> PathBuf {
        self.runs.set(self.runs.get() + 1);
        self.scratch.path().join(format!("out-{}", self.runs.get()))
    }

    /// Runs the job that `build` makes for input and output; returns its part files by name.
    fn run(
        &self,
        runner: &LocalRunner,
        build: impl Fn(String, String) -> Plan,
    ) -> BTreeMap<String, String> {
        let output = self.output();
        runner.run(build(self.input(), output.to_str().unwrap().to_owned())).unwrap();
        parts(&output)
    }

    fn fail(&self, build: impl Fn(String, String) -> Plan) -> String {
        let output = self.output();
        let plan = build(self.input(), output.to_str().unwrap().to_owned());
        let error = LocalRunner::new().run(plan).unwrap_err().to_string();
        assert!(!output.is_dir(), "a failed job leaves no output");
        error
    }
}

fn parts(output: &Path) -> BTreeMap<String, String> {
    let mut parts = BTreeMap::new();
    for entry in fs::read_dir(output).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        parts.insert(name, String::from_utf8(fs::read(entry.path()).unwrap()).unwrap());
    }
    assert_eq!(parts.remove("_SUCCESS").as_deref(), Some(""));
    parts
}

fn whole(parts: &BTreeMap<String, String>) -> String {
    parts.values().map(String::as_str).collect()
}

/// `(word, length of the line)`.
#[derive(Clone)]
struct WordsWithLength;

impl Mapper for WordsWithLength {
    type In = Lines;
    type Key = String;
    type Value = u64;

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<String, u64, S>) -> Result<()> {
        for word in line.words() {
            out.emit(std::str::from_utf8(word)?, line.len() as u64)?;
        }
        Ok(())
    }
}

fn mapped(input: String) -> Job<Mapped<WordsWithLength>> {
    Job::new("words").input(text([input])).map(WordsWithLength)
}

fn runners() -> Vec<LocalRunner> {
    let runner = LocalRunner::new().reducers(2);
    vec![
        runner.clone(),
        runner.clone().split_bytes(5),
        runner.clone().tiny_memory(),
        runner.clone().tiny_memory().split_bytes(9).threads(1),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn combiner_splits_and_memory_do_not_change_the_output(text in "([abc]{1,2}[ \n\r]){0,30}") {
        let bench = Bench::new(&[("a", text.as_bytes()), ("b", b"a c\na"), ("_hidden", b"zzz")]);
        let expected = bench.run(&runners()[0], |input, output| {
            mapped(input).reduce(Sum).output(text_out(output)).into()
        });
        let mut sums = BTreeMap::<&str, u64>::new();
        for line in text.split(['\n', '\r']).chain(["a c", "a"]) {
            for word in line.split(' ').filter(|word| !word.is_empty()) {
                *sums.entry(word).or_default() += line.len() as u64;
            }
        }
        let mut lines: Vec<String> = sums.iter().map(|(word, sum)| format!("{word}\t{sum}")).collect();
        let together = whole(&expected);
        let mut found: Vec<&str> = together.lines().collect();
        lines.sort();
        found.sort_unstable();
        prop_assert_eq!(found, lines);
        for runner in runners() {
            let combined = bench.run(&runner, |input, output| {
                mapped(input).combine(Sum).reduce(Sum).output(text_out(output)).into()
            });
            prop_assert_eq!(&combined, &expected, "combined, {:?}", runner);
            let plain = bench.run(&runner, |input, output| {
                mapped(input).reduce(Sum).output(text_out(output)).into()
            });
            prop_assert_eq!(&plain, &expected, "plain, {:?}", runner);
        }
    }
}

#[test]
fn folds_that_change_the_type_combine_and_reduce() {
    let bench = Bench::new(&[("a", b"x y x\ny x\n")]);
    for runner in runners() {
        let count = bench.run(&runner.clone().reducers(1), |input, output| {
            mapped(input).combine(Count).reduce(Count).output(text_out(output)).into()
        });
        assert_eq!(count["part-r-00000"], "x\t3\ny\t2\n");
        let max = bench.run(&runner.reducers(1), |input, output| {
            mapped(input).combine(Max).reduce(Max).output(text_out(output)).into()
        });
        assert_eq!(max["part-r-00000"], "x\t5\ny\t5\n");
    }
}

#[test]
fn a_partitioner_stays_beside_grouping_whichever_comes_first() {
    let bench = Bench::new(&[("a", b"apple 1\navo 2\nbean 4\ncorn 5\n")]);
    for partition_first in [true, false] {
        let found = bench.run(&LocalRunner::new().reducers(3), |input, output| {
            let mapped = Job::new("grouped").input(text([input])).map_fn::<(String, u64), u64, _>(
                |line, out| {
                    let line = line.to_str_lossy();
                    let (name, number) = line.split_once(' ').ok_or("no number")?;
                    let number: u64 = number.parse()?;
                    out.emit((name, number), number)
                },
            );
            // What begins with an `a` is in the first part, all else in the last.
            let first = |(name, _): (Cow<'_, str>, u64), parts: u32| match name.starts_with('a') {
                true => 0,
                false => parts - 1,
            };
            let grouped = match partition_first {
                true => mapped.partition(first).group_by_first(),
                false => mapped.group_by_first().partition(first),
            };
            grouped
                .reduce(reduce_fn(|(name, _), _: &mut Values<'_, (String, u64), u64>, out| {
                    out.write(name, ())
                }))
                .output(text_out(output))
                .into()
        });
        let lines = |part: &str| found[part].lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines("part-r-00000"), ["apple", "avo"], "{partition_first}");
        assert_eq!(lines("part-r-00002"), ["bean", "corn"], "{partition_first}");
    }
}

#[test]
fn secondary_sort_groups_by_the_first_element_and_shows_the_whole_key() {
    let bench = Bench::new(&[("a", b"b 2\na 3\nb 9\na 1\na 2\n")]);
    for runner in runners() {
        let sorted = bench.run(&runner.reducers(3), |input, output| {
            Job::new("secondary")
                .input(text([input]))
                .map_fn::<(String, Desc<u64>), u64, _>(|line, out| {
                    let line = line.to_str_lossy();
                    let (name, number) = line.split_once(' ').ok_or("no number")?;
                    let number: u64 = number.parse()?;
                    out.emit((name, Desc(number)), number)
                })
                .group_by_first()
                .reduce(reduce_fn(
                    |(name, _),
                     values: &mut Values<'_, (String, Desc<u64>), u64>,
                     out: &mut Output| {
                        let mut all = String::new();
                        while let Some(value) = values.next_value()? {
                            let value = value.to_string();
                            assert_eq!(values.current_key()?.1.0.to_string(), value);
                            all += &value;
                        }
                        out.write(name, all)
                    },
                ))
                .output(text_out(output))
                .into()
        });
        let together = whole(&sorted);
        let mut lines: Vec<&str> = together.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["a\t321", "b\t92"]);
    }
}

#[test]
fn odd_numbers_of_tasks() {
    let files: [(&str, &[u8]); 3] = [("a", b"x y\n"), ("b", b"z"), ("empty", b"")];
    let bench = Bench::new(&files);
    let map_only = bench
        .run(&LocalRunner::new(), |input, output| mapped(input).output(text_out(output)).into());
    assert_eq!(whole(&map_only), "x\t3\ny\t3\nz\t1\n");
    assert_eq!(map_only.len(), 3, "an empty file is an empty split");
    let many = bench.run(&LocalRunner::new().reducers(50), |input, output| {
        mapped(input).reduce(Sum).output(text_out(output)).into()
    });
    assert_eq!((many.len(), whole(&many).len()), (50, "x\t3\ny\t3\nz\t1\n".len()));
    let nothing = Bench::new(&[]);
    let none = nothing.run(&LocalRunner::new().reducers(2), |input, output| {
        mapped(input).combine(Sum).reduce(Sum).output(text_out(output)).into()
    });
    assert_eq!(
        none,
        BTreeMap::from([("part-r-00000".into(), "".into()), ("part-r-00001".into(), "".into())])
    );
}

#[test]
fn empty_and_large_records() {
    let big = "v".repeat(300_000);
    let bench = Bench::new(&[("a", big.as_bytes()), ("b", b"\n\nshort\n")]);
    for runner in [LocalRunner::new().reducers(1), LocalRunner::new().reducers(1).tiny_memory()] {
        let lengths = bench.run(&runner, |input, output| {
            Job::new("whole lines")
                .input(text([input]))
                .map_fn::<Vec<u8>, Vec<u8>, _>(|line, out| out.emit(&line[..0], line.bytes))
                .reduce(reduce_fn(
                    |key: &[u8], values: &mut Values<'_, Vec<u8>, Vec<u8>>, out: &mut Output| {
                        assert!(key.is_empty());
                        let mut lengths = Vec::new();
                        while let Some(value) = values.next_value()? {
                            lengths.push(value.len());
                        }
                        lengths.sort_unstable();
                        out.write((), format!("{lengths:?}"))
                    },
                ))
                .output(text_out(output))
                .into()
        });
        assert_eq!(whole(&lengths), "[0, 0, 5, 300000]\n");
    }
}

#[test]
fn jobs_chain_through_intermediate_outputs_and_files_are_chosen_by_pattern() {
    let bench = Bench::new(&[("a.txt", b"b a b"), ("c.txt", b"b"), ("d.log", b"never")]);
    let pattern = |input: String| format!("{input}/*.txt");
    let sorted = bench.run(&LocalRunner::new(), |input, output| {
        let count = mapped(pattern(input)).combine(Count).reduce(Count).output(intermediate());
        let sort = Job::new("sort")
            .input(previous())
            .map_fn::<(Desc<u64>, String), (), _>(|line, out| {
                let line = line.to_str_lossy();
                let (word, count) = line.split_once('\t').ok_or("no tab")?;
                out.emit((Desc(count.parse::<u64>()?), word), ())
            })
            .reduce(reduce_fn(|key, _values, out| out.write(key, ())))
            .reducers(1)
            .output(text_out(output));
        Plan::from(count).then(sort)
    });
    assert_eq!(whole(&sorted), "3\tb\n1\ta\n");
}

#[test]
fn partitioners_and_counters_are_the_authors() {
    let bench = Bench::new(&[("a", b"apple\nbear\nzebra\n")]);
    let output = bench.output();
    let job: Job<Combined<_, _>> = mapped(bench.input())
        .combine(Sum)
        .partition(|key: &str, partitions: u32| if key < "b" { 0 } else { partitions - 1 });
    let plan = job.reduce(Sum).reducers(2).output(text_out(output.to_str().unwrap()));
    let counters = LocalRunner::new().run(plan).unwrap();
    let found = parts(&output);
    assert_eq!(found["part-r-00000"], "apple\t5\n");
    assert_eq!(found["part-r-00001"], "bear\t4\nzebra\t5\n");
    let group = "org.apache.hadoop.mapreduce.TaskCounter";
    for (name, value) in [
        ("MAP_INPUT_RECORDS", 3),
        ("MAP_OUTPUT_RECORDS", 3),
        ("COMBINE_INPUT_RECORDS", 3),
        ("REDUCE_INPUT_GROUPS", 3),
        ("REDUCE_OUTPUT_RECORDS", 3),
    ] {
        assert_eq!(counters[0].value(group, name), value, "{name}");
    }
}

#[test]
fn failures_name_file_offset_and_message() {
    let bench = Bench::new(&[("data", b"good\nbad one\ngood\n")]);
    let panics = bench.fail(|input, output| {
        Job::new("panics")
            .input(text([input]))
            .map_fn::<String, u64, _>(|line, _| {
                assert!(!line.starts_with(b"bad"), "cannot stand it");
                Ok(())
            })
            .reduce(Sum)
            .output(text_out(output))
            .into()
    });
    assert!(panics.contains("in/data, byte 5") && panics.contains("cannot stand it"), "{panics}");
    let errs = bench.fail(|input, output| {
        Job::new("errs")
            .input(text([input]))
            .map_fn::<String, u64, _>(|line, _| Ok(line.parse_never()?))
            .reduce(Sum)
            .output(text_out(output))
            .into()
    });
    assert!(errs.contains("byte 0") && errs.contains("invalid digit"), "{errs}");
    let missing = bench.fail(|input, output| {
        mapped(format!("{input}/none")).reduce(Sum).output(text_out(output)).into()
    });
    assert!(missing.starts_with("Input path does not exist"), "{missing}");
}

trait ParseNever {
    fn parse_never(&self) -> Result<(), std::num::ParseIntError>;
}

impl ParseNever for Line<'_> {
    fn parse_never(&self) -> Result<(), std::num::ParseIntError> {
        self.to_str_lossy().parse::<u64>().map(|_| ())
    }
}

#[test]
fn an_output_that_exists_is_left_alone() {
    let bench = Bench::new(&[("a", b"x")]);
    let output = bench.output();
    fs::create_dir(&output).unwrap();
    fs::write(output.join("precious"), "kept").unwrap();
    let plan = mapped(bench.input()).reduce(Sum).output(text_out(output.to_str().unwrap()));
    let error = LocalRunner::new().run(plan).unwrap_err().to_string();
    assert!(error.ends_with("already exists"), "{error}");
    assert_eq!(fs::read_to_string(output.join("precious")).unwrap(), "kept");
}

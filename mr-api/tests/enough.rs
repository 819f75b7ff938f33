//! Maps that stop reading when they have seen enough.

use mr_api::formats::{CombinedLines, Format};
use mr_api::map::enough;
use mr_api::testing::{JobDriver, MapDriver};
use mr_api::{
    Emit, Job, Line, Lines, LocalRunner, Mapper, Plan, Result, Sink, Sum, from_files, map_fn,
    text_out,
};

/// Emits this many lines of a split, and their number when it is done.
#[derive(Clone)]
struct Head {
    left: u64,
    seen: u64,
}

impl Head {
    fn of(left: u64) -> Self {
        Head { left, seen: 0 }
    }
}

/// The same for several formats of lines.
#[derive(Clone)]
struct HeadOf<F>(Head, F);

impl<F: for<'a> Format<Record<'a> = Line<'a>>> Mapper for HeadOf<F> {
    type In = F;
    type Key = Vec<u8>;
    type Value = u64;

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<Vec<u8>, u64, S>) -> Result<()> {
        let HeadOf(head, _) = self;
        if head.left == head.seen {
            return enough();
        }
        head.seen += 1;
        out.emit(line.bytes, 1u64)
    }

    fn cleanup<S: Sink>(&mut self, out: &mut Emit<Vec<u8>, u64, S>) -> Result<()> {
        out.emit("seen", self.0.seen)
    }
}

fn head<F>(format: F, count: u64, input: String, output: String) -> Plan
where
    F: for<'a> Format<Record<'a> = Line<'a>>,
{
    let job = Job::new("head")
        .input(from_files([input], format.clone()))
        .map(HeadOf(Head::of(count), format))
        .reduce(Sum)
        .reducers(1);
    job.output(text_out(output)).into()
}

/// Lines of ten bytes.
fn lines(count: usize) -> String {
    (0..count).map(|number| format!("{number:09}\n")).collect()
}

#[test]
fn what_is_left_of_a_large_file_is_not_read() {
    let driver = JobDriver::new().file("in", lines(400_000));
    let run = driver.run(|path| Ok(head(Lines, 2, path("in"), path("out")))).unwrap();
    assert_eq!(run.text("part"), "000000000\t1\n000000001\t1\nseen\t2\n");
    let count = |group, name| run.counters[0].value(group, name);
    let read = count("org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter", "BYTES_READ");
    assert!(read > 0 && read <= 1 << 20, "{read} bytes of 4,000,000");
    assert_eq!(count("org.apache.hadoop.mapreduce.TaskCounter", "MAP_INPUT_RECORDS"), 3);
}

#[test]
fn each_split_has_an_end_of_its_own_and_its_other_files_are_left_out() {
    let runner = LocalRunner::new().split_bytes(100).tiny_memory();
    let driver = JobDriver::new().file("in", lines(30)).runner(runner);
    let run = driver.run(|path| Ok(head(Lines, 1, path("in"), path("out")))).unwrap();
    let seen = "000000000\t1\n000000011\t1\n000000021\t1\nseen\t3\n";
    assert_eq!(run.text("part"), seen, "a split begins behind the line that it begins in");
    let driver = JobDriver::new().file("in/a", lines(5)).file("in/b", lines(5));
    let format = CombinedLines { split_bytes: 1 << 20 };
    let run = driver.run(|path| Ok(head(format, 2, path("in"), path("out")))).unwrap();
    assert_eq!(run.text("part"), "000000000\t1\n000000001\t1\nseen\t2\n", "one split of two files");
}

#[test]
fn drivers_of_mappers_take_it_for_the_end() {
    let run = MapDriver::new(HeadOf(Head::of(1), Lines), Lines).input("a\nb\n").run().unwrap();
    assert_eq!(run.pairs, [(b"a".to_vec(), 1), (b"seen".to_vec(), 1)]);
    let closure = map_fn::<Lines, Vec<u8>, u64, _>(|line, out| {
        if line.starts_with(b"#end") { enough() } else { out.emit(line.bytes, 1u64) }
    });
    let run = MapDriver::new(closure, Lines).input("x\n#end\ny\n").run().unwrap();
    assert_eq!(run.pairs, [(b"x".to_vec(), 1)]);
}

#[test]
fn other_errors_still_fail() {
    let fails = map_fn::<Lines, Vec<u8>, u64, _>(|_, _| Err("enough was seen".into()));
    assert!(MapDriver::new(fails, Lines).input("x\n").run().is_err());
}

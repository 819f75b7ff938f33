//! Jobs with several inputs: each has a mapper of its own, from its set-up to its end.

use std::fs;

use mr_api::formats::{FixedLength, NLines};
use mr_api::task::Context;
use mr_api::{
    Emit, Job, Line, Lines, LocalRunner, Mapper, Result, Sink, Sum, from_files, text, text_out,
};

/// Counts lines in a field, as mappers do that combine by themselves.
#[derive(Clone)]
struct Counting {
    name: &'static str,
    lines: u64,
}

impl Counting {
    fn new(name: &'static str) -> Self {
        Counting { name, lines: 0 }
    }
}

impl Mapper for Counting {
    type In = Lines;
    type Key = String;
    type Value = u64;

    fn setup(&mut self, context: &Context) -> Result<()> {
        let input = context.input().ok_or("no input")?;
        assert!(input.path.ends_with(self.name), "{} is set up for {}", self.name, input.path);
        self.lines = 0;
        Ok(())
    }

    fn map<S: Sink>(&mut self, _: Line<'_>, _: &mut Emit<String, u64, S>) -> Result<()> {
        self.lines += 1;
        Ok(())
    }

    fn cleanup<S: Sink>(&mut self, out: &mut Emit<String, u64, S>) -> Result<()> {
        out.emit(format!("{} lines", self.name), self.lines)?;
        out.emit(format!("{} splits", self.name), 1)
    }
}

/// Of a total order, whose sample goes through the same mappers, and of one that is not.
#[test]
fn set_up_and_end_belong_to_the_mapper_of_the_split_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    for (name, lines) in [("one", "a\nb\nc\n"), ("two", "x\nx\n"), ("three", "z\n")] {
        fs::write(path(name), lines).unwrap();
    }
    for ordered in [false, true] {
        let job = Job::new("several")
            .input(text([path("one")]))
            .map(Counting::new("one"))
            .also(text([path("two")]), Counting::new("two"))
            .also(text([path("three")]), Counting::new("three"));
        let job = if ordered { job.total_order() } else { job };
        let out = path(&format!("out-{ordered}"));
        let job = job.reduce(Sum).reducers(2).output(text_out(out.clone()));
        LocalRunner::new().run(job).unwrap();
        let part = |number| fs::read_to_string(format!("{out}/part-r-0000{number}")).unwrap();
        let both = [part(0), part(1)].concat();
        let mut found: Vec<&str> = both.lines().collect();
        found.sort_unstable();
        let expected = [
            "one lines\t3",
            "one splits\t1",
            "three lines\t1",
            "three splits\t1",
            "two lines\t2",
            "two splits\t1",
        ];
        assert_eq!(found, expected, "{ordered}");
    }
}

#[test]
fn lengths_and_counts_of_nothing_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    fs::write(path("in"), "abc\n").unwrap();
    let fixed = Job::new("fixed")
        .input(from_files([path("in")], FixedLength { bytes: 0 }))
        .map_fn::<Vec<u8>, (), _>(|record, out| out.emit(record, ()))
        .output(text_out(path("out")));
    let error = LocalRunner::new().run(fixed).unwrap_err().to_string();
    assert!(error.contains("`FixedLength { bytes: 0 }`"), "{error}");
    let lines = Job::new("lines")
        .input(from_files([path("in")], NLines { count: 0 }))
        .map_fn::<Vec<u8>, (), _>(|line, out| out.emit(line.bytes, ()))
        .output(text_out(path("out")));
    let error = LocalRunner::new().run(lines).unwrap_err().to_string();
    assert!(error.contains("`NLines { count: 0 }`"), "{error}");
}

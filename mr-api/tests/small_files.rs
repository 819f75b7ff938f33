//! Many small files share maps, and each keeps a mapper of its own.

use std::fs;
use std::path::Path;

use mr_api::map::enough;
use mr_api::task::Context;
use mr_api::{
    Emit, Job, Line, Lines, LocalRunner, Mapper, Plan, Result, Sink, Sum, text, text_out,
};

/// Counts the lines of its file up to `last`.
#[derive(Clone, Default)]
struct OfFile {
    name: String,
    lines: u64,
}

impl Mapper for OfFile {
    type In = Lines;
    type Key = String;
    type Value = u64;

    fn setup(&mut self, context: &Context) -> Result<()> {
        let input = context.input().ok_or("no input")?;
        self.name = input.path.rsplit('/').next().unwrap_or_default().to_owned();
        assert_eq!((input.start, self.lines), (0, 0), "a mapper is new for each file");
        Ok(())
    }

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<String, u64, S>) -> Result<()> {
        assert_eq!(out.context().input().unwrap().path.rsplit('/').next(), Some(&*self.name));
        if line.bytes == b"last" {
            return enough();
        }
        self.lines += 1;
        Ok(())
    }

    fn cleanup<S: Sink>(&mut self, out: &mut Emit<String, u64, S>) -> Result<()> {
        out.emit(&self.name, self.lines)
    }
}

/// Number of files.
const FILES: usize = 150;

fn name(number: usize) -> String {
    format!("f{number:03}")
}

/// Files with as many lines as their number; every third goes on behind a line that ends the reading.
fn put_files(directory: &Path) {
    fs::create_dir(directory).unwrap();
    for number in 0..FILES {
        let more = if number.is_multiple_of(3) { "last\nmore\nmore\n" } else { "" };
        let text = "line\n".repeat(number) + more;
        fs::write(directory.join(name(number)), text).unwrap();
    }
}

fn run(properties: &[(&str, &str)], map_only: bool) -> (usize, String) {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
    put_files(Path::new(&path("in")));
    let mut job = Job::new("of-file").input(text([path("in")])).map(OfFile::default());
    for (name, value) in properties {
        job = job.property(name, value).unwrap();
    }
    let reducers = if map_only { 0 } else { 1 };
    let job = job.reduce(Sum).reducers(reducers).output(text_out(path("out")));
    LocalRunner::new().threads(3).run(Plan::from(job)).unwrap();
    let mut parts: Vec<_> =
        fs::read_dir(path("out")).unwrap().map(|entry| entry.unwrap().path()).collect();
    parts.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("part-"));
    parts.sort();
    let texts = parts.iter().map(|path| fs::read_to_string(path).unwrap());
    let mut lines: Vec<String> = texts.flat_map(|text| lines_of(&text)).collect();
    lines.sort_unstable();
    (parts.len(), lines.join("\n"))
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[test]
fn each_small_file_has_a_mapper_of_its_own() {
    let expected: Vec<String> = (0..FILES).map(|n| format!("{}\t{n}", name(n))).collect();
    let expected = expected.join("\n");
    let (parts, counts) = run(&[], false);
    assert_eq!((parts, &counts), (1, &expected));
    let (parts, counts) = run(&[], true);
    assert_eq!(counts, expected);
    assert!((6..=7).contains(&parts), "two maps for each thread: {parts}");
    for (most, maps) in [("1", FILES), ("10", FILES / 10)] {
        let (parts, counts) = run(&[("hanno.input.files.per.map.max", most)], true);
        assert_eq!((parts, &counts), (maps, &expected), "at most {most} files for each map");
    }
}

#[test]
fn a_number_of_files_is_at_least_one() {
    let job = Job::new("of-file").input(text(["in"])).map(OfFile::default());
    let error = job.property("hanno.input.files.per.map.max", "0").err().unwrap().to_string();
    assert!(error.contains("hanno.input.files.per.map.max") && error.contains('0'), "{error}");
}

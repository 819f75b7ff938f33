//! Conformance of the shell: scripts of `hdfs` commands with the output, messages and exit codes of Hadoop's, run against one real
//! cluster. One file of `conformance/` per group of commands:
//!
//! ```text
//! # a remark
//! $ hdfs dfs -ls /x            a line for sh, in a directory of its own, with hdfs, hadoop and hanno on the PATH
//! 1> a line of standard output
//! 2> a line of standard error
//! ? 1                          the exit code; 0 if there is no such line
//! ```
//!
//! Everything must come in this order and nothing else. `2> ...` stands for any further lines. In expected lines `[..]` is any text,
//! `[DATE]` a minute, `[TIME]` a second; in commands, too, `[NN]` is the NameNode's `host:port` and `[HERE]` the script's directory.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::support::{Cluster, Options, Outcome};

/// One command and what it must do.
#[derive(Debug, Default)]
struct Case {
    line: usize,
    command: String,
    stdout: Vec<String>,
    stderr: Vec<String>,
    code: i32,
}

/// Stands for any further lines.
const ANY: &str = "...";

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if let Some(command) = text.strip_prefix("$ ") {
            cases.push(Case { line, command: command.to_owned(), ..Case::default() });
            continue;
        }
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let case = cases.last_mut().unwrap_or_else(|| panic!("line {line} before a command"));
        let rest = |text: &str| text.get(3..).unwrap_or_default().to_owned();
        match text.get(..2) {
            Some("1>") => case.stdout.push(rest(text)),
            Some("2>") => case.stderr.push(rest(text)),
            Some("? ") => case.code = text[2..].parse().unwrap(),
            _ => panic!("line {line} is nothing that is expected: {text}"),
        }
    }
    cases
}

/// Where a script runs.
struct Place<'a> {
    cluster: &'a Cluster,
    directory: PathBuf,
    path: String,
}

impl Place<'_> {
    fn run(&self, case: &Case) -> Outcome {
        let namenode = self.cluster.namenode.trim_start_matches("http://");
        let text = case.command.replace("[HERE]", self.directory.to_str().unwrap());
        let text = text.replace("[NN]", namenode);
        let mut command = self.cluster.command(Path::new("sh"), &["-c", &text]);
        command.current_dir(&self.directory).env("PATH", &self.path).env("TZ", "UTC");
        Outcome::of(command)
    }

    /// What is wrong with a case; `None` if nothing is.
    fn check(&self, case: &Case) -> Option<String> {
        let outcome = self.run(case);
        let out = self.differs(&case.stdout, &outcome.stdout_text());
        let err = self.differs(&case.stderr, &outcome.stderr);
        if !out && !err && outcome.code == case.code {
            return None;
        }
        Some(format!(
            "line {}: $ {}\nexpected {:?} {:?}, exit code {}\nfound exit code {}, stdout:\n{}stderr:\n{}",
            case.line,
            case.command,
            case.stdout,
            case.stderr,
            case.code,
            outcome.code,
            outcome.stdout_text(),
            outcome.stderr
        ))
    }

    fn differs(&self, expected: &[String], found: &str) -> bool {
        let (expected, open) = match expected.split_last() {
            Some((last, rest)) if last == ANY => (rest, true),
            _ => (expected, false),
        };
        let lines: Vec<&str> = found.lines().collect();
        let counts_fit = lines.len() == expected.len() || (open && lines.len() > expected.len());
        !counts_fit
            || expected
                .iter()
                .zip(lines)
                .any(|(pattern, line)| !self.pattern(pattern).is_match(line))
    }

    fn pattern(&self, expected: &str) -> Regex {
        let namenode = self.cluster.namenode.trim_start_matches("http://");
        let mut text = regex::escape(expected);
        for (name, pattern) in [
            ("[..]", ".*".to_owned()),
            ("[DATE]", r"\d{4}-\d\d-\d\d \d\d:\d\d".to_owned()),
            ("[TIME]", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d".to_owned()),
            ("[NN]", regex::escape(namenode)),
            ("[HERE]", regex::escape(self.directory.to_str().unwrap())),
        ] {
            text = text.replace(&regex::escape(name), &pattern);
        }
        Regex::new(&format!("^{text}$")).unwrap()
    }
}

#[test]
fn every_command_answers_as_hadoops() {
    let cluster = Cluster::start(Options::tight());
    let local = tempfile::tempdir().unwrap();
    let path = cluster.path_with_links(local.path());
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let mut files: Vec<PathBuf> =
        fs::read_dir(scripts).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for file in &files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let directory = local.path().join(&name);
        fs::create_dir(&directory).unwrap();
        let place = Place { cluster: &cluster, directory, path: path.clone() };
        for case in parse(&fs::read_to_string(file).unwrap()) {
            count += 1;
            wrong.extend(place.check(&case).map(|text| format!("{name} {text}")));
        }
    }
    assert!(count > 150, "only {count} cases were read");
    assert!(wrong.is_empty(), "{} of {count} cases:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn scripts_are_read_line_by_line() {
    let cases = parse("# x\n$ a\n1> out\n1>\n2> err\n? 255\n\n$ b\n");
    assert_eq!((cases.len(), cases[0].line, cases[1].code), (2, 2, 0));
    assert_eq!(cases[0].stdout, ["out", ""]);
    assert_eq!((cases[0].stderr.len(), cases[0].code), (1, 255));
}

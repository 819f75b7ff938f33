//! What tests need of the machine. A test that lacks something says so where everybody sees it, is counted, and fails where that need is required.
//!
//! The test runner has no word for this: it counts such a test as passed. So [`lacks`] writes past the runner, which hides what passing tests print. Whoever wants a
//! number names a file in `HANNO_TEST_NOT_RUN`; it gets a line for each.

pub mod random;
pub mod seeds;

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};

/// Needs that must be met, by their names below, with spaces between them; `all` for every one.
const REQUIRE_VARIABLE: &str = "HANNO_TEST_REQUIRE";
/// A file for one line of each test that did not run, or not as a whole.
const NOT_RUN_VARIABLE: &str = "HANNO_TEST_NOT_RUN";

/// What some machines do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Chromium and its driver.
    Browser,
    /// Python 3.
    Python,
    /// axe-core, a library that judges pages.
    Axe,
    /// Prometheus' own library for Python.
    Prometheus,
    /// Prometheus' tool that checks and tests rules.
    Promtool,
    /// A C compiler.
    Compiler,
    /// Mounts in a namespace of one's own.
    Mounts,
    /// Loop devices and the tools that make ext4 and XFS.
    FileSystems,
    /// Processes of other users, which root alone may start.
    Users,
    /// Control groups of the version and with the controllers that a test is about.
    Cgroups,
    /// Other shells than the one that runs scripts.
    Shells,
    /// What lays out manual pages.
    Manuals,
    /// An address that other machines could reach, and curl.
    Network,
    /// curl alone.
    Curl,
}

impl Need {
    fn name(self) -> &'static str {
        match self {
            Need::Browser => "browser",
            Need::Python => "python",
            Need::Axe => "axe",
            Need::Prometheus => "prometheus",
            Need::Promtool => "promtool",
            Need::Compiler => "compiler",
            Need::Mounts => "mounts",
            Need::FileSystems => "file-systems",
            Need::Users => "users",
            Need::Cgroups => "cgroups",
            Need::Shells => "shells",
            Need::Manuals => "manuals",
            Need::Network => "network",
            Need::Curl => "curl",
        }
    }
}

/// Reports that this test, or a part of it, cannot run here.
///
/// # Panics
/// If the need is required, or the report cannot be written.
pub fn lacks(need: Need, why: impl Display) {
    let thread = std::thread::current();
    let line = format!("NOT RUN {}: {}: {why}\n", thread.name().unwrap_or("?"), need.name());
    let required = std::env::var(REQUIRE_VARIABLE).unwrap_or_default();
    assert!(!is_required(&required, need), "{REQUIRE_VARIABLE} is `{required}`: {line}");
    io::stderr().write_all(line.as_bytes()).expect("a test can write");
    if let Some(path) = std::env::var_os(NOT_RUN_VARIABLE) {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{NOT_RUN_VARIABLE}={}: {error}", path.display()));
    }
}

fn is_required(list: &str, need: Need) -> bool {
    list.split_whitespace().any(|name| name == "all" || name == need.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const AGAIN_VARIABLE: &str = "HANNO_TEST_NEEDS_AGAIN";

    /// This test once more, as one that lacks something.
    fn again(required: &str, file: &std::path::Path) -> (bool, String, String) {
        let name = "tests::what_did_not_run_is_seen_counted_and_refused_where_it_is_required";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name]).env(AGAIN_VARIABLE, "1");
        command.env(REQUIRE_VARIABLE, required).env(NOT_RUN_VARIABLE, file);
        let output = command.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), errors, std::fs::read_to_string(file).unwrap_or_default())
    }

    #[test]
    fn what_did_not_run_is_seen_counted_and_refused_where_it_is_required() {
        if std::env::var_os(AGAIN_VARIABLE).is_some() {
            return lacks(Need::Cgroups, "of version 2");
        }
        let file = std::env::temp_dir().join(format!("hanno-test-needs-{}", std::process::id()));
        let line = "NOT RUN tests::what_did_not_run_is_seen_counted_and_refused_where_it_is_required: cgroups: of version 2\n";
        for required in ["", "browser users"] {
            let (is_green, errors, counted) = again(required, &file);
            assert!(is_green && errors.contains(line), "{errors}");
            assert_eq!(counted, line);
            std::fs::remove_file(&file).unwrap();
        }
        for required in ["browser cgroups", "all"] {
            let (is_green, _, counted) = again(required, &file);
            assert!(!is_green && counted.is_empty());
        }
    }
}

//! Runs a test of this binary once more as a user who is not root.

use std::os::unix::fs::{MetadataExt, chown};
use std::process::{Command, Stdio};

use needs::{Need, lacks};

use crate::support::Outcome;
use crate::support::cluster::{DIRECTORY_VARIABLE, fresh_directory, hanno_binary};

/// A user id that nobody has.
const USER: u32 = 54_321;

/// Fails as the test does. Says so where the tests do not run as root (then that was an ordinary user) or nobody else may execute what was built.
pub(super) fn run_again(test: &str) {
    let directory = fresh_directory();
    if directory.metadata().unwrap().uid() != 0 {
        // Then `test` itself has run as an ordinary user.
        return;
    }
    chown(&directory, Some(USER), Some(USER)).unwrap();
    let mut probe = as_user(hanno_binary());
    let is_open = probe.arg("--version").current_dir("/").stdout(Stdio::null()).status();
    if !is_open.is_ok_and(|status| status.success()) {
        lacks(Need::Users, format_args!("nobody else may execute {}", hanno_binary().display()));
        return;
    }
    let mut command = as_user(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).current_dir(&directory);
    command.env(DIRECTORY_VARIABLE, &directory).env("HOME", &directory).env("TMPDIR", &directory);
    let outcome = Outcome::of(command);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout_text(), outcome.stderr);
    assert!(outcome.stdout_text().contains("1 passed"), "{test}: {}", outcome.stdout_text());
    std::fs::remove_dir_all(directory).unwrap();
}

fn as_user(program: std::path::PathBuf) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
    command.args(["--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--"]);
    command.arg(program);
    command
}

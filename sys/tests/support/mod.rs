//! Helpers for tests in several binaries.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// A copy of this program that every user can run, and its directory. Another process writes the copy: if it were open for writing here, a child that another
/// test starts meanwhile would have it open too, and the kernel refuses to run such a file.
pub(crate) fn copy_of_this_program() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("copy");
    let this = std::env::current_exe().unwrap();
    assert!(Command::new("cp").args([&this, &program]).status().unwrap().success());
    (directory, program)
}

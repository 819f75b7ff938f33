//! Directories and files of groups, in the kernel's file system.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::{fs, io};

use rustix::io::Errno;

/// Creates a group, if it does not exist.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Opens a file that the kernel made; never creates one.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

pub(super) fn put(path: &Path, value: &str) -> io::Result<()> {
    open(path)?.write_all(value.as_bytes())
}

pub(super) fn words(path: &Path) -> io::Result<Vec<String>> {
    Ok(fs::read_to_string(path)?.split_whitespace().map(str::to_owned).collect())
}

pub(super) fn members_of(directory: &Path) -> io::Result<BTreeSet<u32>> {
    let members = fs::read_to_string(directory.join("cgroup.procs"))?;
    Ok(members.lines().filter_map(|line| line.parse().ok()).collect())
}

pub(super) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

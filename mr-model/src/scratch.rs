//! Private directories of this process among the system's temporary files.
//!
//! Invariant: this call made the directory and nobody else can read or write it, so no file in it came from others.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// A directory; removed when dropped.
pub struct Scratch(PathBuf);

/// Names to try: names in use, by an earlier process with our id or by somebody in our way, are skipped.
const NAMES_MAX: u32 = 1000;

impl Scratch {
    /// Makes one; `purpose` is part of its name.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn new(purpose: &str) -> Result<Self, Error> {
        Self::new_in(&std::env::temp_dir(), purpose)
    }

    fn new_in(parent: &Path, purpose: &str) -> Result<Self, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut tries = 0;
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("hanno-{purpose}-{}-{number}", std::process::id()));
            tries += 1;
            // Not recursive: it fails if anything has the name, even a dangling link.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < NAMES_MAX => {
                }
                Err(error) => return Err(Error::file("create directory", &path)(error)),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: it is in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_is_in_the_way_is_passed_over() {
        let parent = tempfile::tempdir().unwrap();
        let first = Scratch::new_in(parent.path(), "test").unwrap();
        let name = first.path().file_name().unwrap().to_str().unwrap();
        let (base, number) = name.rsplit_once('-').unwrap();
        let number: u64 = number.parse().unwrap();
        // The next names: a directory with somebody's file, and a link to one. Other tests may advance the number meanwhile.
        let theirs = tempfile::tempdir().unwrap();
        std::fs::write(theirs.path().join("side"), "foreign").unwrap();
        let mut taken = BTreeSet::new();
        for next in number + 1..number + 40 {
            let path = parent.path().join(format!("{base}-{next}"));
            match next % 2 {
                0 => std::fs::create_dir(&path).unwrap(),
                _ => symlink(theirs.path(), &path).unwrap(),
            }
            taken.insert(path);
        }
        let second = Scratch::new_in(parent.path(), "test").unwrap();
        assert!(!taken.contains(second.path()));
        let mode = std::fs::symlink_metadata(second.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.try_exists().unwrap());
    }
}

//! Directories that need not survive a crash: private, made without waiting for the disk.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes `directory` and missing parents with mode 0700. One that exists is fine.
pub(crate) fn create(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

//! Directories that need not survive a crash: private, made without waiting for the disk.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// What a task is told where its directory cannot be used; a full disk is told with its remedy.
pub(crate) fn failure(action: &str, path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free space there, or give the worker a `data` directory on a larger disk"
        }
        _ => "",
    };
    format!("cannot {action} {}: {error}{remedy}", path.display())
}

/// Makes `directory` and missing parents with mode 0700. One that exists is fine.
pub(crate) fn create(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// `None` where what was looked at is gone.
pub(crate) fn unless_gone<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        looked => looked.map(Some),
    }
}

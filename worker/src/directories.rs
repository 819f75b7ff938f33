//! The directories of a worker.
//!
//! Invariant: only one worker process has them at a time.

use std::path::Path;

use crate::error::{Error, disk};
use crate::scratch::OpenDir;

/// The paths of the worker's directories.
pub(crate) struct Directories {
    /// The parent of them all, without a link in the path: other workers and tasks get paths below it.
    pub(crate) data: OpenDir,
    pub(crate) jobs: OpenDir,
    pub(crate) outputs: OpenDir,
    pub(crate) logs: OpenDir,
    pub(crate) binaries: OpenDir,
    /// Held until the worker ends.
    _lock: sys::fs::LockFile,
}

impl Directories {
    /// Creates missing directories, locks, and deletes the job files of an earlier worker.
    pub(crate) fn prepare(data: &Path) -> Result<Self, Error> {
        sys::fs::create_private_dir(data).map_err(disk("make directory", data))?;
        let data = data.canonicalize().map_err(disk("find", data))?;
        let lock = sys::fs::LockFile::of_directory(&data)?;
        let data = OpenDir::open(&data).map_err(disk("open", &data))?;
        for name in ["jobs", "outputs"] {
            data.dir.remove(name).map_err(disk("delete", data.path.join(name)))?;
        }
        let [jobs, outputs, logs, binaries] = ["jobs", "outputs", "logs", "binaries"]
            .map(|name| data.ensure(name).map_err(disk("make directory", data.path.join(name))));
        Ok(Directories {
            jobs: jobs?,
            outputs: outputs?,
            logs: logs?,
            binaries: binaries?,
            data,
            _lock: lock,
        })
    }
}

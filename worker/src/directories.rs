//! The directories of a worker.
//!
//! Invariant: one worker process has them at a time.

use std::path::Path;

use crate::error::{Error, disk};
use crate::scratch::Place;

/// Where things are kept.
pub(crate) struct Directories {
    /// All of them, without a link in the path: other workers and tasks are told places below.
    pub(crate) data: Place,
    pub(crate) jobs: Place,
    pub(crate) outputs: Place,
    pub(crate) logs: Place,
    pub(crate) binaries: Place,
    /// Held until the worker ends.
    _lock: sys::fs::LockFile,
}

impl Directories {
    /// Makes what is missing, locks, and deletes what an earlier worker left of its jobs.
    pub(crate) fn prepare(data: &Path) -> Result<Self, Error> {
        sys::fs::create_private_dir(data).map_err(disk("make directory", data))?;
        let data = data.canonicalize().map_err(disk("find", data))?;
        let lock = sys::fs::LockFile::acquire(&data.join("lock"))?;
        let data = Place::open(&data).map_err(disk("open", &data))?;
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

//! The directories of a worker.
//!
//! Invariants: only one worker process has them at a time. Nothing is deleted in a directory that no worker made ([`sys::fs::claim`]).

use std::path::Path;

use sys::fs::claim::{Claim, Owner};

use crate::error::{Error, disk};
use crate::scratch::OpenDir;

/// What workers make in their directory. Earlier ones made no mark.
const OWNER: Owner = Owner {
    name: "worker",
    mark: "WORKER",
    folders: &["jobs", "outputs", "logs", "binaries"],
    files: &[],
    was_unmarked: true,
};
/// What the mark says to whoever looks.
const MARK: &str = "A worker of Hanno keeps its files in this directory, and deletes them.\n";

/// The paths of the worker's directories.
pub(crate) struct Directories {
    /// The parent of them all, without a link in the path: other workers and tasks get paths below it.
    pub(crate) data: OpenDir,
    pub(crate) jobs: OpenDir,
    pub(crate) outputs: OpenDir,
    pub(crate) logs: OpenDir,
    pub(crate) binaries: OpenDir,
    /// Held until the worker ends.
    _claim: Claim,
}

impl Directories {
    /// Creates missing directories, claims them, and deletes the job files of an earlier worker.
    pub(crate) fn prepare(data: &Path) -> Result<Self, Error> {
        let claim = Claim::take(data, &OWNER)?;
        let data = data.canonicalize().map_err(disk("find", data))?;
        let data = OpenDir::open(&data).map_err(disk("open", &data))?;
        for name in ["jobs", "outputs"] {
            data.dir.remove(name).map_err(disk("delete", data.path.join(name)))?;
        }
        if !claim.is_marked() {
            let mark = data.path.join(OWNER.mark);
            match sys::fs::write_atomic(&mark, MARK.as_bytes(), 0o600) {
                // The lock and the folders tell the next start whose it is: a full disk must not keep a worker from starting.
                Err(error) if sys::fs::is_full(&error) => {}
                written => written.map_err(disk("write", mark))?,
            }
        }
        let [jobs, outputs, logs, binaries] = ["jobs", "outputs", "logs", "binaries"]
            .map(|name| data.ensure(name).map_err(disk("make directory", data.path.join(name))));
        Ok(Directories {
            jobs: jobs?,
            outputs: outputs?,
            logs: logs?,
            binaries: binaries?,
            data,
            _claim: claim,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_no_worker_made_is_not_deleted() {
        let place = tempfile::tempdir().unwrap();
        let project = place.path().join("proj");
        for name in ["jobs", "outputs"] {
            fs::create_dir_all(project.join(name)).unwrap();
            fs::write(project.join(name).join("mine"), "years of work").unwrap();
        }
        let error = Directories::prepare(&project).err().unwrap().to_string();
        assert!(error.contains("is no directory of a worker"), "{error}");
        for name in ["jobs", "outputs"] {
            assert_eq!(fs::read(project.join(name).join("mine")).unwrap(), b"years of work");
        }
        assert_eq!(fs::read_dir(&project).unwrap().count(), 2);
    }

    #[test]
    fn a_directory_of_an_earlier_worker_is_opened_emptied_and_marked() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("worker");
        for name in OWNER.folders {
            fs::create_dir_all(data.join(name)).unwrap();
            fs::write(data.join(name).join("left"), "").unwrap();
        }
        fs::write(data.join("lock"), "4711\n").unwrap();
        drop(Directories::prepare(&data).unwrap());
        let left = |name: &str| fs::read_dir(data.join(name)).unwrap().count();
        assert_eq!(["jobs", "outputs", "logs", "binaries"].map(left), [0, 0, 1, 1]);
        assert_eq!(fs::read_to_string(data.join("WORKER")).unwrap(), MARK);
        fs::write(data.join("jobs/left"), "").unwrap();
        drop(Directories::prepare(&data).unwrap());
        assert_eq!(left("jobs"), 0);
    }
}

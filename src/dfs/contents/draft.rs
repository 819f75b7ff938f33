//! A file of this machine that a copy of the cluster's becomes, while it is written: beside its target, under a temporary name that ends in `._COPYING_`.
//!
//! Invariants: it is renamed when it is complete, and removed on any failure. Its temporary name is known here alone: failures name the target.

use std::fs::{self, File, FileTimes, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use protocol::namenode::FileStatus;
use sys::fs::{create_anew, rename_new};
use sys::host::users;

use super::interrupt::{Input, Temporary};
use crate::dfs::fs::sums::{self, Checksums};
use crate::dfs::fs::{Failure, FsPath, MODE_MASK, local};

/// Permissions of new files, less the process's mask.
pub(super) const FILE_MODE: u32 = 0o666;

/// See the module.
pub(super) struct Draft<'a> {
    temporary: PathBuf,
    target: &'a Path,
}

impl Draft<'_> {
    /// The file, empty.
    pub(super) fn create(&self) -> Result<File, Failure> {
        create_anew(&self.temporary, FILE_MODE).map_err(|error| self.fail(&error))
    }

    /// What went wrong with it.
    pub(super) fn fail(&self, error: &io::Error) -> Failure {
        Failure::local(self.target, error)
    }

    /// Gives it the attributes of its source. `file` is what was created.
    pub(super) fn preserve(&self, file: &File, status: &FileStatus) -> Result<(), Failure> {
        let at = |ms| UNIX_EPOCH + Duration::from_millis(ms);
        let times =
            FileTimes::new().set_modified(at(status.mtime_ms)).set_accessed(at(status.atime_ms));
        let kept = set_owner_and_mode(&self.temporary, status);
        kept.and_then(|()| file.set_times(times)).map_err(|error| self.fail(&error))
    }
}

/// Lets `fill` write all of `input` into a file beside `target`, and gives it that name; the checksums that it returns are written beside it. On any failure the
/// file is removed.
pub(super) fn publish(
    overwrites: bool,
    target: &Path,
    input: Input,
    fill: impl FnOnce(&Draft<'_>) -> Result<Option<Checksums>, Failure>,
) -> Result<(), Failure> {
    let draft = Draft { temporary: local::copying(target), target };
    let guard = Temporary::new(FsPath::Machine(draft.temporary.clone()));
    sums::begin(target);
    let done = fill(&draft).and_then(|sums| {
        let _undisturbed = input.ended();
        // First: at no time are there checksums of other bytes.
        sums::remove_beside(target).map_err(of_sums)?;
        let renamed = match overwrites {
            true => fs::rename(&draft.temporary, target),
            false => rename_new(&draft.temporary, target),
        };
        renamed.map_err(|error| draft.fail(&error))?;
        sums.map_or(Ok(()), |sums| sums.write_beside(target)).map_err(of_sums)
    });
    if done.is_err() {
        // The file may not exist; the user must see the original failure.
        let _ = fs::remove_file(&draft.temporary);
    }
    drop(guard);
    done
}

/// What went wrong with a checksum file.
pub(super) fn of_sums((path, error): (PathBuf, io::Error)) -> Failure {
    Failure::local(path, &error)
}

/// Owner and group, if this machine knows both names, and the permission bits.
pub(super) fn set_owner_and_mode(path: &Path, status: &FileStatus) -> io::Result<()> {
    if let Some(ids) = users::user_id(&status.owner).zip(users::group_id(&status.group)) {
        let has = fs::metadata(path)?;
        if (has.uid(), has.gid()) != ids {
            chown(path, Some(ids.0), Some(ids.1))?;
        }
    }
    fs::set_permissions(path, Permissions::from_mode(u32::from(status.mode) & MODE_MASK))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_failure_names_the_target() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        let fails = |fill: fn(&Draft<'_>) -> Result<Option<Checksums>, Failure>| {
            publish(false, &target, Input::Stored, fill).unwrap_err().to_string()
        };
        let full = fails(|draft| {
            draft.create()?.write_all(b"x").map_err(|error| draft.fail(&error))?;
            // As on a disk that is full.
            Err(draft.fail(&io::ErrorKind::StorageFull.into()))
        });
        assert_eq!(full, format!("`{}': No space left on device", target.display()));
        let nothing = fails(|_| Ok(None));
        assert_eq!(nothing, format!("`{}': No such file or directory", target.display()));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let nowhere = directory.path().join("none/target");
        let begun = publish(true, &nowhere, Input::Stored, |draft| draft.create().map(|_| None));
        let expected = format!("`{}': No such file or directory", nowhere.display());
        assert_eq!(begun.unwrap_err().to_string(), expected);
    }

    #[test]
    fn checksums_are_those_of_the_file_or_none() {
        let directory = tempfile::tempdir().unwrap();
        let (target, sums) = (directory.path().join("f"), directory.path().join(".f.crc"));
        let write = |with_sums: bool| {
            publish(true, &target, Input::Stored, |draft| {
                draft.create()?;
                Ok(with_sums.then(Checksums::default))
            })
            .unwrap();
        };
        write(true);
        assert_eq!(fs::read(&sums).unwrap().len(), 8);
        write(false);
        assert!(!sums.try_exists().unwrap());
    }
}

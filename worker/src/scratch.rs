//! Directories that tasks may change and that need not survive a crash. They are held by their descriptors, because a task can move their
//! names at any moment.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sys::beneath::Dir;
use sys::sandbox::User;

/// A directory: open, and with the path that tasks know. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct OpenDir {
    /// For this worker's own use.
    pub(crate) dir: Arc<Dir>,
    /// For messages to others.
    pub(crate) path: PathBuf,
}

impl OpenDir {
    /// Opens a directory that no task can move.
    pub(crate) fn open(path: &Path) -> io::Result<OpenDir> {
        Ok(OpenDir { dir: Arc::new(Dir::open(path)?), path: path.to_owned() })
    }

    /// The directory of this name in it, created if missing.
    pub(crate) fn ensure(&self, name: impl AsRef<OsStr>) -> io::Result<OpenDir> {
        let dir = self.dir.ensure_dir(name.as_ref())?;
        Ok(OpenDir { dir: Arc::new(dir), path: self.path.join(name.as_ref()) })
    }

    /// A new directory in it; removes what had the name.
    pub(crate) fn fresh(&self, name: impl AsRef<OsStr>) -> io::Result<OpenDir> {
        let dir = self.dir.fresh_dir(name.as_ref())?;
        Ok(OpenDir { dir: Arc::new(dir), path: self.path.join(name.as_ref()) })
    }

    /// As [`OpenDir::fresh`], but owned by a user. It must be in a place where that user cannot have put another directory.
    pub(crate) fn fresh_of(
        &self,
        name: impl AsRef<OsStr>,
        user: Option<User>,
    ) -> io::Result<OpenDir> {
        let place = self.fresh(name)?;
        user.map_or(Ok(()), |user| place.dir.give_to(user))?;
        Ok(place)
    }

    /// Removes an entry and all below it. What cannot be removed now is deleted with its parent.
    pub(crate) fn remove(&self, name: &str) {
        if let Err(error) = self.dir.remove(name) {
            let path = self.path.join(name);
            tracing::warn!(path = %path.display(), %error, "cannot delete files of a job");
        }
    }
}

/// The message for a task whose directory cannot be used; for a full disk it names the remedy.
pub(crate) fn failure(action: &str, path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free space there, or give the worker a `data` directory on a larger disk"
        }
        _ => "",
    };
    format!("cannot {action} {}: {error}{remedy}", path.display())
}

/// `None` if the entry is gone.
pub(crate) fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

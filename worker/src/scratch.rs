//! Directories that tasks may change, and need not survive a crash: held by their descriptors, as their names may be anything's by the next moment.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sys::beneath::Dir;
use sys::sandbox::User;

/// A directory: open, and with the path that tasks know it by. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// What this worker uses.
    pub(crate) dir: Arc<Dir>,
    /// What others are told.
    pub(crate) path: PathBuf,
}

impl Place {
    /// Opens a directory that no task can move.
    pub(crate) fn open(path: &Path) -> io::Result<Place> {
        Ok(Place { dir: Arc::new(Dir::open(path)?), path: path.to_owned() })
    }

    /// The directory of that name in it, made if it is missing.
    pub(crate) fn ensure(&self, name: impl AsRef<OsStr>) -> io::Result<Place> {
        let dir = self.dir.ensure_dir(name.as_ref())?;
        Ok(Place { dir: Arc::new(dir), path: self.path.join(name.as_ref()) })
    }

    /// A new directory in it; what had the name is removed.
    pub(crate) fn fresh(&self, name: impl AsRef<OsStr>) -> io::Result<Place> {
        let dir = self.dir.fresh_dir(name.as_ref())?;
        Ok(Place { dir: Arc::new(dir), path: self.path.join(name.as_ref()) })
    }

    /// As [`Place::fresh`], given to a user; it lies where that user cannot have put another directory into its place.
    pub(crate) fn fresh_of(
        &self,
        name: impl AsRef<OsStr>,
        user: Option<User>,
    ) -> io::Result<Place> {
        let place = self.fresh(name)?;
        user.map_or(Ok(()), |user| place.dir.give_to(user))?;
        Ok(place)
    }

    /// Removes what has a name in it. What cannot be removed now goes with what is around it.
    pub(crate) fn remove(&self, name: &str) {
        if let Err(error) = self.dir.remove(name) {
            let path = self.path.join(name);
            tracing::warn!(path = %path.display(), %error, "cannot delete files of a job");
        }
    }
}

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

/// `None` where what was looked at is gone.
pub(crate) fn unless_gone<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        looked => looked.map(Some),
    }
}

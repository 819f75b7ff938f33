//! Where a journal's parts are, and which of these places do not work.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{JournalError, chain as error_chain};
use crate::store::KvPlace;

/// Where a journal's parts are, and its limits; the part of the options that recovery needs.
#[derive(Clone)]
pub(crate) struct Places {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) kv: Arc<dyn KvPlace>,
    pub(crate) dir: PathBuf,
    pub(crate) mirrors: Vec<PathBuf>,
    /// Random: distinguishes this start from every other one with the same epoch.
    pub(crate) nonce: u64,
    /// Seconds since 1970. The epoch is at least that: a journal that comes back from a backup has forgotten later starts, which others have obeyed, and its next
    /// start must come after all of them.
    pub(crate) epoch_min: u64,
    pub(crate) segment_bytes_max: u64,
    pub(crate) section_bytes: usize,
}

impl Places {
    /// All directories, the first one first.
    pub(crate) fn homes(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.dir).chain(&self.mirrors)
    }
}

/// A mirror that does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The directory.
    pub dir: PathBuf,
    /// What went wrong, in one line.
    pub reason: String,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.dir.display(), self.reason)
    }
}

/// Notes that a mirror failed.
///
/// # Errors
/// The failure, if it is the first directory's or one that a person has to decide on.
pub(crate) fn leave_out(
    places: &Places,
    dir: &Path,
    error: JournalError,
    left_out: &mut Vec<LeftOut>,
) -> Result<(), JournalError> {
    if dir == places.dir || matches!(error, JournalError::Foreign { .. }) {
        return Err(error);
    }
    left_out.push(LeftOut { dir: dir.to_owned(), reason: error_chain(&error) });
    Ok(())
}

//! Free space on the journal's disks: a full one would end the JobTracker and all its jobs, so new jobs are refused while there is some
//! left.

use std::path::{Path, PathBuf};

use protocol::{ErrorKind, RemoteError};

/// What a submission needs on the disks.
pub(crate) struct Room {
    directories: Vec<PathBuf>,
    free_space_min: u64,
}

impl Room {
    pub(crate) fn new(directories: Vec<PathBuf>, free_space_min: u64) -> Self {
        Room { directories, free_space_min }
    }

    /// Refuses a new job if a disk is nearly full. Checked per submission, because these are rare.
    pub(crate) fn check(&self) -> Result<(), RemoteError> {
        self.directories.iter().try_for_each(|directory| self.check_one(directory))
    }

    fn check_one(&self, directory: &Path) -> Result<(), RemoteError> {
        let available = match sys::fs::space(directory) {
            Ok(space) => space.available,
            Err(error) => {
                tracing::warn!(%error, "cannot tell the free space of the journal's disk");
                return Ok(());
            }
        };
        if available >= self.free_space_min {
            return Ok(());
        }
        tracing::error!(available, "the journal's disk is nearly full: new jobs are refused");
        let (directory, min) = (directory.display(), self.free_space_min);
        let text = format!(
            "The JobTracker takes no new jobs: {available} bytes are free in {directory}, and it keeps {min} (free_space_min). Free space there and submit again."
        );
        Err(RemoteError::new(ErrorKind::Storage, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_refused_while_the_disk_is_nearly_full() {
        let directory = tempfile::tempdir().unwrap();
        // The free space of a disk that is gone is unknown; the next one is checked all the same.
        let directories = vec![directory.path().join("gone"), directory.path().to_owned()];
        Room::new(directories.clone(), 0).check().unwrap();
        let refusal = Room::new(directories, u64::MAX).check().unwrap_err();
        assert_eq!(refusal.kind, ErrorKind::Storage);
        let place = format!("free in {},", directory.path().display());
        assert!(refusal.message.contains(&place), "{}", refusal.message);
    }
}

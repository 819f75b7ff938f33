//! Snapshots of directories. They are read under `<directory>/.snapshot/<name>`.

use protocol::DfsPath;
use protocol::namenode::{
    DiffEntry, DiffPage, SnapshotPage, SnapshotStatus, SnapshottableDirectory, calls,
};

use super::client::DfsClient;
use super::error::DfsError;

impl DfsClient {
    /// Allows snapshots of a directory; for the superuser.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn allow_snapshot(&self, path: &DfsPath) -> Result<(), DfsError> {
        self.link.ask(calls::AllowSnapshot { path: path.clone() })
    }

    /// Disallows them again; refused while there are snapshots.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn disallow_snapshot(&self, path: &DfsPath) -> Result<(), DfsError> {
        self.link.ask(calls::DisallowSnapshot { path: path.clone() })
    }

    /// Takes a snapshot and returns its path; without a name, it is named after the time.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn create_snapshot(&self, path: &DfsPath, name: Option<&str>) -> Result<DfsPath, DfsError> {
        let name = name.map(str::to_owned);
        self.link.ask(calls::CreateSnapshot { path: path.clone(), name })
    }

    /// Renames a snapshot.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn rename_snapshot(&self, path: &DfsPath, from: &str, to: &str) -> Result<(), DfsError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.link.ask(calls::RenameSnapshot { path: path.clone(), from, to })
    }

    /// Deletes a snapshot.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn delete_snapshot(&self, path: &DfsPath, name: &str) -> Result<(), DfsError> {
        self.link.ask(calls::DeleteSnapshot { path: path.clone(), name: name.to_owned() })
    }

    /// The snapshots of a directory by age, each with its number.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn snapshots(&self, path: &DfsPath) -> Result<Vec<SnapshotStatus>, DfsError> {
        let mut all: Vec<SnapshotStatus> = Vec::new();
        loop {
            let after = all.last().map(|snapshot| snapshot.number);
            let SnapshotPage { entries, remaining } =
                self.link.ask(calls::Snapshots { path: path.clone(), after })?;
            let is_last = remaining == 0 || entries.is_empty();
            all.extend(entries);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// What changed between two snapshots of a directory; an empty name stands for the present.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn snapshot_diff(
        &self,
        path: &DfsPath,
        from: &str,
        to: &str,
    ) -> Result<Vec<DiffEntry>, DfsError> {
        let mut all: Vec<DiffEntry> = Vec::new();
        loop {
            let (from, to, skip) = (from.to_owned(), to.to_owned(), all.len() as u64);
            let call = calls::SnapshotDiff { path: path.clone(), from, to, skip };
            let DiffPage { entries, remaining } = self.link.ask(call)?;
            let is_last = remaining == 0 || entries.is_empty();
            all.extend(entries);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Directories that may have snapshots.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn snapshottable_directories(&self) -> Result<Vec<SnapshottableDirectory>, DfsError> {
        self.link.ask(calls::SnapshottableDirectories)
    }
}

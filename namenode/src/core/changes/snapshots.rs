//! Taking, naming and deleting snapshots, and what they forbid. What they keep is in `snapshots`.

use protocol::namenode::DOT_SNAPSHOT;
use protocol::path::ELEMENT_BYTES_MAX;
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use super::planner::{Planned, Planner};
use crate::core::edit::{Edit, Outcome};
use crate::core::inodes::Root;
use crate::core::rights::Needs;
use crate::core::snapshots::{SNAPSHOTS_MAX, split};
use crate::error::refuse;

impl Planner<'_> {
    /// A directory of the caller's own that may have snapshots.
    fn snapshottable(&self, path: &DfsPath) -> Result<(InodeId, &Root), RemoteError> {
        let id = self.directory(path, Needs { ownership: true, ..Needs::default() })?;
        match self.state.ns.history.roots.get(&id) {
            Some(root) => Ok((id, root)),
            None => Err(not_snapshottable(path)),
        }
    }

    pub(super) fn allow_snapshot(&mut self, path: &DfsPath) -> Planned {
        let id = self.directory(path, Needs::default())?;
        let ns = &self.state.ns;
        if ns.history.roots.contains_key(&id) {
            return Ok(Outcome::Done);
        }
        for root in ns.history.roots.keys() {
            let (relation, nested) = match () {
                () if ns.is_within(*root, id) => ("subdirectory", true),
                () => ("ancestor", ns.is_within(id, *root)),
            };
            if nested {
                let other = ns.path_of(*root).unwrap_or_default();
                let text = format!(
                    "Nested snapshottable directories not allowed: path={path}, the {relation} {other} is already a snapshottable directory."
                );
                return Err(refuse(ErrorKind::Snapshot, text));
            }
        }
        self.edits.push(Edit::AllowSnapshot { directory: id });
        Ok(Outcome::Done)
    }

    pub(super) fn disallow_snapshot(&mut self, path: &DfsPath) -> Planned {
        let id = self.directory(path, Needs::default())?;
        let Some(root) = self.state.ns.history.roots.get(&id) else { return Ok(Outcome::Done) };
        if !root.snapshots.is_empty() {
            let text = format!(
                "The directory {path} has snapshot(s). Please redo the operation after removing all the snapshots."
            );
            return Err(refuse(ErrorKind::Snapshot, text));
        }
        self.edits.push(Edit::DisallowSnapshot { directory: id });
        Ok(Outcome::Done)
    }

    pub(super) fn create_snapshot(&mut self, path: &DfsPath, name: Option<&str>) -> Planned {
        let (id, root) = self.snapshottable(path)?;
        let name = match name.filter(|name| !name.is_empty()) {
            Some(name) => name.to_owned(),
            None => default_name(self.now.wall_ms),
        };
        check_snapshot_name(path, &name)?;
        if root.names.contains_key(&name) {
            let text = format!(
                "Failed to add snapshot: there is already a snapshot with the same name \"{name}\"."
            );
            return Err(refuse(ErrorKind::Snapshot, text));
        }
        let count = root.snapshots.len();
        if count >= SNAPSHOTS_MAX {
            let text = format!(
                "Failed to add snapshot: there are already {count} snapshot(s) and the snapshot quota is {SNAPSHOTS_MAX}"
            );
            return Err(refuse(ErrorKind::Snapshot, text));
        }
        let at = path
            .join(&format!("{DOT_SNAPSHOT}/{name}"))
            .map_err(|error| refuse(ErrorKind::InvalidArgument, error.to_string()))?;
        self.edits.push(Edit::CreateSnapshot { directory: id, name, at_ms: self.now.wall_ms });
        Ok(Outcome::Path(at))
    }

    pub(super) fn rename_snapshot(&mut self, path: &DfsPath, from: &str, to: &str) -> Planned {
        let (id, root) = self.snapshottable(path)?;
        check_snapshot_name(path, to)?;
        if !root.names.contains_key(from) {
            let text = format!("The snapshot {from} does not exist for directory {path}");
            return Err(refuse(ErrorKind::Snapshot, text));
        }
        if from == to {
            return Ok(Outcome::Done);
        }
        if root.names.contains_key(to) {
            let text = format!("The snapshot {to} already exists for directory {path}");
            return Err(refuse(ErrorKind::Snapshot, text));
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        self.edits.push(Edit::RenameSnapshot { directory: id, from, to, at_ms: self.now.wall_ms });
        Ok(Outcome::Done)
    }

    pub(super) fn delete_snapshot(&mut self, path: &DfsPath, name: &str) -> Planned {
        let (id, root) = self.snapshottable(path)?;
        if !root.names.contains_key(name) {
            let text = format!(
                "Cannot delete snapshot {name} from path {path}: the snapshot does not exist."
            );
            return Err(refuse(ErrorKind::Snapshot, text));
        }
        let name = name.to_owned();
        self.edits.push(Edit::DeleteSnapshot { directory: id, name, at_ms: self.now.wall_ms });
        Ok(Outcome::Done)
    }

    /// Refuses what snapshots forbid, for every call.
    pub(super) fn check_snapshots(&self) -> Result<(), RemoteError> {
        let ns = &self.state.ns;
        let roots = &ns.history.roots;
        for edit in &self.edits {
            match edit {
                Edit::MakeDirectory { name, .. }
                | Edit::MakeFile { name, .. }
                | Edit::Move { name, .. }
                    if name == DOT_SNAPSHOT =>
                {
                    return Err(refuse(ErrorKind::InvalidArgument, RESERVED));
                }
                Edit::Delete { inode, .. } => self.check_without_snapshots(*inode)?,
                Edit::Concat { sources, .. } => {
                    if let Some(source) = sources.iter().find(|source| ns.is_kept(**source)) {
                        let path = ns.path_of(*source).unwrap_or_default();
                        let text = format!("Concat: the source file {path} is in snapshot");
                        return Err(refuse(ErrorKind::Snapshot, text));
                    }
                }
                Edit::Move { inode, parent, .. } => {
                    self.check_without_snapshots(*inode)?;
                    let moved = roots.keys().find(|id| ns.is_within(**id, *inode));
                    let above = roots.keys().any(|id| ns.is_within(*parent, *id));
                    if moved.is_some() && above {
                        let (from, to) = (ns.path_of(*inode), ns.path_of(*parent));
                        let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
                        let text = format!(
                            "Unable to rename because {from} has snapshottable descendant directories and {to} is a descent of a snapshottable directory, and HDFS does not support nested snapshottable directory."
                        );
                        return Err(refuse(ErrorKind::Snapshot, text));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A tree with a directory that has snapshots is neither deleted nor renamed: they are found by its path.
    fn check_without_snapshots(&self, top: InodeId) -> Result<(), RemoteError> {
        let ns = &self.state.ns;
        let mut with = ns.history.roots.iter().filter(|(_, root)| !root.snapshots.is_empty());
        let Some((id, _)) = with.find(|(id, _)| ns.is_within(**id, top)) else { return Ok(()) };
        let path = ns.path_of(*id).unwrap_or_default();
        let text = format!(
            "The directory {path} cannot be deleted since {path} is snapshottable and already has snapshots"
        );
        Err(refuse(ErrorKind::Snapshot, text))
    }

    /// Refuses a change of what snapshots hold. Where there are none, their name is only reserved.
    pub(super) fn check_writable(&self, path: &DfsPath) -> Result<(), RemoteError> {
        let Some((above, _)) = split(path) else { return Ok(()) };
        let ns = &self.state.ns;
        match ns.resolve(&above) {
            Ok(found) if ns.history.roots.contains_key(&found.id) => Err(refuse(
                ErrorKind::ReadOnlySnapshot,
                "Modification on a read-only snapshot is disallowed",
            )),
            _ => Ok(()),
        }
    }
}

const RESERVED: &str = "\".snapshot\" is a reserved name.";

fn not_snapshottable(path: &DfsPath) -> RemoteError {
    let text = format!("Directory is not a snapshottable directory: {path}");
    refuse(ErrorKind::Snapshot, text)
}

fn check_snapshot_name(path: &DfsPath, name: &str) -> Result<(), RemoteError> {
    if name.len() > ELEMENT_BYTES_MAX {
        let length = name.len();
        let text = format!(
            "The maximum path component name limit of {name} in directory {path} is exceeded: limit={ELEMENT_BYTES_MAX} length={length}"
        );
        return Err(refuse(ErrorKind::NameTooLong, text));
    }
    if name == DOT_SNAPSHOT || protocol::path::check_element(name).is_err() {
        let text = format!("Invalid path name Invalid snapshot name: {name}");
        return Err(refuse(ErrorKind::InvalidName, text));
    }
    Ok(())
}

/// HDFS's default name of a snapshot: `s20261120-225959.123`, in UTC.
fn default_name(wall_ms: u64) -> String {
    let (seconds, ms) = (wall_ms / 1000, wall_ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 1970 to a date of the Gregorian calendar, counted from March 1 of the year 0.
    let day = days + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let date = day_of_year - (153 * march_month + 2) / 5 + 1;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("s{year:04}{month:02}{date:02}-{hour:02}{minute:02}{:02}.{ms:03}", second % 60)
}

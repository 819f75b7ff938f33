//! A daemon's claim on its own directory.
//!
//! Invariants: a claim is given only on a directory that this kind of daemon made, or that is empty: whatever else a configuration names by mistake is
//! refused before anything is written there. Of several processes, one has it. So who holds a [`Claim`] may remove what lies under the names of its [`Owner`].

use std::io;
use std::path::{Path, PathBuf};

use super::{LOCK_FILE, LockError, LockFile, create_private_dir};
use crate::disk;

/// What a file system makes in its own top directory.
const OF_THE_SYSTEM: &str = "lost+found";

/// A kind of daemon, and what it makes in its directory.
#[derive(Debug)]
pub struct Owner {
    /// As messages call it.
    pub name: &'static str,
    /// The file that tells that the directory is its own.
    pub mark: &'static str,
    /// The directories that it makes there.
    pub folders: &'static [&'static str],
    /// The files that may be there without the mark, beside the lock.
    pub files: &'static [&'static str],
    /// True if an earlier version made no mark: then the lock, and nothing but these names, tell that it is its own. Otherwise the mark comes before the first
    /// file, so the folders of a directory without it are empty.
    pub was_unmarked: bool,
}

/// Why a directory is not claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Somebody else has made it.
    #[error(
        "{} is no directory of a {owner}: {stranger} is in it; name a new or empty directory, for a {owner} deletes files in its own",
        directory.display()
    )]
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// The kind of daemon.
        owner: &'static str,
        /// What is there.
        stranger: String,
    },
    /// It may be its own, but nothing tells so.
    #[error("{} holds files in {folder}, but its {mark} file is missing: put that back, or name a new directory", directory.display())]
    Unmarked {
        /// The directory.
        directory: PathBuf,
        /// The file that is missing.
        mark: &'static str,
        /// A folder that is not empty.
        folder: &'static str,
    },
    /// Another process has it, or it cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It cannot be made or read.
    #[error("cannot use {}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// A directory of this process alone. Released when dropped, or when the process ends in any way.
#[derive(Debug)]
pub struct Claim {
    _lock: LockFile,
    is_marked: bool,
}

impl Claim {
    /// Claims a directory for a daemon; makes it if it is missing. What is not the daemon's stays as it is, without even a lock.
    ///
    /// # Errors
    /// [`ClaimError`]
    pub fn take(directory: &Path, owner: &Owner) -> Result<Claim, ClaimError> {
        let io_error = |path: &Path, source| ClaimError::Io { path: path.to_owned(), source };
        create_private_dir(directory).map_err(|error| io_error(directory, error))?;
        let mark = directory.join(owner.mark);
        let is_marked = disk::is_file(&mark).map_err(|error| io_error(&mark, error))?;
        if !is_marked {
            check(directory, owner)?;
        }
        Ok(Claim { _lock: LockFile::of_directory(directory)?, is_marked })
    }

    /// False if the mark was missing: the daemon makes it now.
    pub fn is_marked(&self) -> bool {
        self.is_marked
    }
}

/// Refuses a directory without a mark that is not certainly the owner's, or nobody's.
fn check(directory: &Path, owner: &Owner) -> Result<(), ClaimError> {
    let listed = |path: &Path| {
        let entries = disk::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<PathBuf>>>);
        entries.map_err(|source| ClaimError::Io { path: path.to_owned(), source })
    };
    let foreign = |stranger: &Path| ClaimError::Foreign {
        directory: directory.to_owned(),
        owner: owner.name,
        stranger: stranger.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let is_unfinished = |name: &str| name.starts_with(&format!(".{}.", owner.mark));
    let (mut folders, mut is_locked) = (Vec::new(), false);
    for path in listed(directory)? {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| foreign(&path))?;
        match name {
            LOCK_FILE => is_locked = true,
            OF_THE_SYSTEM => {}
            _ if owner.files.contains(&name) || is_unfinished(name) => {}
            _ => match owner.folders.iter().find(|known| **known == name) {
                Some(folder) => folders.push((*folder, path)),
                None => return Err(foreign(&path)),
            },
        }
    }
    if owner.was_unmarked && is_locked {
        return Ok(());
    }
    for (folder, path) in folders {
        let is_dir = disk::is_dir(&path);
        if !is_dir.map_err(|source| ClaimError::Io { path: path.clone(), source })? {
            return Err(foreign(&path));
        }
        if !listed(&path)?.is_empty() {
            return Err(match owner.was_unmarked {
                true => foreign(&path),
                false => ClaimError::Unmarked {
                    directory: directory.to_owned(),
                    mark: owner.mark,
                    folder,
                },
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MARKED: Owner = Owner {
        name: "keeper",
        mark: "MARK",
        folders: &["tmp", "kept"],
        files: &[".probe"],
        was_unmarked: false,
    };
    const OLD: Owner = Owner { was_unmarked: true, ..MARKED };

    /// What a claim says of a directory with these files, and directories (`/` at the end).
    fn claimed(owner: &Owner, entries: &[&str]) -> Result<bool, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        fs::create_dir(&path).unwrap();
        for entry in entries {
            let entry = path.join(entry);
            fs::create_dir_all(entry.parent().unwrap()).unwrap();
            match entry.to_str().unwrap().ends_with('/') {
                true => fs::create_dir_all(&entry).unwrap(),
                false => fs::write(&entry, "").unwrap(),
            }
        }
        let taken = Claim::take(&path, owner);
        let has_lock = path.join("lock").is_file();
        assert_eq!(has_lock, taken.is_ok() || entries.contains(&"lock"), "{entries:?}");
        taken.map(|claim| claim.is_marked()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_daemon_has_what_it_made_and_what_nobody_made() {
        for owner in [&MARKED, &OLD] {
            assert_eq!(claimed(owner, &[]), Ok(false));
            assert_eq!(claimed(owner, &["lost+found/"]), Ok(false));
            assert_eq!(claimed(owner, &["MARK", "tmp/a", "anything"]), Ok(true));
            // It ended before it made its mark.
            assert_eq!(claimed(owner, &["lock", "tmp/", "kept/", ".MARK.tmp"]), Ok(false));
        }
        assert_eq!(claimed(&OLD, &["lock", "tmp/a", "kept/b/c"]), Ok(false));
    }

    #[test]
    fn what_somebody_else_made_is_refused_by_name() {
        for (owner, entries, part) in [
            (&MARKED, &["tmp/a"][..], "holds files in tmp, but its MARK file is missing"),
            (&MARKED, &["lock", "kept/a"], "holds files in kept, but its MARK file is missing"),
            (&MARKED, &["tmp/", "thesis.tex"], "is no directory of a keeper: thesis.tex is in it"),
            (&MARKED, &["tmp"], "tmp is in it"),
            (&OLD, &["tmp/a"], "tmp is in it"),
            (&OLD, &["lock", "tmp/a", "thesis.tex"], "thesis.tex is in it"),
            (&OLD, &["MARK/a"], "MARK is in it"),
        ] {
            let text = claimed(owner, entries).unwrap_err();
            assert!(text.contains(part), "{entries:?}: {text}");
        }
    }

    #[test]
    fn one_process_has_a_claim() {
        let directory = tempfile::tempdir().unwrap();
        let claim = Claim::take(directory.path(), &OLD).unwrap();
        let text = Claim::take(directory.path(), &OLD).unwrap_err().to_string();
        assert!(text.contains("is in use by process"), "{text}");
        drop(claim);
        assert!(Claim::take(directory.path(), &OLD).is_ok());
    }
}

//! Trees of this machine as users see them. Links are followed, as in Hadoop's local file system: one that leads nowhere is no entry, and no directory is entered
//! below itself. Whoever deletes sees links as they are ([`list_unfollowed`]).

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Entries of a directory in byte order of names, each as what a link leads to; without those that lead nowhere. The path of the directory is one without
/// `..`.
///
/// # Errors
/// "Too many levels of symbolic links" (`ELOOP`) for a directory that its own path has passed already; else the system's error.
pub fn list(directory: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    if is_below_itself(directory)? {
        return Err(Errno::LOOP.into());
    }
    entries(directory, |path| fs::metadata(path))
}

/// Entries of a directory in byte order of names, each as itself: a link is neither a file nor a directory.
///
/// # Errors
/// The system's error.
pub fn list_unfollowed(directory: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    entries(directory, |path| fs::symlink_metadata(path))
}

fn entries(
    directory: &Path,
    look: fn(&Path) -> io::Result<Metadata>,
) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        match look(&path) {
            Ok(metadata) => entries.push((path, metadata)),
            // Deleted since, or a link to nothing or to itself.
            Err(error) if is_missing(&error) || is_ring(&error) => {}
            Err(error) => return Err(error),
        }
    }
    entries.sort_by(|(left, _), (right, _)| left.file_name().cmp(&right.file_name()));
    Ok(entries)
}

/// True if there is nothing at the path.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn is_ring(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// True if a directory is one of those that lead to it: without this, two links to the directory that they are in double a walk with each level.
fn is_below_itself(directory: &Path) -> io::Result<bool> {
    let identity = |it: &Metadata| (it.dev(), it.ino());
    let here = identity(&fs::metadata(directory)?);
    let path = std::path::absolute(directory)?;
    let mut above = path.ancestors().skip(1);
    Ok(above.any(|above| fs::metadata(above).is_ok_and(|it| identity(&it) == here)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_but_no_directory_is_entered_below_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        for name in ["one", "two"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("one/f"), "1").unwrap();
        for (to, at) in
            [("../two", "one/x"), ("../one", "two/y"), ("nowhere", "one/z"), (".", "one/here")]
        {
            symlink(to, path(at)).unwrap();
        }
        symlink("ring", path("one/ring")).unwrap();
        let names = |at: &str| -> io::Result<Vec<String>> {
            let entries = list(&path(at))?.into_iter();
            Ok(entries
                .map(|(path, _)| path.file_name().unwrap().to_str().unwrap().into())
                .collect())
        };
        assert_eq!(names("one").unwrap(), ["f", "here", "x"]);
        assert_eq!(names("one/x").unwrap(), ["y"]);
        for again in ["one/here", "one/x/y", "two/y/x"] {
            let error = names(again).unwrap_err();
            assert!(is_ring(&error), "{again}: {error}");
        }
        let kinds = list_unfollowed(&path("one")).unwrap();
        assert_eq!(kinds.len(), 5);
        assert!(kinds.iter().all(|(_, it)| it.is_symlink() || it.len() == 1));
    }
}

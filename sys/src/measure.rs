//! Measures a directory whose content somebody else may change at any time, and may want to hide.
//!
//! Invariants: nothing outside is measured, as every step starts from an open directory and follows no link. A directory whose mode shuts out its owner is read
//! nevertheless, and gets its mode back afterwards. What cannot be read is an error, never nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, chmod, fchmod, fstat, openat, statat,
};
use rustix::io::Errno;

/// Deepest nesting of directories. Each level takes a descriptor; no honest tree comes near.
const DEPTH_MAX: usize = 256;
/// Bytes of a block as `stat` counts them, whatever the block size of the file system.
const STAT_BLOCK_BYTES: u64 = 512;
/// The mode bits that let an owner list and enter a directory.
const LIST_AND_ENTER: Mode = Mode::RUSR.union(Mode::XUSR);
/// Attempts to open a directory whose owner changes its mode meanwhile.
const OPENINGS_MAX: u32 = 8;

/// The content of a directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Measured {
    /// Bytes on disk of each entry, including everything below it.
    pub entries: BTreeMap<OsString, u64>,
}

impl Measured {
    /// Bytes on disk of all entries.
    pub fn bytes(&self) -> u64 {
        self.entries.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// A directory still to be read: its open parent, its name there, the entry that it belongs to, its depth.
type Pending = (Rc<Opened>, CString, OsString, usize);

/// Measures what lies below `root`, a path that nobody else can change. A file with several names counts once; one that disappears meanwhile does not count. A
/// missing directory holds nothing.
///
/// # Errors
/// If a directory cannot be read; [`io::ErrorKind::InvalidData`] if directories nest more than 256 deep.
pub fn measure(root: &Path) -> io::Result<Measured> {
    let mut walk =
        Walk { measured: Measured::default(), counted: BTreeSet::new(), left: Vec::new() };
    let root = CString::new(root.as_os_str().as_bytes())?;
    let Some(root) = open(CWD, &root)? else { return Ok(walk.measured) };
    walk.enter(&Rc::new(root), None, 0)?;
    while let Some((parent, name, top, depth)) = walk.left.pop() {
        if depth > DEPTH_MAX {
            let text = format!("more than {DEPTH_MAX} directories lie within each other");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if let Some(directory) = open(parent.descriptor.as_fd(), &name)? {
            walk.enter(&Rc::new(directory), Some(&top), depth)?;
        }
    }
    Ok(walk.measured)
}

struct Walk {
    measured: Measured,
    /// Files with several names that are already counted.
    counted: BTreeSet<(u64, u64)>,
    left: Vec<Pending>,
}

impl Walk {
    fn enter(
        &mut self,
        directory: &Rc<Opened>,
        top: Option<&OsString>,
        depth: usize,
    ) -> io::Result<()> {
        for entry in Dir::read_from(&directory.descriptor)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match statat(&directory.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let bytes = self.bytes(&stat, is_directory);
            let own = || OsString::from_vec(name.to_bytes().to_owned());
            let top = top.cloned().unwrap_or_else(own);
            if is_directory {
                self.left.push((Rc::clone(directory), name.to_owned(), top.clone(), depth + 1));
            }
            let sum = self.measured.entries.entry(top).or_default();
            *sum = sum.saturating_add(bytes);
        }
        Ok(())
    }

    fn bytes(&mut self, stat: &Stat, is_directory: bool) -> u64 {
        let has_names = stat.st_nlink > 1 && !is_directory;
        if has_names && !self.counted.insert((stat.st_dev, stat.st_ino)) {
            return 0;
        }
        u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(STAT_BLOCK_BYTES)
    }
}

/// An open directory that its owner can read, until this is dropped.
struct Opened {
    descriptor: OwnedFd,
    /// Its former mode, if that differed.
    mode: Option<Mode>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            // It may be deleted, or belong to another by now: it then does not have our mode.
            let _ = fchmod(&self.descriptor, mode);
        }
    }
}

/// Opens a directory and makes sure that its owner can read it; `None` if it is gone, or is another kind of file by now.
fn open(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<Opened>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..OPENINGS_MAX {
        let found = match openat(parent, name, flags | OFlags::PATH, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            found => found?,
        };
        let mode = Mode::from_raw_mode(fstat(&found)?.st_mode);
        let is_shut = !mode.contains(LIST_AND_ENTER);
        if is_shut {
            // This changes this very directory, whatever its name leads to by now.
            chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), mode | LIST_AND_ENTER)?;
        }
        match openat(&found, c".", flags | OFlags::RDONLY, Mode::empty()) {
            Ok(descriptor) => {
                return Ok(Some(Opened { descriptor, mode: is_shut.then_some(mode) }));
            }
            // Its mode was changed again.
            Err(Errno::ACCESS) => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Bytes free on the disk of a directory.
///
/// # Errors
/// The system's error.
pub fn available_bytes(directory: &Path) -> io::Result<u64> {
    Ok(crate::fs::space(directory)?.available)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn bytes(root: &Path) -> u64 {
        measure(root).unwrap().bytes()
    }

    fn shut(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn bytes_are_those_of_all_files_below_and_nowhere_else() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("large"), vec![7; 1 << 20]).unwrap();
        let deep = root.path().join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        let before = bytes(root.path());
        symlink(outside.path(), deep.join("link")).unwrap();
        fs::write(deep.join("file"), vec![7; 300_000]).unwrap();
        fs::hard_link(deep.join("file"), root.path().join("again")).unwrap();
        File::create(deep.join("holes")).unwrap().set_len(1 << 30).unwrap();
        let measured = measure(root.path()).unwrap();
        let used = measured.bytes() - before;
        assert!((300_000..400_000).contains(&used), "{used}");
        assert!(measured.entries.keys().eq(["a", "again"]));
        assert_eq!(bytes(&root.path().join("missing")), 0);
    }

    #[test]
    fn directories_that_shut_out_their_owner_count_and_stay_as_they_are() {
        let root = tempfile::tempdir().unwrap();
        let modes = [0o000, 0o100, 0o200, 0o400, 0o500, 0o600];
        for mode in modes {
            let directory = root.path().join(format!("{mode:o}/within"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("file"), vec![7; 100_000]).unwrap();
            shut(&directory, mode);
            shut(directory.parent().unwrap(), mode);
        }
        let used = bytes(root.path());
        assert!((600_000..900_000).contains(&used), "{used}");
        for mode in modes {
            let metadata = root.path().join(format!("{mode:o}")).metadata().unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode);
            shut(&root.path().join(format!("{mode:o}")), 0o700);
            shut(&root.path().join(format!("{mode:o}/within")), 0o700);
        }
    }

    #[test]
    fn a_tree_that_is_too_deep_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let mut deep = root.path().to_owned();
        (0..DEPTH_MAX + 2).for_each(|_| deep.push("d"));
        fs::create_dir_all(&deep).unwrap();
        let error = measure(root.path()).unwrap_err();
        assert!(error.to_string().contains("256 directories lie within each other"), "{error}");
    }
}

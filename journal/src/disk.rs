//! The seam to the file system under log and images: the few operations they need, each with its
//! contract, and the real one. Tests put a simulated disk in its place that loses what was not synced.
//!
//! Invariant of every user of this seam: nothing is believed to be on disk before `sync` of the file
//! *and* `sync_dir` of the directory that names it have returned without error.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{JournalError, disk};

/// File system operations.
pub(crate) trait Disk: Send + Sync {
    /// Makes a directory and its missing parents, for this user alone, and makes their names durable.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted; none if there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for reading from its start.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Creates a file, or empties an old one, for appending.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Makes a file consist of its first `from` bytes and `tail`, durably. Writes `tail` even if it seems to be there already. After a
    /// failed sync of an earlier process the cached bytes can look right, count as clean, and yet not be on the disk; a mere sync would do
    /// nothing.
    fn settle(&self, path: &Path, from: u64, tail: &[u8]) -> io::Result<()>;

    /// Renames within one directory, replacing `to`. Atomic, durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Durable after `sync_dir`.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// A file open for appending.
pub(crate) trait DiskFile: Send {
    /// Adds all of `bytes` after what was appended before, or fails; after a failure any part of them may be in the file.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes room for the next `bytes` that are appended: the file gets longer now, by zeros, so a sync after an append need not also write
    /// the file's new length. Does nothing if the disk has no room or the file system does not support it.
    fn reserve(&mut self, bytes: u64) -> io::Result<()>;

    /// Makes everything appended so far durable (`fdatasync`). Never called again after an error.
    fn sync(&mut self) -> io::Result<()>;
}

/// The operating system's file system.
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path.try_exists()? {
            return Ok(());
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        self.create_dir(parent)?;
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => self.sync_dir(parent),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut names = Vec::new();
        for entry in entries {
            // Names that are not UTF-8 are not ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        Ok(Box::new(RealFile { file, length: 0 }))
    }

    fn settle(&self, path: &Path, from: u64, tail: &[u8]) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(tail, from)?;
        file.set_len(from + tail.len() as u64)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        sys::fs::sync_dir(dir)
    }
}

struct RealFile {
    file: File,
    /// Bytes that were appended.
    length: u64,
}

impl DiskFile for RealFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        match sys::fs::allocate(&self.file, self.length, bytes) {
            Err(error)
                if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::StorageFull) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Makes `dir/name` appear with the contents that `write` gives it, all or nothing: temporary file, sync, rename, sync of the directory.
/// The returned file can still be appended to.
pub(crate) fn publish(
    disk_: &dyn Disk,
    dir: &Path,
    name: &str,
    write: impl FnOnce(&mut dyn DiskFile) -> io::Result<()>,
) -> Result<Box<dyn DiskFile>, JournalError> {
    let path = dir.join(name);
    let temporary = dir.join(format!("{name}{TEMPORARY_SUFFIX}"));
    let mut file = disk_.create(&temporary).map_err(disk("create", &temporary))?;
    write(&mut *file).map_err(disk("write", &temporary))?;
    file.sync().map_err(disk("sync", &temporary))?;
    disk_.rename(&temporary, &path).map_err(disk("rename a temporary file to", &path))?;
    disk_.sync_dir(dir).map_err(disk("sync directory", dir))?;
    Ok(file)
}

/// All bytes of a file.
pub(crate) fn read(disk_: &dyn Disk, path: &Path) -> Result<Vec<u8>, JournalError> {
    let mut bytes = Vec::new();
    let mut file = disk_.open(path).map_err(disk("open", path))?;
    file.read_to_end(&mut bytes).map_err(disk("read", path))?;
    Ok(bytes)
}

/// Removes the temporary files that an interrupted [`publish`] left in `dir`.
pub(crate) fn remove_temporaries(disk_: &dyn Disk, dir: &Path) -> Result<(), JournalError> {
    for name in disk_.list(dir).map_err(disk("list", dir))? {
        if name.ends_with(TEMPORARY_SUFFIX) {
            let path = dir.join(name);
            disk_.remove(&path).map_err(disk("remove", &path))?;
        }
    }
    Ok(())
}

/// Copies `dir/name` to the first free `dir/name.bad-<n>`, durably; the file itself stays. One that cannot be read is renamed.
pub(crate) fn keep_aside(
    disk_: &dyn Disk,
    dir: &Path,
    name: &str,
) -> Result<PathBuf, JournalError> {
    let Ok(bytes) = read(disk_, &dir.join(name)) else { return put_aside(disk_, dir, name) };
    let bad = free_bad_name(disk_, dir, name)?;
    publish(disk_, dir, &bad, |file| file.append(&bytes))?;
    Ok(dir.join(bad))
}

/// Renames `dir/name` to the first free `dir/name.bad-<n>`.
pub(crate) fn put_aside(disk_: &dyn Disk, dir: &Path, name: &str) -> Result<PathBuf, JournalError> {
    let bad = free_bad_name(disk_, dir, name)?;
    let (from, to) = (dir.join(name), dir.join(bad));
    disk_.rename(&from, &to).map_err(disk("put aside", &from))?;
    disk_.sync_dir(dir).map_err(disk("sync directory", dir))?;
    Ok(to)
}

fn free_bad_name(disk_: &dyn Disk, dir: &Path, name: &str) -> Result<String, JournalError> {
    let names = disk_.list(dir).map_err(disk("list", dir))?;
    Ok((1u32..)
        .map(|number| format!("{name}.bad-{number}"))
        .find(|bad| !names.contains(bad))
        .expect("a directory cannot hold four thousand million entries"))
}

const TEMPORARY_SUFFIX: &str = ".tmp";

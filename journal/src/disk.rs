//! The seam to the file system under log and images: the few operations they need, each with its
//! contract, and the real one. Tests put a simulated disk in its place that loses what was not synced.
//!
//! Invariant of every user of this seam: nothing is believed to be on disk before `sync` of the file
//! *and* `sync_dir` of the directory that names it have returned without error.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{JournalError, disk};
use crate::sector::SECTOR_BYTES;

/// File system operations.
pub(crate) trait Disk: Send + Sync {
    /// Makes a directory and its missing parents, for this user alone, and makes their names durable.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted; none if there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for reading from its start, or anywhere.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>>;

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

/// A file open for reading.
pub(crate) trait ReadFile: Read + Send {
    /// Its bytes.
    fn length(&self) -> io::Result<u64>;

    /// Fills `bytes` with what is at `at`.
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;
}

impl ReadFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, at)
    }
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

    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        // A FIFO or a device in its place is an error, and nobody waits for it or reads it to no end.
        Ok(Box::new(sys::fs::open_input(path)?))
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

/// What a disk returns of a file.
#[derive(Debug, Default)]
pub(crate) struct Salvaged {
    /// [`UNREAD_BYTE`] where nothing could be read; nothing at all if not even the file's length is known.
    pub(crate) bytes: Vec<u8>,
    /// What could not be read, in order.
    pub(crate) unread: Vec<Unread>,
}

/// A part of a file that its disk does not return.
#[derive(Clone, Debug)]
pub(crate) struct Unread {
    pub(crate) range: Range<u64>,
    /// What the system said first.
    pub(crate) error: Arc<io::Error>,
}

impl Salvaged {
    fn nothing(error: io::Error) -> Salvaged {
        let unread = vec![Unread { range: 0..u64::MAX, error: Arc::new(error) }];
        Salvaged { bytes: Vec::new(), unread }
    }

    /// True if nothing could be read.
    pub(crate) fn is_nothing(&self) -> bool {
        let [Unread { range, .. }] = &self.unread[..] else { return false };
        range.start == 0 && range.end >= self.bytes.len() as u64
    }

    /// Takes the next bytes of the file.
    fn add(&mut self, read: io::Result<()>, bytes: &[u8]) {
        let from = self.bytes.len() as u64;
        let to = from + bytes.len() as u64;
        match (read, self.unread.last_mut()) {
            (Ok(()), _) => return self.bytes.extend_from_slice(bytes),
            (Err(_), Some(last)) if last.range.end == from => last.range.end = to,
            (Err(error), _) => {
                self.unread.push(Unread { range: from..to, error: Arc::new(error) });
            }
        }
        self.bytes.resize(to as usize, UNREAD_BYTE);
    }
}

/// As much of a file as its disk returns, sector by sector. An error that passes leaves no trace: what failed once is read again.
///
/// # Errors
/// Only those that say nothing of the disk: the process or the machine lacks descriptors or memory.
pub(crate) fn salvage(disk_: &dyn Disk, path: &Path) -> Result<Salvaged, JournalError> {
    let mut bytes = Vec::new();
    match disk_.open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => return Ok(Salvaged { bytes, unread: Vec::new() }),
        Err(error) if sys::fs::is_shortage(&error) => return Err(disk("read", path)(error)),
        Err(_) => {}
    }
    // Before the first sector that fails.
    bytes.truncate(bytes.len() / SECTOR_BYTES * SECTOR_BYTES);
    let read_rest = || {
        let file = disk_.open(path)?;
        let length = file.length()?;
        let (mut out, mut failures) = (Salvaged { bytes, unread: Vec::new() }, 0);
        while (out.bytes.len() as u64) < length {
            let at = out.bytes.len() as u64;
            let mut sector = [0; SECTOR_BYTES];
            let sector = &mut sector[..(length - at).min(SECTOR_BYTES as u64) as usize];
            let read = match failures < FAILED_READS_MAX {
                true => file.read_exact_at(sector, at),
                false => Err(io::Error::other("too much before it cannot be read")),
            };
            if let Err(error) = &read {
                if sys::fs::is_shortage(error) {
                    return read.map(|()| out);
                }
                failures += 1;
            }
            out.add(read, sector);
        }
        Ok(out)
    };
    match read_rest() {
        Err(error) if sys::fs::is_shortage(&error) => Err(disk("read", path)(error)),
        Err(error) => Ok(Salvaged::nothing(error)),
        Ok(salvaged) => Ok(salvaged),
    }
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

/// Copies what can be read of `dir/name` to the first free `dir/name.bad-<n>`, durably; the file itself stays. One of which nothing can be read is renamed.
pub(crate) fn keep_aside(
    disk_: &dyn Disk,
    dir: &Path,
    name: &str,
) -> Result<PathBuf, JournalError> {
    let salvaged = salvage(disk_, &dir.join(name))?;
    if salvaged.is_nothing() {
        return put_aside(disk_, dir, name);
    }
    let bad = free_bad_name(disk_, dir, name)?;
    publish(disk_, dir, &bad, |file| file.append(&salvaged.bytes))?;
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

/// Stands for each byte that cannot be read. Not zero: zeros in a log are room in which nothing was ever written.
const UNREAD_BYTE: u8 = 0xff;

/// Reads of a file that may fail; what comes after them counts as unreadable, too. 256: more than a few bad places have, and a disk that takes seconds for
/// each keeps a start waiting for minutes, not for days.
const FAILED_READS_MAX: u32 = 256;

const TEMPORARY_SUFFIX: &str = ".tmp";

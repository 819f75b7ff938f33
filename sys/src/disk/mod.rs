//! The disk under data that must be durable: the operations on files and directories that such data needs, each with one name.
//!
//! Without the feature `sim` each is a call of the system's and nothing else. With it, paths below a disk of a `sim::Machine` belong to that machine; all
//! others are still the system's. Nothing but a test creates such a machine.
//!
//! Invariant of every user: nothing is believed to be on disk before a sync of the file *and* of the directory that names it have returned without error.

#[cfg(any(test, feature = "sim"))]
mod inode;
#[cfg(any(test, feature = "sim"))]
mod names;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
#[cfg(any(test, feature = "sim"))]
mod world;

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Does what follows on the simulated machine that has the path, if there is one.
macro_rules! on_machine {
    ($path:expr, $machine:ident => $what:expr) => {
        #[cfg(any(test, feature = "sim"))]
        if let Some($machine) = sim::machine_of($path) {
            return $what;
        }
    };
}

/// The same call on either kind of file.
macro_rules! on_either {
    ($file:expr, $either:ident => $what:expr) => {
        match &$file.0 {
            Backend::Real($either) => $what,
            Backend::Part(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
            #[cfg(any(test, feature = "sim"))]
            Backend::Simulated($either) => $what,
        }
    };
}

/// An open file, or an open directory.
#[derive(Debug)]
pub struct File(Backend);

#[derive(Debug)]
enum Backend {
    Real(fs::File),
    Part(Part),
    #[cfg(any(test, feature = "sim"))]
    Simulated(sim::Handle),
}

/// A range of a file, to read.
#[derive(Debug)]
struct Part {
    file: Arc<File>,
    range: Range<u64>,
}

impl Part {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let begin = self.range.start.saturating_add(offset);
        if begin.saturating_add(bytes.len() as u64) > self.range.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_exact_at(bytes, begin)
    }
}

impl From<fs::File> for File {
    fn from(file: fs::File) -> Self {
        File(Backend::Real(file))
    }
}

impl File {
    /// Opens a file for reading, or a directory to sync it.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(path: &Path) -> io::Result<Self> {
        on_machine!(path, machine => machine.open(path, sim::How::Read).map(File::simulated));
        fs::File::open(path).map(File::from)
    }

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_writable(path: &Path) -> io::Result<Self> {
        on_machine!(path, machine => machine.open(path, sim::How::Write).map(File::simulated));
        OpenOptions::new().read(true).write(true).open(path).map(File::from)
    }

    /// Creates a file that does not exist, for reading and writing, with these permissions.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]; else the system's error.
    pub fn create_new(path: &Path, mode: u32) -> io::Result<Self> {
        on_machine!(path, machine => machine.open(path, sim::How::CreateNew).map(File::simulated));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(mode).open(path).map(File::from)
    }

    /// Opens a file for reading and writing, and creates it with these permissions if it is missing.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_or_create(path: &Path, mode: u32) -> io::Result<Self> {
        on_machine!(path, machine => machine.open(path, sim::How::Create).map(File::simulated));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(mode);
        options.open(path).map(File::from)
    }

    /// Opens a file for writes that bypass the page cache. A write that is not aligned to [`DIRECT_ALIGNMENT_BYTES`] may be refused with
    /// [`io::ErrorKind::InvalidInput`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the file system cannot do that; else the system's error.
    pub fn open_direct(path: &Path) -> io::Result<Self> {
        on_machine!(path, machine => machine.open(path, sim::How::Write).map(File::simulated));
        let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        OpenOptions::new().write(true).custom_flags(flags).open(path).map(File::from)
    }

    /// The bytes of a file in `range`, as a file that can only be read.
    pub fn part(file: &Arc<File>, range: Range<u64>) -> Self {
        File(Backend::Part(Part { file: Arc::clone(file), range }))
    }

    /// Reads exactly `bytes.len()` bytes at `offset`.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the file ends before; else the system's error.
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.0 {
            Backend::Part(part) => part.read_exact_at(bytes, offset),
            _ => on_either!(self, file => file.read_exact_at(bytes, offset)),
        }
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// The system's error; part of it may then be written.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        on_either!(self, file => file.write_all_at(bytes, offset))
    }

    /// As [`write_cached_at`].
    ///
    /// # Errors
    /// The system's error; part of it may then be written.
    pub fn write_cached_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match &self.0 {
            Backend::Real(file) => write_cached_at(file, bytes, offset),
            Backend::Part(_) => Err(io::ErrorKind::Unsupported.into()),
            #[cfg(any(test, feature = "sim"))]
            Backend::Simulated(file) => file.write_all_at(bytes, offset),
        }
    }

    /// Cuts the file to `length` bytes, or extends it by zeros.
    ///
    /// # Errors
    /// The system's error.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        on_either!(self, file => file.set_len(length))
    }

    /// Makes the content durable. What failed is not on the disk, and no later call writes it.
    ///
    /// # Errors
    /// The system's error.
    pub fn sync_data(&self) -> io::Result<()> {
        on_either!(self, file => file.sync_data())
    }

    /// As [`File::sync_data`], with all that the system knows of the file; of a directory: its names.
    ///
    /// # Errors
    /// The system's error.
    pub fn sync_all(&self) -> io::Result<()> {
        on_either!(self, file => file.sync_all())
    }

    /// Bytes in the file.
    ///
    /// # Errors
    /// The system's error.
    pub fn length(&self) -> io::Result<u64> {
        match &self.0 {
            Backend::Real(file) => Ok(file.metadata()?.len()),
            Backend::Part(part) => Ok(part.range.end.saturating_sub(part.range.start)),
            #[cfg(any(test, feature = "sim"))]
            Backend::Simulated(file) => file.length(),
        }
    }

    /// True if `path` still names this file: an open file stays usable when somebody has removed or replaced its name, and what is written then is gone when
    /// it is closed. Costs two calls of the system's, neither of which waits for a disk that is in use.
    ///
    /// # Errors
    /// The system's error: nobody knows then.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        match &self.0 {
            Backend::Real(file) => {
                let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
                let this = id(file.metadata()?);
                found(fs::metadata(path).map(|metadata| id(metadata) == this))
            }
            Backend::Part(part) => part.file.is_at(path),
            #[cfg(any(test, feature = "sim"))]
            Backend::Simulated(file) => file.is_at(path),
        }
    }

    /// Locks the file for this process until it is closed.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if another process has it locked; else the system's error.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        match &self.0 {
            Backend::Part(_) => Err(TryLockError::Error(io::ErrorKind::Unsupported.into())),
            Backend::Real(file) => file.try_lock(),
            #[cfg(any(test, feature = "sim"))]
            Backend::Simulated(file) => file.try_lock(),
        }
    }

    /// The system's file, to map it or to pass it to another process.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if it is a simulated one, or a part of one.
    pub fn real(&self) -> io::Result<&fs::File> {
        match &self.0 {
            Backend::Real(file) => Ok(file),
            Backend::Part(_) => Err(io::ErrorKind::Unsupported.into()),
            #[cfg(any(test, feature = "sim"))]
            Backend::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    #[cfg(any(test, feature = "sim"))]
    fn simulated(handle: sim::Handle) -> Self {
        File(Backend::Simulated(handle))
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Backend::Real(file) => file.write(bytes),
            Backend::Part(_) => Err(io::ErrorKind::Unsupported.into()),
            #[cfg(any(test, feature = "sim"))]
            Backend::Simulated(file) => file.append(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Offsets, lengths and memory of direct writes ([`File::open_direct`]) are multiples of this: the most that any disk requires.
pub const DIRECT_ALIGNMENT_BYTES: usize = 4096;

/// Most bytes of one write into the page cache. Linux takes memory for a write in pieces as large as the write, up to 2 MiB, and moves other pages to get them:
/// 1 GiB in writes of 4 MiB took 0.7 to 1.3 s, in writes of 128 KiB 0.4 s.
const CACHED_WRITE_BYTES_MAX: usize = 128 << 10;

/// Writes all of `bytes` at `offset`, through the page cache.
///
/// # Errors
/// The system's error; part of it may then be written.
pub fn write_cached_at(file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let starts = (offset..).step_by(CACHED_WRITE_BYTES_MAX);
    let mut pieces = bytes.chunks(CACHED_WRITE_BYTES_MAX).zip(starts);
    pieces.try_for_each(|(piece, start)| file.write_all_at(piece, start))
}

/// Renames a file and replaces what has that name. Atomic; durable after a sync of the directories.
///
/// # Errors
/// The system's error.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    on_machine!(from, machine => machine.rename(from, to));
    fs::rename(from, to)
}

/// Removes a file. Durable after a sync of its directory.
///
/// # Errors
/// The system's error.
pub fn remove_file(path: &Path) -> io::Result<()> {
    on_machine!(path, machine => machine.remove_file(path));
    fs::remove_file(path)
}

/// Creates a directory in an existing one, with these permissions. Durable after a sync of the latter.
///
/// # Errors
/// The system's error.
pub fn create_dir(path: &Path, mode: u32) -> io::Result<()> {
    on_machine!(path, machine => machine.create_dir(path));
    fs::DirBuilder::new().mode(mode).create(path)
}

/// Makes the names in a directory durable.
///
/// # Errors
/// The system's error.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// True if it is a directory; false if it is something else, or nothing.
///
/// # Errors
/// The system's error: nobody knows then.
pub fn is_dir(path: &Path) -> io::Result<bool> {
    on_machine!(path, machine => machine.is_dir(path));
    found(fs::metadata(path).map(|metadata| metadata.is_dir()))
}

/// True if it is a file; false if it is something else, or nothing.
///
/// # Errors
/// The system's error: nobody knows then.
pub fn is_file(path: &Path) -> io::Result<bool> {
    on_machine!(path, machine => machine.is_file(path));
    found(fs::metadata(path).map(|metadata| metadata.is_file()))
}

fn found(fits: io::Result<bool>) -> io::Result<bool> {
    match fits {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        fits => fits,
    }
}

/// True if something has this name.
///
/// # Errors
/// The system's error.
pub fn try_exists(path: &Path) -> io::Result<bool> {
    on_machine!(path, machine => machine.try_exists(path));
    path.try_exists()
}

/// Bytes in a file.
///
/// # Errors
/// The system's error.
pub fn length(path: &Path) -> io::Result<u64> {
    on_machine!(path, machine => machine.length(path));
    Ok(fs::metadata(path)?.len())
}

/// The content of a small file of text.
///
/// # Errors
/// The system's error.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    on_machine!(path, machine => machine.read_to_string(path));
    fs::read_to_string(path)
}

/// Creates or replaces a file; neither atomic nor durable.
///
/// # Errors
/// The system's error.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    on_machine!(path, machine => machine.open(path, sim::How::Truncate)?.write_all_at(bytes, 0));
    fs::write(path, bytes)
}

/// The paths in a directory, in no defined order.
///
/// # Errors
/// The system's error.
pub fn read_dir(path: &Path) -> io::Result<Entries> {
    on_machine!(path, machine => {
        let paths = machine.read_dir(path)?;
        Ok(Entries(InnerEntries::Simulated(paths.into_iter())))
    });
    fs::read_dir(path).map(|entries| Entries(InnerEntries::Real(entries)))
}

/// See [`read_dir`].
#[derive(Debug)]
pub struct Entries(InnerEntries);

#[derive(Debug)]
enum InnerEntries {
    Real(fs::ReadDir),
    #[cfg(any(test, feature = "sim"))]
    Simulated(std::vec::IntoIter<PathBuf>),
}

impl Iterator for Entries {
    type Item = io::Result<PathBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            InnerEntries::Real(entries) => Some(entries.next()?.map(|entry| entry.path())),
            #[cfg(any(test, feature = "sim"))]
            InnerEntries::Simulated(paths) => paths.next().map(Ok),
        }
    }
}

/// Space of the file system that holds a path, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The whole file system.
    pub capacity: u64,
    /// Free for this user.
    pub available: u64,
}

/// The number that this machine has, until its next boot, for the file system that holds `path`.
///
/// # Errors
/// The system's error.
pub fn device(path: &Path) -> io::Result<u64> {
    on_machine!(path, machine => machine.device(path));
    Ok(fs::metadata(path)?.dev())
}

/// Space of the file system that holds `path`.
///
/// # Errors
/// The system's error.
pub fn space(path: &Path) -> io::Result<Space> {
    on_machine!(path, machine => {
        let (capacity, available) = machine.space(path)?;
        Ok(Space { capacity, available })
    });
    let stat = rustix::fs::statvfs(path)?;
    Ok(Space { capacity: stat.f_blocks * stat.f_frsize, available: stat.f_bavail * stat.f_frsize })
}

/// The time on the machine that has `path`.
pub fn now(path: &Path) -> Instant {
    on_machine!(path, machine => machine.now());
    let _ = path;
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_writes_of_any_length_are_whole() {
        let bytes: Vec<u8> = (0..3 * CACHED_WRITE_BYTES_MAX + 5).map(|n| (n % 251) as u8).collect();
        for length in [0, 1, CACHED_WRITE_BYTES_MAX, CACHED_WRITE_BYTES_MAX + 1, bytes.len()] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x");
            write_cached_at(&fs::File::create(&path).unwrap(), &bytes[..length], 3).unwrap();
            let (before, written) = (vec![0; 3.min(length * 3)], &bytes[..length]);
            assert!(fs::read(&path).unwrap() == [&before, written].concat(), "{length}");
        }
    }

    #[test]
    fn an_open_file_knows_whether_it_still_has_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let machine = sim::Machine::new(1);
        for root in [directory.path().to_owned(), machine.add_disk(1 << 20)] {
            let (path, other) = (root.join("x"), root.join("y"));
            let file = Arc::new(File::create_new(&path, 0o600).unwrap());
            assert!(file.is_at(&path).unwrap());
            assert!(File::part(&file, 0..0).is_at(&path).unwrap());
            assert!(File::open(&root).unwrap().is_at(&root).unwrap());
            rename(&path, &other).unwrap();
            assert!(file.is_at(&other).unwrap() && !file.is_at(&path).unwrap());
            write(&path, b"of somebody else").unwrap();
            assert!(!file.is_at(&path).unwrap());
            remove_file(&other).unwrap();
            assert!(!file.is_at(&other).unwrap());
            // What it had keeps its place: nobody else gets its number while it is open.
            write(&other, b"").unwrap();
            assert!(!file.is_at(&other).unwrap());
        }
    }

    #[test]
    fn a_part_of_a_file_is_read_within_its_bounds_and_never_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        fs::write(&path, b"0123456789").unwrap();
        let part = File::part(&Arc::new(File::open_writable(&path).unwrap()), 2..6);
        assert_eq!(part.length().unwrap(), 4);
        let mut bytes = [0; 3];
        part.read_exact_at(&mut bytes, 1).unwrap();
        assert_eq!(&bytes, b"345");
        for offset in [2, 4, u64::MAX] {
            let kind = part.read_exact_at(&mut bytes, offset).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::UnexpectedEof, "{offset}");
        }
        assert_eq!(part.write_all_at(b"x", 0).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(part.set_len(0).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert!(part.real().is_err());
        assert_eq!(fs::read(&path).unwrap(), b"0123456789");
    }
}

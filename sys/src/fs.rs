//! Files: atomic replacement, directory syncs, locks, free space.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, IntoInnerError, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::disk;

pub mod claim;
pub mod tree;

pub use crate::disk::{DIRECT_ALIGNMENT_BYTES, Space, space, sync_dir, write_cached_at};

/// Reserves room on the disk for `bytes` of `file` from `offset`. The file grows to that length, and unwritten parts read as zeros.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] if the file system cannot do that; [`io::ErrorKind::StorageFull`]; else the system's error.
pub fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, bytes)?)
}

/// Opens a file for reading in a directory that somebody else may write to: it must not be a link, and the call never waits on something that is not a file.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if it is not a file; else the system's error.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_without_waiting(path, OpenOptions::new().read(true), rustix::fs::OFlags::NOFOLLOW)
}

/// Opens a file for reading that a user names, perhaps by a link: as [`open_regular`] the call never waits, and refuses what is not a file.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if it is not a file; else the system's error.
pub fn open_input(path: &Path) -> io::Result<File> {
    open_file(path, OpenOptions::new().read(true))
}

/// The text of a file that a user names, opened as by [`open_input`].
///
/// # Errors
/// As [`open_input`]; [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_input(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_input(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// As [`open_input`], for writing, too.
///
/// # Errors
/// As [`open_input`]; the system's error for a FIFO that nobody reads.
pub fn open_file(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    open_without_waiting(path, options, rustix::fs::OFlags::empty())
}

fn open_without_waiting(
    path: &Path,
    options: &mut OpenOptions,
    flags: rustix::fs::OFlags,
) -> io::Result<File> {
    let flags = (flags | rustix::fs::OFlags::NONBLOCK).bits().cast_signed();
    let file = options.custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    Ok(file)
}

/// Sets times, milliseconds since the epoch; `None` leaves one unchanged. It takes the owner's rights, not those to read.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for a time that the system does not know; else the system's error.
pub fn set_times(path: &Path, mtime_ms: Option<u64>, atime_ms: Option<u64>) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
    let time = |ms: Option<u64>| -> io::Result<Timespec> {
        match ms {
            None => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
            Some(ms) => {
                let unknown = |_| io::Error::from(io::ErrorKind::InvalidInput);
                let tv_nsec = i64::try_from(ms % 1000 * 1_000_000).map_err(unknown)?;
                Ok(Timespec { tv_sec: i64::try_from(ms / 1000).map_err(unknown)?, tv_nsec })
            }
        }
    };
    let times = Timestamps { last_modification: time(mtime_ms)?, last_access: time(atime_ms)? };
    Ok(utimensat(CWD, path, &times, AtFlags::empty())?)
}

/// Replaces `path` by `bytes`; after any crash it holds either the old or the new content, whole and durable.
///
/// The file gets permission bits `mode`. A temporary file beside it (`.NAME.tmp`) may be left by a crash and is removed by
/// the next call; callers of one path are serialised by the daemon's lock. Others use [`publish`].
///
/// # Errors
/// The system's error; the old content is then intact.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    write_atomic_with(path, mode, |file| file.write_all(bytes))
}

/// As [`write_atomic`], with the bytes that `write` produces, possibly in small pieces.
///
/// # Errors
/// The error of the system or of `write`; only the old content is then there.
pub fn write_atomic_with(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let path = &std::path::absolute(path)?;
    let temporary = beside(path, "tmp")?;
    without_missing(disk::remove_file(&temporary))?;
    replace((&temporary, disk::File::create_new(&temporary, mode)?), path, write)
}

/// As [`write_atomic_with`], for a path that a user named, in a directory where anybody may write: what lies there under the temporary name is neither written
/// to nor followed, and several callers at a time do not mix their bytes. A crash leaves the temporary file (`.NAME.PROCESS-NUMBER.tmp`).
///
/// # Errors
/// As for [`write_atomic_with`]; [`io::ErrorKind::AlreadyExists`] if somebody keeps all temporary names.
pub fn publish(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    /// Names that are tried: few are left over, by crashes and by earlier processes of the same number.
    const NAMES_MAX: u32 = 100;
    let path = &std::path::absolute(path)?;
    let mut number = 0;
    loop {
        let temporary = beside(path, &format!("{}-{number}.tmp", std::process::id()))?;
        match disk::File::create_new(&temporary, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => {
                number += 1;
            }
            created => return replace((&temporary, created?), path, write),
        }
    }
}

/// Creates a file for writing, with these permissions less the process's mask. What is there under its name is removed: it is neither written to nor followed.
///
/// # Errors
/// The system's error; [`io::ErrorKind::AlreadyExists`] if somebody else creates it at the same time.
pub fn create_anew(path: &Path, mode: u32) -> io::Result<File> {
    without_missing(fs::remove_file(path))?;
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// True for what a user names as output and what must keep its name: a link, a FIFO, a device, a socket. A program writes into it, as a shell's `>` does, and
/// does not put a file in its place.
pub fn is_written_in_place(path: &Path) -> bool {
    // Whatever keeps it from being seen, the writing tells.
    fs::symlink_metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Opens what [`is_written_in_place`] for writing from its start; follows links, also to a file that is not there yet and gets these permissions. Waits for
/// the reader of a FIFO.
///
/// # Errors
/// The system's error.
pub fn open_in_place(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    if matches!(path.try_exists(), Ok(false)) {
        // Only then: in directories like `/tmp`, systems refuse to "create" a FIFO of somebody else that is there.
        options.create(true).mode(mode);
    }
    options.open(path)
}

/// Writes what a user wants at a path that he named: a new or regular file as [`publish`] does, anything else in place.
///
/// # Errors
/// As for [`publish`].
pub fn write_output(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    write_output_with(path, mode, |file| file.write_all(bytes))
}

/// As [`write_output`], for what is made while it is written.
///
/// # Errors
/// As for [`publish`], and those of `write`.
pub fn write_output_with(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    match is_written_in_place(path) {
        true => {
            let mut file = BufWriter::new(open_in_place(path, mode)?);
            write(&mut file).and_then(|()| file.flush())
        }
        false => publish(path, mode, write),
    }
}

/// Renames to a name that must be free. Of several callers at a time, one succeeds.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if it is not free; else the system's error.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The kernel or this file system has no such call.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_new_by_link(from, to),
        renamed => Ok(renamed?),
    }
}

/// [`rename_new`] for file systems that cannot do it at once.
fn rename_new_by_link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // A directory, or a file system that has no links either: another process may come in between.
        Err(_) if fs::symlink_metadata(to).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

fn without_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The path `.NAME.SUFFIX` beside a file.
fn beside(path: &Path, suffix: &str) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(path.with_file_name(format!(".{}.{suffix}", name.to_string_lossy())))
}

/// Fills a new temporary file and renames it.
fn replace(
    (temporary, file): (&Path, disk::File),
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    let written = write(&mut file)
        .and_then(|()| file.into_inner().map_err(IntoInnerError::into_error))
        .and_then(|file| file.sync_all())
        .and_then(|()| disk::rename(temporary, path));
    if let Err(error) = written {
        // On a full disk the file would be in the way of later writes; if it cannot be removed either, the next call tries again.
        let _ = disk::remove_file(temporary);
        return Err(error);
    }
    match path.parent() {
        Some(directory) => sync_dir(directory),
        None => Ok(()),
    }
}

/// Creates `directory` and missing parents, private to the user (0700), durably, including the names of the parents that were missing.
///
/// # Errors
/// The system's error.
pub fn create_private_dir(directory: &Path) -> io::Result<()> {
    if disk::is_dir(directory).unwrap_or(false) {
        return Ok(());
    }
    let parent = match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    create_private_dir(parent)?;
    match disk::create_dir(directory, 0o700) {
        Err(error)
            if error.kind() != io::ErrorKind::AlreadyExists
                || !disk::is_dir(directory).unwrap_or(false) =>
        {
            Err(error)
        }
        _ => sync_dir(parent),
    }
}

/// Why a file that should hold a secret is not read.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// Its secret is none.
    #[error("other users can read it; run chmod 600 on it")]
    Exposed,
    /// It is not there, is no file, or cannot be read.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Opens a file that holds a secret, which somebody else may have named: nobody but its owner can use it. Or it is root's, who lets a group read it and nobody else,
/// as Kubernetes hands a secret to a process that is not root. What was checked is what is read, and the call waits for nothing.
///
/// # Errors
/// [`PrivateError`]
pub fn open_private(path: &Path) -> Result<File, PrivateError> {
    let file = open_input(path)?;
    let metadata = file.metadata()?;
    match is_private_mode(metadata.mode(), metadata.uid()) {
        true => Ok(file),
        false => Err(PrivateError::Exposed),
    }
}

/// A file that holds a secret, as it was read.
#[derive(Debug)]
pub struct Private {
    /// What it holds.
    pub text: String,
    /// The id of the user whose it is.
    pub owner: u32,
}

/// Reads such a file, of `bytes_max` bytes at most.
///
/// # Errors
/// [`PrivateError`]; [`io::ErrorKind::InvalidData`] if it is longer, or no text.
pub fn read_private(path: &Path, bytes_max: u64) -> Result<Private, PrivateError> {
    let (file, mut text) = (open_private(path)?, String::new());
    let owner = file.metadata()?.uid();
    file.take(bytes_max + 1).read_to_string(&mut text)?;
    match text.len() as u64 <= bytes_max {
        true => Ok(Private { text, owner }),
        false => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long for a secret").into())
        }
    }
}

fn is_private_mode(mode: u32, owner: u32) -> bool {
    const GROUP_READS: u32 = 0o040;
    let shared = mode & 0o077;
    shared == 0 || (shared == GROUP_READS && owner == 0)
}

/// Lets everybody who knows a name in it pass through a directory of this user.
///
/// # Errors
/// The system's error.
pub fn let_pass(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    const PASS: u32 = 0o011;
    let mode = directory.metadata()?.permissions().mode();
    fs::set_permissions(directory, fs::Permissions::from_mode(mode | PASS))
}

/// A file that only one process can hold, perhaps with its directory. Released when dropped or when the process ends in any way.
#[derive(Debug)]
pub struct LockFile {
    /// `None` for a reader where there is none.
    _file: Option<disk::File>,
    _directory: Option<disk::File>,
}

/// Why a lock could not be acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{} is in use by process {holder}", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The content that the holder wrote: its process id.
        holder: String,
    },
    /// Another process holds a directory, and its lock file is gone.
    #[error("{} is in use by a process whose lock file was deleted", directory.display())]
    HeldWithoutFile {
        /// The directory.
        directory: PathBuf,
    },
    /// The file cannot be opened, locked or written.
    #[error("cannot lock {}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// The lock file of a directory ([`LockFile::of_directory`]).
const LOCK_FILE: &str = "lock";
/// Longest name of a holder that is read from its lock file: any process id is shorter.
const HOLDER_BYTES_MAX: u64 = 32;

impl LockFile {
    /// Takes the lock and writes this process's id into the file.
    ///
    /// # Errors
    /// [`LockError::Held`] at once if another process holds it.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let file = lock_file(path)?;
        write_holder(&file, path)?;
        Ok(LockFile { _file: Some(file), _directory: None })
    }

    /// Takes a directory for this process: the file `lock` in it, and the directory itself. So it stays taken when somebody deletes the file.
    ///
    /// # Errors
    /// [`LockError::Held`] or [`LockError::HeldWithoutFile`] at once if another process holds it.
    pub fn of_directory(directory: &Path) -> Result<Self, LockError> {
        let io_error = |source| LockError::Io { path: directory.to_owned(), source };
        let path = directory.join(LOCK_FILE);
        let file = lock_file(&path)?;
        let opened = disk::File::open(directory).map_err(io_error)?;
        let directory = locked(opened, directory)?;
        write_holder(&file, &path)?;
        Ok(LockFile { _file: Some(file), _directory: directory })
    }

    /// As [`LockFile::of_directory`], for who only reads: nothing is made or written, so it may be a directory that cannot be changed.
    ///
    /// # Errors
    /// As for [`LockFile::of_directory`].
    pub fn of_existing(directory: &Path) -> Result<Self, LockError> {
        let opened = |path: &Path| {
            let opened = disk::File::open(path);
            opened.map_err(|source| LockError::Io { path: path.to_owned(), source })
        };
        let path = directory.join(LOCK_FILE);
        let held = locked(opened(directory)?, directory);
        let file = match opened(&path) {
            // Nobody has it open, and who makes it now needs the directory, too.
            Err(LockError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        // Its holder is named in it.
        file.as_ref().map_or(Ok(()), |file| lock(file, &path))?;
        Ok(LockFile { _file: file, _directory: held? })
    }
}

fn lock_file(path: &Path) -> Result<disk::File, LockError> {
    let io_error = |source| LockError::Io { path: path.to_owned(), source };
    let file = disk::File::open_or_create(path, 0o600).map_err(io_error)?;
    lock(&file, path).map(|()| file)
}

fn locked(opened: disk::File, directory: &Path) -> Result<Option<disk::File>, LockError> {
    match opened.try_lock() {
        Ok(()) => Ok(Some(opened)),
        Err(TryLockError::WouldBlock) => {
            Err(LockError::HeldWithoutFile { directory: directory.to_owned() })
        }
        // Some file systems, such as NFS, lock files alone.
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn lock(file: &disk::File, path: &Path) -> Result<(), LockError> {
    let io_error = |source| LockError::Io { path: path.to_owned(), source };
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let length = file.length().map_err(io_error)?.min(HOLDER_BYTES_MAX);
            let mut holder = vec![0; length as usize];
            match file.read_exact_at(&mut holder, 0) {
                // It is being written just now.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => holder.clear(),
                read => read.map_err(io_error)?,
            }
            let holder = String::from_utf8_lossy(&holder).trim().to_owned();
            Err(LockError::Held { path: path.to_owned(), holder })
        }
        Err(TryLockError::Error(source)) => Err(io_error(source)),
    }
}

fn write_holder(file: &disk::File, path: &Path) -> Result<(), LockError> {
    let holder = format!("{}\n", std::process::id());
    match file.set_len(0).and_then(|()| file.write_all_at(holder.as_bytes(), 0)) {
        // The lock holds without a name: a full disk must not keep its daemon from starting.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        written => written.map_err(|source| LockError::Io { path: path.to_owned(), source }),
    }
}

/// How many files a file system can hold, and how many more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inodes {
    /// Maximum; 0 where the file system allocates inodes on demand.
    pub capacity: u64,
    /// Left for this user.
    pub available: u64,
}

/// Inodes of the file system that holds `path`.
///
/// # Errors
/// The system's error.
pub fn inodes(path: &Path) -> io::Result<Inodes> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(Inodes { capacity: stat.f_files, available: stat.f_favail })
}

/// True if this process, as the user it acts as, may read (`read`) and change (`write`) the target of `path`; false if that does not exist.
///
/// # Errors
/// The system's error, except "not found" and "permission denied".
pub fn may(path: &Path, read: bool, write: bool) -> io::Result<bool> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    use rustix::io::Errno;
    let mut access = Access::EXISTS;
    access.set(Access::READ_OK, read);
    access.set(Access::WRITE_OK, write);
    match accessat(CWD, path, access, AtFlags::EACCESS) {
        Ok(()) => Ok(true),
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Advises the kernel that `file` will be read from start to end.
pub fn advise_sequential(file: &File) {
    // Only a hint: without it reads are only slower.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Sequential);
}

/// True if an error means that the process or the machine lacks descriptors or memory; it is then no fault of the disk.
pub fn is_shortage(error: &io::Error) -> bool {
    let short = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| short.iter().any(|errno| errno.raw_os_error() == code))
}

/// True if an error means that the disk, or this user's part of it, is full; the disk then still works.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_from_the_file_that_was_checked_and_nothing_is_waited_for() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let make = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read_private(&path, 5)
        };
        let Private { text, owner } = make("12345", 0o600).unwrap();
        assert_eq!((text.as_str(), owner), ("12345", crate::host::user_id()));
        assert!(matches!(make("12345", 0o644), Err(PrivateError::Exposed)));
        let kind = |result| match result {
            Err(PrivateError::System(error)) => error.kind(),
            other => panic!("{other:?}"),
        };
        assert_eq!(kind(make("123456", 0o600)), io::ErrorKind::InvalidData);
        fs::remove_file(&path).unwrap();
        assert_eq!(kind(read_private(&path, 5)), io::ErrorKind::NotFound);
        // Without a writer, opening this to read waits for ever.
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(kind(read_private(&path, 5)), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_secret_is_its_owners_or_of_one_group_that_root_chose() {
        for (mode, owner, is_private) in [
            (0o100_600, 1000, true),
            (0o100_400, 0, true),
            (0o100_440, 0, true),
            (0o100_640, 0, true),
            (0o100_640, 1000, false),
            (0o100_660, 0, false),
            (0o100_444, 0, false),
            (0o100_450, 0, false),
        ] {
            assert_eq!(is_private_mode(mode, owner), is_private, "{mode:o} of {owner}");
        }
    }

    #[test]
    fn a_file_is_opened_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link, missing] = ["file", "link", "missing"].map(|n| directory.path().join(n));
        fs::write(&file, b"hello").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut text = String::new();
        open_regular(&file).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        assert!(open_regular(&link).is_err());
        assert_eq!(open_regular(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
        let no_file = open_regular(directory.path()).unwrap_err();
        assert_eq!(no_file.kind(), io::ErrorKind::InvalidInput);
        text.clear();
        open_input(&link).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello", "a user may name a link");
        assert_eq!(read_input(&link).unwrap(), "hello");
        let no_file = open_file(Path::new("/dev/null"), OpenOptions::new().write(true));
        assert_eq!(no_file.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let no_file = open_input(Path::new("/dev/null")).unwrap_err();
        assert_eq!(no_file.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn times_are_set_of_what_cannot_be_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(File::open(&path).is_err());
        set_times(&path, Some(1_600_000_000_123), Some(7_000)).unwrap();
        set_times(&path, None, Some(8_001)).unwrap();
        let there = fs::metadata(&path).unwrap();
        assert_eq!((there.mtime(), there.mtime_nsec()), (1_600_000_000, 123_000_000));
        assert_eq!((there.atime(), there.atime_nsec()), (8, 1_000_000));
        assert!(set_times(&directory.path().join("missing"), Some(1), None).is_err());
    }

    #[test]
    fn atomic_write_replaces_and_leaves_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        write_atomic(&path, b"one", 0o600).unwrap();
        write_atomic(&path, b"two", 0o600).unwrap();
        let cut_off = write_atomic_with(&path, 0o600, |file| {
            file.write_all(b"thr")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(cut_off.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(write_atomic(&directory.path().join("missing/x"), b"", 0o600).is_err());
    }

    #[test]
    fn what_others_left_under_a_temporary_name_is_not_written_to() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let path = at("x");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let first = format!(".x.{}-0.tmp", std::process::id());
        for (left, write) in [
            (".x.tmp", (|path| write_atomic(path, b"secret", 0o600)) as fn(&Path) -> _),
            (&first, |path| publish(path, 0o600, |file| file.write_all(b"secret"))),
            ("x", |path| create_anew(path, 0o600)?.write_all(b"secret")),
        ] {
            for is_link in [false, true] {
                fs::write(at("victim"), "mine").unwrap();
                match is_link {
                    true => symlink(at("victim"), at(left)).unwrap(),
                    false => {
                        fs::write(at(left), "").unwrap();
                        fs::set_permissions(at(left), fs::Permissions::from_mode(0o666)).unwrap();
                    }
                }
                write(&path).unwrap();
                assert_eq!(fs::read(at("victim")).unwrap(), b"mine");
                assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"secret".to_vec(), 0o600));
                assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
                fs::remove_file(&path).unwrap();
                let _ = fs::remove_file(at(left));
            }
        }
    }

    #[test]
    fn a_name_that_is_taken_stays() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for rename in [rename_new, rename_new_by_link] {
            fs::write(at("a"), "a").unwrap();
            fs::write(at("b"), "b").unwrap();
            fs::create_dir(at("d")).unwrap();
            for (from, to) in [("a", "b"), ("a", "d"), ("d", "a")] {
                let refused = rename(&at(from), &at(to)).unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists, "{from} {to}");
            }
            assert_eq!(fs::read(at("b")).unwrap(), b"b");
            rename(&at("a"), &at("c")).unwrap();
            rename(&at("d"), &at("e")).unwrap();
            assert_eq!(fs::read(at("c")).unwrap(), b"a");
            assert!(at("e").is_dir());
            assert!(!at("a").try_exists().unwrap() && !at("d").try_exists().unwrap());
            assert!(rename(&at("a"), &at("f")).is_err());
            fs::remove_dir(at("e")).unwrap();
            fs::remove_file(at("c")).unwrap();
        }
    }

    #[test]
    fn what_is_no_file_is_written_in_place() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "long before").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("new", at("dangling")).unwrap();
        for (name, behind) in [("link", "file"), ("dangling", "new"), ("file", "file")] {
            assert_eq!(is_written_in_place(&at(name)), name != "file");
            write_output(&at(name), 0o600, b"now").unwrap();
            let is_link = fs::symlink_metadata(at(name)).unwrap().is_symlink();
            assert_eq!((fs::read(at(behind)).unwrap(), is_link), (b"now".to_vec(), name != "file"));
        }
        let made = std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(made.success());
        let fifo = at("fifo");
        let reader = std::thread::spawn(move || fs::read(fifo).unwrap());
        write_output(&at("fifo"), 0o600, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        assert!(fs::symlink_metadata(at("fifo")).unwrap().file_type().is_fifo());
        assert!(!is_written_in_place(directory.path()) && !is_written_in_place(&at("none")));
    }

    #[test]
    fn a_second_holder_is_told_who_has_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let lock = LockFile::acquire(&path).unwrap();
        let error = LockFile::acquire(&path).unwrap_err();
        assert!(
            error.to_string().ends_with(&format!("in use by process {}", std::process::id())),
            "{error}"
        );
        drop(lock);
        LockFile::acquire(&path).unwrap();
    }

    #[test]
    fn a_directory_stays_taken_when_its_lock_file_is_deleted() {
        let root = tempfile::tempdir().unwrap();
        let lock = LockFile::of_directory(root.path()).unwrap();
        assert!(matches!(LockFile::of_directory(root.path()), Err(LockError::Held { .. })));
        fs::remove_file(root.path().join(LOCK_FILE)).unwrap();
        let second = LockFile::of_directory(root.path());
        assert!(matches!(second, Err(LockError::HeldWithoutFile { .. })), "{second:?}");
        drop(lock);
        LockFile::of_directory(root.path()).unwrap();
    }

    #[test]
    fn space_is_plausible() {
        let space = space(Path::new("/")).unwrap();
        assert!(space.capacity > 0 && space.available <= space.capacity);
    }
}

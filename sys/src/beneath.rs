//! Files below a directory in which somebody else may rename, link and swap at any time. They are reached from its descriptor, never by a path.
//!
//! Invariants: nothing outside the directory is opened, created, linked, measured or removed, whatever lies below it; no symbolic link is followed; only
//! regular files and directories are opened, and no open waits; the number of descriptors that a deep tree costs is bounded.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;

use crate::sandbox::User;

/// Every open: it follows no link, waits for nobody, and ends with the program.
const OPEN: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// No way out, by dots, links or the links of `/proc`.
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
/// The rights of the owner of a directory who removes what is in it.
const OWNER: Mode = Mode::RWXU;
/// Bytes of a block as `stat` counts them, whatever the block size of the file system.
const STAT_BLOCK_BYTES: u64 = 512;
/// Longest path below a directory that is passed to the kernel at once; the kernel takes 4,096 bytes.
const PATH_BYTES_MAX: usize = 2048;
/// Deepest tree that is measured: at most every eighth level keeps an open directory, so a measurement takes 128 descriptors.
const MEASURED_DEPTH_MAX: usize = 1024;
/// Deepest tree that is removed in place, with a descriptor for each level. Deeper parts are moved up first.
const REMOVED_DEPTH_MAX: usize = 64;
/// Names tried for a part that is moved up: the owner of the tree may have taken some.
const NAMES_MAX: u32 = 10_000;

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    descriptor: OwnedFd,
}

/// Distinguishes a file from every other one that exists at the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The identity of an open file.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(file: &File) -> io::Result<Identity> {
        let metadata = file.metadata()?;
        Ok(Identity { device: metadata.dev(), inode: metadata.ino() })
    }
}

impl Dir {
    /// Opens a directory by a path that nobody else can change.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(path: &Path) -> io::Result<Dir> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Dir { descriptor: openat(CWD, path, flags, Mode::empty())? })
    }

    /// Opens the same directory again.
    ///
    /// # Errors
    /// The system's error.
    pub fn try_clone(&self) -> io::Result<Dir> {
        Ok(Dir { descriptor: self.descriptor.try_clone()? })
    }

    /// Opens a directory below.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the path could lead elsewhere; else the system's error.
    pub fn dir(&self, below: impl AsRef<Path>) -> io::Result<Dir> {
        Ok(Dir { descriptor: self.open_below(below.as_ref(), OFlags::DIRECTORY)? })
    }

    /// Opens a regular file below, for reading.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the path could lead elsewhere or the file is not a regular one; else the system's error.
    pub fn file(&self, below: impl AsRef<Path>) -> io::Result<File> {
        regular(self.open_below(below.as_ref(), OFlags::RDONLY)?)
    }

    /// Opens a regular file here, for appending; creates it with permission bits `mode` if it is missing.
    ///
    /// # Errors
    /// As [`Dir::file`].
    pub fn append(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        self.open_here(name.as_ref(), OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE, mode)
    }

    /// Creates a file here, for writing, with permission bits `mode`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if there is anything of that name; else as [`Dir::file`].
    pub fn create(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        self.open_here(name.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)
    }

    fn open_here(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        let name = single(name)?;
        regular(openat(&self.descriptor, name, flags | OPEN, Mode::from_raw_mode(mode))?)
    }

    /// Creates a directory here, private to this user.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if there is anything of that name; else the system's error.
    pub fn make_dir(&self, name: impl AsRef<OsStr>) -> io::Result<Dir> {
        let name = single(name.as_ref())?;
        rustix::fs::mkdirat(&self.descriptor, name, OWNER)?;
        self.dir(name)
    }

    /// The directory of that name here, created if it is missing.
    ///
    /// # Errors
    /// The system's error.
    pub fn ensure_dir(&self, name: impl AsRef<OsStr>) -> io::Result<Dir> {
        match self.make_dir(name.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.dir(name.as_ref()),
            made => made,
        }
    }

    /// A new, empty directory here; removes whatever had the name.
    ///
    /// # Errors
    /// The system's error.
    pub fn fresh_dir(&self, name: impl AsRef<OsStr>) -> io::Result<Dir> {
        match self.make_dir(name.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(name.as_ref())?;
                self.make_dir(name)
            }
            made => made,
        }
    }

    /// Gives the directory to a user, closed to all others.
    ///
    /// # Errors
    /// The system's error.
    pub fn give_to(&self, user: User) -> io::Result<()> {
        let (owner, group) = user.ids();
        rustix::fs::fchown(&self.descriptor, Some(owner), Some(group))?;
        Ok(rustix::fs::fchmod(&self.descriptor, OWNER)?)
    }

    /// Lets a user create files in it, and change that user's own files: neither the directory itself, nor files that others create there.
    ///
    /// # Errors
    /// The system's error.
    pub fn let_work(&self, user: User) -> io::Result<()> {
        self.share(user, Mode::RWXU | Mode::RWXG | Mode::SVTX)
    }

    /// Lets a user read what is in it.
    ///
    /// # Errors
    /// The system's error.
    pub fn let_read(&self, user: User) -> io::Result<()> {
        self.share(user, Mode::RWXU | Mode::RGRP | Mode::XGRP)
    }

    fn share(&self, user: User, mode: Mode) -> io::Result<()> {
        rustix::fs::fchown(&self.descriptor, None, Some(user.ids().1))?;
        Ok(rustix::fs::fchmod(&self.descriptor, mode)?)
    }

    /// Lets everybody who knows a name in it pass through it. Nobody else can list it.
    ///
    /// # Errors
    /// The system's error.
    pub fn let_pass(&self) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.descriptor, OWNER | Mode::XGRP | Mode::XOTH)?)
    }

    /// Gives an open file another name, here.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if there is anything of that name; else the system's error.
    pub fn link(&self, file: &File, name: impl AsRef<OsStr>) -> io::Result<()> {
        let open = format!("/proc/self/fd/{}", file.as_raw_fd());
        let name = single(name.as_ref())?;
        Ok(rustix::fs::linkat(CWD, open, &self.descriptor, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Moves the entry `old` of `from` here, where it replaces the entry `new`. The caller must check the result afterwards: somebody may have swapped it a
    /// moment before.
    ///
    /// # Errors
    /// The system's error.
    pub fn take(
        &self,
        from: &Dir,
        old: impl AsRef<OsStr>,
        new: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (old, new) = (single(old.as_ref())?, single(new.as_ref())?);
        Ok(rustix::fs::renameat(&from.descriptor, old, &self.descriptor, new)?)
    }

    /// The identity of the entry with this name, whatever it is.
    ///
    /// # Errors
    /// The system's error.
    pub fn identity(&self, name: impl AsRef<OsStr>) -> io::Result<Identity> {
        let name = single(name.as_ref())?;
        let stat = statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Identity { device: stat.st_dev, inode: stat.st_ino })
    }

    /// The names here.
    ///
    /// # Errors
    /// The system's error.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        self.entries()?.map(|entry| Ok(entry?.0)).collect()
    }

    /// Bytes left for this user on the file system.
    ///
    /// # Errors
    /// The system's error.
    pub fn available_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.descriptor)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Bytes on disk of all files and directories below. Files that disappear meanwhile do not count.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is too deep; else the system's error, for example for a directory that cannot be listed.
    pub fn used_bytes(&self) -> io::Result<u64> {
        let mut used: u64 = 0;
        let mut pending = vec![(Rc::new(self.try_clone()?), PathBuf::new(), 0)];
        while let Some((base, path, depth)) = pending.pop() {
            if depth > MEASURED_DEPTH_MAX {
                return Err(invalid("a tree of directories is deeper than can be measured"));
            }
            let is_base = path.as_os_str().is_empty();
            let opened = if is_base { base.try_clone() } else { base.dir(&path) };
            let Some(here) = unless_gone(opened)? else { continue };
            let here = Rc::new(here);
            let Some(entries) = unless_gone(here.entries())? else { continue };
            for entry in entries {
                let (name, _) = entry?;
                let stat = statat(&here.descriptor, &*name, AtFlags::SYMLINK_NOFOLLOW);
                let Some(stat) = unless_gone(stat.map_err(io::Error::from))? else { continue };
                let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
                used = used.saturating_add(blocks.saturating_mul(STAT_BLOCK_BYTES));
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    let below = path.join(&name);
                    pending.push(match below.as_os_str().len() <= PATH_BYTES_MAX {
                        true => (Rc::clone(&base), below, depth + 1),
                        false => (Rc::clone(&here), PathBuf::from(name), depth + 1),
                    });
                }
            }
        }
        Ok(used)
    }

    /// Removes the entry with this name and all below it: even directories to which their owner has no rights, and trees of any depth. A missing entry is fine.
    ///
    /// # Errors
    /// The system's error; part of it may then be gone.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = single(name.as_ref())?;
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // The entry is a directory; file systems report that as one or the other.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        self.open_for_removal(name)?.clear()?;
        Ok(rustix::fs::unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes everything in it.
    fn clear(&self) -> io::Result<()> {
        let mut levels: Vec<(Dir, OsString)> = Vec::new();
        let mut moved = 0;
        loop {
            let here = levels.last().map_or(self, |(dir, _)| dir);
            match here.remove_files()? {
                Some(name) if levels.len() < REMOVED_DEPTH_MAX => {
                    let below = here.open_for_removal(&name)?;
                    levels.push((below, name));
                }
                Some(name) => here.move_up(&name, self, &mut moved)?,
                None => {
                    let Some((_, name)) = levels.pop() else { return Ok(()) };
                    let parent = levels.last().map_or(self, |(dir, _)| dir);
                    rustix::fs::unlinkat(&parent.descriptor, &*name, AtFlags::REMOVEDIR)?;
                }
            }
        }
    }

    /// Removes everything but directories; stops at the first directory and returns its name.
    fn remove_files(&self) -> io::Result<Option<OsString>> {
        for entry in self.entries()? {
            let (name, kind) = entry?;
            let is_directory = match kind {
                FileType::Directory => true,
                FileType::Unknown => {
                    let stat = statat(&self.descriptor, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
                }
                _ => false,
            };
            if is_directory {
                return Ok(Some(name));
            }
            rustix::fs::unlinkat(&self.descriptor, &*name, AtFlags::empty())?;
        }
        Ok(None)
    }

    fn move_up(&self, name: &OsStr, top: &Dir, moved: &mut u32) -> io::Result<()> {
        while *moved < NAMES_MAX {
            *moved += 1;
            let to = format!("moved-up-{moved}");
            match rustix::fs::renameat(&self.descriptor, name, &top.descriptor, to) {
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                done => return Ok(done?),
            }
        }
        Err(invalid("a tree of directories is deeper than can be removed"))
    }

    /// Opens a directory here to remove its content, and gives this user the rights that this takes.
    fn open_for_removal(&self, name: &OsStr) -> io::Result<Dir> {
        let open = || openat(&self.descriptor, name, OFlags::DIRECTORY | OPEN, Mode::empty());
        let descriptor = match open() {
            Err(Errno::ACCESS) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OPEN;
                let place = openat(&self.descriptor, name, flags, Mode::empty())?;
                // Through the descriptor, as the name may belong to another file now. `fchmod` does not accept a descriptor that was opened without rights.
                let place = format!("/proc/self/fd/{}", place.as_raw_fd());
                rustix::fs::chmod(place, OWNER)?;
                open()?
            }
            opened => opened?,
        };
        if !Mode::from_raw_mode(rustix::fs::fstat(&descriptor)?.st_mode).contains(OWNER) {
            rustix::fs::fchmod(&descriptor, OWNER)?;
        }
        Ok(Dir { descriptor })
    }

    fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<(OsString, FileType)>>> {
        let entries = rustix::fs::Dir::read_from(&self.descriptor)?;
        Ok(entries.filter_map(|entry| match entry {
            Ok(entry) => {
                let name = entry.file_name().to_bytes();
                let is_named = name != b"." && name != b"..";
                is_named.then(|| Ok((OsString::from_vec(name.to_vec()), entry.file_type())))
            }
            Err(error) => Some(Err(error.into())),
        }))
    }

    fn open_below(&self, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let is_plain = |part| matches!(part, Component::Normal(_));
        if below.as_os_str().is_empty() || !below.components().all(is_plain) {
            return Err(invalid("the path may lead elsewhere"));
        }
        match knows_beneath() {
            true => Ok(openat2(&self.descriptor, below, flags | OPEN, Mode::empty(), BENEATH)?),
            false => self.walk(below, flags),
        }
    }

    /// The fallback for kernels without `openat2`: opens one name after the other, none of them a link.
    fn walk(&self, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let mut here = self.descriptor.try_clone()?;
        let mut parts = below.components().peekable();
        while let Some(part) = parts.next() {
            let way = if parts.peek().is_some() { OFlags::DIRECTORY | OFlags::PATH } else { flags };
            here = openat(&here, part.as_os_str(), way | OPEN, Mode::empty())?;
        }
        Ok(here)
    }
}

/// Gives an open file to this process's user; everybody else can only read it.
///
/// # Errors
/// The system's error.
pub fn seal(file: &File) -> io::Result<()> {
    rustix::fs::fchown(file, Some(rustix::process::geteuid()), None)?;
    Ok(rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH)?)
}

/// Opens a regular file by an absolute path without a link in it, for reading.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if the path is not absolute or the file is not a regular one; else the system's error.
pub fn file_without_links(path: &Path) -> io::Result<File> {
    let below = path.strip_prefix("/").map_err(|_| invalid("the path is not absolute"))?;
    Dir::open(Path::new("/"))?.file(below)
}

/// `None` if the file is gone.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

fn regular(descriptor: OwnedFd) -> io::Result<File> {
    match FileType::from_raw_mode(rustix::fs::fstat(descriptor.as_fd())?.st_mode) {
        FileType::RegularFile => Ok(File::from(descriptor)),
        _ => Err(invalid("it is no regular file")),
    }
}

/// A name that is a single component.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part.as_bytes() == name.as_bytes() => Ok(name),
        _ => Err(invalid("it is not the name of one file")),
    }
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// True if the kernel has `openat2`: Linux 5.6, and no container's filter against it.
fn knows_beneath() -> bool {
    static KNOWS: OnceLock<bool> = OnceLock::new();
    *KNOWS.get_or_init(|| {
        openat2(CWD, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::empty())
            .is_ok()
    })
}

#[cfg(test)]
mod tests;

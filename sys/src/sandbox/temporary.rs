//! Directories for temporary files that all processes of a machine share ([`SHARED`]). A confined process finds a directory of its own in their place, by mounts
//! that it alone sees.
//!
//! Invariants: nothing that it does there is seen outside, except in its own directory; what it may reach below a shared directory keeps its path, and is no more
//! open than before: the rules of its own directory also hold for what is mounted below, so what it may only read cannot be written through that mount. Where
//! an operator opened a shared directory to it, that one stays.

use std::ffi::{CStr, CString};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, move_mount, open_tree,
};
use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

use super::place::{Access, AllowedPath};
use crate::beneath::Dir;

/// Where programs make temporary files and shared memory without asking for a directory.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Mode of what only serves as a place to mount on.
const PLACE_MODE: u32 = 0o600;

/// How a process gets mounts of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// By a namespace of mounts: root's way.
    Mounts,
    /// By a namespace of users as well, in which it may mount: anybody's way, if the kernel lets them.
    UserAndMounts,
}

/// What a process does between fork and exec to have temporary directories of its own; made before, because nothing is allocated there.
#[derive(Debug)]
pub(super) struct Own {
    way: Way,
    /// Lines of its `uid_map` and `gid_map`: it is who it was.
    maps: [String; 2],
    /// Its directory, and the shared directories in whose place it appears.
    directory: CString,
    shared: Vec<CString>,
    /// Paths below shared directories that stay where they are, the outer ones first, and whether they can be written there.
    kept: Vec<(CString, bool)>,
    /// Descriptors of these, and of its directory, once the process has opened them.
    opened: Vec<OwnedFd>,
    working_directory: Option<CString>,
}

impl Own {
    /// For a process that finds `directory` in place of the shared ones, can reach `places` at their own paths, and works in `working_directory`.
    pub(super) fn prepare(
        way: Way,
        directory: &Path,
        places: &[AllowedPath],
        working_directory: Option<&Path>,
    ) -> io::Result<Own> {
        let shared: Vec<&Path> = SHARED.iter().map(Path::new).collect();
        let is_opened = |shared: &Path| places.iter().any(|place| shared.starts_with(&place.path));
        let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let shared: Vec<&Path> =
            shared.into_iter().filter(|path| is_directory(path) && !is_opened(path)).collect();
        let mut kept: Vec<(&Path, Access)> = Vec::new();
        let home = Dir::open(directory)?;
        for AllowedPath { path, access } in places {
            let below = shared.iter().find_map(|shared| path.strip_prefix(shared).ok());
            if let (Some(below), Ok(found)) = (below, path.metadata()) {
                make_place(&home, below, found.is_dir())?;
                kept.push((path, *access));
            }
        }
        kept.sort();
        let [user, group] = [geteuid().as_raw(), getegid().as_raw()];
        Ok(Own {
            way,
            maps: [user, group].map(|number| format!("{number} {number} 1\n")),
            directory: text(directory)?,
            opened: Vec::with_capacity(shared.len() + kept.len()),
            shared: shared.into_iter().map(text).collect::<io::Result<_>>()?,
            kept: kept
                .into_iter()
                .map(|(path, access)| Ok((text(path)?, access != Access::Read)))
                .collect::<io::Result<_>>()?,
            working_directory: working_directory.map(text).transpose()?,
        })
    }

    /// Lets this process have them: one with a single thread, which is about to become another program.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        self.leave_namespaces()?;
        // Else the machine would see what is mounted here.
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        for (path, is_written) in &self.kept {
            let mount = copy_of(path)?;
            if !is_written {
                write_protect(&mount)?;
            }
            self.opened.push(mount);
        }
        for _ in &self.shared {
            self.opened.push(copy_of(&self.directory)?);
        }
        let (kept, own) = self.opened.split_at(self.kept.len());
        let kept = kept.iter().zip(self.kept.iter().map(|(path, _)| path));
        for (mount, path) in own.iter().zip(&self.shared).chain(kept) {
            move_mount(mount, c"", CWD, path.as_c_str(), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        }
        // The way up from the directory it was in leads below what is now covered.
        match &self.working_directory {
            Some(directory) => Ok(rustix::process::chdir(directory.as_c_str())?),
            None => Ok(()),
        }
    }

    #[allow(unsafe_code, reason = "unsafe for a process with threads that share descriptors")]
    fn leave_namespaces(&self) -> io::Result<()> {
        let flags = match self.way {
            Way::Mounts => UnshareFlags::NEWNS,
            Way::UserAndMounts => UnshareFlags::NEWNS | UnshareFlags::NEWUSER,
        };
        // SAFETY: neither flag concerns descriptors, and this process has no other thread.
        unsafe { rustix::thread::unshare_unsafe(flags)? };
        if self.way == Way::UserAndMounts {
            write(c"/proc/self/setgroups", "deny")?;
            write(c"/proc/self/uid_map", &self.maps[0])?;
            write(c"/proc/self/gid_map", &self.maps[1])?;
        }
        Ok(())
    }
}

/// The way that works here, or why none does, found by trying it in a process that ends before it becomes a program.
pub(super) fn support(scratch: &Path) -> io::Result<Way> {
    match attempt(Way::Mounts, scratch) {
        Ok(()) => Ok(Way::Mounts),
        Err(_) => attempt(Way::UserAndMounts, scratch).map(|()| Way::UserAndMounts),
    }
}

#[allow(unsafe_code, reason = "what runs between fork and exec; the proof is at the call")]
fn attempt(way: Way, scratch: &Path) -> io::Result<()> {
    const WORKED: Errno = Errno::CANCELED;
    let mut own = Own::prepare(way, scratch, &[], None)?;
    let mut command = Command::new("/");
    // SAFETY: as in [`super::confine`].
    unsafe {
        command.pre_exec(move || {
            own.enter()?;
            write_protect(&copy_of(c"/")?)?;
            Err(WORKED.into())
        })
    };
    match command.spawn() {
        Err(error) if error.raw_os_error() == Some(WORKED.raw_os_error()) => Ok(()),
        Err(error) => Err(error),
        // A directory is no program.
        Ok(_) => Err(ErrorKind::Other.into()),
    }
}

/// Makes what a path below `home` is mounted on, without following links.
fn make_place(home: &Dir, below: &Path, is_directory: bool) -> io::Result<()> {
    let mut names: Vec<_> = below.iter().collect();
    let last = if is_directory { None } else { names.pop() };
    let mut directory = home.try_clone()?;
    for name in names {
        directory = directory.ensure_dir(name)?;
        directory.let_pass()?;
    }
    let Some(name) = last else { return Ok(()) };
    match directory.create(name, PLACE_MODE) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

/// What is seen at `path`, to be mounted elsewhere.
fn copy_of(path: &CStr) -> io::Result<OwnedFd> {
    let copy = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, path, copy | OpenTreeFlags::AT_RECURSIVE)?)
}

/// What is mounted by this descriptor can only be read through it.
#[allow(unsafe_code, reason = "a call that no library has; the proof is at the call")]
fn write_protect(mount: &OwnedFd) -> io::Result<()> {
    let change = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the kernel reads an empty text that ends, and as many bytes of `change` as it is told there are.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const change,
            size_of_val(&change),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn write(path: &CStr, text: &str) -> io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    match rustix::io::write(file, text.as_bytes())? {
        written if written == text.len() => Ok(()),
        _ => Err(Errno::IO.into()),
    }
}

fn text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

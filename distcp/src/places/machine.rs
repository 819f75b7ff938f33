//! This machine's file system. What a link leads to is copied, as Hadoop does and by the rules of the shell ([`tree`]).
//!
//! Invariants: only files are opened, and no opening waits: a FIFO or a device is refused; nothing is written through a link, and a link, a FIFO or a device is
//! replaced by nothing.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use client::interrupt::Undo;
use protocol::acl::AclEntry;
use protocol::namenode::DiffEntry;
use protocol::xattr::Xattr;
use sys::beneath::Dir;
use sys::fs::tree;
use sys::host::users;

use super::files::{Checksum, Creation, Files, NewFile, Outcome, Status, Writer};
use super::location::Location;
use crate::error::PlaceError;

/// See the module.
#[derive(Default)]
pub(super) struct Machine(pub(super) Creation);

fn known<T>(result: io::Result<T>) -> Outcome<T> {
    result.map_err(PlaceError::Machine)
}

fn lacks<T>(what: &'static str) -> Outcome<T> {
    Err(PlaceError::Lacks { what })
}

fn described(name: String, metadata: &Metadata) -> Status {
    let ms = |seconds: i64, nanos: i64| {
        u64::try_from(seconds).unwrap_or(0) * 1000 + u64::try_from(nanos).unwrap_or(0) / 1_000_000
    };
    Status {
        name,
        directory: metadata.is_dir(),
        length: if metadata.is_dir() { 0 } else { metadata.len() },
        replication: 1,
        block_size: BLOCK_BYTES,
        owner: users::user_name(metadata.uid()),
        group: users::group_name(metadata.gid()),
        mode: (metadata.mode() & 0o1777) as u16,
        mtime_ms: ms(metadata.mtime(), metadata.mtime_nsec()),
        atime_ms: ms(metadata.atime(), metadata.atime_nsec()),
        has_acl: false,
    }
}

fn not_utf8(path: &OsStr) -> PlaceError {
    let text = format!("{} is not UTF-8", path.display());
    PlaceError::Machine(io::Error::new(io::ErrorKind::InvalidData, text))
}

fn described_all(entries: Vec<(PathBuf, Metadata)>) -> Outcome<Vec<Status>> {
    let one = |(path, metadata): (PathBuf, Metadata)| match path.file_name().and_then(OsStr::to_str)
    {
        Some(name) => Ok(described(name.to_owned(), &metadata)),
        None => Err(not_utf8(path.as_os_str())),
    };
    entries.into_iter().map(one).collect()
}

/// What Hadoop says of local files.
const BLOCK_BYTES: u64 = 32 << 20;

/// A file that is written.
struct Written {
    file: File,
    path: PathBuf,
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writer for Written {
    fn undo(&self, keep: bool) -> Undo {
        let path = self.path.clone();
        Box::new(move || match keep {
            true => Ok(()),
            false => Ok(fs::remove_file(path)?),
        })
    }

    fn finish(self: Box<Self>) -> Outcome<()> {
        known(self.file.sync_all())
    }
}

/// As [`Files::special`].
fn special(path: &Path) -> Outcome<Option<&'static str>> {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if tree::is_missing(&error) => return Ok(None),
        Err(error) => return Err(PlaceError::Machine(error)),
    };
    Ok(match kind {
        kind if kind.is_file() || kind.is_dir() => None,
        kind if kind.is_symlink() => Some("a symbolic link"),
        kind if kind.is_fifo() => Some("a FIFO"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    })
}

/// Refuses what [`special`] finds.
fn check_plain(path: &Path) -> Outcome<()> {
    match special(path)? {
        Some(kind) => Err(PlaceError::Special { kind }),
        None => Ok(()),
    }
}

fn written(path: &str, options: &mut OpenOptions) -> Outcome<Box<dyn Writer>> {
    check_plain(Path::new(path))?;
    let path = PathBuf::from(path);
    let file = known(sys::fs::open_file(&path, options))?;
    Ok(Box::new(Written { file, path }))
}

impl Files for Machine {
    fn status(&self, path: &str) -> Outcome<Option<Status>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(described(String::new(), &metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(PlaceError::Machine(error)),
        }
    }

    fn list(&self, path: &str) -> Outcome<Vec<Status>> {
        described_all(known(tree::list(Path::new(path)))?)
    }

    fn list_unfollowed(&self, path: &str) -> Outcome<Vec<Status>> {
        described_all(known(tree::list_unfollowed(Path::new(path)))?)
    }

    fn special(&self, path: &str) -> Outcome<Option<&'static str>> {
        special(Path::new(path))
    }

    /// Also under another name.
    fn is_one_file(
        &self,
        _: &dyn Files,
        (source, target): (&Location, &Location),
    ) -> Outcome<bool> {
        let identity = |path: &str| match fs::metadata(path) {
            Ok(found) => Ok(Some((found.dev(), found.ino()))),
            Err(error) if tree::is_missing(&error) => Ok(None),
            Err(error) => Err(PlaceError::Machine(error)),
        };
        if source.place != target.place {
            return Ok(false);
        }
        let found = identity(&source.path)?;
        Ok(found.is_some() && found == identity(&target.path)?)
    }

    fn real(&self, path: &str) -> Outcome<String> {
        let path = Path::new(path);
        for above in path.ancestors() {
            match fs::canonicalize(above) {
                Err(error) if tree::is_missing(&error) => {}
                Err(error) => return Err(PlaceError::Machine(error)),
                Ok(real) => {
                    let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
                    let real = real.join(rest);
                    return real.into_os_string().into_string().map_err(|real| not_utf8(&real));
                }
            }
        }
        known(Err(io::ErrorKind::NotFound.into()))
    }

    fn open(&self, path: &str, offset: u64) -> Outcome<Box<dyn Read>> {
        let mut file = known(sys::fs::open_input(Path::new(path)))?;
        known(file.seek(SeekFrom::Start(offset)))?;
        Ok(Box::new(file))
    }

    fn create(&self, path: &str, new: NewFile) -> Outcome<Box<dyn Writer>> {
        let mut options = OpenOptions::new();
        let (mode, _) = self.0.umask().of_file();
        options.write(true).mode(mode.into());
        match new.overwrite {
            true => options.create(true).truncate(true),
            false => options.create_new(true),
        };
        written(path, &mut options)
    }

    fn append(&self, path: &str) -> Outcome<Box<dyn Writer>> {
        written(path, OpenOptions::new().append(true))
    }

    fn make_directories(&self, path: &str) -> Outcome<()> {
        let (mode, _) = self.0.umask().of_directory();
        known(DirBuilder::new().recursive(true).mode(mode.into()).create(path))
    }

    fn can_rename(&self, from: &str, to: &str) -> Outcome<bool> {
        let disk = |path: &str| {
            // The nearest directory that is there: those below it will be made on the same disk.
            let mut above = Path::new(path).ancestors();
            let there = above.find_map(|above| match fs::metadata(above) {
                Err(error) if tree::is_missing(&error) => None,
                found => Some(found),
            });
            there.transpose().map(|found| found.map(|metadata| metadata.dev()))
        };
        Ok(known(disk(from))? == known(disk(to))?)
    }

    fn rename(&self, from: &str, to: &str) -> Outcome<()> {
        check_plain(Path::new(to))?;
        known(fs::rename(from, to))
    }

    fn delete(&self, path: &str) -> Outcome<bool> {
        let path = Path::new(path);
        let removed = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(PlaceError::Machine(error)),
        }
    }

    fn delete_below(&self, directory: &str, relative: &str) -> Outcome<bool> {
        let delete = || {
            let top = Dir::open(Path::new(directory))?;
            let (parent, name) = match relative.rsplit_once('/') {
                Some((parent, name)) => (top.dir(parent)?, name),
                None => (top, relative),
            };
            parent.identity(name)?;
            parent.remove(name)
        };
        match delete() {
            Ok(()) => Ok(true),
            Err(error) if tree::is_missing(&error) => Ok(false),
            Err(error) => Err(PlaceError::Machine(error)),
        }
    }

    fn checksum(&self, _: &str) -> Outcome<Option<Checksum>> {
        Ok(None)
    }

    fn set_mode(&self, path: &str, mode: u16) -> Outcome<()> {
        known(fs::set_permissions(path, Permissions::from_mode(u32::from(mode))))
    }

    fn set_owner(&self, path: &str, owner: &str, group: &str) -> Outcome<()> {
        let id = |name: &str, found: Option<u32>| match (name, found) {
            ("", _) => Ok(None),
            (_, Some(id)) => Ok(Some(id)),
            (name, None) => {
                let text = format!("this machine has no {name}");
                Err(PlaceError::Machine(io::Error::new(io::ErrorKind::NotFound, text)))
            }
        };
        let user = id(owner, users::user_id(owner))?;
        let group = id(group, users::group_id(group))?;
        known(std::os::unix::fs::chown(path, user, group))
    }

    fn set_times(&self, path: &str, mtime_ms: u64, atime_ms: u64) -> Outcome<()> {
        known(sys::fs::set_times(Path::new(path), Some(mtime_ms), Some(atime_ms)))
    }

    fn set_replication(&self, _: &str, _: u16) -> Outcome<()> {
        Ok(())
    }

    fn acl(&self, _: &str) -> Outcome<Vec<AclEntry>> {
        lacks("access control lists")
    }

    fn set_acl(&self, _: &str, _: &[AclEntry]) -> Outcome<()> {
        lacks("access control lists")
    }

    fn xattrs(&self, _: &str) -> Outcome<Vec<Xattr>> {
        lacks("extended attributes")
    }

    fn set_xattr(&self, _: &str, _: &Xattr) -> Outcome<()> {
        lacks("extended attributes")
    }

    fn changes(&self, _: &str, _: &str, _: &str) -> Outcome<Vec<DiffEntry>> {
        lacks("snapshots")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn disks_are_told_apart_where_nothing_is_yet() {
        let scratch = tempfile::tempdir().unwrap();
        let here = scratch.path().join("a/b").to_str().unwrap().to_owned();
        let up = scratch.path().to_str().unwrap();
        assert!(Machine::default().can_rename(&here, up).unwrap());
        assert!(!Machine::default().can_rename("/proc/none/x", &here).unwrap());
    }

    #[test]
    fn what_is_no_file_is_neither_replaced_nor_written_to() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
        fs::write(at("f"), "text").unwrap();
        fs::write(at("new"), "new").unwrap();
        fs::create_dir(at("d")).unwrap();
        for (to, name) in [("f", "link"), ("d", "to-d"), ("nowhere", "lost"), ("ring", "ring")] {
            symlink(to, at(name)).unwrap();
        }
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let machine = Machine::default();
        let new = NewFile { overwrite: true, ..NewFile::default() };
        for (name, kind) in [
            ("link", "a symbolic link"),
            ("to-d", "a symbolic link"),
            ("lost", "a symbolic link"),
            ("ring", "a symbolic link"),
            ("pipe", "a FIFO"),
            ("socket", "a socket"),
        ] {
            assert_eq!(machine.special(&at(name)).unwrap(), Some(kind), "{name}");
            let before = fs::symlink_metadata(at(name)).unwrap().ino();
            for refused in [
                machine.rename(&at("new"), &at(name)).unwrap_err(),
                machine.create(&at(name), new).err().unwrap(),
                machine.append(&at(name)).err().unwrap(),
            ] {
                assert!(matches!(refused, PlaceError::Special { .. }), "{name}: {refused}");
            }
            assert_eq!(fs::symlink_metadata(at(name)).unwrap().ino(), before, "{name}");
        }
        assert_eq!(machine.special("/dev/zero").unwrap(), Some("a device"));
        for name in ["f", "d", "none", "f/none"] {
            assert_eq!(machine.special(&at(name)).unwrap(), None, "{name}");
        }
        assert_eq!(fs::read(at("f")).unwrap(), b"text");
        machine.rename(&at("new"), &at("f")).unwrap();
        assert_eq!(fs::read(at("f")).unwrap(), b"new");
    }

    #[test]
    fn links_are_followed_by_the_rules_of_the_shell_and_only_files_are_opened() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/f"), "text").unwrap();
        for (to, name) in [("f", "link"), ("nowhere", "lost"), ("/dev/zero", "zero"), (".", "a")] {
            symlink(to, at(&format!("d/{name}"))).unwrap();
        }
        assert!(std::process::Command::new("mkfifo").arg(at("d/pipe")).status().unwrap().success());
        let names: Vec<String> =
            Machine::default().list(&at("d")).unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["a", "f", "link", "pipe", "zero"]);
        let ring = Machine::default().list(&at("d/a")).unwrap_err().to_string();
        assert!(ring.contains("Too many levels"), "{ring}");
        let mut text = String::new();
        Machine::default().open(&at("d/link"), 1).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "ext");
        for name in ["d/pipe", "d/zero"] {
            let refused = Machine::default().open(&at(name), 0).err().unwrap().to_string();
            assert_eq!(refused, "it is no file");
            assert!(Machine::default().append(&at(name)).is_err(), "{name}");
        }
    }
}

//! This machine's file system.

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use protocol::acl::AclEntry;
use protocol::namenode::DiffEntry;
use protocol::xattr::Xattr;
use sys::host::users;

use super::files::{Checksum, Files, NewFile, Outcome, Status, Writer};
use crate::error::PlaceError;

/// See the module.
pub(super) struct Machine;

fn known<T>(result: io::Result<T>) -> Outcome<T> {
    result.map_err(PlaceError::Machine)
}

fn lacks<T>(what: &'static str) -> Outcome<T> {
    Err(PlaceError::Lacks { what })
}

fn status(path: &Path, name: String) -> io::Result<Option<Status>> {
    // What a link leads to is copied, as Hadoop does.
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let ms = |seconds: i64, nanos: i64| {
        u64::try_from(seconds).unwrap_or(0) * 1000 + u64::try_from(nanos).unwrap_or(0) / 1_000_000
    };
    Ok(Some(Status {
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
    }))
}

/// What Hadoop says of local files.
const BLOCK_BYTES: u64 = 32 << 20;

impl Writer for File {
    fn finish(self: Box<Self>) -> Outcome<()> {
        known(self.sync_all())
    }
}

impl Files for Machine {
    fn status(&self, path: &str) -> Outcome<Option<Status>> {
        known(status(Path::new(path), String::new()))
    }

    fn list(&self, path: &str) -> Outcome<Vec<Status>> {
        let mut found = Vec::new();
        for entry in known(fs::read_dir(path))? {
            let entry = known(entry)?;
            let Ok(name) = entry.file_name().into_string() else {
                let text = format!("{} is not UTF-8", entry.path().display());
                return Err(PlaceError::Machine(io::Error::new(io::ErrorKind::InvalidData, text)));
            };
            match known(status(&entry.path(), name))? {
                Some(status) => found.push(status),
                None => {
                    let text = format!("{} leads nowhere", entry.path().display());
                    return Err(PlaceError::Machine(io::Error::new(io::ErrorKind::NotFound, text)));
                }
            }
        }
        found.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(found)
    }

    fn open(&self, path: &str, offset: u64) -> Outcome<Box<dyn Read>> {
        let mut file = known(File::open(path))?;
        known(file.seek(SeekFrom::Start(offset)))?;
        Ok(Box::new(file))
    }

    fn create(&self, path: &str, new: NewFile) -> Outcome<Box<dyn Writer>> {
        let mut options = OpenOptions::new();
        options.write(true);
        match new.overwrite {
            true => options.create(true).truncate(true),
            false => options.create_new(true),
        };
        Ok(Box::new(known(options.open(path))?))
    }

    fn append(&self, path: &str) -> Outcome<Box<dyn Writer>> {
        Ok(Box::new(known(OpenOptions::new().append(true).open(path))?))
    }

    fn make_directories(&self, path: &str) -> Outcome<()> {
        known(fs::create_dir_all(path))
    }

    fn rename(&self, from: &str, to: &str) -> Outcome<()> {
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
        let time = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let times = FileTimes::new().set_modified(time(mtime_ms)).set_accessed(time(atime_ms));
        known(File::open(path).and_then(|file| file.set_times(times)))
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

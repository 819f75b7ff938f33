//! The file system of the configured cluster.

use std::io::{self, Read, Write};

use client::dfs::checksum::FileChecksum;
use client::dfs::{CreateOptions, DfsClient, DfsError, DfsReader, DfsWriter, Parents};
use client::interrupt::Undo;
use protocol::acl::{AclChange, AclEntry};
use protocol::namenode::{DiffEntry, FileStatus};
use protocol::xattr::{Xattr, XattrFlag};
use protocol::{DfsPath, ErrorKind};

use super::files::{Checksum, Creation, Files, NewFile, Outcome, Status, Writer};
use super::rights;
use crate::error::PlaceError;

/// See the module.
pub(super) struct Cluster(pub(super) DfsClient, pub(super) Creation);

fn parse(path: &str) -> Outcome<DfsPath> {
    DfsPath::parse(path).map_err(PlaceError::Path)
}

fn known<T>(result: Result<T, DfsError>) -> Outcome<T> {
    result.map_err(PlaceError::Cluster)
}

impl From<FileStatus> for Status {
    fn from(status: FileStatus) -> Self {
        Status {
            name: status.name,
            directory: status.directory,
            length: status.length,
            replication: status.replication,
            block_size: status.block_size,
            owner: status.owner,
            group: status.group,
            mode: status.mode,
            mtime_ms: status.mtime_ms,
            atime_ms: status.atime_ms,
            has_acl: status.has_acl,
        }
    }
}

/// Reads on from an offset.
struct Cursor {
    reader: DfsReader,
    offset: u64,
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// A file that is written, and who writes it.
struct Written {
    writer: DfsWriter,
    dfs: DfsClient,
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Writer for Written {
    fn undo(&self, keep: bool) -> Undo {
        // By its inode: what others have put at its path meanwhile is not touched.
        let (dfs, file) = (self.dfs.clone(), self.writer.inode());
        Box::new(move || match dfs.abandon(file, keep) {
            // It is complete.
            Err(error) if error.kind() == Some(ErrorKind::LeaseExpired) => Ok(()),
            ended => Ok(ended.map(drop)?),
        })
    }

    fn finish(self: Box<Self>) -> Outcome<()> {
        known(self.writer.close())
    }
}

impl Cluster {
    fn written(&self, writer: DfsWriter) -> Box<dyn Writer> {
        Box::new(Written { writer, dfs: self.0.clone() })
    }
}

impl Files for Cluster {
    fn status(&self, path: &str) -> Outcome<Option<Status>> {
        Ok(known(self.0.try_status(&parse(path)?))?.map(Status::from))
    }

    fn list(&self, path: &str) -> Outcome<Vec<Status>> {
        let path = parse(path)?;
        self.0.list(&path).map(|status| known(status).map(Status::from)).collect()
    }

    fn open(&self, path: &str, offset: u64) -> Outcome<Box<dyn Read>> {
        let reader = known(self.0.open(&parse(path)?))?;
        Ok(Box::new(Cursor { reader, offset }))
    }

    fn create(&self, path: &str, new: NewFile) -> Outcome<Box<dyn Writer>> {
        let options = CreateOptions {
            overwrite: new.overwrite,
            parents: Parents::None,
            replication: self.1.replication(&new),
            block_size: self.1.block_size(&new),
            ..CreateOptions::masked(self.1.umask())
        };
        Ok(self.written(known(self.0.create(&parse(path)?, options))?))
    }

    fn append(&self, path: &str) -> Outcome<Box<dyn Writer>> {
        Ok(self.written(known(self.0.append(&parse(path)?, false))?))
    }

    fn make_directories(&self, path: &str) -> Outcome<()> {
        known(self.0.mkdirs_masked(&parse(path)?, self.1.umask(), true))
    }

    fn rename(&self, from: &str, to: &str) -> Outcome<()> {
        known(self.0.rename_to(&parse(from)?, &parse(to)?, true))
    }

    fn delete(&self, path: &str) -> Outcome<bool> {
        known(self.0.delete(&parse(path)?, true))
    }

    fn checksum(&self, path: &str) -> Outcome<Option<Checksum>> {
        let sum = known(FileChecksum::of(&self.0, &parse(path)?))?;
        Ok(Some(Checksum { algorithm: sum.algorithm(), hex: sum.hex() }))
    }

    fn set_mode(&self, path: &str, mode: u16) -> Outcome<()> {
        known(self.0.set_mode(&parse(path)?, mode))
    }

    fn set_owner(&self, path: &str, owner: &str, group: &str) -> Outcome<()> {
        known(self.0.set_owner(&parse(path)?, owner, group))
    }

    fn set_times(&self, path: &str, mtime_ms: u64, atime_ms: u64) -> Outcome<()> {
        known(self.0.set_times(&parse(path)?, Some(mtime_ms), Some(atime_ms)))
    }

    fn set_replication(&self, path: &str, replication: u16) -> Outcome<()> {
        known(self.0.set_replication(&parse(path)?, replication)).map(|_| ())
    }

    fn acl(&self, path: &str) -> Outcome<Vec<AclEntry>> {
        Ok(known(self.0.acl(&parse(path)?))?.whole())
    }

    fn set_acl(&self, path: &str, entries: &[AclEntry]) -> Outcome<()> {
        let path = parse(path)?;
        if rights::is_plain(entries) {
            return known(self.0.change_acl(&path, AclChange::RemoveAll));
        }
        known(self.0.change_acl(&path, AclChange::Replace(entries.to_vec())))?;
        match rights::has_default(entries) {
            true => Ok(()),
            false => known(self.0.change_acl(&path, AclChange::RemoveDefault)),
        }
    }

    fn xattrs(&self, path: &str) -> Outcome<Vec<Xattr>> {
        known(self.0.xattrs(&parse(path)?, &[]))
    }

    fn set_xattr(&self, path: &str, xattr: &Xattr) -> Outcome<()> {
        let Xattr { name, value } = xattr;
        known(self.0.set_xattr(&parse(path)?, name, value, XattrFlag::CreateOrReplace))
    }

    fn changes(&self, path: &str, from: &str, to: &str) -> Outcome<Vec<DiffEntry>> {
        known(self.0.snapshot_diff(&parse(path)?, from, to))
    }
}

//! The operations of a file system, and what they take and give.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use client::interrupt::Undo;
use mr_api::built_in::Settings;
use protocol::acl::AclEntry;
use protocol::namenode::DiffEntry;
use protocol::property::{Umask, keys};
use protocol::xattr::Xattr;
use serde::{Deserialize, Serialize};

use super::location::{Location, join};
use crate::error::PlaceError;

pub(crate) type Outcome<T> = Result<T, PlaceError>;

/// What is known of a file or a directory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Its last path element; empty for one that was asked for by its path.
    pub(crate) name: String,
    pub(crate) directory: bool,
    pub(crate) length: u64,
    pub(crate) replication: u16,
    pub(crate) block_size: u64,
    pub(crate) owner: String,
    pub(crate) group: String,
    pub(crate) mode: u16,
    pub(crate) mtime_ms: u64,
    pub(crate) atime_ms: u64,
    pub(crate) has_acl: bool,
}

impl Status {
    /// As messages name it.
    pub(crate) fn kind(&self) -> &'static str {
        if self.directory { "dir" } else { "file" }
    }
}

/// How files and directories are made where a copy keeps nothing of the source: as the properties of the command say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Creation {
    /// Permission bits that they do not get.
    umask: u16,
    replication: Option<u16>,
    block_size: Option<u64>,
}

impl Creation {
    /// # Errors
    /// If one of them does not take its value.
    pub(crate) fn of(settings: &Settings) -> mr_api::Result<Self> {
        Ok(Creation {
            umask: settings.value(keys::UMASK)?.unwrap_or_default().0,
            replication: settings.value(keys::REPLICATION)?.map(|count| count.0),
            block_size: settings.value(keys::BLOCK_SIZE)?.map(|size| size.0),
        })
    }

    pub(super) fn umask(self) -> Umask {
        Umask(self.umask)
    }

    /// A file's number of replicas; the file system's own for `None`.
    pub(super) fn replication(self, new: &NewFile) -> Option<u16> {
        new.replication.or(self.replication)
    }

    /// A file's block size; the file system's own for `None`.
    pub(super) fn block_size(self, new: &NewFile) -> Option<u64> {
        new.block_size.or(self.block_size)
    }
}

/// How a file is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NewFile {
    /// As the source has it, if that is kept.
    pub(crate) replication: Option<u16>,
    /// Likewise.
    pub(crate) block_size: Option<u64>,
    /// Replace what is there.
    pub(crate) overwrite: bool,
}

/// A file that is written.
pub(crate) trait Writer: Write {
    /// What ends it in its writer's place when the user interrupts: it is deleted, or, with `keep`, closed at its present length.
    fn undo(&self, keep: bool) -> Undo;
    /// Makes it complete and durable.
    fn finish(self: Box<Self>) -> Outcome<()>;
}

/// A checksum, of the same kind if `algorithm` is the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Checksum {
    pub(crate) algorithm: String,
    pub(crate) hex: String,
}

/// A file system.
pub(crate) trait Files: Send + Sync {
    /// What is at `path`, if something is.
    fn status(&self, path: &str) -> Outcome<Option<Status>>;
    /// The entries of a directory, by name.
    fn list(&self, path: &str) -> Outcome<Vec<Status>>;
    /// As [`Files::list`], but each entry as itself: a link is no directory.
    fn list_unfollowed(&self, path: &str) -> Outcome<Vec<Status>> {
        self.list(path)
    }
    /// What is at `path` itself if that is neither a file nor a directory: a link, a FIFO, a device, a socket. No file takes its place.
    fn special(&self, _path: &str) -> Outcome<Option<&'static str>> {
        Ok(None)
    }
    /// The path without links, as far as it is there.
    fn real(&self, path: &str) -> Outcome<String> {
        Ok(path.to_owned())
    }
    /// True if these are one file: a source of other files, and a target of these.
    fn is_one_file(
        &self,
        other: &dyn Files,
        (source, target): (&Location, &Location),
    ) -> Outcome<bool> {
        Ok(source.place == target.place && other.real(&source.path)? == self.real(&target.path)?)
    }
    /// The bytes from `offset` on.
    fn open(&self, path: &str, offset: u64) -> Outcome<Box<dyn Read>>;
    /// A new file; its directory exists.
    fn create(&self, path: &str, new: NewFile) -> Outcome<Box<dyn Writer>>;
    /// Goes on at the end of a file.
    fn append(&self, path: &str) -> Outcome<Box<dyn Writer>>;
    /// Makes a directory, and those above it.
    fn make_directories(&self, path: &str) -> Outcome<()>;
    /// True if a rename can lead from one directory to the other, be they there or not.
    fn can_rename(&self, _from: &str, _to: &str) -> Outcome<bool> {
        Ok(true)
    }
    /// Gives a file or directory another path; a file that is there is replaced.
    fn rename(&self, from: &str, to: &str) -> Outcome<()>;
    /// Deletes a tree; false if there is none.
    fn delete(&self, path: &str) -> Outcome<bool>;
    /// Deletes a tree by its path below a directory, and passes no link on the way; false if there is none.
    fn delete_below(&self, directory: &str, relative: &str) -> Outcome<bool> {
        self.delete(&join(directory, relative))
    }
    /// The checksum of a file, if the place has such.
    fn checksum(&self, path: &str) -> Outcome<Option<Checksum>>;
    fn set_mode(&self, path: &str, mode: u16) -> Outcome<()>;
    /// An empty name stays as it is.
    fn set_owner(&self, path: &str, owner: &str, group: &str) -> Outcome<()>;
    fn set_times(&self, path: &str, mtime_ms: u64, atime_ms: u64) -> Outcome<()>;
    fn set_replication(&self, path: &str, replication: u16) -> Outcome<()>;
    /// The whole access control list, that of the permission bits if there is no other.
    fn acl(&self, path: &str) -> Outcome<Vec<AclEntry>>;
    fn set_acl(&self, path: &str, entries: &[AclEntry]) -> Outcome<()>;
    fn xattrs(&self, path: &str) -> Outcome<Vec<Xattr>>;
    fn set_xattr(&self, path: &str, xattr: &Xattr) -> Outcome<()>;
    /// What changed between two snapshots; an empty name is the present.
    fn changes(&self, path: &str, from: &str, to: &str) -> Outcome<Vec<DiffEntry>>;
}

/// Tokens for other clusters, by `host:port`.
pub(crate) type Tokens = BTreeMap<String, String>;

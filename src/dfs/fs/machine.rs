//! This machine's file system (`file:///…`) as the shell's commands use it: the counterpart to the cluster's in [`super::store`].
//!
//! Links are followed as in Hadoop's local file system, with two exceptions: deleting removes a link and not its target, and no directory is entered below
//! itself ([`tree`]).

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use protocol::InodeId;
use protocol::namenode::{ContentSummary, FileStatus};
use protocol::permission::Action;
use protocol::property::Umask;
use sys::fs::tree::{self, is_missing};
use sys::host::users;

use super::sums;

/// Hadoop's block size for a local file (`fs.local.block.size`).
const BLOCK_BYTES: u64 = 32 << 20;
/// Bytes moved at a time: few system calls, and little memory for a copy.
const BUFFER_BYTES: usize = 1 << 20;
/// Permission bits that the shell knows.
pub(crate) const MODE_MASK: u32 = 0o1777;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    users: Names,
    groups: Names,
}

/// Cached names of ids: a listing needs the same few repeatedly.
#[derive(Debug, Default)]
struct Names(Mutex<BTreeMap<u32, String>>);

impl Names {
    fn of(&self, number: u32, ask: fn(u32) -> String) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(number).or_insert_with(|| ask(number)).clone()
    }
}

impl Machine {
    /// The status of a path.
    pub(crate) fn status(&self, path: &Path) -> io::Result<FileStatus> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(self.describe(name.unwrap_or_default(), &fs::metadata(path)?))
    }

    /// The status of a path, if anything exists there.
    pub(crate) fn find(&self, path: &Path) -> io::Result<Option<FileStatus>> {
        match self.status(path) {
            Err(error) if is_missing(&error) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Entries of a directory in byte order of names, without links that lead nowhere. A name in a status is text; the path has it as it is.
    pub(crate) fn entries(&self, path: &Path) -> io::Result<Vec<(PathBuf, FileStatus)>> {
        let described = |(path, metadata): (PathBuf, Metadata)| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let status = self.describe(name, &metadata);
            (path, status)
        };
        Ok(tree::list(path)?.into_iter().map(described).collect())
    }

    /// True if a directory has no entry.
    pub(crate) fn is_empty(&self, path: &Path) -> io::Result<bool> {
        Ok(fs::read_dir(path)?.next().is_none())
    }

    /// Totals of a tree.
    pub(crate) fn summary(&self, path: &Path) -> io::Result<ContentSummary> {
        let mut totals = ContentSummary::default();
        let mut directories = vec![path.to_owned()];
        while let Some(directory) = directories.pop() {
            totals.directory_count += 1;
            for (path, entry) in self.entries(&directory)? {
                if entry.directory {
                    directories.push(path);
                    continue;
                }
                totals.file_count += 1;
                totals.length += entry.length;
                totals.space_consumed += entry.length;
            }
        }
        Ok(totals)
    }

    /// Makes a directory; with `parents`, an existing one is no error.
    pub(crate) fn mkdirs(&self, path: &Path, umask: Umask, parents: bool) -> io::Result<()> {
        DirBuilder::new().recursive(parents).mode(umask.of_directory().0.into()).create(path)
    }

    /// Deletes; false for the root, which stays, and if there was nothing.
    pub(crate) fn delete(&self, path: &Path, recursive: bool) -> io::Result<bool> {
        if path.parent().is_none() {
            return Ok(false);
        }
        let deleted = match fs::symlink_metadata(path) {
            Ok(metadata) if !metadata.is_dir() => fs::remove_file(path),
            Ok(_) if recursive => fs::remove_dir_all(path),
            Ok(_) => fs::remove_dir(path),
            Err(error) => Err(error),
        };
        match deleted {
            Err(error) if is_missing(&error) => Ok(false),
            deleted => deleted.map(|()| true),
        }
    }

    /// Renames to exactly `to`, which must not exist.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        sys::fs::rename_new(from, to)
    }

    /// Sets permission bits.
    pub(crate) fn set_mode(&self, path: &Path, mode: u16) -> io::Result<()> {
        fs::set_permissions(path, Permissions::from_mode(u32::from(mode)))
    }

    /// Sets owner and group; an empty one stays unchanged.
    pub(crate) fn set_owner(&self, path: &Path, owner: &str, group: &str) -> io::Result<()> {
        let number = |name: &str, known: fn(&str) -> Option<u32>| match name {
            "" => Ok(None),
            name => known(name).or_else(|| name.parse().ok()).map(Some).ok_or_else(|| {
                let text = format!("this machine does not know `{name}'");
                io::Error::new(ErrorKind::InvalidInput, text)
            }),
        };
        chown(path, number(owner, users::user_id)?, number(group, users::group_id)?)
    }

    /// Sets times, milliseconds since the epoch; `None` leaves one unchanged.
    pub(crate) fn set_times(
        &self,
        path: &Path,
        mtime_ms: Option<u64>,
        atime_ms: Option<u64>,
    ) -> io::Result<()> {
        sys::fs::set_times(path, mtime_ms, atime_ms)
    }

    /// True if this process may do `action` with a path.
    pub(crate) fn allows(&self, path: &Path, action: Action) -> io::Result<bool> {
        let (read, write) = (action.implies(Action::READ), action.implies(Action::WRITE));
        sys::fs::may(path, read, write)
    }

    /// Opens a file for reading.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        let file = File::open(path)?;
        // Opening a directory succeeds; only reading it fails.
        if file.metadata()?.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        Ok(file)
    }

    /// Opens a file for writing. Its parent must exist. With `publish_as`, the name at first must be free.
    pub(crate) fn create(
        &self,
        path: &Path,
        publish_as: Option<&Path>,
        overwrite: bool,
        mode: u16,
    ) -> io::Result<MachineWriter> {
        sums::begin(publish_as.unwrap_or(path));
        let is_new = publish_as.is_some() || !overwrite;
        let in_place = !is_new && sys::fs::is_written_in_place(path);
        let file = match in_place {
            true => sys::fs::open_in_place(path, u32::from(mode))?,
            false => OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(!is_new)
                .create_new(is_new)
                .mode(u32::from(mode))
                .open(path)?,
        };
        if publish_as.is_none() {
            sums::remove_beside(path).map_err(|(_, error)| error)?;
        }
        let publish_as = publish_as.map(Path::to_owned);
        let path = path.to_owned();
        Ok(MachineWriter { file, path, publish_as, overwrite, stays: in_place })
    }

    fn describe(&self, name: String, metadata: &Metadata) -> FileStatus {
        let ms = |seconds: i64, nanos: i64| {
            u64::try_from(seconds.saturating_mul(1000) + nanos / 1_000_000).unwrap_or_default()
        };
        FileStatus {
            name,
            inode: InodeId(metadata.ino()),
            directory: metadata.is_dir(),
            length: metadata.len(),
            replication: 1,
            block_size: BLOCK_BYTES,
            owner: self.users.of(metadata.uid(), users::user_name),
            group: self.groups.of(metadata.gid(), users::group_name),
            mode: u16::try_from(metadata.mode() & MODE_MASK).expect("ten bits"),
            mtime_ms: ms(metadata.mtime(), metadata.mtime_nsec()),
            atime_ms: ms(metadata.atime(), metadata.atime_nsec()),
            children_count: 0,
            open: false,
            has_acl: false,
            snapshottable: false,
            storage_policy: None,
        }
    }
}

/// Passes `length` bytes from `offset` to `sink` with their offsets, in order. `fail` converts read errors.
pub(crate) fn read_range<E>(
    file: &mut File,
    (offset, length): (u64, u64),
    fail: &dyn Fn(&io::Error) -> E,
    mut sink: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    // A pipe can be read from its start only, and needs no seek for that.
    if offset > 0 {
        file.seek(SeekFrom::Start(offset)).map_err(|error| fail(&error))?;
    }
    let mut buffer = vec![0; usize::try_from(length).unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES)];
    let (mut at, end) = (offset, offset.saturating_add(length));
    while at < end {
        let max = usize::try_from(end - at).unwrap_or(BUFFER_BYTES).min(buffer.len());
        let count = match file.read(&mut buffer[..max]) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(fail(&error)),
        };
        sink(at, &buffer[..count])?;
        at += count as u64;
    }
    Ok(())
}

/// A file of this machine being written. One that is dropped before [`MachineWriter::close`] is removed.
#[derive(Debug)]
pub(crate) struct MachineWriter {
    file: File,
    path: PathBuf,
    publish_as: Option<PathBuf>,
    overwrite: bool,
    /// True once it is complete; from the start for what was not created here.
    stays: bool,
}

impl MachineWriter {
    /// Appends everything from `source`.
    pub(crate) fn write_from<E>(
        &mut self,
        source: &mut impl Read,
        fail_read: &dyn Fn(&io::Error) -> E,
        fail_write: &dyn Fn(&io::Error) -> E,
    ) -> Result<(), E> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => self.write(&buffer[..count]).map_err(|error| fail_write(&error))?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(fail_read(&error)),
            }
        }
    }

    /// Appends `bytes`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Gives the file its final name.
    pub(crate) fn close(mut self) -> io::Result<()> {
        if let Some(target) = &self.publish_as {
            sums::remove_beside(target).map_err(|(_, error)| error)?;
            match self.overwrite {
                true => fs::rename(&self.path, target)?,
                false => sys::fs::rename_new(&self.path, target)?,
            }
        }
        self.stays = true;
        Ok(())
    }
}

impl Drop for MachineWriter {
    fn drop(&mut self) {
        if !self.stays {
            // The user must see the failure that led here.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_but_not_in_circles_and_not_by_deletes() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let machine = Machine::default();
        fs::create_dir(path("real")).unwrap();
        fs::write(path("real/f"), "12345").unwrap();
        symlink("real", path("link")).unwrap();
        symlink("..", path("real/up")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        let names = |at: &str| -> Vec<String> {
            let entries = machine.entries(&path(at)).unwrap().into_iter();
            entries.map(|(_, entry)| entry.name).collect()
        };
        assert_eq!(names("."), ["link", "real"]);
        assert_eq!(names("link"), ["f", "up"]);
        let error = machine.entries(&path("real/up")).unwrap_err();
        assert!(error.to_string().contains("Too many levels"), "{error}");
        assert!(machine.summary(directory.path()).is_err());
        fs::remove_file(path("real/up")).unwrap();
        let totals = machine.summary(directory.path()).unwrap();
        assert_eq!((totals.directory_count, totals.file_count, totals.length), (3, 2, 10));
        assert!(machine.delete(&path("link"), true).unwrap());
        assert!(path("real/f").is_file());
        assert!(machine.delete(&path("real"), false).is_err());
        assert!(machine.delete(&path("real"), true).unwrap());
        assert!(!machine.delete(&path("real"), true).unwrap());
        assert!(!machine.delete(Path::new("/"), false).unwrap());
    }

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let machine = Machine::default();
        let begin =
            |overwrite| machine.create(&path("t"), Some(&path("f")), overwrite, 0o640).unwrap();
        let mut writer = begin(false);
        writer.write(b"one").unwrap();
        assert!(fs::metadata(path("f")).is_err());
        writer.close().unwrap();
        assert_eq!(fs::read(path("f")).unwrap(), b"one");
        assert_eq!(fs::metadata(path("f")).unwrap().mode() & 0o777, 0o640);
        drop(begin(false));
        assert_eq!(begin(false).close().unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(fs::metadata(path("t")).is_err());
        assert_eq!(fs::read(path("f")).unwrap(), b"one");
        begin(true).close().unwrap();
        assert_eq!(fs::read(path("f")).unwrap(), b"");
        let direct = machine.create(&path("f"), None, false, 0o640);
        assert_eq!(direct.unwrap_err().kind(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn ranges_are_handed_out_with_their_places() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let data: Vec<u8> = (0..BUFFER_BYTES + 10).map(|at| (at % 251) as u8).collect();
        fs::write(&path, &data).unwrap();
        for (offset, length) in [(0, u64::MAX), (5, 7), (BUFFER_BYTES as u64, 100), (9, 0)] {
            let mut file = Machine::default().open(&path).unwrap();
            let mut read = Vec::new();
            let sink = |at: u64, bytes: &[u8]| {
                assert_eq!(at, offset + read.len() as u64);
                read.extend_from_slice(bytes);
                Ok(())
            };
            read_range(&mut file, (offset, length), &|error| error.to_string(), sink).unwrap();
            let start = offset as usize;
            let end = data.len().min(start.saturating_add(usize::try_from(length).unwrap()));
            assert!(read == data[start..end], "{offset} {length}");
        }
    }
}

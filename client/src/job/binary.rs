//! A job's files in the file system, for the user who submits it: the executable, without symbols and debug sections, and side files, each stored once, under
//! its hash.
//!
//! Invariant: a file that has its hash as its name is complete: it gets the name when it is closed. One that was used within [`UNUSED_MAX`] stays.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol::content::{self, PIECE_BYTES, PieceHash};
use protocol::error::chain;
use protocol::jobs::{FILES_DIR_MODE, job_file};
use protocol::namenode::FileStatus;
use protocol::{BinaryHash, DfsPath, ErrorKind};
use transport::rpc::now_ms;

use super::JobError;
use super::elf::{self, Stripped};
use crate::dfs::{CreateOptions, DfsClient, DfsError};

/// Most replicas of an executable: every worker reads it.
const REPLICATION: u16 = 3;
/// Bytes read and written at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Threads that hash one file: more only wait for memory.
const HASH_THREADS_MAX: usize = 8;
/// Only its owner may read it.
const MODE: u16 = 0o600;
/// Only its owner may look into it.
const DIRECTORY_MODE: u16 = 0o700;
/// Mode of the directories above those of all users.
const ABOVE_MODE: u16 = 0o755;
/// A file that no job was submitted with for so long is deleted: longer than jobs run.
const UNUSED_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// A use is noted at most so often: most submissions change nothing in the namespace.
const MARK_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The bytes stored for a file: all of it, or an executable without symbols and debug sections.
pub struct Content {
    path: PathBuf,
    file: File,
    kept: Stripped,
}

impl Content {
    /// A file as it is.
    ///
    /// # Errors
    /// [`JobError::Executable`].
    pub fn of_file(path: &Path) -> Result<Self, JobError> {
        let fail = |source| JobError::Executable { path: path.to_owned(), source };
        let file = File::open(path).map_err(fail)?;
        let front_bytes = file.metadata().map_err(fail)?.len();
        let kept = Stripped { head: Vec::new(), front_bytes, tail: Vec::new() };
        Ok(Content { path: path.to_owned(), file, kept })
    }

    /// A program: only the part that is loaded, if it has the layout that linkers use.
    ///
    /// # Errors
    /// [`JobError::Executable`].
    pub fn of_program(path: &Path) -> Result<Self, JobError> {
        let mut content = Content::of_file(path)?;
        if let Some(stripped) = elf::strip(&content.file, content.kept.front_bytes) {
            content.kept = stripped;
        }
        Ok(content)
    }

    /// Its length, bytes.
    pub fn bytes(&self) -> u64 {
        self.kept.front_bytes + self.kept.tail.len() as u64
    }

    /// Its hash.
    ///
    /// # Errors
    /// [`JobError::Executable`].
    pub fn hash(&self) -> Result<BinaryHash, JobError> {
        hash(self.bytes(), |chunk, at| self.read_exact_at(chunk, at))
            .map_err(|source| self.unreadable(source))
    }

    /// Fills `out` with the bytes from `at`.
    pub(super) fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        let Stripped { head, front_bytes, tail } = &self.kept;
        let of_file = front_bytes.saturating_sub(at).min(out.len() as u64);
        let (front, behind) = out.split_at_mut(of_file as usize);
        self.file.read_exact_at(front, at)?;
        let changed = head.get(at as usize..).unwrap_or_default();
        front.iter_mut().zip(changed).for_each(|(byte, changed)| *byte = *changed);
        if !behind.is_empty() {
            let begin = (at + of_file - front_bytes) as usize;
            let rest = tail.get(begin..).and_then(|tail| tail.get(..behind.len()));
            behind.copy_from_slice(rest.ok_or(io::ErrorKind::UnexpectedEof)?);
        }
        Ok(())
    }

    fn unreadable(&self, source: io::Error) -> JobError {
        JobError::Executable { path: self.path.clone(), source }
    }
}

/// Hash of a job's file, unchanged.
///
/// # Errors
/// [`JobError::Executable`].
pub fn hash_file(path: &Path) -> Result<BinaryHash, JobError> {
    Content::of_file(path)?.hash()
}

/// Hash of an open file, from its start.
///
/// # Errors
/// The system's error, and [`io::ErrorKind::UnexpectedEof`] for a file that is truncated meanwhile.
pub fn hash_opened(file: &File) -> io::Result<BinaryHash> {
    hash(file.metadata()?.len(), |chunk, at| file.read_exact_at(chunk, at))
}

/// Hash of this many bytes. Several threads share a large file.
fn hash(
    bytes: u64,
    read_exact_at: impl Fn(&mut [u8], u64) -> io::Result<()> + Sync,
) -> io::Result<BinaryHash> {
    let count = bytes.div_ceil(PIECE_BYTES as u64);
    let next = AtomicU64::new(0);
    let hash_some = || -> io::Result<Vec<(u64, PieceHash)>> {
        let (mut chunk, mut found) = (vec![0; PIECE_BYTES], Vec::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(found);
            }
            let at = number * PIECE_BYTES as u64;
            let length = (bytes - at).min(PIECE_BYTES as u64) as usize;
            read_exact_at(&mut chunk[..length], at)?;
            found.push((number, content::piece(&chunk[..length])));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let helpers = cores.min(HASH_THREADS_MAX).min(count as usize).saturating_sub(1);
    let mut pieces = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..helpers).map(|_| scope.spawn(hash_some)).collect();
        let mut pieces = hash_some()?;
        for thread in threads {
            pieces.extend(thread.join().map_err(|_| io::Error::other("hashing failed"))??);
        }
        io::Result::Ok(pieces)
    })?;
    pieces.sort_unstable_by_key(|(number, _)| *number);
    Ok(content::join(pieces.iter().map(|(_, piece)| piece), bytes))
}

/// Stores a file of a job where only its user can read it, unless it is there already; returns its path and its hash.
///
/// # Errors
/// [`JobError::Executable`], [`JobError::Name`], [`JobError::Upload`] or [`JobError::Taken`].
pub fn upload(dfs: &DfsClient, content: &Content) -> Result<(DfsPath, BinaryHash), JobError> {
    let hash = content.hash()?;
    let path = job_file(dfs.user(), hash).map_err(JobError::Name)?;
    let store = Store { dfs, content, path: &path };
    if !store.is_there()? {
        store.make_directory()?;
        store.write()?;
        if let Err(error) = store.delete_unused() {
            let directory = store.directory();
            tracing::warn!(%directory, error = %chain(&error), "cannot delete files of jobs that nobody uses");
        }
    }
    Ok((path, hash))
}

/// A file of a job on its way to its path.
struct Store<'a> {
    dfs: &'a DfsClient,
    content: &'a Content,
    path: &'a DfsPath,
}

impl Store<'_> {
    fn failed(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> JobError {
        JobError::Upload { path: self.path.clone(), source: source.into() }
    }

    fn directory(&self) -> DfsPath {
        self.path.parent().unwrap_or_else(DfsPath::root)
    }

    /// It is there, and from now on as if it was stored today.
    fn is_there(&self) -> Result<bool, JobError> {
        let status = match self.dfs.try_status(self.path) {
            Ok(None) => return Ok(false),
            Ok(Some(status)) => status,
            Err(error) if error.kind() == Some(ErrorKind::PermissionDenied) => {
                return Err(JobError::Taken { path: self.directory() });
            }
            Err(error) => return Err(self.failed(error)),
        };
        // What has another length is not what its name says.
        if status.owner != self.dfs.user() || status.length != self.content.bytes() {
            return Err(JobError::Taken { path: self.path.clone() });
        }
        let now = now_ms();
        if now.saturating_sub(status.mtime_ms) > MARK_INTERVAL.as_millis() as u64 {
            match self.dfs.set_times(self.path, Some(now), None) {
                // Another driver deleted it as unused.
                Err(error) if error.kind() == Some(ErrorKind::NotFound) => return Ok(false),
                marked => marked.map_err(|error| self.failed(error))?,
            }
        }
        Ok(true)
    }

    /// Made with its mode at once: nobody looks into it before.
    fn make_directory(&self) -> Result<(), JobError> {
        let directory = self.directory();
        self.make_shared().map_err(|error| self.failed(error))?;
        self.dfs.mkdirs(&directory, DIRECTORY_MODE, true).map_err(|error| self.failed(error))?;
        let status = self.dfs.try_status(&directory).map_err(|error| self.failed(error))?;
        if status.is_none_or(|status| status.owner != self.dfs.user()) {
            return Err(JobError::Taken { path: directory });
        }
        Ok(())
    }

    /// The directory of all users, which the JobTracker made when it started: if it was deleted since, it is made as it was.
    fn make_shared(&self) -> Result<(), DfsError> {
        let Some(shared) = self.directory().parent() else { return Ok(()) };
        if self.dfs.try_status(&shared)?.is_none() {
            self.dfs.mkdirs(&shared, ABOVE_MODE, true)?;
            self.dfs.set_mode(&shared, FILES_DIR_MODE)?;
        }
        Ok(())
    }

    fn write(&self) -> Result<(), JobError> {
        let name = self.path.name().unwrap_or_default();
        let temporary = DfsPath::parse(&format!("{}/_{name}.{}", self.directory(), self.dfs.id()))
            .map_err(JobError::Name)?;
        let options = CreateOptions {
            overwrite: true,
            replication: Some(REPLICATION),
            mode: MODE,
            publish_as: Some(self.path.clone()),
            publish_overwrite: false,
            ..CreateOptions::default()
        };
        let mut writer =
            self.dfs.create(&temporary, options).map_err(|error| self.failed(error))?;
        let bytes = self.content.bytes();
        let mut chunk = vec![0; CHUNK_BYTES];
        for at in (0..bytes).step_by(CHUNK_BYTES) {
            let length = (bytes - at).min(CHUNK_BYTES as u64) as usize;
            let chunk = &mut chunk[..length];
            let read = self.content.read_exact_at(chunk, at);
            read.map_err(|source| self.content.unreadable(source))?;
            writer.write_all(chunk).map_err(|error| self.failed(error))?;
        }
        match writer.close() {
            Ok(_) => Ok(()),
            // Another driver of this user was faster.
            Err(_) if self.is_there()? => {
                self.dfs.delete(&temporary, false).map_err(|error| self.failed(error))?;
                Ok(())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// A file that was new makes room: what no job of this user was submitted with for long is deleted. The file's own time is the present, whatever the
    /// clock of this machine says. What cannot be deleted stays, and the rest goes.
    fn delete_unused(&self) -> Result<(), DfsError> {
        let Some(stored) = self.dfs.try_status(self.path)? else { return Ok(()) };
        let is_unused = |status: &FileStatus| {
            let unused_ms = stored.mtime_ms.saturating_sub(status.mtime_ms);
            unused_ms > UNUSED_MAX.as_millis() as u64
        };
        let directory = self.directory();
        let mut outcome = Ok(());
        for entry in self.dfs.list(&directory) {
            let entry = entry?;
            let Ok(path) = directory.join(&entry.name) else { continue };
            // Another driver may use it since.
            if is_unused(&entry) && self.dfs.try_status(&path)?.as_ref().is_some_and(is_unused) {
                outcome = self.dfs.delete(&path, false).map(drop).and(outcome);
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_hash_of_its_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for length in [0, 3, PIECE_BYTES, 5 * PIECE_BYTES + 3] {
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            std::fs::write(file.path(), &bytes).unwrap();
            let mut hasher = content::Hasher::new();
            hasher.update(&bytes);
            let hash = hash_file(file.path()).unwrap();
            assert_eq!(hash, hasher.finish(), "{length} bytes");
            let path = job_file("ann", hash).unwrap();
            assert_eq!(path.as_str(), format!("/system/hanno/bin/ann/{hash}"));
        }
    }
}

//! A job's files in the file system, each stored once, under its hash: the executable, without symbols and debug sections, for all users; other files for the
//! one who submits.
//!
//! Invariant: a file that has its hash as its name is complete: it gets the name when it is closed.

use std::fs::File;
use std::io::{self, Write};
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::content::{self, PIECE_BYTES, PieceHash};
use protocol::jobs::BINARY_DIR;
use protocol::{BinaryHash, DfsPath};

use super::JobError;
use super::elf::{self, Stripped};
use crate::dfs::{CreateOptions, DfsClient, DfsError};

/// Most replicas of an executable: every worker reads it.
const REPLICATION: u16 = 3;
/// Bytes read and written at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Threads that hash one file: more only wait for memory.
const HASH_THREADS_MAX: usize = 8;
/// Everyone may run it.
const MODE: u16 = 0o755;
/// Only its owner may read it.
const PRIVATE_MODE: u16 = 0o600;
/// Only its owner may look into it.
const PRIVATE_DIRECTORY_MODE: u16 = 0o700;

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

/// Where the executable of this hash is kept.
pub fn binary_path(hash: BinaryHash) -> DfsPath {
    DfsPath::parse(&format!("{BINARY_DIR}/{hash}")).expect("a constant and a hash make a path")
}

/// Stores an executable for everybody unless it is there already; returns its hash.
///
/// # Errors
/// [`JobError::Executable`], [`JobError::Upload`] or [`JobError::Taken`].
pub fn upload(dfs: &DfsClient, content: &Content) -> Result<BinaryHash, JobError> {
    let hash = content.hash()?;
    store(dfs, content, (hash, &binary_path(hash)), MODE)?;
    Ok(hash)
}

/// Stores a file of a job in a directory that only its user can read; returns its path and its hash.
///
/// # Errors
/// As for [`upload`].
pub fn upload_private(
    dfs: &DfsClient,
    content: &Content,
) -> Result<(DfsPath, BinaryHash), JobError> {
    let hash = content.hash()?;
    let user = dfs.user();
    let directory = DfsPath::parse(&format!("{BINARY_DIR}/{user}")).map_err(JobError::Name)?;
    let fail = |error: DfsError| JobError::Upload { path: directory.clone(), source: error.into() };
    // Made with its mode at once: nobody looks into it before.
    dfs.mkdirs(&directory, PRIVATE_DIRECTORY_MODE, true).map_err(fail)?;
    let status = dfs.try_status(&directory).map_err(fail)?;
    if status.is_none_or(|status| status.owner != user) {
        return Err(JobError::Taken { path: directory });
    }
    let target = directory.join(&hash.to_string()).map_err(JobError::Name)?;
    store(dfs, content, (hash, &target), PRIVATE_MODE)?;
    Ok((target, hash))
}

fn store(
    dfs: &DfsClient,
    content: &Content,
    (hash, target): (BinaryHash, &DfsPath),
    mode: u16,
) -> Result<(), JobError> {
    let fail = |error: DfsError| JobError::Upload { path: target.clone(), source: error.into() };
    // What has another length is not what its name says.
    let is_there = || match dfs.try_status(target).map_err(fail)? {
        Some(status) if status.length == content.bytes() => Ok(true),
        Some(_) => Err(JobError::Taken { path: target.clone() }),
        None => Ok(false),
    };
    if is_there()? {
        return Ok(());
    }
    let parent = target.parent().unwrap_or_else(DfsPath::root);
    let temporary = DfsPath::parse(&format!("{parent}/_{hash}.{}", dfs.id()))
        .expect("a directory, a hash and an id make a path");
    let options = CreateOptions {
        overwrite: true,
        replication: Some(REPLICATION),
        mode,
        publish_as: Some(target.clone()),
        // If another user stored the same bytes first, this user may not replace them.
        publish_overwrite: false,
        ..CreateOptions::default()
    };
    let mut writer = dfs.create(&temporary, options).map_err(fail)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    for at in (0..content.bytes()).step_by(CHUNK_BYTES) {
        let length = (content.bytes() - at).min(CHUNK_BYTES as u64) as usize;
        let chunk = &mut chunk[..length];
        content.read_exact_at(chunk, at).map_err(|source| content.unreadable(source))?;
        writer
            .write_all(chunk)
            .map_err(|error| JobError::Upload { path: target.clone(), source: error.into() })?;
    }
    match writer.close() {
        Ok(_) => Ok(()),
        // Another driver was faster.
        Err(_) if is_there()? => {
            dfs.delete(&temporary, false).map_err(fail)?;
            Ok(())
        }
        Err(error) => Err(fail(error)),
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
            assert_eq!(binary_path(hash).as_str(), format!("/system/hanno/bin/{hash}"));
        }
    }
}

//! The job's executable in the file system: stored once, under its hash.
//!
//! Invariant: a file in [`BINARY_DIR`] is complete, as it gets its name when it is closed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::content::{self, PIECE_BYTES, PieceHash};
use protocol::jobs::BINARY_DIR;
use protocol::{BinaryHash, DfsPath};

use super::JobError;
use crate::dfs::{CreateOptions, DfsClient, DfsError};

/// Replicas of an executable at most: it is read by every worker.
const REPLICATION: u16 = 3;
/// Read and written at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Threads that hash one file: more wait for memory.
const HASH_THREADS_MAX: usize = 8;
/// Everyone may run it.
const MODE: u16 = 0o755;

/// Hash of an executable or another file of a job.
///
/// # Errors
/// [`JobError::Executable`].
pub fn hash_file(path: &Path) -> Result<BinaryHash, JobError> {
    let fail = |source| JobError::Executable { path: path.to_owned(), source };
    hash_opened(&File::open(path).map_err(fail)?).map_err(fail)
}

/// Hash of an open file, from its begin. Several threads share a large one.
///
/// # Errors
/// What the system says, and [`io::ErrorKind::UnexpectedEof`] of a file that is cut off meanwhile.
pub fn hash_opened(file: &File) -> io::Result<BinaryHash> {
    let bytes = file.metadata()?.len();
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
            file.read_exact_at(&mut chunk[..length], at)?;
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

/// Stores the executable at `path` unless it is there already.
///
/// # Errors
/// [`JobError::Executable`] or [`JobError::Upload`].
pub fn upload(dfs: &DfsClient, path: &Path, hash: BinaryHash) -> Result<(), JobError> {
    let target = binary_path(hash);
    let fail = |error: DfsError| JobError::Upload { path: target.clone(), source: error.into() };
    if dfs.try_status(&target).map_err(fail)?.is_some() {
        return Ok(());
    }
    let temporary = DfsPath::parse(&format!("{BINARY_DIR}/_{hash}.{}", dfs.id()))
        .expect("a constant, a hash and an id make a path");
    let options = CreateOptions {
        overwrite: true,
        replication: Some(REPLICATION),
        mode: MODE,
        publish_as: Some(target.clone()),
        // The same bytes of another user, who was faster, are not his to replace.
        publish_overwrite: false,
        ..CreateOptions::default()
    };
    let mut writer = dfs.create(&temporary, options).map_err(fail)?;
    read_chunks(path, |chunk| {
        writer
            .write_all(chunk)
            .map_err(|error| JobError::Upload { path: target.clone(), source: error.into() })
    })?;
    match writer.close() {
        Ok(_) => Ok(()),
        // Another driver was faster.
        Err(_) if dfs.try_status(&target).map_err(fail)?.is_some() => {
            dfs.delete(&temporary, false).map(drop).map_err(fail)
        }
        Err(error) => Err(fail(error)),
    }
}

fn read_chunks(
    path: &Path,
    mut each: impl FnMut(&[u8]) -> Result<(), JobError>,
) -> Result<(), JobError> {
    let fail = |source| JobError::Executable { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(fail)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk).map_err(fail)? {
            0 => return Ok(()),
            count => each(&chunk[..count])?,
        }
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

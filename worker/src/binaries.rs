//! Executables of jobs, by hash, in a local cache.
//!
//! Invariants: a file in the cache has the hash that its name says (checked when it was fetched, before it appeared under that
//! name) and is only readable and executable; a cut-off fetch leaves a temporary that the next start removes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use protocol::jobs::BINARY_DIR;
use protocol::{BinaryHash, DfsPath};
use sha2::{Digest, Sha256};

use crate::error::BinaryError;

/// Where executables come from.
pub trait BinarySource: Send + Sync {
    /// Writes the whole file at `path` to `sink`.
    ///
    /// # Errors
    /// What the file system says, for people.
    fn copy(&self, path: &DfsPath, sink: &mut dyn Write) -> Result<(), String>;
}

/// The cache.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    directory: PathBuf,
    bytes_max: u64,
}

const TEMPORARY_SUFFIX: &str = "fetch";

impl Binaries {
    /// A cache in `directory`, which exists.
    pub(crate) fn new(directory: PathBuf, bytes_max: u64) -> io::Result<Self> {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == TEMPORARY_SUFFIX) {
                fs::remove_file(path)?;
            }
        }
        Ok(Binaries { directory, bytes_max })
    }

    /// The cached executable, if it is there.
    pub(crate) fn cached(&self, hash: BinaryHash) -> Option<PathBuf> {
        let path = self.path(hash);
        let file = File::open(&path).ok()?;
        // Marks it as used; without it the file is only evicted earlier.
        let _ = file.set_modified(SystemTime::now());
        Some(path)
    }

    /// Fetches, checks and keeps the executable. Blocks. One fetch per hash at a time.
    pub(crate) fn fetch(
        &self,
        hash: BinaryHash,
        source: &dyn BinarySource,
    ) -> Result<PathBuf, BinaryError> {
        let path = self.path(hash);
        let temporary = path.with_extension(TEMPORARY_SUFFIX);
        let result = self.fetch_into(hash, source, &path, &temporary);
        if result.is_err() {
            // What cannot be removed now is removed at the next start.
            let _ = fs::remove_file(&temporary);
        }
        self.evict(&path);
        result
    }

    fn fetch_into(
        &self,
        hash: BinaryHash,
        source: &dyn BinarySource,
        path: &Path,
        temporary: &Path,
    ) -> Result<PathBuf, BinaryError> {
        let disk = |action| {
            let path = temporary.to_owned();
            move |source| BinaryError::Disk { action, path, source }
        };
        let name = DfsPath::parse(&format!("{BINARY_DIR}/{hash}"))
            .expect("a directory of ours and a hexadecimal name are a path");
        let file = File::create(temporary).map_err(disk("create"))?;
        let mut sink = Hashing { file, hasher: Sha256::new() };
        source.copy(&name, &mut sink).map_err(|reason| BinaryError::Fetch { hash, reason })?;
        let found = BinaryHash(sink.hasher.finalize().into());
        if found != hash {
            return Err(BinaryError::Hash { expected: hash, found });
        }
        fs::set_permissions(temporary, fs::Permissions::from_mode(0o500))
            .map_err(disk("set the mode of"))?;
        sink.file.sync_data().map_err(disk("sync"))?;
        // A file that is open for writing cannot be executed.
        drop(sink.file);
        fs::rename(temporary, path).map_err(disk("rename"))?;
        Ok(path.to_owned())
    }

    /// Removes the least recently used until the rest fits. Running programs keep their file.
    fn evict(&self, keep: &Path) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let metadata = entry.metadata().ok()?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, length, _)| length).sum();
        for (_, length, path) in files {
            if bytes <= self.bytes_max {
                return;
            }
            if path != keep && fs::remove_file(&path).is_ok() {
                bytes -= length;
            }
        }
    }

    fn path(&self, hash: BinaryHash) -> PathBuf {
        self.directory.join(hash.to_string())
    }
}

struct Hashing {
    file: File,
    hasher: Sha256,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory(Vec<u8>);

    impl BinarySource for Memory {
        fn copy(&self, _: &DfsPath, sink: &mut dyn Write) -> Result<(), String> {
            sink.write_all(&self.0).map_err(|error| error.to_string())
        }
    }

    fn hash(bytes: &[u8]) -> BinaryHash {
        BinaryHash(Sha256::digest(bytes).into())
    }

    #[test]
    fn only_the_right_bytes_get_in() {
        let directory = tempfile::tempdir().unwrap();
        let binaries = Binaries::new(directory.path().to_owned(), 1 << 20).unwrap();
        let program = b"#!/bin/sh\n".to_vec();
        assert!(binaries.cached(hash(&program)).is_none());
        let path = binaries.fetch(hash(&program), &Memory(program.clone())).unwrap();
        assert_eq!(fs::read(&path).unwrap(), program);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o500);
        assert_eq!(binaries.cached(hash(&program)), Some(path));
        let error = binaries.fetch(hash(b"other"), &Memory(program)).unwrap_err();
        assert!(matches!(error, BinaryError::Hash { .. }), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_oldest_go_and_cut_off_fetches_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ab.fetch"), "half").unwrap();
        let binaries = Binaries::new(directory.path().to_owned(), 25).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let programs: Vec<Vec<u8>> = (0..4u8).map(|byte| vec![byte; 10]).collect();
        for (age, program) in programs.iter().enumerate() {
            let path = binaries.fetch(hash(program), &Memory(program.clone())).unwrap();
            let then = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age as u64 + 1);
            File::open(path).unwrap().set_modified(then).unwrap();
        }
        let kept: Vec<bool> =
            programs.iter().map(|program| binaries.cached(hash(program)).is_some()).collect();
        assert_eq!(kept, [false, false, true, true]);
    }
}

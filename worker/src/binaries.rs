//! Executables of jobs, by hash, in a local cache.
//!
//! Invariants: the cache hands out a file only after checking that its bytes have the hash in its name: when it was fetched (before it
//! appeared under that name), once in the life of this worker, and again whenever it was touched since. A damaged file is fetched again. An
//! interrupted fetch leaves a temporary file, which the next start removes. Tasks can read and execute their own program here, and write
//! nothing.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use client::job::hash_opened;
use parking_lot::Mutex;
use protocol::content::Hasher;
use protocol::error::chain;
use protocol::jobs::job_file;
use protocol::{BinaryHash, DfsPath};

use crate::error::BinaryError;
use crate::scratch::OpenDir;

/// Where executables come from.
pub trait BinarySource: Send + Sync {
    /// Writes the whole file at `path` to `sink`, as `user`.
    ///
    /// # Errors
    /// Errors of the file system, as text for people.
    fn copy(&self, path: &DfsPath, user: &str, sink: &mut dyn Write) -> Result<(), String>;
}

/// The cache. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    place: OpenDir,
    bytes_max: u64,
    /// How long a file stays after it was asked for, whatever there is room for: a process of it is about to start.
    kept_min: Duration,
    known: Arc<Mutex<HashMap<BinaryHash, Known>>>,
}

/// A file whose bytes were checked.
#[derive(Clone, Copy, Debug)]
struct Known {
    stamp: Stamp,
    used: SystemTime,
}

/// Metadata that changes when a file is written to, truncated or replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    file: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            file: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The default of `kept_min`: far longer than from the question to the start.
const KEPT_MIN: Duration = Duration::from_secs(60);
const TEMPORARY_SUFFIX: &str = ".fetch";
/// Readable and executable, also by the users of jobs, who know the names of their own programs.
const MODE: u32 = 0o555;

impl Binaries {
    /// A cache in a directory.
    pub(crate) fn new(place: OpenDir, bytes_max: u64) -> io::Result<Self> {
        for name in place.dir.names()? {
            if name.to_string_lossy().ends_with(TEMPORARY_SUFFIX) {
                place.dir.remove(name)?;
            }
        }
        Ok(Binaries { place, bytes_max, kept_min: KEPT_MIN, known: Arc::default() })
    }

    /// Where the executable is while it is in the cache.
    pub(crate) fn path(&self, hash: BinaryHash) -> PathBuf {
        self.place.path.join(hash.to_string())
    }

    /// The executable, if it is there and unchanged since its check. Costs only a read of its metadata.
    pub(crate) fn known(&self, hash: BinaryHash) -> Option<PathBuf> {
        let name = hash.to_string();
        let found = Stamp::of(&self.place.dir.file(&name).ok()?.metadata().ok()?);
        let mut known = self.known.lock();
        let known = known.get_mut(&hash).filter(|known| known.stamp == found)?;
        known.used = SystemTime::now();
        Some(self.place.path.join(name))
    }

    /// The executable: the cached file if it is right, else fetched from the files of a user who submitted it. Blocks. Allow one call per hash at a time.
    pub(crate) fn obtain(
        &self,
        hash: BinaryHash,
        user: &str,
        source: &dyn BinarySource,
    ) -> Result<PathBuf, BinaryError> {
        if let Some(path) = self.known(hash) {
            return Ok(path);
        }
        let name = hash.to_string();
        match self.check(hash, &name) {
            Ok(()) => {}
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    let path = self.place.path.join(&name);
                    tracing::warn!(path = %path.display(), %error, "fetching a cached executable again");
                }
                let fail = |error| BinaryError::Fetch { hash, reason: chain(&error) };
                let stored = job_file(user, hash).map_err(fail)?;
                let copy = |sink: &mut dyn Write| source.copy(&stored, user, sink);
                self.fetch(hash, &copy)?;
            }
        }
        self.evict(&name);
        Ok(self.place.path.join(name))
    }

    /// Reads and checks a cached file and remembers it, if it is right.
    fn check(&self, hash: BinaryHash, name: &str) -> io::Result<()> {
        let file = self.place.dir.file(name)?;
        // Marks it as used, for the next worker; if that fails, the file is only evicted earlier.
        let used = SystemTime::now();
        let _ = file.set_modified(used);
        let before = file.metadata()?;
        let stamp = Stamp::of(&before);
        let is_executable = before.permissions().mode() & MODE == MODE;
        let is_right = hash_opened(&file)? == hash;
        if !is_right || !is_executable || Stamp::of(&file.metadata()?) != stamp {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is damaged"));
        }
        self.known.lock().insert(hash, Known { stamp, used });
        Ok(())
    }

    fn fetch(
        &self,
        hash: BinaryHash,
        copy: &dyn Fn(&mut dyn Write) -> Result<(), String>,
    ) -> Result<(), BinaryError> {
        let name = hash.to_string();
        let temporary = format!("{name}{TEMPORARY_SUFFIX}");
        let path = self.place.path.join(&temporary);
        let disk = |action| {
            let path = path.clone();
            move |source| BinaryError::Disk { action, path, source }
        };
        // A leftover of an interrupted fetch.
        self.place.dir.remove(&temporary).map_err(disk("remove"))?;
        let file = self.place.dir.create(&temporary, MODE).map_err(disk("create"))?;
        // Restores the mode bits that the process's umask removes.
        file.set_permissions(Permissions::from_mode(MODE)).map_err(disk("open up"))?;
        let fetched = fill(file, hash, copy, disk).and_then(|()| {
            // A damaged entry may be anything.
            self.place.dir.remove(&name).map_err(disk("remove"))?;
            self.place.dir.take(&self.place.dir, &temporary, &name).map_err(disk("rename"))?;
            self.check(hash, &name).map_err(disk("read"))
        });
        if fetched.is_err() {
            // If it cannot be removed now, the next start removes it.
            let _ = self.place.dir.remove(&temporary);
        }
        fetched
    }

    /// Removes the least recently used files until the rest fits. Running programs keep their file.
    fn evict(&self, keep: &str) {
        let Ok(names) = self.place.dir.names() else { return };
        // Works on a copy: the worker's loop reads `known` and must not wait while this reads metadata and removes files.
        let known = self.known.lock().clone();
        let uses: HashMap<OsString, SystemTime> =
            known.into_iter().map(|(hash, known)| (hash.to_string().into(), known.used)).collect();
        // What is fetched beside this has its own way to end.
        let is_whole = |name: &OsString| !name.to_string_lossy().ends_with(TEMPORARY_SUFFIX);
        let mut files: Vec<(SystemTime, u64, OsString)> = names
            .into_iter()
            .filter(is_whole)
            .filter_map(|name| {
                let metadata = self.place.dir.file(&name).ok()?.metadata().ok()?;
                let modified = metadata.modified().ok()?;
                let used = uses.get(&name).map_or(modified, |used| modified.max(*used));
                Some((used, metadata.len(), name))
            })
            .collect();
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, length, _)| length).sum();
        let is_wanted = |used: SystemTime| used.elapsed().is_ok_and(|ago| ago < self.kept_min);
        for (used, length, name) in files {
            if bytes <= self.bytes_max {
                break;
            }
            if name != keep && !is_wanted(used) && self.place.dir.remove(&name).is_ok() {
                self.known.lock().retain(|hash, _| hash.to_string().as_str() != name);
                bytes -= length;
            }
        }
    }
}

/// Writes an executable that `copy` delivers.
fn fill<E: FnOnce(io::Error) -> BinaryError>(
    file: File,
    hash: BinaryHash,
    copy: &dyn Fn(&mut dyn Write) -> Result<(), String>,
    disk: impl Fn(&'static str) -> E,
) -> Result<(), BinaryError> {
    let mut sink = Hashing { file, hasher: Hasher::new() };
    copy(&mut sink).map_err(|reason| BinaryError::Fetch { hash, reason })?;
    let found = sink.hasher.finish();
    if found != hash {
        return Err(BinaryError::Hash { expected: hash, found });
    }
    // A file that is open for writing cannot be executed: closing it here prevents that.
    sink.file.sync_data().map_err(disk("sync"))
}

struct Hashing {
    file: File,
    hasher: Hasher,
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
    use std::fs;
    use std::path::Path;
    use std::time::UNIX_EPOCH;

    use super::*;

    struct Memory(Vec<u8>);

    impl BinarySource for Memory {
        fn copy(&self, _: &DfsPath, _: &str, sink: &mut dyn Write) -> Result<(), String> {
            sink.write_all(&self.0).map_err(|error| error.to_string())
        }
    }

    struct Nowhere;

    impl BinarySource for Nowhere {
        fn copy(&self, _: &DfsPath, _: &str, _: &mut dyn Write) -> Result<(), String> {
            Err("it was asked for once too often".to_owned())
        }
    }

    fn hash(bytes: &[u8]) -> BinaryHash {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    fn cache(directory: &Path, bytes_max: u64) -> Binaries {
        let binaries = Binaries::new(OpenDir::open(directory).unwrap(), bytes_max).unwrap();
        Binaries { kept_min: Duration::ZERO, ..binaries }
    }

    #[test]
    fn what_is_about_to_start_and_what_is_fetched_beside_stays() {
        let directory = tempfile::tempdir().unwrap();
        let binaries = Binaries { kept_min: KEPT_MIN, ..cache(directory.path(), 15) };
        let [first, second] = [b"the first", b"the other"].map(|program| program.to_vec());
        binaries.obtain(hash(&first), "ann", &Memory(first.clone())).unwrap();
        fs::write(directory.path().join("ab.fetch"), "half of another").unwrap();
        binaries.obtain(hash(&second), "ann", &Memory(second.clone())).unwrap();
        for program in [&first, &second] {
            assert!(binaries.known(hash(program)).is_some(), "it is started next");
        }
        assert!(directory.path().join("ab.fetch").try_exists().unwrap());
        // Once they have had their time, the older one goes.
        let later = Binaries { kept_min: Duration::ZERO, ..binaries };
        later.evict(&hash(&second).to_string());
        assert!(later.known(hash(&first)).is_none() && later.known(hash(&second)).is_some());
    }

    #[test]
    fn only_the_right_bytes_get_in() {
        let directory = tempfile::tempdir().unwrap();
        let binaries = cache(directory.path(), 1 << 20);
        let program = b"#!/bin/sh\n".to_vec();
        assert!(binaries.known(hash(&program)).is_none());
        let path = binaries.obtain(hash(&program), "ann", &Memory(program.clone())).unwrap();
        assert_eq!(fs::read(&path).unwrap(), program);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(binaries.known(hash(&program)), Some(path));
        let error = binaries.obtain(hash(b"other"), "ann", &Memory(program)).unwrap_err();
        assert!(matches!(error, BinaryError::Hash { .. }), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_touched_is_read_again_and_what_is_damaged_fetched_again() {
        let directory = tempfile::tempdir().unwrap();
        let program = b"#!/bin/sh\n".to_vec();
        let path = cache(directory.path(), 1 << 20).obtain(
            hash(&program),
            "ann",
            &Memory(program.clone()),
        );
        let path = path.unwrap();
        // The file of an earlier worker: read, not fetched.
        let binaries = cache(directory.path(), 1 << 20);
        assert!(binaries.known(hash(&program)).is_none());
        binaries.obtain(hash(&program), "ann", &Nowhere).unwrap();
        let spoil: [fn(&Path); 6] = [
            |path| fs::write(path, b"#!/bin/rm\n").unwrap(),
            |path| fs::write(path, b"#!/bin").unwrap(),
            |path| fs::remove_file(path).unwrap(),
            |path| {
                fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink("/bin/sh", path).unwrap();
            },
            |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir_all(path.join("full")).unwrap();
            },
            |path| fs::set_permissions(path, Permissions::from_mode(0o400)).unwrap(),
        ];
        for (number, spoil) in spoil.into_iter().enumerate() {
            if path.is_file() {
                fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
            }
            spoil(&path);
            assert!(binaries.known(hash(&program)).is_none(), "{number}");
            assert!(binaries.obtain(hash(&program), "ann", &Nowhere).is_err(), "{number}");
            let again = binaries.obtain(hash(&program), "ann", &Memory(program.clone()));
            assert_eq!(again.unwrap(), path, "{number}");
            assert_eq!(fs::read(&path).unwrap(), program, "{number}");
            assert!(binaries.known(hash(&program)).is_some(), "{number}");
        }
    }

    #[test]
    fn the_oldest_go_and_cut_off_fetches_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ab.fetch"), "half").unwrap();
        let programs: Vec<Vec<u8>> = (0..4u8).map(|byte| vec![byte; 10]).collect();
        for (age, program) in programs.iter().enumerate() {
            let binaries = cache(directory.path(), 25);
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), age.min(2));
            let path = binaries.obtain(hash(program), "ann", &Memory(program.clone())).unwrap();
            let then = UNIX_EPOCH + Duration::from_secs(age as u64 + 1);
            File::open(path).unwrap().set_modified(then).unwrap();
        }
        let binaries = cache(directory.path(), 25);
        let is_kept = |program: &Vec<u8>| binaries.obtain(hash(program), "ann", &Nowhere).is_ok();
        assert_eq!(programs.iter().map(is_kept).collect::<Vec<_>>(), [false, false, true, true]);
        // Used now, so the other one is evicted.
        binaries.known(hash(&programs[2])).unwrap();
        binaries.obtain(hash(&programs[0]), "ann", &Memory(programs[0].clone())).unwrap();
        assert_eq!(programs.iter().map(is_kept).collect::<Vec<_>>(), [true, false, true, false]);
    }
}

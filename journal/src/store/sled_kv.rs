//! sled under the [`Kv`] seam, with all that is needed to trust it as far as possible.
//!
//! What we know of sled 0.34 and do about it:
//! - its flush does not reach the device: after it we `fdatasync` the `db` file through a descriptor of
//!   our own, and check that the path still names that file;
//! - a crash during open leaves `snap.*.generating`, which makes each later open fail: removed first;
//! - a damaged `snap.*` makes open fail although it is only an accelerator: put aside, then retried;
//! - its threads keep its file locked for a moment after it was dropped: opening again waits;
//! - it panics on some damage: every call into it is inside `catch_unwind`.
//!
//! Nothing is ever deleted here but provisional builds: bad directories are renamed `sled.bad-<n>`.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::{Disk, RealDisk};
use crate::error::{StoreError, chain};
use crate::store::{Change, Kv, KvPlace, RowFn};

/// The directory `sled` inside a journal's directory.
pub(crate) struct SledPlace {
    parent: PathBuf,
    cache_bytes: u64,
}

impl SledPlace {
    pub(crate) fn new(parent: PathBuf, cache_bytes: u64) -> SledPlace {
        SledPlace { parent, cache_bytes }
    }

    fn dir(&self) -> PathBuf {
        self.parent.join("sled")
    }

    fn build_dir(&self) -> PathBuf {
        self.parent.join("sled.building")
    }

    /// A name that nothing has yet: `<stem>-<n>`.
    fn free_name(&self, stem: &str) -> Result<PathBuf, StoreError> {
        for number in 1u32.. {
            let path = self.parent.join(format!("{stem}-{number}"));
            if !path.try_exists().map_err(disk("look for", &path))? {
                return Ok(path);
            }
        }
        unreachable!("a directory cannot hold four thousand million entries")
    }

    fn sync_parent(&self) -> Result<(), StoreError> {
        RealDisk.sync_dir(&self.parent).map_err(disk("sync directory", &self.parent))
    }

    fn open_at(&self, dir: &Path) -> Result<SledKv, StoreError> {
        RealDisk.create_dir(dir).map_err(disk("create directory", dir))?;
        let db_path = dir.join("db");
        wait_until_unlocked(dir, &db_path)?;
        let opened = guarded(dir, || {
            sled::Config::default()
                .path(dir)
                .flush_every_ms(None)
                .cache_capacity(self.cache_bytes)
                .use_compression(false)
                .open()
        })?;
        let db_file = File::open(&db_path).map_err(disk("open", &db_path))?;
        RealDisk.sync_dir(dir).map_err(disk("sync directory", dir))?;
        self.sync_parent()?;
        Ok(SledKv { db: Some(opened), dir: dir.to_owned(), db_path, db_file })
    }

    /// Moves the accelerator files out of sled's sight; `None` if there are none.
    fn put_snapshots_aside(&self) -> Result<Option<PathBuf>, StoreError> {
        let names = snapshots(&self.dir())?;
        if names.is_empty() {
            return Ok(None);
        }
        let aside = self.free_name("sled.snap-aside")?;
        RealDisk.create_dir(&aside).map_err(disk("create directory", &aside))?;
        for name in names {
            let from = self.dir().join(&name);
            fs::rename(&from, aside.join(&name)).map_err(disk("put aside", &from))?;
        }
        Ok(Some(aside))
    }
}

impl KvPlace for SledPlace {
    fn is_present(&self) -> Result<bool, StoreError> {
        let dir = self.dir();
        dir.try_exists().map_err(disk("look for", &dir))
    }

    fn open(&self, notes: &mut Vec<String>) -> Result<Box<dyn Kv>, StoreError> {
        let dir = self.dir();
        for name in snapshots(&dir)? {
            if name.ends_with(".generating") {
                let path = dir.join(&name);
                fs::remove_file(&path).map_err(disk("remove", &path))?;
                notes.push(format!("removed unfinished {}", path.display()));
            }
        }
        let first = match self.open_at(&dir) {
            Ok(kv) => return Ok(Box::new(kv)),
            Err(error @ StoreError::InUse { .. }) => return Err(error),
            Err(error) => error,
        };
        let Some(aside) = self.put_snapshots_aside()? else { return Err(first) };
        notes.push(format!(
            "sled did not open ({}); moved its snapshots to {} and tried again",
            chain(&first),
            aside.display()
        ));
        Ok(Box::new(self.open_at(&dir)?))
    }

    fn quarantine(&self) -> Result<String, StoreError> {
        let aside = self.free_name("sled.bad")?;
        fs::rename(self.dir(), &aside).map_err(disk("put aside", self.dir()))?;
        self.sync_parent()?;
        Ok(aside.display().to_string())
    }

    fn build(&self) -> Result<Box<dyn Kv>, StoreError> {
        let dir = self.build_dir();
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(disk("remove", &dir)(error));
            }
            _ => {}
        }
        Ok(Box::new(self.open_at(&dir)?))
    }

    fn publish(&self, built: Box<dyn Kv>) -> Result<Box<dyn Kv>, StoreError> {
        drop(built);
        fs::rename(self.build_dir(), self.dir()).map_err(disk("rename", self.build_dir()))?;
        self.sync_parent()?;
        Ok(Box::new(self.open_at(&self.dir())?))
    }
}

struct SledKv {
    /// `None` only while dropping.
    db: Option<sled::Db>,
    dir: PathBuf,
    db_path: PathBuf,
    /// Our own descriptor of sled's file, to sync it.
    db_file: File,
}

impl SledKv {
    fn db(&self) -> &sled::Db {
        self.db.as_ref().expect("it is taken only by drop")
    }
}

impl Kv for SledKv {
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        if let Some(value) = guarded(&self.dir, || self.db().get(key))? {
            see(&value);
        }
        Ok(())
    }

    fn scan(&self, row: &mut RowFn<'_>) -> Result<(), StoreError> {
        let mut rows = guarded(&self.dir, || Ok(self.db().iter()))?;
        while let Some((key, value)) = guarded(&self.dir, || rows.next().transpose())? {
            row(&key, &value)?;
        }
        Ok(())
    }

    fn apply(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        let mut batch = sled::Batch::default();
        for Change { key, value } in changes {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        guarded(&self.dir, || self.db().apply_batch(batch))
    }

    fn sync(&self) -> Result<(), StoreError> {
        guarded(&self.dir, || self.db().flush())?;
        let ours = self.db_file.metadata().map_err(disk("look at", &self.db_path))?;
        let named = fs::metadata(&self.db_path).map_err(disk("look at", &self.db_path))?;
        if (ours.dev(), ours.ino()) != (named.dev(), named.ino()) {
            return Err(StoreError::Replaced { path: self.db_path.clone() });
        }
        self.db_file.sync_data().map_err(disk("sync", &self.db_path))
    }
}

impl Drop for SledKv {
    fn drop(&mut self) {
        // sled flushes when it is dropped; on a damaged file it may panic then.
        let db = self.db.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(db)));
    }
}

/// Calls into sled; a panic becomes an error. The engine is not used again after one.
fn guarded<T>(dir: &Path, call: impl FnOnce() -> sled::Result<T>) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(StoreError::Sled { path: dir.to_owned(), source: Box::new(source) }),
        Err(_) => Err(StoreError::Panicked { path: dir.to_owned() }),
    }
}

/// Waits until nobody has sled's file locked. The threads of this process that had it do not lock it again, and others stay out of the directory.
fn wait_until_unlocked(dir: &Path, db_path: &Path) -> Result<(), StoreError> {
    let file = match File::open(db_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(disk("open", db_path))?,
    };
    let deadline = Instant::now() + WIND_DOWN_MAX;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(source)) => return Err(disk("lock", db_path)(source)),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(StoreError::InUse { path: dir.to_owned() });
            }
            Err(TryLockError::WouldBlock) => thread::sleep(WIND_DOWN_POLL),
        }
    }
}

fn snapshots(dir: &Path) -> Result<Vec<String>, StoreError> {
    let names = RealDisk.list(dir).map_err(disk("list", dir))?;
    Ok(names.into_iter().filter(|name| name.starts_with("snap.")).collect())
}

fn disk(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.into();
    move |source| StoreError::Disk { action, path, source }
}

/// How long the threads of a sled that was just dropped may hold its file: 10 s. They end when their
/// last write does.
const WIND_DOWN_MAX: Duration = Duration::from_secs(10);

/// How often we check.
const WIND_DOWN_POLL: Duration = Duration::from_millis(2);

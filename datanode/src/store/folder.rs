//! A folder of finalized replicas, and the shared syncs that it and segments of small replicas have: writers that end at about the same time wait for one sync instead of making one each.
//!
//! ```text
//! round n runs ---- ends -> round n + 1 runs (for everybody who came while n ran) -> ...
//! ```
//!
//! Invariants: [`Shared::sync_with`] returns Ok only after a sync that began after the call and succeeded. A failed sync fails every caller that waited for it, and
//! is never repeated for them. What stays open is looked up by its name after each sync ([`Name`]): bytes in a file that nobody can open again are not kept.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};
use sys::disk::File;

/// Why names in a folder may not be on disk.
#[derive(Debug)]
pub(crate) enum Unsynced {
    /// No sync was tried, perhaps for lack of descriptors: another one can succeed.
    Untried(io::Error),
    /// The sync failed. The system reports that once, and success to the next one.
    Failed(io::Error),
    /// Somebody has removed or replaced it: it is synced, and no start will find it.
    Vanished,
}

impl From<Unsynced> for io::Error {
    fn from(unsynced: Unsynced) -> Self {
        match unsynced {
            Unsynced::Untried(error) | Unsynced::Failed(error) => error,
            Unsynced::Vanished => io::ErrorKind::NotFound.into(),
        }
    }
}

/// The name of something that stays open. Open files outlive their names, so a sync alone does not say that a start will find what it wrote.
#[derive(Debug)]
pub(super) struct Name {
    path: PathBuf,
    has_vanished: AtomicBool,
}

impl Name {
    pub(super) fn new(path: PathBuf) -> Self {
        Name { path, has_vanished: AtomicBool::new(false) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that it is still the name of `file`; once it was not, it never is again. Two calls of the system's.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; the error of looking it up.
    pub(super) fn check(&self, file: &File) -> io::Result<()> {
        if self.has_vanished() || !file.is_at(&self.path)? {
            self.has_vanished.store(true, Ordering::Release);
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    }

    /// True if a check has found that.
    pub(super) fn has_vanished(&self) -> bool {
        self.has_vanished.load(Ordering::Acquire)
    }

    /// What the error of a sync or a check means.
    pub(super) fn unsynced(&self, error: io::Error) -> Unsynced {
        match self.has_vanished() {
            true => Unsynced::Vanished,
            false => Unsynced::Failed(error),
        }
    }
}

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    file: File,
    name: Name,
    shared: Shared,
}

/// Syncs of one file or folder, shared by those who come together.
#[derive(Debug, Default)]
pub(super) struct Shared {
    rounds: Mutex<Rounds>,
    signal: Condvar,
}

#[derive(Debug, Default)]
struct Rounds {
    /// The last sync that began.
    begun: u64,
    running: bool,
    /// The last sync that succeeded.
    done: u64,
    /// The last sync that failed, and its error. A caller that waits for an earlier one and sees only this one fails too: it is safe to report that a replica
    /// is not durable.
    failed: Option<(u64, io::ErrorKind)>,
}

impl Folder {
    /// Opens it.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let file = File::open(&path)?;
        Ok(Folder { file, name: Name::new(path), shared: Shared::default() })
    }

    /// Returns once all changes made to the folder before the call are on disk, and the folder is still the one of its name.
    ///
    /// # Errors
    /// [`Unsynced`].
    pub(super) fn sync(&self) -> Result<(), Unsynced> {
        let sync = || self.file.sync_all().and_then(|()| self.name.check(&self.file));
        self.shared.sync_with(sync).map_err(|error| self.name.unsynced(error))
    }
}

impl Shared {
    /// Returns once a sync has succeeded that began after the call.
    ///
    /// # Errors
    /// The error of the sync.
    pub(super) fn sync_with(&self, sync: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut rounds = self.rounds.lock();
        // The running round may have begun before the caller's change.
        let wanted = rounds.begun + 1;
        loop {
            if let Some((_, kind)) = rounds.failed.filter(|(round, _)| *round >= wanted) {
                return Err(io::Error::new(kind, "a shared sync failed"));
            }
            if rounds.done >= wanted {
                return Ok(());
            }
            if rounds.running {
                self.signal.wait(&mut rounds);
                continue;
            }
            rounds.begun += 1;
            rounds.running = true;
            let result = MutexGuard::unlocked(&mut rounds, &sync);
            rounds.running = false;
            let round = rounds.begun;
            match &result {
                Ok(()) => rounds.done = round,
                Err(error) => rounds.failed = Some((round, error.kind())),
            }
            self.signal.notify_all();
            return result;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Arc, mpsc};

    fn folder() -> Arc<Shared> {
        Arc::default()
    }

    /// Holds a first sync until `release`, and runs `meanwhile` during it.
    fn while_one_runs(folder: &Arc<Shared>, meanwhile: impl FnOnce()) {
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let first = Arc::clone(folder);
        let released = Mutex::new(released);
        let held = std::thread::spawn(move || {
            first.sync_with(|| {
                begun.send(()).unwrap();
                released.lock().recv().unwrap();
                Ok(())
            })
        });
        has_begun.recv().unwrap();
        meanwhile();
        release.send(()).unwrap();
        held.join().unwrap().unwrap();
    }

    /// Returns once this many wait for the running round. A spurious wake-up of all shows how many do; they wait again.
    fn until_waiting(folder: &Shared, count: usize) {
        while folder.signal.notify_all() != count {
            std::thread::yield_now();
        }
    }

    /// Makes calls that arrive while a sync runs, all in time for the next one; returns their results, and how many syncs it took.
    fn come_together(result: fn() -> io::Result<()>) -> (Vec<io::Result<()>>, u64) {
        let folder = folder();
        let syncs = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        while_one_runs(&folder, || {
            for _ in 0..8 {
                let (folder, syncs) = (Arc::clone(&folder), Arc::clone(&syncs));
                threads.push(std::thread::spawn(move || {
                    folder.sync_with(|| {
                        syncs.fetch_add(1, Ordering::SeqCst);
                        result()
                    })
                }));
            }
            until_waiting(&folder, threads.len());
        });
        let results = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        (results, syncs.load(Ordering::SeqCst))
    }

    #[test]
    fn those_who_come_while_a_sync_runs_share_the_next() {
        let (results, syncs) = come_together(|| Ok(()));
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!(syncs, 1);
    }

    #[test]
    fn nobody_returns_before_a_sync_that_began_after_the_call() {
        let folder = folder();
        let changed = Arc::new(AtomicBool::new(false));
        let mut thread = None;
        let told = Arc::clone(&changed);
        while_one_runs(&folder, || {
            let (folder, changed) = (Arc::clone(&folder), Arc::clone(&changed));
            thread = Some(std::thread::spawn(move || {
                changed.store(true, Ordering::SeqCst);
                let seen = AtomicBool::new(false);
                folder
                    .sync_with(|| {
                        seen.store(true, Ordering::SeqCst);
                        Ok(())
                    })
                    .unwrap();
                seen.load(Ordering::SeqCst)
            }));
            while !told.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        });
        assert!(thread.unwrap().join().unwrap(), "the one that ran before did not count");
    }

    #[test]
    fn a_failure_is_for_those_who_waited_for_it_alone() {
        let full = || Err(io::ErrorKind::StorageFull.into());
        let (results, syncs) = come_together(full);
        assert_eq!(syncs, 1);
        for result in results {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
        let folder = folder();
        assert_eq!(folder.sync_with(full).unwrap_err().kind(), io::ErrorKind::StorageFull);
        folder.sync_with(|| Ok(())).unwrap();
        Folder::open(std::env::temp_dir()).unwrap().sync().unwrap();
    }

    #[test]
    fn a_folder_that_somebody_has_replaced_is_not_synced() {
        let root = tempfile::tempdir().unwrap();
        let (path, away) = (root.path().join("folder"), root.path().join("away"));
        std::fs::create_dir(&path).unwrap();
        let folder = Folder::open(path.clone()).unwrap();
        folder.sync().unwrap();
        std::fs::rename(&path, &away).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(folder.sync(), Err(Unsynced::Vanished)));
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&away, &path).unwrap();
        assert!(matches!(folder.sync(), Err(Unsynced::Vanished)), "meanwhile others used the name");
    }
}

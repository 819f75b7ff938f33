//! Durable state for a daemon: a group-committed log that makes edits durable, a checkpoint in sled that makes restarts short, and exported
//! images from which sled can always be rebuilt.
//!
//! The owner keeps its state in memory and changes it only by deterministic edits. For each edit it
//! [appends](Journal::append) a record and answers its client when the record is
//! [durable](Journal::durable). Now and then it hands over the rows that changed
//! ([`Journal::checkpoint`]); they reach sled, a page of neighbouring rows at a time, in the background. At the next start
//! [`Journal::open`] loads the rows and replays the records after them into the owner's [`Recover`].
//!
//! A journal can have mirrors: directories on other disks with the log and the images. Each of them is enough to restore everything,
//! and so is the first directory without them.
//!
//! Invariants of the crate:
//! - a record that was reported durable is there after any crash, and so is every record before it;
//! - no acknowledged record depends on sled: log + image can always rebuild it, those of the first directory or of any mirror that
//!   was not left out;
//! - directories whose histories have diverged are never read as one;
//! - the first failed write or sync stops the journal for good ([`JournalError`]); it is never retried;
//! - damage is found (every byte that is read back is under a checksum) and either repaired from another
//!   copy or refused with a clear message; nothing that was damaged is deleted.
//!
//! Files in each directory of a journal: `lock`, `epoch`, `log/<first txid>.log`, `image/<txid>.image`, and what was put aside:
//! `*.bad-<n>`. In the first one also `mirrors`, `sled/`, `sled.bad-<n>`, `sled.snap-aside-<n>`.

pub mod admin;
mod bytes;
mod chain;
mod checkpoint;
mod disk;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod home;
mod id;
mod image;
mod log;
mod options;
mod places;
mod recover;
mod repair;
mod sector;
mod segment;
#[cfg(test)]
mod sim;
mod store;
#[cfg(test)]
mod tests;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

pub use crate::error::{JournalError, RecoverError, StoreError};
pub use crate::id::{Epoch, Txid};
pub use crate::options::{Options, mirrors_are_sound};
pub use crate::places::LeftOut;
pub use crate::recover::{Recover, Recovered};
pub use crate::segment::BODY_BYTES_MAX;
pub use crate::store::{Change, KEY_BYTES_MAX, VALUE_BYTES_MAX};

use sys::fs::{LockError, LockFile};

use crate::disk::{Disk, RealDisk};
use crate::recover::Started;
use crate::threads::{Limits, Shared, lock};

/// A running journal; a cheap handle. Dropping the last one closes it.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    /// Commit thread first, then the checkpoint thread; taken by the first `close`.
    threads: Mutex<Vec<JoinHandle<()>>>,
    thread_ids: Vec<ThreadId>,
    /// Where the log is written, the first directory first.
    dirs: Vec<PathBuf>,
    /// Kept until both threads have ended.
    _locks: Vec<LockFile>,
}

impl Journal {
    /// Locks the directory, recovers into `state`, and starts the two threads.
    ///
    /// `observer` is called on the commit thread after each sync with the txid that is now durable; it
    /// must be quick. `fatal` is called once, from any thread, when the journal has stopped because of an
    /// error; the daemon then exits with code 75.
    pub fn open(
        options: Options,
        state: &mut dyn Recover,
        observer: Box<dyn Fn(Txid) + Send>,
        fatal: Box<dyn Fn(&JournalError) + Send + Sync>,
    ) -> Result<(Journal, Recovered), JournalError> {
        let locks = take_locks(&options)?;
        let started = recover::start(&options.places(), state)?;
        Journal::run(started, options.limits(), locks, observer, fatal)
    }

    fn run(
        started: Started,
        limits: Limits,
        locks: Vec<LockFile>,
        observer: Box<dyn Fn(Txid) + Send>,
        fatal: Box<dyn Fn(&JournalError) + Send + Sync>,
    ) -> Result<(Journal, Recovered), JournalError> {
        let Started { log, checkpointer, recovered, image_wanted, is_image_missing } = started;
        let shared = Arc::new(Shared::new(
            limits,
            (recovered.last, checkpointer.applied()),
            image_wanted || is_image_missing,
            recovered.left_out.clone(),
            fatal,
        ));
        let dirs = log.homes().to_vec();
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            thread::Builder::new()
                .name(name.to_owned())
                .spawn(run)
                .map_err(error::disk("start thread", name))
        };
        let commit = spawn("journal-commit", {
            let shared = shared.clone();
            Box::new(move || threads::run_commits(&shared, log, &observer))
        })?;
        let checkpoint = spawn("journal-ckpt", {
            let shared = shared.clone();
            Box::new(move || threads::run_checkpoints(&shared, checkpointer))
        });
        let checkpoint = match checkpoint {
            Ok(handle) => handle,
            Err(error) => {
                shared.close_commits();
                let _ = commit.join();
                return Err(error);
            }
        };
        let thread_ids = vec![commit.thread().id(), checkpoint.thread().id()];
        let threads = Mutex::new(vec![commit, checkpoint]);
        let inner = Inner { shared, threads, thread_ids, dirs, _locks: locks };
        Ok((Journal { inner: Arc::new(inner) }, recovered))
    }

    /// Gives the bodies the next txids, in order, and queues them; returns the last txid. Blocks only
    /// while `queue_bytes_max` is reached. A body over [`BODY_BYTES_MAX`] stops the journal.
    ///
    /// REQUIRES: one writer. With several, which txid goes to whose body is arbitrary.
    pub fn append(&self, bodies: Vec<Vec<u8>>) -> Txid {
        self.inner.shared.append(bodies)
    }

    /// The last record that is on disk in every directory.
    pub fn durable(&self) -> Txid {
        self.inner.shared.durable()
    }

    /// Blocks until `txid` is durable; `false` if the journal stopped before.
    pub fn wait_durable(&self, txid: Txid) -> bool {
        self.inner.shared.wait_durable(txid)
    }

    /// Hands over the rows that changed since the last call, as of `at`. They are applied in the
    /// background, together with `at` in one atomic step, once `at` is durable. A row over the limits
    /// stops the journal.
    ///
    /// REQUIRES: `at` does not decrease; the rows are exactly the state after record `at`.
    pub fn checkpoint(&self, at: Txid, changes: Vec<Change>) {
        self.inner.shared.checkpoint(at, changes);
    }

    /// Bytes handed over by [`checkpoint`](Journal::checkpoint) and not yet applied.
    pub fn checkpoint_pending(&self) -> u64 {
        self.inner.shared.checkpoint_bytes()
    }

    /// The record up to which the checkpoint is durable.
    pub fn applied(&self) -> Txid {
        self.inner.shared.applied()
    }

    /// Writes an image of the checkpoint as of [`applied`](Journal::applied), after what was handed over
    /// before and is durable; returns its path when it is on disk. Blocks; the checkpoint thread does it.
    pub fn export_image(&self) -> Result<PathBuf, JournalError> {
        let (reply, answer) = sync_channel(1);
        self.inner.shared.request_export(reply);
        answer.recv().unwrap_or(Err(JournalError::Stopped))
    }

    /// Begins a new segment of the log after what was appended before; returns its first txid. Blocks; the commit thread does it.
    ///
    /// # Errors
    /// [`JournalError::Stopped`] if the journal stopped or closed.
    pub fn roll(&self) -> Result<Txid, JournalError> {
        let (reply, answer) = sync_channel(1);
        self.inner.shared.request_roll(reply);
        answer.recv().map_err(|_| JournalError::Stopped)
    }

    /// The directories that get each record before it is durable, the first one first: one that is full ends the journal.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.inner.dirs
    }

    /// Mirrors that would not be enough if the first directory were lost: those left out at the start, and those that did not get the last image.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.inner.shared.left_out()
    }

    /// Figures for metrics.
    pub fn stats(&self) -> Stats {
        let shared = &self.inner.shared;
        let counters = &shared.counters;
        Stats {
            records: counters.records.load(Ordering::Relaxed),
            bytes: counters.bytes.load(Ordering::Relaxed),
            commits: counters.commits.load(Ordering::Relaxed),
            commit_time: Duration::from_nanos(counters.commit_nanos.load(Ordering::Relaxed)),
            commit_time_max: Duration::from_nanos(
                counters.commit_nanos_max.load(Ordering::Relaxed),
            ),
            queue_bytes: shared.queue_bytes(),
            checkpoints: counters.checkpoints.load(Ordering::Relaxed),
            checkpoint_rows: counters.rows.load(Ordering::Relaxed),
            checkpoint_pending_bytes: shared.checkpoint_bytes(),
            images: counters.images.load(Ordering::Relaxed),
            image_failures: counters.image_failures.load(Ordering::Relaxed),
            left_out: shared.left_out().len() as u64,
        }
    }

    /// Writes out everything queued, stops the threads and waits for them. Later appends are dropped
    /// and never become durable. Closing twice is harmless; from inside `observer` or `fatal` it does
    /// not wait.
    pub fn close(&self) {
        self.inner.close();
    }
}

impl Inner {
    fn close(&self) {
        if self.thread_ids.contains(&thread::current().id()) {
            self.shared.close_commits();
            self.shared.close_checkpoints();
            return;
        }
        let mut threads = lock(&self.threads).drain(..).collect::<Vec<_>>().into_iter();
        self.shared.close_commits();
        // Their panics were caught and reported inside.
        let _ = threads.next().map(JoinHandle::join);
        self.shared.close_checkpoints();
        let _ = threads.next().map(JoinHandle::join);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// Creates the directory if need be and takes its lock, or reports who holds it.
fn take_lock(dir: &Path) -> Result<LockFile, JournalError> {
    RealDisk.create_dir(dir).map_err(error::disk("create directory", dir))?;
    LockFile::of_directory(dir).map_err(lock_error)
}

fn lock_error(error: LockError) -> JournalError {
    match error {
        LockError::Held { path, holder } => JournalError::Locked { path, pid: holder.parse().ok() },
        LockError::HeldWithoutFile { directory } => {
            JournalError::Locked { path: directory, pid: None }
        }
        LockError::Io { path, source } => error::disk("lock", path)(source),
    }
}

/// The lock of the journal's directory and of each mirror: no two journals may use the same one. The start deals with a mirror that does not work.
fn take_locks(options: &Options) -> Result<Vec<LockFile>, JournalError> {
    let mut locks = vec![take_lock(&options.dir)?];
    for dir in &options.mirrors {
        match take_lock(dir) {
            Ok(lock) => locks.push(lock),
            Err(error @ JournalError::Locked { .. }) => return Err(error),
            Err(error) => tracing::warn!(%error, "mirror not locked"),
        }
    }
    Ok(locks)
}

/// Figures since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records made durable.
    pub records: u64,
    /// Their bytes in one directory.
    pub bytes: u64,
    /// Syncs, one per batch.
    pub commits: u64,
    /// Time spent encoding, writing and syncing, all batches together.
    pub commit_time: Duration,
    /// The slowest batch.
    pub commit_time_max: Duration,
    /// Bytes queued or being written.
    pub queue_bytes: u64,
    /// Steps applied to the checkpoint store.
    pub checkpoints: u64,
    /// Rows in the checkpoint store, as of the last step (zero before the first).
    pub checkpoint_rows: u64,
    /// Bytes handed over for the checkpoint and not yet applied.
    pub checkpoint_pending_bytes: u64,
    /// Images exported.
    pub images: u64,
    /// Images that could not be exported.
    pub image_failures: u64,
    /// Mirrors left out now; see [`Journal::left_out`].
    pub left_out: u64,
}

//! The two threads of a running journal and what they share with the handle.
//!
//! ```text
//! append ─► queue ─► commit thread: drain, encode, write, fdatasync ─► durable ─► observer
//!                                                                        │
//! checkpoint ─► queue ─► checkpoint thread: wait until durable, apply, sync ─► applied; export images
//! ```
//!
//! Invariants:
//! - `durable` moves only after the sync of every directory's log, `applied` only after the sync of the store;
//! - the first error or panic in a thread stops both and is reported to `fatal` once, and nothing is acknowledged after it;
//! - no lock is held while calling out (disk, store, observer, fatal).

use std::collections::VecDeque;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::checkpoint::Checkpointer;
use crate::error::JournalError;
use crate::id::Txid;
use crate::log::LogWriter;
use crate::places::LeftOut;
use crate::segment::{BODY_BYTES_MAX, RECORD_HEAD_LEN};
use crate::store::Change;

/// The limits that the threads work by; see `Options` for their meaning.
pub(crate) struct Limits {
    pub(crate) batch_records_max: usize,
    pub(crate) batch_bytes_max: usize,
    pub(crate) queue_bytes_max: u64,
    pub(crate) image_edits_max: u64,
    pub(crate) image_interval: Duration,
}

/// Called when the journal has to stop.
pub(crate) type Fatal = Box<dyn Fn(&JournalError) + Send + Sync>;

/// Called after each sync.
pub(crate) type Observer = Box<dyn Fn(Txid) + Send>;

/// Shared by the handle and both threads.
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    commits: Mutex<CommitQueue>,
    /// There is something in `commits`, or it closes.
    commits_wake: Condvar,
    /// There is room in `commits`, or `durable` moved.
    commits_done: Condvar,
    checkpoints: Mutex<CheckpointQueue>,
    /// There is something in `checkpoints`, it closes, or `durable` moved.
    checkpoints_wake: Condvar,
    durable: AtomicU64,
    applied: AtomicU64,
    checkpoint_bytes: AtomicU64,
    stopped: AtomicBool,
    /// Mirrors that the start left out.
    left_out: Vec<LeftOut>,
    /// Mirrors that did not get the last image.
    without_image: Mutex<Vec<LeftOut>>,
    fatal: Fatal,
    pub(crate) counters: Counters,
}

struct CommitQueue {
    bodies: VecDeque<Vec<u8>>,
    /// Bytes on disk of what is queued or being written.
    bytes: u64,
    /// The last txid that was given out.
    assigned: u64,
    /// Who wants a new segment.
    rolls: Vec<SyncSender<Txid>>,
    /// Threads in a wait for `commits_done`: usually none, and then no sync pays for waking them.
    waiters: usize,
    closing: bool,
}

#[derive(Default)]
struct CheckpointQueue {
    sets: VecDeque<(Txid, Vec<Change>)>,
    exports: Vec<SyncSender<Result<PathBuf, JournalError>>>,
    image_wanted: bool,
    closing: bool,
}

/// Running totals.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) records: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) commit_nanos: AtomicU64,
    pub(crate) commit_nanos_max: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) images: AtomicU64,
    pub(crate) image_failures: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        limits: Limits,
        (last, applied): (Txid, Txid),
        image_wanted: bool,
        left_out: Vec<LeftOut>,
        fatal: Fatal,
    ) -> Shared {
        Shared {
            limits,
            commits: Mutex::new(CommitQueue {
                bodies: VecDeque::new(),
                bytes: 0,
                assigned: last.0,
                rolls: Vec::new(),
                waiters: 0,
                closing: false,
            }),
            commits_wake: Condvar::new(),
            commits_done: Condvar::new(),
            checkpoints: Mutex::new(CheckpointQueue { image_wanted, ..CheckpointQueue::default() }),
            checkpoints_wake: Condvar::new(),
            durable: AtomicU64::new(last.0),
            applied: AtomicU64::new(applied.0),
            checkpoint_bytes: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            left_out,
            without_image: Mutex::default(),
            fatal,
            counters: Counters::default(),
        }
    }

    pub(crate) fn append(&self, bodies: Vec<Vec<u8>>) -> Txid {
        let mut bytes = 0;
        for body in &bodies {
            if body.len() > BODY_BYTES_MAX {
                self.stop(&JournalError::TooLarge {
                    what: "log record body",
                    bytes: body.len(),
                    bytes_max: BODY_BYTES_MAX,
                });
            }
            bytes += (RECORD_HEAD_LEN + body.len()) as u64;
        }
        let mut queue = lock(&self.commits);
        while queue.bytes >= self.limits.queue_bytes_max && !self.is_stopped() && !queue.closing {
            queue = self.wait_for_commits(queue);
        }
        queue.assigned += bodies.len() as u64;
        let last = Txid(queue.assigned);
        if self.is_stopped() || queue.closing || bodies.is_empty() {
            return last;
        }
        queue.bytes += bytes;
        queue.bodies.extend(bodies);
        drop(queue);
        self.commits_wake.notify_one();
        last
    }

    pub(crate) fn checkpoint(&self, at: Txid, changes: Vec<Change>) {
        for change in &changes {
            if let Err(error) = crate::store::check_change(change) {
                return self.stop(&error);
            }
        }
        let mut queue = lock(&self.checkpoints);
        if self.is_stopped() || queue.closing {
            return;
        }
        self.checkpoint_bytes.fetch_add(bytes_of(&changes), Ordering::Relaxed);
        queue.sets.push_back((at, changes));
        drop(queue);
        self.checkpoints_wake.notify_one();
    }

    pub(crate) fn request_roll(&self, reply: SyncSender<Txid>) {
        let mut queue = lock(&self.commits);
        if !self.is_stopped() && !queue.closing {
            queue.rolls.push(reply);
        }
        drop(queue);
        self.commits_wake.notify_one();
    }

    pub(crate) fn request_export(&self, reply: SyncSender<Result<PathBuf, JournalError>>) {
        let mut queue = lock(&self.checkpoints);
        if !self.is_stopped() && !queue.closing {
            queue.exports.push(reply);
        }
        drop(queue);
        self.checkpoints_wake.notify_one();
    }

    pub(crate) fn durable(&self) -> Txid {
        Txid(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn applied(&self) -> Txid {
        Txid(self.applied.load(Ordering::Acquire))
    }

    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn queue_bytes(&self) -> u64 {
        lock(&self.commits).bytes
    }

    pub(crate) fn left_out(&self) -> Vec<LeftOut> {
        self.left_out.iter().chain(&*lock(&self.without_image)).cloned().collect()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn wait_for_commits<'a>(
        &self,
        mut queue: MutexGuard<'a, CommitQueue>,
    ) -> MutexGuard<'a, CommitQueue> {
        queue.waiters += 1;
        let mut queue = wait(&self.commits_done, queue);
        queue.waiters -= 1;
        queue
    }

    /// Waits until `txid` is durable; `false` if the journal stopped or closed before.
    pub(crate) fn wait_durable(&self, txid: Txid) -> bool {
        let mut queue = lock(&self.commits);
        while self.durable() < txid {
            if self.is_stopped() || (queue.closing && queue.bytes == 0) {
                return false;
            }
            queue = self.wait_for_commits(queue);
        }
        true
    }

    /// Lets the commit thread finish what is queued and end.
    pub(crate) fn close_commits(&self) {
        lock(&self.commits).closing = true;
        self.commits_wake.notify_all();
        self.commits_done.notify_all();
    }

    /// Lets the checkpoint thread finish what is queued and end.
    pub(crate) fn close_checkpoints(&self) {
        lock(&self.checkpoints).closing = true;
        self.checkpoints_wake.notify_all();
    }

    /// Fail-stop: both threads end, nothing is acknowledged any more, `fatal` gets the first error.
    pub(crate) fn stop(&self, error: &JournalError) {
        if self.stopped.swap(true, Ordering::AcqRel) {
            return;
        }
        // Taking each lock once means that no thread is between its check and its wait.
        drop(lock(&self.commits));
        lock(&self.commits).rolls.clear();
        self.commits_wake.notify_all();
        self.commits_done.notify_all();
        lock(&self.checkpoints).exports.clear();
        self.checkpoints_wake.notify_all();
        (self.fatal)(error);
    }

    fn guard(&self, thread: &'static str, run: impl FnOnce() -> Result<(), JournalError>) {
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.stop(&error),
            Err(_) => self.stop(&JournalError::Panicked { thread }),
        }
    }
}

/// The commit thread.
pub(crate) fn run_commits(shared: &Shared, mut log: LogWriter, observer: &Observer) {
    shared.guard("commit", || {
        let mut batch = Vec::with_capacity(shared.limits.batch_records_max);
        while let Some(bytes) = next_batch(shared, &mut batch) {
            if batch.is_empty() {
                let rolls = std::mem::take(&mut lock(&shared.commits).rolls);
                roll(&mut log, rolls)?;
                continue;
            }
            let began = Instant::now();
            let durable = log.commit(&batch)?;
            let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            count_commit(&shared.counters, batch.len(), bytes, nanos);
            batch.clear();
            if shared.is_stopped() {
                break;
            }
            let mut queue = lock(&shared.commits);
            queue.bytes -= bytes;
            shared.durable.store(durable.0, Ordering::Release);
            // A journal that is never idle makes segments too.
            let rolls = std::mem::take(&mut queue.rolls);
            let has_waiters = queue.waiters > 0;
            drop(queue);
            if has_waiters {
                shared.commits_done.notify_all();
            }
            if lock(&shared.checkpoints).sets.front().is_some_and(|(at, _)| *at <= durable) {
                shared.checkpoints_wake.notify_one();
            }
            observer(durable);
            if !rolls.is_empty() {
                roll(&mut log, rolls)?;
            }
        }
        if !shared.is_stopped() {
            close(&mut log);
        }
        Ok(())
    });
}

/// Everything is durable without it: after a failure the next start only knows less about damage.
fn close(log: &mut LogWriter) {
    if let Err(error) = log.close() {
        tracing::warn!(%error, cause = error.source(), "the log's end is not marked");
    }
}

/// Begins a new segment for everyone who asked.
fn roll(log: &mut LogWriter, replies: Vec<SyncSender<Txid>>) -> Result<(), JournalError> {
    let first = log.roll_now()?;
    for reply in replies {
        // Whoever asked may have gone.
        let _ = reply.send(first);
    }
    Ok(())
}

/// Moves up to one batch out of the queue, waiting for the first record; an empty batch asks for a new segment. `None` when it is
/// time to end.
fn next_batch(shared: &Shared, batch: &mut Vec<Vec<u8>>) -> Option<u64> {
    let mut queue = lock(&shared.commits);
    while queue.bodies.is_empty()
        && queue.rolls.is_empty()
        && !queue.closing
        && !shared.is_stopped()
    {
        queue = wait(&shared.commits_wake, queue);
    }
    if shared.is_stopped() {
        return None;
    }
    if queue.bodies.is_empty() && !queue.rolls.is_empty() {
        return Some(0);
    }
    let mut bytes = 0;
    while batch.len() < shared.limits.batch_records_max {
        let Some(body) = queue.bodies.front() else { break };
        let len = RECORD_HEAD_LEN + body.len();
        if !batch.is_empty() && bytes + len > shared.limits.batch_bytes_max {
            break;
        }
        bytes += len;
        batch.extend(queue.bodies.pop_front());
    }
    (!batch.is_empty()).then_some(bytes as u64)
}

fn count_commit(counters: &Counters, records: usize, bytes: u64, nanos: u64) {
    counters.records.fetch_add(records as u64, Ordering::Relaxed);
    counters.bytes.fetch_add(bytes, Ordering::Relaxed);
    counters.commits.fetch_add(1, Ordering::Relaxed);
    counters.commit_nanos.fetch_add(nanos, Ordering::Relaxed);
    counters.commit_nanos_max.fetch_max(nanos, Ordering::Relaxed);
}

/// The checkpoint thread.
pub(crate) fn run_checkpoints(shared: &Shared, mut checkpointer: Checkpointer) {
    shared.guard("checkpoint", || {
        let mut schedule = ImageSchedule::after(Instant::now(), shared.limits.image_interval);
        loop {
            match next_work(shared, &schedule, &checkpointer) {
                Work::Apply(at, sets) => {
                    let bytes: u64 = sets.iter().map(|changes| bytes_of(changes)).sum();
                    checkpointer.apply(at, sets)?;
                    shared.applied.store(checkpointer.applied().0, Ordering::Release);
                    shared.checkpoint_bytes.fetch_sub(bytes, Ordering::Relaxed);
                    shared.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
                    shared.counters.rows.store(checkpointer.row_count(), Ordering::Relaxed);
                }
                Work::Export(replies) => {
                    let is_done = export(shared, &mut checkpointer, replies)?;
                    let now = Instant::now();
                    schedule = ImageSchedule::after(now, shared.limits.image_interval);
                    if !is_done {
                        schedule.not_before = now + IMAGE_RETRY;
                    }
                }
                Work::End => return Ok(()),
            }
        }
    });
}

/// When the next image is due by itself.
struct ImageSchedule {
    /// By time.
    due: Instant,
    /// No image before this, not even by number of records: the last attempt failed.
    not_before: Instant,
}

impl ImageSchedule {
    fn after(now: Instant, interval: Duration) -> ImageSchedule {
        ImageSchedule { due: now + interval, not_before: now }
    }

    fn is_due(&self, now: Instant, is_full: bool) -> bool {
        now >= self.not_before && (is_full || now >= self.due)
    }

    fn next(&self, is_full: bool) -> Instant {
        if is_full { self.not_before } else { self.due.max(self.not_before) }
    }
}

/// Writes an image; `false` if it could not be written (disk full): that does not stop the journal, the
/// log stays.
fn export(
    shared: &Shared,
    checkpointer: &mut Checkpointer,
    mut replies: Vec<SyncSender<Result<PathBuf, JournalError>>>,
) -> Result<bool, JournalError> {
    // A segment ends where the image does. So it can be removed once the image is the older of two, separately from what follows.
    shared.request_roll(sync_channel(1).0);
    let exported = checkpointer.export();
    *lock(&shared.without_image) = checkpointer.left_out().to_vec();
    match exported {
        Ok(path) => {
            shared.counters.images.fetch_add(1, Ordering::Relaxed);
            for reply in replies {
                // The one who asked may have gone.
                let _ = reply.send(Ok(path.clone()));
            }
            Ok(true)
        }
        Err(error @ JournalError::Store(_)) => Err(error),
        Err(error) => {
            shared.counters.image_failures.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, cause = error.source(), "image not exported");
            if let Some(reply) = replies.pop() {
                let _ = reply.send(Err(error));
            }
            Ok(false)
        }
    }
}

enum Work {
    Apply(Txid, Vec<Vec<Change>>),
    Export(Vec<SyncSender<Result<PathBuf, JournalError>>>),
    End,
}

/// Waits for something to do: rows whose records are durable come first, then images, then the end.
fn next_work(shared: &Shared, schedule: &ImageSchedule, checkpointer: &Checkpointer) -> Work {
    let unimaged = checkpointer.unimaged();
    let is_full = unimaged >= image_edits(&shared.limits, checkpointer.row_count());
    let mut queue = lock(&shared.checkpoints);
    loop {
        if shared.is_stopped() {
            return Work::End;
        }
        let (at, sets) = take_durable(&mut queue.sets, shared.durable());
        if !sets.is_empty() {
            return Work::Apply(at, sets);
        }
        let now = Instant::now();
        if !queue.exports.is_empty()
            || std::mem::take(&mut queue.image_wanted)
            || (unimaged > 0 && !queue.closing && schedule.is_due(now, is_full))
        {
            return Work::Export(std::mem::take(&mut queue.exports));
        }
        if queue.closing {
            return Work::End;
        }
        queue = if unimaged > 0 {
            let timeout = schedule.next(is_full).saturating_duration_since(now);
            let woken = shared.checkpoints_wake.wait_timeout(queue, timeout);
            woken.unwrap_or_else(PoisonError::into_inner).0
        } else {
            wait(&shared.checkpoints_wake, queue)
        };
    }
}

/// Records after which an image is due.
fn image_edits(limits: &Limits, row_count: u64) -> u64 {
    limits.image_edits_max.max(row_count / IMAGE_SHARE)
}

/// Takes sets whose records are durable, up to one store batch.
fn take_durable(
    sets: &mut VecDeque<(Txid, Vec<Change>)>,
    durable: Txid,
) -> (Txid, Vec<Vec<Change>>) {
    let mut at = Txid::ZERO;
    let mut taken = Vec::new();
    let mut bytes = 0;
    while bytes < APPLY_BYTES && sets.front().is_some_and(|set| set.0 <= durable) {
        let Some((set_at, changes)) = sets.pop_front() else { break };
        bytes += bytes_of(&changes);
        at = at.max(set_at);
        taken.push(changes);
    }
    (at, taken)
}

fn bytes_of(changes: &[Change]) -> u64 {
    changes
        .iter()
        .map(|change| {
            (change.key.len() + change.value.as_ref().map_or(0, Vec::len) + CHANGE_OVERHEAD) as u64
        })
        .sum()
}

/// No code panics while it holds one of these locks, and what they guard is valid at each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Pending changes that go into one store batch, in bytes: 4 MiB. Enough to share one sync among many
/// sets, little enough to be built in memory.
const APPLY_BYTES: u64 = 4 << 20;

/// An image is due by number of records only after a quarter as many records as it has rows: writing it costs as much as all its rows,
/// replaying a record as much as a few of them.
const IMAGE_SHARE: u64 = 4;

/// Time after a failed image before the next attempt: a minute, so that a full disk is not kept busy.
const IMAGE_RETRY: Duration = Duration::from_secs(60);

/// What a pending row costs beside its bytes: two vectors and an allocation header each.
const CHANGE_OVERHEAD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_large_checkpoints_are_rarer() {
        let limits = Limits {
            batch_records_max: 1,
            batch_bytes_max: 1,
            queue_bytes_max: 1,
            image_edits_max: 1000,
            image_interval: Duration::from_secs(1),
        };
        for (row_count, edits) in [(0, 1000), (4000, 1000), (4004, 1001), (1_000_000, 250_000)] {
            assert_eq!(image_edits(&limits, row_count), edits, "{row_count} rows");
        }
    }
}

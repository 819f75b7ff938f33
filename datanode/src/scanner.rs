//! Verifies every replica in the background, compares the table with the disks and empties the trash: one thread, slow on purpose.

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::BlockId;
use sys::wake::Wake;
use transport::rpc::now_ms;

use crate::core::scrub::{Next, Scrub};
use crate::error::StoreError;
use crate::store::{Cursor, OpenReplica, Store, verify_range};

/// Longest sleep: the trash must be emptied in time.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// How often the scanner's place is saved, as HDFS: a crash repeats at most this much work.
const CURSOR_SAVE_INTERVAL: Duration = Duration::from_secs(600);

/// The limits of the scanner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacing {
    /// Bytes per second.
    pub(crate) rate: u64,
    /// Time between comparisons with the disks; zero means never.
    pub(crate) compare_period: Duration,
}

/// Runs until `stop` is notified; blocks.
pub(crate) fn run(store: &Arc<Store>, mut scrub: Scrub, pacing: Pacing, stop: &Wake) {
    let Pacing { rate, compare_period } = pacing;
    let start = Instant::now();
    if let Some(cursor) = store.load_cursor() {
        scrub.resume(cursor.block, Duration::from_millis(now_ms().saturating_sub(cursor.round_ms)));
    }
    let (mut saved, mut compared) = (Instant::now(), Instant::now());
    loop {
        let is_over = || has_ended(stop, Duration::ZERO);
        store.empty_trash(&is_over);
        if compare_period > Duration::ZERO && compared.elapsed() >= compare_period {
            let differences = store.compare_with_disks(&is_over);
            tracing::info!(?differences, "compared replicas with what the disks hold");
            compared = Instant::now();
        }
        if saved.elapsed() >= CURSOR_SAVE_INTERVAL {
            store.save_cursor(place(&scrub, start));
            saved = Instant::now();
        }
        let suspect = scrub.suspect(start.elapsed(), || store.pop_suspect());
        let next = suspect
            .unwrap_or_else(|| scrub.next(start.elapsed(), |after| store.next_finalized(after)));
        let sleep = match next {
            Next::Scan(block) => {
                let mut pace = Pace { start: Instant::now(), bytes: 0, rate: rate.max(1) };
                let scanned = scan(store, block, |bytes| {
                    has_ended(stop, pace.after(bytes));
                });
                let bytes = scanned.unwrap_or(0);
                store.scans().note(bytes);
                // The pauses within a replica have kept the rate; only the remainder counts here.
                scrub.scanned(start.elapsed(), bytes.saturating_sub(pace.bytes));
                if scanned.is_some() { Duration::ZERO } else { SLEEP_MAX }
            }
            Next::Wait(until) => until.saturating_sub(start.elapsed()).min(SLEEP_MAX),
        };
        if has_ended(stop, sleep) {
            store.save_cursor(place(&scrub, start));
            return;
        }
    }
}

/// The scanner's place in the form that is saved.
fn place(scrub: &Scrub, start: Instant) -> Cursor {
    let (block, round_start, head_start) = scrub.place();
    let age = start.elapsed().saturating_sub(round_start) + head_start;
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    Cursor { block, round_ms: now_ms().saturating_sub(age_ms) }
}

struct Pace {
    start: Instant,
    bytes: u64,
    rate: u64,
}

impl Pace {
    /// How long to pause to keep the rate.
    fn after(&mut self, bytes: u64) -> Duration {
        self.bytes += bytes;
        let due = Duration::from_secs_f64(self.bytes as f64 / self.rate as f64);
        due.saturating_sub(self.start.elapsed())
    }
}

/// Verifies one replica and reports it if it is bad; `each` is called after every step with the bytes that it read. Returns the bytes in all; `None` if there
/// are no resources now, and the replica must wait.
pub fn scan(store: &Store, block: BlockId, mut each: impl FnMut(u64)) -> Option<u64> {
    let opened = match store.open_any(block) {
        Ok(opened) => opened,
        // It was deleted meanwhile, or its volume is out of service.
        Err(StoreError::NotFound(_)) => {
            store.forget_failed_read(block);
            return Some(0);
        }
        Err(StoreError::Shortage { .. }) => {
            // Nothing was verified: try again when other operations have ended.
            store.suspect(block);
            return None;
        }
        Err(error) => {
            tracing::warn!(error = %protocol::error::chain(&error), "scanner cannot open a replica");
            store.scans().note_bad();
            return Some(0);
        }
    };
    let length = opened.replica.length;
    let mut read = 0;
    let verified = verify_range(block, &opened.block, &opened.meta, 0, length, |bytes| {
        read += bytes;
        each(bytes);
    });
    if verified.is_ok() && is_too_long(store, &opened) {
        tracing::warn!(%block, "scanner found bytes behind the end of a replica");
        store.report_bad(&opened.replica);
        store.scans().note_bad();
    }
    match verified {
        Ok(()) => store.forget_failed_read(block),
        Err(error) if opened.replica.is_finalized() && error.is_bad_replica() => {
            store.note_unread(&opened.replica, &error);
            store.scans().note_bad();
        }
        Err(_) => {}
    }
    Some(read)
}

/// True if a finalized replica has bytes past its end, and nobody has begun to append to it since it was opened.
fn is_too_long(store: &Store, opened: &OpenReplica) -> bool {
    let replica = opened.replica;
    let longer = opened.block.length().is_ok_and(|length| length > replica.length);
    longer
        && replica.is_finalized()
        && store.open_any(replica.block).is_ok_and(|again| again.replica == replica)
}

/// Sleeps; true once `stop` has ended.
fn has_ended(stop: &Wake, sleep: Duration) -> bool {
    !matches!(stop.wait(sleep), Ok(false))
}

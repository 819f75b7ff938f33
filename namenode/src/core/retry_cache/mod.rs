//! The answers of recent changing calls, so that a repeated call gets its first answer and has no second effect.
//!
//! ```text
//! call -> change  -> `Ring` of answers, journalled and in rows of the checkpoint; `Shares` says who may have more
//!      -> nothing -> `unchanged`: in memory alone, in a room of its own
//! ```
//!
//! Invariants:
//!
//! - An answer of a change is kept for [`HELD_MS`], whatever others do. Where there is no room for more of a user's, further changes of that user are refused
//!   as busy *before* they are made ([`RetryCache::admits`]), and nobody else's.
//! - Older ones stay up to [`RETAINED_MS`] while all of them have [`SPARE_BYTES`]; the oldest go first.
//! - Answers of calls that changed nothing do not take the place of others.
//!
//! Time counts on as the monotonic clock does, from the wall clock at the start: one that is set makes no answer older.
//!
//! Checkpoint row: key `r` + chunk number (big endian), value postcard(`Vec<(CallKey, at_ms, Outcome)>`), under `CHUNK_BYTES`. A row does not say whose the
//! answers are; what comes from the disk counts against the room, and against no user.

mod ring;
mod shares;
mod unchanged;

use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

pub use self::unchanged::HELD_MS;

use self::ring::Ring;
use self::shares::{Account, Shares};
use self::unchanged::Unchanged;
use super::edit::{CallKey, Outcome};
use super::inodes::{decode, encode};
use super::now::Now;
use crate::error::CoreError;

/// How long an answer is kept at most, as `dfs.namenode.retrycache.expirytime.millis`.
pub const RETAINED_MS: u64 = 10 * 60 * 1000;
/// Bytes of answers up to which those older than [`HELD_MS`] stay: half a million.
pub const SPARE_BYTES: usize = 64 << 20;
/// Most bytes of answers of changes. One user's share (four fifths) is [`HELD_MS`] of 90,000 directories made a second, or of 28,000 files created and closed:
/// more than was ever measured. So many files need more memory than their answers.
pub const BYTES_MAX: usize = 1 << 30;
/// Target size of a checkpoint row; leaves room for one large answer below the store's 16 KB.
const CHUNK_BYTES: usize = 8 * 1024;
/// First byte of the rows' keys.
pub const ROW_PREFIX: u8 = b'r';
/// Tables of places: one that grows holds its caller up for a few milliseconds.
const TABLES: usize = 64;
/// Bytes of an answer with its place in a table, which may be nearly half empty.
const ENTRY_BYTES: usize = size_of::<Entry>() + 12;
/// Bytes that the allocator needs beside those of a longer answer.
const HEAP_BYTES: usize = 16;

/// The cache.
pub struct RetryCache {
    /// Places of `order`, by the hash of the call.
    tables: [HashTable<u32>; TABLES],
    hasher: DefaultHashBuilder,
    order: Ring<Entry>,
    shares: Shares,
    unchanged: Unchanged,
    /// What the time is ahead of the monotonic clock.
    ahead_ms: u64,
    /// Time of the newest answer.
    newest_ms: u64,
    /// Place up to which answers are in checkpoint rows.
    saved_to: u64,
    chunks: VecDeque<Chunk>,
    next_chunk: u64,
    /// For encoding answers.
    scratch: Vec<u8>,
}

struct Entry {
    key: CallKey,
    at_ms: u64,
    outcome: Kept,
    account: Account,
}

/// An answer in little memory.
enum Kept {
    Done,
    Flag(bool),
    /// As in a row.
    Encoded(Box<[u8]>),
}

/// A row: of no use once all its entries are gone.
struct Chunk {
    number: u64,
    newest_ms: u64,
    /// Place after its last entry.
    end: u64,
}

impl Default for RetryCache {
    fn default() -> Self {
        RetryCache::with_room(BYTES_MAX)
    }
}

impl RetryCache {
    /// A cache for so many bytes of answers of changes.
    pub fn with_room(bytes: usize) -> Self {
        RetryCache {
            tables: std::array::from_fn(|_| HashTable::new()),
            hasher: DefaultHashBuilder::default(),
            order: Ring::default(),
            shares: Shares::new(bytes),
            unchanged: Unchanged::new(unchanged::ROOM),
            ahead_ms: 0,
            newest_ms: 0,
            saved_to: 0,
            chunks: VecDeque::new(),
            next_chunk: 0,
            scratch: Vec::new(),
        }
    }

    /// Everything is loaded, and the clocks show this: what is loaded is not from the future.
    pub fn begin(&mut self, now: Now) {
        self.ahead_ms = self.newest_ms.max(now.wall_ms).saturating_sub(now.mono_ms);
        self.expire(self.time(now));
    }

    /// The time by which answers age.
    pub fn time(&self, now: Now) -> u64 {
        now.mono_ms.saturating_add(self.ahead_ms)
    }

    /// The first answer to a call, if it is known.
    pub fn answer(&self, key: &CallKey) -> Option<Outcome> {
        if let Some(outcome) = self.unchanged.answer(key) {
            return Some(outcome.clone());
        }
        self.find(key).map(|entry| entry.outcome.outcome())
    }

    /// Whether an answer of a change for this user can be kept as long as it must be.
    pub fn admits(&mut self, user: &str, now: Now) -> bool {
        self.expire(self.time(now));
        self.shares.admit(user)
    }

    /// Remembers the answer of a change for a user.
    pub fn insert(&mut self, key: CallKey, user: &str, at_ms: u64, outcome: &Outcome) {
        let account = self.shares.open(user);
        self.push(key, account, at_ms, outcome);
    }

    /// Remembers the answer of a change that was read from the disk.
    pub fn replay(&mut self, key: CallKey, at_ms: u64, outcome: &Outcome) {
        self.push(key, Account::UNKNOWN, at_ms, outcome);
    }

    /// Remembers the answer for a user of a call that changed nothing.
    pub fn insert_unchanged(&mut self, key: CallKey, user: &str, now: Now, outcome: Outcome) {
        self.unchanged.insert(key, user, self.time(now), outcome);
    }

    fn push(&mut self, key: CallKey, account: Account, at_ms: u64, outcome: &Outcome) {
        let outcome = Kept::new(outcome, &mut self.scratch);
        // A call that is known already keeps its first answer; a user of whom nothing is kept needs no account.
        let bytes = if self.find(&key).is_some() { 0 } else { ENTRY_BYTES + outcome.bytes() };
        self.shares.charge(account, bytes);
        if bytes == 0 {
            return self.shares.refund(account, 0);
        }
        let place = self.order.push(Entry { key, at_ms, outcome, account });
        let (hasher, order) = (&self.hasher, &self.order);
        let hash = hasher.hash_one(key);
        let again = |place: &u32| order.at(*place).map_or(0, |entry| hasher.hash_one(entry.key));
        self.tables[table_of(hash)].insert_unique(hash, short(place), again);
        self.newest_ms = self.newest_ms.max(at_ms);
        self.expire(at_ms);
        // Another version may have let more pass.
        while account == Account::UNKNOWN && self.shares.is_over() {
            self.pop();
        }
    }

    fn find(&self, key: &CallKey) -> Option<&Entry> {
        let hash = self.hasher.hash_one(key);
        let entry = |place: u32| self.order.at(place).filter(|entry| entry.key == *key);
        let place = self.tables[table_of(hash)].find(hash, |place| entry(*place).is_some())?;
        entry(*place)
    }

    /// Drops answers that are too old.
    fn expire(&mut self, now_ms: u64) {
        while let Some(oldest) = self.order.front() {
            let is_older = |age_ms| oldest.at_ms.saturating_add(age_ms) < now_ms;
            let goes =
                is_older(RETAINED_MS) || is_older(HELD_MS) && self.shares.used() > SPARE_BYTES;
            if !goes {
                return;
            }
            self.pop();
        }
    }

    fn pop(&mut self) {
        let Some((place, entry)) = self.order.pop() else { return };
        let hash = self.hasher.hash_one(entry.key);
        let table = &mut self.tables[table_of(hash)];
        if let Ok(found) = table.find_entry(hash, |other| *other == short(place)) {
            found.remove();
        }
        self.shares.refund(entry.account, ENTRY_BYTES + entry.outcome.bytes());
    }

    /// Rows that changed since the last call: new ones with their value, expired ones without.
    pub fn take_rows(&mut self, now_ms: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut rows = Vec::new();
        while let Some(chunk) = self.chunks.front()
            && (chunk.end <= self.order.first()
                || chunk.newest_ms.saturating_add(RETAINED_MS) < now_ms)
        {
            rows.push((row_key(chunk.number), None));
            self.chunks.pop_front();
        }
        let mut batch: Vec<(CallKey, u64, Outcome)> = Vec::new();
        let mut bytes = 0;
        let mut finished = Vec::new();
        for (place, entry) in self.order.since(self.saved_to) {
            bytes += 40 + entry.outcome.bytes();
            batch.push((entry.key, entry.at_ms, entry.outcome.outcome()));
            if bytes >= CHUNK_BYTES {
                finished.push((encode(&batch), entry.at_ms, place + 1));
                batch.clear();
                bytes = 0;
            }
        }
        self.saved_to = self.order.end();
        if let Some(&(_, at_ms, _)) = batch.last() {
            finished.push((encode(&batch), at_ms, self.saved_to));
        }
        for (value, newest_ms, end) in finished {
            rows.push((row_key(self.next_chunk), Some(value)));
            self.chunks.push_back(Chunk { number: self.next_chunk, newest_ms, end });
            self.next_chunk += 1;
        }
        rows
    }

    /// Takes a checkpoint row; rows come in ascending order of keys.
    ///
    /// # Errors
    /// [`CoreError::BadRow`] if it is malformed.
    pub fn load_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), CoreError> {
        let number: [u8; 8] =
            key.get(1..).and_then(|key| key.try_into().ok()).ok_or(CoreError::BadRow("answers"))?;
        let number = u64::from_be_bytes(number);
        let next = number.checked_add(1).ok_or(CoreError::BadRow("answers"))?;
        let entries: Vec<(CallKey, u64, Outcome)> = decode(value, "answers")?;
        let newest_ms = entries.last().map_or(0, |entry| entry.1);
        for (key, at_ms, outcome) in entries {
            self.replay(key, at_ms, &outcome);
        }
        self.saved_to = self.order.end();
        self.chunks.push_back(Chunk { number, newest_ms, end: self.saved_to });
        self.next_chunk = self.next_chunk.max(next);
        Ok(())
    }

    /// Answers kept.
    pub fn count(&self) -> usize {
        self.order.len() + self.unchanged.count()
    }
}

impl Kept {
    fn new(outcome: &Outcome, scratch: &mut Vec<u8>) -> Self {
        match outcome {
            Outcome::Done => Kept::Done,
            Outcome::Flag(flag) => Kept::Flag(*flag),
            outcome => {
                let mut bytes = std::mem::take(scratch);
                bytes.clear();
                let bytes = postcard::to_extend(outcome, bytes)
                    .expect("outcomes are plain data: encoding into memory cannot fail");
                let kept = Kept::Encoded(Box::from(&bytes[..]));
                *scratch = bytes;
                kept
            }
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Kept::Done => Outcome::Done,
            Kept::Flag(flag) => Outcome::Flag(*flag),
            Kept::Encoded(bytes) => {
                postcard::from_bytes(bytes).expect("these bytes were made of an outcome")
            }
        }
    }

    /// Bytes beside the entry.
    fn bytes(&self) -> usize {
        match self {
            Kept::Done | Kept::Flag(_) => 0,
            Kept::Encoded(bytes) => HEAP_BYTES + bytes.len(),
        }
    }
}

/// The table of a hash, by bits that the table itself does not use first.
fn table_of(hash: u64) -> usize {
    usize::try_from((hash >> 40) % TABLES as u64).expect("a small number")
}

#[expect(clippy::cast_possible_truncation, reason = "fewer answers are kept than 32 bits count")]
fn short(place: u64) -> u32 {
    place as u32
}

fn row_key(number: u64) -> Vec<u8> {
    let mut key = vec![ROW_PREFIX];
    key.extend(number.to_be_bytes());
    key
}

#[cfg(test)]
mod tests;

//! The answers of recent changing calls, so that a repeated call gets its first answer and has no second effect.
//!
//! Answers of calls that changed something are rebuilt from the journal and the checkpoint; refusals and calls without effect
//! are remembered in memory alone (a repeat after a restart is judged again, which is as good: it had no effect).
//! Bounded in age ([`RETAINED_MS`]) and count ([`ENTRIES_MAX`]), in memory and in the checkpoint; the oldest go first.
//!
//! Checkpoint row: key `r` + chunk number (big endian), value postcard(`Vec<(CallKey, at_ms, Outcome)>`), under `CHUNK_BYTES`.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::edit::{CallKey, Outcome};
use super::inodes::{decode, encode};
use crate::error::CoreError;

/// How long an answer is kept, as `dfs.namenode.retrycache.expirytime.millis`.
pub const RETAINED_MS: u64 = 10 * 60 * 1000;
/// Most answers kept: about 50 MB.
pub const ENTRIES_MAX: usize = 400_000;
/// Target size of a checkpoint row; leaves room for one large answer below the store's 16 KB.
const CHUNK_BYTES: usize = 8 * 1024;
/// First byte of the rows' keys.
pub const ROW_PREFIX: u8 = b'r';

/// The cache.
#[derive(Default)]
pub struct RetryCache {
    answers: HashMap<CallKey, Outcome>,
    order: VecDeque<Entry>,
    /// How many entries at the front of `order` are in checkpoint rows or need none.
    saved_count: usize,
    /// How many entries have left `order` at its front.
    gone_count: u64,
    chunks: VecDeque<Chunk>,
    next_chunk: u64,
}

struct Entry {
    key: CallKey,
    at_ms: u64,
    durable: bool,
}

/// A row: of no use once all its entries are gone.
struct Chunk {
    number: u64,
    newest_ms: u64,
    /// Value of `gone_count` from which on none of its entries is left.
    end: u64,
}

impl RetryCache {
    /// The first answer to a call, if it is known.
    pub fn answer(&self, key: &CallKey) -> Option<&Outcome> {
        self.answers.get(key)
    }

    /// Remembers an answer; `durable` if the call is in the journal.
    pub fn insert(&mut self, key: CallKey, at_ms: u64, outcome: Outcome, durable: bool) {
        if self.answers.insert(key, outcome).is_none() {
            self.order.push_back(Entry { key, at_ms, durable });
        }
        self.expire(at_ms);
    }

    /// Drops entries that are too old or too many.
    fn expire(&mut self, now_ms: u64) {
        while let Some(entry) = self.order.front()
            && (self.order.len() > ENTRIES_MAX || entry.at_ms.saturating_add(RETAINED_MS) < now_ms)
        {
            self.answers.remove(&entry.key);
            self.order.pop_front();
            self.gone_count += 1;
            self.saved_count = self.saved_count.saturating_sub(1);
        }
    }

    /// Rows that changed since the last call: new ones with their value, expired ones without.
    pub fn take_rows(&mut self, now_ms: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut rows = Vec::new();
        while let Some(chunk) = self.chunks.front()
            && (chunk.end <= self.gone_count
                || chunk.newest_ms.saturating_add(RETAINED_MS) < now_ms)
        {
            rows.push((row_key(chunk.number), None));
            self.chunks.pop_front();
        }
        let mut batch: Vec<(CallKey, u64, &Outcome)> = Vec::new();
        let mut bytes = 0;
        let mut finished = Vec::new();
        let places = (self.gone_count..).zip(&self.order).skip(self.saved_count);
        for (place, entry) in places.filter(|(_, entry)| entry.durable) {
            let Some(outcome) = self.answers.get(&entry.key) else { continue };
            bytes += 40 + outcome_bytes(outcome);
            batch.push((entry.key, entry.at_ms, outcome));
            if bytes >= CHUNK_BYTES {
                finished.push((encode(&batch), entry.at_ms, place + 1));
                batch.clear();
                bytes = 0;
            }
        }
        let end = self.gone_count + self.order.len() as u64;
        if let Some(&(_, at_ms, _)) = batch.last() {
            finished.push((encode(&batch), at_ms, end));
        }
        self.saved_count = self.order.len();
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
            self.insert(key, at_ms, outcome, true);
        }
        self.saved_count = self.order.len();
        let end = self.gone_count + self.order.len() as u64;
        self.chunks.push_back(Chunk { number, newest_ms, end });
        self.next_chunk = self.next_chunk.max(next);
        Ok(())
    }

    /// Answers kept.
    pub fn count(&self) -> usize {
        self.answers.len()
    }
}

fn row_key(number: u64) -> Vec<u8> {
    let mut key = vec![ROW_PREFIX];
    key.extend(number.to_be_bytes());
    key
}

fn outcome_bytes(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Done | Outcome::Flag(_) => 2,
        Outcome::Refused(error) => 16 + error.message.len(),
        Outcome::Path(path) => 16 + path.as_str().len(),
        Outcome::Block(block) => 64 + 17 * block.targets.len(),
        Outcome::Appended { last, .. } => {
            64 + last.as_ref().map_or(0, |block| 64 + 17 * block.targets.len())
        }
        Outcome::Created { first_block, .. } => {
            64 + first_block.as_ref().map_or(0, |block| 64 + 17 * block.targets.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::{CallId, ClientId};

    use super::*;

    fn key(number: u64) -> CallKey {
        CallKey { call: CallId { client: ClientId([1; 16]), number }, index: 0 }
    }

    #[test]
    fn answers_come_back_from_rows_and_expire_with_them() {
        let mut cache = RetryCache::default();
        for number in 0..1000 {
            cache.insert(key(number), number, Outcome::Flag(number % 2 == 0), number % 10 != 0);
        }
        let rows = cache.take_rows(1000);
        assert!(
            rows.len() > 3 && rows.iter().all(|(_, value)| value.as_ref().unwrap().len() < 16_000)
        );
        assert!(cache.take_rows(1000).is_empty());
        let mut loaded = RetryCache::default();
        rows.iter().for_each(|(key, value)| {
            loaded.load_row(key, value.as_ref().unwrap()).unwrap();
        });
        assert_eq!(loaded.count(), 900);
        assert_eq!(loaded.answer(&key(7)), Some(&Outcome::Flag(false)));
        assert_eq!(loaded.answer(&key(10)), None, "calls without effect are not saved");
        loaded.insert(key(5000), RETAINED_MS + 2000, Outcome::Done, true);
        assert_eq!(loaded.count(), 1);
        let after = loaded.take_rows(RETAINED_MS + 2000);
        assert_eq!(after.iter().filter(|(_, value)| value.is_none()).count(), rows.len());
        assert_eq!(after.iter().filter(|(_, value)| value.is_some()).count(), 1);
    }

    #[test]
    fn the_count_is_bounded() {
        let mut cache = RetryCache::default();
        for number in 0..(ENTRIES_MAX as u64 + 10) {
            cache.insert(key(number), 0, Outcome::Done, false);
        }
        assert_eq!(cache.count(), ENTRIES_MAX);
        assert!(cache.answer(&key(9)).is_none() && cache.answer(&key(10)).is_some());
    }

    #[test]
    fn rows_whose_answers_were_crowded_out_are_deleted() {
        let mut cache = RetryCache::default();
        let mut rows = std::collections::BTreeMap::new();
        let count = ENTRIES_MAX as u64;
        for number in 0..count * 2 {
            cache.insert(key(number), 5, Outcome::Done, true);
            if number % 50_000 == 0 || number + 1 == count * 2 {
                for (key, value) in cache.take_rows(5) {
                    match value {
                        Some(value) => rows.insert(key, value),
                        None => rows.remove(&key),
                    };
                }
            }
        }
        let saved: usize = rows.values().map(|value| value.len()).sum();
        let mut loaded = RetryCache::default();
        for (key, value) in &rows {
            loaded.load_row(key, value).unwrap();
        }
        assert_eq!(loaded.count(), ENTRIES_MAX);
        assert_eq!(loaded.answer(&key(count)), Some(&Outcome::Done));
        assert!(loaded.answer(&key(count - 1)).is_none());
        assert!(saved < ENTRIES_MAX * 40, "{saved} bytes are kept for {ENTRIES_MAX} answers");
        for number in count * 2..count * 3 {
            loaded.insert(key(number), 5, Outcome::Done, true);
        }
        let gone = loaded.take_rows(5).into_iter().filter(|(_, value)| value.is_none());
        assert_eq!(gone.count(), rows.len(), "loaded rows go as well");
    }

    #[test]
    fn damaged_rows_are_refused() {
        let mut cache = RetryCache::default();
        cache.insert(key(1), 1, Outcome::Done, true);
        let (row_key, value) = cache.take_rows(1).remove(0);
        let value = value.unwrap();
        for end in 0..value.len() {
            assert!(RetryCache::default().load_row(&row_key, &value[..end]).is_err());
        }
        assert!(RetryCache::default().load_row(&row_key[..5], &value).is_err());
        // A number after which none is left.
        let last = [&[ROW_PREFIX][..], &[0xff; 8]].concat();
        assert!(RetryCache::default().load_row(&last, &value).is_err());
    }
}

//! The checkpoint: rows of key and value as of one txid, in a key-value engine that is not trusted.
//!
//! Beside the rows the engine holds one row of ours, which describes all the others:
//!
//! ```text
//! key    "\0hanno.journal"
//! value  layout u32 = 1 | applied txid u64 | epoch u64 | row count u64 | row sum u64 | crc32 of these u32
//! ```
//!
//! *Row sum* is the wrapping sum over all rows of `crc32(key length u32 | key | value)`. It is written in
//! the same atomic batch as the rows, so at start-up a lost, stale or surplus row shows.
//!
//! Invariant: what [`Store::load`] accepted is exactly what some [`Store::apply`] left behind.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::bytes::{u32_at, u64_at};
use crate::error::{JournalError, StoreError};
use crate::id::{Epoch, Txid};

/// One row that changed: its new value, or `None` if it was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// At most [`KEY_BYTES_MAX`] bytes.
    pub key: Vec<u8>,
    /// At most [`VALUE_BYTES_MAX`] bytes.
    pub value: Option<Vec<u8>>,
}

/// What a walk over rows calls for each of them.
pub(crate) type RowFn<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError> + 'a;

/// An ordered key-value engine, as little of it as we need.
pub(crate) trait Kv: Send {
    /// Shows the value at `key` to `see`, if there is one.
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), StoreError>;

    /// Shows each row in key order, until `row` fails.
    fn scan(&self, row: &mut RowFn<'_>) -> Result<(), StoreError>;

    /// Applies all of `batch` or nothing of it, also across a crash.
    fn apply(&self, batch: Vec<Change>) -> Result<(), StoreError>;

    /// Makes everything applied so far durable.
    fn sync(&self) -> Result<(), StoreError>;
}

/// Where the engine keeps its files: opens, puts aside, builds anew.
pub(crate) trait KvPlace: Send + Sync {
    /// Whether there is anything to open.
    fn is_present(&self) -> Result<bool, StoreError>;

    /// Opens or creates. Repairs what the engine itself trips over, and says so in `notes`.
    fn open(&self, notes: &mut Vec<String>) -> Result<Box<dyn Kv>, StoreError>;

    /// Puts the present files aside for good and says where they went.
    fn quarantine(&self) -> Result<String, StoreError>;

    /// An empty engine in a provisional place; whatever an earlier build left there goes.
    fn build(&self) -> Result<Box<dyn Kv>, StoreError>;

    /// Moves a finished, synced build to the proper place, atomically, and opens it there.
    ///
    /// REQUIRES: nothing is present.
    fn publish(&self, built: Box<dyn Kv>) -> Result<Box<dyn Kv>, StoreError>;
}

/// An engine whose contents are known to be whole.
pub(crate) struct Store {
    kv: Box<dyn Kv>,
    meta: Meta,
}

impl Store {
    /// Shows all rows to `row` and checks that they are what was last applied. Rows are shown before
    /// the check is complete: on an error, forget them.
    ///
    /// The engine is read and the rows are summed on a thread of their own: `row` usually costs as much.
    pub(crate) fn load(kv: Box<dyn Kv>, row: &mut RowFn<'_>) -> Result<Store, StoreError> {
        let (sender, chunks) = sync_channel::<RowChunk>(CHUNKS_WAITING_MAX);
        thread::scope(|scope| {
            let reader = thread::Builder::new()
                .name("journal-read".to_owned())
                .spawn_scoped(scope, move || read_all(kv, &sender))
                .map_err(StoreError::Thread)?;
            let shown = chunks.iter().try_for_each(|chunk| chunk.show(row));
            // A reader that still has rows ends when nobody takes them.
            drop(chunks);
            let read = reader.join();
            shown?;
            match read {
                Ok(read) => read,
                Err(panic) => resume_unwind(panic),
            }
        })
    }

    /// The txid whose state the rows are.
    pub(crate) fn applied(&self) -> Txid {
        self.meta.applied
    }

    /// The epoch that wrote them.
    pub(crate) fn epoch(&self) -> Epoch {
        self.meta.epoch
    }

    /// Number of rows.
    pub(crate) fn row_count(&self) -> u64 {
        self.meta.row_count
    }

    /// Shows each row in key order.
    pub(crate) fn for_each_row(&self, row: &mut RowFn<'_>) -> Result<(), StoreError> {
        self.kv.scan(&mut |key, value| if key == META_KEY { Ok(()) } else { row(key, value) })
    }

    /// Applies changed rows and the new `applied`, and returns when all of it is durable.
    pub(crate) fn apply(
        &mut self,
        changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
        applied: Txid,
        epoch: Epoch,
    ) -> Result<(), StoreError> {
        self.put(changes, applied, epoch)?;
        self.kv.sync()
    }

    fn put(
        &mut self,
        changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
        applied: Txid,
        epoch: Epoch,
    ) -> Result<(), StoreError> {
        let mut meta = Meta { applied, epoch, ..self.meta };
        let mut batch = Vec::with_capacity(changes.len() + 1);
        for (key, value) in changes {
            let mut old = None;
            self.kv.get(&key, &mut |value| old = Some(row_crc(&key, value)))?;
            if let Some(crc) = old {
                meta.row_count -= 1;
                meta.row_sum = meta.row_sum.wrapping_sub(crc);
            }
            if let Some(value) = &value {
                meta.row_count += 1;
                meta.row_sum = meta.row_sum.wrapping_add(row_crc(&key, value));
            }
            batch.push(Change { key, value });
        }
        batch.push(Change { key: META_KEY.to_vec(), value: Some(meta.encode()) });
        self.kv.apply(batch)?;
        self.meta = meta;
        Ok(())
    }

    /// Fills an empty engine row by row. Until [`Filler::finish`] its contents are not acceptable to
    /// [`Store::load`].
    pub(crate) fn fill(kv: Box<dyn Kv>) -> Filler {
        Filler { kv, meta: Meta::default(), batch: Vec::new(), batch_bytes: 0 }
    }
}

/// Rows on their way from the thread that reads to the one that takes them.
#[derive(Default)]
struct RowChunk {
    bytes: Vec<u8>,
    /// Ends of key and value in `bytes`.
    ends: Vec<(u32, u32)>,
}

impl RowChunk {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        let mut end = |part: &[u8]| {
            self.bytes.extend_from_slice(part);
            u32::try_from(self.bytes.len()).expect("a chunk is closed long before 4 GiB")
        };
        let ends = (end(key), end(value));
        self.ends.push(ends);
    }

    fn show(&self, row: &mut RowFn<'_>) -> Result<(), StoreError> {
        let mut from = 0;
        for &(key_end, value_end) in &self.ends {
            let (key_end, value_end) = (key_end as usize, value_end as usize);
            row(&self.bytes[from..key_end], &self.bytes[key_end..value_end])?;
            from = value_end;
        }
        Ok(())
    }
}

/// Reads every row, sends them in chunks, and checks them against the row that describes them.
fn read_all(kv: Box<dyn Kv>, chunks: &SyncSender<RowChunk>) -> Result<Store, StoreError> {
    let mut stored = None;
    let (mut row_count, mut row_sum) = (0, 0u64);
    let mut chunk = RowChunk::default();
    kv.scan(&mut |key, value| {
        if key == META_KEY {
            stored = Some(Meta::decode(value)?);
            return Ok(());
        }
        row_count += 1;
        row_sum = row_sum.wrapping_add(row_crc(key, value));
        chunk.push(key, value);
        if chunk.bytes.len() < CHUNK_BYTES {
            return Ok(());
        }
        chunks.send(std::mem::take(&mut chunk)).map_err(|_| StoreError::NotWanted)
    })?;
    chunks.send(chunk).map_err(|_| StoreError::NotWanted)?;
    let meta = match stored {
        Some(meta) => meta,
        None if row_count == 0 => Meta::default(),
        None => return Err(StoreError::NotDescribed),
    };
    if (meta.row_count, meta.row_sum) != (row_count, row_sum) {
        return Err(StoreError::RowsDiffer { expected: meta.row_count, found: row_count });
    }
    Ok(Store { kv, meta })
}

/// See [`Store::fill`].
pub(crate) struct Filler {
    kv: Box<dyn Kv>,
    meta: Meta,
    batch: Vec<Change>,
    batch_bytes: usize,
}

impl Filler {
    /// Adds a row that is not there yet.
    pub(crate) fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.meta.row_count += 1;
        self.meta.row_sum = self.meta.row_sum.wrapping_add(row_crc(key, value));
        self.batch_bytes += key.len() + value.len();
        self.batch.push(Change { key: key.to_vec(), value: Some(value.to_vec()) });
        if self.batch_bytes < FILL_BATCH_BYTES {
            return Ok(());
        }
        self.batch_bytes = 0;
        self.kv.apply(std::mem::take(&mut self.batch))
    }

    /// Describes the rows and makes all durable.
    pub(crate) fn finish(mut self, applied: Txid, epoch: Epoch) -> Result<Box<dyn Kv>, StoreError> {
        let meta = Meta { applied, epoch, ..self.meta };
        self.batch.push(Change { key: META_KEY.to_vec(), value: Some(meta.encode()) });
        self.kv.apply(self.batch)?;
        self.kv.sync()?;
        Ok(self.kv)
    }
}

/// Refuses rows that break the limits.
pub(crate) fn check_change(change: &Change) -> Result<(), JournalError> {
    let value_len = change.value.as_ref().map_or(0, Vec::len);
    for (what, bytes, bytes_max) in [
        ("checkpoint key", change.key.len(), KEY_BYTES_MAX),
        ("checkpoint value", value_len, VALUE_BYTES_MAX),
    ] {
        if bytes > bytes_max {
            return Err(JournalError::TooLarge { what, bytes, bytes_max });
        }
    }
    if change.key == META_KEY { Err(JournalError::KeyReserved) } else { Ok(()) }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Meta {
    applied: Txid,
    epoch: Epoch,
    row_count: u64,
    row_sum: u64,
}

impl Meta {
    fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(META_LEN);
        out.extend_from_slice(&LAYOUT.to_le_bytes());
        for field in [self.applied.0, self.epoch.0, self.row_count, self.row_sum] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Result<Meta, StoreError> {
        let read = || {
            let crc = u32_at(bytes, META_LEN - 4)?;
            let good = bytes.len() == META_LEN
                && crc32fast::hash(&bytes[..META_LEN - 4]) == crc
                && u32_at(bytes, 0)? == LAYOUT;
            good.then_some(())?;
            Some(Meta {
                applied: Txid(u64_at(bytes, 4)?),
                epoch: Epoch(u64_at(bytes, 12)?),
                row_count: u64_at(bytes, 20)?,
                row_sum: u64_at(bytes, 28)?,
            })
        };
        read().ok_or(StoreError::MetaDamaged)
    }
}

fn row_crc(key: &[u8], value: &[u8]) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(key.len() as u32).to_le_bytes());
    hasher.update(key);
    hasher.update(value);
    u64::from(hasher.finalize())
}

/// Largest key of a row, in bytes: 8 KiB, a parent's id and the longest name with room to spare.
pub const KEY_BYTES_MAX: usize = 8 << 10;

/// Largest value of a row, in bytes: 16 KiB. sled moves larger pages to files of their own, whose
/// directory grows without end. Callers cut larger values into chunks.
pub const VALUE_BYTES_MAX: usize = 16 << 10;

/// Rows that go into one batch of a restore, in bytes: 1 MiB.
const FILL_BATCH_BYTES: usize = 1 << 20;

/// Size of a chunk of rows between two threads, in bytes: 256 KiB, a few thousand rows.
const CHUNK_BYTES: usize = 256 << 10;

/// Chunks that wait at most: enough that neither thread waits for a hiccup of the other.
const CHUNKS_WAITING_MAX: usize = 8;

const META_KEY: &[u8] = b"\0hanno.journal";
const META_LEN: usize = 40;
const LAYOUT: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimKvPlace, SimWorld};

    fn rows(pairs: &[(&str, Option<&str>)]) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        pairs
            .iter()
            .map(|(key, value)| {
                (key.as_bytes().to_vec(), value.map(|value| value.as_bytes().to_vec()))
            })
            .collect()
    }

    fn open(place: &SimKvPlace) -> Result<Store, StoreError> {
        Store::load(place.open(&mut Vec::new())?, &mut |_, _| Ok(()))
    }

    #[test]
    fn golden_meta() {
        let meta = Meta { applied: Txid(1), epoch: Epoch(2), row_count: 3, row_sum: 4 };
        let bytes = meta.encode();
        assert_eq!(
            bytes,
            [
                1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
                4, 0, 0, 0, 0, 0, 0, 0, 0xed, 0x15, 0xa5, 0x7a
            ]
        );
        assert_eq!(Meta::decode(&bytes).unwrap(), meta);
        for cut in 0..bytes.len() {
            assert!(Meta::decode(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn lost_stale_and_surplus_rows_are_noticed() {
        let world = SimWorld::new(1);
        let place = SimKvPlace::new(&world);
        let mut store = open(&place).unwrap();
        store.apply(rows(&[("a", Some("1")), ("b", Some("2"))]), Txid(2), Epoch(1)).unwrap();
        store.apply(rows(&[("a", Some("3")), ("c", None)]), Txid(4), Epoch(1)).unwrap();
        drop(store);
        let store = open(&place).unwrap();
        assert_eq!((store.applied(), store.row_count()), (Txid(4), 2));
        drop(store);
        let tampers: [&[(&str, Option<&str>)]; 4] = [
            &[("b", None)],
            &[("a", Some("1"))],
            &[("z", Some(""))],
            &[("b", None), ("z", Some("2"))],
        ];
        for tamper in tampers {
            let copy = place.fork();
            let kv = copy.open(&mut Vec::new()).unwrap();
            let batch = rows(tamper).into_iter().map(|(key, value)| Change { key, value });
            kv.apply(batch.collect()).unwrap();
            drop(kv);
            assert!(
                matches!(open(&copy).err(), Some(StoreError::RowsDiffer { .. })),
                "{tamper:?} was not noticed"
            );
        }
    }

    #[test]
    fn limits() {
        let change = |key, value| Change { key: vec![1; key], value: Some(vec![1; value]) };
        assert!(check_change(&change(KEY_BYTES_MAX, VALUE_BYTES_MAX)).is_ok());
        assert!(check_change(&change(KEY_BYTES_MAX + 1, 0)).is_err());
        assert!(check_change(&change(0, VALUE_BYTES_MAX + 1)).is_err());
        assert!(check_change(&Change { key: META_KEY.to_vec(), value: None }).is_err());
    }
}

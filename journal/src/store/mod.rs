//! The checkpoint: rows of key and value as of one txid, in a key-value engine that is not trusted.
//!
//! The rows are in the engine as pages of about a hundred (see `page`). Beside them the engine holds one entry of ours, which
//! describes all of them:
//!
//! ```text
//! key    "\0hanno.journal"
//! value  layout u32 = 2 | applied txid u64 | epoch u64 | row count u64 | row sum u64 | crc32 of these u32
//! ```
//!
//! *Row sum* is the wrapping sum over all rows of `crc32(key length u32 | key | value)`. It is written in the same atomic batch as the
//! pages, so a start detects a lost, stale or surplus page.
//!
//! Invariants: what [`Store::load`] accepted is exactly what some [`Store::apply`] left behind; `pages` names
//! every page in the engine.

pub(crate) mod page;
mod sled_kv;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::ops::Bound;
use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use self::page::Rows;
use crate::bytes::{u32_at, u64_at};
use crate::error::{JournalError, StoreError};
use crate::id::{Epoch, Txid};

pub use self::page::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub(crate) use self::sled_kv::SledPlace;

/// One row that changed: its new value, or `None` if it was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// At most [`KEY_BYTES_MAX`] bytes.
    pub key: Vec<u8>,
    /// At most [`VALUE_BYTES_MAX`] bytes.
    pub value: Option<Vec<u8>>,
}

/// Called for each row of a walk.
pub(crate) type RowFn<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError> + 'a;

/// An ordered key-value engine, with only the operations that we need.
pub(crate) trait Kv: Send {
    /// Passes the value at `key` to `see`, if there is one.
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), StoreError>;

    /// Passes on each row in key order, until `row` fails.
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

    /// Opens or creates. Repairs what would keep the engine from opening, and notes it in `notes`.
    fn open(&self, notes: &mut Vec<String>) -> Result<Box<dyn Kv>, StoreError>;

    /// Puts the present files aside for good and returns where they went.
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
    /// Keys of the pages.
    pages: BTreeSet<Box<[u8]>>,
}

/// Changed rows in order of keys; `None` removes.
type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

impl Store {
    /// Passes all rows to `row` and checks that they are what was last applied. Rows are passed on before the check is complete: on an
    /// error, discard them.
    ///
    /// The engine is read and the rows are summed on a thread of their own: `row` usually costs as much.
    pub(crate) fn load(kv: Box<dyn Kv>, row: &mut RowFn<'_>) -> Result<Store, StoreError> {
        let (sender, chunks) = sync_channel::<Vec<u8>>(CHUNKS_WAITING_MAX);
        thread::scope(|scope| {
            let reader = thread::Builder::new()
                .name("journal-read".to_owned())
                .spawn_scoped(scope, move || read_all(kv, &sender))
                .map_err(StoreError::Thread)?;
            let passed = chunks.iter().try_for_each(|chunk| {
                Rows::of(&chunk).try_for_each(|(key, value)| row(key, value))
            });
            // A reader that still has rows ends when nobody takes them.
            drop(chunks);
            let read = reader.join();
            passed?;
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

    /// Passes on each row in key order.
    pub(crate) fn for_each_row(&self, row: &mut RowFn<'_>) -> Result<(), StoreError> {
        let mut raw = Vec::new();
        self.kv.scan(&mut |key, value| {
            if key == META_KEY {
                return Ok(());
            }
            raw.clear();
            page::decode(key, value, &mut raw).ok_or(StoreError::PageDamaged)?;
            Rows::of(&raw).try_for_each(|(key, value)| row(key, value))
        })
    }

    /// Applies changed rows and the new `applied`, and returns when all of it is durable. After an error the store is not used
    /// again.
    pub(crate) fn apply(
        &mut self,
        changes: Changes,
        applied: Txid,
        epoch: Epoch,
    ) -> Result<(), StoreError> {
        let mut meta = Meta { applied, epoch, ..self.meta };
        let mut batch = Vec::new();
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            self.rewrite(&mut changes, &mut meta, &mut batch)?;
        }
        batch.push(Change { key: META_KEY.to_vec(), value: Some(meta.encode()) });
        self.kv.apply(batch)?;
        self.meta = meta;
        self.kv.sync()
    }

    /// Puts the next change and its neighbours into their page, and the resulting changes into `batch`: the page is cut if it has become
    /// too large, and joined with those after it while it is too small.
    fn rewrite(
        &mut self,
        changes: &mut Peekable<impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)>>,
        meta: &mut Meta,
        batch: &mut Vec<Change>,
    ) -> Result<(), StoreError> {
        let Some((first, _)) = changes.peek() else { return Ok(()) };
        let kind = page::kind(first);
        let mut end = Bound::Included(first.clone().into_boxed_slice());
        let mut next = self.pages.range((Bound::Unbounded, end.clone())).next_back().cloned();
        next = next.filter(|page| page::kind(page) == kind);
        let (mut old, mut base, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        let grows = loop {
            base.clear();
            if let Some(page) = next {
                let mut is_good = false;
                self.kv.get(&page, &mut |value| {
                    is_good = page::decode(&page, value, &mut base).is_some();
                })?;
                if !is_good {
                    return Err(StoreError::PageDamaged);
                }
                end = Bound::Excluded(page.clone());
                old.push(page);
            }
            if let Bound::Included(key) = end {
                end = Bound::Excluded(key);
            }
            let after = self.pages.range((end.clone(), Bound::Unbounded)).next();
            let after = after.filter(|page| page::kind(page) == kind);
            let is_here =
                |key: &[u8]| page::kind(key) == kind && after.is_none_or(|page| key < page);
            let here = std::iter::from_fn(|| changes.next_if(|(key, _)| is_here(key)));
            merge(&base, here, &mut raw, meta);
            match after {
                Some(after) if raw.len() < page::PAGE_BYTES_MIN => next = Some(after.clone()),
                after => break after.is_none(),
            }
        };
        let pages = page::cut(&raw, grows);
        let firsts = pages.iter().filter_map(|page| Some(Rows::of(page).next()?.0));
        let firsts: Vec<Box<[u8]>> = firsts.map(Box::from).collect();
        for key in old {
            if firsts.binary_search(&key).is_err() {
                self.pages.remove(&key);
                batch.push(Change { key: key.into_vec(), value: None });
            }
        }
        for (key, page) in firsts.into_iter().zip(pages) {
            batch.push(Change { key: key.to_vec(), value: Some(page::encode(page)) });
            self.pages.insert(key);
        }
        Ok(())
    }

    /// Fills an empty engine row by row. Until [`Filler::finish`] its contents are not acceptable to
    /// [`Store::load`].
    pub(crate) fn fill(kv: Box<dyn Kv>) -> Filler {
        Filler {
            kv,
            meta: Meta::default(),
            raw: Vec::new(),
            first: Vec::new(),
            batch: Vec::new(),
            batch_bytes: 0,
        }
    }
}

/// Writes the rows of `base` and the changes to `raw`, both in order of keys, and keeps the count and sum in `meta` up to date.
fn merge(
    base: &[u8],
    changes: impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)>,
    raw: &mut Vec<u8>,
    meta: &mut Meta,
) {
    let mut rows = Rows::of(base).peekable();
    for (key, value) in changes {
        while let Some((key, value)) = rows.next_if(|(old, _)| *old < &key[..]) {
            page::push_row(raw, key, value);
        }
        if let Some((key, old)) = rows.next_if(|(old, _)| *old == &key[..]) {
            meta.row_count -= 1;
            meta.row_sum = meta.row_sum.wrapping_sub(row_crc(key, old));
        }
        if let Some(value) = &value {
            meta.row_count += 1;
            meta.row_sum = meta.row_sum.wrapping_add(row_crc(&key, value));
            page::push_row(raw, &key, value);
        }
    }
    rows.for_each(|(key, value)| page::push_row(raw, key, value));
}

/// Reads every row, sends them in chunks, which are raw pages one after the other, and checks them against the entry that describes
/// them.
fn read_all(kv: Box<dyn Kv>, chunks: &SyncSender<Vec<u8>>) -> Result<Store, StoreError> {
    let mut stored = None;
    let (mut row_count, mut row_sum) = (0, 0u64);
    let mut pages = BTreeSet::new();
    let mut chunk = Vec::with_capacity(CHUNK_ROOM_BYTES);
    kv.scan(&mut |key, value| {
        if key == META_KEY {
            stored = Some(Meta::decode(value)?);
            return Ok(());
        }
        let from = chunk.len();
        page::decode(key, value, &mut chunk).ok_or(StoreError::PageDamaged)?;
        for (key, value) in Rows::of(&chunk[from..]) {
            row_count += 1;
            row_sum = row_sum.wrapping_add(row_crc(key, value));
        }
        pages.insert(Box::from(key));
        if chunk.len() < CHUNK_BYTES {
            return Ok(());
        }
        let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_ROOM_BYTES));
        chunks.send(full).map_err(|_| StoreError::NotWanted)
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
    Ok(Store { kv, meta, pages })
}

/// See [`Store::fill`].
pub(crate) struct Filler {
    kv: Box<dyn Kv>,
    meta: Meta,
    /// The page being filled.
    raw: Vec<u8>,
    /// Its first key.
    first: Vec<u8>,
    batch: Vec<Change>,
    batch_bytes: usize,
}

impl Filler {
    /// Adds a row. Rows come in ascending order of keys.
    pub(crate) fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.meta.row_count += 1;
        self.meta.row_sum = self.meta.row_sum.wrapping_add(row_crc(key, value));
        let grown = self.raw.len() + key.len() + value.len();
        if !self.raw.is_empty()
            && (grown > page::PAGE_BYTES || page::kind(key) != page::kind(&self.first))
        {
            self.end_page();
        }
        if self.raw.is_empty() {
            self.first = key.to_vec();
        }
        page::push_row(&mut self.raw, key, value);
        if self.batch_bytes < FILL_BATCH_BYTES {
            return Ok(());
        }
        self.batch_bytes = 0;
        self.kv.apply(std::mem::take(&mut self.batch))
    }

    fn end_page(&mut self) {
        let value = page::encode(&self.raw);
        self.batch_bytes += value.len();
        self.batch.push(Change { key: std::mem::take(&mut self.first), value: Some(value) });
        self.raw.clear();
    }

    /// Describes the rows and makes all durable.
    pub(crate) fn finish(mut self, applied: Txid, epoch: Epoch) -> Result<Box<dyn Kv>, StoreError> {
        if !self.raw.is_empty() {
            self.end_page();
        }
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

/// Rows that go into one batch of a restore, in bytes: 1 MiB.
const FILL_BATCH_BYTES: usize = 1 << 20;

/// Size of a chunk of rows between two threads, in bytes: 256 KiB, a few thousand rows.
const CHUNK_BYTES: usize = 256 << 10;

/// Capacity that a chunk gets at once, in bytes: its size and a page or two.
const CHUNK_ROOM_BYTES: usize = CHUNK_BYTES + (32 << 10);

/// Most chunks that wait: enough that neither thread stalls when the other pauses.
const CHUNKS_WAITING_MAX: usize = 8;

const META_KEY: &[u8] = b"\0hanno.journal";
const META_LEN: usize = 40;
const LAYOUT: u32 = 2;

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
                2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
                4, 0, 0, 0, 0, 0, 0, 0, 19, 110, 69, 30
            ]
        );
        assert_eq!(Meta::decode(&bytes).unwrap(), meta);
        for cut in 0..bytes.len() {
            assert!(Meta::decode(&bytes[..cut]).is_err());
        }
    }

    /// A page of one row, as it is in the engine.
    fn page_of(key: &str, value: &str) -> Change {
        let mut raw = Vec::new();
        page::push_row(&mut raw, key.as_bytes(), value.as_bytes());
        Change { key: key.as_bytes().to_vec(), value: Some(page::encode(&raw)) }
    }

    #[test]
    fn lost_stale_surplus_and_damaged_pages_are_noticed() {
        let world = SimWorld::new(1);
        let place = SimKvPlace::new(&world);
        let mut store = open(&place).unwrap();
        store.apply(rows(&[("a", Some("1")), ("b", Some("2"))]), Txid(2), Epoch(1)).unwrap();
        store.apply(rows(&[("a", Some("3")), ("c", None)]), Txid(4), Epoch(1)).unwrap();
        drop(store);
        let store = open(&place).unwrap();
        assert_eq!((store.applied(), store.row_count()), (Txid(4), 2));
        drop(store);
        let gone = |key: &str| Change { key: key.as_bytes().to_vec(), value: None };
        let moved = Change { key: b"z".to_vec(), ..page_of("y", "") };
        let tampers = [
            ("lost", vec![gone("b")], false),
            ("stale", vec![page_of("a", "1")], false),
            ("surplus", vec![page_of("z", "")], false),
            ("another", vec![gone("b"), page_of("z", "2")], false),
            ("elsewhere", vec![moved], true),
            ("no page", vec![Change { key: b"b".to_vec(), value: Some(vec![1; 20]) }], true),
        ];
        for (what, tamper, is_unreadable) in tampers {
            let copy = place.fork();
            let kv = copy.open(&mut Vec::new()).unwrap();
            kv.apply(tamper).unwrap();
            drop(kv);
            match open(&copy).err() {
                Some(StoreError::PageDamaged) if is_unreadable => {}
                Some(StoreError::RowsDiffer { .. }) if !is_unreadable => {}
                other => panic!("{what}: {other:?}"),
            }
        }
    }

    /// The rows, the sizes of the pages, and the rows again as they are loaded.
    fn check(place: &SimKvPlace, store: &Store, model: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<usize> {
        let mut loaded = BTreeMap::new();
        let again = Store::load(place.fork().open(&mut Vec::new()).unwrap(), &mut |key, value| {
            assert_eq!(loaded.insert(key.to_vec(), value.to_vec()), None);
            Ok(())
        });
        let again = again.unwrap();
        assert_eq!(&loaded, model);
        assert_eq!((again.meta, &again.pages), (store.meta, &store.pages));
        let mut walked = Vec::new();
        let mut see = |key: &[u8], value: &[u8]| {
            walked.push((key.to_vec(), value.to_vec()));
            Ok(())
        };
        store.for_each_row(&mut see).unwrap();
        assert!(walked.iter().map(|(key, value)| (key, value)).eq(model));
        let mut sizes = Vec::new();
        let mut see = |key: &[u8], value: &[u8]| {
            let mut raw = Vec::new();
            if key != META_KEY {
                page::decode(key, value, &mut raw).unwrap();
                sizes.push(raw.len());
            }
            Ok(())
        };
        store.kv.scan(&mut see).unwrap();
        sizes
    }

    #[test]
    fn behaves_as_an_ordered_map_and_keeps_pages_of_good_size() {
        for seed in 0..6_u64 {
            let place = SimKvPlace::new(&SimWorld::new(seed));
            let mut store = open(&place).unwrap();
            let mut model = BTreeMap::new();
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut random = |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % bound
            };
            for round in 1..120_u64 {
                let shrinks = round / 20 % 2 == 1;
                let mut changes = Changes::new();
                for _ in 0..random(200) {
                    let kind = [b"i", b"o", b"r"][random(3) as usize];
                    let key = [&kind[..], &random(2000).to_be_bytes()].concat();
                    let size = if random(50) == 0 { random(9000) } else { random(120) };
                    let goes = random(10) < if shrinks { 8 } else { 1 };
                    changes.insert(key, (!goes).then(|| vec![round as u8; size as usize]));
                }
                for (key, value) in &changes {
                    match value {
                        Some(value) => model.insert(key.clone(), value.clone()),
                        None => model.remove(key),
                    };
                }
                store.apply(changes, Txid(round), Epoch(1)).unwrap();
                if round % 10 == 0 {
                    check(&place, &store, &model);
                }
            }
            let gone = model.keys().map(|key| (key.clone(), None)).collect();
            store.apply(gone, Txid(200), Epoch(1)).unwrap();
            assert!(check(&place, &store, &BTreeMap::new()).is_empty());
        }
    }

    #[test]
    fn ascending_rows_fill_their_pages_and_deleted_ones_do_not_leave_crumbs() {
        let place = SimKvPlace::new(&SimWorld::new(1));
        let mut store = open(&place).unwrap();
        // The rows of another kind after them do not matter.
        let mut model = BTreeMap::from([(b"z".to_vec(), b"last".to_vec())]);
        store.apply(rows(&[("z", Some("last"))]), Txid(1), Epoch(1)).unwrap();
        let key = |number: u64| [&b"i"[..], &number.to_be_bytes()].concat();
        for number in 0..2000 {
            let value = vec![number as u8; 70];
            model.insert(key(number), value.clone());
            let changes = Changes::from([(key(number), Some(value))]);
            store.apply(changes, Txid(number), Epoch(1)).unwrap();
        }
        let sizes = check(&place, &store, &model);
        let full = |size: &&usize| **size > page::PAGE_BYTES * 9 / 10;
        assert!(sizes.iter().filter(full).count() >= sizes.len() - 2, "{sizes:?}");
        for number in (0..2000).filter(|number| number % 50 != 0) {
            model.remove(&key(number));
            let changes = Changes::from([(key(number), None)]);
            store.apply(changes, Txid(number), Epoch(1)).unwrap();
        }
        let sizes = check(&place, &store, &model);
        assert!(sizes.len() <= 4, "{sizes:?}");
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

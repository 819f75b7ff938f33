//! Start-up: from whatever a crash or a bad disk left behind to a state that contains every
//! acknowledged record, or to a refusal that says what is wrong and changes nothing.
//!
//! ```text
//! read the log (every copy) ─┬─ sled ok and covered by the log ──────────────┐
//!                            ├─ newest good image covered by the log ── (1) ─┤
//!                            ├─ older image likewise ────────────────── (1) ─┼─ replay ─ repair copies,
//!                            ├─ nothing, log from record 1 ──────────── (1) ─┤           cut torn tail,
//!                            └─ none of these: refuse                        │           new segment, epoch
//! (1) put the bad sled aside, build a new one from what was found ◄──────────┘
//! ```
//!
//! Invariants:
//! - the log is not touched before a state has been found and every record after it was accepted;
//! - the last batch is written and synced once more and the torn tail behind it cut, in every directory before the new segment appears, so an end that
//!   is torn in an older segment is never the trace of a crash;
//! - the new epoch is on disk (in the new segment's header) before anybody hears of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bytes::{u32_at, u64_at};
use crate::chain::{Chain, Segment};
use crate::checkpoint::Checkpointer;
use crate::disk::{self, Disk, publish};
use crate::error::{JournalError, RecoverError, StoreError};
use crate::id::{Epoch, Txid};
use crate::image;
use crate::log::LogWriter;
use crate::segment::{self, End};
use crate::sled_kv::chain as error_chain;
use crate::store::{KvPlace, Store};

/// What recovery restores into. Called in this order: `load`*, `loaded` once, `replay`*; after a
/// `reset` again from the start.
///
/// Rows that `replay` changes count as changed for the next checkpoint, like those of live edits.
pub trait Recover {
    /// One row of the checkpoint.
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecoverError>;

    /// All rows as of `applied` are in: check that they fit together. An error means that this
    /// checkpoint is bad; recovery goes on with an older copy.
    fn loaded(&mut self, applied: Txid) -> Result<(), RecoverError>;

    /// One record after the checkpoint. An error ends the start.
    fn replay(&mut self, txid: Txid, body: &[u8]) -> Result<(), RecoverError>;

    /// Forget everything: the copy that was being loaded is bad.
    fn reset(&mut self);
}

/// What recovery found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// This start's number: larger than any before, and already durable.
    pub epoch: Epoch,
    /// The last record of the restored state.
    pub last: Txid,
    /// Whether the journal has never held a record.
    pub fresh: bool,
    /// What was found wrong and what was done about it, one line each; for the log.
    pub notes: Vec<String>,
}

/// Where a journal's parts are, and its limits; the part of the options that recovery needs.
#[derive(Clone)]
pub(crate) struct Places {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) kv: Arc<dyn KvPlace>,
    pub(crate) dir: PathBuf,
    pub(crate) log_dirs: Vec<PathBuf>,
    pub(crate) segment_bytes_max: u64,
    pub(crate) section_bytes: usize,
}

impl Places {
    pub(crate) fn image_dir(&self) -> PathBuf {
        self.dir.join("image")
    }
}

/// A journal that is ready to run.
pub(crate) struct Started {
    pub(crate) log: LogWriter,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) recovered: Recovered,
    /// The log has a hole before the checkpoint: a new image makes up for it.
    pub(crate) image_wanted: bool,
}

/// Recovers and starts the new epoch.
pub(crate) fn start(places: &Places, state: &mut dyn Recover) -> Result<Started, JournalError> {
    let disk = &*places.disk;
    let mut notes = Vec::new();
    for dir in places.log_dirs.iter().chain([&places.dir, &places.image_dir()]) {
        disk.create_dir(dir).map_err(crate::error::disk("create directory", dir))?;
        disk::remove_temporaries(disk, dir)?;
    }
    let chain = Chain::read(disk, &places.log_dirs)?;
    let images = image::list(disk, &places.image_dir())?;
    let epoch_file = read_epoch(disk, &places.dir, &mut notes)?;

    let base = find_base(places, &chain, &images, state, &mut notes)?;
    let used_before = epoch_file.is_some() || base.applied > Txid::ZERO || !images.is_empty();
    if chain.segments.is_empty() && used_before {
        return Err(JournalError::LogMissing {
            log_dir: places.log_dirs[0].clone(),
            dir: places.dir.clone(),
        });
    }
    note_losses(&chain, &base, &mut notes);
    chain.replay(disk, base.applied, &mut |txid, _, body| state.replay(txid, body))?;

    let last = chain.last().max(base.applied);
    let epoch = chain.epoch().max(base.epoch).max(epoch_file.unwrap_or_default()).next();
    repair_copies(disk, &chain, &mut notes)?;
    let store = match base.store {
        Some(store) => store,
        None => rebuild(places, &base, &mut notes)?,
    };
    let log = LogWriter::start(
        places.disk.clone(),
        places.log_dirs.clone(),
        epoch,
        last.next(),
        places.segment_bytes_max,
    )?;
    write_epoch(disk, &places.dir, epoch)?;
    let fresh = last == Txid::ZERO;
    let image_wanted = !chain.holes.is_empty() || chain.last() < base.applied;
    let checkpointer = Checkpointer::new(places.clone(), store, epoch)?;
    let recovered = Recovered { epoch, last, fresh, notes };
    Ok(Started { log, checkpointer, recovered, image_wanted })
}

/// The checkpoint that the state was restored from.
struct Base {
    applied: Txid,
    epoch: Epoch,
    /// The store, if it is the base; otherwise it is to be rebuilt.
    store: Option<Store>,
    /// The image, if one is the base.
    image: Option<PathBuf>,
}

/// Restores the newest checkpoint that is whole and that the log continues.
fn find_base(
    places: &Places,
    chain: &Chain,
    images: &[(Txid, PathBuf)],
    state: &mut dyn Recover,
    notes: &mut Vec<String>,
) -> Result<Base, JournalError> {
    let disk = &*places.disk;
    let mut refusal = None;
    let mut covers = |applied: Txid| match chain.covers_from(applied, &places.dir) {
        Ok(()) => true,
        Err(error) => {
            refusal.get_or_insert(error);
            false
        }
    };
    match load_store(places, state, notes) {
        Ok(Some(store)) => {
            if covers(store.applied()) {
                let (applied, epoch) = (store.applied(), store.epoch());
                return Ok(Base { applied, epoch, store: Some(store), image: None });
            }
        }
        Ok(None) => {}
        Err(error @ StoreError::InUse { .. }) => return Err(JournalError::Store(error)),
        Err(error) => {
            notes.push(format!("the checkpoint store is not usable: {}", error_chain(&error)));
        }
    }
    for (_, path) in images {
        state.reset();
        let read = image::read(disk, path, &mut |key, value| state.load(key, value));
        let info = read.and_then(|info| match state.loaded(info.applied) {
            Ok(()) => Ok(info),
            Err(source) => Err(JournalError::Restore { applied: info.applied, source }),
        });
        match info {
            Ok(info) if covers(info.applied) => {
                return Ok(Base {
                    applied: info.applied,
                    epoch: info.epoch,
                    store: None,
                    image: Some(path.clone()),
                });
            }
            Ok(_) => {}
            Err(error @ JournalError::Newer { .. }) => return Err(error),
            Err(error) => notes.push(error_chain(&error)),
        }
    }
    state.reset();
    if covers(Txid::ZERO) {
        let applied = Txid::ZERO;
        state.loaded(applied).map_err(|source| JournalError::Restore { applied, source })?;
        return Ok(Base { applied, epoch: Epoch(0), store: None, image: None });
    }
    Err(refusal.expect("the last attempt failed because the log does not cover it"))
}

/// Loads the store into the state; `None` if there is no store.
fn load_store(
    places: &Places,
    state: &mut dyn Recover,
    notes: &mut Vec<String>,
) -> Result<Option<Store>, StoreError> {
    state.reset();
    if !places.kv.is_present()? {
        return Ok(None);
    }
    let kv = places.kv.open(notes)?;
    let store =
        Store::load(kv, &mut |key, value| state.load(key, value).map_err(StoreError::NotAccepted))?;
    state.loaded(store.applied()).map_err(StoreError::NotAccepted)?;
    Ok(Some(store))
}

/// Puts a bad store aside and builds a new one that holds what the state was restored from.
fn rebuild(places: &Places, base: &Base, notes: &mut Vec<String>) -> Result<Store, JournalError> {
    let built = places.kv.build().map_err(JournalError::Store)?;
    let mut filler = Store::fill(built);
    if let Some(path) = &base.image {
        image::read(&*places.disk, path, &mut |key, value| {
            filler.row(key, value).map_err(RecoverError::new)
        })?;
    }
    let built = filler.finish(base.applied, base.epoch).map_err(JournalError::Store)?;
    if places.kv.is_present().map_err(JournalError::Store)? {
        let aside = places.kv.quarantine().map_err(JournalError::Store)?;
        notes.push(format!("moved the old checkpoint store to {aside}"));
    }
    let kv = places.kv.publish(built).map_err(JournalError::Store)?;
    if base.applied > Txid::ZERO || !notes.is_empty() {
        notes.push(format!("rebuilt the checkpoint store as of record {}", base.applied));
    }
    Store::load(kv, &mut |_, _| Ok(())).map_err(JournalError::Store)
}

/// Says what the log has lost although nothing that is needed is missing.
fn note_losses(chain: &Chain, base: &Base, notes: &mut Vec<String>) {
    for hole in &chain.holes {
        let place = match &hole.damage {
            Some((path, offset)) => format!("{} is damaged at byte {offset}", path.display()),
            None => "log files are missing".to_owned(),
        };
        notes.push(format!(
            "{place}: records {} to {} are only in the checkpoint",
            hole.from, hole.to
        ));
    }
    if !chain.segments.is_empty() && chain.last() < base.applied {
        notes.push(format!(
            "the log ends at record {} but the checkpoint reaches to record {}",
            chain.last(),
            base.applied
        ));
    }
    if let Some(segment) = chain.segments.last()
        && segment.best_scan().end == End::Torn
    {
        notes.push(format!(
            "cut an incomplete batch off {} after record {}",
            chain.path(segment).display(),
            segment.last()
        ));
    }
}

/// Makes all log directories hold the same good records, durably, and cuts the torn tail.
fn repair_copies(
    disk: &dyn Disk,
    chain: &Chain,
    notes: &mut Vec<String>,
) -> Result<(), JournalError> {
    for (index, segment) in chain.segments.iter().enumerate() {
        let is_last = index + 1 == chain.segments.len();
        for (dir_index, dir) in chain.dirs.iter().enumerate() {
            let copy = segment.copies[dir_index].as_ref();
            let path = dir.join(segment::file_name(segment.first));
            let behind = copy.is_none_or(|copy| copy.record_count < segment.record_count);
            if behind && dir_index != segment.best {
                replace_copy(disk, chain, segment, dir_index, notes)?;
            } else if let (true, Some(copy)) = (is_last, copy) {
                // Also when nothing is cut: what an earlier process wrote may not be on disk yet.
                let bytes = disk::read(disk, &path)?;
                let good = &bytes[..bytes.len().min(copy.good_len as usize)];
                let from = good.len().min(copy.last_batch_at as usize);
                disk.settle(&path, from as u64, &good[from..])
                    .map_err(crate::error::disk("cut", &path))?;
            }
        }
    }
    Ok(())
}

fn replace_copy(
    disk: &dyn Disk,
    chain: &Chain,
    segment: &Segment,
    dir_index: usize,
    notes: &mut Vec<String>,
) -> Result<(), JournalError> {
    let dir = &chain.dirs[dir_index];
    let name = segment::file_name(segment.first);
    let copy = segment.copies[dir_index].as_ref();
    let good_len = segment.best_scan().good_len;
    let bytes = disk::read(disk, &chain.path(segment))?;
    let good = &bytes[..bytes.len().min(good_len as usize)];
    if copy.is_some_and(|copy| copy.end == End::Damaged) {
        let bad = put_aside(disk, dir, &name)?;
        notes.push(format!("kept damaged log file as {}", bad.display()));
    }
    publish(disk, dir, &name, |file| file.append(good))?;
    notes.push(format!("copied {} to {}", chain.path(segment).display(), dir.display()));
    Ok(())
}

/// Renames `dir/name` to the first free `dir/name.bad-<n>`.
pub(crate) fn put_aside(disk: &dyn Disk, dir: &Path, name: &str) -> Result<PathBuf, JournalError> {
    let names = disk.list(dir).map_err(crate::error::disk("list", dir))?;
    let bad = (1u32..)
        .map(|number| format!("{name}.bad-{number}"))
        .find(|bad| !names.contains(bad))
        .expect("a directory cannot hold four thousand million entries");
    let (from, to) = (dir.join(name), dir.join(bad));
    disk.rename(&from, &to).map_err(crate::error::disk("put aside", &from))?;
    disk.sync_dir(dir).map_err(crate::error::disk("sync directory", dir))?;
    Ok(to)
}

/// `magic "HANNOEPO" | layout u32 = 1 | epoch u64 | crc32 of these u32`. A second place for the epoch
/// beside the newest segment's header.
fn write_epoch(disk: &dyn Disk, dir: &Path, epoch: Epoch) -> Result<(), JournalError> {
    let mut bytes = EPOCH_MAGIC.to_vec();
    bytes.extend_from_slice(&EPOCH_LAYOUT.to_le_bytes());
    bytes.extend_from_slice(&epoch.0.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    publish(disk, dir, EPOCH_NAME, |file| file.append(&bytes)).map(|_| ())
}

/// The stored epoch: `None` if there is no file. A damaged one counts as zero.
fn read_epoch(
    disk: &dyn Disk,
    dir: &Path,
    notes: &mut Vec<String>,
) -> Result<Option<Epoch>, JournalError> {
    let names = disk.list(dir).map_err(crate::error::disk("list", dir))?;
    if !names.iter().any(|name| name == EPOCH_NAME) {
        return Ok(None);
    }
    let path = dir.join(EPOCH_NAME);
    let bytes = disk::read(disk, &path)?;
    let parse = || {
        let good = bytes.len() == EPOCH_LEN
            && bytes.starts_with(EPOCH_MAGIC)
            && crc32fast::hash(&bytes[..EPOCH_LEN - 4]) == u32_at(&bytes, EPOCH_LEN - 4)?;
        good.then_some(())?;
        Some((u32_at(&bytes, 8)?, Epoch(u64_at(&bytes, 12)?)))
    };
    match parse() {
        Some((EPOCH_LAYOUT, epoch)) => Ok(Some(epoch)),
        Some((version, _)) => Err(JournalError::Newer { path, version }),
        None => {
            notes.push(format!("{} is damaged; the epoch was taken from the log", path.display()));
            Ok(Some(Epoch(0)))
        }
    }
}

const EPOCH_NAME: &str = "epoch";
const EPOCH_MAGIC: &[u8; 8] = b"HANNOEPO";
const EPOCH_LAYOUT: u32 = 1;
const EPOCH_LEN: usize = 24;

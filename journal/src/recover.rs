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
//! Images and log are read from the first directory and its mirrors alike (see `home`), so each of them alone is enough.
//!
//! Invariants:
//! - no log is touched before a state has been found and every record after it was accepted;
//! - in every directory the last batch is written and synced once more, and the torn tail after it is cut, before the new segment appears.
//!   So a torn end in an older segment is never the trace of a crash;
//! - the new epoch is on disk (in the new segment's header) before anybody learns it;
//! - a mirror that fails is left out of this start. It does not get what this start writes, and no later start takes it for complete: the
//!   marks of the others show that there was more;
//! - before a directory that lacks something is filled, its mark says how much there was: half filled, it is never taken for complete.

use std::path::{Path, PathBuf};

use crate::chain::{Chain, Copy, Proof, Segment};
use crate::checkpoint::Checkpointer;
use crate::disk::{self, Disk, keep_aside, publish, put_aside};
use crate::error::{JournalError, RecoverError, StoreError, chain as error_chain};
use crate::home::mark::{self, Found, Mark, Start};
use crate::home::mirrors;
use crate::home::{Home, Homes, image_dir, log_dir};
use crate::id::{Epoch, Txid};
use crate::image::{self, ImageInfo};
use crate::log::LogWriter;
use crate::places::{LeftOut, Places, leave_out};
use crate::segment;
use crate::store::Store;

/// What recovery restores into. Called in this order: `load`*, `loaded` once, `replay`*; after a
/// `reset` again from the start.
///
/// Rows that `replay` changes count as changed for the next checkpoint, like those of live edits.
pub trait Recover {
    /// One row of the checkpoint.
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecoverError>;

    /// All rows as of `applied` are in: check that they fit together. An error means that this checkpoint is bad; recovery continues with
    /// an older copy.
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
    /// Mirrors that do not work and get nothing until the next start.
    pub left_out: Vec<LeftOut>,
}

/// A journal that is ready to run.
pub(crate) struct Started {
    pub(crate) log: LogWriter,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) recovered: Recovered,
    /// The log has a hole before the checkpoint: a new image makes up for it.
    pub(crate) image_wanted: bool,
    /// Not every directory has the newest image, or one is bad.
    pub(crate) is_image_missing: bool,
}

/// Recovers and starts the new epoch.
pub(crate) fn start(places: &Places, state: &mut dyn Recover) -> Result<Started, JournalError> {
    let disk = &*places.disk;
    let (mut notes, mut left_out) = (Vec::new(), Vec::new());
    let homes = Homes::of(usable_homes(places, &mut left_out)?, &left_out)?;
    note_marks(&homes, &mut notes);
    let mut chain = Chain::read(disk, homes.log_dirs())?;
    notes.extend(chain.notes.iter().cloned());
    if let Some(older) = homes.older_image() {
        chain.forget_before(older);
    }

    let base = find_base(places, &chain, &homes, state, &mut notes)?;
    note_losses(&chain, &base, &mut notes);
    chain.replay(disk, base.applied, &mut |txid, _, body| state.replay(txid, body))?;

    let last = chain.last().max(base.applied);
    let marked = homes.found().mark().map_or(Epoch(0), |mark| mark.epoch);
    let epoch = chain.epoch().max(base.epoch).max(marked).next().max(Epoch(places.epoch_min));
    let dirs = heal(disk, &homes, &chain, &mut left_out, &mut notes)?;
    let is_image_missing = base.is_image_bad || homes.without_image(&dirs).next().is_some();
    let applied = base.applied;
    let store = match base.store {
        Some(store) => store,
        None => rebuild(places, &base, &mut notes)?,
    };
    mirrors::remember(disk, &places.dir, &places.mirrors)?;
    let starts = homes.starts().and(Start { epoch, nonce: places.nonce });
    let log = LogWriter::start(places, dirs, starts, last.next(), &mut left_out)?;
    let fresh = last == Txid::ZERO;
    let image_wanted = !chain.holes.is_empty() || chain.known_last() < applied;
    let checkpointer = Checkpointer::new(places.clone(), log.homes().to_vec(), store, epoch)?;
    let recovered = Recovered { epoch, last, fresh, notes, left_out };
    Ok(Started { log, checkpointer, recovered, image_wanted, is_image_missing })
}

fn make_ready(disk: &dyn Disk, dir: &Path) -> Result<(), JournalError> {
    disk.create_dir(dir).map_err(crate::error::disk("create directory", dir))?;
    disk::remove_temporaries(disk, dir)
}

/// The directories that can be read, the first one first.
fn usable_homes(places: &Places, left_out: &mut Vec<LeftOut>) -> Result<Vec<Home>, JournalError> {
    let disk = &*places.disk;
    let mut homes = Vec::new();
    for dir in places.homes() {
        let inspected = [dir, &log_dir(dir), &image_dir(dir)]
            .into_iter()
            .try_for_each(|dir| make_ready(disk, dir))
            .and_then(|()| Home::inspect(disk, dir));
        match inspected {
            Ok(home) => homes.push(home),
            Err(error) => leave_out(places, dir, error, left_out)?,
        }
    }
    Ok(homes)
}

fn note_marks(homes: &Homes, notes: &mut Vec<String>) {
    for (index, home) in homes.iter().enumerate() {
        let path = home.dir.join(mark::NAME);
        let is_believed = homes.is_believed(index);
        match home.found {
            Found::Damaged if is_believed => {
                notes.push(format!("{} is damaged; the log and the others tell", path.display()));
            }
            Found::Damaged => notes.push(format!("{} is damaged", path.display())),
            Found::Nothing if !is_believed && !home.files().is_empty() => {
                notes.push(format!("{} is missing", path.display()));
            }
            Found::Nothing | Found::Mark(_) => {}
        }
    }
}

/// The checkpoint that the state was restored from.
struct Base {
    applied: Txid,
    epoch: Epoch,
    /// The store, if it is the base; otherwise it must be rebuilt.
    store: Option<Store>,
    /// The image, if one is the base.
    image: Option<PathBuf>,
    /// An image was tried and is bad.
    is_image_bad: bool,
}

/// Restores the newest checkpoint that is whole, that the owner accepts and that the log continues.
///
/// # Errors
/// The first reason why one was not taken. What is damaged beside the log is no reason, but a note: the log alone may be enough.
fn find_base(
    places: &Places,
    chain: &Chain,
    homes: &Homes,
    state: &mut dyn Recover,
    notes: &mut Vec<String>,
) -> Result<Base, JournalError> {
    let disk = &*places.disk;
    let (mut refusal, mut is_image_bad) = (None, false);
    let images = homes.images();
    let imaged = images.first().map_or(Txid::ZERO, |(applied, _)| *applied);
    let mut proof = Proof { applied: imaged, found: homes.found() };
    let mut covers = |applied: Txid| {
        proof.applied = proof.applied.max(applied);
        chain.covers_from(applied, &proof, &places.dir)
    };
    match load_store(places, state, notes) {
        Ok(Some(store)) => match covers(store.applied()) {
            Ok(()) => {
                let (applied, epoch) = (store.applied(), store.epoch());
                return Ok(Base { applied, epoch, store: Some(store), image: None, is_image_bad });
            }
            Err(error) => refusal = Some(error),
        },
        Ok(None) => {}
        Err(error @ StoreError::InUse { .. }) => return Err(JournalError::Store(error)),
        Err(error) => {
            notes.push(format!("the checkpoint store is not usable: {}", error_chain(&error)));
            if let StoreError::NotAccepted(_) = error {
                refusal = Some(JournalError::Store(error));
            }
        }
    }
    for (_, path) in images {
        match load_image(disk, &path, state) {
            Ok(ImageInfo { applied, epoch, .. }) => match covers(applied) {
                Ok(()) => {
                    let image = Some(path);
                    return Ok(Base { applied, epoch, store: None, image, is_image_bad });
                }
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            },
            Err(error @ JournalError::Foreign { .. }) => return Err(error),
            Err(error) => {
                is_image_bad = true;
                notes.push(error_chain(&error));
                if let JournalError::Restore { .. } = error {
                    refusal.get_or_insert(error);
                }
            }
        }
    }
    state.reset();
    let applied = Txid::ZERO;
    if let Err(error) = covers(applied) {
        return Err(refusal.unwrap_or(error));
    }
    state.loaded(applied).map_err(|source| JournalError::Restore { applied, source })?;
    Ok(Base { applied, epoch: Epoch(0), store: None, image: None, is_image_bad })
}

/// Loads an image into the state.
fn load_image(
    disk: &dyn Disk,
    path: &Path,
    state: &mut dyn Recover,
) -> Result<ImageInfo, JournalError> {
    state.reset();
    let info = image::read(disk, path, &mut |key, value| state.load(key, value))?;
    let applied = info.applied;
    state.loaded(applied).map_err(|source| JournalError::Restore { applied, source })?;
    Ok(info)
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

/// Notes what the log has lost although nothing that is needed is missing.
fn note_losses(chain: &Chain, base: &Base, notes: &mut Vec<String>) {
    for hole in &chain.holes {
        let place = match &hole.damage {
            Some(damage) => damage.to_string(),
            None => "log files are missing".to_owned(),
        };
        notes.push(format!(
            "{place}: records {} to {} are only in the checkpoint",
            hole.from, hole.to
        ));
    }
    if chain.known_last() < base.applied {
        notes.push(format!(
            "the log ends at record {} but the checkpoint reaches to record {}",
            chain.known_last(),
            base.applied
        ));
    }
    if let Some(torn) = &chain.torn
        && let Some(segment) = chain.segments.last()
    {
        notes.push(format!(
            "cut an incomplete batch, records {} to {}, off {}: its sync never ended",
            torn.from,
            torn.to,
            chain.path(segment).display()
        ));
    }
}

/// Makes all directories hold the same records, durably, and cuts the torn tail. Returns those that work, the first one first.
pub(crate) fn heal(
    disk: &dyn Disk,
    homes: &Homes,
    chain: &Chain,
    left_out: &mut Vec<LeftOut>,
    notes: &mut Vec<String>,
) -> Result<Vec<PathBuf>, JournalError> {
    let all: Vec<&Home> = homes.iter().collect();
    let mut healed = Vec::new();
    // The one with the newest mark comes first: it has the records before the marks of the others claim them.
    for index in homes.newest_first() {
        let mark = homes.lacks(index).filter(|_| !healed.is_empty());
        let mark = mark.map(|mark| Mark { last: chain.last(), is_closed: false, ..mark });
        match heal_home(disk, homes, (all[index], index), chain, mark, notes) {
            Ok(()) => healed.push(index),
            Err(error) if index == 0 => return Err(error),
            Err(error) => {
                left_out.push(LeftOut { dir: all[index].dir.clone(), reason: error_chain(&error) });
            }
        }
    }
    healed.sort_unstable();
    Ok(healed.into_iter().map(|index| all[index].dir.clone()).collect())
}

fn heal_home(
    disk: &dyn Disk,
    homes: &Homes,
    (home, index): (&Home, usize),
    chain: &Chain,
    mark: Option<Mark>,
    notes: &mut Vec<String>,
) -> Result<(), JournalError> {
    if !homes.is_believed(index) {
        for (dir, name) in home.files() {
            let aside = put_aside(disk, &dir, &name)?;
            notes.push(format!("nothing tells whose it is: kept as {}", aside.display()));
        }
    }
    if let Some(mark) = mark {
        mark::write(disk, &home.dir, mark, &homes.starts())?;
    }
    chain.segments.iter().enumerate().try_for_each(|(at, segment)| {
        let is_last = at + 1 == chain.segments.len();
        heal_copy(disk, chain, (segment, is_last), index, notes)
    })
}

fn heal_copy(
    disk: &dyn Disk,
    chain: &Chain,
    (segment, is_last): (&Segment, bool),
    dir_index: usize,
    notes: &mut Vec<String>,
) -> Result<(), JournalError> {
    let dir = &chain.dirs[dir_index].path;
    let name = segment::file_name(segment.first);
    let path = dir.join(&name);
    match segment.copies[dir_index] {
        Copy::Pruned => return Ok(()),
        Copy::Same if !is_last => return Ok(()),
        Copy::Same => {
            // Also when nothing is cut: what an earlier process wrote may not be on disk yet.
            let good = chain.merged(disk, segment)?;
            let from = segment.scan.last_batch_at.min(good.len() as u64);
            return disk
                .settle(&path, from, &good[from as usize..])
                .map_err(crate::error::disk("cut", &path));
        }
        Copy::Differs => {
            let bad = keep_aside(disk, dir, &name)?;
            notes.push(format!("kept damaged log file as {}", bad.display()));
        }
        Copy::Missing | Copy::Behind => {}
    }
    let good = chain.merged(disk, segment)?;
    publish(disk, dir, &name, |file| file.append(&good))?;
    notes.push(format!("wrote {} anew from what is good of all copies", path.display()));
    Ok(())
}

//! The log as it lies on disk: which records are there, in which copies, and what is missing.
//!
//! Read-only: it reads every segment in every log directory, treats the copies of each as one, and lines them up. Whether a missing stretch
//! matters depends on the checkpoint that recovery starts from and on what else is known to have been there. So holes are listed here and
//! judged by [`Chain::covers_from`]: the one place that decides for the start, for `verify` and for `repair`.
//!
//! What a disk does not return is damage as any other. So nobody who reads the log fails for that before the hole is judged.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{self, Disk, Salvaged, Unread};
use crate::error::{JournalError, RecoverError};
use crate::home::mark::Found;
use crate::id::{Epoch, Txid};
use crate::segment::{self, Foreign, Loss, Scan};

/// A directory that has the log.
#[derive(Clone, Debug)]
pub(crate) struct LogDir {
    pub(crate) path: PathBuf,
    /// Whether its files count; if not, it counts as empty.
    pub(crate) is_believed: bool,
    /// Records up to here are not needed in it: it has images that contain them.
    pub(crate) floor: Txid,
}

/// All segments of all log directories.
pub(crate) struct Chain {
    /// The log directories, the first one first.
    pub(crate) dirs: Vec<LogDir>,
    /// In txid order.
    pub(crate) segments: Vec<Segment>,
    /// Records that were on disk and are in no copy, in txid order.
    pub(crate) holes: Vec<Hole>,
    /// The last batch, if it was not written in full.
    pub(crate) torn: Option<Hole>,
    /// Copies that could not be read although another could.
    pub(crate) notes: Vec<String>,
}

/// Called for each record of a walk.
pub type RecordFn<'a> = dyn FnMut(Txid, Epoch, &[u8]) -> Result<(), RecoverError> + 'a;

/// One segment and its copies.
pub(crate) struct Segment {
    pub(crate) first: Txid,
    /// The last record that counts: what the next segment overrides does not. The txid before the first if there is none.
    pub(crate) last: Txid,
    pub(crate) scan: Scan,
    /// One for each log directory.
    pub(crate) copies: Vec<Copy>,
    /// What could not be read, and of which copies.
    unread: Vec<(PathBuf, Unread)>,
}

/// One copy of a segment, compared with all copies together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copy {
    /// No file.
    Missing,
    /// No file, and none is needed there.
    Pruned,
    /// It has less, but nothing else.
    Behind,
    /// Bytes of it have changed, or an earlier start wrote it.
    Differs,
    /// As it should be, apart from what comes after the last good batch of a torn end.
    Same,
}

/// Records that no copy has.
#[derive(Clone, Debug)]
pub(crate) struct Hole {
    pub(crate) from: Txid,
    /// [`Txid::MAX`] where nothing says how many there were.
    pub(crate) to: Txid,
    /// Where the bytes are bad; `None` if there are no bytes at all.
    pub(crate) damage: Option<Damage>,
}

/// A bad place of a log file.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    path: PathBuf,
    /// The first bad byte.
    offset: u64,
    /// What the system says, if it does not return that byte.
    error: Option<Arc<io::Error>>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { path, offset, error } = self;
        match error {
            Some(error) => write!(f, "{} cannot be read at byte {offset}: {error}", path.display()),
            None => write!(f, "{} is damaged at byte {offset}", path.display()),
        }
    }
}

/// What is known of the log from elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof {
    /// The largest record that any checkpoint or image contains: it had been in the log.
    pub(crate) applied: Txid,
    pub(crate) found: Found,
}

impl Proof {
    /// A record that was in the log, and all before it.
    pub(crate) fn last(&self) -> Txid {
        self.applied.max(self.found.mark().map_or(Txid::ZERO, |mark| mark.last))
    }

    /// The last record of all, if a clean stop recorded it.
    pub(crate) fn closed_end(&self, chain: &Chain) -> Option<Txid> {
        let mark = self.found.mark().filter(|mark| mark.is_closed)?;
        (chain.known_last() <= mark.last).then_some(mark.last)
    }

    fn was_used(&self) -> bool {
        let is_marked = match self.found {
            Found::Nothing => false,
            Found::Damaged => true,
            // A directory is marked with nothing before it gets anything.
            Found::Mark(mark) => mark.epoch > Epoch(0) || mark.last > Txid::ZERO,
        };
        self.applied > Txid::ZERO || is_marked
    }

    /// The newest start that is known.
    pub(crate) fn epoch(&self) -> Epoch {
        self.found.mark().map_or(Epoch(0), |mark| mark.epoch)
    }
}

impl Chain {
    /// Reads and checks the whole log.
    pub(crate) fn read(disk: &dyn Disk, dirs: Vec<LogDir>) -> Result<Chain, JournalError> {
        let mut firsts = BTreeSet::new();
        for LogDir { path, .. } in dirs.iter().filter(|dir| dir.is_believed) {
            let names = disk.list(path).map_err(crate::error::disk("list", path))?;
            firsts.extend(names.iter().filter_map(|name| segment::first_of(name)));
        }
        let mut chain =
            Chain { dirs, segments: Vec::new(), holes: Vec::new(), torn: None, notes: Vec::new() };
        for first in firsts {
            let Copies { files, unread } = read_copies(disk, &chain.dirs, first)?;
            chain.note_unread(&unread);
            let copies = current(&files, first);
            let scan = segment::scan(&copies, first, &mut |_, _, _| ())
                .map_err(|Foreign(version)| chain.foreign(first, version))?;
            let merged = segment::merged(&copies, first, &scan);
            let copies = files.iter().map(|file| compare(file.as_ref(), &merged, &scan)).collect();
            chain.segments.push(Segment { first, last: scan.last, scan, copies, unread });
        }
        chain.find_holes();
        for segment in &mut chain.segments {
            for (copy, dir) in segment.copies.iter_mut().zip(&chain.dirs) {
                if *copy == Copy::Missing && dir.is_believed && segment.last <= dir.floor {
                    *copy = Copy::Pruned;
                }
            }
        }
        Ok(chain)
    }

    fn note_unread(&mut self, unread: &[(PathBuf, Unread)]) {
        self.notes.extend(unread.iter().map(|(path, Unread { range, error })| {
            let damage =
                Damage { path: path.clone(), offset: range.start, error: Some(error.clone()) };
            damage.to_string()
        }));
    }

    fn foreign(&self, first: Txid, version: u32) -> JournalError {
        let path = self.dirs[0].path.join(segment::file_name(first));
        JournalError::Foreign { path, version, known: segment::LAYOUT }
    }

    fn find_holes(&mut self) {
        for index in 0..self.segments.len() {
            let next = self.segments.get(index + 1).map(|next| next.first);
            let limit = next.map_or(Txid::MAX, |next| Txid(next.0 - 1));
            let path = self.path(&self.segments[index]);
            let segment = &mut self.segments[index];
            let unread = &segment.unread;
            let hole = |loss: &Loss| Hole {
                from: loss.from,
                to: loss.to.min(limit),
                damage: Some(damage(&path, unread, loss.at)),
            };
            let mut losses = segment.scan.losses.clone();
            match (segment.scan.torn, next) {
                // Only the last batch of all can be one that was never finished.
                (Some(torn), Some(_)) => losses.push(Loss { to: limit, ..torn }),
                (Some(torn), None) => self.torn = Some(hole(&torn)),
                (None, _) => {}
            }
            let mut reach = segment.scan.last;
            for loss in &losses {
                let hole = hole(loss);
                if hole.from <= hole.to {
                    reach = reach.max(hole.to);
                    self.holes.push(hole);
                }
            }
            if next.is_some() && reach < limit {
                self.holes.push(Hole { from: reach.next(), to: limit, damage: None });
            }
            segment.last = segment.scan.last.min(limit);
        }
    }

    /// Forgets what lies before files that are missing because the image as of `floor` contains their records: a directory that was left
    /// out for a while still has older files.
    pub(crate) fn forget_before(&mut self, floor: Txid) {
        let is_pruned = |hole: &&Hole| hole.damage.is_none() && hole.to <= floor;
        if let Some(gap) = self.holes.iter().rfind(is_pruned).cloned() {
            self.segments.retain(|segment| segment.first > gap.to);
            self.holes.retain(|hole| hole.from > gap.to);
        }
    }

    /// The path of a copy that is there.
    pub(crate) fn path(&self, segment: &Segment) -> PathBuf {
        let is_present = |copy: &Copy| !matches!(copy, Copy::Missing | Copy::Pruned);
        let present = segment.copies.iter().position(is_present);
        self.dirs[present.unwrap_or(0)].path.join(segment::file_name(segment.first))
    }

    /// The last good record of the log.
    pub(crate) fn last(&self) -> Txid {
        self.segments.iter().map(|segment| segment.last).max().unwrap_or_default()
    }

    /// The last record that the log itself proves to have been in it.
    pub(crate) fn known_last(&self) -> Txid {
        let begun = self.segments.last().map_or(Txid::ZERO, |segment| Txid(segment.first.0 - 1));
        let lost = self.holes.iter().map(|hole| hole.to).filter(|to| *to < Txid::MAX).max();
        self.last().max(begun).max(lost.unwrap_or_default())
    }

    /// The largest epoch seen.
    pub(crate) fn epoch(&self) -> Epoch {
        self.segments.iter().map(|segment| segment.scan.epoch).max().unwrap_or_default()
    }

    /// Whether every record after `base` that was ever acknowledged is there; `dir` is the journal's directory, for the message.
    pub(crate) fn covers_from(
        &self,
        base: Txid,
        proof: &Proof,
        dir: &Path,
    ) -> Result<(), JournalError> {
        let (log_dir, dir) = (self.dirs[0].path.clone(), dir.to_owned());
        // After a clean stop the end is known, however little of the log is left.
        let end = proof.closed_end(self);
        if end.is_some_and(|end| base >= end) {
            return Ok(());
        }
        if self.segments.is_empty() {
            let epoch = proof.epoch();
            return if proof.was_used() {
                Err(JournalError::LogMissing { log_dir, dir, epoch })
            } else {
                Ok(())
            };
        }
        if let Some(segment) = self.segments.first()
            && segment.first > base.next()
        {
            let (from, to) = (base.next(), Txid(segment.first.0 - 1));
            return Err(JournalError::LogGap { from, to, log_dir, dir });
        }
        let was_synced = |torn: &&Hole| torn.from <= proof.last();
        let torn = self.torn.as_ref().filter(was_synced);
        let mut holes = self.holes.iter().chain(torn);
        if let Some(hole) = holes.find(|hole| {
            let to = if hole.to == Txid::MAX { end.unwrap_or(Txid::MAX) } else { hole.to };
            hole.from <= to && to > base
        }) {
            return Err(match &hole.damage {
                Some(Damage { path, offset, error }) => {
                    let (path, offset, txid) = (path.clone(), *offset, hole.from);
                    match error.clone() {
                        Some(source) => JournalError::LogUnread { path, offset, txid, dir, source },
                        None => JournalError::LogDamaged { path, offset, txid, dir },
                    }
                }
                None => JournalError::LogGap { from: hole.from, to: hole.to, log_dir, dir },
            });
        }
        if self.epoch() < proof.epoch() {
            return Err(JournalError::LogMissing { log_dir, dir, epoch: proof.epoch() });
        }
        let last = self.known_last().max(torn.map_or(Txid::ZERO, |torn| torn.to));
        if last < proof.last() {
            let proven = proof.last();
            return Err(JournalError::LogEnded { last, proven, log_dir, dir });
        }
        Ok(())
    }

    /// The last record of the unbroken stretch that continues a state as of `base`.
    pub(crate) fn reach_from(&self, base: Txid, proof: &Proof) -> Txid {
        if self.segments.first().is_none_or(|segment| segment.first > base.next()) {
            return base;
        }
        let torn = self.torn.iter().filter(|torn| torn.from <= proof.last());
        match self.holes.iter().chain(torn).find(|hole| hole.to > base) {
            Some(hole) => base.max(Txid(hole.from.0 - 1)),
            None => base.max(self.last()),
        }
    }

    /// Passes on the good records after `base`, in order.
    pub(crate) fn replay(
        &self,
        disk: &dyn Disk,
        base: Txid,
        see: &mut RecordFn<'_>,
    ) -> Result<(), JournalError> {
        for segment in self.segments.iter().filter(|segment| segment.last > base) {
            let files = self.read_again(disk, segment)?;
            let mut result = Ok(());
            segment::scan(
                &current(&files, segment.first),
                segment.first,
                &mut |txid, epoch, body| {
                    if result.is_ok() && txid > base && txid <= segment.last {
                        result = see(txid, epoch, body)
                            .map_err(|source| JournalError::Replay { txid, source });
                    }
                },
            )
            .map_err(|Foreign(version)| self.foreign(segment.first, version))?;
            result?;
        }
        Ok(())
    }

    /// The copies of a segment, of which nothing is missing that was there the first time: the holes were judged by that.
    fn read_again(
        &self,
        disk: &dyn Disk,
        segment: &Segment,
    ) -> Result<Vec<Option<Salvaged>>, JournalError> {
        let Copies { files, unread } = read_copies(disk, &self.dirs, segment.first)?;
        let is_known = |(path, now): &(PathBuf, Unread)| {
            segment.unread.iter().any(|(known, before)| {
                let (before, now) = (&before.range, &now.range);
                known == path && before.start <= now.start && now.end <= before.end
            })
        };
        match unread.into_iter().find(|unread| !is_known(unread)) {
            Some((path, Unread { error, .. })) => {
                Err(crate::error::disk("read", path)(io::Error::new(error.kind(), error)))
            }
            None => Ok(files),
        }
    }

    /// The bytes of a segment as they should be in every directory.
    pub(crate) fn merged(
        &self,
        disk: &dyn Disk,
        segment: &Segment,
    ) -> Result<Vec<u8>, JournalError> {
        let files = self.read_again(disk, segment)?;
        Ok(segment::merged(&current(&files, segment.first), segment.first, &segment.scan))
    }
}

/// What is bad at a byte of a segment.
fn damage(path: &Path, unread: &[(PathBuf, Unread)], at: u64) -> Damage {
    let found = unread.iter().find(|(_, unread)| unread.range.contains(&at));
    Damage {
        path: found.map_or(path, |(path, _)| path).to_owned(),
        offset: at,
        error: found.map(|(_, unread)| Arc::clone(&unread.error)),
    }
}

/// Every copy of a segment.
struct Copies {
    /// One for each log directory.
    files: Vec<Option<Salvaged>>,
    /// What could not be read.
    unread: Vec<(PathBuf, Unread)>,
}

/// Reads every copy of a segment.
fn read_copies(disk: &dyn Disk, dirs: &[LogDir], first: Txid) -> Result<Copies, JournalError> {
    let name = segment::file_name(first);
    let mut copies = Copies { files: Vec::new(), unread: Vec::new() };
    for LogDir { path, is_believed, .. } in dirs {
        let is_there = *is_believed
            && disk.list(path).map_err(crate::error::disk("list", path))?.contains(&name);
        if !is_there {
            copies.files.push(None);
            continue;
        }
        let path = path.join(&name);
        let file = disk::salvage(disk, &path)?;
        copies.unread.extend(file.unread.iter().map(|unread| (path.clone(), unread.clone())));
        copies.files.push(Some(file));
    }
    Ok(copies)
}

/// The copies made by the newest of the starts that wrote them, and those whose header cannot be read.
fn current(files: &[Option<Salvaged>], first: Txid) -> Vec<&[u8]> {
    let all = || files.iter().flatten().map(|file| &file.bytes[..]);
    let newest = all().filter_map(|bytes| segment::header_epoch(bytes, first)).max();
    let is_current = |bytes: &&[u8]| {
        segment::header_epoch(bytes, first).is_none_or(|epoch| Some(epoch) == newest)
    };
    all().filter(is_current).collect()
}

fn compare(file: Option<&Salvaged>, merged: &[u8], scan: &Scan) -> Copy {
    let Some(file) = file else { return Copy::Missing };
    // Its bytes may be good: it is kept.
    if file.is_nothing() {
        return Copy::Differs;
    }
    let file = &file.bytes[..];
    let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    let common = file.len().min(merged.len());
    let tail_is_room = scan.torn.is_some() || is_zero(&file[common..]);
    if file[..common] == merged[..common] && tail_is_room {
        return if common == merged.len() { Copy::Same } else { Copy::Behind };
    }
    // Sectors that were never written there, and nothing else.
    let is_behind = tail_is_room
        && file
            .chunks(crate::sector::SECTOR_BYTES)
            .zip(merged.chunks(crate::sector::SECTOR_BYTES))
            .all(|(have, want)| have == &want[..have.len()] || is_zero(have));
    if is_behind { Copy::Behind } else { Copy::Differs }
}

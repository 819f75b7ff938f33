//! Offline checks of a journal's directory: whether everything is whole, and what is in it. Nobody else may have the journal open; each
//! function takes its lock.

use std::path::{Path, PathBuf};

pub use crate::chain::RecordFn;
use crate::chain::{Chain, Copy, Hole, Proof};
use crate::disk::RealDisk;
use crate::error::{JournalError, RecoverError, StoreError, chain as error_chain};
use crate::home::mark::{self, Found};
use crate::home::mirrors;
use crate::home::{Home, Homes};
use crate::id::{Epoch, Txid};
use crate::image;
pub use crate::image::{ImageInfo, SeeRow};
use crate::options::Options;
use crate::places::{Places, leave_out};
pub use crate::repair::{GivenUp, Repair};
use crate::segment::{self, Foreign};
use crate::store::{KvPlace, Store};
use sys::fs::LockFile;

/// What [`verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// First record of the log that is there; zero if there is no log.
    pub log_first: Txid,
    /// Last record of the log.
    pub log_last: Txid,
    /// Largest epoch in the log.
    pub epoch: Epoch,
    /// What the checkpoint store contains; `None` if there is none or it is not usable.
    pub store_applied: Option<Txid>,
    /// Rows in the checkpoint store.
    pub store_rows: u64,
    /// The good images, newest first: as of which record, and how many rows.
    pub images: Vec<(Txid, u64)>,
    /// From which of these the next start would begin; `None` if it would refuse.
    pub start_from: Option<Txid>,
    /// What is wrong, one line each. A torn end of the log is not: the next start cuts it.
    pub problems: Vec<String>,
}

/// One thing in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A row of the checkpoint.
    Row {
        /// Its key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// A record after the checkpoint.
    Record {
        /// Its number.
        txid: Txid,
        /// The start that wrote it.
        epoch: Epoch,
        /// Its contents.
        body: &'a [u8],
    },
}

/// Checks every byte of the journal in `dir` and of the mirrors that it remembers.
pub fn verify(dir: &Path) -> Result<Report, JournalError> {
    verify_with(&Options::new(dir))
}

/// Checks every byte of a journal. Nothing is repaired, except what sled itself needs to be opened.
pub fn verify_with(options: &Options) -> Result<Report, JournalError> {
    let _lock = look_into(options)?;
    Ok(report(&survey(options)?))
}

/// What a survey tells.
pub(crate) fn report(survey: &Survey) -> Report {
    let chain = &survey.chain;
    let start_from = survey.start_from();
    let mut report = Report {
        log_first: chain.segments.first().map_or(Txid::ZERO, |segment| segment.first),
        log_last: chain.last(),
        epoch: chain.epoch(),
        store_applied: survey.store.map(|(applied, _)| applied),
        store_rows: survey.store.map_or(0, |(_, rows)| rows),
        images: survey.good_images.iter().map(|(applied, rows, _)| (*applied, *rows)).collect(),
        start_from: None,
        problems: survey.problems.clone(),
    };
    match start_from {
        Ok(base) => report.start_from = Some(base),
        Err(error) => {
            report.problems.push(format!("the journal will not start: {}", error_chain(&error)));
        }
    }
    report
}

/// Everything that was found in a journal.
pub(crate) struct Survey {
    pub(crate) places: Places,
    pub(crate) homes: Homes,
    pub(crate) chain: Chain,
    /// As of which record, how many rows, and where; newest first, each once.
    good_images: Vec<(Txid, u64, PathBuf)>,
    store: Option<(Txid, u64)>,
    pub(crate) problems: Vec<String>,
}

/// Reads everything. The caller has the lock.
pub(crate) fn survey(options: &Options) -> Result<Survey, JournalError> {
    survey_of(options.places())
}

/// Reads everything that is at these places.
pub(crate) fn survey_of(mut places: Places) -> Result<Survey, JournalError> {
    let disk = places.disk.clone();
    let mut problems = Vec::new();
    if places.mirrors.is_empty() {
        places.mirrors = mirrors::read(&*disk, &places.dir, &mut problems)?;
    }
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    for dir in places.homes() {
        match Home::inspect(&*disk, dir) {
            Ok(home) => all.push(home),
            Err(error) => leave_out(&places, dir, error, &mut left_out)?,
        }
    }
    let homes = Homes::of(all, &left_out)?;
    problems.extend(left_out.into_iter().map(|out| out.reason));
    describe_homes(&homes, &mut problems);
    let chain = Chain::read(&*disk, homes.log_dirs())?;
    problems.extend(chain.notes.iter().cloned());
    describe_log(&chain, &mut problems);
    let store = match open_store(&*places.kv, &mut problems) {
        Ok(store) => store.map(|store| (store.applied(), store.row_count())),
        Err(error) => {
            problems.push(format!("checkpoint store: {}", error_chain(&error)));
            None
        }
    };
    let mut good_images: Vec<(Txid, u64, PathBuf)> = Vec::new();
    for (_, path) in homes.images() {
        match image::read(&*disk, &path, &mut |_, _| Ok(())) {
            Ok(info) if good_images.last().is_some_and(|(last, ..)| *last == info.applied) => {}
            Ok(info) => good_images.push((info.applied, info.row_count, path)),
            Err(error) => problems.push(error_chain(&error)),
        }
    }
    Ok(Survey { places, homes, chain, good_images, store, problems })
}

impl Survey {
    /// What the checkpoints prove about the log.
    pub(crate) fn proof(&self) -> Proof {
        let imaged = self.homes.images().first().map(|(applied, _)| *applied);
        let applied = imaged.max(self.store.map(|(applied, _)| applied));
        Proof { applied: applied.unwrap_or_default(), found: self.homes.found() }
    }

    /// The last record of all, if a clean stop recorded it.
    pub(crate) fn closed_end(&self) -> Option<Txid> {
        self.proof().closed_end(&self.chain)
    }

    /// What a start can begin from, in the order in which it tries.
    fn bases(&self) -> impl Iterator<Item = Txid> {
        let store = self.store.iter().map(|(applied, _)| *applied);
        store.chain(self.good_images.iter().map(|(applied, ..)| *applied)).chain([Txid::ZERO])
    }

    /// What the next start begins from.
    ///
    /// # Errors
    /// Why it refuses.
    pub(crate) fn start_from(&self) -> Result<Txid, JournalError> {
        let (proof, mut refusal) = (self.proof(), None);
        for base in self.bases() {
            match self.chain.covers_from(base, &proof, &self.places.dir) {
                Ok(()) => return Ok(base),
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        Err(refusal.expect("there is always a base to try"))
    }

    /// From which base, and up to which record, a state can be restored.
    pub(crate) fn reach(&self) -> (Txid, Txid) {
        let proof = self.proof();
        let mut best = None;
        for base in self.bases() {
            let reach = self.chain.reach_from(base, &proof);
            // Of equals the newest, which comes first.
            if best.is_none_or(|(_, other)| reach > other) {
                best = Some((base, reach));
            }
        }
        best.expect("there is always a base to try")
    }
}

/// Passes on the rows of the checkpoint, or, if there is none, of the newest usable image, and then the records after it. Returns the last record that they contain.
pub fn dump(
    dir: &Path,
    see: &mut dyn FnMut(Entry<'_>) -> Result<(), RecoverError>,
) -> Result<Txid, JournalError> {
    dump_with(&Options::new(dir), see)
}

/// Like [`dump`], for a journal with its own mirrors.
pub fn dump_with(
    options: &Options,
    see: &mut dyn FnMut(Entry<'_>) -> Result<(), RecoverError>,
) -> Result<Txid, JournalError> {
    let _lock = look_into(options)?;
    let survey = survey(options)?;
    let base = survey.start_from()?;
    let disk = &*survey.places.disk;
    let image = survey.good_images.iter().find(|(applied, ..)| *applied == base);
    if survey.store.is_some_and(|(applied, _)| applied == base) {
        let store = open_store(&*survey.places.kv, &mut Vec::new()).map_err(JournalError::Store)?;
        let store = store.ok_or(JournalError::Store(StoreError::NotDescribed))?;
        store
            .for_each_row(&mut |key, value| {
                see(Entry::Row { key, value }).map_err(StoreError::NotAccepted)
            })
            .map_err(JournalError::Store)?;
    } else if let Some((.., path)) = image {
        image::read(disk, path, &mut |key, value| see(Entry::Row { key, value }))?;
    }
    let mut last = base;
    survey.chain.replay(disk, base, &mut |txid, epoch, body| {
        last = txid;
        see(Entry::Record { txid, epoch, body })
    })?;
    Ok(last)
}

/// Takes the lock of a journal that is only read: nothing is made in its directory.
fn look_into(options: &Options) -> Result<LockFile, JournalError> {
    demand_journal(options)?;
    LockFile::of_existing(&options.dir).map_err(crate::lock_error)
}

/// Refuses a directory that holds nothing of a journal, where no mirror that is named may have it either.
pub(crate) fn demand_journal(options: &Options) -> Result<(), JournalError> {
    match !options.mirrors.is_empty() || is_journal(&options.dir)? {
        true => Ok(()),
        false => Err(JournalError::Nothing { dir: options.dir.clone() }),
    }
}

/// True if `dir` has anything of a journal: a file of its log, an image, the mark of a start, or a checkpoint. Nothing is made there, not even a lock.
///
/// # Errors
/// [`JournalError`] if it cannot be listed.
pub fn is_journal(dir: &Path) -> Result<bool, JournalError> {
    let is_marked = !Home::inspect(&RealDisk, dir)?.is_blank();
    Ok(is_marked || Options::new(dir).sled_place().is_present().map_err(JournalError::Store)?)
}

/// Passes on every record that the log of the journal in `dir` has, also those that the checkpoint contains.
///
/// # Errors
/// [`JournalError`] if a record that was on disk is missing.
pub fn records(dir: &Path, see: &mut RecordFn<'_>) -> Result<(), JournalError> {
    let options = Options::new(dir);
    let _lock = crate::take_lock(&options.dir)?;
    let survey = survey(&options)?;
    let first = survey.chain.segments.first().map_or(Txid(1), |segment| segment.first);
    let base = Txid(first.0 - 1);
    survey.chain.covers_from(base, &survey.proof(), &survey.places.dir)?;
    survey.chain.replay(&*survey.places.disk, base, see)
}

/// Passes on the rows of one image file, wherever it is, and checks all of it. They come before the whole file is known to be good: on an error, discard them.
///
/// # Errors
/// [`JournalError`] if it is not a whole image.
pub fn read_image(path: &Path, see: &mut SeeRow<'_>) -> Result<ImageInfo, JournalError> {
    image::read(&RealDisk, path, see)
}

/// Passes on the records of one file of the log, wherever it is; its name tells the first. A last batch that was never finished is left out, as at a start.
///
/// # Errors
/// [`JournalError`] if records of it are damaged; those before them came.
pub fn read_log_file(path: &Path, see: &mut RecordFn<'_>) -> Result<(), JournalError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let first = name.and_then(segment::first_of);
    let first = first.ok_or_else(|| JournalError::NotALogFile { path: path.to_owned() })?;
    let bytes = crate::disk::read(&RealDisk, path)?;
    let mut result = Ok(());
    let scan = segment::scan(&[&bytes[..]], first, &mut |txid, epoch, body| {
        if result.is_ok() {
            result = see(txid, epoch, body).map_err(|source| JournalError::Replay { txid, source });
        }
    })
    .map_err(|Foreign(version)| JournalError::Foreign {
        path: path.to_owned(),
        version,
        known: segment::LAYOUT,
    })?;
    result?;
    if !scan.has_header {
        return Err(JournalError::NotALogFile { path: path.to_owned() });
    }
    match scan.losses.first() {
        Some(loss) => Err(JournalError::LogFileDamaged {
            path: path.to_owned(),
            offset: loss.at,
            txid: loss.from,
        }),
        None => Ok(()),
    }
}

fn open_store(place: &dyn KvPlace, notes: &mut Vec<String>) -> Result<Option<Store>, StoreError> {
    if !place.is_present()? {
        return Ok(None);
    }
    Store::load(place.open(notes)?, &mut |_, _| Ok(())).map(Some)
}

fn describe_homes(homes: &Homes, problems: &mut Vec<String>) {
    for (index, home) in homes.iter().enumerate() {
        let path = home.dir.join(mark::NAME);
        if home.found == Found::Damaged {
            problems.push(format!("{} is damaged", path.display()));
        }
        if !homes.is_believed(index) {
            let dir = home.dir.display();
            problems.push(format!(
                "nothing tells whose {dir} is: the next start puts aside what is in it, and fills it"
            ));
        }
    }
    let dirs: Vec<PathBuf> = homes.iter().map(|home| home.dir.clone()).collect();
    let without = homes.without_image(&dirs);
    problems.extend(without.map(|home| format!("{} lacks the newest image", home.dir.display())));
}

fn describe_log(chain: &Chain, problems: &mut Vec<String>) {
    for segment in &chain.segments {
        for (dir, copy) in chain.dirs.iter().zip(&segment.copies) {
            let path = dir.path.join(segment::file_name(segment.first));
            match copy {
                Copy::Missing => problems.push(format!("{} is missing", path.display())),
                Copy::Behind => {
                    problems
                        .push(format!("{} lacks records that another copy has", path.display()));
                }
                Copy::Differs => {
                    problems.push(format!("{} is not as it was written", path.display()));
                }
                Copy::Same | Copy::Pruned => {}
            }
        }
    }
    for hole in &chain.holes {
        let place = match &hole.damage {
            Some(damage) => damage.to_string(),
            None => "log files are missing".to_owned(),
        };
        if hole.to == Txid::MAX {
            problems.push(format!("{place}: records from {} on are lost in the log", hole.from));
        } else {
            let Hole { from, to, .. } = hole;
            problems.push(format!("{place}: records {from} to {to} are lost in the log"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_holds_no_journal_is_named_and_left_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path();
        let check = || {
            let options = Options::new(dir);
            let refusals = [
                verify(dir).map(drop).unwrap_err(),
                dump(dir, &mut |_| Ok(())).map(drop).unwrap_err(),
                Repair::plan(&options).map(drop).unwrap_err(),
            ];
            for refusal in refusals {
                assert!(matches!(refusal, JournalError::Nothing { .. }), "{refusal}");
            }
        };
        check();
        fs::write(dir.join("thesis.tex"), "").unwrap();
        check();
        assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "nothing is made");
    }

    #[test]
    fn a_journal_that_is_only_read_is_locked_without_a_file() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path();
        // What a start of long ago leaves: its log.
        fs::create_dir(dir.join("log")).unwrap();
        let options = Options::new(dir);
        let lock = LockFile::of_existing(dir).unwrap();
        assert!(matches!(crate::take_lock(&options.dir), Err(JournalError::Locked { .. })));
        drop(lock);
        let lock = crate::take_lock(&options.dir).unwrap();
        let refused = LockFile::of_existing(dir).map_err(crate::lock_error).unwrap_err();
        assert!(matches!(refused, JournalError::Locked { pid: Some(_), .. }), "{refused}");
        drop(lock);
        assert!(LockFile::of_existing(dir).is_ok());
    }
}

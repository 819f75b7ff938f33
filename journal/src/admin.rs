//! Offline looks at a journal's directory: is everything whole, and what is in it. Nobody else may have
//! the journal open; both functions take its lock.

use std::path::Path;

use crate::chain::Chain;
use crate::error::{JournalError, RecoverError, StoreError};
use crate::id::{Epoch, Txid};
use crate::image;
use crate::options::Options;
use crate::segment::End;
use crate::sled_kv::chain as error_chain;
use crate::store::{KvPlace, Store};

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
    /// What is wrong, one line each. A torn end of the log is not: it is cut at the next start.
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

/// Checks every byte of the journal in `dir` with its default log directory.
pub fn verify(dir: &Path) -> Result<Report, JournalError> {
    verify_with(&Options::new(dir))
}

/// Checks every byte of a journal. Nothing is repaired, except what sled itself needs to be opened.
pub fn verify_with(options: &Options) -> Result<Report, JournalError> {
    let _lock = crate::take_lock(&options.dir)?;
    let places = options.places();
    let disk = &*places.disk;
    let mut report = Report::default();
    let chain = Chain::read(disk, &places.log_dirs)?;
    report.log_first = chain.segments.first().map_or(Txid::ZERO, |segment| segment.first);
    report.log_last = chain.last();
    report.epoch = chain.epoch();
    describe_log(&chain, &mut report.problems);

    let mut bases = Vec::new();
    match open_store(options, &mut report.problems) {
        Ok(Some(store)) => {
            report.store_applied = Some(store.applied());
            report.store_rows = store.row_count();
            bases.push(store.applied());
        }
        Ok(None) => {}
        Err(error) => {
            report.problems.push(format!("checkpoint store: {}", error_chain(&error)));
        }
    }
    for (_, path) in image::list(disk, &places.image_dir())? {
        match image::read(disk, &path, &mut |_, _| Ok(())) {
            Ok(info) => {
                report.images.push((info.applied, info.row_count));
                bases.push(info.applied);
            }
            Err(error) => report.problems.push(error_chain(&error)),
        }
    }
    bases.push(Txid::ZERO);
    let mut refusal = None;
    for base in bases {
        match chain.covers_from(base, &options.dir) {
            Ok(()) => {
                report.start_from = Some(base);
                break;
            }
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    if let (None, Some(error)) = (report.start_from, refusal) {
        report.problems.push(format!("the journal will not start: {error}"));
    }
    Ok(report)
}

/// Shows the rows of the checkpoint and then the records after it.
pub fn dump(
    dir: &Path,
    see: &mut dyn FnMut(Entry<'_>) -> Result<(), RecoverError>,
) -> Result<(), JournalError> {
    dump_with(&Options::new(dir), see)
}

/// Like [`dump`], for a journal with its own log directories.
pub fn dump_with(
    options: &Options,
    see: &mut dyn FnMut(Entry<'_>) -> Result<(), RecoverError>,
) -> Result<(), JournalError> {
    let _lock = crate::take_lock(&options.dir)?;
    let places = options.places();
    let store = open_store(options, &mut Vec::new()).map_err(JournalError::Store)?;
    let mut applied = Txid::ZERO;
    if let Some(store) = store {
        applied = store.applied();
        store
            .for_each_row(&mut |key, value| {
                see(Entry::Row { key, value }).map_err(StoreError::NotAccepted)
            })
            .map_err(JournalError::Store)?;
    }
    let chain = Chain::read(&*places.disk, &places.log_dirs)?;
    chain.covers_from(applied, &options.dir)?;
    chain.replay(&*places.disk, applied, &mut |txid, epoch, body| {
        see(Entry::Record { txid, epoch, body })
    })
}

fn open_store(options: &Options, notes: &mut Vec<String>) -> Result<Option<Store>, StoreError> {
    let place = options.sled_place();
    if !place.is_present()? {
        return Ok(None);
    }
    Store::load(place.open(notes)?, &mut |_, _| Ok(())).map(Some)
}

fn describe_log(chain: &Chain, problems: &mut Vec<String>) {
    for segment in &chain.segments {
        for (dir, copy) in chain.dirs.iter().zip(&segment.copies) {
            let path = dir.join(crate::segment::file_name(segment.first));
            match copy {
                None => problems.push(format!("{} is missing", path.display())),
                Some(copy) if copy.end == End::Damaged => problems.push(format!(
                    "{} is damaged at byte {} (record {})",
                    path.display(),
                    copy.good_len,
                    segment.first.0 + copy.record_count
                )),
                Some(copy) if copy.record_count < segment.record_count => problems.push(format!(
                    "{} ends before record {}",
                    path.display(),
                    segment.first.0 + copy.record_count
                )),
                Some(_) => {}
            }
        }
    }
    for hole in &chain.holes {
        if hole.to == Txid(u64::MAX) {
            problems.push(format!("records from {} on are lost in the log", hole.from));
        } else {
            problems.push(format!("records {} to {} are lost in the log", hole.from, hole.to));
        }
    }
}

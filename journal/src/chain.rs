//! The log as it lies on disk: which records are there, in which copy, and what is missing.
//!
//! Read-only: it looks at every segment in every log directory, takes the best copy of each, and lines
//! them up. Whether a missing stretch matters depends on the checkpoint that recovery starts from, so
//! holes are listed here and judged by [`Chain::covers_from`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::disk::{self, Disk};
use crate::error::{JournalError, RecoverError};
use crate::id::{Epoch, Txid};
use crate::segment::{self, End, Scan};

/// All segments of all log directories.
pub(crate) struct Chain {
    /// The log directories, in the order of the options.
    pub(crate) dirs: Vec<PathBuf>,
    /// In txid order.
    pub(crate) segments: Vec<Segment>,
    /// Missing or damaged records, in txid order.
    pub(crate) holes: Vec<Hole>,
}

/// What a walk over records calls for each of them.
pub(crate) type RecordFn<'a> = dyn FnMut(Txid, Epoch, &[u8]) -> Result<(), RecoverError> + 'a;

/// One segment and its copies.
pub(crate) struct Segment {
    pub(crate) first: Txid,
    /// Records that count: the good ones of the best copy, less those that the next segment overrides.
    pub(crate) record_count: u64,
    /// Index of the best copy.
    pub(crate) best: usize,
    /// One for each log directory; `None` where the file is missing.
    pub(crate) copies: Vec<Option<Scan>>,
}

/// Records that no copy has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) from: Txid,
    pub(crate) to: Txid,
    /// Where the bytes are bad; `None` if there are no bytes at all.
    pub(crate) damage: Option<(PathBuf, u64)>,
}

impl Segment {
    /// The last record; the txid before the first if there is none.
    pub(crate) fn last(&self) -> Txid {
        Txid(self.first.0 + self.record_count - 1)
    }

    pub(crate) fn best_scan(&self) -> &Scan {
        self.copies[self.best].as_ref().expect("the best copy is a present one")
    }
}

impl Chain {
    /// Reads and checks the whole log.
    pub(crate) fn read(disk: &dyn Disk, dirs: &[PathBuf]) -> Result<Chain, JournalError> {
        let mut firsts = BTreeSet::new();
        let mut listed = Vec::new();
        for dir in dirs {
            let names = disk.list(dir).map_err(crate::error::disk("list", dir))?;
            let present: BTreeSet<Txid> =
                names.iter().filter_map(|name| segment::first_of(name)).collect();
            firsts.extend(present.iter().copied());
            listed.push(present);
        }
        let mut chain = Chain { dirs: dirs.to_vec(), segments: Vec::new(), holes: Vec::new() };
        for first in firsts {
            let mut copies = Vec::new();
            for (dir, present) in dirs.iter().zip(&listed) {
                if !present.contains(&first) {
                    copies.push(None);
                    continue;
                }
                let path = dir.join(segment::file_name(first));
                let scan = segment::scan(&disk::read(disk, &path)?, first, |_| ());
                if let End::Newer(version) = scan.end {
                    return Err(JournalError::Newer { path, version });
                }
                copies.push(Some(scan));
            }
            let best = best_copy(&copies);
            let record_count = copies[best].as_ref().map_or(0, |scan| scan.record_count);
            chain.segments.push(Segment { first, record_count, best, copies });
        }
        chain.find_holes();
        Ok(chain)
    }

    fn find_holes(&mut self) {
        for index in 0..self.segments.len() {
            let next_first = self.segments.get(index + 1).map(|next| next.first);
            let segment = &mut self.segments[index];
            let from = Txid(segment.first.0 + segment.record_count);
            let damaged = segment.best_scan().end;
            let hole_to = match next_first {
                // A later start cut here and went on: what lies behind was never acknowledged.
                Some(next) if next <= from => {
                    segment.record_count = next.0 - segment.first.0;
                    continue;
                }
                Some(next) => Txid(next.0 - 1),
                None if damaged == End::Damaged => Txid(u64::MAX),
                None => continue,
            };
            let segment = &self.segments[index];
            let damage =
                (damaged != End::Clean).then(|| (self.path(segment), segment.best_scan().good_len));
            self.holes.push(Hole { from, to: hole_to, damage });
        }
    }

    /// The best copy's path.
    pub(crate) fn path(&self, segment: &Segment) -> PathBuf {
        self.dirs[segment.best].join(segment::file_name(segment.first))
    }

    /// The last record of the log.
    pub(crate) fn last(&self) -> Txid {
        self.segments.last().map_or(Txid::ZERO, Segment::last)
    }

    /// The largest epoch seen.
    pub(crate) fn epoch(&self) -> Epoch {
        let scans = self.segments.iter().flat_map(|segment| segment.copies.iter().flatten());
        scans.map(|scan| scan.epoch).max().unwrap_or_default()
    }

    /// Whether every record after `base` is there; `dir` is the journal's directory, for the message.
    pub(crate) fn covers_from(&self, base: Txid, dir: &Path) -> Result<(), JournalError> {
        let gap = |from, to| JournalError::LogGap {
            from,
            to,
            log_dir: self.dirs[0].clone(),
            dir: dir.to_owned(),
        };
        if let Some(segment) = self.segments.first()
            && segment.first > base.next()
        {
            return Err(gap(base.next(), Txid(segment.first.0 - 1)));
        }
        let Some(hole) = self.holes.iter().find(|hole| hole.to > base) else {
            return Ok(());
        };
        Err(match &hole.damage {
            Some((path, offset)) => JournalError::LogDamaged {
                path: path.clone(),
                offset: *offset,
                txid: hole.from,
                dir: dir.to_owned(),
            },
            None => gap(hole.from, hole.to),
        })
    }

    /// Shows the records after `base`, in order.
    pub(crate) fn replay(
        &self,
        disk: &dyn Disk,
        base: Txid,
        see: &mut RecordFn<'_>,
    ) -> Result<(), JournalError> {
        for segment in &self.segments {
            if segment.record_count == 0 || segment.last() <= base {
                continue;
            }
            let path = self.path(segment);
            let bytes = disk::read(disk, &path)?;
            let mut result = Ok(());
            segment::scan(&bytes, segment.first, |record| {
                if result.is_ok() && record.txid > base && record.txid <= segment.last() {
                    result = see(record.txid, record.epoch, record.body)
                        .map_err(|source| JournalError::Replay { txid: record.txid, source });
                }
            });
            result?;
        }
        Ok(())
    }
}

/// Most records first. Among equals a damaged one decides: it shows that there was more.
fn best_copy(copies: &[Option<Scan>]) -> usize {
    let rank = |index: &usize| {
        copies[*index]
            .as_ref()
            .map(|scan| (scan.record_count, scan.end == End::Damaged, scan.good_len, scan.epoch))
    };
    (0..copies.len()).max_by_key(rank).expect("there is at least one log directory")
}

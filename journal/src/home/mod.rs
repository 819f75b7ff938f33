//! The directories that hold a journal: the first one, and its mirrors on other disks.
//!
//! ```text
//! <directory>/epoch                which starts it has seen (see `mark`)
//! <directory>/log/<first>.log      all of the log after the older of its images
//! <directory>/image/<txid>.image   the two newest images
//! ```
//!
//! Each of them is a journal by itself. The first one also has a checkpoint, which can be built from the others.
//!
//! Invariants:
//! - two directories are read as one only if one of them has seen the newest start of the other;
//! - what a mirror holds is not believed if nothing says to which journal it belongs, while another directory does say so.

pub(crate) mod mark;
pub(crate) mod mirrors;
mod sealed;

use std::path::{Path, PathBuf};

use self::mark::{Found, Mark, Starts};
use crate::chain::LogDir;
use crate::disk::Disk;
use crate::error::JournalError;
use crate::id::{Epoch, Txid};
use crate::image::{self, IMAGES_KEPT};
use crate::places::LeftOut;
use crate::segment;

/// Where the log is in a directory of a journal.
pub(crate) fn log_dir(home: &Path) -> PathBuf {
    home.join("log")
}

/// Where the images are in a directory of a journal.
pub(crate) fn image_dir(home: &Path) -> PathBuf {
    home.join("image")
}

/// One directory and what a first check of it finds.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) dir: PathBuf,
    pub(crate) found: Found,
    starts: Starts,
    /// Newest first, good or not.
    pub(crate) images: Vec<(Txid, PathBuf)>,
    /// Names of files of the log.
    segments: Vec<String>,
}

impl Home {
    /// Examines a directory; a missing one counts as empty.
    pub(crate) fn inspect(disk: &dyn Disk, dir: &Path) -> Result<Home, JournalError> {
        let (found, starts) = mark::read(disk, dir)?;
        let images = image::list(disk, &image_dir(dir))?;
        let log = log_dir(dir);
        let mut segments = disk.list(&log).map_err(crate::error::disk("list", &log))?;
        segments.retain(|name| segment::first_of(name).is_some());
        Ok(Home { dir: dir.to_owned(), found, starts, images, segments })
    }

    pub(crate) fn is_blank(&self) -> bool {
        let is_unmarked = self.found.mark().is_none_or(|mark| mark == NOTHING);
        is_unmarked && self.images.is_empty() && self.segments.is_empty()
    }

    /// The files of log and images, with the directories they are in.
    pub(crate) fn files(&self) -> Vec<(PathBuf, String)> {
        let images = self.images.iter();
        let images = images.map(|(applied, _)| (image_dir(&self.dir), image::file_name(*applied)));
        let segments = self.segments.iter().map(|name| (log_dir(&self.dir), name.clone()));
        images.chain(segments).collect()
    }

    /// The log up to here is not needed in this directory.
    fn floor(&self) -> Txid {
        self.images.get(IMAGES_KEPT - 1).map_or(Txid::ZERO, |(applied, _)| *applied)
    }
}

/// All directories that can be read, the first one first.
#[derive(Debug)]
pub(crate) struct Homes {
    all: Vec<Home>,
}

impl Homes {
    /// Combines directories that hold one journal; mirrors `left_out` could not be read.
    ///
    /// # Errors
    /// [`JournalError::OtherJournal`] if they hold several, [`JournalError::MirrorNeeded`] if it cannot be known whether this is a new one.
    pub(crate) fn of(all: Vec<Home>, left_out: &[LeftOut]) -> Result<Homes, JournalError> {
        let homes = Homes { all };
        if homes.all.iter().all(Home::is_blank)
            && let (Some(first), Some(out)) = (homes.all.first(), left_out.first())
        {
            let (dir, mirror) = (first.dir.clone(), out.dir.clone());
            return Err(JournalError::MirrorNeeded { dir, mirror, reason: out.reason.clone() });
        }
        let Some(newest) = homes.newest() else { return Ok(homes) };
        let starts = &homes.all[newest].starts;
        let mut others = homes.all.iter().filter_map(|home| Some((home, home.starts.newest()?)));
        match others.find(|(_, start)| !starts.contains(*start)) {
            Some((home, _)) => Err(JournalError::OtherJournal {
                dir: home.dir.clone(),
                other: homes.all[newest].dir.clone(),
            }),
            None => Ok(homes),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Home> {
        self.all.iter()
    }

    /// The directory with the newest mark.
    fn newest(&self) -> Option<usize> {
        let marks = self.all.iter().enumerate();
        let marks = marks.filter_map(|(index, home)| Some((home.found.mark()?, index)));
        // Of equals the first.
        marks.max_by_key(|(mark, index)| (*mark, usize::MAX - index)).map(|(_, index)| index)
    }

    /// What the newest mark says.
    pub(crate) fn found(&self) -> Found {
        let is_damaged = |home: &Home| home.found == Found::Damaged;
        match self.newest() {
            Some(newest) => self.all[newest].found,
            None if self.all.iter().any(is_damaged) => Found::Damaged,
            None => Found::Nothing,
        }
    }

    /// The starts that the newest of them has seen.
    pub(crate) fn starts(&self) -> Starts {
        self.newest().map_or_else(Starts::default, |newest| self.all[newest].starts.clone())
    }

    /// Whether the files in a directory are believed to be of this journal.
    pub(crate) fn is_believed(&self, index: usize) -> bool {
        index == 0 || self.all[index].found.mark().is_some() || self.newest().is_none()
    }

    /// The newest mark, if a directory has not seen its start.
    pub(crate) fn lacks(&self, index: usize) -> Option<Mark> {
        let newest = self.found().mark().unwrap_or(NOTHING);
        let home = &self.all[index];
        let is_known =
            home.found.mark().is_some() && home.starts.newest() == self.starts().newest();
        (!is_known).then_some(newest)
    }

    /// Indexes of all, the one with the newest mark first.
    pub(crate) fn newest_first(&self) -> Vec<usize> {
        let newest = self.newest().unwrap_or(0);
        let others = (0..self.all.len()).filter(|index| *index != newest);
        [newest].into_iter().chain(others).collect()
    }

    pub(crate) fn log_dirs(&self) -> Vec<LogDir> {
        let dirs = self.all.iter().enumerate().map(|(index, home)| LogDir {
            path: log_dir(&home.dir),
            is_believed: self.is_believed(index),
            floor: home.floor(),
        });
        dirs.collect()
    }

    /// The images in directories that are believed, newest first.
    pub(crate) fn images(&self) -> Vec<(Txid, PathBuf)> {
        let believed = self.all.iter().enumerate().filter(|(index, _)| self.is_believed(*index));
        let mut out: Vec<_> = believed.flat_map(|(_, home)| home.images.iter().cloned()).collect();
        // Stable: of one image the first directory's copy comes first.
        out.sort_by_key(|(applied, _)| std::cmp::Reverse(*applied));
        out
    }

    /// The image before the newest one.
    pub(crate) fn older_image(&self) -> Option<Txid> {
        let mut images = self.images();
        images.dedup_by_key(|(applied, _)| *applied);
        images.get(IMAGES_KEPT - 1).map(|(applied, _)| *applied)
    }

    /// Those of `dirs` that lack the newest image.
    pub(crate) fn without_image<'a>(
        &'a self,
        dirs: &'a [PathBuf],
    ) -> impl Iterator<Item = &'a Home> {
        let newest = self.images().first().map(|(applied, _)| *applied);
        self.all
            .iter()
            .enumerate()
            .filter(move |(index, home)| {
                let has = home.images.iter().any(|(applied, _)| Some(*applied) == newest);
                newest.is_some() && dirs.contains(&home.dir) && !(has && self.is_believed(*index))
            })
            .map(|(_, home)| home)
    }
}

/// The mark of a directory that has got nothing yet.
const NOTHING: Mark = Mark { epoch: Epoch(0), last: Txid::ZERO, is_closed: false };

//! Behind the log: applies changed rows to the store, exports images to every directory, removes log segments that nobody
//! needs any more. Synchronous; `threads` runs it.
//!
//! Invariants:
//! - rows are applied only when the records up to them are durable in the log (the caller waits), so the store is never ahead of the log;
//! - a log segment is removed only when the store has durably applied it *and* the older of two images,
//!   read back and found good, contains it: store, images and log can each be lost alone;
//! - what a directory keeps is decided by its own images: each can be lost with all that is in it;
//! - a mirror that fails here stops nothing: it keeps its log, so what it has is enough, and is tried again with the next image.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::disk::{put_aside, remove_temporaries};
use crate::error::{JournalError, chain as error_chain, disk};
use crate::home::{image_dir, log_dir};
use crate::id::{Epoch, Txid};
use crate::image::{self, IMAGES_KEPT};
use crate::places::{LeftOut, Places};
use crate::segment;
use crate::store::{Change, Store};

/// Owns the store while the journal runs.
pub(crate) struct Checkpointer {
    places: Places,
    /// The directories that get images, the first one first.
    homes: Vec<PathBuf>,
    store: Store,
    epoch: Epoch,
    /// What the newest image contains; zero if there is none.
    imaged: Txid,
    /// Mirrors that did not get the last image.
    left_out: Vec<LeftOut>,
}

impl Checkpointer {
    pub(crate) fn new(
        places: Places,
        homes: Vec<PathBuf>,
        store: Store,
        epoch: Epoch,
    ) -> Result<Checkpointer, JournalError> {
        let images = image::list(&*places.disk, &image_dir(&places.dir))?;
        let imaged = images.first().map_or(Txid::ZERO, |(applied, _)| *applied);
        Ok(Checkpointer { places, homes, store, epoch, imaged, left_out: Vec::new() })
    }

    /// Mirrors that did not get the last image.
    pub(crate) fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// The record up to which the store is durable.
    pub(crate) fn applied(&self) -> Txid {
        self.store.applied()
    }

    /// Number of rows in the store.
    pub(crate) fn row_count(&self) -> u64 {
        self.store.row_count()
    }

    /// Records in the store that the newest image lacks.
    pub(crate) fn unimaged(&self) -> u64 {
        self.applied().0.saturating_sub(self.imaged.0)
    }

    /// Applies several sets of changes, oldest first, as one atomic and durable step.
    pub(crate) fn apply(
        &mut self,
        at: Txid,
        sets: impl IntoIterator<Item = Vec<Change>>,
    ) -> Result<(), JournalError> {
        let mut merged = BTreeMap::new();
        for change in sets.into_iter().flatten() {
            merged.insert(change.key, change.value);
        }
        let applied = at.max(self.store.applied());
        self.store.apply(merged, applied, self.epoch).map_err(JournalError::Store)
    }

    /// Writes the image of the store to every directory that has no good one, and removes what is then not needed.
    ///
    /// # Errors
    /// The error of the first directory; a mirror that fails is noted.
    pub(crate) fn export(&mut self) -> Result<PathBuf, JournalError> {
        let path = self.write_first()?;
        self.imaged = self.applied();
        let mut left_out = Vec::new();
        for home in &self.homes[1..] {
            if let Err(error) = self.copy_to(home, &path).and_then(|()| self.prune(home)) {
                let (dir, reason) = (home.clone(), error_chain(&error));
                tracing::warn!(dir = %dir.display(), reason, "a mirror got no image");
                left_out.push(LeftOut { dir, reason });
            }
        }
        self.left_out = left_out;
        self.prune(&self.places.dir)?;
        Ok(path)
    }

    fn write_first(&self) -> Result<PathBuf, JournalError> {
        let disk_ = &*self.places.disk;
        let dir = image_dir(&self.places.dir);
        remove_temporaries(disk_, &dir)?;
        match self.good_image(&dir)? {
            Some(path) => Ok(path),
            None => image::write(disk_, &dir, &self.store, self.places.section_bytes),
        }
    }

    fn copy_to(&self, home: &Path, from: &Path) -> Result<(), JournalError> {
        let disk_ = &*self.places.disk;
        let dir = image_dir(home);
        remove_temporaries(disk_, &dir)?;
        match self.good_image(&dir)? {
            Some(_) => Ok(()),
            None => image::copy(disk_, from, &dir),
        }
    }

    /// The image of the store in `dir`, if there is a good one.
    fn good_image(&self, dir: &Path) -> Result<Option<PathBuf>, JournalError> {
        let images = image::list(&*self.places.disk, dir)?;
        let present = images.into_iter().find(|(applied, _)| *applied == self.applied());
        let Some((_, path)) = present else { return Ok(None) };
        Ok(self.is_good(&path)?.then_some(path))
    }

    /// Reads an image back; a bad one is put aside.
    fn is_good(&self, path: &Path) -> Result<bool, JournalError> {
        let disk_ = &*self.places.disk;
        match image::read(disk_, path, &mut |_, _| Ok(())) {
            Ok(_) => Ok(true),
            Err(error @ JournalError::ImageDamaged { .. }) => {
                tracing::warn!(%error, "image put aside");
                let name = path.file_name().and_then(|name| name.to_str());
                let name = name.expect("images are listed by text names");
                put_aside(disk_, path.parent().expect("images are in a directory"), name)?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps the two newest images of a directory and the log after the older of them.
    fn prune(&self, home: &Path) -> Result<(), JournalError> {
        let disk_ = &*self.places.disk;
        let (images_in, log_in) = (image_dir(home), log_dir(home));
        let images = image::list(disk_, &images_in)?;
        let Some((older, path)) = images.get(IMAGES_KEPT - 1) else { return Ok(()) };
        if !self.is_good(path)? {
            return Ok(());
        }
        for (_, path) in &images[IMAGES_KEPT..] {
            disk_.remove(path).map_err(disk("remove", path))?;
        }
        disk_.sync_dir(&images_in).map_err(disk("sync directory", &images_in))?;
        let floor = (*older).min(self.applied());
        let names = disk_.list(&log_in).map_err(disk("list", &log_in))?;
        let firsts: Vec<Txid> = names.iter().filter_map(|name| segment::first_of(name)).collect();
        // Oldest first, and never the newest; a segment ends where the next one begins.
        for pair in firsts.windows(2).take_while(|pair| pair[1] <= floor.next()) {
            let path = log_in.join(segment::file_name(pair[0]));
            disk_.remove(&path).map_err(disk("remove", &path))?;
        }
        disk_.sync_dir(&log_in).map_err(disk("sync directory", &log_in))
    }
}

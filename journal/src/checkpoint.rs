//! Behind the log: applies changed rows to the store, exports images, removes log segments that nobody
//! needs any more. Synchronous; `threads` runs it.
//!
//! Invariants:
//! - rows are applied only when the records behind them are durable in the log (the caller waits), so the
//!   store is never ahead of the log;
//! - a log segment is removed only when the store has durably applied it *and* the older of two images,
//!   read back and found good, contains it: store, images and log can each be lost alone.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::{JournalError, disk};
use crate::id::{Epoch, Txid};
use crate::image;
use crate::recover::{Places, put_aside};
use crate::segment;
use crate::store::{Change, Store};

/// Owns the store while the journal runs.
pub(crate) struct Checkpointer {
    places: Places,
    store: Store,
    epoch: Epoch,
    /// What the newest image contains; zero if there is none.
    imaged: Txid,
}

impl Checkpointer {
    pub(crate) fn new(
        places: Places,
        store: Store,
        epoch: Epoch,
    ) -> Result<Checkpointer, JournalError> {
        let images = image::list(&*places.disk, &places.image_dir())?;
        let imaged = images.first().map_or(Txid::ZERO, |(applied, _)| *applied);
        Ok(Checkpointer { places, store, epoch, imaged })
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

    /// Writes the image of the store unless a good one is there, and removes what is then not needed.
    pub(crate) fn export(&mut self) -> Result<PathBuf, JournalError> {
        let disk_ = &*self.places.disk;
        let dir = self.places.image_dir();
        let name = image::file_name(self.applied());
        let images = image::list(disk_, &dir)?;
        let present = images.iter().any(|(applied, _)| *applied == self.applied());
        let path = if present && self.is_good(&dir.join(&name))? {
            dir.join(name)
        } else {
            image::write(disk_, &dir, &self.store, self.places.section_bytes)?
        };
        self.imaged = self.applied();
        self.prune()?;
        Ok(path)
    }

    /// Reads an image back; a bad one is put aside.
    fn is_good(&self, path: &std::path::Path) -> Result<bool, JournalError> {
        let disk_ = &*self.places.disk;
        match image::read(disk_, path, &mut |_, _| Ok(())) {
            Ok(_) => Ok(true),
            Err(error @ JournalError::ImageDamaged { .. }) => {
                tracing::warn!(%error, "image put aside");
                let name = path.file_name().and_then(|name| name.to_str());
                put_aside(
                    disk_,
                    &self.places.image_dir(),
                    name.expect("images are listed by text names"),
                )?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps the two newest images and the log after the older of them.
    fn prune(&self) -> Result<(), JournalError> {
        let disk_ = &*self.places.disk;
        let dir = self.places.image_dir();
        let images = image::list(disk_, &dir)?;
        let Some((older, path)) = images.get(IMAGES_KEPT - 1) else { return Ok(()) };
        if !self.is_good(path)? {
            return Ok(());
        }
        for (_, path) in &images[IMAGES_KEPT..] {
            disk_.remove(path).map_err(disk("remove", path))?;
        }
        disk_.sync_dir(&dir).map_err(disk("sync directory", &dir))?;
        let floor = (*older).min(self.applied());
        for dir in &self.places.log_dirs {
            let names = disk_.list(dir).map_err(disk("list", dir))?;
            let firsts: Vec<Txid> =
                names.iter().filter_map(|name| segment::first_of(name)).collect();
            // Oldest first, and never the newest; a segment ends where the next one begins.
            for pair in firsts.windows(2).take_while(|pair| pair[1] <= floor.next()) {
                let path = dir.join(segment::file_name(pair[0]));
                disk_.remove(&path).map_err(disk("remove", &path))?;
            }
            disk_.sync_dir(dir).map_err(disk("sync directory", dir))?;
        }
        Ok(())
    }
}

/// Images kept: two, so that one can be found bad.
pub(crate) const IMAGES_KEPT: usize = 2;

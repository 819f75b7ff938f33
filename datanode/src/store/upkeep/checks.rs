//! Which data directories work: checks that take those that fail out of service, and put those that work again back in.
//!
//! A disk may also not answer at all. Whoever waits for it then waits for long, so each directory is checked by a thread of its own, and somebody else takes it
//! out of service (`probes`). Invariant: that waits for nothing that a thread may hold while it waits for the disk.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::Error;
use crate::store::{Store, scan};

impl Store {
    /// Data directories, those out of service included.
    pub fn volume_count(&self) -> usize {
        self.volumes.len()
    }

    /// True if the data directory of this number is out of service.
    pub fn is_out_of_service(&self, index: usize) -> bool {
        self.volumes[index].is_fenced()
    }

    /// Checks every data directory.
    pub fn check_volumes(&self) {
        (0..self.volumes.len()).for_each(|index| self.check_volume(index));
    }

    /// Checks a data directory: takes it out of service if it fails, and puts it back in if it works again.
    pub fn check_volume(&self, index: usize) {
        let volume = &self.volumes[index];
        if volume.is_fenced() {
            match self.restore(index) {
                Ok(count) => tracing::info!(count, "replicas found in a data directory"),
                Err(error) => {
                    let error = protocol::error::chain(&error);
                    tracing::debug!(error, "data directory stays out of service");
                }
            }
        } else if let Err(error) = volume.check() {
            self.fence_unless_short(index, &error);
        }
    }

    /// Takes a data directory out of service whose check has not ended.
    pub fn give_up_hanging(&self, index: usize, since: Duration) {
        let reason = format!("its disk has not answered for {} s", since.as_secs());
        self.fence(index, &io::Error::new(io::ErrorKind::TimedOut, reason));
    }

    /// Takes a volume back; returns how many replicas it brings.
    pub(in crate::store) fn restore(&self, index: usize) -> Result<usize, Error> {
        let volume = &self.volumes[index];
        let busy = |reason: &str| Error::Directory {
            path: volume.path().to_owned(),
            reason: reason.to_owned(),
        };
        if !self.have_orphans_ended(index) {
            return Err(busy("a writer still holds files of it"));
        }
        let Some(_quiet) = volume.small().quiet() else {
            return Err(busy("small replicas of it are still being moved"));
        };
        volume.reopen()?;
        let mut found = scan::Found::default();
        if let Err(error) = scan::scan(volume, index, &self.volumes, &mut found) {
            volume.fence_again();
            return Err(error);
        }
        self.returning.fetch_add(1, Ordering::AcqRel);
        volume.unfence();
        let count = self.take_back(index, found.replicas);
        self.returning.fetch_sub(1, Ordering::AcqRel);
        Ok(count)
    }

    /// Stops the writers that have lost their replicas with a volume; true once all have let go. Until then they may change files that would count again.
    fn have_orphans_ended(&self, index: usize) -> bool {
        let mut orphans = self.orphans.lock();
        orphans.retain(|(volume, writer)| *volume != index || !writer.stop(Duration::ZERO));
        !orphans.iter().any(|(volume, _)| *volume == index)
    }
}

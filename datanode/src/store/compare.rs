//! Compares the table with the disks, and trusts the disks: somebody may have deleted files or brought some back.
//!
//! Nothing else finds a lost file that nobody reads before the scanner reaches it, weeks later; full reports come from the table.
//!
//! Invariants: a difference counts only if a second check confirms it while nobody moves the files of the block; a file that is not in the table is added to it
//! or goes to the trash, and is never simply removed.

use std::collections::HashSet;
use std::io;
use std::ops::Bound;

use protocol::{BlockId, GenerationStamp};
use sys::disk;

use super::Store;
use super::entry::Entry;
use super::scan::{self, parse_name};
use super::volume::{FINALIZED, Volume};
use crate::core::replica::{Replica, State};
use crate::error::StoreError;

/// Replicas of the table that are read under one lock.
const CHUNK: usize = 1000;

/// The result of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Differences {
    /// Replicas whose files are gone.
    pub lost: usize,
    /// Replicas that were found and added.
    pub found: usize,
    /// Files of replicas that others have replaced.
    pub stale: usize,
}

impl Store {
    /// Compares all volumes that work, until `is_over`.
    pub fn compare_with_disks(&self, is_over: &dyn Fn() -> bool) -> Differences {
        let mut differences = Differences::default();
        for (index, volume) in self.volumes.iter().enumerate() {
            if volume.is_fenced() || is_over() {
                continue;
            }
            match on_disk(volume, is_over) {
                Ok(Some(files)) => self.compare_one(index, files, is_over, &mut differences),
                Ok(None) => return differences,
                Err(error) => {
                    let volume = volume.path().display();
                    tracing::warn!(%volume, %error, "cannot list the replicas of a data directory");
                }
            }
        }
        differences
    }

    fn compare_one(
        &self,
        index: usize,
        mut files: HashSet<(BlockId, GenerationStamp)>,
        is_over: &dyn Fn() -> bool,
        differences: &mut Differences,
    ) {
        differences.lost += self.give_up_lost_segments(index);
        let mut after = Bound::Unbounded;
        loop {
            let chunk = self.at_rest(index, after);
            let Some(last) = chunk.last() else { break };
            after = Bound::Excluded(last.block);
            for replica in chunk {
                let known = files.remove(&(replica.block, replica.stamp));
                // Opening it notices what is lost.
                let lost = |error| matches!(error, StoreError::Vanished(_));
                if (!known || !replica.is_finalized())
                    && self.open_replica(replica.block, replica.stamp).is_err_and(lost)
                {
                    differences.lost += 1;
                }
                if is_over() {
                    return;
                }
            }
        }
        let mut unknown: Vec<_> = files.into_iter().collect();
        unknown.sort_unstable();
        for (block, stamp) in unknown {
            // A volume that has failed meanwhile has lost its replicas in the table, not on its disk.
            if is_over() || self.volumes[index].is_fenced() {
                return;
            }
            self.take_or_discard(index, block, stamp, differences);
        }
    }

    /// The next replicas of a volume that have no writer.
    fn at_rest(&self, index: usize, after: Bound<BlockId>) -> Vec<Replica> {
        let replicas = self.replicas.lock();
        let here = replicas.range((after, Bound::Unbounded));
        let at_rest = here.filter(|(_, entry)| entry.volume == index && entry.writer.is_none());
        at_rest.take(CHUNK).map(|(_, entry)| entry.replica).collect()
    }

    /// Handles a finalized file that was not in the table when the table was read.
    pub(super) fn take_or_discard(
        &self,
        index: usize,
        block: BlockId,
        stamp: GenerationStamp,
        differences: &mut Differences,
    ) {
        let _moving = self.moves.moving(block);
        let volume = &self.volumes[index];
        let paths = volume.finalized_paths(block, stamp);
        if !disk::try_exists(&paths.block).unwrap_or(false) {
            return;
        }
        let known = self.replicas.lock().get(&block).cloned();
        match known.as_ref().map(|entry| (entry.replica, entry.volume)) {
            Some((replica, volume)) if (replica.stamp, volume) == (stamp, index) => {}
            None => self.take(index, &paths, (block, stamp), known, differences),
            Some((older, _)) if older.stamp < stamp && older.is_finalized() => {
                self.take(index, &paths, (block, stamp), known, differences);
            }
            // The one in use is not complete, and may never be.
            Some((older, _)) if older.stamp < stamp => {
                tracing::warn!(%block, %stamp, "a file of a newer replica than the one in use");
            }
            Some((known, _)) => {
                let found = Replica { block, stamp, length: 0, state: State::Finalized };
                // Else the one in use is not complete, and may never be.
                if known.replaces(&found) {
                    volume.discard(&found);
                    differences.stale += 1;
                }
            }
        }
    }

    /// Adds a finalized file to the table, in the place of an older replica if there is one.
    fn take(
        &self,
        index: usize,
        paths: &super::volume::ReplicaPaths,
        (block, stamp): (BlockId, GenerationStamp),
        older: Option<Entry>,
        differences: &mut Differences,
    ) {
        let folder = paths.block.parent().unwrap_or(&paths.block);
        match scan::finalized(folder, block, stamp) {
            Ok(Some(replica)) => {
                let replicas = self.replicas.lock();
                let version = |entry: &Entry| (entry.replica, entry.volume);
                let now = replicas.get(&block).map(version);
                if now != older.as_ref().map(version)
                    || !self.adopt(replicas, Entry::new(replica, index), older)
                {
                    return;
                }
                tracing::warn!(%block, %stamp, "a replica was found that was not known");
                differences.found += 1;
            }
            Ok(None) => tracing::warn!(%block, %stamp, "a file without its checksums was found"),
            Err(error) => {
                let error = protocol::error::chain(&error);
                tracing::warn!(%block, error, "cannot read a file that was found");
            }
        }
    }
}

/// The finalized replicas whose files are on a volume; `None` if `is_over`.
fn on_disk(
    volume: &Volume,
    is_over: &dyn Fn() -> bool,
) -> io::Result<Option<HashSet<(BlockId, GenerationStamp)>>> {
    let mut found = HashSet::new();
    for folder in disk::read_dir(&volume.path().join(FINALIZED))? {
        let folder = folder?;
        if !disk::is_dir(&folder)? {
            continue;
        }
        for path in disk::read_dir(&folder)? {
            let path = path?;
            if let Some((block, stamp, false)) = parse_name(&path)
                && volume.finalized_paths(block, stamp).block == path
            {
                found.insert((block, stamp));
            }
        }
        if is_over() {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

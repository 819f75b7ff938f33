//! The replicas on this DataNode's disks. Nothing outside this folder knows that a replica is a block file and a meta file, or a part of a file of many.
//!
//! Invariants:
//! - a replica is offered as finalized only after block file, meta file and their directory entries were synced, unless its writer wanted no member of the
//!   pipeline to sync (`durability = "memory"`);
//! - a replica has one writer at a time; a request that takes it over stops the writer first and waits for its end;
//! - a failed sync is never retried: the volume is fenced and its replicas are given up.

mod begin;
mod changes;
mod compare;
mod cursor;
mod disk;
mod entry;
mod folder;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod handle;
mod moves;
mod open;
mod scan;
mod scans;
#[cfg(any(test, feature = "sim"))]
mod sim;
mod small;
mod syncs;
mod tails;
mod upkeep;
mod verify;
mod volume;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use protocol::namenode::Volume as VolumeReport;
use protocol::{BlockId, ClusterId, DatanodeId, GenerationStamp};
use sys::disk::File;

use crate::core::deletions::Deletions;
use crate::core::losses::Losses;
use crate::core::recovery::Found;
use crate::core::replica::{self, Replica, State};
use crate::core::report::PendingChanges;
use crate::core::volumes::{self, Usage};
use crate::error::{Error, StoreError};

pub use changes::ChangeQueue;
pub use compare::Differences;
pub use cursor::Cursor;
pub use scans::Scans;
pub use syncs::SyncThreads;
pub use verify::{check_header as check_meta_header, read_open_chunk, verify_range};
pub use volume::VolumeConfig;
pub use writer::ReplicaWriter;

use entry::{Entry, Left, Place, held};
use handle::WriterHandle;
use moves::Moves;
use syncs::Together;
use volume::Volume;

/// Greatest age of a count of used bytes on pages and in metrics: counting walks all replicas, and anybody can ask for it.
const USAGE_AGE_MAX: Duration = Duration::from_secs(1);

/// All replicas of a DataNode.
#[derive(Debug)]
pub struct Store {
    volumes: Vec<Volume>,
    next_volume: AtomicUsize,
    replicas: Mutex<BTreeMap<BlockId, Entry>>,
    /// Locked after `replicas`.
    losses: Mutex<Losses>,
    /// Replicas that came into the table since it was read from the disks.
    arrivals: AtomicU64,
    deletions: Mutex<Deletions>,
    /// Volumes that are in service again and of which not all replicas are in the table yet.
    returning: AtomicUsize,
    /// Locked before `replicas`.
    moves: Moves,
    /// Writers that have lost their replicas with a volume, and may still write to the files. Locked before `replicas`, and while a volume is fenced.
    orphans: Mutex<Vec<(usize, Arc<WriterHandle>)>>,
    changes: ChangeQueue,
    syncs: SyncThreads,
    /// What finishes small replicas that nobody waits for: they are written, and one sync serves all of them.
    behind: Together,
    /// When segments of small replicas were last looked through.
    compacted: Mutex<Option<Instant>>,
    sync_interval_bytes: u64,
    /// Volumes that may fail.
    tolerated: usize,
    /// Replicas that the scanner must verify before all others.
    suspects: Mutex<BTreeSet<BlockId>>,
    /// Replicas whose disk failed when they were last read.
    failed_reads: Mutex<BTreeSet<BlockId>>,
    scans: Scans,
    /// The last count of [`Store::usage_lately`], and its time.
    usage_counted: Mutex<Option<(Instant, Usage)>>,
}

/// Open files of a replica.
#[derive(Debug)]
pub struct OpenReplica {
    /// Its state.
    pub replica: Replica,
    /// The data.
    pub block: File,
    /// The checksums ([`protocol::meta`]).
    pub meta: File,
    /// True if the checksum of its last chunk may cover more bytes than readers may see.
    pub is_tail_open: bool,
}

impl Store {
    /// Opens the data directories and reads their replicas.
    ///
    /// # Errors
    /// [`Error`] if a directory is in use, belongs to another cluster, or cannot be used.
    pub fn open(
        configs: &[VolumeConfig],
        sync_interval_bytes: u64,
        tolerated: Option<usize>,
    ) -> Result<Self, Error> {
        let tolerated = tolerated.unwrap_or(configs.len().saturating_sub(1));
        let volumes = volume::open_all(configs, tolerated)?;
        let mut found = scan::Found::default();
        for (index, volume) in volumes.iter().enumerate().filter(|(_, volume)| !volume.is_fenced())
        {
            match scan::scan(volume, index, &volumes, &mut found) {
                Err(Error::Io { path, source }) => {
                    tracing::error!(path = %path.display(), error = %source, "cannot read a data directory");
                    volume.fence(&source);
                    found.replicas.retain(|_, entry| entry.volume != index);
                }
                scanned => scanned?,
            }
        }
        if volumes.iter().filter(|volume| volume.is_fenced()).count() > tolerated {
            return Err(Error::NoVolumes);
        }
        let replicas = found.replicas;
        tracing::info!(replicas = replicas.len(), volumes = volumes.len(), "store opened");
        Ok(Store {
            volumes,
            next_volume: AtomicUsize::new(0),
            replicas: Mutex::new(replicas),
            losses: Mutex::default(),
            arrivals: AtomicU64::default(),
            deletions: Mutex::default(),
            returning: AtomicUsize::new(0),
            moves: Moves::default(),
            orphans: Mutex::default(),
            changes: ChangeQueue::default(),
            syncs: SyncThreads::new(configs),
            behind: Together::default(),
            compacted: Mutex::default(),
            sync_interval_bytes,
            tolerated,
            suspects: Mutex::default(),
            failed_reads: Mutex::default(),
            scans: Scans::default(),
            usage_counted: Mutex::default(),
        })
    }

    /// This DataNode.
    pub fn datanode(&self) -> DatanodeId {
        self.volumes[0].identity().datanode
    }

    /// The cluster its data belongs to, once that is known.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.volumes[0].identity().cluster
    }

    /// Stores the cluster at first contact. A disk that fails meanwhile goes out of service.
    ///
    /// # Errors
    /// [`Error::Io`] if too few disks are left.
    pub fn adopt_cluster(&self, cluster: ClusterId) -> Result<(), Error> {
        for (index, volume) in self.volumes.iter().enumerate() {
            match volume.adopt_cluster(cluster) {
                Err(Error::Io { path, source }) => {
                    self.fence_unless_short(index, &source);
                    if self.is_lost() {
                        return Err(Error::Io { path, source });
                    }
                }
                adopted => adopted?,
            }
        }
        Ok(())
    }

    /// Changes not yet reported to the NameNode.
    pub fn changes(&self) -> &ChangeQueue {
        &self.changes
    }

    /// All replicas.
    pub fn replicas(&self) -> Vec<Replica> {
        let replicas = self.replicas.lock();
        let all = replicas.values().map(|entry| entry.replica);
        all.filter(|replica| replica.state != State::Copying).collect()
    }

    /// The first finalized replica within the bound.
    pub fn next_finalized(&self, after: Bound<BlockId>) -> Option<BlockId> {
        let replicas = self.replicas.lock();
        let mut range = replicas.range((after, Bound::Unbounded));
        range.find(|(_, entry)| entry.replica.is_finalized()).map(|(block, _)| *block)
    }

    /// All volumes, as heartbeats tell them.
    pub fn volume_reports(&self) -> Vec<VolumeReport> {
        let mut used_bytes = vec![0u64; self.volumes.len()];
        for entry in self.replicas.lock().values() {
            used_bytes[entry.volume] += entry.replica.length;
        }
        self.volumes.iter().zip(used_bytes).map(|(volume, used)| volume.report(used)).collect()
    }

    /// Space on all volumes that work.
    pub fn usage(&self) -> Usage {
        Usage::of(&self.volume_reports())
    }

    /// As [`Store::usage`], counted at most once a second: for callers without a limit on how often they ask.
    pub fn usage_lately(&self) -> Usage {
        let now = sys::disk::now(self.volumes[0].path());
        let mut counted = self.usage_counted.lock();
        match *counted {
            Some((at, usage)) if now.duration_since(at) < USAGE_AGE_MAX => usage,
            _ => counted.insert((now, self.usage())).1,
        }
    }

    /// Counts of the scanner's work.
    pub fn scans(&self) -> &Scans {
        &self.scans
    }

    /// Data directories that are out of service.
    pub fn failed_volumes(&self) -> Vec<String> {
        let failed = self.volumes.iter().filter(|volume| volume.is_fenced());
        failed.map(|volume| volume.path().display().to_string()).collect()
    }

    /// True once more volumes have failed than are tolerated, or all.
    pub fn is_lost(&self) -> bool {
        let failed = self.volumes.iter().filter(|volume| volume.is_fenced()).count();
        failed > self.tolerated || failed == self.volumes.len()
    }

    /// Adds a replica to the table, the only way to do so once the store is open. False if its volume is out of service: whoever took it out has emptied, or
    /// will empty, the table, and nobody would do so again.
    fn insert(
        &self,
        replicas: &mut BTreeMap<BlockId, Entry>,
        block: BlockId,
        entry: Entry,
    ) -> bool {
        let works = !self.volumes[entry.volume].is_fenced();
        if works {
            let number = self.arrivals.fetch_add(1, Ordering::Relaxed) + 1;
            replicas.insert(block, Entry { number, ..entry });
        }
        works
    }

    /// Adds the replicas found on a volume that is in service again; returns how many.
    fn take_back(&self, index: usize, found: BTreeMap<BlockId, Entry>) -> usize {
        let mut count = 0;
        for (block, entry) in found {
            let replica = entry.replica;
            let mut older = None;
            let replicas = self.replicas.lock();
            let known = replicas.get(&block);
            match known.map(|known| (known.volume, known.replica)) {
                // A comparison with the disks added it first.
                Some((volume, known)) if (volume, known.stamp) == (index, replica.stamp) => {
                    continue;
                }
                // Written again on another volume meanwhile.
                Some((_, known)) if known.replaces(&replica) => {
                    drop(replicas);
                    entry.discard(&self.volumes);
                    continue;
                }
                // Its volume came back first.
                Some((_, known)) if known.is_finalized() && replica.replaces(&known) => {
                    older = replicas.get(&block).cloned();
                }
                // That is not complete, and may never be. A comparison decides later.
                Some(_) => continue,
                None => {}
            }
            if !self.adopt(replicas, entry, older) {
                // It failed again.
                break;
            }
            count += 1;
        }
        count
    }

    /// Adds a replica that was found on a disk, in the place of an older one, and reports it. False if its volume is out of service.
    fn adopt(
        &self,
        mut replicas: MutexGuard<'_, BTreeMap<BlockId, Entry>>,
        entry: Entry,
        older: Option<Entry>,
    ) -> bool {
        let replica = entry.replica;
        if !self.insert(&mut replicas, replica.block, entry) {
            return false;
        }
        drop(replicas);
        if let Some(older) = older {
            older.discard(&self.volumes);
        }
        // Nobody knows where it has been, and a disk that failed once is not trusted blindly.
        self.suspect(replica.block);
        self.changes.push(|pending| match replica.is_finalized() {
            true => pending.received(&replica),
            false => pending.unfinished(&replica),
        });
        true
    }

    /// Opens a replica with this stamp for reading.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_replica(
        &self,
        block: BlockId,
        stamp: GenerationStamp,
    ) -> Result<OpenReplica, StoreError> {
        self.open_if(block, |replica| replica.stamp == stamp)
    }

    /// Opens a replica with this stamp or a later one: a writer that continued has only added to it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_at_least(
        &self,
        block: BlockId,
        stamp: GenerationStamp,
    ) -> Result<OpenReplica, StoreError> {
        let mut opened = self.open_if(block, |replica| replica.stamp >= stamp)?;
        let found = opened.replica;
        if !found.is_finalized()
            && let Some(entry) = self.replicas.lock().get(&block)
        {
            opened.replica.length = found.length.min(entry.visible_length());
        }
        // Nothing is added to one that is being finalized: its checksums are its last ones.
        let is_written = found.state == State::Receiving;
        opened.is_tail_open = is_written || opened.replica.length < found.length;
        Ok(opened)
    }

    fn open_if(
        &self,
        block: BlockId,
        fits: impl Fn(&Replica) -> bool,
    ) -> Result<OpenReplica, StoreError> {
        let still = self.moves.still(block);
        let (replica, place) =
            self.find(block, |replica| replica.state != State::Copying && fits(replica))?;
        match place.open_for_reading() {
            Ok((block, meta)) => Ok(OpenReplica { replica, block, meta, is_tail_open: false }),
            Err(error) => {
                drop(still);
                Err(self.cannot_open(&replica, error))
            }
        }
    }

    /// Handles a replica whose files do not open: reports a missing file as deleted, anything else as damage.
    fn cannot_open(&self, replica: &Replica, error: std::io::Error) -> StoreError {
        let block = replica.block;
        let error = StoreError::io(block, error);
        let StoreError::Io { source, .. } = &error else { return error };
        if source.kind() == std::io::ErrorKind::NotFound && self.has_vanished(replica) {
            return StoreError::Vanished(block);
        }
        self.note_unread(replica, &error);
        error
    }

    /// Gives up a replica whose block file is gone, unless its whole disk is. False if the file exists, or has moved meanwhile.
    fn has_vanished(&self, replica: &Replica) -> bool {
        let block = replica.block;
        let _moving = self.moves.moving(block);
        let entry = self
            .replicas
            .lock()
            .get(&block)
            .map(|entry| (entry.replica, entry.volume, entry.writer.is_some()));
        let Some((known, index, false)) = entry else { return false };
        let volume = &self.volumes[index];
        let gone = matches!(sys::disk::try_exists(&volume.paths(&known).block), Ok(false));
        if known != *replica || !gone {
            return false;
        }
        if let Err(cause) = volume.check() {
            self.fence_unless_short(index, &cause);
            return true;
        }
        tracing::error!(%block, stamp = %replica.stamp, "the file of a replica is gone from the disk");
        volume.discard(replica);
        self.give_up(replica);
        true
    }

    /// Opens the replica of a block whatever its stamp.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_any(&self, block: BlockId) -> Result<OpenReplica, StoreError> {
        let (replica, _) = self.find(block, |_| true)?;
        self.open_replica(block, replica.stamp)
    }

    /// Begins a recovery: stops the writer and returns the replica's state.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn begin_recovery(
        &self,
        block: BlockId,
        stamp: GenerationStamp,
    ) -> Result<Found, StoreError> {
        self.stop_writer(block)?;
        let mut replicas = self.replicas.lock();
        let Some(entry) = replicas.get_mut(&block) else {
            let is_any_away = self.volumes.iter().any(Volume::is_fenced)
                || self.returning.load(Ordering::Acquire) > 0;
            return Ok(match is_any_away {
                true => Found::Unknown,
                false => Found::Nothing { since: self.losses.lock().since() },
            });
        };
        if entry.writer.is_some() {
            return Err(StoreError::WriterStuck(block));
        }
        entry.replica = replica::begin_recovery(&entry.replica, stamp)
            .map_err(|refusal| StoreError::Refused { block, refusal })?;
        Ok(Found::Replica(entry.replica.summary()))
    }

    /// Opens a replica to copy its first bytes, after its writer was stopped.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_stopped(
        &self,
        block: BlockId,
        stamps: RangeInclusive<GenerationStamp>,
    ) -> Result<OpenReplica, StoreError> {
        self.stop_writer(block)?;
        let (replica, _) = self.find(block, |replica| stamps.contains(&replica.stamp))?;
        self.open_replica(block, replica.stamp)
    }

    /// Number of replicas, unfinished ones included.
    pub fn replica_count(&self) -> usize {
        self.replicas.lock().len()
    }

    /// Reports to the NameNode that a copy or a recovery that it ordered was not made.
    pub fn note_failed_copy(&self, block: BlockId) {
        self.changes.push(|pending| pending.copy_failed(block));
    }

    /// Where the scanner was when this DataNode ended.
    pub fn load_cursor(&self) -> Option<Cursor> {
        let found = self.volumes.iter().filter_map(|volume| cursor::load(volume.path()));
        found.max_by_key(|cursor| (cursor.round_ms, cursor.block))
    }

    /// Saves the scanner's place on the first data directory that works.
    pub fn save_cursor(&self, cursor: Cursor) {
        let Some(volume) = self.volumes.iter().find(|volume| !volume.is_fenced()) else { return };
        if let Err(error) = cursor::save(volume.path(), cursor) {
            tracing::warn!(%error, "cannot keep where the scanner is");
        }
    }

    /// Removes deleted files whose grace period is over and gives back the space of deleted small replicas, until `is_over`: there may be many, and a disk can
    /// take long for each.
    pub fn empty_trash(&self, is_over: &dyn Fn() -> bool) {
        self.volumes.iter().for_each(|volume| volume.empty_trash(is_over));
        self.compact_small(is_over);
    }

    fn find(
        &self,
        block: BlockId,
        fits: impl FnOnce(&Replica) -> bool,
    ) -> Result<(Replica, Place), StoreError> {
        let replicas = self.replicas.lock();
        let entry = replicas
            .get(&block)
            .filter(|entry| fits(&entry.replica))
            .ok_or(StoreError::NotFound(block))?;
        Ok((entry.replica, entry.place(&self.volumes)))
    }

    fn choose_volume(&self, remaining: &[Option<u64>]) -> Result<usize, StoreError> {
        let turn = self.next_volume.fetch_add(1, Ordering::Relaxed);
        volumes::choose(remaining, turn).ok_or(StoreError::Full)
    }

    /// Wakes the writer of a block and waits until it has let go.
    fn stop_writer(&self, block: BlockId) -> Result<(), StoreError> {
        let writer = self.replicas.lock().get(&block).and_then(|entry| entry.writer.clone());
        match writer {
            Some(writer) if !writer.stop(self.syncs.writer_stop_max()) => {
                Err(StoreError::WriterStuck(block))
            }
            _ => Ok(()),
        }
    }

    /// Changes a replica for its writer; false if the writer has lost it, because its volume was given up.
    fn change(
        &self,
        block: BlockId,
        handle: &Arc<WriterHandle>,
        change: impl FnOnce(&mut Replica),
    ) -> bool {
        let mut replicas = self.replicas.lock();
        let entry = held(&mut replicas, block, handle);
        entry.map(|entry| change(&mut entry.replica)).is_some()
    }

    /// Ends a writer's hold of a replica, of which `left` or nothing remains, in files of its own or elsewhere, and reports that; false if the writer had lost
    /// it before.
    fn release(
        &self,
        block: BlockId,
        handle: &Arc<WriterHandle>,
        left: Option<Left>,
        change: impl FnOnce(&mut PendingChanges),
    ) -> bool {
        let mut replicas = self.replicas.lock();
        let Some(entry) = held(&mut replicas, block, handle) else { return false };
        let is_complete = left.as_ref().is_some_and(|left| left.replica.is_finalized());
        let is_questioned = entry.is_questioned && is_complete;
        match left {
            Some(left) => {
                entry.replica = left.replica;
                entry.small = left.small;
                entry.writer = None;
                entry.visible = handle.acked();
                entry.is_doubtful = left.is_doubtful;
                entry.is_damaged = false;
                entry.is_questioned &= !is_complete;
            }
            None => drop(replicas.remove(&block)),
        }
        // Before somebody else changes it: the last report counts.
        self.changes.push(change);
        drop(replicas);
        if is_questioned {
            self.suspect(block);
        }
        true
    }

    /// A writer has given a small replica files of its own.
    fn has_files(&self, block: BlockId, handle: &Arc<WriterHandle>) {
        if let Some(entry) = held(&mut self.replicas.lock(), block, handle) {
            entry.small = None;
        }
    }

    /// Ends the hold of a writer that was to supersede a replica: that one stays as it is.
    fn put_down(&self, block: BlockId, handle: &Arc<WriterHandle>) {
        if let Some(entry) = held(&mut self.replicas.lock(), block, handle) {
            entry.writer = None;
        }
    }

    /// How often replicas were given up since the store was opened.
    pub fn loss_count(&self) -> u64 {
        self.losses.lock().count()
    }

    /// As [`Losses::vouch_from`].
    pub fn vouch_from(&self, stamp: GenerationStamp, loss_count: u64) {
        self.losses.lock().vouch_from(stamp, loss_count);
    }

    fn note_loss(&self) {
        self.losses.lock().note();
    }

    /// Gives up a replica whose file is gone.
    fn give_up(&self, replica: &Replica) {
        let mut replicas = self.replicas.lock();
        replicas.remove(&replica.block);
        self.note_loss();
        drop(replicas);
        self.forget_failed_read(replica.block);
        self.changes.push(|pending| pending.deleted(replica.block));
    }

    /// Takes a volume out of service after a failed check, unless the process or the machine lacked the resources for checking.
    fn fence_unless_short(&self, index: usize, cause: &std::io::Error) {
        if sys::fs::is_shortage(cause) {
            let volume = self.volumes[index].path().display();
            tracing::warn!(%volume, error = %cause, "cannot look at a data directory now");
        } else {
            self.fence(index, cause);
        }
    }

    /// Takes a volume out of service that failed a check, a sync, or the reading of what a failed write left; its replicas are given up.
    fn fence(&self, index: usize, cause: &std::io::Error) {
        // A check of the volumes could otherwise put it back before its writers are known.
        let mut orphans = self.orphans.lock();
        if !self.volumes[index].fence(cause) {
            return;
        }
        let mut lost = Vec::new();
        let mut replicas = self.replicas.lock();
        replicas.retain(|block, entry| {
            if entry.volume == index {
                lost.push(*block);
                orphans.extend(entry.writer.take().map(|writer| (index, writer)));
            }
            entry.volume != index
        });
        self.note_loss();
        lost.iter().for_each(|block| self.forget_failed_read(*block));
        self.changes.push(|pending| lost.iter().for_each(|block| pending.deleted(*block)));
    }
}

#[cfg(test)]
mod tests;

//! Writing one replica: packets go to its files, syncs run in the background while it grows, and a finalize has its order.
//!
//! A [`DiskThread`] writes large packets while the receiver continues. Everything else waits until it has finished them ([`ReplicaWriter::settle`]). So the
//! files always hold a prefix of the received data, and nobody but the thread writes during that time.
//!
//! A new replica gets files only once it is known not to be a small one: `writer/small.rs`.

mod ending;
mod small;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
#[cfg(test)]
use protocol::GenerationStamp;
use protocol::checksum::CHUNK_BYTES;
use protocol::meta::{self, Layout, Tail};
use sys::wake::Wake;
use transport::PooledPacket;

use super::Store;
use super::disk::{Cache, DiskThread, Files, LARGE_BYTES_MIN, Outcome, PACKETS_MAX, Target};
use super::entry::Entry;
use super::folder::Unsynced;
use super::handle::WriterHandle;
use super::moves::Moving;
use super::open::{self, NotBegun, Opened};
use super::small::Extent;
use super::tails::Tails;
use super::verify;
use super::volume::{ReplicaPaths, sync_folders};
use crate::core::replica::{Begin, Replica, State};
use crate::core::report::PendingChanges;
use crate::error::StoreError;

/// Bytes that a writer adds between two checks of the free space; it can overrun the reserve for others by at most this much.
const ROOM_STEP_BYTES: u64 = 4 << 20;

/// The one writer of a replica. Dropped before [`ReplicaWriter::finalize`], it leaves an unfinished replica.
#[derive(Debug)]
pub struct ReplicaWriter {
    store: Arc<Store>,
    replica: Replica,
    volume: usize,
    handle: Arc<WriterHandle>,
    /// Absent while it may remain small.
    files: Option<Files>,
    /// All of it, while it has no files.
    held: Option<PooledPacket>,
    /// Where it was written, and is to be synced.
    small: Option<Extent>,
    paths: ReplicaPaths,
    cache: Cache,
    /// Present from the first large packet on.
    disk: Option<DiskThread>,
    /// The end of the data handed over.
    end: u64,
    /// Bytes that were complete before: packets may repeat them, and change nothing.
    kept: u64,
    /// The end of the range known to have room.
    room_end: u64,
    meta_begun: bool,
    tails: Tails,
    /// Existing bytes were written before and may have been promised: they are guarded before anything is added.
    guard: Option<Guard>,
    unsynced_bytes: u64,
    background: Arc<Background>,
    sync_ahead: bool,
    /// Bytes that are on disk or may have been promised: synced, or there when this writer began. They stay whatever happens.
    promised: u64,
    /// Why less than `replica.length` may remain.
    loss: Option<Loss>,
    /// A write failed: data and checksums may not match up to the length.
    unproved: bool,
    /// True once the names of its files are on disk.
    entry_synced: bool,
    /// The damaged or stale replica that this one replaces once it is complete; the table has it until then.
    supersedes: Option<Entry>,
}

/// The former state of a replica that a writer continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// All of it was promised.
    Finalized,
    /// Its synced part was promised.
    Unfinished,
}

/// Why bytes that were written may not be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// A sync failed on a disk that works, for lack of room: what the system has in memory may not be on disk.
    Unsynced,
    /// Its files have vanished.
    Vanished,
}

#[derive(Debug, Default)]
struct Background {
    running: AtomicBool,
    /// How a sync failed. Held while one runs: the system reports a failure only once, and the next sync would report success.
    failure: Mutex<Option<io::ErrorKind>>,
    /// The writer has ended: a sync that has not begun does not begin, because nobody would learn of its failure.
    ended: AtomicBool,
}

impl From<Opened> for Files {
    fn from(Opened { block, meta, .. }: Opened) -> Self {
        Files { block: Arc::new(block), meta: Arc::new(meta) }
    }
}

/// The files of a writer that has opened them.
fn open_files(files: &Option<Files>) -> &Files {
    files.as_ref().expect("whoever writes or syncs has opened them")
}

impl ReplicaWriter {
    /// Opens or creates the files. `moving` is given up once they are where the table has them.
    pub(super) fn begin(
        store: &Arc<Store>,
        replica: Replica,
        volume: usize,
        (handle, begin, old): (Arc<WriterHandle>, Begin, Option<Entry>),
        moving: &mut Option<Moving<'_>>,
    ) -> Result<Self, NotBegun> {
        let paths = store.volumes[volume].paths(&replica);
        let opened = open::files(store, &replica, (volume, &paths), (begin, old.as_ref()), moving);
        let opened = opened?;
        drop(moving.take());
        let kept = match (begin, &old) {
            (Begin::Resume { .. }, Some(old)) => old.kept(),
            _ => 0,
        };
        let supersedes = old.clone().filter(|_| begin == Begin::Supersede);
        if begin != Begin::Supersede
            && let Some(small) = old.as_ref().and_then(|old| old.small.as_ref())
        {
            store.has_files(replica.block, &handle);
            small.discard();
        }
        let old = old.map(|old| old.replica);
        let mut writer = ReplicaWriter {
            store: Arc::clone(store),
            replica,
            volume,
            handle,
            meta_begun: opened.as_ref().is_some_and(|opened| opened.meta_begun),
            files: opened.map(Files::from),
            held: None,
            small: None,
            paths,
            cache: Cache::Keep,
            disk: None,
            end: replica.length,
            kept,
            room_end: replica.length,
            tails: Tails::default(),
            guard: old.filter(|_| matches!(begin, Begin::Resume { .. })).map(|old| {
                if old.is_in_finalized() { Guard::Finalized } else { Guard::Unfinished }
            }),
            unsynced_bytes: 0,
            background: Arc::default(),
            sync_ahead: false,
            promised: if matches!(begin, Begin::Resume { .. }) { replica.length } else { 0 },
            loss: None,
            unproved: false,
            entry_synced: false,
            supersedes,
        };
        if let (Begin::Resume { offset }, Some(old)) = (begin, old)
            && !old.is_in_finalized()
        {
            // Its end leaves what there is.
            writer.cut(offset).map_err(|error| NotBegun { error, left: None })?;
        }
        Ok(writer)
    }

    /// The stamp under which it writes.
    #[cfg(test)]
    pub(super) fn stamp(&self) -> GenerationStamp {
        self.replica.stamp
    }

    /// Records that all members behind this one have the first `end` bytes too.
    pub fn note_acked(&self, end: u64) {
        self.handle.note_acked(end);
    }

    /// True once somebody has asked this writer to let go: in production that closes its connection.
    #[cfg(any(test, feature = "sim"))]
    pub fn is_stopped(&self) -> bool {
        self.handle.is_stopped()
    }

    /// Bytes so far, including packets in flight.
    pub fn length(&self) -> u64 {
        self.end
    }

    /// Starts syncs in the background while the replica grows, so that the last one is short.
    pub fn sync_ahead(&mut self) {
        self.sync_ahead = true;
    }

    /// Data written from now on has no expected reader.
    pub fn bypass_cache(&mut self) {
        if self.store.volumes[self.volume].bypasses_cache() {
            self.cache = Cache::Bypass;
        }
    }

    /// Writes a packet whose data was verified; writing it may still be in progress on return: [`ReplicaWriter::in_flight`].
    ///
    /// # Errors
    /// [`StoreError`], also for earlier packets; the replica keeps what it had.
    pub fn write(&mut self, packet: PooledPacket) -> Result<(), StoreError> {
        let block = self.replica.block;
        let header = packet.header;
        if header.offset > self.end {
            return Err(StoreError::Gap { block, offset: header.offset, length: self.end });
        }
        if header.offset < self.kept {
            self.compare(&packet)?;
            // There is nothing new in it, and its last checksum may be of a part of a chunk.
            if header.end() <= self.kept {
                return Ok(());
            }
        }
        self.find_room(header.end())?;
        if self.can_hold(&header) {
            self.end = header.end();
            self.held = Some(packet);
            return Ok(());
        }
        self.open_files()?;
        self.guard_what_is_there()?;
        self.begin_meta()?;
        self.end = self.end.max(header.end());
        if header.data_bytes >= LARGE_BYTES_MIN {
            self.disk_thread().map_err(|error| StoreError::io(block, error))?.write(packet);
            return Ok(());
        }
        self.settle()?;
        let outcome = self.files().write(&packet);
        self.note(outcome)
    }

    /// Refuses a packet that says something else of complete bytes than the file: these were promised, also to snapshots.
    fn compare(&self, packet: &PooledPacket) -> Result<(), StoreError> {
        let (block, offset) = (self.replica.block, packet.header.offset);
        let repeated = (self.kept - offset).min(packet.data().len() as u64) as usize;
        let mut found = vec![0; repeated];
        let read = self.files().block.read_exact_at(&mut found, offset);
        read.map_err(|error| StoreError::io(block, error))?;
        match packet.data().starts_with(&found) {
            true => Ok(()),
            false => Err(StoreError::Differs { block, offset }),
        }
    }

    /// Refuses to grow into the space reserved for others on this disk, perhaps a master.
    fn find_room(&mut self, end: u64) -> Result<(), StoreError> {
        if end > self.room_end {
            if self.store.volumes[self.volume].remaining() == Some(0) {
                return Err(StoreError::Full);
            }
            self.room_end = end.saturating_add(ROOM_STEP_BYTES);
        }
        Ok(())
    }

    /// How many of the last packets are not written yet; records the outcome of the others.
    ///
    /// # Errors
    /// [`StoreError`] of a packet that could not be written.
    pub fn in_flight(&mut self) -> Result<usize, StoreError> {
        while let Some(outcome) = self.disk.as_mut().and_then(|disk| disk.outcome(false)) {
            self.note(outcome)?;
        }
        Ok(self.disk.as_ref().map_or(0, DiskThread::in_flight))
    }

    /// True if the receiver should take no more packets for now.
    pub fn is_busy(&self) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.in_flight() >= PACKETS_MAX)
    }

    /// Readable when one of the packets in flight was written.
    pub fn wake(&self) -> Option<&Wake> {
        self.disk.as_ref().and_then(DiskThread::wake)
    }

    /// Waits until all packets are written. Once a write has failed this never succeeds, even after the failure was reported.
    fn settle(&mut self) -> Result<(), StoreError> {
        while let Some(outcome) = self.disk.as_mut().and_then(|disk| disk.outcome(true)) {
            self.note(outcome)?;
        }
        match self.unproved {
            true => Err(StoreError::Broken(self.replica.block)),
            false => Ok(()),
        }
    }

    fn disk_thread(&mut self) -> io::Result<&mut DiskThread> {
        let disk = match self.disk.take() {
            Some(disk) => disk,
            None => DiskThread::start(Target {
                files: self.files().clone(),
                path: self.paths.block.clone(),
                cache: self.cache,
            })?,
        };
        Ok(self.disk.insert(disk))
    }

    /// Records the outcome of the oldest packet in flight.
    fn note(&mut self, outcome: Outcome) -> Result<(), StoreError> {
        let written = outcome.map_err(|error| self.write_failed(error))?;
        if written.end > self.replica.length {
            self.replica.length = written.end;
            if self.supersedes.is_none() {
                self.change(|replica| replica.length = written.end)?;
            }
        }
        if let Some(tail) = written.tail {
            let put = self.tails.put(&open_files(&self.files).meta, tail);
            put.map_err(|error| self.write_failed(error))?;
        }
        self.unsynced_bytes += u64::from(written.cached_bytes);
        if self.sync_ahead && self.unsynced_bytes >= self.store.sync_interval_bytes {
            self.sync_in_background();
        }
        Ok(())
    }

    fn begin_meta(&mut self) -> Result<(), StoreError> {
        if !self.meta_begun {
            let written = self.files().meta.write_all_at(&meta::header(), 0);
            written.map_err(|error| self.write_failed(error))?;
            self.meta_begun = true;
        }
        Ok(())
    }

    /// Truncates the replica to `length`; a truncated chunk gets a new checksum after the old one was verified.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(super) fn cut(&mut self, length: u64) -> Result<(), StoreError> {
        let id = self.replica.block;
        let io_error = |error| StoreError::io(id, error);
        let chunk_start = length - length % CHUNK_BYTES as u64;
        if length < self.replica.length && chunk_start < length {
            let chunk_end = self.replica.length.min(chunk_start + CHUNK_BYTES as u64);
            verify::verify_range(
                id,
                &self.files().block,
                &self.files().meta,
                chunk_start,
                chunk_end,
                |_| (),
            )?;
            let mut chunk = vec![0; (length - chunk_start) as usize];
            self.files().block.read_exact_at(&mut chunk, chunk_start).map_err(io_error)?;
            let crc = crc32fast::hash(&chunk);
            self.guard_cut(length, crc)?;
            let crc = crc.to_be_bytes();
            let at = Layout::CURRENT.crc_position(chunk_start);
            let written = self.files().meta.write_all_at(&crc, at);
            written.map_err(|error| self.write_failed(error))?;
        }
        let Files { block, meta } = self.files();
        let cut = block.set_len(length);
        let cut = cut.and_then(|()| meta.set_len(Layout::CURRENT.file_bytes(length)));
        cut.map_err(|error| self.write_failed(error))?;
        self.replica.length = length;
        self.end = length;
        self.promised = self.promised.min(length);
        self.change(|replica| replica.length = length)
    }

    /// Cutting within a chunk replaces its checksum. The bytes that stay may have been promised: they get a tail of their own first.
    fn guard_cut(&mut self, length: u64, crc: u32) -> Result<(), StoreError> {
        let is_promised = self.guard == Some(Guard::Finalized) || self.has_tails()?;
        if is_promised {
            self.sync()?;
        }
        self.put_tail(length, crc)?;
        if is_promised { self.sync() } else { Ok(()) }
    }

    /// False if no sync can have ended within a chunk.
    fn has_tails(&self) -> Result<bool, StoreError> {
        let tails = verify::tails(&self.files().meta, Layout::CURRENT);
        let tails = tails.map_err(|error| StoreError::io(self.replica.block, error))?;
        Ok(tails != [None; meta::TAILS])
    }

    fn put_tail(&mut self, length: u64, crc: u32) -> Result<(), StoreError> {
        let Some(tail) = Tail::of(length, crc) else { return Ok(()) };
        let put = self.tails.put(&open_files(&self.files).meta, tail);
        put.map_err(|error| self.write_failed(error))
    }

    /// Changes the replica as others see it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it was given up with its volume, whose files are no replicas any more.
    fn change(&self, change: impl FnOnce(&mut Replica)) -> Result<(), StoreError> {
        match self.store.change(self.replica.block, &self.handle, change) {
            true => Ok(()),
            false => Err(StoreError::NotFound(self.replica.block)),
        }
    }

    /// Syncs everything so far.
    ///
    /// # Errors
    /// [`StoreError::Io`]; the volume is then out of service.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.open_files()?;
        self.settle()?;
        let files = open_files(&self.files);
        // Held meanwhile: the system could report a failure to a sync in the background, and success to this one.
        let failure = self.background.failure.lock();
        let result = match *failure {
            Some(kind) => Err(io::Error::new(kind, "an earlier sync of this replica failed")),
            None => files.block.sync_data().and_then(|()| files.meta.sync_data()),
        };
        drop(failure);
        self.unsynced_bytes = 0;
        result.map_err(|error| self.sync_failed(error))?;
        self.tails.synced();
        self.promised = self.replica.length;
        Ok(())
    }

    /// The first packet added to a replica replaces the checksum of its last chunk. Promised bytes must stay provable whatever part of that reaches the disk,
    /// so all of them are synced and get a tail of their own first.
    pub(super) fn guard_what_is_there(&mut self) -> Result<(), StoreError> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        let (id, length) = (self.replica.block, self.replica.length);
        let is_whole = length.is_multiple_of(CHUNK_BYTES as u64);
        if guard == Guard::Unfinished && is_whole && !self.has_tails()? {
            return Ok(());
        }
        self.sync()?;
        let chunk_begin = length - length % CHUNK_BYTES as u64;
        let mut chunk = vec![0; (length - chunk_begin) as usize];
        if chunk.is_empty() {
            return Ok(());
        }
        let Files { block, meta } = self.files();
        verify::verify_range(id, block, meta, chunk_begin, length, |_| ())?;
        let io_error = |error| StoreError::io(id, error);
        block.read_exact_at(&mut chunk, chunk_begin).map_err(io_error)?;
        self.put_tail(length, crc32fast::hash(&chunk))?;
        self.sync()
    }

    /// Syncs everything so far and, the first time, the directory entries of the files.
    ///
    /// # Errors
    /// As [`ReplicaWriter::sync`].
    pub fn sync_entry(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        if !self.entry_synced {
            sync_folders(&[&self.paths]).map_err(|unsynced| self.unsynced(unsynced))?;
            self.entry_synced = true;
        }
        self.check_names()?;
        self.change(|_| ())
    }

    /// Checks that its open files are those of its names, before anything of them is acknowledged: somebody may have removed or replaced them, and then no
    /// start would find what was written. Four calls of the system's.
    fn check_names(&mut self) -> Result<(), StoreError> {
        let Files { block, meta } = self.files();
        match self.paths.are_of(block, meta) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.unsynced(Unsynced::Vanished)),
            // Nobody knows what a start would find.
            Err(error) => Err(self.sync_failed(error)),
        }
    }

    /// Completes the replica: sync both files, move them, sync the folder, report it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn finalize(self) -> Result<(), StoreError> {
        self.finalize_with(true)
    }

    /// As [`ReplicaWriter::finalize`] without a sync: the replica survives the end of this process, but not a crash of the machine.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn finalize_unsynced(self) -> Result<(), StoreError> {
        self.finalize_with(false)
    }

    fn finalize_with(mut self, sync: bool) -> Result<(), StoreError> {
        let id = self.replica.block;
        if self.files.is_none() {
            self.write_small()?;
            return self.finish_small(sync);
        }
        self.begin_meta()?;
        if sync {
            self.sync()?
        } else {
            self.settle()?
        }
        let store = Arc::clone(&self.store);
        let volume = &store.volumes[self.volume];
        let to = volume.finalized_paths(id, self.replica.stamp);
        let folder = volume.finalized_folder(id).map_err(|unsynced| self.unsynced(unsynced))?;
        let moving = store.moves.moving(id);
        self.change(|_| ())?;
        let moved = self.paths.rename(&to);
        moved.map_err(|error| self.not_moved(error))?;
        self.change(|replica| {
            if replica.is_incoming() {
                replica.state = State::Finalizing;
            }
        })?;
        drop(moving);
        self.paths = to;
        if sync && let Err(unsynced) = volume.sync_finalized(id, &folder) {
            return Err(self.unsynced(unsynced));
        }
        self.check_names()?;
        self.replica.state = State::Finalized;
        let replica = self.replica;
        let change = |pending: &mut PendingChanges| pending.received(&replica);
        if !self.store.release(id, &self.handle, Some(replica.into()), change) {
            return Err(StoreError::NotFound(id));
        }
        self.discard_superseded();
        Ok(())
    }

    /// Completes several replicas: the small ones share a sync.
    pub fn finalize_all(
        writers: impl IntoIterator<Item = ReplicaWriter>,
    ) -> Vec<Result<(), StoreError>> {
        let append = |mut writer: ReplicaWriter| match writer.files {
            Some(_) => Ok(writer),
            None => writer.write_small().map(|()| writer),
        };
        let appended: Vec<Result<ReplicaWriter, StoreError>> =
            writers.into_iter().map(append).collect();
        let finish = |mut writer: ReplicaWriter| match writer.files {
            Some(_) => writer.finalize(),
            None => writer.finish_small(true),
        };
        appended.into_iter().map(|writer| writer.and_then(finish)).collect()
    }

    /// Keeps a prefix that is there as a whole: from now on it is what a writer left, and one goes on with it. Not synced, as nothing that a writer only sends.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn leave(mut self) -> Result<(), StoreError> {
        self.open_files()?;
        self.begin_meta()?;
        self.settle()?;
        let Replica { block: id, length, .. } = self.replica;
        if length == 0 {
            return Ok(());
        }
        let left = Replica { state: State::Unfinished, ..self.replica };
        let volume = &self.store.volumes[self.volume];
        let to = volume.paths(&left);
        let moving = self.store.moves.moving(id);
        self.change(|_| ())?;
        self.paths.rename(&to).map_err(|error| StoreError::io(id, error))?;
        self.replica = left;
        self.handle.note_acked(length);
        let change = |pending: &mut PendingChanges| pending.unfinished(&left);
        if !self.store.release(id, &self.handle, Some(left.into()), change) {
            return Err(StoreError::NotFound(id));
        }
        drop(moving);
        self.discard_superseded();
        Ok(())
    }

    /// Completes the replica on another thread: the writer already has its acknowledgement and does not wait for this disk.
    pub fn finalize_behind(self) {
        if self.files.is_none() {
            return self.finalize_small_behind();
        }
        let store = Arc::clone(&self.store);
        store.syncs.run(Box::new(move || {
            let block = self.replica.block;
            if let Err(error) = self.finalize() {
                tracing::warn!(%block, error = %protocol::error::chain(&error), "cannot finalize a replica");
            }
        }));
    }

    fn sync_in_background(&mut self) {
        if self.background.running.swap(true, Ordering::AcqRel) {
            return;
        }
        self.unsynced_bytes = 0;
        let (file, background) = (Arc::clone(&self.files().block), Arc::clone(&self.background));
        self.store.syncs.run(Box::new(move || {
            // Where its writer syncs at this moment, that sync reports what this one would.
            let Some(mut failure) = background.failure.try_lock() else {
                return background.running.store(false, Ordering::Release);
            };
            if !background.ended.load(Ordering::Acquire)
                && let Err(error) = file.sync_data()
            {
                tracing::error!(%error, "sync failed while a replica was written");
                *failure = Some(error.kind());
            }
            drop(failure);
            background.running.store(false, Ordering::Release);
        }));
    }

    /// A full disk is not a broken disk, but this replica's pages may be gone: what was promised of it remains. Any other failure fences the volume.
    fn sync_failed(&mut self, error: io::Error) -> StoreError {
        let error = StoreError::io(self.replica.block, error);
        match &error {
            StoreError::Io { source, .. } => self.store.fence(self.volume, source),
            _ => self.loss = self.loss.or(Some(Loss::Unsynced)),
        }
        error
    }

    fn unsynced(&mut self, unsynced: Unsynced) -> StoreError {
        match unsynced {
            Unsynced::Untried(error) => StoreError::io(self.replica.block, error),
            Unsynced::Failed(error) => self.sync_failed(error),
            // Nothing of it remains.
            Unsynced::Vanished => {
                self.loss = Some(Loss::Vanished);
                StoreError::Vanished(self.replica.block)
            }
        }
    }

    /// Its files could not be moved: they are gone, or the folder is, which the next one then opens or creates.
    fn not_moved(&mut self, error: io::Error) -> StoreError {
        if error.kind() != io::ErrorKind::NotFound {
            return StoreError::io(self.replica.block, error);
        }
        self.store.volumes[self.volume].forget_folder(self.replica.block);
        match self.check_names() {
            Ok(()) => StoreError::io(self.replica.block, error),
            Err(vanished) => vanished,
        }
    }

    fn write_failed(&mut self, error: io::Error) -> StoreError {
        self.unproved = true;
        StoreError::io(self.replica.block, error)
    }

    /// Deletes the replica that this one has replaced, unless its files were replaced, too.
    fn discard_superseded(&mut self) {
        let stamp = self.replica.stamp;
        let old = self.supersedes.take();
        if let Some(old) = old.filter(|old| old.small.is_some() || old.replica.stamp != stamp) {
            old.discard(&self.store.volumes);
        }
    }
}

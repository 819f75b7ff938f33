//! How a write begins: the previous writer is stopped, and existing data is kept, continued or replaced.

use std::sync::Arc;

use protocol::transfer::Resume;
use protocol::{BlockId, GenerationStamp};
use transport::Stream;

use super::Store;
use super::entry::{Entry, Place, held};
use super::handle::WriterHandle;
use super::open::NotBegun;
use super::verify::{good_length, verify_range};
use super::volume::Volume;
use super::writer::ReplicaWriter;
use crate::core::replica::{self, Begin, Intent, Refusal, Replica, State};
use crate::error::StoreError;

/// True if its disk has room for a successor of this size beside the replica.
fn fits_beside(old: &Entry, remaining: &[Option<u64>]) -> bool {
    let room = remaining.get(old.volume).copied().flatten();
    room.is_some_and(|room| room > old.replica.length)
}

/// How many bytes of a replica match their checksums.
fn proved_length(block: BlockId, place: &Place) -> Result<u64, StoreError> {
    let opened = place.open_for_reading();
    let good = opened.and_then(|(file, meta)| good_length(block, &file, &meta));
    Ok(good.map_err(|error| StoreError::io(block, error))?.length)
}

impl Store {
    /// Begins a write; `stream` is closed when another request takes the replica over.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn write(
        self: &Arc<Self>,
        block: BlockId,
        stamp: GenerationStamp,
        intent: Intent,
        stream: Option<Arc<Stream>>,
    ) -> Result<ReplicaWriter, StoreError> {
        let damaged = intent == Intent::Copy && self.is_damaged(block, stamp);
        loop {
            if let Intent::Resume(resume) = intent {
                self.stop_writer(block)?;
                self.check_left(block, resume)?;
            }
            let handle = Arc::new(WriterHandle::new(stream.clone()));
            // A disk can take its time to report its free space: others use the table meanwhile.
            let remaining: Vec<Option<u64>> = self.volumes.iter().map(Volume::remaining).collect();
            let mut moving = Some(self.moves.moving(block));
            let mut replicas = self.replicas.lock();
            let existing = replicas.get(&block);
            if existing.is_some_and(|entry| entry.writer.is_some()) {
                if matches!(intent, Intent::Resume(_)) {
                    continue;
                }
                return Err(StoreError::Refused { block, refusal: Refusal::Exists });
            }
            let replica = existing.map(|entry| &entry.replica);
            let begin = replica::begin_write(replica, stamp, intent, damaged)
                .and_then(|begin| match (begin, existing) {
                    (Begin::Resume { .. }, Some(old)) if old.is_damaged => Err(Refusal::Damaged),
                    (Begin::Supersede, Some(old)) if !damaged && !fits_beside(old, &remaining) => {
                        Ok(Begin::Replace)
                    }
                    (begin, Some(old)) => {
                        replica::check_kept((&old.replica, old.kept()), intent, begin)
                    }
                    (begin, None) => Ok(begin),
                })
                .map_err(|refusal| StoreError::Refused { block, refusal })?;
            let old = existing.cloned();
            let volume = match (&begin, &old) {
                (Begin::Resume { .. } | Begin::Supersede, Some(old)) => old.volume,
                _ => self.choose_volume(&remaining)?,
            };
            let length = match (begin, replica) {
                (Begin::Resume { .. }, Some(old)) => old.length,
                _ => 0,
            };
            // Readers still see what they could see before.
            handle.note_acked(match (begin, replica) {
                (Begin::Resume { offset }, Some(old)) if !old.is_in_finalized() => offset,
                _ => length,
            });
            let state = match intent.is_whole_or_nothing() {
                true => State::Copying,
                false => State::Receiving,
            };
            let replica = Replica { block, stamp, length, state };
            // A damaged or stale replica stays until its successor is complete: most of it may be good, and others may hold less.
            let superseded = old.clone().filter(|_| begin == Begin::Supersede);
            let entry = superseded.unwrap_or_else(|| match (begin, &old) {
                (Begin::Resume { .. }, Some(old)) => Entry::resumed(replica, old),
                _ => Entry::new(replica, volume),
            });
            let entry = Entry { writer: Some(Arc::clone(&handle)), ..entry };
            if !self.insert(&mut replicas, block, entry) {
                // It failed after it was chosen.
                continue;
            }
            if begin == Begin::Replace && old.as_ref().is_some_and(|old| old.replica.length > 0) {
                self.note_loss();
            }
            drop(replicas);
            let parts = (Arc::clone(&handle), begin, old.clone());
            let writer = ReplicaWriter::begin(self, replica, volume, parts, &mut moving);
            return writer.map_err(|failed| self.put_back(block, &handle, old, failed));
        }
    }

    /// Checks that a replica which a writer left, or which is taken away from one, is what a writer may go on with: whoever goes on may be the only one. After a
    /// break it may be finalized already, under the stamp that its writer had or a later one. The first attempt of an append does not read what nobody has
    /// written to since.
    fn check_left(&self, block: BlockId, resume: Resume) -> Result<(), StoreError> {
        let Ok((replica, place)) = self.find(block, |_| true) else { return Ok(()) };
        let is_left =
            resume.after_break || !replica.is_in_finalized() || replica.stamp > resume.prior;
        if !is_left || replica.length < resume.offset || resume.offset == 0 {
            return Ok(());
        }
        let good = proved_length(block, &place)?;
        match good < resume.offset {
            true => Err(StoreError::Corrupt { block, offset: good }),
            false => Ok(()),
        }
    }

    /// True if there is a finalized replica that does not match its checksums. One that does match is reported to the NameNode again, which orders a copy only
    /// where it believes the replica to be bad.
    fn is_damaged(&self, block: BlockId, stamp: GenerationStamp) -> bool {
        let Ok((replica, place)) = self.find(block, |replica| replica.stamp == stamp) else {
            return false;
        };
        if !replica.is_finalized() {
            return false;
        }
        let compared = place
            .open_for_reading()
            .map(|(file, meta)| verify_range(block, &file, &meta, 0, replica.length, |_| ()));
        match compared {
            Ok(Ok(())) => {
                self.report_good(&replica);
                false
            }
            Ok(Err(StoreError::Corrupt { .. } | StoreError::Meta { .. })) => true,
            Ok(Err(_)) => false,
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }

    /// Ends a recovery: truncates the replica to `length`, gives it the new stamp and finalizes it on disk.
    ///
    /// # Errors
    /// [`StoreError`]; also if its bytes do not match their checksums, as others that do would be given up for it.
    pub fn update(
        self: &Arc<Self>,
        block: BlockId,
        stamp: GenerationStamp,
        length: u64,
    ) -> Result<(), StoreError> {
        self.check_bytes(block, stamp, length)?;
        let handle = Arc::new(WriterHandle::new(None));
        let mut moving = Some(self.moves.moving(block));
        let old = {
            let mut replicas = self.replicas.lock();
            let entry = replicas.get_mut(&block).ok_or(StoreError::NotFound(block))?;
            replica::check_update(&entry.replica, stamp, length)
                .map_err(|refusal| StoreError::Refused { block, refusal })?;
            if entry.replica.is_finalized() {
                return Ok(());
            }
            if entry.writer.is_some() {
                return Err(StoreError::WriterStuck(block));
            }
            let old = entry.clone();
            entry.writer = Some(Arc::clone(&handle));
            old
        };
        let replica = Replica { stamp, state: State::Receiving, ..old.replica };
        let begin = Begin::Resume { offset: length };
        let parts = (Arc::clone(&handle), begin, Some(old.clone()));
        let writer = ReplicaWriter::begin(self, replica, old.volume, parts, &mut moving);
        let mut writer =
            writer.map_err(|failed| self.put_back(block, &handle, Some(old), failed))?;
        writer.cut(length)?;
        writer.finalize()
    }

    /// Compares the bytes that a recovery is to end with with their checksums.
    fn check_bytes(
        &self,
        block: BlockId,
        stamp: GenerationStamp,
        length: u64,
    ) -> Result<(), StoreError> {
        let (replica, place) = self.find(block, |_| true)?;
        if replica.is_finalized() || replica::check_update(&replica, stamp, length).is_err() {
            return Ok(());
        }
        let good = proved_length(block, &place)?;
        if good >= length {
            return Ok(());
        }
        // The next recovery begins with what can be proved. One that was complete keeps its length: that is promised.
        if let Some(entry) = self.replicas.lock().get_mut(&block)
            && entry.replica == replica
            && entry.writer.is_none()
            && !replica.was_finalized()
        {
            entry.replica.length = good;
        }
        Err(StoreError::Corrupt { block, offset: good })
    }

    /// Goes on with the replica that a write left which could not begin, and returns why it could not.
    pub(super) fn put_back(
        &self,
        block: BlockId,
        handle: &Arc<WriterHandle>,
        old: Option<Entry>,
        NotBegun { error, left }: NotBegun,
    ) -> StoreError {
        let mut replicas = self.replicas.lock();
        match (held(&mut replicas, block, handle), old, left) {
            (None, ..) => {}
            (Some(entry), Some(old), Some(replica)) => {
                if replica != old.replica {
                    self.changes.push(|pending| pending.unfinished(&replica));
                }
                *entry = old.left_as(replica);
            }
            (Some(_), old, _) => {
                replicas.remove(&block);
                if old.is_some() {
                    self.note_loss();
                    self.changes.push(|pending| pending.deleted(block));
                }
            }
        }
        drop(replicas);
        // Whoever waits for this finds the replica without a writer.
        handle.finish();
        error
    }
}

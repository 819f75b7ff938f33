//! How a writer ends that has not completed its replica, and what remains of it.
//!
//! Invariants: what may have been promised stays, whatever failed. What remains in the table is in the place where the table has it, its bytes match their
//! checksums, and what may not be on disk is marked, so that whoever goes on with it writes it again.

use std::io;
use std::sync::atomic::Ordering;

use super::{Files, Loss, ReplicaWriter};
use crate::core::replica::{Replica, State};
use crate::core::report::PendingChanges;
use crate::error::StoreError;
use crate::store::entry::Left;
use crate::store::scan;

impl ReplicaWriter {
    /// What remains of a replica whose writer ends; `None` if nothing does.
    fn left(&self) -> Result<Option<Replica>, StoreError> {
        if self.replica.state == State::Copying || self.replica.length == 0 {
            return Ok(None);
        }
        let left = Replica { state: State::Unfinished, ..self.replica };
        let io_error = |error| StoreError::io(left.block, error);
        let length = match (self.loss, self.unproved) {
            (Some(Loss::Vanished), _) => 0,
            (Some(Loss::Unsynced), _) => self.left_on_full_disk().map_err(io_error)?,
            // What cannot be proved does not count: a start would find the same.
            (None, true) => {
                let Files { block, meta } = self.files();
                scan::proved_length(left.block, block, meta).map_err(io_error)?
            }
            (None, false) => left.length,
        };
        match length {
            0 if self.promised > 0 && self.loss != Some(Loss::Vanished) => {
                Err(StoreError::Corrupt { block: left.block, offset: 0 })
            }
            0 => Ok(None),
            _ => Ok(Some(Replica { length, ..left })),
        }
    }

    /// A sync has failed for lack of room. What was promised or acknowledged stays, as far as it is still there; for the rest there may be no room.
    fn left_on_full_disk(&self) -> io::Result<u64> {
        let length = self.handle.acked().min(self.replica.length).max(self.promised);
        if length == 0 {
            return Ok(0);
        }
        let Files { block, meta } = self.files();
        block.set_len(length.min(block.length()?))?;
        scan::proved_length(self.replica.block, block, meta)
    }

    /// Leaves a replica in the table. Files that were to be complete already are moved back to its place.
    fn leave_unfinished(&self, left: Replica) -> io::Result<()> {
        let place = self.store.volumes[self.volume].paths(&left);
        let is_elsewhere = self.paths != place;
        let _moving = is_elsewhere.then(|| self.store.moves.moving(left.block));
        if is_elsewhere {
            self.paths.rename(&place)?;
        }
        let change = |pending: &mut PendingChanges| pending.unfinished(&left);
        let left = Left { is_doubtful: self.loss.is_some(), ..Left::from(left) };
        self.store.release(self.replica.block, &self.handle, Some(left), change);
        Ok(())
    }

    /// Ends the hold of a replica that is in the table as this writer's.
    fn end_incomplete(&self) {
        let (id, store) = (self.replica.block, &self.store);
        let ended = self.left().and_then(|left| match left {
            Some(left) => self.leave_unfinished(left).map_err(|error| StoreError::io(id, error)),
            None => {
                self.remove_files();
                // Bytes of a copy are promised to nobody.
                if self.end > 0 && self.replica.state != State::Copying {
                    store.note_loss();
                }
                store.release(id, &self.handle, None, |pending| pending.deleted(id));
                Ok(())
            }
        });
        let Err(error) = ended else { return };
        // Its files stay: a start may be able to read them.
        if let StoreError::Io { source, .. } = &error {
            store.fence(self.volume, source);
        }
        let error = protocol::error::chain(&error);
        tracing::warn!(block = %id, error, "cannot keep what a failed write left");
        store.note_loss();
        store.release(id, &self.handle, None, |pending| pending.deleted(id));
    }

    /// Removes the files of a replica that nobody needs.
    fn remove_files(&self) {
        if let Err(error) = self.paths.remove_if_there() {
            tracing::warn!(block = %self.replica.block, %error, "cannot remove an unfinished replica");
        }
    }
}

impl Drop for ReplicaWriter {
    fn drop(&mut self) {
        while let Some(outcome) = self.disk.as_mut().and_then(|disk| disk.outcome(true)) {
            if let Err(error) = self.note(outcome) {
                let error = protocol::error::chain(&error);
                tracing::debug!(error, "packets of a write that ended were lost");
            }
        }
        self.disk = None;
        self.background.ended.store(true, Ordering::Release);
        // Waits for a sync that runs.
        let failure = *self.background.failure.lock();
        if let Some(kind) = failure {
            let error = self.sync_failed(io::Error::new(kind, "a sync of this replica failed"));
            tracing::debug!(error = %protocol::error::chain(&error), "a write ended after a failed sync");
        }
        self.end_small();
        if self.replica.is_incoming() && self.change(|_| ()).is_ok() {
            if self.supersedes.is_some() {
                self.remove_files();
                self.store.put_down(self.replica.block, &self.handle);
            } else {
                self.end_incomplete();
            }
        }
        self.handle.finish();
    }
}

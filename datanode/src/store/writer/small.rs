//! A replica that remains small has no files of its own: its one packet is held until it is complete, and then appended to a segment (`store/small/`).
//!
//! ```text
//! the last packet is the first -> held -> appended -> synced with others -> finalized
//!                                   | more packets, a sync, the end of its writer
//!                                   v
//!                                 files, as for any other
//! ```
//!
//! Nothing of a held packet is promised: whoever promises it syncs or finalizes it first.

use std::sync::Arc;

use protocol::checksum;
use protocol::meta::Layout;
use protocol::transfer::PacketHeader;

use super::{Files, ReplicaWriter, open_files};
use crate::core::replica::State;
use crate::core::report::PendingChanges;
use crate::error::StoreError;
use crate::store::entry::{Left, held};
use crate::store::folder::Unsynced;
use crate::store::open;
use crate::store::small::{Extent, crc_bytes};

/// Segments that are tried for a replica. Each further one needs somebody who removes its file between its creation and its first sync.
const SEGMENTS_MAX: usize = 3;

impl ReplicaWriter {
    /// True if this packet is the whole of a small replica.
    pub(super) fn can_hold(&self, header: &PacketHeader) -> bool {
        let max = self.store.volumes[self.volume].small_bytes_max();
        let is_whole = header.last && header.offset == 0 && self.end == 0;
        self.files.is_none() && self.held.is_none() && is_whole && header.data_bytes <= max
    }

    pub(super) fn files(&self) -> &Files {
        open_files(&self.files)
    }

    /// Gives a replica that may have remained small its files.
    pub(super) fn open_files(&mut self) -> Result<(), StoreError> {
        if self.files.is_some() {
            return Ok(());
        }
        let id = self.replica.block;
        // What an earlier writer with this stamp has left does not count: nothing is in the table.
        let created = self.paths.remove_if_there().and_then(|()| self.paths.create());
        let opened = created.map(open::fresh).map_err(|error| StoreError::io(id, error))?;
        self.files = Some(Files::from(opened));
        let Some(packet) = self.held.take() else { return Ok(()) };
        self.begin_meta()?;
        let outcome = self.files().write(&packet);
        self.note(outcome)
    }

    /// Appends the replica to a segment; the table then has it there.
    pub(super) fn write_small(&mut self) -> Result<(), StoreError> {
        let id = self.replica.block;
        let volume = &self.store.volumes[self.volume];
        let packet = self.held.take();
        let (crcs, data) = packet.as_ref().map_or((&[][..], &[][..]), |p| (p.crcs(), p.data()));
        if crcs.len() != crc_bytes(data.len() as u64) {
            return Err(StoreError::Broken(id));
        }
        let appended = volume.small().append((id, self.replica.stamp), crcs, data);
        let length = data.len() as u64;
        let small = appended.map_err(|unsynced| self.unsynced(unsynced))?;
        self.replica.length = length;
        self.place_small(small)
    }

    /// Tells the table where it was written.
    fn place_small(&mut self, small: Extent) -> Result<(), StoreError> {
        let (id, length) = (self.replica.block, self.replica.length);
        self.small = Some(small.clone());
        let _moving = self.store.moves.moving(id);
        let mut replicas = self.store.replicas.lock();
        let entry = held(&mut replicas, id, &self.handle).ok_or(StoreError::NotFound(id))?;
        entry.small = Some(small);
        entry.replica.length = length;
        entry.replica.state = State::Finalizing;
        Ok(())
    }

    /// Syncs it together with others, and reports it.
    pub(super) fn finish_small(&mut self, sync: bool) -> Result<(), StoreError> {
        let id = self.replica.block;
        let small = self.sync_small(sync)?;
        self.replica.state = State::Finalized;
        let replica = self.replica;
        let change = |pending: &mut PendingChanges| pending.received(&replica);
        let left = Left { small: Some(small), ..Left::from(replica) };
        if !self.store.release(id, &self.handle, Some(left), change) {
            return Err(StoreError::NotFound(id));
        }
        self.small = None;
        Ok(())
    }

    /// Returns where it is, once that is a file that the next start finds. Where somebody has removed the segment meanwhile, it is written to another one.
    fn sync_small(&mut self, sync: bool) -> Result<Extent, StoreError> {
        let id = self.replica.block;
        for _ in 0..SEGMENTS_MAX {
            let Some(small) = self.small.clone() else { return Err(StoreError::Broken(id)) };
            match if sync { small.sync() } else { small.check_name() } {
                Ok(()) => return Ok(small),
                Err(Unsynced::Vanished) => {
                    self.store.give_up_segment_of(self.volume, &small);
                    self.write_again(&small)?;
                }
                Err(unsynced) => {
                    self.store.volumes[self.volume].small().seal(&small);
                    return Err(self.unsynced(unsynced));
                }
            }
        }
        Err(StoreError::Vanished(id))
    }

    /// Writes it to the current segment once more. Its bytes come from the one that has vanished, which is still open, and are checked: they may have been
    /// read from the disk.
    fn write_again(&mut self, lost: &Extent) -> Result<(), StoreError> {
        let id = self.replica.block;
        let (meta, data) = lost.contents().map_err(|error| StoreError::io(id, error))?;
        let crcs = meta.get(Layout::CURRENT.header_bytes()..).unwrap_or_default();
        if checksum::verify(&data, crcs).is_err() {
            return Err(StoreError::Broken(id));
        }
        let copied = self.store.volumes[self.volume].small().copy(lost, (&meta, &data));
        let small = copied.map_err(|unsynced| self.unsynced(unsynced))?;
        self.place_small(small)
    }

    /// Appends it here; one sync then finishes all that came meanwhile, on another thread.
    pub(super) fn finalize_small_behind(mut self) {
        let block = self.replica.block;
        let cannot = move |error: StoreError| {
            tracing::warn!(%block, error = %protocol::error::chain(&error), "cannot finalize a replica");
        };
        if let Err(error) = self.write_small() {
            return cannot(error);
        }
        let store = Arc::clone(&self.store);
        let finish = move || {
            if let Err(error) = self.finish_small(true) {
                cannot(error);
            }
        };
        if store.behind.add(Box::new(finish)) {
            let threads = Arc::clone(&store);
            threads.syncs.run(Box::new(move || {
                store.behind.take().into_iter().for_each(|finish| finish());
            }));
        }
    }

    /// The writer ends before the replica is complete. What it holds gets files: a recovery may need it. What is in a segment and not synced is given up.
    pub(super) fn end_small(&mut self) {
        if let Some(small) = self.small.take() {
            small.discard();
            let id = self.replica.block;
            self.replica.length = 0;
            if self.replica.state != State::Copying {
                self.store.note_loss();
            }
            self.store.release(id, &self.handle, None, |pending| pending.deleted(id));
        }
        if self.held.is_some()
            && let Err(error) = self.open_files()
        {
            let (block, error) = (self.replica.block, protocol::error::chain(&error));
            tracing::warn!(%block, error, "a replica whose writer has ended was lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::checksum::CHUNK_BYTES;

    #[test]
    fn as_many_checksums_as_chunks() {
        let chunk = CHUNK_BYTES as u64;
        for (length, bytes) in [(0, 0), (1, 4), (chunk, 4), (chunk + 1, 8)] {
            assert_eq!(crc_bytes(length), bytes, "{length}");
        }
    }
}

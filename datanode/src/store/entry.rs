//! The store's table entry of a replica.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use protocol::BlockId;
use sys::disk::File;

use super::handle::WriterHandle;
use super::small::Extent;
use super::volume::{ReplicaPaths, Volume};
use crate::core::replica::{Replica, State};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) replica: Replica,
    pub(super) volume: usize,
    /// Distinguishes it from others of the same block and stamp that came before or after it. 0 if it was there at the start.
    pub(super) number: u64,
    /// Where it is, if it has no files of its own.
    pub(super) small: Option<Extent>,
    pub(super) writer: Option<Arc<WriterHandle>>,
    /// Most bytes that readers may see of an unfinished replica without a writer.
    pub(super) visible: u64,
    /// Another process, or this one before its disk failed or while it was full, left it unfinished. After a failed sync the cached bytes look right, count
    /// as clean and are not on the disk, so no later sync writes them: they must be written again before anything is promised.
    pub(super) is_doubtful: bool,
    /// It was reported as bad: nobody goes on with it.
    pub(super) is_damaged: bool,
    /// A reader found that bytes of it do not match before it was complete: it is verified once it is.
    pub(super) is_questioned: bool,
    /// Bytes that were complete before somebody went on with it, as far as this process has seen. See [`Entry::kept`].
    pub(super) kept: u64,
}

/// What a writer leaves in the table.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) replica: Replica,
    /// Where it is, if it has no files of its own.
    pub(super) small: Option<Extent>,
    /// As of an [`Entry`].
    pub(super) is_doubtful: bool,
}

impl From<Replica> for Left {
    /// A replica with files of its own, whose writer has written everything.
    fn from(replica: Replica) -> Self {
        Left { replica, small: None, is_doubtful: false }
    }
}

impl Entry {
    /// A replica without a writer; readers may see all of it.
    pub(super) fn new(replica: Replica, volume: usize) -> Self {
        let (visible, writer, small, kept) = (u64::MAX, None, None, 0);
        let (is_doubtful, is_damaged, is_questioned) = (false, false, false);
        Entry {
            replica,
            volume,
            number: 0,
            small,
            writer,
            visible,
            is_doubtful,
            is_damaged,
            is_questioned,
            kept,
        }
    }

    /// A replica that a writer goes on with: `old` is what there was.
    pub(super) fn resumed(replica: Replica, old: &Entry) -> Self {
        let is_questioned = old.is_questioned;
        Entry { kept: old.kept(), is_questioned, ..Entry::new(replica, old.volume) }
    }

    /// The same entry, with what a write that could not begin has left of it.
    pub(super) fn left_as(self, replica: Replica) -> Self {
        Entry { kept: self.kept(), replica, ..self }
    }

    /// Bytes from the start that were complete once. Readers and snapshots may have them, so no writer changes them or cuts them off; a recovery may.
    pub(super) fn kept(&self) -> u64 {
        match self.replica.is_in_finalized() {
            true => self.replica.length,
            false => self.kept.min(self.replica.length),
        }
    }

    /// A small replica that was found on a disk.
    pub(super) fn found_small(small: Extent, volume: usize) -> Self {
        let (block, stamp, length) = small.id();
        let replica = Replica { block, stamp, length, state: State::Finalized };
        Entry { small: Some(small), ..Entry::new(replica, volume) }
    }

    /// Where its bytes are.
    pub(super) fn place(&self, volumes: &[Volume]) -> Place {
        match &self.small {
            Some(small) => Place::Small(small.clone()),
            None => Place::Files(volumes[self.volume].paths(&self.replica)),
        }
    }

    /// Deletes it from its disk, for good after a grace period.
    pub(super) fn discard(&self, volumes: &[Volume]) {
        match &self.small {
            Some(small) => small.discard(),
            None => volumes[self.volume].discard(&self.replica),
        }
    }

    /// A replica that was found on a disk.
    pub(super) fn found(replica: Replica, volume: usize) -> Self {
        let is_doubtful = replica.state == State::Unfinished;
        Entry { is_doubtful, ..Entry::new(replica, volume) }
    }

    /// The bytes that readers may see. Bytes that only some members have can be lost after a failure, and other readers do not see them.
    pub(super) fn visible_length(&self) -> u64 {
        let limit = match (&self.writer, self.replica.state) {
            (Some(writer), State::Receiving | State::Finalizing) => writer.acked(),
            (_, State::Unfinished) => self.visible,
            _ => u64::MAX,
        };
        self.replica.length.min(limit)
    }
}

/// Where the bytes of a replica are.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Files(ReplicaPaths),
    Small(Extent),
}

impl Place {
    /// Opens data and checksums for reading.
    pub(super) fn open_for_reading(&self) -> io::Result<(File, File)> {
        match self {
            Place::Files(paths) => paths.open_for_reading(),
            Place::Small(small) => Ok(small.open()),
        }
    }
}

/// The entry of a block that this writer still holds.
pub(super) fn held<'a>(
    replicas: &'a mut BTreeMap<BlockId, Entry>,
    block: BlockId,
    handle: &Arc<WriterHandle>,
) -> Option<&'a mut Entry> {
    let is_holder = |entry: &&mut Entry| {
        entry.writer.as_ref().is_some_and(|writer| Arc::ptr_eq(writer, handle))
    };
    replicas.get_mut(&block).filter(is_holder)
}

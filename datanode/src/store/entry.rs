//! The store's table entry of a replica.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::BlockId;

use super::handle::WriterHandle;
use crate::core::replica::{Replica, State};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) replica: Replica,
    pub(super) volume: usize,
    pub(super) writer: Option<Arc<WriterHandle>>,
    /// Most bytes that readers may see of an unfinished replica without a writer.
    pub(super) visible: u64,
    /// Another process, or this one before its disk failed, left it unfinished. After a failed sync the cached bytes look right, count as clean and are not
    /// on the disk, so no later sync writes them: they must be written again before anything is promised.
    pub(super) is_doubtful: bool,
    /// It was reported as bad: nobody goes on with it.
    pub(super) is_damaged: bool,
}

impl Entry {
    /// A replica without a writer; readers may see all of it.
    pub(super) fn new(replica: Replica, volume: usize) -> Self {
        let (visible, writer) = (u64::MAX, None);
        Entry { replica, volume, writer, visible, is_doubtful: false, is_damaged: false }
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

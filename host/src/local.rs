//! The log of one: the daemon's own journal. A record is committed when it is on the daemon's own disks.

use std::sync::Arc;

use journal::{Change, Journal, JournalError, Options, Recover, Recovered, Txid};

use crate::error::End;
use crate::log::{Follower, Log};

/// Opens a journal, restores `state` from it, and logs what the start found.
///
/// # Errors
/// As [`Journal::open`].
pub fn open(
    options: Options,
    state: &mut dyn Recover,
    follower: Arc<dyn Follower>,
) -> Result<(Journal, Recovered), JournalError> {
    let observer = {
        let follower = Arc::clone(&follower);
        Box::new(move |txid| follower.committed(txid))
    };
    let fatal = Box::new(move |error: &JournalError| {
        let reason = protocol::error::chain(error);
        tracing::error!(reason, "the journal has stopped");
        follower.ended(End::Stopped { reason });
    });
    let (journal, recovered) = Journal::open(options, state, observer, fatal)?;
    recovered.notes.iter().for_each(|note| tracing::warn!(note, "found at start"));
    for out in &recovered.left_out {
        let (directory, reason) = (out.dir.display(), &out.reason);
        tracing::error!(%directory, reason, "a directory of log_dirs does not work and is left out: replace its disk");
    }
    Ok((journal, recovered))
}

impl Log for Journal {
    fn append(&self, edits: Vec<Vec<u8>>) -> Txid {
        Journal::append(self, edits)
    }

    fn checkpoint(&self, at: Txid, rows: Vec<Change>) {
        Journal::checkpoint(self, at, rows);
    }

    fn backlog(&self) -> u64 {
        self.checkpoint_pending()
    }

    fn close(&self) {
        Journal::close(self);
    }
}

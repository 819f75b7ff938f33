//! The log as a host sees it. Only the code that opens it knows whether it is local or replicated.

use journal::{Change, Txid};

use crate::error::End;

/// Where edits become durable. It reports on them to the [`Follower`] that it was opened with.
///
/// REQUIRES: one writer.
pub trait Log: Send + Sync + 'static {
    /// Gives the edits the next txids, in order, as one batch; returns the last one at once. May wait for room in the queue.
    ///
    /// A log that has ended numbers edits all the same and drops them.
    fn append(&self, edits: Vec<Vec<u8>>) -> Txid;

    /// Takes the rows that changed since the last call, as of `at`. They reach the checkpoint in the background, once `at` is committed.
    fn checkpoint(&self, at: Txid, rows: Vec<Change>);

    /// Bytes of rows that have not reached the checkpoint.
    fn backlog(&self) -> u64;

    /// Commits what was appended as far as possible, notifies the follower, and ends. Waits for that.
    fn close(&self);
}

/// Receives the reports of a log, on the log's own thread: calls must be quick.
pub trait Follower: Send + Sync + 'static {
    /// Everything up to `txid` is committed: no crash and no other leader takes it back.
    fn committed(&self, txid: Txid);

    /// Nothing more will be committed here, ever.
    fn ended(&self, end: End);
}

//! Runs a state machine over a log: one host for the NameNode and the JobTracker.
//!
//! ```text
//!            Mailbox ─► host's thread: a turn ─┬─► Log::append ─► committed ─► Gate ─► answers, commands
//!                       judge events under     ├─► Gate: releases, by txid      │
//!                       the write lock         └─► Log::checkpoint              └─► what needs the state: the next turn
//! Handle::view ─► read lock, last txid ─► Gate ─► answer
//! ```
//!
//! | verb | what it does | where |
//! |---|---|---|
//! | judge | takes events; applies what they lead to and puts it into the [`Turn`] as edits; refusals are answers | [`Machine::judge`] |
//! | apply | changes the state by an edit: live as part of `judge`, on replay by [`journal::Recover`], one function for both | the pure core |
//! | view | reads the state at a txid, answers once that txid is committed | [`Handle::view`] |
//! | rows | hands over the rows that changed since the last checkpoint | [`Machine::rows`] |
//!
//! A daemon [opens](Opening) a host, opens its log with [`Opening::follower`], and starts it with what the log restored. A machine has two
//! halves. Its state is behind the host's lock, where views read it. The rest belongs to the host's thread: what is held or queued.
//!
//! Invariants:
//! - one thread changes the state; a turn takes the lock once and appends its edits as one batch;
//! - nothing leaves before the log reports its txid committed; releases leave in the order of their txids, and those of one txid in the
//!   order in which they came (`gate.rs`);
//! - when `committed` stops for ever ([`End`]), all that waits is dropped, and whoever waited learns why;
//! - a turn lasts no longer than [`BATCH_MAX`] events, or one heavy event;
//! - there is one way out, also for a machine that fails or panics: last turn, checkpoint, log closed, gate ended, daemon notified.
//!
//! A log is local or replicated ([`Log`]); nothing above it can tell which. [`local::open`] opens a local one: the daemon's own journal.
//! What an operator orders of a journal (images, segments, mirrors) goes through its own handle, beside the host.
//!
//! Order of locks: the state, then what a machine locks inside `judge`, then the gate. The gate is never locked while something leaves.

mod clock;
mod error;
mod gate;
mod handle;
pub mod local;
mod log;
mod machine;
mod run;
#[cfg(feature = "sim")]
mod stepped;
#[cfg(test)]
mod tests;

pub use self::clock::{Clock, Now};
pub use self::error::{End, Failure};
pub use self::gate::Release;
pub use self::handle::{Handle, Mailbox};
pub use self::log::{Follower, Log};
pub use self::machine::{Batch, Machine, Turn};
pub use self::run::{BATCH_MAX, CHECKPOINT_BACKLOG_BYTES_MAX, Opening, Policy, Running, Start};
#[cfg(feature = "sim")]
pub use self::stepped::{Logged, Stepped, Taken};

/// Messages that wait for a host; beyond that senders wait, and with them their clients.
pub const QUEUE_MAX: usize = 4096;

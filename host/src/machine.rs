//! What a host runs.

use std::error::Error;
use std::vec::Drain;

use journal::{Change, Txid};
use parking_lot::RwLock;

use crate::clock::Now;
use crate::gate::{Release, Waiting};

/// A state machine: its state, and what of it belongs to the host's thread alone.
pub trait Machine: Sized + Send + 'static {
    /// What edits change and views read. The host keeps it behind a lock.
    type State: Send + Sync + 'static;
    /// Input of the machine.
    type Event: Send + 'static;
    /// What waits until the edits before it are committed.
    type Release: Release;
    /// State and log may differ: the process must end.
    type Defect: Error + Send + 'static;

    /// The first turn, before any event: the state is what the log restored.
    ///
    /// # Errors
    /// A defect.
    fn begin(
        &mut self,
        state: &mut Self::State,
        now: Now,
        turn: &mut Turn<Self::Release>,
    ) -> Result<(), Self::Defect>;

    /// Judges a batch of events: changes the state by edits, and puts edits and releases into the turn. A refusal is an answer. True if
    /// there is more to do at once; the batch may be empty then.
    ///
    /// # Errors
    /// A defect: nothing of the turn leaves.
    fn judge(
        &mut self,
        state: &mut Self::State,
        batch: Batch<'_, Self::Event>,
        now: Now,
        turn: &mut Turn<Self::Release>,
    ) -> Result<bool, Self::Defect>;

    /// True for an event after which a batch ends, because it takes long.
    fn is_heavy(_event: &Self::Event) -> bool {
        false
    }

    /// Handles the part of a release that needs the state, once the release was let out. Nothing durable follows from it.
    fn deliver(&mut self, state: &mut Self::State, due: <Self::Release as Release>::Due);

    /// After each turn, without the lock: for files and log messages.
    fn after(&mut self, _state: &RwLock<Self::State>) {}

    /// Rows that [`Machine::rows`] would give. Asked in every turn.
    fn dirty_count(state: &Self::State) -> usize;

    /// Takes the rows that changed since the last call.
    fn rows(state: &mut Self::State, now: Now) -> Vec<Change>;

    /// The last turn is over: refuses what it holds.
    fn stop(&mut self) {}
}

/// What one turn judges.
pub struct Batch<'a, E> {
    /// In the order in which they came.
    pub events: Drain<'a, E>,
    /// After the events, time has passed.
    pub is_tick: bool,
}

/// What one turn leads to.
pub struct Turn<R> {
    pub(crate) last: Txid,
    pub(crate) edits: Vec<Vec<u8>>,
    pub(crate) releases: Vec<Waiting<R>>,
}

impl<R> Turn<R> {
    pub(crate) fn after(last: Txid) -> Self {
        Turn { last, edits: Vec::new(), releases: Vec::new() }
    }

    /// The txid of the edit that is added next.
    pub fn next_txid(&self) -> Txid {
        self.last.next()
    }

    /// Adds an edit that was applied.
    pub fn edit(&mut self, body: Vec<u8>) {
        self.edits.push(body);
        self.last = self.last.next();
    }

    /// Adds edits that were applied, in order.
    pub fn edits(&mut self, mut bodies: Vec<Vec<u8>>) {
        self.last.0 += bodies.len() as u64;
        match self.edits.is_empty() {
            true => self.edits = bodies,
            false => self.edits.append(&mut bodies),
        }
    }

    /// Holds something back until the edits of this turn, and all before them, are committed.
    pub fn release(&mut self, release: R) {
        self.releases.push(Waiting::Release(release));
    }
}

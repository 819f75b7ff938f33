//! A host without thread, clock and log: whoever drives it says when a turn is taken, what time it is, and what the log has committed. For simulations.
//!
//! Invariants are those of the host: nothing leaves before its txid is committed, and everything leaves in the order of txids.

use std::collections::VecDeque;

use journal::{Change, Recover, RecoverError, Txid};
use parking_lot::{RwLock, RwLockReadGuard};

use crate::clock::Now;
use crate::gate::Waiting;
use crate::machine::{Batch, Machine, Turn};

/// A machine whose turns are taken by hand.
pub struct Stepped<M: Machine> {
    machine: M,
    state: RwLock<M::State>,
    last: Txid,
    /// Ascending by txid.
    waiting: VecDeque<(Txid, Vec<Waiting<M::Release>>)>,
}

/// What is on the disk of a log.
#[derive(Clone, Debug, Default)]
pub struct Logged {
    /// Rows of the checkpoint, ascending.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// The last transaction in them.
    pub rows_at: Txid,
    /// Edits after that.
    pub edits: Vec<Vec<u8>>,
}

impl Logged {
    /// Restores a state; all that is logged is committed. Returns the last transaction.
    ///
    /// # Errors
    /// [`RecoverError`] if the log does not load.
    pub fn restore(&self, into: &mut impl Recover) -> Result<Txid, RecoverError> {
        for (key, value) in &self.rows {
            into.load(key, value)?;
        }
        into.loaded(self.rows_at)?;
        for (number, edit) in (self.rows_at.0 + 1..).zip(&self.edits) {
            into.replay(Txid(number), edit)?;
        }
        Ok(Txid(self.rows_at.0 + self.edits.len() as u64))
    }
}

/// What a turn has led to.
#[derive(Debug)]
pub struct Taken {
    /// For the log, in order; the last one has the txid [`Stepped::last`].
    pub edits: Vec<Vec<u8>>,
    /// There is more to do at once.
    pub more: bool,
}

impl<M: Machine> Stepped<M> {
    /// Takes the first turn of a machine whose state is that of `last`, which is committed.
    ///
    /// # Errors
    /// A defect of the machine.
    pub fn begin(
        mut machine: M,
        mut state: M::State,
        last: Txid,
        now: Now,
    ) -> Result<(Self, Taken), M::Defect> {
        let mut turn = Turn::after(last);
        machine.begin(&mut state, now, &mut turn)?;
        let mut host =
            Stepped { machine, state: RwLock::new(state), last, waiting: VecDeque::new() };
        let taken = host.end(turn, false);
        Ok((host, taken))
    }

    /// Takes a turn.
    ///
    /// # Errors
    /// A defect of the machine.
    pub fn turn(
        &mut self,
        events: &mut Vec<M::Event>,
        is_tick: bool,
        now: Now,
    ) -> Result<Taken, M::Defect> {
        let mut turn = Turn::after(self.last);
        let batch = Batch { events: events.drain(..), is_tick };
        let more = self.machine.judge(&mut self.state.write(), batch, now, &mut turn)?;
        self.machine.after(&self.state);
        Ok(self.end(turn, more))
    }

    fn end(&mut self, turn: Turn<M::Release>, more: bool) -> Taken {
        self.last = turn.last;
        self.waiting.push_back((turn.last, turn.releases));
        Taken { edits: turn.edits, more }
    }

    /// The log has committed everything up to `txid`.
    pub fn committed(&mut self, txid: Txid) {
        while self.waiting.front().is_some_and(|(waits_for, _)| *waits_for <= txid) {
            let (_, waiting) = self.waiting.pop_front().unwrap_or_default();
            for due in waiting.into_iter().filter_map(Waiting::let_out) {
                self.machine.deliver(&mut self.state.write(), due);
            }
        }
    }

    /// The last transaction in the state. What a reader sees may leave once it is committed.
    pub fn last(&self) -> Txid {
        self.last
    }

    /// The state.
    pub fn state(&self) -> RwLockReadGuard<'_, M::State> {
        self.state.read()
    }

    /// The rows that changed since the last call.
    pub fn rows(&mut self, now: Now) -> Vec<Change> {
        M::rows(&mut self.state.write(), now)
    }
}

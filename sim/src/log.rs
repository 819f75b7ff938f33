//! The log of a master, on its disk. It commits in order, a little after the append; after a crash it has all that was committed and perhaps some of what was on
//! the way.

use std::collections::BTreeMap;

use host::Logged;
use journal::{Change, Txid};
use needs::random::Random;

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) logged: Logged,
    /// Appended, not committed.
    pending: Vec<Vec<u8>>,
    /// Rows that reach the checkpoint once this transaction is committed.
    rows: Vec<(u64, Vec<Change>)>,
    checkpoint: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Log {
    pub(crate) fn append(&mut self, edits: Vec<Vec<u8>>) {
        self.pending.extend(edits);
    }

    /// Rows that changed, as of a transaction.
    pub(crate) fn hand_over(&mut self, at: u64, rows: Vec<Change>) {
        self.rows.push((at, rows));
    }

    /// The machine dies. Of what it had appended since the last commit, any first part is there, and given back.
    pub(crate) fn crash(&mut self, random: &mut Random) -> &[Vec<u8>] {
        let before = self.logged.edits.len();
        let kept = random.below(self.pending.len() + 1);
        self.logged.edits.extend(self.pending.drain(..).take(kept));
        self.rows.clear();
        &self.logged.edits[before..]
    }

    /// Everything up to a transaction is committed; gives each edit that was not before.
    pub(crate) fn commit(&mut self, txid: u64, mut each: impl FnMut(&[u8])) {
        let durable = self.logged.rows_at.0 + self.logged.edits.len() as u64;
        let count = txid.saturating_sub(durable).min(self.pending.len() as u64);
        for edit in self.pending.drain(..count as usize) {
            each(&edit);
            self.logged.edits.push(edit);
        }
        let is_due = |(at, _): &(u64, _)| *at <= txid;
        while self.rows.first().is_some_and(is_due) {
            let (at, changes) = self.rows.remove(0);
            self.checkpoint(at, changes);
        }
    }

    fn checkpoint(&mut self, at: u64, changes: Vec<Change>) {
        for Change { key, value } in changes {
            match value {
                Some(value) => drop(self.checkpoint.insert(key, value)),
                None => drop(self.checkpoint.remove(&key)),
            }
        }
        let behind = at.saturating_sub(self.logged.rows_at.0);
        self.logged.edits.drain(..behind as usize);
        self.logged.rows_at = Txid(at);
        self.logged.rows =
            self.checkpoint.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    }
}

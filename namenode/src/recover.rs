//! What the journal restores into at the start.

use std::time::Instant;

use journal::{Recover, RecoverError, Txid};

use crate::core::state::Loaded;
use crate::startup::Work;

/// Collects rows and records; taken over by the state when the journal is open.
pub(crate) struct Recovering {
    pub(crate) loaded: Loaded,
    times: Times,
}

/// When which part began, and how much there was.
struct Times {
    begun: Instant,
    rows: u64,
    /// When the rows were all there, at the latest try.
    loaded: Option<Instant>,
    records: u64,
}

impl Default for Recovering {
    fn default() -> Self {
        let times = Times { begun: Instant::now(), rows: 0, loaded: None, records: 0 };
        Recovering { loaded: Loaded::default(), times }
    }
}

impl Recovering {
    /// The work done so far; call it when the log is replayed.
    pub(crate) fn work(&self) -> (Work, Work) {
        let Times { begun, rows, loaded, records } = self.times;
        let loaded = loaded.unwrap_or(begun);
        let load = Work { count: rows, time: loaded.duration_since(begun) };
        (load, Work { count: records, time: loaded.elapsed() })
    }
}

impl Recover for Recovering {
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecoverError> {
        self.times.rows += 1;
        self.loaded.load_row(key, value).map_err(RecoverError::new)
    }

    fn loaded(&mut self, _applied: Txid) -> Result<(), RecoverError> {
        let finished = self.loaded.ns.finish_load().map_err(RecoverError::new);
        self.times.loaded = Some(Instant::now());
        finished
    }

    fn replay(&mut self, _txid: Txid, body: &[u8]) -> Result<(), RecoverError> {
        self.times.records += 1;
        self.loaded.replay(body).map_err(RecoverError::new)
    }

    fn reset(&mut self) {
        self.loaded = Loaded::default();
        // The time spent on a bad copy counts: it passed before the start was over.
        self.times = Times { rows: 0, loaded: None, records: 0, ..self.times };
    }
}

//! What the journal restores into at start.

use journal::{Recover, RecoverError, Txid};

use crate::core::state::Loaded;

/// Collects rows and records; taken over by the state when the journal is open.
#[derive(Default)]
pub(crate) struct Recovering {
    pub(crate) loaded: Loaded,
}

impl Recover for Recovering {
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecoverError> {
        self.loaded.load_row(key, value).map_err(RecoverError::new)
    }

    fn loaded(&mut self, _applied: Txid) -> Result<(), RecoverError> {
        self.loaded.ns.finish_load().map_err(RecoverError::new)
    }

    fn replay(&mut self, _txid: Txid, body: &[u8]) -> Result<(), RecoverError> {
        self.loaded.replay(body).map_err(RecoverError::new)
    }

    fn reset(&mut self) {
        self.loaded = Loaded::default();
    }
}

//! A count that one thread raises and others wait for.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    count: Mutex<u64>,
    raised: Condvar,
}

impl Signal {
    /// Raises the count by one.
    pub(crate) fn tell(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.raised.notify_all();
    }

    pub(crate) fn count(&self) -> u64 {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the count has come so far; false if it does not within `limit`.
    pub(crate) fn wait_for(&self, count: u64, limit: Duration) -> bool {
        let now = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.raised.wait_timeout_while(now, limit, |now| *now < count);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

//! Waiting for what another process does: always with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// Between two looks: short beside what is waited for, long beside a look.
const LOOK: Duration = Duration::from_millis(50);

/// Looks until `condition` holds; false if it does not within `limit`.
#[must_use]
pub(crate) fn until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

//! The rim's clock: machines and cores get the time from their host.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time as a host sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Since the host was opened; never goes back: for decisions.
    pub at: Duration,
    /// Wall clock, milliseconds since the epoch: for times that are recorded.
    pub wall_ms: u64,
}

/// The clock of one host.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Clock { started: Instant::now() }
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Now { at: self.started.elapsed(), wall_ms }
    }
}

//! How the start went, phase by phase, for `/startupProgress` and its bean: rows are loaded, the log behind them is replayed, safe mode
//! waits for blocks. Each phase ends once; later events, such as safe mode by hand, are not part of the start.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What a phase did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Work {
    /// Rows or records.
    pub(crate) count: u64,
    pub(crate) time: Duration,
}

/// The phases of a start that has come as far as safe mode.
#[derive(Debug)]
pub(crate) struct Startup {
    load: Work,
    replay: Work,
    waits_since: Instant,
    /// How long safe mode took.
    waited: OnceLock<Duration>,
}

impl Startup {
    /// Safe mode begins now.
    pub(crate) fn loaded(load: Work, replay: Work) -> Self {
        Startup { load, replay, waits_since: Instant::now(), waited: OnceLock::new() }
    }

    /// Safe mode is off: the start is over, if it was not.
    pub(crate) fn note_ready(&self) {
        self.waited.get_or_init(|| self.waits_since.elapsed());
    }

    /// Progress so far.
    pub(crate) fn progress(&self) -> Progress {
        let waited = self.waited.get();
        Progress {
            load: self.load,
            replay: self.replay,
            wait: waited.copied().unwrap_or_else(|| self.waits_since.elapsed()),
            is_over: waited.is_some(),
        }
    }
}

/// Progress of a start at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Rows of the checkpoint.
    pub(crate) load: Work,
    /// Records after it.
    pub(crate) replay: Work,
    /// Safe mode, so far or altogether.
    pub(crate) wait: Duration,
    /// Safe mode is over.
    pub(crate) is_over: bool,
}

impl Progress {
    /// From the first row to now, or to the end of safe mode.
    pub(crate) fn total(&self) -> Duration {
        self.load.time + self.replay.time + self.wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_ends_once() {
        let work = |count, ms| Work { count, time: Duration::from_millis(ms) };
        let startup = Startup::loaded(work(10, 30), work(2, 5));
        let first = startup.progress();
        assert!(!first.is_over && first.total() >= Duration::from_millis(35));
        startup.note_ready();
        let (end, later) = (startup.progress(), startup.progress());
        startup.note_ready();
        assert!(end.is_over && end.wait >= first.wait);
        assert_eq!((end.total(), end.total()), (later.total(), startup.progress().total()));
        assert_eq!((end.load, end.replay), (work(10, 30), work(2, 5)));
    }
}

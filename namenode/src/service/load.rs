//! How many calls were answered, and how fast.

use std::time::Instant;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use protocol::namenode::{Answer, Kind};

/// Upper bounds of the classes that calls are counted in, seconds: from a read in memory to a sync on a busy disk.
const CLASSES_S: [f64; 12] =
    [0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0, 10.0];

/// Calls answered since the start.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) reads: Histogram,
    pub(crate) changes: Histogram,
    pub(crate) refused: Counter,
    /// All of them, for the charts.
    pub(crate) answered: Counter,
}

impl Default for Load {
    fn default() -> Self {
        let classes = || Histogram::new(CLASSES_S);
        Load {
            reads: classes(),
            changes: classes(),
            refused: Counter::default(),
            answered: Counter::default(),
        }
    }
}

impl Load {
    /// Counts a call that began at `begin`.
    pub(crate) fn note(&self, kind: Kind, begin: Instant, answer: &Answer) {
        let class = if kind == Kind::Read { &self.reads } else { &self.changes };
        class.observe(begin.elapsed().as_secs_f64());
        self.answered.inc();
        if answer.is_err() {
            self.refused.inc();
        }
    }
}

//! Finds the record that a script is processing, although the script reads ahead. The script counts its finished records, as Hadoop's
//! scripts do in skip mode, with `reporter:counter:SkippingTaskCounters,MapProcessedRecords,1` on standard error.

use std::collections::VecDeque;

use mr_model::task::{Context, Counter};

/// Most uncounted records to remember: many more than the pipes and buffers of a script hold, and half a mebibyte.
const RECORDS_MAX: usize = 1 << 16;

/// Records on their way through a script.
pub(super) struct ReadAhead {
    counter: Counter,
    /// Value of the counter when the script started.
    base: u64,
    /// Records removed from the front of `given`.
    gone: u64,
    /// Positions of the later ones.
    given: VecDeque<u64>,
    /// The script counts too few records: the current one is unknown.
    lost: bool,
}

impl ReadAhead {
    /// For a script that starts now.
    pub(super) fn new(context: &Context) -> Self {
        let counter = context.counter("SkippingTaskCounters", "MapProcessedRecords");
        let base = counter.value();
        ReadAhead { counter, base, gone: 0, given: VecDeque::new(), lost: false }
    }

    /// The script received the record at `at`.
    pub(super) fn fed(&mut self, at: u64) {
        if self.given.len() >= RECORDS_MAX {
            self.forget_done();
            self.lost |= self.given.len() >= RECORDS_MAX;
        }
        if !self.lost {
            self.given.push_back(at);
        }
    }

    /// Position of the first record that the script has not counted. Call it only after reading all of the script's standard error.
    pub(super) fn current(&mut self) -> Option<u64> {
        self.forget_done();
        self.given.front().copied().filter(|_| !self.lost)
    }

    fn forget_done(&mut self) {
        let done = self.counter.value().saturating_sub(self.base);
        let count = usize::try_from(done.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        self.given.drain(..count.min(self.given.len()));
        self.gone = done.max(self.gone);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use protocol::{AttemptId, JobId, TaskId, TaskKind};

    use super::*;

    #[test]
    fn the_first_uncounted_record_is_the_one_it_is_at() {
        let job = JobId { cluster_start: 1, number: 1 };
        let task = TaskId { job, kind: TaskKind::Map, index: 0 };
        let context = Context::new(AttemptId { task, number: 0 }, BTreeMap::new());
        let counter = context.counter("SkippingTaskCounters", "MapProcessedRecords");
        counter.add(5);
        let mut ahead = ReadAhead::new(&context);
        assert_eq!(ahead.current(), None);
        (0..10).for_each(|number| ahead.fed(number * 100));
        assert_eq!(ahead.current(), Some(0));
        counter.add(3);
        assert_eq!(ahead.current(), Some(300));
        (10..RECORDS_MAX as u64 + 3).for_each(|number| ahead.fed(number * 100));
        assert_eq!(ahead.current(), Some(300));
        counter.add(7);
        ahead.fed(1);
        assert_eq!(ahead.current(), Some(1000), "those before were counted");
        (0..20).for_each(|number| ahead.fed(number));
        assert_eq!(ahead.current(), None, "it does not count: nobody knows");
    }
}

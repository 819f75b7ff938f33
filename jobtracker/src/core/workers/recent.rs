//! What ended on a worker in the last hour, and its last failures.

use std::collections::VecDeque;
use std::time::Duration;

use protocol::AttemptId;

/// Ends older than this say nothing about how a worker is now.
const WINDOW_MINUTES: u64 = 60;
/// Failures that are kept by name: a page of them.
const FAILURES_MAX: usize = 20;
/// This many failed attempts in the window, and one of so many, are more than a job with a mistake now and then.
const FAILING_MIN: u64 = 5;
const FAILING_SHARE: u64 = 10;

/// Attempts that won their tasks or failed on a worker in the last hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lately {
    pub(crate) ended: u64,
    pub(crate) failed: u64,
}

impl Lately {
    /// True if so many failed that it is more than chance.
    pub(crate) fn is_failing(self) -> bool {
        self.failed >= FAILING_MIN && self.failed.saturating_mul(FAILING_SHARE) >= self.ended
    }
}

/// The ends of attempts on a worker.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// By the minute, oldest first; at most [`WINDOW_MINUTES`].
    minutes: VecDeque<(u64, Lately)>,
    /// Newest first.
    failures: VecDeque<AttemptId>,
}

impl Recent {
    /// An attempt won its task, or failed.
    pub(super) fn note(&mut self, attempt: AttemptId, is_success: bool, at: Duration) {
        let minute = at.as_secs() / 60;
        if self.minutes.back().is_none_or(|(last, _)| *last != minute) {
            self.minutes.push_back((minute, Lately::default()));
        }
        while self.minutes.front().is_some_and(|(first, _)| is_over(*first, minute)) {
            self.minutes.pop_front();
        }
        if let Some((_, lately)) = self.minutes.back_mut() {
            lately.ended += 1;
            lately.failed += u64::from(!is_success);
        }
        if !is_success {
            self.failures.truncate(FAILURES_MAX - 1);
            self.failures.push_front(attempt);
        }
    }

    /// What ended in the last hour.
    pub(crate) fn lately(&self, at: Duration) -> Lately {
        let minute = at.as_secs() / 60;
        let counted = self.minutes.iter().filter(|(begun, _)| !is_over(*begun, minute));
        counted.fold(Lately::default(), |sum, (_, lately)| Lately {
            ended: sum.ended + lately.ended,
            failed: sum.failed + lately.failed,
        })
    }

    /// The last attempts that failed, newest first.
    pub(crate) fn failures(&self) -> impl Iterator<Item = AttemptId> {
        self.failures.iter().copied()
    }
}

fn is_over(minute: u64, now: u64) -> bool {
    minute + WINDOW_MINUTES <= now
}

#[cfg(test)]
mod tests {
    use protocol::{JobId, TaskId, TaskKind};

    use super::*;

    fn attempt(number: u32) -> AttemptId {
        let job = JobId { cluster_start: 202_611_201_830, number: 1 };
        AttemptId { task: TaskId { job, kind: TaskKind::Map, index: 0 }, number }
    }

    #[test]
    fn an_hour_counts_and_the_last_failures_have_names() {
        let mut recent = Recent::default();
        let minute = |number: u64| Duration::from_secs(number * 60);
        for number in 0..30 {
            recent.note(attempt(number), number % 2 == 0, minute(u64::from(number)));
        }
        assert_eq!(recent.lately(minute(30)), Lately { ended: 30, failed: 15 });
        assert_eq!(recent.lately(minute(60)), Lately { ended: 29, failed: 15 });
        assert_eq!(recent.lately(minute(70)), Lately { ended: 19, failed: 10 });
        assert_eq!(recent.lately(minute(90)), Lately::default());
        let failures: Vec<u32> = recent.failures().map(|id| id.number).collect();
        assert_eq!(failures, (0..15).map(|place| 29 - 2 * place).collect::<Vec<u32>>());
        for number in 30..200 {
            recent.note(attempt(number), false, minute(90));
        }
        assert_eq!(recent.failures().count(), FAILURES_MAX);
        assert_eq!(recent.failures().next(), Some(attempt(199)));
        assert_eq!(recent.minutes.len(), 1, "what is over is forgotten");
    }

    #[test]
    fn a_mistake_now_and_then_is_no_failing_worker() {
        for (ended, failed, expected) in
            [(4, 4, false), (5, 5, true), (50, 5, true), (51, 5, false), (1_000, 99, false)]
        {
            assert_eq!(Lately { ended, failed }.is_failing(), expected, "{failed} of {ended}");
        }
    }
}

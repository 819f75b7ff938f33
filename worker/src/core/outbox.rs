//! Updates that the JobTracker has not confirmed: ends of attempts, and failed fetches of map outputs.
//!
//! ```text
//! kept -> sent -> confirmed: forgotten
//!            | -> lost: kept, sent again
//!            | -> refused: sent again one by one; the one refused alone is replaced by a short failure
//! ```
//!
//! Invariants: the end of an attempt is kept until it is confirmed; the updates of a report are at most [`REPORT_BYTES_MAX`] long unless a
//! single one is longer; an update that the JobTracker refuses never delays those of other jobs.

use protocol::jobs::Counters;
use protocol::tracker::{AttemptState, AttemptUpdate, FetchFailure, REPORT_BYTES_MAX, shortened};
use protocol::{AttemptId, wire};

/// Most waiting fetch failures; further ones are dropped, because runners repeat them.
const FETCH_FAILURES_MAX: usize = 1000;

/// The result of a report.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The JobTracker has it.
    Taken,
    /// It may or may not have it.
    Lost,
    /// It will never take it; the reason.
    Refused(String),
}

/// Ends and failures in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    ends: Vec<Unconfirmed>,
    fetch_failures: Vec<FetchFailure>,
    under_way: Option<Parcel>,
    /// After a refused report of several updates, this many are sent one by one.
    alone: usize,
}

/// An end that the JobTracker may not have received.
#[derive(Debug)]
struct Unconfirmed {
    update: AttemptUpdate,
    bytes: usize,
    /// It replaces an end that was refused.
    replaced: bool,
}

/// How many of the kept updates were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Parcel {
    ends: usize,
    fetch_failures: usize,
}

impl Outbox {
    /// Keeps the end of an attempt.
    pub(crate) fn end(&mut self, update: AttemptUpdate) {
        let bytes = wire::encode(&update).len();
        self.ends.push(Unconfirmed { update, bytes, replaced: false });
    }

    /// Keeps a fetch failure. False if too many wait.
    pub(crate) fn fetch_failed(&mut self, failure: FetchFailure) -> bool {
        let room = self.fetch_failures.len() < FETCH_FAILURES_MAX;
        if room {
            self.fetch_failures.push(failure);
        }
        room
    }

    /// Attempts whose end is not confirmed.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = AttemptId> {
        self.ends.iter().map(|kept| kept.update.attempt)
    }

    /// True while waiting for an answer.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// The next updates to send, if there are any, together with the progress in `running`, which is not kept.
    pub(crate) fn next(
        &mut self,
        running: Vec<AttemptUpdate>,
    ) -> Option<(Vec<AttemptUpdate>, Vec<FetchFailure>)> {
        if self.alone > 0 && !self.ends.is_empty() {
            self.under_way = Some(Parcel { ends: 1, fetch_failures: 0 });
            return Some((vec![self.ends[0].update.clone()], Vec::new()));
        }
        let mut bytes = 0;
        let fits = |kept: &&Unconfirmed| {
            bytes += kept.bytes;
            bytes <= REPORT_BYTES_MAX
        };
        let ends = self.ends.iter().take_while(fits).count().max(1).min(self.ends.len());
        let mut updates: Vec<AttemptUpdate> =
            self.ends[..ends].iter().map(|kept| kept.update.clone()).collect();
        // Progress is reported again later; here it fills the space that the ends leave.
        let mut bytes: usize = self.ends[..ends].iter().map(|kept| kept.bytes).sum();
        updates.extend(running.into_iter().take_while(|update| {
            bytes += wire::encode(update).len();
            bytes <= REPORT_BYTES_MAX
        }));
        let fetch_failures = self.fetch_failures.clone();
        if updates.is_empty() && fetch_failures.is_empty() {
            return None;
        }
        self.under_way = Some(Parcel { ends, fetch_failures: fetch_failures.len() });
        Some((updates, fetch_failures))
    }

    /// How many ends of attempts and how many failed fetches wait for an answer.
    pub(crate) fn sent(&self) -> (usize, usize) {
        self.under_way.map_or((0, 0), |parcel| (parcel.ends, parcel.fetch_failures))
    }

    /// Processes an answer. True if the next report may follow at once.
    pub(crate) fn settle(&mut self, outcome: Outcome) -> bool {
        let Some(Parcel { ends, fetch_failures }) = self.under_way.take() else { return false };
        match outcome {
            Outcome::Lost => return false,
            Outcome::Taken => {
                self.ends.drain(..ends);
                self.fetch_failures.drain(..fetch_failures);
                self.alone = self.alone.saturating_sub(ends);
            }
            Outcome::Refused(reason) => {
                self.fetch_failures.drain(..fetch_failures);
                if self.alone == 0 {
                    self.alone = ends;
                } else {
                    self.replace_first(&reason);
                }
            }
        }
        true
    }

    /// Replaces an end that was refused alone by a failure; if that is refused too, drops it.
    fn replace_first(&mut self, reason: &str) {
        if self.ends[0].replaced {
            self.ends.remove(0);
            self.alone -= 1;
            return;
        }
        let first = &mut self.ends[0];
        let diagnostics = shortened(format!("the JobTracker does not take its report: {reason}"));
        first.update.state = AttemptState::Failed { diagnostics };
        first.update.counters = Counters::default();
        first.update.record = None;
        first.bytes = wire::encode(&first.update).len();
        first.replaced = true;
    }
}

#[cfg(test)]
impl Outbox {
    /// True if the end that it keeps of the attempt replaces one that was refused.
    pub(super) fn is_replaced(&self, attempt: AttemptId) -> bool {
        self.ends.iter().any(|end| end.update.attempt == attempt && end.replaced)
    }
}

#[cfg(test)]
mod tests {
    use protocol::tracker::DIAGNOSTICS_BYTES_MAX;
    use protocol::{JobId, TaskId, TaskKind};

    use super::*;

    fn ended(number: u32, counters: Counters) -> AttemptUpdate {
        let job = JobId { cluster_start: 1, number };
        let task = TaskId { job, kind: TaskKind::Map, index: 0 };
        AttemptUpdate {
            attempt: AttemptId { task, number: 0 },
            state: AttemptState::Killed,
            progress: 0.0,
            phase: None,
            counters,
            record: None,
            status: String::new(),
        }
    }

    fn job_numbers(updates: &[AttemptUpdate]) -> Vec<u32> {
        updates.iter().map(|update| update.attempt.task.job.number).collect()
    }

    fn outbox(count: u32) -> Outbox {
        let mut outbox = Outbox::default();
        (0..count).for_each(|number| outbox.end(ended(number, Counters::default())));
        outbox
    }

    #[test]
    fn ends_are_told_until_they_are_confirmed() {
        let mut outbox = outbox(2);
        for _ in 0..2 {
            let (updates, _) = outbox.next(vec![ended(9, Counters::default())]).unwrap();
            assert_eq!(job_numbers(&updates), [0, 1, 9]);
            assert!(!outbox.settle(Outcome::Lost));
        }
        let (updates, _) = outbox.next(Vec::new()).unwrap();
        assert_eq!(job_numbers(&updates), [0, 1]);
        outbox.end(ended(2, Counters::default()));
        assert!(outbox.settle(Outcome::Taken));
        assert_eq!(job_numbers(&outbox.next(Vec::new()).unwrap().0), [2]);
        assert!(outbox.settle(Outcome::Taken));
        assert!(outbox.next(Vec::new()).is_none() && !outbox.is_under_way());
    }

    #[test]
    fn long_updates_come_in_several_reports() {
        let mut outbox = Outbox::default();
        let mut large = Counters::default();
        (0..10_000).for_each(|index| large.add(&"g".repeat(100), &format!("{index:0>100}"), 1));
        (0..30).for_each(|number| outbox.end(ended(number, large.clone())));
        let mut seen = Vec::new();
        let running = vec![ended(99, large.clone()); 9];
        while let Some((updates, _)) = outbox.next(running.clone()) {
            if job_numbers(&updates).iter().all(|number| *number == 99) {
                break;
            }
            let bytes: usize = updates.iter().map(|update| wire::encode(update).len()).sum();
            assert!(bytes <= REPORT_BYTES_MAX && !updates.is_empty());
            seen.extend(job_numbers(&updates).into_iter().filter(|number| *number != 99));
            assert!(outbox.settle(Outcome::Taken));
        }
        assert_eq!(seen, Vec::from_iter(0..30));
    }

    #[test]
    fn a_report_that_is_refused_holds_up_nobody_elses() {
        let mut outbox = outbox(4);
        let mut taken = Vec::new();
        let mut rounds = 0;
        while let Some((updates, _)) = outbox.next(Vec::new()) {
            rounds += 1;
            assert!(rounds < 20, "it comes to an end");
            let poison = |update: &AttemptUpdate| update.attempt.task.job.number == 2;
            let failed = matches!(updates[0].state, AttemptState::Failed { .. });
            let outcome = match updates.iter().any(poison) && !failed {
                true => Outcome::Refused("x".repeat(DIAGNOSTICS_BYTES_MAX)),
                false => Outcome::Taken,
            };
            if matches!(outcome, Outcome::Taken) {
                taken.extend(updates.clone());
            }
            outbox.settle(outcome);
        }
        assert_eq!(job_numbers(&taken), [0, 1, 2, 3]);
        assert!(matches!(taken[2].state, AttemptState::Failed { .. }));
        assert_eq!(taken[3].state, AttemptState::Killed, "told as it was");
    }

    #[test]
    fn what_is_never_taken_is_dropped() {
        let mut outbox = outbox(2);
        let rounds = std::iter::from_fn(|| {
            outbox.next(Vec::new())?;
            outbox.settle(Outcome::Refused("no".to_owned()));
            Some(())
        });
        assert!(rounds.take(20).count() < 20, "it comes to an end");
    }
}

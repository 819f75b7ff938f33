//! What running attempts have counted so far, and what they say that they do: for people.
//!
//! Invariants: it is neither journalled nor part of a result; it names attempts that hold a slot, and of a task with several the oldest.

use std::collections::BTreeMap;

use protocol::jobs::Counters;
use protocol::{AttemptId, TaskKind};

use super::counters::{CounterSums, Tally};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LiveNews {
    sums: CounterSums,
    attempts: BTreeMap<AttemptId, News>,
}

/// The last report of an attempt.
#[derive(Debug)]
struct News {
    tally: Tally,
    status: String,
    /// Of a map: records and bytes read in a second, on average since its start.
    read_per_s: [u64; 2],
}

/// What is counted of a map's input: records and bytes.
const READ: [(&str, &str); 2] = [
    ("org.apache.hadoop.mapreduce.TaskCounter", "MAP_INPUT_RECORDS"),
    ("org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter", "BYTES_READ"),
];

impl LiveNews {
    /// Takes the report of an attempt that has run for `elapsed_ms`. Its counters are left out if no job may have such.
    pub(crate) fn note(
        &mut self,
        id: AttemptId,
        counters: &Counters,
        status: String,
        elapsed_ms: u64,
    ) {
        self.forget(id);
        let is_fine = self.sums.admit(counters, self.attempts.len() + 1).is_ok();
        let tally = if is_fine { self.sums.add(counters) } else { Tally::default() };
        let per_s = |(group, name)| {
            let read =
                u128::from(counters.value(group, name)) * 1000 / u128::from(elapsed_ms.max(1));
            u64::try_from(read).unwrap_or(u64::MAX)
        };
        let read_per_s = match id.task.kind {
            TaskKind::Map => READ.map(per_s),
            TaskKind::Reduce => [0; 2],
        };
        self.attempts.insert(id, News { tally, status, read_per_s });
    }

    /// The attempt holds its slot no longer.
    pub(crate) fn forget(&mut self, id: AttemptId) {
        if let Some(news) = self.attempts.remove(&id) {
            self.sums.subtract(&news.tally);
        }
        if self.attempts.is_empty() {
            self.sums = CounterSums::default();
        }
    }

    /// Records and bytes that running maps read in a second.
    pub(crate) fn read_per_s(&self) -> [u64; 2] {
        let add = |[a, b]: [u64; 2], news: &News| {
            let [records, bytes] = news.read_per_s;
            [a.saturating_add(records), b.saturating_add(bytes)]
        };
        self.attempts.values().fold([0; 2], add)
    }

    /// Adds what running attempts have counted.
    pub(crate) fn add_to(&self, counters: &mut Counters) {
        counters.merge(&self.sums.totals_counted());
    }

    /// What an attempt says that it does; empty if it says nothing.
    pub(crate) fn status(&self, id: AttemptId) -> &str {
        self.attempts.get(&id).map_or("", |news| &news.status)
    }

    /// What an attempt has counted.
    pub(crate) fn counters(&self, id: AttemptId) -> Counters {
        self.sums.sum_of(self.attempts.get(&id).map(|news| &news.tally).into_iter())
    }
}

#[cfg(test)]
mod tests {
    use protocol::counters::COUNTERS_MAX;
    use protocol::{JobId, TaskId};

    use super::*;

    fn attempt(index: u32) -> AttemptId {
        let job = JobId { cluster_start: 1, number: 1 };
        AttemptId { task: TaskId { job, kind: TaskKind::Map, index }, number: 0 }
    }

    fn sums(live: &LiveNews) -> Counters {
        let mut sums = Counters::default();
        live.add_to(&mut sums);
        sums
    }

    #[test]
    fn the_sums_are_those_of_the_last_reports() {
        let mut live = LiveNews::default();
        live.note(attempt(1), &Counters::from_iter([("g", "a", 5)]), "reads".to_owned(), 1000);
        live.note(
            attempt(2),
            &Counters::from_iter([("g", "a", 1), ("g", "b", 2)]),
            String::new(),
            1,
        );
        live.note(attempt(1), &Counters::from_iter([("g", "a", 7)]), "writes".to_owned(), 1);
        assert_eq!(sums(&live), Counters::from_iter([("g", "a", 8), ("g", "b", 2)]));
        assert_eq!((live.status(attempt(1)), live.status(attempt(3))), ("writes", ""));
        assert_eq!(live.counters(attempt(1)), Counters::from_iter([("g", "a", 7)]));
        assert_eq!(live.counters(attempt(3)), Counters::default());
        live.forget(attempt(2));
        assert_eq!(sums(&live), Counters::from_iter([("g", "a", 7)]));
        live.forget(attempt(1));
        assert_eq!(sums(&live), Counters::default());
    }

    #[test]
    fn rates_are_what_running_maps_read() {
        let mut live = LiveNews::default();
        let read = |records: u64, bytes: u64| -> Counters {
            READ.iter().zip([records, bytes]).map(|((group, name), n)| (*group, *name, n)).collect()
        };
        live.note(attempt(1), &read(500, 90_000), String::new(), 500);
        live.note(attempt(2), &read(1, 4_000), String::new(), 2_000);
        assert_eq!(live.read_per_s(), [1_000, 182_000]);
        live.note(attempt(1), &read(u64::MAX, 5), String::new(), 0);
        assert_eq!(live.read_per_s(), [u64::MAX, 7_000]);
    }

    #[test]
    fn counters_that_no_job_may_have_are_left_out() {
        let mut live = LiveNews::default();
        let names: Vec<String> = (0..2 * COUNTERS_MAX).map(|index| index.to_string()).collect();
        let many = names.iter().map(|name| ("g", name.as_str(), 1)).collect();
        live.note(attempt(1), &many, "busy".to_owned(), 1);
        assert_eq!((sums(&live), live.status(attempt(1))), (Counters::default(), "busy"));
    }
}

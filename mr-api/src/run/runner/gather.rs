//! Which map outputs a reduce has, knows of, or still waits for. Pure: `now` comes in.
//!
//! ```text
//! Awaited --announced--> Known --begin--> Fetching --> Got
//!    ^                    ^ |                | |
//!    |                    | +---obsolete--+  | |
//!    +--------------------|---------------+--+ |
//!                         +-----failed---------+   (not before its pause is over)
//! ```
//!
//! Invariant: an output that has arrived is never fetched again unless it turns out to be damaged; of a map that ran several times, the
//! latest announced attempt counts.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use protocol::AttemptId;
use protocol::shuffle::MAPS_PER_REQUEST_MAX;
use protocol::tracker::MapOutput;
use shuffle::SegmentSource;

/// First pause after a failed fetch; each further one is 1.3 times as long, as in Hadoop (which begins at 10 s).
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What reaches a running reduce.
pub(crate) enum News {
    /// From the worker.
    Outputs { available: Vec<MapOutput>, obsolete: Vec<AttemptId> },
    /// From a fetch: the outcome for each requested attempt.
    Fetched { host: String, outcomes: Vec<(AttemptId, Result<Input, String>)> },
}

/// One map's part of this reduce's input.
pub(crate) struct Input {
    pub(crate) map: AttemptId,
    /// Its segments that are not empty, by partition.
    pub(crate) sources: Vec<SegmentSource>,
    pub(crate) stored: u64,
    pub(crate) records: u64,
}

enum Slot {
    Awaited,
    Known {
        output: MapOutput,
        not_before: Option<Instant>,
    },
    Fetching {
        output: MapOutput,
    },
    Got {
        output: MapOutput,
        input: Box<Input>,
    },
    /// Handed to the reduce.
    Used {
        output: MapOutput,
    },
}

pub(crate) struct Gather {
    /// Index of the first task whose output is wanted.
    first: u32,
    /// By task, from the first on.
    slots: Vec<Slot>,
    failures: BTreeMap<u32, u32>,
    got: usize,
}

impl Gather {
    /// The outputs of these tasks are wanted, of which some are known.
    pub(crate) fn new(tasks: Range<u32>, outputs: Vec<MapOutput>) -> Self {
        let first = tasks.start;
        let slots = tasks.map(|_| Slot::Awaited).collect();
        let mut gather = Gather { first, slots, failures: BTreeMap::new(), got: 0 };
        gather.announce(outputs);
        gather
    }

    /// These outputs are wanted; they are of tasks that follow each other.
    pub(crate) fn of(outputs: &[MapOutput]) -> Self {
        let first = outputs.first().map_or(0, |output| output.attempt.task.index);
        Self::new(first..first + outputs.len() as u32, outputs.to_vec())
    }

    fn slot(&mut self, attempt: AttemptId) -> Option<&mut Slot> {
        let index = attempt.task.index.checked_sub(self.first)?;
        self.slots.get_mut(index as usize)
    }

    /// Records new outputs.
    pub(crate) fn announce(&mut self, outputs: Vec<MapOutput>) {
        for output in outputs {
            match self.slot(output.attempt) {
                Some(slot @ (Slot::Awaited | Slot::Known { .. })) => {
                    let not_before = match slot {
                        Slot::Known { output: known, not_before }
                            if known.attempt == output.attempt =>
                        {
                            *not_before
                        }
                        _ => None,
                    };
                    *slot = Slot::Known { output, not_before };
                }
                // An output that is being fetched or has arrived is as good; a failed fetch falls back to the next announcement.
                Some(slot @ Slot::Fetching { .. }) => {
                    if let Slot::Fetching { output: fetching } = slot
                        && fetching.attempt != output.attempt
                    {
                        *slot = Slot::Known { output, not_before: None };
                    }
                }
                Some(Slot::Got { .. } | Slot::Used { .. }) | None => {}
            }
        }
    }

    /// Forgets outputs that are no longer served; fetched copies stay valid.
    pub(crate) fn obsolete(&mut self, attempts: &[AttemptId]) {
        for attempt in attempts {
            if let Some(slot) = self.slot(*attempt) {
                match slot {
                    Slot::Known { output, .. } | Slot::Fetching { output }
                        if output.attempt == *attempt =>
                    {
                        *slot = Slot::Awaited;
                    }
                    _ => {}
                }
            }
        }
    }

    /// Outputs to fetch now, from one worker, at most as many as a request may name; they change to being fetched.
    pub(crate) fn begin(&mut self, now: Instant, busy: &[String]) -> Vec<MapOutput> {
        let mut batch: Vec<MapOutput> = Vec::new();
        for slot in &mut self.slots {
            let Slot::Known { output, not_before } = slot else { continue };
            let due = not_before.is_none_or(|time| time <= now);
            let fits = match batch.first() {
                Some(first) => first.http_address == output.http_address,
                None => !busy.contains(&output.http_address),
            };
            if due && fits && batch.len() < MAPS_PER_REQUEST_MAX {
                batch.push(output.clone());
                *slot = Slot::Fetching { output: output.clone() };
            }
        }
        batch
    }

    /// A fetch succeeded.
    pub(crate) fn got(&mut self, input: Input) {
        if let Some(slot) = self.slot(input.map)
            && let Slot::Known { output, .. } | Slot::Fetching { output } = slot
        {
            *slot = Slot::Got { output: output.clone(), input: Box::new(input) };
            self.got += 1;
        }
    }

    /// A fetch failed: the next one waits for a pause.
    pub(crate) fn failed(&mut self, map: AttemptId, now: Instant) {
        let failures = self.failures.entry(map.task.index).or_default();
        *failures += 1;
        let pause = PAUSE_MIN.mul_f64(1.3f64.powi((*failures).min(40) as i32 - 1)).min(PAUSE_MAX);
        if let Some(slot) = self.slot(map)
            && let Slot::Fetching { output } = slot
            && output.attempt == map
        {
            *slot = Slot::Known { output: output.clone(), not_before: Some(now + pause) };
        }
    }

    /// All inputs in map order, once they are there.
    pub(crate) fn take(&mut self) -> Vec<Input> {
        let take = |slot: &mut Slot| match std::mem::replace(slot, Slot::Awaited) {
            Slot::Got { output, input } => {
                *slot = Slot::Used { output };
                Some(*input)
            }
            other => {
                *slot = other;
                None
            }
        };
        self.slots.iter_mut().filter_map(take).collect()
    }

    /// The output of `damaged` cannot be used, and the reduce needs all inputs again. The damaged one is not tried before a pause;
    /// meanwhile another attempt may be announced.
    pub(crate) fn restart(&mut self, damaged: AttemptId, now: Instant) {
        for slot in &mut self.slots {
            if let Slot::Used { output } | Slot::Got { output, .. } = slot {
                *slot = Slot::Fetching { output: output.clone() };
            }
        }
        self.got = 0;
        self.failed(damaged, now);
        for slot in &mut self.slots {
            if let Slot::Fetching { output } = slot {
                *slot = Slot::Known { output: output.clone(), not_before: None };
            }
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.got == self.slots.len()
    }

    /// Share of the inputs that have arrived.
    pub(crate) fn share(&self) -> f64 {
        self.got as f64 / self.slots.len().max(1) as f64
    }

    /// When the next pause is over.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let due = |slot: &Slot| match slot {
            Slot::Known { not_before, .. } => *not_before,
            _ => None,
        };
        self.slots.iter().filter_map(due).min()
    }
}

#[cfg(test)]
mod tests {
    use protocol::{JobId, TaskId, TaskKind};

    use super::*;

    fn attempt(index: u32, number: u32) -> AttemptId {
        let job = JobId { cluster_start: 202611201830, number: 1 };
        AttemptId { task: TaskId { job, kind: TaskKind::Map, index }, number }
    }

    fn output(index: u32, number: u32, host: &str) -> MapOutput {
        MapOutput {
            attempt: attempt(index, number),
            http_address: host.to_owned(),
            boot_id: String::new(),
            data_path: String::new(),
        }
    }

    fn input(index: u32, number: u32) -> Input {
        let sources = vec![SegmentSource::Memory(Vec::new())];
        Input { map: attempt(index, number), sources, stored: 0, records: 1 }
    }

    fn names(batch: &[MapOutput]) -> Vec<(u32, u32)> {
        batch.iter().map(|output| (output.attempt.task.index, output.attempt.number)).collect()
    }

    #[test]
    fn outputs_are_fetched_once_by_worker_and_taken_in_map_order() {
        let now = Instant::now();
        let mut gather =
            Gather::new(0..3, vec![output(2, 0, "a"), output(0, 0, "a"), output(1, 0, "b")]);
        assert_eq!(names(&gather.begin(now, &[])), [(0, 0), (2, 0)]);
        assert_eq!(names(&gather.begin(now, &["a".into()])), [(1, 0)]);
        assert!(gather.begin(now, &[]).is_empty());
        gather.got(input(2, 0));
        gather.got(input(0, 0));
        gather.got(input(0, 0));
        assert!(!gather.is_complete());
        gather.got(input(1, 0));
        assert!(gather.is_complete());
        let order: Vec<u32> = gather.take().iter().map(|input| input.map.task.index).collect();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn outputs_of_a_round_are_those_of_tasks_from_some_number_on() {
        let now = Instant::now();
        let mut gather = Gather::of(&[output(4, 0, "a"), output(5, 1, "a")]);
        gather.announce(vec![output(3, 0, "a"), output(6, 0, "a")]);
        assert_eq!(names(&gather.begin(now, &[])), [(4, 0), (5, 1)]);
        gather.got(input(3, 0));
        gather.failed(attempt(1, 0), now);
        gather.got(input(5, 1));
        gather.failed(attempt(4, 0), now);
        assert!(!gather.is_complete());
        assert_eq!(names(&gather.begin(gather.next_due().unwrap(), &[])), [(4, 0)]);
        gather.got(input(4, 0));
        assert!(gather.is_complete());
        assert!(Gather::of(&[]).is_complete());
    }

    #[test]
    fn a_failed_fetch_waits_longer_each_time_and_gives_way_to_a_new_attempt() {
        let start = Instant::now();
        let mut gather = Gather::new(0..1, vec![output(0, 0, "a")]);
        gather.begin(start, &[]);
        gather.failed(attempt(0, 0), start);
        assert!(gather.begin(start, &[]).is_empty());
        let due = gather.next_due().unwrap();
        assert_eq!(due, start + PAUSE_MIN);
        gather.begin(due, &[]);
        gather.failed(attempt(0, 0), due);
        assert!(gather.next_due().unwrap() > due + PAUSE_MIN);
        gather.announce(vec![output(0, 1, "b")]);
        assert_eq!(names(&gather.begin(due, &[])), [(0, 1)]);
    }

    #[test]
    fn obsolete_outputs_are_forgotten_unless_they_are_there() {
        let now = Instant::now();
        let mut gather = Gather::new(0..2, vec![output(0, 0, "a"), output(1, 0, "a")]);
        gather.begin(now, &[]);
        gather.got(input(1, 0));
        gather.obsolete(&[attempt(0, 0), attempt(1, 0)]);
        gather.failed(attempt(0, 0), now);
        assert!(gather.begin(now, &[]).is_empty());
        gather.announce(vec![output(0, 1, "b"), output(1, 1, "b")]);
        assert_eq!(names(&gather.begin(now, &[])), [(0, 1)]);
    }

    #[test]
    fn after_damage_everything_is_fetched_anew_the_damaged_one_later() {
        let now = Instant::now();
        let mut gather = Gather::new(0..2, vec![output(0, 0, "a"), output(1, 0, "a")]);
        gather.begin(now, &[]);
        gather.got(input(0, 0));
        gather.got(input(1, 0));
        assert_eq!(gather.take().len(), 2);
        gather.restart(attempt(1, 0), now);
        assert_eq!(names(&gather.begin(now, &[])), [(0, 0)]);
        assert!(!gather.is_complete());
        gather.announce(vec![output(1, 1, "b")]);
        assert_eq!(names(&gather.begin(now, &[])), [(1, 1)]);
    }
}

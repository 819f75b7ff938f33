//! Phases of attempts: their names, and the counters of their durations.
//!
//! Times are counters like any other, so a job's times are the sums over its tasks and show where the job spent its time. They are in microseconds, because
//! small tasks are over within a millisecond.
//!
//! ```text
//! map     Read | Map  ->  Sort | Spill  (as often as memory is full)  ->  Merge
//! reduce  Shuffle (with waiting for maps)  ->  ReduceMerge  ->  Reduce
//! ```

use serde::{Deserialize, Serialize};

use super::counters::{Counters, ENGINE_GROUP};
use crate::TaskKind;

/// Group of the counters of phases, with others that only this engine has.
pub const GROUP: &str = ENGINE_GROUP;

/// The phases of an attempt, one at a time. Append only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Phase {
    /// A map fetches its input.
    Read,
    /// A map reads records and runs the map function, which puts pairs into memory.
    Map,
    /// Pairs in memory are sorted.
    Sort,
    /// They are combined and written to a sorted run.
    Spill,
    /// Runs are merged into the map's output.
    Merge,
    /// A reduce fetches its part of the maps' outputs, and waits for maps.
    Shuffle,
    /// The fetched segments are merged through the disk until all can be read at once.
    ReduceMerge,
    /// The reduce function runs, and output is written.
    Reduce,
}

impl Phase {
    /// Phases of a map, then those of a reduce, in order.
    pub const ALL: [Phase; 8] = [
        Phase::Read,
        Phase::Map,
        Phase::Sort,
        Phase::Spill,
        Phase::Merge,
        Phase::Shuffle,
        Phase::ReduceMerge,
        Phase::Reduce,
    ];

    /// The kind of task that has this phase.
    pub fn kind(self) -> TaskKind {
        if self < Phase::Shuffle { TaskKind::Map } else { TaskKind::Reduce }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Read => "read",
            Phase::Map => "map",
            Phase::Sort => "sort",
            Phase::Spill => "spill",
            Phase::Merge | Phase::ReduceMerge => "merge",
            Phase::Shuffle => "shuffle",
            Phase::Reduce => "reduce",
        }
    }

    /// For people, with the kind of task where that must be clear.
    pub fn label(self) -> &'static str {
        match self {
            Phase::Read => "Time reading",
            Phase::Map => "Time in the map function",
            Phase::Sort => "Time sorting",
            Phase::Spill => "Time spilling",
            Phase::Merge => "Time merging",
            Phase::Shuffle => "Time in the shuffle",
            Phase::ReduceMerge => "Time merging",
            Phase::Reduce => "Time in the reduce function",
        }
    }

    /// The counter of its time, microseconds, in [`GROUP`].
    pub fn counter(self) -> &'static str {
        match self {
            Phase::Read => "MAP_READ_MICROS",
            Phase::Map => "MAP_MICROS",
            Phase::Sort => "MAP_SORT_MICROS",
            Phase::Spill => "MAP_SPILL_MICROS",
            Phase::Merge => "MAP_MERGE_MICROS",
            Phase::Shuffle => "REDUCE_SHUFFLE_MICROS",
            Phase::ReduceMerge => "REDUCE_MERGE_MICROS",
            Phase::Reduce => "REDUCE_MICROS",
        }
    }

    /// Its time, microseconds; 0 if it was not measured.
    pub fn micros(self, counters: &Counters) -> u64 {
        counters.value(GROUP, self.counter())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_phase_has_a_counter_of_its_own() {
        let names: BTreeSet<&str> = Phase::ALL.iter().map(|phase| phase.counter()).collect();
        assert_eq!(names.len(), Phase::ALL.len());
        assert!(Phase::ALL.is_sorted());
        let maps = Phase::ALL.iter().filter(|phase| phase.kind() == TaskKind::Map);
        assert!(maps.count() == 5 && Phase::Merge.kind() != Phase::ReduceMerge.kind());
        let mut counters = Counters::default();
        counters.add(GROUP, Phase::Sort.counter(), 7);
        assert_eq!(Phase::ALL.map(|phase| phase.micros(&counters)), [0, 0, 7, 0, 0, 0, 0, 0]);
    }
}

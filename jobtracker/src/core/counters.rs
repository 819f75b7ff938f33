//! Counters of a job's winners: running sums, and per task just enough to take its share back.
//!
//! Invariants: the sums are exactly those of the tallies added and not subtracted (modulo 2^64); a [`Tally`] goes back only to the
//! [`CounterSums`] that made it.

use std::collections::BTreeMap;

use protocol::jobs::Counters;

/// Most different counters of one job; further ones are not kept. Stops a job that names counters after its records.
const COUNTERS_MAX: usize = 10_000;

/// Group of the counters that the JobTracker keeps itself.
pub(crate) const JOB_GROUP: &str = "Job Counters";

/// Names and sums of one job.
#[derive(Debug, Default)]
pub(crate) struct CounterSums {
    ids: BTreeMap<String, BTreeMap<String, u32>>,
    sums: Vec<u64>,
}

/// Counters of one task.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally(Box<[(u32, u64)]>);

impl Tally {
    /// Numbers of counters and their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().copied()
    }

    /// The value of the counter with this number.
    pub(crate) fn value(&self, id: u32) -> Option<u64> {
        self.0.iter().find(|(own, _)| *own == id).map(|(_, value)| *value)
    }
}

impl CounterSums {
    /// How many different counters there are: their numbers are below.
    pub(crate) fn len(&self) -> usize {
        self.sums.len()
    }

    /// Adds the counters of a task.
    pub(crate) fn add(&mut self, counters: &Counters) -> Tally {
        let mut values = Vec::new();
        for (group, names) in &counters.0 {
            for (name, value) in names {
                if let Some(id) = self.id(group, name) {
                    let sum = &mut self.sums[id as usize];
                    *sum = sum.wrapping_add(*value);
                    values.push((id, *value));
                }
            }
        }
        Tally(values.into())
    }

    /// Takes the counters of a task back.
    pub(crate) fn subtract(&mut self, tally: &Tally) {
        for (id, value) in &tally.0 {
            let sum = &mut self.sums[*id as usize];
            *sum = sum.wrapping_sub(*value);
        }
    }

    /// The number of a counter that some task has counted.
    pub(crate) fn find(&self, group: &str, name: &str) -> Option<u32> {
        self.ids.get(group)?.get(name).copied()
    }

    /// The sums under their names.
    pub(crate) fn totals(&self) -> Counters {
        let mut counters = Counters::default();
        for (group, names) in &self.ids {
            for (name, id) in names {
                counters.add(group, name, self.sums[*id as usize]);
            }
        }
        counters
    }

    /// The sums of some of the tallies that were added, under their names.
    pub(crate) fn sum_of<'a>(&self, tallies: impl Iterator<Item = &'a Tally>) -> Counters {
        let mut sums: Vec<Option<u64>> = vec![None; self.sums.len()];
        for (id, value) in tallies.flat_map(|tally| &tally.0) {
            let sum = &mut sums[*id as usize];
            *sum = Some(sum.unwrap_or(0).wrapping_add(*value));
        }
        let mut counters = Counters::default();
        for (group, names) in &self.ids {
            for (name, id) in names {
                if let Some(value) = sums[*id as usize] {
                    counters.add(group, name, value);
                }
            }
        }
        counters
    }

    fn id(&mut self, group: &str, name: &str) -> Option<u32> {
        if let Some(id) = self.ids.get(group).and_then(|names| names.get(name)) {
            return Some(*id);
        }
        if self.sums.len() >= COUNTERS_MAX {
            return None;
        }
        let id = u32::try_from(self.sums.len()).expect("COUNTERS_MAX fits");
        self.sums.push(0);
        self.ids.entry(group.to_owned()).or_default().insert(name.to_owned(), id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_plain_maps() {
        let parts = [
            Counters::from_iter([("a", "x", 1), ("a", "y", 2), ("b", "x", 3)]),
            Counters::from_iter([("a", "x", 10), ("c", "z", 0)]),
            Counters::from_iter([]),
        ];
        let lost = Counters::from_iter([("a", "x", 7), ("b", "x", u64::MAX)]);
        let mut sums = CounterSums::default();
        let mut plain = Counters::default();
        let back = sums.add(&lost);
        let mut tallies = Vec::new();
        for part in &parts {
            tallies.push(sums.add(part));
            plain.merge(part);
        }
        sums.subtract(&back);
        assert_eq!(sums.totals(), plain);
        assert_eq!(sums.sum_of(tallies.iter()), plain);
        assert_eq!(sums.sum_of(tallies[1..2].iter()), parts[1]);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let mut sums = CounterSums::default();
        for index in 0..COUNTERS_MAX + 5 {
            sums.add(&Counters::from_iter([("g", index.to_string().as_str(), 1)]));
        }
        assert_eq!(sums.sums.len(), COUNTERS_MAX);
    }
}

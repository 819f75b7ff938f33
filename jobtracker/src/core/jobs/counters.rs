//! Counters of a job's winners: running sums, and just enough per task to subtract its share again.
//!
//! Invariants: the sums are exactly those of the tallies added and not subtracted ; a [`Tally`] is subtracted only from the
//! [`CounterSums`] that made it; added counters are kept completely, because [`CounterSums::admit`] refuses those beyond the limits before.

use std::collections::BTreeMap;

use protocol::counters::{COUNTERS_MAX, CountersError, ENGINE_COUNTERS_MAX};
use protocol::jobs::Counters;

/// Values kept of each task for the engine's counters.
const VALUES_PER_TASK: usize = 40;
/// Values kept of a job beyond those, at 16 bytes each: 64 MB.
const VALUES_MAX: usize = 4_000_000;

/// A limit that a job's counters exceed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Excess {
    /// Their number or names.
    #[error(transparent)]
    Counters(#[from] CountersError),
    /// Few counters, but of very many tasks.
    #[error(
        "Too many counters: the tasks of a job keep at most {VALUES_MAX} values of its own counters"
    )]
    Values,
}

/// Names and sums of one job's counters.
#[derive(Debug, Default)]
pub(crate) struct CounterSums {
    ids: BTreeMap<String, BTreeMap<String, u32>>,
    /// Wide enough for the largest values of all tasks that a job can have.
    sums: Vec<u128>,
    /// Values in all tallies that were added and not subtracted.
    value_count: usize,
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
    /// How many different counters there are: their numbers are below this.
    pub(crate) fn len(&self) -> usize {
        self.sums.len()
    }

    /// Checks whether the counters of another one of `task_count` tasks can be added.
    pub(crate) fn admit(&self, counters: &Counters, task_count: usize) -> Result<(), Excess> {
        counters.check()?;
        counters.check_of_task()?;
        let is_new = |group: &str, name: &str| self.find(group, name).is_none();
        let new = counters
            .0
            .iter()
            .flat_map(|(group, names)| names.keys().filter(move |name| is_new(group, name)));
        if self.sums.len() + new.count() > COUNTERS_MAX + ENGINE_COUNTERS_MAX {
            return Err(CountersError::TooMany.into());
        }
        let values_max = task_count.saturating_mul(VALUES_PER_TASK).saturating_add(VALUES_MAX);
        if self.value_count + counters.count() > values_max {
            return Err(Excess::Values);
        }
        Ok(())
    }

    /// Adds the counters of a task.
    pub(crate) fn add(&mut self, counters: &Counters) -> Tally {
        let mut values = Vec::with_capacity(counters.count());
        for (group, names) in &counters.0 {
            for (name, value) in names {
                let id = self.id(group, name);
                let sum = &mut self.sums[id as usize];
                *sum += u128::from(*value);
                values.push((id, *value));
            }
        }
        self.value_count += values.len();
        Tally(values.into())
    }

    /// Subtracts the counters of a task.
    pub(crate) fn subtract(&mut self, tally: &Tally) {
        self.value_count -= tally.0.len();
        for (id, value) in &tally.0 {
            let sum = &mut self.sums[*id as usize];
            *sum -= u128::from(*value);
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
                counters.add(group, name, narrow(self.sums[*id as usize]));
            }
        }
        counters
    }

    /// The sums under their names, without those that are 0.
    pub(crate) fn totals_counted(&self) -> Counters {
        let mut counters = self.totals();
        counters.0.values_mut().for_each(|names| names.retain(|_, value| *value > 0));
        counters.0.retain(|_, names| !names.is_empty());
        counters
    }

    /// The sums of some of the tallies that were added, under their names.
    pub(crate) fn sum_of<'a>(&self, tallies: impl Iterator<Item = &'a Tally>) -> Counters {
        let mut sums: Vec<Option<u128>> = vec![None; self.sums.len()];
        for (id, value) in tallies.flat_map(|tally| &tally.0) {
            let sum = &mut sums[*id as usize];
            *sum = Some(sum.unwrap_or(0) + u128::from(*value));
        }
        let mut counters = Counters::default();
        for (group, names) in &self.ids {
            for (name, id) in names {
                if let Some(value) = sums[*id as usize] {
                    counters.add(group, name, narrow(value));
                }
            }
        }
        counters
    }

    fn id(&mut self, group: &str, name: &str) -> u32 {
        if let Some(id) = self.find(group, name) {
            return id;
        }
        let id = u32::try_from(self.sums.len()).expect("a journal holds fewer counters");
        self.sums.push(0);
        self.ids.entry(group.to_owned()).or_default().insert(name.to_owned(), id);
        id
    }
}

/// The largest value instead of one that does not fit; [`Counters::add`] keeps its own bound.
fn narrow(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
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
    fn counters_that_would_be_too_many_are_refused_and_change_nothing() {
        let mut sums = CounterSums::default();
        let named = |index: usize| Counters::from_iter([("g", index.to_string().as_str(), 1)]);
        let count_max = COUNTERS_MAX + ENGINE_COUNTERS_MAX;
        for index in 0..count_max {
            assert_eq!(sums.admit(&named(index), 1), Ok(()));
            sums.add(&named(index));
        }
        let refused = Err(Excess::Counters(CountersError::TooMany));
        assert_eq!(sums.admit(&named(count_max), 1), refused);
        assert_eq!(sums.admit(&named(0), 1), Ok(()), "a known one");
        assert_eq!(sums.totals().count(), count_max);
    }

    #[test]
    fn sums_that_do_not_fit_stay_at_the_largest_value_and_come_back() {
        let mut sums = CounterSums::default();
        let large = Counters::from_iter([("g", "x", u64::MAX)]);
        sums.add(&Counters::from_iter([("g", "x", 1)]));
        let tallies = [sums.add(&large), sums.add(&large), sums.add(&large)];
        assert_eq!(sums.totals(), large);
        assert_eq!(sums.sum_of(tallies.iter()), large);
        tallies.iter().for_each(|tally| sums.subtract(tally));
        assert_eq!(sums.totals().value("g", "x"), 1);
    }

    #[test]
    fn what_only_the_jobtracker_counts_is_not_taken_of_tasks() {
        for (group, name) in
            [("Job Counters", "TOTAL_LAUNCHED_MAPS"), ("Engine", "SPECULATIVE_WON")]
        {
            let counters = Counters::from_iter([(group, name, 7)]);
            let refused = CounterSums::default().admit(&counters, 1);
            assert!(matches!(refused, Err(Excess::Counters(CountersError::Reserved { .. }))));
        }
    }

    #[test]
    fn the_values_of_all_tasks_are_bounded() {
        let mut sums = CounterSums::default();
        let mut many = Counters::default();
        (0..COUNTERS_MAX).for_each(|index| many.add("g", &index.to_string(), 1));
        let tallies: Vec<Tally> = (0..VALUES_MAX / COUNTERS_MAX).map(|_| sums.add(&many)).collect();
        assert_eq!(sums.admit(&many, 0), Err(Excess::Values));
        assert_eq!(sums.admit(&many, COUNTERS_MAX / VALUES_PER_TASK), Ok(()));
        sums.subtract(&tallies[0]);
        assert_eq!(sums.admit(&many, 0), Ok(()), "what is taken back counts no more");
    }
}

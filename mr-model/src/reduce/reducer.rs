//! The reduce side of a job: [`Reducer`], [`Values`], closures and folds as reducers.

use std::cell::Cell;
use std::marker::PhantomData;

use mr_formats::ToText;
use protocol::tracker::HotKey;
use shuffle::{ReduceInput, ReduceStats};

use super::fold::Fold;
use super::heaviest::Heaviest;
use crate::datum::{Datum, Key};
use crate::error::Result;
use crate::task::phases::REDUCE_START_PROGRESS;
use crate::task::{Context, Counter, Output, TASK_COUNTERS, TaskState};

/// Turns each key with all its values into output.
///
/// Life of one task: the engine clones the job's reducer and calls [`Reducer::setup`] once; [`Reducer::reduce`] for each key of the
/// partition, in key order; [`Reducer::cleanup`] once, also after an error.
pub trait Reducer: Clone + Send + Sync + 'static {
    /// Key of the map output.
    type Key: Key;
    /// Value of the map output (the accumulator if there is a combiner).
    type Value: Datum;

    /// Called before the first group.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn setup(&mut self, _context: &Context) -> Result<()> {
        Ok(())
    }

    /// The loop over the groups of the partition. Override it to process them as a whole; by default it calls [`Reducer::reduce`] for each.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn run(
        &mut self,
        groups: &mut Groups<'_, Self::Key, Self::Value>,
        out: &mut Output,
    ) -> Result<()> {
        while let Some((key, mut values)) = groups.next_group()? {
            self.reduce(key, &mut values, out)?;
        }
        Ok(())
    }

    /// Called for each group. Unread values are skipped.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn reduce(
        &mut self,
        key: <Self::Key as Datum>::View<'_>,
        values: &mut Values<'_, Self::Key, Self::Value>,
        out: &mut Output,
    ) -> Result<()>;

    /// Called after the last group.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn cleanup(&mut self, _out: &mut Output) -> Result<()> {
        Ok(())
    }
}

/// The groups of one partition, one at a time, in key order.
pub struct Groups<'a, K, V> {
    input: ReduceInput,
    key: Vec<u8>,
    /// Groups begun so far, for the report of a failure.
    begun: &'a Cell<u64>,
    context: Context,
    /// Records in all sources together.
    records: u64,
    heaviest: Heaviest,
    /// Records before the current group.
    records_before: u64,
    /// The task's counter of records, and how many of them it has.
    counter: Counter,
    counted: u64,
    types: PhantomData<fn() -> (K, V)>,
}

/// How often a reduce reports its progress, in groups.
const PROGRESS_GROUPS: u64 = 1024;

/// The first key of a group, and its values.
pub type Group<'a, K, V> = (<K as Datum>::View<'a>, Values<'a, K, V>);

impl<'a, K: Key, V: Datum> Groups<'a, K, V> {
    /// The groups of merged segments with this many records; counts those begun in `begun`.
    pub fn new(input: ReduceInput, records: u64, begun: &'a Cell<u64>, context: Context) -> Self {
        Groups {
            input,
            key: Vec::new(),
            begun,
            counter: TaskState::of(&context).counter_of(TASK_COUNTERS, "REDUCE_INPUT_RECORDS"),
            context,
            records,
            heaviest: Heaviest::default(),
            records_before: 0,
            counted: 0,
            types: PhantomData,
        }
    }

    /// True if there is no group, and never was one.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The next group: its first key and its values. Unread values of the group before are skipped.
    ///
    /// # Errors
    /// If the input cannot be read.
    #[inline]
    pub fn next_group(&mut self) -> Result<Option<Group<'_, K, V>>> {
        let is_more = self.input.next_group()?;
        let records = self.input.stats().records;
        self.heaviest.group(&self.key, records - self.records_before);
        self.records_before = records;
        if !is_more {
            return Ok(None);
        }
        let begun = self.begun.get() + 1;
        self.begun.set(begun);
        if begun.is_multiple_of(PROGRESS_GROUPS) {
            let share = self.input.stats().records as f64 / self.records.max(1) as f64;
            let rest = 1.0 - REDUCE_START_PROGRESS;
            TaskState::of(&self.context).set_progress(REDUCE_START_PROGRESS + rest * share);
            self.count();
        }
        self.key.clear();
        self.key.extend_from_slice(self.input.key());
        Ok(Some((K::read(&self.key)?, Values::new(&mut self.input))))
    }

    /// Brings the task's counter of records up to date.
    pub(crate) fn count(&mut self) {
        let records = self.input.stats().records;
        self.counter.add(records - std::mem::replace(&mut self.counted, records));
    }

    pub(crate) fn stats(&self) -> ReduceStats {
        self.input.stats()
    }

    /// Keys with a large share of the records, once the reduce has read all groups.
    pub(crate) fn hot_keys(&self) -> Vec<HotKey> {
        self.heaviest.of::<K>(self.records_before)
    }
}

/// The values of one group, one at a time: each is borrowed until the next one is read.
pub struct Values<'a, K, V> {
    input: &'a mut ReduceInput,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'a, K: Key, V: Datum> Values<'a, K, V> {
    pub(crate) fn new(input: &'a mut ReduceInput) -> Self {
        Values { input, types: PhantomData }
    }

    pub(crate) fn input(&mut self) -> &mut ReduceInput {
        self.input
    }

    /// The next value; `None` at the end of the group.
    ///
    /// # Errors
    /// If the input cannot be read.
    #[inline]
    pub fn next_value(&mut self) -> Result<Option<V::View<'_>>> {
        match self.input.next_value()? {
            Some(bytes) => Ok(Some(V::read(bytes)?)),
            None => Ok(None),
        }
    }

    /// The whole key of the value read last. Differs within a group only if groups are narrower than the sort order.
    ///
    /// # Errors
    /// If the key does not decode.
    pub fn current_key(&self) -> Result<K::View<'_>> {
        Ok(K::read(self.input.key())?)
    }

    /// Folds all values into one accumulator; `None` if there are none left.
    ///
    /// # Errors
    /// If the input cannot be read.
    #[inline]
    pub fn fold<F: Fold<V>>(&mut self, fold: &F) -> Result<Option<F::Acc>> {
        let Some(first) = self.next_value()? else { return Ok(None) };
        let mut sum = fold.lift(first);
        while let Some(value) = self.next_value()? {
            fold.merge(&mut sum, fold.lift(value));
        }
        Ok(Some(sum))
    }

    /// Counts all values.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn count(&mut self) -> Result<u64> {
        let mut count = 0;
        while self.input.next_value()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

/// A closure as [`Reducer`]; made by [`reduce_fn`].
pub struct ReduceFn<K, V, C> {
    closure: C,
    types: PhantomData<fn() -> (K, V)>,
}

/// Makes a reducer of a closure.
pub fn reduce_fn<K, V, C>(closure: C) -> ReduceFn<K, V, C>
where
    K: Key,
    V: Datum,
    C: Fn(K::View<'_>, &mut Values<'_, K, V>, &mut Output) -> Result<()>
        + Clone
        + Send
        + Sync
        + 'static,
{
    ReduceFn { closure, types: PhantomData }
}

impl<K, V, C: Clone> Clone for ReduceFn<K, V, C> {
    fn clone(&self) -> Self {
        ReduceFn { closure: self.closure.clone(), types: PhantomData }
    }
}

impl<K, V, C> Reducer for ReduceFn<K, V, C>
where
    K: Key,
    V: Datum,
    C: Fn(K::View<'_>, &mut Values<'_, K, V>, &mut Output) -> Result<()>
        + Clone
        + Send
        + Sync
        + 'static,
{
    type Key = K;
    type Value = V;

    fn reduce(
        &mut self,
        key: K::View<'_>,
        values: &mut Values<'_, K, V>,
        out: &mut Output,
    ) -> Result<()> {
        (self.closure)(key, values, out)
    }
}

/// A [`Fold`] as reducer of values that were not combined: lifts each.
pub struct LiftReducer<F, K, V> {
    pub(crate) fold: F,
    pub(crate) types: PhantomData<fn() -> (K, V)>,
}

/// A [`Fold`] as reducer of its own combined values: merges accumulators.
pub struct MergeReducer<F, K, V> {
    pub(crate) fold: F,
    pub(crate) types: PhantomData<fn() -> (K, V)>,
}

impl<F: Clone, K, V> Clone for LiftReducer<F, K, V> {
    fn clone(&self) -> Self {
        LiftReducer { fold: self.fold.clone(), types: PhantomData }
    }
}

impl<F: Clone, K, V> Clone for MergeReducer<F, K, V> {
    fn clone(&self) -> Self {
        MergeReducer { fold: self.fold.clone(), types: PhantomData }
    }
}

impl<F: Fold<V>, K: Key, V: Datum> Reducer for LiftReducer<F, K, V>
where
    for<'a> K::View<'a>: ToText,
    F::Acc: ToText,
{
    type Key = K;
    type Value = V;

    fn reduce(
        &mut self,
        key: K::View<'_>,
        values: &mut Values<'_, K, V>,
        out: &mut Output,
    ) -> Result<()> {
        match values.fold(&self.fold)? {
            Some(sum) => out.write(key, sum),
            None => Ok(()),
        }
    }
}

impl<F: Fold<V>, K: Key, V: Datum> Reducer for MergeReducer<F, K, V>
where
    for<'a> K::View<'a>: ToText,
    F::Acc: ToText,
{
    type Key = K;
    type Value = F::Acc;

    fn reduce(
        &mut self,
        key: K::View<'_>,
        values: &mut Values<'_, K, F::Acc>,
        out: &mut Output,
    ) -> Result<()> {
        let Some(first) = values.next_value()? else { return Ok(()) };
        let mut sum = F::Acc::own(first);
        while let Some(value) = values.next_value()? {
            self.fold.merge(&mut sum, F::Acc::own(value));
        }
        out.write(key, sum)
    }
}

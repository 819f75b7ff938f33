//! Counters, by name or typed: the variants of an enum instead of strings, so that a mistyped name does not compile.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::jobs::Counters;

/// A named sum. Clones share it; adding is cheap enough for every record.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    parts: Arc<Parts>,
}

/// What was added, and what was subtracted: apart, so that the sum does not depend on what came first.
#[derive(Debug, Default)]
struct Parts {
    added: AtomicU64,
    subtracted: AtomicU64,
}

/// The amounts of a counter at some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amounts {
    added: u64,
    subtracted: u64,
}

impl Counter {
    /// Adds `amount`.
    #[inline]
    pub fn add(&self, amount: u64) {
        add(&self.parts.added, amount);
    }

    /// Adds or subtracts, in any order. A sum of the task that is below 0 in the end counts as 0.
    pub fn add_signed(&self, amount: i64) {
        let part = if amount < 0 { &self.parts.subtracted } else { &self.parts.added };
        add(part, amount.unsigned_abs());
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    pub(super) fn set(&self, amounts: Amounts) {
        self.parts.added.store(amounts.added, Ordering::Relaxed);
        self.parts.subtracted.store(amounts.subtracted, Ordering::Relaxed);
    }

    pub(super) fn amounts(&self) -> Amounts {
        let load = |part: &AtomicU64| part.load(Ordering::Relaxed);
        Amounts { added: load(&self.parts.added), subtracted: load(&self.parts.subtracted) }
    }

    /// The sum in this task so far.
    pub fn value(&self) -> u64 {
        let Amounts { added, subtracted } = self.amounts();
        added.saturating_sub(subtracted)
    }
}

/// Adds to a sum, which stays at the largest number that fits.
#[inline]
fn add(sum: &AtomicU64, amount: u64) {
    if sum.fetch_add(amount, Ordering::Relaxed).checked_add(amount).is_none() {
        sum.store(u64::MAX, Ordering::Relaxed);
    }
}

/// An enum whose variants are counters of one group; made by [`counters!`](crate::counters).
pub trait CounterGroup: Copy + Send + Sync + 'static {
    /// Name of the group: the enum's.
    const GROUP: &'static str;
    /// Names of the counters: the variants', in order.
    const NAMES: &'static [&'static str];

    /// Index of the variant in [`CounterGroup::NAMES`].
    fn index(self) -> usize;
}

/// Declares an enum of counters.
///
/// ```
/// use mr_api::task::{CounterGroup, counted};
/// use mr_api::{Emit, Job, Line, Lines, LocalRunner, Mapper, Result, Sink, counters, text, text_out};
///
/// counters! {
///     /// What became of the lines.
///     enum Quality {
///         /// Those with a word.
///         Good,
///         Empty,
///     }
/// }
///
/// #[derive(Clone)]
/// struct First;
///
/// impl Mapper for First {
///     type In = Lines;
///     type Key = Vec<u8>;
///     type Value = ();
///
///     fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<Vec<u8>, (), S>) -> Result<()> {
///         match line.words().next() {
///             Some(word) => {
///                 out.count(Quality::Good);
///                 out.emit(word, ())
///             }
///             None => {
///                 out.count(Quality::Empty);
///                 Ok(())
///             }
///         }
///     }
/// }
///
/// # let scratch = tempfile::tempdir()?;
/// # let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
/// # std::fs::write(path("in"), "a\n\nb\n")?;
/// let job = Job::new("first").input(text([path("in")])).map(First).output(text_out(path("out")));
/// let counters = LocalRunner::new().run(job)?;
/// assert_eq!(counted(&counters[0], Quality::Good), 2);
/// assert_eq!(counters[0].value("Quality", "Empty"), 1);
/// # assert_eq!(Quality::NAMES, ["Good", "Empty"]);
/// # Ok::<(), mr_api::BoxError>(())
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* $visible:vis enum $group:ident {
        $($(#[$variant_meta:meta])* $variant:ident),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $visible enum $group {
            $($(#[$variant_meta])* $variant),+
        }

        impl $crate::task::CounterGroup for $group {
            const GROUP: &'static str = stringify!($group);
            const NAMES: &'static [&'static str] = &[$(stringify!($variant)),+];

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

/// All counters of a group, looked up once: counting is a single addition. For counters that grow with every record.
pub struct Tally<G> {
    counters: Vec<Counter>,
    group: PhantomData<fn() -> G>,
}

impl<G: CounterGroup> Tally<G> {
    /// Looks up each name of the group with `counter`.
    pub(crate) fn of(counter: impl FnMut(&&str) -> Counter) -> Self {
        Tally { counters: G::NAMES.iter().map(counter).collect(), group: PhantomData }
    }

    /// Adds `amount`.
    #[inline]
    pub fn add(&self, counter: G, amount: u64) {
        // Before `setup` there is no counter to add to.
        if let Some(counter) = self.counters.get(counter.index()) {
            counter.add(amount);
        }
    }
}

/// Counts nothing; for a mapper before its `setup`.
impl<G> Default for Tally<G> {
    fn default() -> Self {
        Tally { counters: Vec::new(), group: PhantomData }
    }
}

impl<G> Clone for Tally<G> {
    fn clone(&self) -> Self {
        Tally { counters: self.counters.clone(), group: PhantomData }
    }
}

/// The value of a counter among those of a job.
pub fn counted<G: CounterGroup>(counters: &Counters, counter: G) -> u64 {
    counters.value(G::GROUP, G::NAMES[counter.index()])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use protocol::{AttemptId, JobId, TaskId, TaskKind};

    use super::*;
    use crate::task::context::Context;
    use crate::task::state::TaskState;

    counters! { enum Shapes { Round, Square } }

    #[test]
    fn what_is_subtracted_first_is_not_lost() {
        let counter = Counter::default();
        counter.add_signed(-5);
        assert_eq!(counter.value(), 0);
        counter.add_signed(3);
        counter.add(10);
        assert_eq!(counter.value(), 8);
        counter.add_signed(i64::MIN);
        assert_eq!(counter.value(), 0);
    }

    #[test]
    fn a_sum_that_is_too_large_stays_large() {
        let counter = Counter::default();
        for _ in 0..3 {
            counter.add_signed(i64::MAX);
            counter.add(u64::MAX / 2);
        }
        assert_eq!(counter.value(), u64::MAX);
    }

    #[test]
    fn the_engines_counters_are_refused_before_and_after_it_counts_there() {
        let task =
            TaskId { job: JobId { cluster_start: 1, number: 1 }, kind: TaskKind::Map, index: 0 };
        for group in crate::task::state::ENGINE_GROUPS {
            for counts_first in [false, true] {
                let context = Context::new(AttemptId { task, number: 0 }, BTreeMap::new());
                let state = TaskState::of(&context);
                if counts_first {
                    state.add_to(group, "MAP_INPUT_RECORDS", 7);
                }
                context.counter(group, "MAP_INPUT_RECORDS").add(1000);
                assert!(state.check_counters().is_err(), "{group} {counts_first}");
                let counted = state.counters().value(group, "MAP_INPUT_RECORDS");
                assert_eq!(counted, if counts_first { 7 } else { 0 }, "{group}");
            }
        }
    }

    #[test]
    fn a_tally_counts_what_single_counts_count() {
        let task =
            TaskId { job: JobId { cluster_start: 1, number: 1 }, kind: TaskKind::Map, index: 0 };
        let context = Context::new(AttemptId { task, number: 0 }, BTreeMap::new());
        Tally::<Shapes>::default().add(Shapes::Round, 5);
        let tally = context.tally::<Shapes>().clone();
        tally.add(Shapes::Square, 2);
        context.count(Shapes::Square);
        let counters = TaskState::of(&context).counters();
        assert_eq!((counted(&counters, Shapes::Round), counted(&counters, Shapes::Square)), (0, 3));
        assert_eq!(counters.value("Shapes", "Square"), 3);
    }
}

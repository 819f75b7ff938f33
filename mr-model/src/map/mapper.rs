//! The map side of a job: [`Mapper`], [`Emit`], and closures as mappers.

use std::marker::PhantomData;

use mr_formats::Format;
use shuffle::Life;

use super::records::Records;
use crate::datum::{Datum, Key, Put};
use crate::error::{BoxError, Error, Result};
use crate::task::{Context, Counter, CounterGroup, TaskState};

/// Turns input records into key-value pairs.
///
/// Life of one mapper: the engine clones the job's mapper and calls [`Mapper::setup`] once; [`Mapper::map`] for every record of the split, in
/// order; [`Mapper::cleanup`] once, also after an error. A task that reads several small files gives each a mapper of its own. Then it
/// sorts and writes the output.
///
/// `map` is compiled together with the loop that reads records and the code that takes its pairs: no indirect call and no allocation per
/// record. The type parameter `S` exists for that.
///
/// ```
/// use mr_api::{Emit, Line, Lines, Mapper, Result, Sink};
///
/// #[derive(Clone)]
/// struct Words;
///
/// impl Mapper for Words {
///     type In = Lines;
///     type Key = Vec<u8>;
///     type Value = u64;
///
///     fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<Vec<u8>, u64, S>) -> Result<()> {
///         line.words().try_for_each(|word| out.emit(word, 1u64))
///     }
/// }
/// ```
pub trait Mapper: Clone + Send + Sync + 'static {
    /// The input's format.
    type In: Format;
    /// Key of the output.
    type Key: Key;
    /// Value of the output.
    type Value: Datum;

    /// Called before the first record.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn setup(&mut self, _context: &Context) -> Result<()> {
        Ok(())
    }

    /// The loop over the records of the split. Override it to process the split as a whole; by default it calls [`Mapper::map`] for each.
    ///
    /// # Errors
    /// Any error fails the attempt; the report names file and byte offset of the record read last.
    fn run<S: Sink>(
        &mut self,
        records: Records<'_, Self::In>,
        out: &mut Emit<Self::Key, Self::Value, S>,
    ) -> Result<()> {
        records.for_each(|record| self.map(record, out))
    }

    /// Called for each record.
    ///
    /// # Errors
    /// Any error fails the attempt; the report names file and byte offset of the record.
    fn map<S: Sink>(
        &mut self,
        record: <Self::In as Format>::Record<'_>,
        out: &mut Emit<Self::Key, Self::Value, S>,
    ) -> Result<()>;

    /// Called after the last record.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn cleanup<S: Sink>(&mut self, _out: &mut Emit<Self::Key, Self::Value, S>) -> Result<()> {
        Ok(())
    }
}

/// Ends the reading of the split (of a small file, if a task reads several): return it from [`Mapper::map`], from a closure as mapper, or from anything that is called for each
/// record. It is no failure. The rest of the split is not read, [`Mapper::cleanup`] is called, and what was emitted counts.
///
/// Other maps of the job read on. For a result of the job as a whole, let one reduce take the first of what they emit.
///
/// ```
/// use mr_api::map::enough;
/// use mr_api::testing::JobDriver;
/// use mr_api::{Emit, Job, Line, Lines, Mapper, Result, Sink, text, text_out};
///
/// /// The first lines of each split.
/// #[derive(Clone)]
/// struct Head(u64);
///
/// impl Mapper for Head {
///     type In = Lines;
///     type Key = Vec<u8>;
///     type Value = ();
///
///     fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<Vec<u8>, (), S>) -> Result<()> {
///         if self.0 == 0 {
///             return enough();
///         }
///         self.0 -= 1;
///         out.emit(line.bytes, ())
///     }
/// }
///
/// let run = JobDriver::new().file("in", "a\nb\nc\nd\n").run(|path| {
///     let job = Job::new("head").input(text([path("in")])).map(Head(2));
///     Ok(job.output(text_out(path("out"))).into())
/// })?;
/// assert_eq!(run.text("part"), "a\nb\n");
/// # Ok::<(), mr_api::BoxError>(())
/// ```
///
/// # Errors
/// Always, by design: [`Error::SeenEnough`], which whoever reads records takes for the end.
pub fn enough<T>() -> Result<T> {
    Err(Error::SeenEnough.into())
}

/// True for the error of [`enough`].
pub fn has_seen_enough(error: &BoxError) -> bool {
    matches!(error.downcast_ref(), Some(Error::SeenEnough))
}

/// The result of code that reads records, for which having seen enough is no failure.
///
/// # Errors
/// All others.
pub fn until_enough(read: Result<()>) -> Result<()> {
    read.or_else(|error| if has_seen_enough(&error) { Ok(()) } else { Err(error) })
}

/// Takes encoded pairs; implemented by the engine.
pub trait Sink: Send + 'static {
    /// Takes one pair.
    ///
    /// # Errors
    /// Errors of the engine: a full disk, an oversized record.
    fn accept(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
}

/// Where a mapper sends its pairs.
pub struct Emit<K, V, S: ?Sized = dyn Sink> {
    key: Vec<u8>,
    value: Vec<u8>,
    context: Context,
    life: Life,
    types: PhantomData<fn(K, V)>,
    sink: S,
}

impl<K: Key, V: Datum, S: Sink> Emit<K, V, S> {
    /// Sends pairs to `sink`.
    pub fn new(context: Context, sink: S) -> Self {
        let life = TaskState::of(&context).life();
        Emit { key: Vec::new(), value: Vec::new(), context, life, types: PhantomData, sink }
    }

    pub(crate) fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Where the pairs went.
    pub fn into_sink(self) -> S {
        self.sink
    }
}

impl<K: Key, V: Datum, S: Sink + ?Sized> Emit<K, V, S> {
    /// Emits one pair. `key` and `value` are anything that can be written as `K` and `V`: `out.emit("word", 1u64)` for
    /// `K = String`, `V = u64`.
    ///
    /// # Errors
    /// Errors of the engine; pass them on with `?`.
    #[inline(always)]
    pub fn emit(&mut self, key: impl Put<K>, value: impl Put<V>) -> Result<()> {
        let Emit { key: key_scratch, value: value_scratch, sink, life, .. } = self;
        life.show();
        key.with_bytes(key_scratch, |key| {
            value.with_bytes(value_scratch, |value| sink.accept(key, value))
        })
    }

    /// The task's context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// A counter; see [`Context::counter`].
    pub fn counter(&self, group: &str, name: &str) -> Counter {
        self.context.counter(group, name)
    }

    /// Adds one to a counter of a [`counters!`](crate::counters) enum.
    pub fn count<G: CounterGroup>(&self, counter: G) {
        self.context().count(counter);
    }
}

/// Types that a closure's own type does not name.
type Types<F, K, V> = PhantomData<fn() -> (F, K, V)>;

/// A closure as [`Mapper`]; made by [`map_fn`].
pub struct MapFn<F, K, V, C> {
    closure: C,
    types: Types<F, K, V>,
}

/// Makes a mapper of a closure. Each emitted pair costs an indirect call; implement [`Mapper`] where that matters.
pub fn map_fn<F, K, V, C>(closure: C) -> MapFn<F, K, V, C>
where
    F: Format,
    K: Key,
    V: Datum,
    C: Fn(F::Record<'_>, &mut Emit<K, V>) -> Result<()> + Clone + Send + Sync + 'static,
{
    MapFn { closure, types: PhantomData }
}

impl<F, K, V, C: Clone> Clone for MapFn<F, K, V, C> {
    fn clone(&self) -> Self {
        MapFn { closure: self.closure.clone(), types: PhantomData }
    }
}

impl<F, K, V, C> Mapper for MapFn<F, K, V, C>
where
    F: Format,
    K: Key,
    V: Datum,
    C: Fn(F::Record<'_>, &mut Emit<K, V>) -> Result<()> + Clone + Send + Sync + 'static,
{
    type In = F;
    type Key = K;
    type Value = V;

    #[inline]
    fn map<S: Sink>(&mut self, record: F::Record<'_>, out: &mut Emit<K, V, S>) -> Result<()> {
        (self.closure)(record, out)
    }
}

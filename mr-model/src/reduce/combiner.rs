//! Combiners: a reducing step on the map side, written like a reducer and usable as one.
//!
//! A combiner runs over the contents of the sort buffer at each spill. Its pairs are sorted again, so it may emit in any order. It can run
//! any number of times, or not once. Prefer a [`Fold`](crate::Fold) where there is one: it combines in a hash table before anything is
//! sorted.

use std::marker::PhantomData;

use mr_formats::ToText;
use shuffle::{ReduceInput, SortedRecords};

use super::reducer::{Reducer, Values};
use crate::datum::{Datum, Key, Put};
use crate::error::Result;
use crate::task::{Context, Output};

/// Turns the values of a key into fewer pairs of the same types.
///
/// It runs over each filling of a map's sort buffer, so it can run any number of times on its own output, or not once. Its result must not
/// depend on how often it runs, nor on which values of a key come together. It may emit keys other than its input key.
///
/// ```
/// use mr_api::reduce::{CombineOut, CombineValues, Combiner};
/// use mr_api::{Job, Result, text, text_out};
///
/// /// Keeps the three largest values of each key.
/// #[derive(Clone)]
/// struct TopThree;
///
/// impl Combiner for TopThree {
///     type Key = String;
///     type Value = u64;
///
///     fn combine(
///         &mut self,
///         key: &str,
///         values: &mut CombineValues<'_, u64>,
///         out: &mut CombineOut<'_, String, u64>,
///     ) -> Result<()> {
///         let mut top = Vec::new();
///         while let Some(value) = values.next_value()? {
///             top.push(value);
///             top.sort_unstable_by(|a, b| b.cmp(a));
///             top.truncate(3);
///         }
///         top.into_iter().try_for_each(|value| out.emit(key, value))
///     }
/// }
///
/// let job = Job::new("top-three")
///     .input(text(["/sales"]))
///     .map_fn::<String, u64, _>(|line, out| out.emit("all", line.bytes.len() as u64))
///     .combine(TopThree)
///     .reduce(TopThree)
///     .output(text_out("/top"));
/// # let _ = job;
/// ```
pub trait Combiner: Clone + Send + Sync + 'static {
    /// Key of the map output.
    type Key: Key;
    /// Value of the map output.
    type Value: Datum;

    /// Called for each key.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn combine(
        &mut self,
        key: <Self::Key as Datum>::View<'_>,
        values: &mut CombineValues<'_, Self::Value>,
        out: &mut CombineOut<'_, Self::Key, Self::Value>,
    ) -> Result<()>;
}

/// Combines one filling of the sort buffer: a [`Combiner`] key by key, the command of a streaming job in its own way.
pub trait CombineFilling: Clone + Send + Sync + 'static {
    /// Key of the map output.
    type Key: Key;
    /// Value of the map output.
    type Value: Datum;

    /// Takes all pairs, in order.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn combine_filling(
        &mut self,
        context: &Context,
        pairs: &mut SortedPairs<'_>,
        emit: &mut EmitPair<'_>,
    ) -> Result<()>;
}

impl<C: Combiner> CombineFilling for C {
    type Key = C::Key;
    type Value = C::Value;

    fn combine_filling(
        &mut self,
        _: &Context,
        pairs: &mut SortedPairs<'_>,
        emit: &mut EmitPair<'_>,
    ) -> Result<()> {
        let (mut scratch, mut key) = (Default::default(), Vec::new());
        let take = &mut |key: &[u8], value: &[u8]| emit(key, value);
        while let Some(next) = pairs.peek_key() {
            key.clear();
            key.extend_from_slice(next);
            let mut group = OneKey { pairs, key: &key };
            let mut out = CombineOut { scratch: &mut scratch, take, types: PhantomData };
            let mut values = CombineValues { source: &mut group, types: PhantomData };
            self.combine(C::Key::read(&key)?, &mut values, &mut out)?;
            while group.next_bytes()?.is_some() {}
        }
        Ok(())
    }
}

/// Sorted pairs of one filling of the sort buffer.
pub struct SortedPairs<'a>(SortedRecords<'a>);

impl<'a> SortedPairs<'a> {
    pub(crate) fn new(records: SortedRecords<'a>) -> Self {
        SortedPairs(records)
    }

    #[inline]
    pub(crate) fn peek_key(&self) -> Option<&[u8]> {
        self.0.peek_key()
    }

    /// The next pair, in order.
    #[inline]
    pub fn next_pair(&mut self) -> Option<(&[u8], &[u8])> {
        self.0.next_record()
    }
}

/// Takes the key and value of a combined pair.
pub type EmitPair<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + Send + 'a;

/// Hands out encoded values.
trait ValueSource {
    fn next_bytes(&mut self) -> Result<Option<&[u8]>>;
}

/// The values of one key, one at a time.
pub struct CombineValues<'a, V> {
    source: &'a mut dyn ValueSource,
    types: PhantomData<fn() -> V>,
}

impl<V: Datum> CombineValues<'_, V> {
    /// The next value; `None` at the end of the key.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn next_value(&mut self) -> Result<Option<V::View<'_>>> {
        match self.source.next_bytes()? {
            Some(bytes) => Ok(Some(V::read(bytes)?)),
            None => Ok(None),
        }
    }
}

/// Takes an encoded pair.
type TakePair<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// Takes the pairs of a combiner.
pub struct CombineOut<'a, K, V> {
    scratch: &'a mut [Vec<u8>; 2],
    take: &'a mut TakePair<'a>,
    types: PhantomData<fn(K, V)>,
}

impl<K: Key, V: Datum> CombineOut<'_, K, V> {
    /// Emits one pair.
    ///
    /// # Errors
    /// Errors of the engine; pass them on with `?`.
    pub fn emit(&mut self, key: impl Put<K>, value: impl Put<V>) -> Result<()> {
        let [key_scratch, value_scratch] = &mut *self.scratch;
        key.with_bytes(key_scratch, |key| {
            value.with_bytes(value_scratch, |value| (self.take)(key, value))
        })
    }
}

/// The remaining pairs of one key.
struct OneKey<'a, 'b> {
    pairs: &'a mut SortedPairs<'b>,
    key: &'a [u8],
}

impl ValueSource for OneKey<'_, '_> {
    fn next_bytes(&mut self) -> Result<Option<&[u8]>> {
        if self.pairs.peek_key() != Some(self.key) {
            return Ok(None);
        }
        Ok(self.pairs.next_pair().map(|(_, value)| value))
    }
}

/// A [`Combiner`] as reducer: writes the pairs that it emits.
#[derive(Clone)]
pub struct AsReducer<C>(pub(crate) C);

impl ValueSource for ReduceInput {
    fn next_bytes(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.next_value()?)
    }
}

impl<C: Combiner> Reducer for AsReducer<C>
where
    for<'a> <C::Key as Datum>::View<'a>: ToText,
    for<'a> <C::Value as Datum>::View<'a>: ToText,
{
    type Key = C::Key;
    type Value = C::Value;

    fn reduce(
        &mut self,
        key: <C::Key as Datum>::View<'_>,
        values: &mut Values<'_, C::Key, C::Value>,
        out: &mut Output,
    ) -> Result<()> {
        let take =
            &mut |key: &[u8], value: &[u8]| out.write(C::Key::read(key)?, C::Value::read(value)?);
        let mut out = CombineOut { scratch: &mut Default::default(), take, types: PhantomData };
        let mut values = CombineValues { source: values.input(), types: PhantomData };
        self.0.combine(key, &mut values, &mut out)
    }
}

//! What `Job::reduce` takes: reducers, folds and combiners.

use std::marker::PhantomData;

use mr_formats::ToText;

use crate::datum::{Datum, Key};
use crate::reduce::{AsReducer, Combiner, Fold, LiftReducer, MergeReducer, Reducer};

/// Marks that a [`Reducer`] was given.
pub struct ByReducer;
/// Marks that a [`Fold`] was given.
pub struct ByFold;

/// What can reduce values that were not combined.
pub trait IntoReducer<K: Key, V: Datum, Kind> {
    /// The reducer that does it.
    type Reducer: Reducer<Key = K, Value = V>;
    /// Makes it.
    fn into_reducer(self) -> Self::Reducer;
}

impl<K: Key, V: Datum, R: Reducer<Key = K, Value = V>> IntoReducer<K, V, ByReducer> for R {
    type Reducer = R;

    fn into_reducer(self) -> R {
        self
    }
}

impl<K: Key, V: Datum, F: Fold<V>> IntoReducer<K, V, ByFold> for F
where
    for<'a> K::View<'a>: ToText,
    F::Acc: ToText,
{
    type Reducer = LiftReducer<F, K, V>;

    fn into_reducer(self) -> Self::Reducer {
        LiftReducer { fold: self, types: PhantomData }
    }
}

/// Marks that a [`Combiner`] was given.
pub struct ByCombiner;

impl<K: Key, V: Datum, C: Combiner<Key = K, Value = V>> IntoReducer<K, V, ByCombiner> for C
where
    for<'a> K::View<'a>: ToText,
    for<'a> V::View<'a>: ToText,
{
    type Reducer = AsReducer<C>;

    fn into_reducer(self) -> AsReducer<C> {
        AsReducer(self)
    }
}

/// What can reduce the accumulators of the combiner `F`.
pub trait IntoMerger<K: Key, V: Datum, F: Fold<V>, Kind> {
    /// The reducer that does it.
    type Reducer: Reducer<Key = K, Value = F::Acc>;
    /// Makes it.
    fn into_merger(self) -> Self::Reducer;
}

impl<K: Key, V: Datum, F: Fold<V>, R: Reducer<Key = K, Value = F::Acc>>
    IntoMerger<K, V, F, ByReducer> for R
{
    type Reducer = R;

    fn into_merger(self) -> R {
        self
    }
}

impl<K: Key, V: Datum, F: Fold<V>> IntoMerger<K, V, F, ByFold> for F
where
    for<'a> K::View<'a>: ToText,
    F::Acc: ToText,
{
    type Reducer = MergeReducer<F, K, V>;

    fn into_merger(self) -> Self::Reducer {
        MergeReducer { fold: self, types: PhantomData }
    }
}

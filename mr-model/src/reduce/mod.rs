//! The reduce side of a job, as its author writes it: reducers, and folds and combiners, which reduce on the map side already.

pub(crate) mod combiner;
mod fold;
mod heaviest;
mod reducer;

pub use combiner::{AsReducer, CombineOut, CombineValues, Combiner};
pub use fold::{Count, Fold, Max, Min, Sum};
pub use reducer::{Group, Groups, LiftReducer, MergeReducer, ReduceFn, Reducer, Values, reduce_fn};

pub(crate) use combiner::{CombineFilling, SortedPairs};

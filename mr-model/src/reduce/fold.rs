//! Folds: reductions in parts, which serve as combiner and as reducer.
//!
//! Invariant required of every [`Fold`]: `merge` is associative and commutative. The engine may therefore merge in any grouping and order,
//! on the map side, during the merge, and in the reduce.

use crate::datum::{Datum, Put};

/// A reduction in parts: [`Fold::lift`] makes an accumulator from one value, [`Fold::merge`] joins two.
///
/// As a combiner it lets the engine keep one accumulator per key in a hash table instead of sorting every record.
///
/// ```
/// use mr_api::Fold;
///
/// /// Mean without losing precision to the order of combining: sum and number of values.
/// #[derive(Clone)]
/// struct Mean;
///
/// impl Fold<u64> for Mean {
///     type Acc = (u64, u64);
///     fn lift(&self, value: u64) -> (u64, u64) {
///         (value, 1)
///     }
///     fn merge(&self, into: &mut (u64, u64), other: (u64, u64)) {
///         into.0 += other.0;
///         into.1 += other.1;
///     }
/// }
/// ```
pub trait Fold<V: Datum>: Clone + Send + Sync + 'static {
    /// The accumulator: small, and a datum, because it travels from maps to reduces.
    type Acc: Datum + Put<Self::Acc> + Clone;

    /// The accumulator of one value.
    fn lift(&self, value: V::View<'_>) -> Self::Acc;

    /// Joins `other` into `into`.
    fn merge(&self, into: &mut Self::Acc, other: Self::Acc);
}

/// Sum of numbers. An integer sum that overflows panics, which fails the task with a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum;

/// Least of numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Min;

/// Greatest of numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;

/// How many values there are, of any type.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count;

macro_rules! number_fold {
    ($fold:ty, $type:ty, $merge:expr) => {
        impl Fold<$type> for $fold {
            type Acc = $type;

            #[inline]
            fn lift(&self, value: $type) -> $type {
                value
            }

            #[inline]
            fn merge(&self, into: &mut $type, other: $type) {
                *into = ($merge)(*into, other);
            }
        }
    };
}

macro_rules! number_folds {
    ($($type:ty, $add:expr;)*) => {$(
        number_fold!(Sum, $type, $add);
        number_fold!(Min, $type, |a: $type, b: $type| a.min(b));
        number_fold!(Max, $type, |a: $type, b: $type| a.max(b));
    )*};
}

macro_rules! integer_folds {
    ($($type:ty)*) => {
        number_folds! { $(
            $type,
            |a: $type, b: $type| match a.checked_add(b) {
                Some(sum) => sum,
                None => overflow(stringify!($type)),
            };
        )* }
    };
}

integer_folds! { u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 }
number_folds! { f32, |a, b| a + b; f64, |a, b| a + b; }

impl<V: Datum> Fold<V> for Count {
    type Acc = u64;

    #[inline]
    fn lift(&self, _: V::View<'_>) -> u64 {
        1
    }

    #[inline]
    fn merge(&self, into: &mut u64, other: u64) {
        *into += other;
    }
}

#[cold]
fn overflow(number: &str) -> ! {
    panic!("a sum does not fit its type {number}")
}

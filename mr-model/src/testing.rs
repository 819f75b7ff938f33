//! Checks on examples what keys and folds promise, for the tests of their authors.

use std::fmt::Debug;

use crate::datum::{Datum, Key, Put};
use crate::reduce::Fold;

/// Panics unless the encodings of `values` sort as the values do and read back as the original values, alone and as the first element of a
/// tuple.
pub fn assert_order_preserving<K: Key + Put<K> + PartialOrd + Debug>(values: &[K]) {
    let encode = |value: &K| {
        let (mut alone, mut part) = (Vec::new(), Vec::new());
        value.put(&mut alone);
        value.put_part(&mut part);
        (alone, part)
    };
    for a in values {
        let (a_alone, a_part) = encode(a);
        let read = K::own(K::read(&a_alone).expect("an encoding reads back"));
        assert!(read == *a, "{a:?} reads back as {read:?}");
        let mut followed = a_part.clone();
        followed.push(0xff);
        let mut rest = &followed[..];
        let read = K::own_part(K::read_part(&mut rest).expect("a part reads back"));
        assert!(
            read == *a && rest == [0xff],
            "{a:?} reads back from a tuple as {read:?}, leaving {rest:?}"
        );
        for b in values {
            let (b_alone, b_part) = encode(b);
            let order = a.partial_cmp(b).expect("keys have a total order");
            assert_eq!(a_alone.cmp(&b_alone), order, "{a:?} and {b:?}: {a_alone:x?} {b_alone:x?}");
            assert_eq!(
                a_part.cmp(&b_part),
                order,
                "{a:?} and {b:?} as parts: {a_part:x?} {b_part:x?}"
            );
            assert!(
                a_part == b_part || !b_part.starts_with(&a_part),
                "the part {a:?} is a prefix of the part {b:?}"
            );
        }
    }
}

/// Panics unless `fold` keeps its promises on `values`: merging is associative and commutative (in the encodings of accumulators), and an
/// accumulator reads back as the original.
pub fn assert_fold_laws<V, F>(fold: &F, values: &[V])
where
    V: Datum + Put<V>,
    F: Fold<V>,
{
    let lift = |value: &V| {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        fold.lift(V::read(&bytes).expect("an encoding reads back"))
    };
    let encode = |acc: &F::Acc| {
        let mut bytes = Vec::new();
        acc.put(&mut bytes);
        bytes
    };
    let merged = |mut a: F::Acc, b: F::Acc| {
        fold.merge(&mut a, b);
        a
    };
    for a in values {
        let alone = encode(&lift(a));
        let again = F::Acc::own(F::Acc::read(&alone).expect("an accumulator reads back"));
        assert_eq!(encode(&again), alone, "an accumulator changes when it is written and read");
        for b in values {
            let (left, right) = (merged(lift(a), lift(b)), merged(lift(b), lift(a)));
            assert_eq!(encode(&left), encode(&right), "merging is not commutative");
            for c in values {
                let left = merged(merged(lift(a), lift(b)), lift(c));
                let right = merged(lift(a), merged(lift(b), lift(c)));
                assert_eq!(encode(&left), encode(&right), "merging is not associative");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Max, Min, Sum};

    #[test]
    fn the_folds_of_this_crate_keep_the_laws() {
        let values = [0u64, 1, 7, u64::MAX / 4];
        assert_fold_laws(&Sum, &values);
        assert_fold_laws(&Max, &values);
        assert_fold_laws(&Min, &values);
    }

    /// Keeps the first value: neither order nor grouping may matter, but here order does.
    #[derive(Clone)]
    struct First;

    impl Fold<u64> for First {
        type Acc = u64;

        fn lift(&self, value: u64) -> u64 {
            value
        }

        fn merge(&self, _: &mut u64, _: u64) {}
    }

    #[test]
    fn a_fold_that_breaks_them_is_caught() {
        let caught = crate::guard::guard(|| {
            assert_fold_laws(&First, &[1u64, 2]);
            Ok(())
        });
        assert!(caught.unwrap_err().contains("not commutative"));
    }
}

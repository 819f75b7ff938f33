//! Helpers for the tests of job authors.

use std::fmt::Debug;

use crate::datum::{Key, Put};

/// Panics unless the encodings of `values` order as the values do and read back as what they were written from, alone and as the first
/// element of a tuple.
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

pub use crate::local::LocalRunner;

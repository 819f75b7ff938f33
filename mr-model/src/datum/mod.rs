//! What can be a map output key or value, and how it becomes bytes.
//!
//! Invariants: for a [`Key`], the order of the encodings as bytes is the order of the values, alone and inside tuples; a *part* encoding
//! (used for all but the last element of a tuple) is never a prefix of another part encoding, so a reader finds its end; writing allocates
//! nothing once its buffer has grown; reading never panics, whatever the bytes are.
//!
//! | type | encoding when last | encoding as part |
//! |---|---|---|
//! | unsigned integers | big endian | same |
//! | signed integers | sign bit flipped, big endian | same |
//! | `f32`, `f64` | IEEE bits ordered, NaN and -0.0 made canonical | same |
//! | `bool` | 0 or 1 | same |
//! | `String`, `Vec<u8>` | the bytes | `00` as `00 FF`, ended by `00 00` |
//! | `Option<T>` | 0, or 1 and `T` | 0, or 1 and `T` as part |
//! | [`Desc<T>`](Desc) | `T` as part, every bit inverted | same |
//! | tuples to 6 | all but the last as parts | all as parts |
//! | a derived struct | as the tuple of its fields | same |
//! | a derived enum | a byte with the number of the variant, and the tuple of its fields | same |
//! | [`Serde<T>`](Serde) | postcard's form | `00` as `00 FF`, ended by `00 00` |
//! | `()` | nothing | nothing |

mod bridge;
mod bytes;
mod compound;
mod number;

pub use bridge::Serde;
pub use compound::Desc;
pub use shuffle::DecodeError;

/// A type that can be a map output value (and a key if it is a [`Key`] too).
///
/// User code writes values through [`Put`], without building the datum first, and reads a [`Datum::View`] that borrows from the
/// engine's buffer.
pub trait Datum: Sized + Send + Sync + 'static {
    /// What a reader gets when the value is alone or the last element of a tuple: `u64` for `u64`, `&str` for `String`.
    type View<'a>;
    /// What a reader gets when other elements of the tuple follow: `Cow<str>` for `String`, because the bytes can be escaped.
    type Part<'a>;

    /// Reads an encoding that fills all of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] if `bytes` is no encoding of this type.
    fn read(bytes: &[u8]) -> Result<Self::View<'_>, DecodeError>;

    /// Reads a part encoding from the front of `bytes` and advances `bytes` past it.
    ///
    /// # Errors
    /// [`DecodeError`] if `bytes` does not begin with a part encoding of this type.
    fn read_part<'a>(bytes: &mut &'a [u8]) -> Result<Self::Part<'a>, DecodeError>;

    /// The owned value of a view.
    fn own(view: Self::View<'_>) -> Self;

    /// The owned value of a part.
    fn own_part(part: Self::Part<'_>) -> Self;

    /// Describes an encoding that fills all of `bytes` for people; unprintable bytes are escaped.
    fn describe(bytes: &[u8]) -> String {
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains(char::is_control) => text.to_owned(),
            _ => bytes.escape_ascii().to_string(),
        }
    }

    /// Appends the text of an encoding that fills all of `bytes`, as output files hold it when a job with a reducer runs without reduces.
    /// Returns false if the value has no text, as with `()` and `None`. The default is the text of [`Datum::describe`].
    ///
    /// # Errors
    /// [`DecodeError`] if `bytes` is no encoding of this type.
    fn text(bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        out.extend_from_slice(Self::describe(bytes).as_bytes());
        Ok(true)
    }

    /// Appends the text of a part encoding at the front of `bytes` and advances `bytes` past it.
    ///
    /// # Errors
    /// [`DecodeError`] if `bytes` does not begin with a part encoding of this type.
    fn text_part(bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        let all = *bytes;
        Self::read_part(bytes)?;
        Self::text(&all[..all.len() - bytes.len()], out)
    }

    /// Describes a part encoding at the front of `bytes` for people; advances `bytes` past it.
    ///
    /// # Errors
    /// [`DecodeError`] if `bytes` does not begin with a part encoding of this type.
    fn describe_part(bytes: &mut &[u8]) -> Result<String, DecodeError> {
        let all = *bytes;
        Self::read_part(bytes)?;
        Ok(Self::describe(&all[..all.len() - bytes.len()]))
    }
}

/// A [`Datum`] whose encodings sort as its values do, so sorting and grouping compare bytes.
///
/// Implementing it is a promise; `mr_api::testing::assert_order_preserving` checks it on examples.
pub trait Key: Datum {}

/// Anything that can be written as a `D` without building a `D` first: `&str` as `String`, a tuple of references as a tuple.
pub trait Put<D: Datum> {
    /// Appends the encoding for a value that is alone or last in a tuple.
    fn put(&self, out: &mut Vec<u8>);

    /// Appends the part encoding.
    fn put_part(&self, out: &mut Vec<u8>);

    /// Passes the encoding to `use_bytes`, through `scratch` unless the bytes are ready already.
    #[inline]
    fn with_bytes<T>(&self, scratch: &mut Vec<u8>, use_bytes: impl FnOnce(&[u8]) -> T) -> T {
        scratch.clear();
        self.put(scratch);
        use_bytes(scratch)
    }
}

impl<D: Datum, T: Put<D> + ?Sized> Put<D> for &T {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    #[inline]
    fn put_part(&self, out: &mut Vec<u8>) {
        (**self).put_part(out);
    }

    #[inline]
    fn with_bytes<R>(&self, scratch: &mut Vec<u8>, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
        (**self).with_bytes(scratch, use_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::assert_order_preserving;

    #[test]
    fn keys_are_described_for_people() {
        fn described<D: Datum>(value: &(impl Put<D> + ?Sized)) -> String {
            let mut bytes = Vec::new();
            value.put(&mut bytes);
            D::describe(&bytes)
        }
        let cases = [
            (described::<String>("häuser"), "häuser"),
            (described::<String>("a\nb"), "a\\nb"),
            (described::<Vec<u8>>(&[0u8, 0xff]), "\\x00\\xff"),
            (described::<u64>(&7u64), "7"),
            (described::<i32>(&-7i32), "-7"),
            (described::<f64>(&0.5f64), "0.5"),
            (described::<(String, u32)>(&("a\0b", 7u32)), "a\\x00b, 7"),
            (described::<(u8, i64, String)>(&(1u8, -2i64, "c")), "1, -2, c"),
            (described::<Desc<u64>>(&Desc(9u64)), "9"),
            (described::<(Desc<String>, u8)>(&(Desc("z"), 1u8)), "z, 1"),
            (described::<Option<u16>>(&Some(3u16)), "3"),
            (described::<Option<u16>>(&None::<u16>), "none"),
            (described::<()>(&()), ""),
            (u64::describe(b"short"), "short"),
        ];
        for (text, expected) in cases {
            assert_eq!(text, expected);
        }
    }

    proptest! {
        #[test]
        fn numbers(a: (u8, u16, u32, u64, u128), b: (u8, u16, u32, u64, u128)) {
            assert_order_preserving(&[a, b]);
        }

        #[test]
        fn signed_numbers(a: (i8, i16, i32, i64, i128), b: (i8, i16, i32, i64, i128)) {
            assert_order_preserving(&[a, b]);
        }

        #[test]
        fn strings_alone_and_in_tuples(a in "[\0a\u{1}\u{7f}é]{0,4}", b in "[\0a\u{1}\u{7f}é]{0,4}", n: u32, m: u32) {
            assert_order_preserving(&[a.clone(), b.clone()]);
            assert_order_preserving(&[(a.clone(), n), (b.clone(), m)]);
            assert_order_preserving(&[(a.clone(), b.clone(), true), (b.clone(), a.clone(), false)]);
            assert_order_preserving(&[((n, a.clone()), b.clone()), ((m, b), a)]);
        }

        #[test]
        fn bytes_in_tuples(
            a in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(254), Just(255), any::<u8>()], 0..6),
            b in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(254), Just(255), any::<u8>()], 0..6),
            n: i64, m: i64,
        ) {
            assert_order_preserving(&[a.clone(), b.clone()]);
            assert_order_preserving(&[(a.clone(), n), (b.clone(), m)]);
            assert_order_preserving(&[(a.clone(), b.clone()), (b.clone(), a.clone())]);
            assert_order_preserving(&[Desc(a.clone()), Desc(b.clone())]);
            assert_order_preserving(&[(Desc(a.clone()), n, Desc(m)), (Desc(b.clone()), m, Desc(n))]);
            assert_order_preserving(&[(Some(a.clone()), b.clone()), (None, a), (Some(b.clone()), b)]);
        }

        #[test]
        fn options_and_descending(a: Option<i32>, b: Option<i32>, c: (bool, u16), d: (bool, u16)) {
            assert_order_preserving(&[a, b]);
            assert_order_preserving(&[Desc(a), Desc(b)]);
            assert_order_preserving(&[Some(c), Some(d), None]);
            assert_order_preserving(&[Desc((c, a)), Desc((d, b))]);
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = <(String, u64)>::read(&bytes);
            let _ = <(Vec<u8>, Option<i32>, f64)>::read(&bytes);
            let _ = Desc::<(String, bool)>::read(&bytes);
            let _ = <(Desc<u64>, Desc<String>, String)>::read(&bytes);
            let _ = <(bool, char, Option<String>)>::read(&bytes);
        }
    }

    #[test]
    fn floats_order_by_value() {
        let values =
            [f64::NEG_INFINITY, -1e300, -1.5, -f64::MIN_POSITIVE, 0.0, 1e-310, 2.0, f64::INFINITY];
        for pair in values.windows(2) {
            let encode = |value: f64| {
                let mut out = Vec::new();
                Put::<f64>::put(&value, &mut out);
                out
            };
            assert!(encode(pair[0]) < encode(pair[1]), "{pair:?}");
            assert_eq!(f64::read(&encode(pair[0])), Ok(pair[0]));
            assert!(encode(f64::INFINITY) < encode(f64::NAN));
            assert_eq!(encode(f64::NAN), encode(-f64::NAN));
            assert_eq!(encode(-0.0), encode(0.0));
        }
    }

    #[test]
    fn golden_bytes() {
        let mut out = Vec::new();
        Put::<(String, i16, Option<u8>, Desc<u16>, Vec<u8>)>::put(
            &("a\0", -2i16, Some(7u8), Desc(1u16), b"\0z"),
            &mut out,
        );
        assert_eq!(
            out,
            [b'a', 0, 0xff, 0, 0, 0x7f, 0xfe, 1, 7, 0xff, 0xfe, 0, b'z'],
            "these bytes are what partition numbers are computed from: they never change"
        );
    }
}

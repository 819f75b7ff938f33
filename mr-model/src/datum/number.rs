//! Numbers, `bool`, `char` and `()`: fixed lengths, the same encoding alone and as part of a tuple.

use crate::datum::{Datum, DecodeError, Key, Put};

/// A fixed-length type whose ordered bits are an unsigned integer of the same length.
macro_rules! fixed {
    ($type:ty, $bits:ty, $what:literal, $to_bits:expr, $from_bits:expr) => {
        impl Datum for $type {
            type View<'a> = $type;
            type Part<'a> = $type;

            #[inline]
            fn read(bytes: &[u8]) -> Result<$type, DecodeError> {
                let bytes =
                    bytes.try_into().map_err(|_| DecodeError::new(concat!("not ", $what)))?;
                ($from_bits)(<$bits>::from_be_bytes(bytes))
                    .ok_or(DecodeError::new(concat!("not ", $what)))
            }

            #[inline]
            fn read_part(bytes: &mut &[u8]) -> Result<$type, DecodeError> {
                let (first, rest) = bytes
                    .split_at_checked(size_of::<$bits>())
                    .ok_or(DecodeError::new(concat!("cut off in ", $what)))?;
                *bytes = rest;
                Self::read(first)
            }

            #[inline]
            fn own(view: $type) -> $type {
                view
            }

            #[inline]
            fn own_part(part: $type) -> $type {
                part
            }

            fn describe(bytes: &[u8]) -> String {
                match Self::read(bytes) {
                    Ok(value) => value.to_string(),
                    Err(_) => <Vec<u8>>::describe(bytes),
                }
            }
        }

        impl Key for $type {}

        impl Put<$type> for $type {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                let bits: $bits = ($to_bits)(*self);
                out.extend_from_slice(&bits.to_be_bytes());
            }

            #[inline]
            fn put_part(&self, out: &mut Vec<u8>) {
                self.put(out);
            }

            #[inline(always)]
            fn with_bytes<T>(&self, _: &mut Vec<u8>, use_bytes: impl FnOnce(&[u8]) -> T) -> T {
                let bits: $bits = ($to_bits)(*self);
                use_bytes(&bits.to_be_bytes())
            }
        }
    };
}

macro_rules! integers {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        fixed!($unsigned, $unsigned, "an unsigned integer of this length", |value| value, Some);
        fixed!(
            $signed,
            $unsigned,
            "a signed integer of this length",
            |value: $signed| (value as $unsigned) ^ (1 << (<$unsigned>::BITS - 1)),
            |bits: $unsigned| Some((bits ^ (1 << (<$unsigned>::BITS - 1))) as $signed)
        );
    )*};
}

integers! { u8, i8; u16, i16; u32, i32; u64, i64; u128, i128; }

fixed!(bool, u8, "a bool", u8::from, |bits| match bits {
    0 => Some(false),
    1 => Some(true),
    _ => None,
});
fixed!(char, u32, "a char", u32::from, char::from_u32);

macro_rules! float {
    ($float:ty, $bits:ty, $what:literal) => {
        fixed!(
            $float,
            $bits,
            $what,
            |value: $float| {
                let value = if value.is_nan() { <$float>::NAN.abs() } else { value + 0.0 };
                let (bits, sign) = (value.to_bits(), 1 << (<$bits>::BITS - 1));
                if bits & sign == 0 { bits | sign } else { !bits }
            },
            |bits: $bits| {
                let sign = 1 << (<$bits>::BITS - 1);
                Some(<$float>::from_bits(if bits & sign == 0 { !bits } else { bits ^ sign }))
            }
        );
    };
}

float!(f32, u32, "an f32");
float!(f64, u64, "an f64");

impl Datum for () {
    type View<'a> = ();
    type Part<'a> = ();

    fn read(bytes: &[u8]) -> Result<(), DecodeError> {
        if bytes.is_empty() { Ok(()) } else { Err(DecodeError::new("bytes where none belong")) }
    }

    fn read_part(_: &mut &[u8]) -> Result<(), DecodeError> {
        Ok(())
    }

    fn own((): ()) {}

    fn own_part((): ()) {}

    fn text(bytes: &[u8], _: &mut Vec<u8>) -> Result<bool, DecodeError> {
        Self::read(bytes).map(|()| false)
    }
}

impl Key for () {}

impl Put<()> for () {
    fn put(&self, _: &mut Vec<u8>) {}

    fn put_part(&self, _: &mut Vec<u8>) {}
}

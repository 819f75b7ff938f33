//! Strings and bytes: raw when nothing follows them, escaped and terminated inside tuples.
//!
//! As a part, `00` is written `00 FF` and the end is `00 00`: shorter sorts before longer, and no text can contain the end.

use std::borrow::Cow;

use memchr::memchr;

use crate::datum::{Datum, DecodeError, Key, Put};

const ESCAPED_ZERO: u8 = 0xff;
const END: u8 = 0x00;

impl Datum for Vec<u8> {
    type View<'a> = &'a [u8];
    type Part<'a> = Cow<'a, [u8]>;

    #[inline]
    fn read(bytes: &[u8]) -> Result<&[u8], DecodeError> {
        Ok(bytes)
    }

    fn read_part<'a>(bytes: &mut &'a [u8]) -> Result<Cow<'a, [u8]>, DecodeError> {
        read_escaped(bytes)
    }

    fn own(view: &[u8]) -> Vec<u8> {
        view.to_vec()
    }

    fn own_part(part: Cow<'_, [u8]>) -> Vec<u8> {
        part.into_owned()
    }

    fn describe_part(bytes: &mut &[u8]) -> Result<String, DecodeError> {
        Ok(Self::describe(&read_escaped(bytes)?))
    }

    fn text(bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        out.extend_from_slice(bytes);
        Ok(true)
    }

    fn text_part(bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        out.extend_from_slice(&read_escaped(bytes)?);
        Ok(true)
    }
}

impl Key for Vec<u8> {}

impl Datum for String {
    type View<'a> = &'a str;
    type Part<'a> = Cow<'a, str>;

    #[inline]
    fn read(bytes: &[u8]) -> Result<&str, DecodeError> {
        std::str::from_utf8(bytes).map_err(|_| DecodeError::new("not UTF-8"))
    }

    fn read_part<'a>(bytes: &mut &'a [u8]) -> Result<Cow<'a, str>, DecodeError> {
        let not_utf8 = DecodeError::new("not UTF-8");
        Ok(match read_escaped(bytes)? {
            Cow::Borrowed(bytes) => {
                Cow::Borrowed(std::str::from_utf8(bytes).map_err(|_| not_utf8)?)
            }
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|_| not_utf8)?),
        })
    }

    fn own(view: &str) -> String {
        view.to_owned()
    }

    fn own_part(part: Cow<'_, str>) -> String {
        part.into_owned()
    }

    fn describe_part(bytes: &mut &[u8]) -> Result<String, DecodeError> {
        <Vec<u8>>::describe_part(bytes)
    }

    fn text(bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        <Vec<u8>>::text(bytes, out)
    }

    fn text_part(bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        <Vec<u8>>::text_part(bytes, out)
    }
}

impl Key for String {}

/// Types whose bytes are ready are written as those bytes.
macro_rules! put_bytes {
    ($([$($generics:tt)*] $datum:ty, $type:ty, $as_bytes:expr;)*) => {$(
        impl<$($generics)*> Put<$datum> for $type {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(($as_bytes)(self));
            }

            #[inline]
            fn put_part(&self, out: &mut Vec<u8>) {
                put_escaped(($as_bytes)(self), out);
            }

            #[inline(always)]
            fn with_bytes<T>(&self, _: &mut Vec<u8>, use_bytes: impl FnOnce(&[u8]) -> T) -> T {
                use_bytes(($as_bytes)(self))
            }
        }
    )*};
}

put_bytes! {
    [] Vec<u8>, [u8], |bytes| bytes;
    [const N: usize] Vec<u8>, [u8; N], <[u8; N]>::as_slice;
    [] Vec<u8>, Vec<u8>, Vec::as_slice;
    [] Vec<u8>, Cow<'_, [u8]>, AsRef::<[u8]>::as_ref;
    [] Vec<u8>, str, str::as_bytes;
    [] Vec<u8>, String, String::as_bytes;
    [] String, str, str::as_bytes;
    [] String, String, String::as_bytes;
    [] String, Cow<'_, str>, |text| AsRef::<str>::as_ref(text).as_bytes();
}

fn put_escaped(mut bytes: &[u8], out: &mut Vec<u8>) {
    while let Some(zero) = memchr(0, bytes) {
        out.extend_from_slice(&bytes[..=zero]);
        out.push(ESCAPED_ZERO);
        bytes = &bytes[zero + 1..];
    }
    out.extend_from_slice(bytes);
    out.extend_from_slice(&[0, END]);
}

fn read_escaped<'a>(bytes: &mut &'a [u8]) -> Result<Cow<'a, [u8]>, DecodeError> {
    let cut_off = DecodeError::new("cut off in a string");
    let mut text = Cow::Borrowed(&bytes[..0]);
    loop {
        let zero = memchr(0, bytes).ok_or(cut_off.clone())?;
        let marker = *bytes.get(zero + 1).ok_or(cut_off.clone())?;
        let (chunk, rest) = (&bytes[..zero], &bytes[zero + 2..]);
        match marker {
            END if text.is_empty() => text = Cow::Borrowed(chunk),
            END => text.to_mut().extend_from_slice(chunk),
            ESCAPED_ZERO => {
                text.to_mut().extend_from_slice(chunk);
                text.to_mut().push(0);
            }
            _ => return Err(DecodeError::new("a bad escape in a string")),
        }
        *bytes = rest;
        if marker == END {
            return Ok(text);
        }
    }
}

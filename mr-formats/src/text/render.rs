//! How values look in text output.

use std::borrow::Cow;
use std::io::Write;

use super::line::Line;

/// Something that text output can hold as key or value.
///
/// `()` and `None` are absent: they take no bytes, and no separator is written beside them.
pub trait ToText {
    /// Appends the text.
    fn write_text(&self, out: &mut Vec<u8>);

    /// True if there is nothing to write, not even a separator.
    fn is_absent(&self) -> bool {
        false
    }
}

impl<T: ToText + ?Sized> ToText for &T {
    #[inline]
    fn write_text(&self, out: &mut Vec<u8>) {
        (**self).write_text(out);
    }

    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
}

macro_rules! bytes_text {
    ($($type:ty, $bytes:expr;)*) => {$(
        impl ToText for $type {
            #[inline]
            fn write_text(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(($bytes)(self));
            }
        }
    )*};
}

bytes_text! {
    [u8], |bytes| bytes;
    str, str::as_bytes;
    Vec<u8>, Vec::as_slice;
    String, String::as_bytes;
    Line<'_>, |line: &Self| line.bytes;
    Cow<'_, [u8]>, AsRef::<[u8]>::as_ref;
    Cow<'_, str>, |text| AsRef::<str>::as_ref(text).as_bytes();
}

/// Digits of the longest integer, `i128::MIN`, with its sign.
const DIGITS_MAX: usize = 40;

macro_rules! integer_text {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl ToText for $unsigned {
            #[inline]
            fn write_text(&self, out: &mut Vec<u8>) {
                let (mut digits, mut at, mut rest) = ([0; DIGITS_MAX], DIGITS_MAX, *self);
                loop {
                    at -= 1;
                    digits[at] = b'0' + (rest % 10) as u8;
                    rest /= 10;
                    if rest == 0 {
                        break;
                    }
                }
                out.extend_from_slice(&digits[at..]);
            }
        }

        impl ToText for $signed {
            #[inline]
            fn write_text(&self, out: &mut Vec<u8>) {
                if *self < 0 {
                    out.push(b'-');
                }
                self.unsigned_abs().write_text(out);
            }
        }
    )*};
}

integer_text! { u8, i8; u16, i16; u32, i32; u64, i64; u128, i128; usize, isize; }

macro_rules! display_text {
    ($($type:ty)*) => {$(
        impl ToText for $type {
            fn write_text(&self, out: &mut Vec<u8>) {
                write!(out, "{self}").expect("writing to a vector cannot fail");
            }
        }
    )*};
}

display_text! { f32 f64 bool char }

impl ToText for () {
    fn write_text(&self, _: &mut Vec<u8>) {}

    fn is_absent(&self) -> bool {
        true
    }
}

impl<T: ToText> ToText for Option<T> {
    fn write_text(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write_text(out);
        }
    }

    fn is_absent(&self) -> bool {
        self.as_ref().is_none_or(ToText::is_absent)
    }
}

macro_rules! tuple_text {
    ($first:ident $($rest:ident $index:tt)+) => {
        impl<$first: ToText, $($rest: ToText),+> ToText for ($first, $($rest),+) {
            fn write_text(&self, out: &mut Vec<u8>) {
                self.0.write_text(out);
                $(
                    out.push(b'\t');
                    self.$index.write_text(out);
                )+
            }
        }
    };
}

tuple_text!(A B 1);
tuple_text!(A B 1 C 2);
tuple_text!(A B 1 C 2 D 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_display_does() {
        fn check<T: ToText + std::fmt::Display>(values: &[T]) {
            for value in values {
                let mut out = Vec::new();
                value.write_text(&mut out);
                assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
            }
        }
        check(&[0u64, 9, 10, 12345, u64::MAX]);
        check(&[0i128, -1, i128::MIN, i128::MAX]);
        check(&[i8::MIN, -10, 127]);
        check(&[1.5f64, -0.0, f64::INFINITY]);
    }
}

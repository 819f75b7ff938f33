//! Hadoop's Writables: how the keys and values of SequenceFiles become bytes, and the text that `toString` makes of them.
//!
//! | class | bytes |
//! |---|---|
//! | `Text` | VInt length, UTF-8 |
//! | `BytesWritable` | i32 length, bytes |
//! | `ByteWritable`, `ShortWritable`, `IntWritable`, `LongWritable` | big endian |
//! | `FloatWritable`, `DoubleWritable` | IEEE bits, big endian |
//! | `BooleanWritable` | 0 or 1 |
//! | `NullWritable` | nothing |
//! | `VIntWritable`, `VLongWritable` (shown only) | VInt |
//!
//! VInt: one byte from -112 to 127; otherwise a byte that holds sign and length, and the magnitude, big endian.
//!
//! Invariant: reading never panics and must use all bytes, whatever they are.

use std::fmt::{Debug, LowerExp};
use std::io::{self, Write};

use shuffle::DecodeError;

/// A type with a Java class that serialises it the same way.
pub trait Writable {
    /// The class's full name.
    const CLASS: &'static str;
    /// The type that [`Writable::read`] returns.
    type View<'a>;

    /// Appends the serialised form.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads a serialised form that fills all of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] if `bytes` is not a serialised form of this type.
    fn read(bytes: &[u8]) -> Result<Self::View<'_>, DecodeError>;
}

macro_rules! numbers {
    ($($type:ty, $class:literal;)*) => {$(
        impl Writable for $type {
            const CLASS: &'static str = concat!("org.apache.hadoop.io.", $class);
            type View<'a> = $type;

            #[inline]
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn read(bytes: &[u8]) -> Result<$type, DecodeError> {
                Ok(<$type>::from_be_bytes(bytes.try_into().map_err(|_| MALFORMED)?))
            }
        }
    )*};
}

numbers! {
    i8, "ByteWritable";
    i16, "ShortWritable";
    i32, "IntWritable";
    i64, "LongWritable";
    f32, "FloatWritable";
    f64, "DoubleWritable";
}

impl Writable for bool {
    const CLASS: &'static str = "org.apache.hadoop.io.BooleanWritable";
    type View<'a> = bool;

    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(bytes: &[u8]) -> Result<bool, DecodeError> {
        match bytes {
            [byte] => Ok(*byte != 0),
            _ => Err(MALFORMED),
        }
    }
}

impl Writable for () {
    const CLASS: &'static str = "org.apache.hadoop.io.NullWritable";
    type View<'a> = ();

    fn write(&self, _: &mut Vec<u8>) {}

    fn read(bytes: &[u8]) -> Result<(), DecodeError> {
        if bytes.is_empty() { Ok(()) } else { Err(MALFORMED) }
    }
}

impl Writable for str {
    const CLASS: &'static str = TEXT_CLASS;
    type View<'a> = &'a str;

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        put_vint(self.len() as i64, out);
        out.extend_from_slice(self.as_bytes());
    }

    fn read(bytes: &[u8]) -> Result<&str, DecodeError> {
        std::str::from_utf8(text_bytes(bytes)?).map_err(|_| MALFORMED)
    }
}

impl Writable for String {
    const CLASS: &'static str = TEXT_CLASS;
    type View<'a> = &'a str;

    fn write(&self, out: &mut Vec<u8>) {
        self.as_str().write(out);
    }

    fn read(bytes: &[u8]) -> Result<&str, DecodeError> {
        str::read(bytes)
    }
}

impl Writable for [u8] {
    const CLASS: &'static str = "org.apache.hadoop.io.BytesWritable";
    type View<'a> = &'a [u8];

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.len() as u32).to_be_bytes());
        out.extend_from_slice(self);
    }

    fn read(bytes: &[u8]) -> Result<&[u8], DecodeError> {
        let (length, rest) = bytes.split_first_chunk().ok_or(MALFORMED)?;
        if u32::from_be_bytes(*length) as usize == rest.len() { Ok(rest) } else { Err(MALFORMED) }
    }
}

impl Writable for Vec<u8> {
    const CLASS: &'static str = <[u8]>::CLASS;
    type View<'a> = &'a [u8];

    fn write(&self, out: &mut Vec<u8>) {
        self.as_slice().write(out);
    }

    fn read(bytes: &[u8]) -> Result<&[u8], DecodeError> {
        <[u8]>::read(bytes)
    }
}

impl<W: Writable + ?Sized> Writable for &W {
    const CLASS: &'static str = W::CLASS;
    type View<'a> = W::View<'a>;

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        (**self).write(out);
    }

    fn read(bytes: &[u8]) -> Result<W::View<'_>, DecodeError> {
        W::read(bytes)
    }
}

const MALFORMED: DecodeError = DecodeError { reason: "no such Writable" };
pub(crate) const TEXT_CLASS: &str = "org.apache.hadoop.io.Text";

/// The content of a serialised `Text`, which need not be UTF-8.
fn text_bytes(mut bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let length = take_vint(&mut bytes)?;
    if usize::try_from(length) == Ok(bytes.len()) { Ok(bytes) } else { Err(MALFORMED) }
}

/// Appends a VInt as Hadoop's `WritableUtils` writes it.
pub fn put_vint(value: i64, out: &mut Vec<u8>) {
    if (-112..=127).contains(&value) {
        out.push(value as u8);
        return;
    }
    let (first, magnitude) =
        if value < 0 { (-120i64, !value as u64) } else { (-112, value as u64) };
    let count = (8 - magnitude.leading_zeros() as usize / 8).max(1);
    out.push((first - count as i64) as u8);
    out.extend_from_slice(&magnitude.to_be_bytes()[8 - count..]);
}

/// How many bytes follow the first byte of a VInt, and whether the number is negative.
pub(crate) fn vint_rest(first: u8) -> (usize, bool) {
    match first as i8 {
        -112.. => (0, false),
        first @ -120..=-113 => ((-112 - i32::from(first)) as usize, false),
        first => ((-120 - i32::from(first)) as usize, true),
    }
}

/// Reads a VInt from the front.
pub(crate) fn take_vint(bytes: &mut &[u8]) -> Result<i64, DecodeError> {
    let (first, rest) = bytes.split_first().ok_or(MALFORMED)?;
    let (count, negative) = vint_rest(*first);
    let (magnitude, rest) = rest.split_at_checked(count).ok_or(MALFORMED)?;
    *bytes = rest;
    if count == 0 {
        return Ok(i64::from(*first as i8));
    }
    let value = magnitude.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte)) as i64;
    Ok(if negative { !value } else { value })
}

/// Appends the text that `toString` makes of a serialised Writable.
///
/// # Errors
/// [`DecodeError`] if the bytes are not a value of `class`, or the class is not known.
pub fn show(class: &str, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    // Writing to a Vec cannot fail.
    let _ = match class.strip_prefix("org.apache.hadoop.io.").unwrap_or_default() {
        "Text" => {
            out.extend_from_slice(text_bytes(bytes)?);
            return Ok(());
        }
        "IntWritable" => write!(out, "{}", i32::read(bytes)?),
        "LongWritable" => write!(out, "{}", i64::read(bytes)?),
        "ShortWritable" => write!(out, "{}", i16::read(bytes)?),
        "ByteWritable" => write!(out, "{}", i8::read(bytes)?),
        "VIntWritable" | "VLongWritable" => {
            let value = take_vint(&mut bytes)?;
            if !bytes.is_empty() {
                return Err(MALFORMED);
            }
            write!(out, "{value}")
        }
        "BooleanWritable" => write!(out, "{}", bool::read(bytes)?),
        "FloatWritable" => {
            let value = f32::read(bytes)?;
            show_float(value.into(), value, out)
        }
        "DoubleWritable" => {
            let value = f64::read(bytes)?;
            show_float(value, value, out)
        }
        "NullWritable" => {
            <()>::read(bytes)?;
            write!(out, "(null)")
        }
        "BytesWritable" => {
            for (number, byte) in <[u8]>::read(bytes)?.iter().enumerate() {
                let space = if number == 0 { "" } else { " " };
                let _ = write!(out, "{space}{byte:02x}");
            }
            return Ok(());
        }
        _ => return Err(MALFORMED),
    };
    Ok(())
}

/// A number as Java's `Double.toString` prints it.
pub fn java_text(value: f64) -> String {
    let mut text = Vec::new();
    // Memory takes all that is written, and the text is ASCII.
    let _ = show_float(value, value, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Formats a number as `Float.toString` and `Double.toString` do: with an exponent below 0.001 and from ten million on.
fn show_float(size: f64, value: impl Debug + LowerExp, out: &mut Vec<u8>) -> io::Result<()> {
    let size = size.abs();
    if size.is_infinite() {
        return write!(out, "{}", format_args!("{value:?}").to_string().replace("inf", "Infinity"));
    }
    if size.is_nan() || size == 0.0 || (1e-3..1e7).contains(&size) {
        return write!(out, "{value:?}");
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    write!(out, "{digits}{point}E{exponent}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(value: &(impl Writable + ?Sized)) -> Vec<u8> {
        let mut out = Vec::new();
        value.write(&mut out);
        out
    }

    proptest! {
        #[test]
        fn values_read_back(text in ".{0,300}", bytes in prop::collection::vec(any::<u8>(), 0..300), number: i64) {
            let (text_bytes, raw) = (written(text.as_str()), written(&bytes[..]));
            prop_assert_eq!(str::read(&text_bytes).unwrap(), text);
            prop_assert_eq!(<[u8]>::read(&raw).unwrap(), bytes);
            let mut vint = Vec::new();
            put_vint(number, &mut vint);
            prop_assert_eq!(take_vint(&mut &vint[..]), Ok(number));
        }

        #[test]
        fn any_bytes_are_shown_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            for class in ["Text", "IntWritable", "VLongWritable", "BytesWritable", "NullWritable", "DoubleWritable"] {
                let _ = show(&format!("org.apache.hadoop.io.{class}"), &bytes, &mut Vec::new());
            }
        }
    }

    #[test]
    fn vints_are_hadoop_s() {
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (-112, &[0x90]),
            (128, &[0x8f, 0x80]),
            (-113, &[0x87, 112]),
            (200, &[0x8f, 0xc8]),
            (65536, &[0x8d, 1, 0, 0]),
            (i64::MIN, &[0x80, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ] {
            let mut out = Vec::new();
            put_vint(value, &mut out);
            assert_eq!(out, bytes, "{value}");
        }
    }

    #[test]
    fn writables_print_as_java_prints_them() {
        for (class, bytes, shown) in [
            ("Text", &[2, b'h', b'i'][..], "hi"),
            ("LongWritable", &5i64.to_be_bytes(), "5"),
            ("VIntWritable", &[0x8f, 0xc8], "200"),
            ("VIntWritable", &[0x87, 0xc7], "-200"),
            ("DoubleWritable", &1.0f64.to_be_bytes(), "1.0"),
            ("DoubleWritable", &1e7f64.to_be_bytes(), "1.0E7"),
            ("DoubleWritable", &9_999_999.5f64.to_be_bytes(), "9999999.5"),
            ("DoubleWritable", &(-1.25e-4f64).to_be_bytes(), "-1.25E-4"),
            ("DoubleWritable", &0.001f64.to_be_bytes(), "0.001"),
            ("DoubleWritable", &0.000_999f64.to_be_bytes(), "9.99E-4"),
            ("DoubleWritable", &(-0.0f64).to_be_bytes(), "-0.0"),
            ("DoubleWritable", &f64::MAX.to_be_bytes(), "1.7976931348623157E308"),
            ("DoubleWritable", &f64::NAN.to_be_bytes(), "NaN"),
            ("DoubleWritable", &f64::NEG_INFINITY.to_be_bytes(), "-Infinity"),
            ("FloatWritable", &f32::INFINITY.to_be_bytes(), "Infinity"),
            ("FloatWritable", &1.5e10f32.to_be_bytes(), "1.5E10"),
            ("FloatWritable", &0.1f32.to_be_bytes(), "0.1"),
            ("BooleanWritable", &[1], "true"),
            ("NullWritable", &[], "(null)"),
            ("BytesWritable", &[0, 0, 0, 2, 0xab, 1], "ab 01"),
        ] {
            let mut out = Vec::new();
            show(&format!("org.apache.hadoop.io.{class}"), bytes, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), shown, "{class}");
        }
        assert!(show("com.example.Own", &[], &mut Vec::new()).is_err());
    }
}

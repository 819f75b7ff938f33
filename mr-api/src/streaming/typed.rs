//! Typed bytes: self-describing values, all big endian, the first byte is the type.
//!
//! ```text
//! 0 bytes   i32 length, bytes      5 float  f32                    10 map  i32 count, keys and values in turn
//! 1 byte    i8                     6 double f64                    50-200  as 0: application data
//! 2 bool    0 or 1                 7 string i32 length, UTF-8      255     end of a list
//! 3 int     i32                    8 vector i32 count, values
//! 4 long    i64                    9 list   values until 255
//! ```
//!
//! Invariants: reading accepts any bytes and never allocates by a length whose bytes it has not seen; nesting is limited. A value that arrives in pieces is
//! looked at once ([`Cursor`]). The text of a value is what `toString` makes of it in Hadoop.

use std::collections::BTreeMap;

use mr_formats::writable::{Writable, show};
use mr_model::Error;

/// How deep values may be nested.
const DEPTH_MAX: usize = 64;

const BYTES: u8 = 0;
const LONG: u8 = 4;
const FLOAT: u8 = 5;
const DOUBLE: u8 = 6;
const STRING: u8 = 7;
const VECTOR: u8 = 8;
const LIST: u8 = 9;
const MAP: u8 = 10;
const LIST_END: u8 = 255;

/// Appends bytes as type 0.
pub(super) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_with_length(BYTES, bytes, out);
}

/// Appends text as type 7.
pub(super) fn put_string(text: &[u8], out: &mut Vec<u8>) {
    put_with_length(STRING, text, out);
}

/// Appends a number as type 4.
pub(super) fn put_long(number: i64, out: &mut Vec<u8>) {
    out.push(LONG);
    out.extend_from_slice(&number.to_be_bytes());
}

fn put_with_length(code: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(code);
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Length of the value at the front of `bytes`; `None` if more bytes are needed to know.
#[cfg(any(test, fuzzing))]
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    Cursor::default().find(bytes)
}

/// Finds the end of a value of which more and more bytes are there.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// What is before was read.
    at: usize,
    /// The values that are not at their end yet, outermost first.
    open: Vec<Open>,
    is_begun: bool,
}

/// A value that is made of values.
#[derive(Debug)]
enum Open {
    /// So many follow.
    Values(usize),
    /// They follow until the mark.
    List,
}

impl Cursor {
    /// The length of the value at the front of `bytes`; `None` if more are needed to know. They begin with those of the calls before.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, Error> {
        loop {
            match self.open.last() {
                None if self.is_begun => return Ok(Some(self.at)),
                Some(Open::Values(0)) => {
                    self.open.pop();
                    continue;
                }
                Some(Open::List) if bytes.get(self.at) == Some(&LIST_END) => {
                    self.at += 1;
                    self.open.pop();
                    continue;
                }
                _ => {}
            }
            if self.open.len() > DEPTH_MAX {
                return Err(Error::TypedBytes { reason: "values are nested too deeply" });
            }
            let Some((length, inner)) = begin(bytes.get(self.at..).unwrap_or_default())? else {
                return Ok(None);
            };
            self.at += length;
            self.is_begun = true;
            if let Some(Open::Values(left)) = self.open.last_mut() {
                *left -= 1;
            }
            self.open.extend(inner);
        }
    }
}

/// The length of a value up to the values in it, if it has any; `None` if more bytes are needed.
fn begin(bytes: &[u8]) -> Result<Option<(usize, Option<Open>)>, Error> {
    let Some((code, rest)) = bytes.split_first() else { return Ok(None) };
    let (length, inner) = match *code {
        1 | 2 => (1, None),
        3 | FLOAT => (4, None),
        LONG | DOUBLE => (8, None),
        LIST => (0, Some(Open::List)),
        BYTES | STRING | 50..=200 | VECTOR | MAP => {
            let Some(count) = rest.first_chunk::<4>() else { return Ok(None) };
            let Ok(count) = usize::try_from(i32::from_be_bytes(*count)) else {
                return Err(Error::TypedBytes { reason: "a negative length" });
            };
            match *code {
                VECTOR => (4, Some(Open::Values(count))),
                MAP => (4, Some(Open::Values(count.saturating_mul(2)))),
                _ => (count.saturating_add(4), None),
            }
        }
        _ => return Err(Error::TypedBytes { reason: "an unknown type" }),
    };
    Ok((length <= rest.len()).then_some((1 + length, inner)))
}

/// Appends a value as text for people. A value that does not parse is written as its raw bytes.
pub(super) fn put_text(value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if !matches!(write(&mut { value }, 0, out), Some(())) {
        out.truncate(start);
        out.extend_from_slice(value);
    }
}

fn write(value: &mut &[u8], depth: usize, out: &mut Vec<u8>) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    let code = take(value, 1)?[0];
    match code {
        1 => out.extend_from_slice((take(value, 1)?[0] as i8).to_string().as_bytes()),
        2 => out.extend_from_slice(if take(value, 1)?[0] != 0 { b"true" } else { b"false" }),
        3 => out.extend_from_slice(i32::from_be_bytes(fixed(value)?).to_string().as_bytes()),
        LONG => out.extend_from_slice(i64::from_be_bytes(fixed(value)?).to_string().as_bytes()),
        FLOAT => show(f32::CLASS, take(value, 4)?, out).ok()?,
        DOUBLE => show(f64::CLASS, take(value, 8)?, out).ok()?,
        STRING => out.extend_from_slice(counted(value)?),
        BYTES | 50..=200 => put_hex(counted(value)?, "", out),
        VECTOR | LIST => {
            let count = if code == VECTOR { u32::from_be_bytes(fixed(value)?) } else { u32::MAX };
            out.push(b'[');
            for index in 0..count {
                if code == LIST && value.first() == Some(&LIST_END) {
                    take(value, 1)?;
                    break;
                }
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                write(value, depth + 1, out)?;
            }
            out.push(b']');
        }
        MAP => write_map(value, depth, out)?,
        _ => return None,
    }
    Some(())
}

/// A map in the order of its keys; of equal ones, the last value counts.
fn write_map(value: &mut &[u8], depth: usize, out: &mut Vec<u8>) -> Option<()> {
    let mut entries = BTreeMap::new();
    for number in 0..u32::from_be_bytes(fixed(value)?) {
        let place = place(value, number);
        let (mut key, mut text) = (Vec::new(), Vec::new());
        write(value, depth + 1, &mut key)?;
        write(value, depth + 1, &mut text)?;
        entries.entry(place?).or_insert((key, Vec::new())).1 = text;
    }
    out.push(b'{');
    for (index, (key, text)) in entries.into_values().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(&key);
        out.push(b'=');
        out.extend_from_slice(&text);
    }
    out.push(b'}');
    Some(())
}

/// The order of keys in Java. Only keys of one type have one there; here types follow each other.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Place<'a> {
    Number(i64),
    Bytes(&'a [u8]),
    Text(Vec<u16>),
}

/// The place of the key at the front of `value`, with its type; that of a key without an order is its number.
fn place(mut value: &[u8], number: u32) -> Option<(u8, Place<'_>)> {
    let value = &mut value;
    let code = take(value, 1)?[0];
    let place = match code {
        1 => Place::Number((take(value, 1)?[0] as i8).into()),
        2 => Place::Number((take(value, 1)?[0] != 0).into()),
        3 => Place::Number(i32::from_be_bytes(fixed(value)?).into()),
        LONG => Place::Number(i64::from_be_bytes(fixed(value)?)),
        FLOAT => Place::Number(of_float(f32::from_be_bytes(fixed(value)?).into())),
        DOUBLE => Place::Number(of_float(f64::from_be_bytes(fixed(value)?))),
        // In units of UTF-16.
        STRING => Place::Text(String::from_utf8_lossy(counted(value)?).encode_utf16().collect()),
        BYTES | 50..=200 => return Some((BYTES, Place::Bytes(counted(value)?))),
        _ => Place::Number(number.into()),
    };
    Some((code, place))
}

/// A number that is ordered as `Double.compareTo` orders: -0.0 before 0.0, and NaN, of which there is one, last.
fn of_float(value: f64) -> i64 {
    let bits = if value.is_nan() { f64::NAN } else { value }.to_bits() as i64;
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// Appends the digits of bytes with `space` between them.
pub(super) fn put_hex(bytes: &[u8], space: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(bytes.len() * (2 + space.len()));
    for (number, byte) in bytes.iter().enumerate() {
        if number > 0 {
            out.extend_from_slice(space.as_bytes());
        }
        let [high, low] = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
        out.extend_from_slice(&[high, low]);
    }
}

/// The content of a value with a length.
fn counted<'a>(value: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(fixed(value)?) as usize;
    take(value, length)
}

fn take<'a>(value: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (first, rest) = value.split_at_checked(count)?;
    *value = rest;
    Some(first)
}

fn fixed<const N: usize>(value: &mut &[u8]) -> Option<[u8; N]> {
    take(value, N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One value of each type, with its text.
    fn samples() -> Vec<(Vec<u8>, &'static str)> {
        let mut nested = vec![VECTOR, 0, 0, 0, 2];
        put_long(-5, &mut nested);
        nested.extend([LIST, 2, 1, 3, 0, 0, 1, 0, LIST_END]);
        let mut map = vec![MAP, 0, 0, 0, 1];
        put_string(b"k", &mut map);
        map.extend([6]);
        map.extend(1.5f64.to_be_bytes());
        vec![
            (vec![BYTES, 0, 0, 0, 2, b'h', 0xff], "68ff"),
            (vec![1, 0xff], "-1"),
            (vec![3, 0, 0, 0, 7], "7"),
            (vec![LONG, 0, 0, 0, 0, 0, 0, 1, 0], "256"),
            (vec![5, 0x3f, 0x80, 0, 0], "1.0"),
            (vec![STRING, 0, 0, 0, 0], ""),
            (vec![150, 0, 0, 0, 1, b'x'], "78"),
            (nested, "[-5, [true, 256]]"),
            (map, "{k=1.5}"),
        ]
    }

    #[test]
    fn lengths_and_text_of_every_type() {
        for (value, text) in samples() {
            assert_eq!(length(&value).unwrap(), Some(value.len()), "{value:?}");
            for cut in 0..value.len() {
                assert_eq!(length(&value[..cut]).unwrap(), None, "{value:?} cut at {cut}");
            }
            let mut longer = value.clone();
            longer.push(9);
            assert_eq!(length(&longer).unwrap(), Some(value.len()));
            let mut out = Vec::new();
            put_text(&value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    /// Java's `toString` of each.
    #[test]
    fn numbers_and_maps_are_shown_as_java_does() {
        let text = |value: &[u8]| {
            let mut out = Vec::new();
            put_text(value, &mut out);
            String::from_utf8(out).unwrap()
        };
        for (number, want) in [
            (1e10, "1.0E10"),
            (1e-5, "1.0E-5"),
            (123_456_789.0, "1.23456789E8"),
            (1.5, "1.5"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(&[&[DOUBLE][..], &f64::to_be_bytes(number)].concat()), want);
        }
        assert_eq!(text(&[&[FLOAT][..], &1e10f32.to_be_bytes()].concat()), "1.0E10");
        let map = |keys: &[Vec<u8>]| {
            let mut value = [&[MAP][..], &(keys.len() as u32).to_be_bytes()].concat();
            for (number, key) in (0..).zip(keys) {
                value.extend(key);
                put_long(number, &mut value);
            }
            text(&value)
        };
        let string = |text: &str| {
            let mut out = Vec::new();
            put_string(text.as_bytes(), &mut out);
            out
        };
        let strings = ["b", "\u{ff5e}", "a", "\u{1f600}", "b"].map(string);
        assert_eq!(map(&strings), "{a=2, b=4, \u{1f600}=3, \u{ff5e}=1}");
        let doubles = [f64::NAN, 2.0, 0.0, -1.0, -0.0, -f64::NAN];
        let doubles = doubles.map(|number| [&[DOUBLE][..], &number.to_be_bytes()].concat());
        assert_eq!(map(&doubles), "{-1.0=3, -0.0=4, 0.0=2, 2.0=1, NaN=5}");
        let longs = [5, -7, 300].map(|number| {
            let mut out = Vec::new();
            put_long(number, &mut out);
            out
        });
        assert_eq!(map(&longs), "{-7=1, 5=0, 300=2}");
        assert_eq!(map(&[vec![150, 0, 0, 0, 1, 0xf0], vec![0; 5]]), "{=1, f0=0}");
    }

    /// A vector of a million values would be read a thousand times otherwise.
    #[test]
    fn what_was_read_is_not_read_again() {
        let mut inner = vec![LIST];
        (0..50).for_each(|number| put_long(number, &mut inner));
        inner.push(LIST_END);
        for code in [VECTOR, LIST, MAP] {
            let mut value = vec![code];
            if code != LIST {
                value.extend(if code == MAP { 10u32 } else { 20 }.to_be_bytes());
            }
            (0..20).for_each(|_| value.extend(&inner));
            value.extend((code == LIST).then_some(LIST_END));
            let mut cursor = Cursor::default();
            for end in (0..value.len()).step_by(7) {
                assert_eq!(cursor.find(&value[..end]).unwrap(), None);
                // The beginning of a value of 9 bytes may have been left for later.
                let read = end.saturating_sub(9);
                value[..read].fill(11);
            }
            assert_eq!(cursor.find(&value).unwrap(), Some(value.len()));
        }
    }

    #[test]
    fn bad_values_are_errors() {
        assert!(length(&[11]).is_err());
        assert!(length(&[BYTES, 0xff, 0, 0, 0]).is_err());
        assert!(length(&[LIST; 100]).is_err());
        // Its text is its raw bytes, however deeply it is nested.
        let mut out = Vec::new();
        put_text(&[LIST; 1 << 20], &mut out);
        assert_eq!(out, [LIST; 1 << 20]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..11], 0..64)) {
            let whole = length(&bytes).map_err(|error| error.to_string());
            let mut cursor = Cursor::default();
            let mut pieces = Ok(None);
            for end in 0..=bytes.len() {
                pieces = cursor.find(&bytes[..end]).map_err(|error| error.to_string());
                if !matches!(pieces, Ok(None)) {
                    break;
                }
            }
            prop_assert_eq!(whole, pieces);
            put_text(&bytes, &mut Vec::new());
        }
    }
}

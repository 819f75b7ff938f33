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
//! Invariants: reading accepts any bytes and never allocates by a length whose bytes it has not seen; nesting is limited.

use mr_model::Error;

/// How deep values may be nested.
const DEPTH_MAX: usize = 64;

const BYTES: u8 = 0;
const LONG: u8 = 4;
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
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let mut cursor = Cursor { bytes, at: 0 };
    Ok(cursor.skip(0)?.then_some(cursor.at))
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// Skips one value; false if it is cut off.
    fn skip(&mut self, depth: usize) -> Result<bool, Error> {
        if depth > DEPTH_MAX {
            return Err(Error::TypedBytes { reason: "values are nested too deeply" });
        }
        let Some(code) = self.bytes.get(self.at).copied() else { return Ok(false) };
        self.at += 1;
        match code {
            1 | 2 => self.advance(1),
            3 | 5 => self.advance(4),
            LONG | 6 => self.advance(8),
            BYTES | STRING | 50..=200 => match self.count()? {
                Some(length) => self.advance(length),
                None => Ok(false),
            },
            VECTOR | MAP => {
                let Some(count) = self.count()? else { return Ok(false) };
                for _ in 0..if code == MAP { count.saturating_mul(2) } else { count } {
                    if !self.skip(depth + 1)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            LIST => loop {
                match self.bytes.get(self.at) {
                    None => return Ok(false),
                    Some(&LIST_END) => {
                        self.at += 1;
                        return Ok(true);
                    }
                    Some(_) if !self.skip(depth + 1)? => return Ok(false),
                    Some(_) => {}
                }
            },
            _ => Err(Error::TypedBytes { reason: "an unknown type" }),
        }
    }

    fn advance(&mut self, count: usize) -> Result<bool, Error> {
        self.at = self.at.saturating_add(count);
        Ok(self.at <= self.bytes.len())
    }

    fn count(&mut self) -> Result<Option<usize>, Error> {
        let Some(bytes) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<4>) else {
            return Ok(None);
        };
        self.at += 4;
        match usize::try_from(i32::from_be_bytes(*bytes)) {
            Ok(count) => Ok(Some(count)),
            Err(_) => Err(Error::TypedBytes { reason: "a negative length" }),
        }
    }
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
        5 => out.extend_from_slice(format!("{:?}", f32::from_be_bytes(fixed(value)?)).as_bytes()),
        6 => out.extend_from_slice(format!("{:?}", f64::from_be_bytes(fixed(value)?)).as_bytes()),
        BYTES | STRING | 50..=200 => {
            let length = u32::from_be_bytes(fixed(value)?) as usize;
            out.extend_from_slice(take(value, length)?);
        }
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
        MAP => {
            out.push(b'{');
            for index in 0..u32::from_be_bytes(fixed(value)?) {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                write(value, depth + 1, out)?;
                out.push(b'=');
                write(value, depth + 1, out)?;
            }
            out.push(b'}');
        }
        _ => return None,
    }
    Some(())
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
            (vec![BYTES, 0, 0, 0, 2, b'h', b'i'], "hi"),
            (vec![1, 0xff], "-1"),
            (vec![3, 0, 0, 0, 7], "7"),
            (vec![LONG, 0, 0, 0, 0, 0, 0, 1, 0], "256"),
            (vec![5, 0x3f, 0x80, 0, 0], "1.0"),
            (vec![STRING, 0, 0, 0, 0], ""),
            (vec![150, 0, 0, 0, 1, b'x'], "x"),
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
            let _ = length(&bytes);
            put_text(&bytes, &mut Vec::new());
        }
    }
}

//! Records on the pipes of a script: writes them to its standard input and reads them from its standard output.
//!
//! | | text | rawbytes | typedbytes |
//! |---|---|---|---|
//! | a record | key, separator, value, newline | key and value | key and value |
//! | each of them | bytes | u32 length, bytes; to a script, those of text begin with their number as a `VInt` | a typed value |
//! | the place of a line, as key | decimal digits | 8 bytes, big endian | a long |
//!
//! The `n`-th separator divides a line of text that a script prints into key and value; a line with fewer is all key.

use std::io::{self, Read};

use memchr::memmem;
use mr_formats::writable::put_vint;
use mr_formats::{Format, LINE_BYTES_MAX, Lines, Source, SplitRange, TextRules};
use mr_model::{Error, Result};
use protocol::property::PipeEncoding as Encoding;

use super::typed;

/// A key or value on its way to a script.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8], Encoding),
}

/// Writes records for a script.
#[derive(Clone, Debug)]
pub(super) struct RecordWriter {
    pub(super) encoding: Encoding,
    pub(super) separator: Vec<u8>,
}

impl RecordWriter {
    #[inline]
    pub(super) fn put(&self, key: Option<Field<'_>>, value: Field<'_>, out: &mut Vec<u8>) {
        match self.encoding {
            Encoding::Text => {
                if let Some(key) = key {
                    put_text(key, out);
                    out.extend_from_slice(&self.separator);
                }
                put_text(value, out);
                out.push(b'\n');
            }
            Encoding::Raw => [key, Some(value)].into_iter().flatten().for_each(|field| {
                let start = out.len();
                out.extend_from_slice(&[0; 4]);
                match field {
                    // As Hadoop writes its classes: a `Text` has its length, what is a `BytesWritable` is bare.
                    Field::Number(number) => out.extend_from_slice(&number.to_be_bytes()),
                    Field::Bytes(bytes, Encoding::Text) => {
                        put_vint(bytes.len() as i64, out);
                        out.extend_from_slice(bytes);
                    }
                    Field::Bytes(bytes, _) => out.extend_from_slice(bytes),
                }
                let length = (out.len() - start - 4) as u32;
                out[start..start + 4].copy_from_slice(&length.to_be_bytes());
            }),
            Encoding::Typed => {
                let fields = [key, Some(value)].into_iter().flatten();
                fields.for_each(|field| put_typed(field, out));
            }
        }
    }
}

fn put_text(field: Field<'_>, out: &mut Vec<u8>) {
    match field {
        Field::Bytes(bytes, Encoding::Text | Encoding::Raw) => out.extend_from_slice(bytes),
        Field::Bytes(bytes, Encoding::Typed) => typed::put_text(bytes, out),
        Field::Number(number) => mr_formats::ToText::write_text(&number, out),
    }
}

fn put_typed(field: Field<'_>, out: &mut Vec<u8>) {
    match field {
        Field::Number(number) => typed::put_long(number as i64, out),
        Field::Bytes(bytes, Encoding::Text) => typed::put_string(bytes, out),
        Field::Bytes(bytes, Encoding::Raw) => typed::put_bytes(bytes, out),
        Field::Bytes(bytes, Encoding::Typed) => out.extend_from_slice(bytes),
    }
}

/// Appends a field as a script would print it in this encoding, without its frame.
pub(super) fn encode(field: Field<'_>, encoding: Encoding, out: &mut Vec<u8>) {
    match (encoding, field) {
        (Encoding::Typed, field) => put_typed(field, out),
        (Encoding::Raw, Field::Bytes(bytes, _)) => out.extend_from_slice(bytes),
        (Encoding::Raw, Field::Number(number)) => out.extend_from_slice(&number.to_be_bytes()),
        (Encoding::Text, field) => put_text(field, out),
    }
}

/// Reads records that a script prints.
#[derive(Clone, Debug)]
pub(super) struct RecordReader {
    pub(super) encoding: Encoding,
    pub(super) separator: Vec<u8>,
    /// Fields of a line that make the key.
    pub(super) key_fields: usize,
}

impl RecordReader {
    /// Passes every record of `pipe` to `each` until the script closes it.
    pub(super) fn read(
        &self,
        pipe: &mut (dyn Read + Send),
        mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        match self.encoding {
            Encoding::Text => {
                let mut source = PipeSource { pipe, buffer: vec![0; PIPE_BYTES] };
                let all = SplitRange { start: 0, end: u64::MAX };
                Lines.read(all, &mut source, &mut |_, line| {
                    let (key, value) = self.split(line.bytes);
                    each(key, value)
                })
            }
            Encoding::Raw => binary(
                pipe,
                |bytes| Ok(bytes.first_chunk::<4>().map(|n| 4 + u32::from_be_bytes(*n) as usize)),
                |key, value| each(&key[4..], &value[4..]),
            ),
            Encoding::Typed => {
                let mut cursor = typed::Cursor::default();
                let find = |bytes: &[u8]| {
                    let found = cursor.find(bytes)?;
                    if found.is_some() {
                        cursor = typed::Cursor::default();
                    }
                    Ok(found)
                };
                binary(pipe, find, each)
            }
        }
    }

    #[inline]
    fn split<'a>(&self, line: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let mut end = 0;
        for _ in 0..self.key_fields {
            let rest = &line[end..];
            let found = match &self.separator[..] {
                [byte] => memchr::memchr(*byte, rest),
                separator => memmem::find(rest, separator),
            };
            match found {
                Some(found) => end += found + self.separator.len(),
                None => return (line, &[]),
            }
        }
        (&line[..end.saturating_sub(self.separator.len())], &line[end..])
    }
}

/// Bytes read from a pipe at once: more than a pipe holds.
const PIPE_BYTES: usize = 256 << 10;

/// The standard output of a script as the source of a [`Lines`] reader.
struct PipeSource<'a> {
    pipe: &'a mut (dyn Read + Send),
    buffer: Vec<u8>,
}

impl Source for PipeSource<'_> {
    fn slice(&mut self, _: u64) -> io::Result<&[u8]> {
        let count = read(self.pipe, &mut self.buffer)?;
        Ok(&self.buffer[..count])
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn text(&self) -> TextRules {
        TextRules::plain()
    }
}

fn read(pipe: &mut (dyn Read + Send), buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match pipe.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Reads pairs of items; `length` returns an item's length from its first bytes. It is asked again with more of them if they do not tell, or if the item is
/// longer than they are.
fn binary(
    pipe: &mut (dyn Read + Send),
    mut length: impl FnMut(&[u8]) -> Result<Option<usize>, Error>,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let (mut buffer, mut start, mut end) = (vec![0; PIPE_BYTES], 0, 0);
    // The length of the key at `start`, if its end is known.
    let mut key = None;
    loop {
        let filled = &buffer[start..end];
        let rest = &filled[key.unwrap_or(0)..];
        match (length(rest)?.filter(|length| *length <= rest.len()), key) {
            (Some(length), None) => {
                key = Some(length);
                continue;
            }
            (Some(value), Some(length)) => {
                each(&filled[..length], &filled[length..length + value])?;
                (start, key) = (start + length + value, None);
                continue;
            }
            (None, _) => {}
        }
        if start > 0 {
            buffer.copy_within(start..end, 0);
            (start, end) = (0, end - start);
        }
        if end == buffer.len() {
            if end > LINE_BYTES_MAX {
                return Err(Error::ScriptRecord { reason: "a record is longer than 1 GiB" }.into());
            }
            buffer.resize(2 * end, 0);
        }
        match read(pipe, &mut buffer[end..])? {
            0 if end == 0 => return Ok(()),
            0 => return Err(Error::ScriptRecord { reason: "the last record is cut off" }.into()),
            count => end += count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(encoding: Encoding, separator: &str, key_fields: usize) -> RecordReader {
        RecordReader { encoding, separator: separator.into(), key_fields }
    }

    fn read_all(reader: &RecordReader, bytes: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        /// Hands out one byte at a time: every boundary is met.
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let count = self.0.len().min(buffer.len()).min(1);
                buffer[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        let mut records = Vec::new();
        reader.read(&mut Slow(bytes), |key, value| {
            records.push((key.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Ok(records)
    }

    #[test]
    fn lines_are_cut_at_the_nth_separator() {
        for (fields, separator, line, key, value) in [
            (1, "\t", "k\tv\tw", "k", "v\tw"),
            (1, "\t", "alone", "alone", ""),
            (1, "\t", "k\t", "k", ""),
            (1, "\t", "\tv", "", "v"),
            (2, ".", "a.b.c", "a.b", "c"),
            (4, ".", "a.b.c", "a.b.c", ""),
            (1, "::", "a:b::c", "a:b", "c"),
        ] {
            let records =
                read_all(&reader(Encoding::Text, separator, fields), line.as_bytes()).unwrap();
            assert_eq!(records, [(key.into(), value.into())], "{line}");
        }
        let reader = reader(Encoding::Text, "\t", 1);
        assert_eq!(read_all(&reader, b"a\t1\r\n\nb").unwrap().len(), 3);
        assert!(read_all(&reader, b"").unwrap().is_empty());
    }

    #[test]
    fn what_is_written_reads_back() {
        let pairs: [(&[u8], &[u8]); 3] = [(b"key", b"value"), (b"", b"\0\n\t"), (b"x", b"")];
        for encoding in [Encoding::Raw, Encoding::Typed] {
            let writer = RecordWriter { encoding, separator: b"\t".to_vec() };
            let (mut out, mut expected) = (Vec::new(), Vec::new());
            let of_map = if encoding == Encoding::Raw { Encoding::Raw } else { Encoding::Text };
            for (key, value) in pairs {
                let [key_field, value_field] =
                    [key, value].map(|bytes| Field::Bytes(bytes, of_map));
                writer.put(Some(key_field), value_field, &mut out);
                let typed = |bytes: &[u8]| {
                    let mut out = Vec::new();
                    typed::put_string(bytes, &mut out);
                    out
                };
                expected.push(match encoding {
                    Encoding::Typed => (typed(key), typed(value)),
                    _ => (key.to_vec(), value.to_vec()),
                });
            }
            let reader = reader(encoding, "\t", 1);
            assert_eq!(read_all(&reader, &out).unwrap(), expected);
            for cut in 1..out.len() {
                let complete = read_all(&reader, &out[..cut]);
                assert!(complete.is_err() || complete.unwrap().len() < 3, "cut at {cut}");
            }
        }
    }

    #[test]
    fn fields_become_what_the_script_reads() {
        let writer = |encoding| RecordWriter { encoding, separator: b"=".to_vec() };
        let mut out = Vec::new();
        let mut typed_seven = Vec::new();
        typed::put_long(7, &mut typed_seven);
        let value = Field::Bytes(&typed_seven, Encoding::Typed);
        writer(Encoding::Text).put(Some(Field::Number(12)), value, &mut out);
        assert_eq!(out, b"12=7\n");
        out.clear();
        writer(Encoding::Typed).put(None, Field::Bytes(b"\xff", Encoding::Raw), &mut out);
        assert_eq!(out, [0, 0, 0, 0, 1, 0xff]);
        out.clear();
        writer(Encoding::Raw).put(Some(Field::Bytes(b"k", Encoding::Text)), value, &mut out);
        // A `Text` has its length, a `TypedBytesWritable` is bare.
        assert_eq!(out, [&b"\0\0\0\x02\x01k\0\0\0\x09"[..], &typed_seven].concat());
    }

    #[test]
    fn fields_that_no_script_has_seen_are_encoded_as_one_would() {
        for (encoding, field, expected) in [
            (Encoding::Text, Field::Number(12), &b"12"[..]),
            (Encoding::Raw, Field::Number(1), b"\0\0\0\0\0\0\0\x01"),
            (Encoding::Raw, Field::Bytes(b"ab", Encoding::Text), b"ab"),
            (Encoding::Typed, Field::Number(1), b"\x04\0\0\0\0\0\0\0\x01"),
            (Encoding::Typed, Field::Bytes(b"ab", Encoding::Text), b"\x07\0\0\0\x02ab"),
            (Encoding::Typed, Field::Bytes(b"\x02\x01", Encoding::Typed), b"\x02\x01"),
        ] {
            let mut out = Vec::new();
            encode(field, encoding, &mut out);
            assert_eq!(out, expected, "{encoding:?} {field:?}");
        }
    }
}

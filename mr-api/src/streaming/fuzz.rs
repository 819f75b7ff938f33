//! Decoders that accept any bytes of scripts, for `fuzz/`.

use std::io::{self, Read};

use protocol::property::PipeEncoding;

use super::io::RecordReader;
use super::key_field::{KeyFields, decode};
use super::{args, command, typed};

/// Typed bytes: their lengths and their text.
pub fn typed_bytes(bytes: &[u8]) {
    if let Ok(Some(length)) = typed::length(bytes) {
        assert!(length <= bytes.len());
        assert!(!matches!(typed::length(&bytes[..length - 1]), Ok(Some(_))), "a value has one end");
        typed::put_text(&bytes[..length], &mut Vec::new());
    }
    typed::put_text(bytes, &mut Vec::new());
}

/// Hands out a few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(buffer.len()).min(self.1);
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

/// Records that scripts print. The input begins with the number of bytes at a time, the number of fields of a key, and the length of the
/// separator, which follows.
pub fn script_records(bytes: &[u8]) {
    let Some(([piece, key_fields, length], rest)) = bytes.split_first_chunk::<3>() else { return };
    let (separator, rest) = rest.split_at(rest.len().min(usize::from(length % 4)));
    let separator = if separator.is_empty() { b"\t" } else { separator };
    for encoding in [PipeEncoding::Text, PipeEncoding::Raw, PipeEncoding::Typed] {
        let key_fields = usize::from(*key_fields);
        let reader = RecordReader { encoding, separator: separator.to_vec(), key_fields };
        let read = |piece: usize| {
            let mut found = Vec::new();
            let end = reader.read(&mut Slow(rest, piece.max(1)), |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                Ok(())
            });
            (found, end.is_ok())
        };
        assert_eq!(read(usize::from(*piece)), read(rest.len()), "pieces make no difference");
    }
}

/// Options of sorting and partitioning, a separator, and a key, one a line.
pub fn key_fields(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (options, separator, key) = (String::from_utf8_lossy(part()), part(), part());
    let separator = if separator.is_empty() { b"\t" } else { separator };
    let Ok(fields) = KeyFields::parse("options", &options, separator) else { return };
    assert!(fields.partition(key, 7) < 7);
    let mut encoded = Vec::new();
    fields.encode(key, &mut encoded);
    assert_eq!(decode(&encoded), key);
}

/// Commands, and words of a streaming job's command line.
pub(crate) fn words(text: &str, words: &[String]) {
    let _ = command::split(text);
    let _ = args::parse(words);
}

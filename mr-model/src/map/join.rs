//! Merge join: reads two inputs, sorted and partitioned alike, side by side and shuffles nothing.

use std::io::{self, BufRead, BufReader, Read};

use mr_formats::Error as FormatError;
use mr_formats::codec::FileCodec;

use crate::error::Error;
use crate::error::Result;
use crate::task::Context;

/// A file of lines `key<TAB>value` in the order of their keys, read forward beside another file with the same keys.
///
/// Outputs of two jobs with the same partitioner and number of reduces are sorted and partitioned alike: part 3 of one has the keys of part
/// 3 of the other. A map-only job over one of them, [uncut](mr_formats::Uncut), opens the same part of the other; see
/// `examples/joins.rs`.
pub struct SortedFile {
    lines: Box<dyn BufRead>,
    path: String,
    /// Where the line read last begins and where the next one begins.
    offset: u64,
    next_offset: u64,
    /// The last line ended with `\r`: a `\n` at the front of the next belongs to it.
    after_cr: bool,
    /// The line read last and where its key ends; it belongs to a group not requested yet.
    line: Vec<u8>,
    key_bytes: Option<usize>,
    /// The key of the line before.
    before: Vec<u8>,
    /// The key requested last and its values.
    key: Option<Vec<u8>>,
    values: Vec<u8>,
    ends: Vec<usize>,
    bytes_max: usize,
}

/// Size of the read buffer.
const BUFFER_BYTES: usize = 256 << 10;
/// Longest line, and most bytes of the values of one key, that are kept (1 GiB).
const GROUP_BYTES_MAX: usize = 1 << 30;

impl SortedFile {
    /// Opens a file of the job's file system, compressed or not.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn open(context: &Context, path: &str) -> Result<Self> {
        let file: Box<dyn Read> = context.open(path)?;
        let file = match FileCodec::of_path(path) {
            Some(codec) => codec.decoder(file)?,
            None => file,
        };
        Self::new(file, path, GROUP_BYTES_MAX)
    }

    fn new(file: impl Read + 'static, path: &str, bytes_max: usize) -> Result<Self> {
        let mut sorted = SortedFile {
            lines: Box::new(BufReader::with_capacity(BUFFER_BYTES, file)),
            path: path.to_owned(),
            offset: 0,
            next_offset: 0,
            after_cr: false,
            line: Vec::new(),
            key_bytes: None,
            before: Vec::new(),
            key: None,
            values: Vec::new(),
            ends: Vec::new(),
            bytes_max,
        };
        sorted.advance()?;
        Ok(sorted)
    }

    /// The values of `key`, none if the file does not have it. Request keys in rising order; the same key can be requested again.
    ///
    /// # Errors
    /// If the file cannot be read, or if its keys or the requested keys are out of order.
    pub fn values(&mut self, key: &[u8]) -> Result<impl Iterator<Item = &[u8]>> {
        if self.key.as_deref() != Some(key) {
            if self.key.as_deref().is_some_and(|last| key < last) {
                return Err(Error::KeysFall { path: self.path.clone() }.into());
            }
            let asked = self.key.get_or_insert_default();
            asked.clear();
            asked.extend_from_slice(key);
            self.values.clear();
            self.ends.clear();
            while let Some(key_bytes) = self.key_bytes
                && self.line[..key_bytes] <= *key
            {
                if self.line[..key_bytes] == *key {
                    let value = self.line.get(key_bytes + 1..).unwrap_or_default();
                    if self.values.len() + value.len() > self.bytes_max {
                        return Err(FormatError::RecordTooLong { offset: self.offset }.into());
                    }
                    self.values.extend_from_slice(value);
                    self.ends.push(self.values.len());
                }
                self.advance()?;
            }
        }
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        Ok(starts.zip(&self.ends).map(|(start, end)| &self.values[start..*end]))
    }

    /// Goes on to the next line.
    fn advance(&mut self) -> Result<()> {
        self.before.clear();
        self.before.extend_from_slice(&self.line[..self.key_bytes.unwrap_or(0)]);
        if !self.read_line()? {
            self.key_bytes = None;
            return Ok(());
        }
        let end = memchr::memchr(b'\t', &self.line).unwrap_or(self.line.len());
        self.key_bytes = Some(end);
        if self.before.as_slice() > &self.line[..end] {
            return Err(Error::NotSorted { path: self.path.clone() }.into());
        }
        Ok(())
    }

    /// Reads a line by the rules of [`Lines`](crate::Lines), without its end; false at the end of the file.
    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        self.offset = self.next_offset;
        loop {
            let buffer = match self.lines.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            let Some(first) = buffer.first() else { return Ok(!self.line.is_empty()) };
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                self.lines.consume(1);
                self.next_offset += 1;
                self.offset += 1;
                continue;
            }
            let found = memchr::memchr2(b'\n', b'\r', buffer);
            let part = &buffer[..found.unwrap_or(buffer.len())];
            if self.line.len() + part.len() > self.bytes_max {
                return Err(FormatError::RecordTooLong { offset: self.offset }.into());
            }
            self.line.extend_from_slice(part);
            self.after_cr = found.is_some_and(|at| buffer[at] == b'\r');
            let count = part.len() + usize::from(found.is_some());
            self.lines.consume(count);
            self.next_offset += count as u64;
            if found.is_some() {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &'static str, keys: &[&str]) -> Result<Vec<String>> {
        let mut sorted = SortedFile::new(file.as_bytes(), "f", 10)?;
        let mut all = Vec::new();
        for key in keys {
            let values: Vec<String> = sorted
                .values(key.as_bytes())?
                .map(|value| String::from_utf8_lossy(value).into_owned())
                .collect();
            all.push(format!("{key}={}", values.join(",")));
        }
        Ok(all)
    }

    #[test]
    fn values_are_found_by_rising_keys() {
        let file = "a\t1\nb\t2\nb\t3\nd\t\ne";
        let keys = ["a", "a", "b", "b", "c", "d", "e", "f"];
        let want = ["a=1", "a=1", "b=2,3", "b=2,3", "c=", "d=", "e=", "f="];
        assert_eq!(found(file, &keys).unwrap(), want);
        assert_eq!(found("", &["x"]).unwrap(), ["x="]);
        assert!(found("b\t1\na\t2\n", &["z"]).unwrap_err().to_string().contains("sorted"));
    }

    #[test]
    fn empty_keys_and_all_line_ends_count() {
        let want = ["=0,1", "a=2", "b=3,", "c=4"];
        for end in ["\n", "\r\n", "\r"] {
            let file = ["\t0", "\t1", "a\t2", "b\t3", "b", "c\t4"].join(end);
            let file: &'static str = Box::leak(file.into_boxed_str());
            assert_eq!(found(file, &["", "a", "b", "c"]).unwrap(), want, "{end:?}");
            // Byte by byte: a line end may be cut in two.
            let ends = SortedFile::new(OneByte(file.as_bytes()), "f", 10);
            let mut sorted = ends.unwrap();
            assert_eq!(sorted.values(b"b").unwrap().collect::<Vec<_>>(), [&b"3"[..], b""]);
        }
    }

    struct OneByte(&'static [u8]);

    impl Read for OneByte {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(1);
            self.0.read(&mut buffer[..count])
        }
    }

    #[test]
    fn falling_requests_and_what_is_too_long_are_errors() {
        let fails = |file, keys: &[&str]| found(file, keys).unwrap_err().to_string();
        let file = "a\t1\nb\t2\n";
        assert!(fails(file, &["b", "a"]).contains("asked for"));
        assert!(fails(file, &["x", ""]).contains("asked for"));
        assert!(fails("a\t1\nb\t2345678901\n", &["a"]).contains("offset 4 is longer"));
        assert!(fails("a\t12345678\na\t678\n", &["a"]).contains("offset 11 is longer"));
        assert_eq!(found("a\t12345678\n", &["a"]).unwrap(), ["a=12345678"]);
    }
}

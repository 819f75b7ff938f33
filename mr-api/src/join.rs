//! Merge join: two inputs that were sorted and partitioned alike are read side by side, and nothing is shuffled.

use std::io::{BufRead, BufReader, Read};

use crate::Result;
use crate::codec::FileCodec;
use crate::context::Context;
use crate::error::Error;

/// A file of lines `key<TAB>value` in the order of their keys, read forward beside another one with the same keys.
///
/// Sorted and partitioned alike are outputs of two jobs with the same partitioner and number of reduces: part 3 of one has the keys of part
/// 3 of the other. A map-only job over the one, [uncut](crate::Uncut), opens the same part of the other; see `examples/joins.rs`.
pub struct SortedFile {
    lines: Box<dyn BufRead>,
    path: String,
    /// The line read last and where its key ends; it belongs to a group not asked for yet.
    line: Vec<u8>,
    key_bytes: Option<usize>,
    /// The key of the line before.
    before: Vec<u8>,
    /// The values of the key asked for last.
    key: Vec<u8>,
    values: Vec<u8>,
    ends: Vec<usize>,
}

/// Read ahead.
const BUFFER_BYTES: usize = 256 << 10;
/// Longest line, and most bytes of the values of one key, that are kept (1 GiB).
const GROUP_BYTES_MAX: u64 = 1 << 30;

impl SortedFile {
    /// Opens a file of the job's file system, compressed or not.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(context: &Context, path: &str) -> Result<Self> {
        let file: Box<dyn Read> = context.open(path)?;
        let file = match FileCodec::of_path(path) {
            Some(codec) => codec.decoder(file)?,
            None => file,
        };
        Self::new(file, path)
    }

    fn new(file: impl Read + 'static, path: &str) -> Result<Self> {
        let lines = Box::new(BufReader::with_capacity(BUFFER_BYTES, file));
        let (line, before, key, values, ends) = Default::default();
        let (path, key_bytes) = (path.to_owned(), None);
        let mut sorted = SortedFile { lines, path, line, key_bytes, before, key, values, ends };
        sorted.advance()?;
        Ok(sorted)
    }

    /// The values of `key`, none if the file does not have it. Keys are asked for in rising order; the same one may be asked for again.
    ///
    /// # Errors
    /// If the file cannot be read or its keys fall.
    pub fn values(&mut self, key: &[u8]) -> Result<impl Iterator<Item = &[u8]>> {
        if self.key != key {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.values.clear();
            self.ends.clear();
            while let Some(key_bytes) = self.key_bytes
                && self.line[..key_bytes] <= *key
            {
                if self.line[..key_bytes] == *key {
                    let value = self.line.get(key_bytes + 1..).unwrap_or_default();
                    if (self.values.len() + value.len()) as u64 > GROUP_BYTES_MAX {
                        return Err(Error::RecordTooLong { offset: 0 }.into());
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

    /// Reads the next line.
    fn advance(&mut self) -> Result<()> {
        self.before.clear();
        self.before.extend_from_slice(&self.line[..self.key_bytes.unwrap_or(0)]);
        self.line.clear();
        let mut limited = (&mut self.lines).take(GROUP_BYTES_MAX);
        if limited.read_until(b'\n', &mut self.line)? == 0 {
            self.key_bytes = None;
            return Ok(());
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        let end = memchr::memchr(b'\t', &self.line).unwrap_or(self.line.len());
        self.key_bytes = Some(end);
        if self.before.as_slice() > &self.line[..end] {
            return Err(Error::NotSorted { path: self.path.clone() }.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &'static str, keys: &[&str]) -> Result<Vec<String>> {
        let mut sorted = SortedFile::new(file.as_bytes(), "f")?;
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
}

//! Input formats besides lines: key-value text, whole files, records of a fixed length, SequenceFiles.

use std::cell::RefCell;
use std::io::{BufReader, Read};
use std::marker::PhantomData;

use crate::Result;
use crate::codec::SourceReader;
use crate::error::Error;
use crate::input::{Cut, Format, READ_BYTES, Source, SplitRange};
use crate::sequence::{Header, SequenceReader};
use crate::text::{Line, Lines, TextRules};
use crate::writable::Writable;

/// Lines cut at the first separator into key and value; a line without is all key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyValueLines {
    /// A tab in Hadoop's default.
    pub separator: u8,
}

impl Format for KeyValueLines {
    type Record<'a> = (&'a [u8], &'a [u8]);

    fn cut(&self) -> Cut {
        Cut::TextBlocks
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Self::Record<'_>) -> Result<()>,
    ) -> Result<()> {
        Lines.read(split, source, &mut |at, line| {
            let found = memchr::memchr(self.separator, line.bytes);
            each(
                at,
                found
                    .map_or((line.bytes, &[][..]), |at| (&line.bytes[..at], &line.bytes[at + 1..])),
            )
        })
    }
}

/// Lines of many small files: a map takes files until they are `split_bytes` long together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CombinedLines {
    /// Bytes of a split at least, unless the input ends.
    pub split_bytes: u64,
}

impl Format for CombinedLines {
    type Record<'a> = Line<'a>;

    fn cut(&self) -> Cut {
        Cut::Combined { bytes: self.split_bytes }
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Line<'_>) -> Result<()>,
    ) -> Result<()> {
        Lines.read(split, source, each)
    }

    fn bytes<'r>(record: &Self::Record<'r>) -> Option<&'r [u8]> {
        Some(record.bytes)
    }
}

/// Lines, a fixed number of them per map: for lists whose every line is much work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NLines {
    /// Lines per map.
    pub count: u64,
}

impl Format for NLines {
    type Record<'a> = Line<'a>;

    fn cut(&self) -> Cut {
        Cut::Lines { count: self.count }
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Line<'_>) -> Result<()>,
    ) -> Result<()> {
        // The split is whole lines: its first byte begins one, and its last one ends before the next split.
        let lines = SplitRange { start: 0, end: u64::MAX };
        let mut inner = Window { source, split };
        Lines.read(lines, &mut inner, &mut |at, line| {
            let offset = split.start + at;
            each(offset, Line { offset, bytes: line.bytes })
        })
    }

    fn bytes<'r>(record: &Self::Record<'r>) -> Option<&'r [u8]> {
        Some(record.bytes)
    }
}

/// A part of a source as if it were all of it.
struct Window<'a> {
    source: &'a mut dyn Source,
    split: SplitRange,
}

impl Source for Window<'_> {
    fn slice(&mut self, offset: u64) -> std::io::Result<&[u8]> {
        let at = self.split.start.saturating_add(offset);
        if at >= self.split.end {
            return Ok(&[]);
        }
        let slice = self.source.slice(at)?;
        let rest = usize::try_from(self.split.end - at).unwrap_or(usize::MAX);
        Ok(&slice[..slice.len().min(rest)])
    }

    fn text(&self) -> TextRules {
        let rules = self.source.text();
        TextRules { keeps_mark: rules.keeps_mark || self.split.start > 0, ..rules }
    }
}

/// Files in another format, each read by one task from its beginning to its end: where neighbours matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Uncut<F>(pub F);

impl<F: Format> Format for Uncut<F> {
    type Record<'a> = F::Record<'a>;

    fn cut(&self) -> Cut {
        Cut::Whole
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Self::Record<'_>) -> Result<()>,
    ) -> Result<()> {
        self.0.read(split, source, each)
    }

    fn bytes<'r>(record: &Self::Record<'r>) -> Option<&'r [u8]> {
        F::bytes(record)
    }
}

/// Each file is one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WholeFiles;

/// Longest file that becomes one record (1 GiB).
const WHOLE_BYTES_MAX: u64 = 1 << 30;

impl Format for WholeFiles {
    type Record<'a> = &'a [u8];

    fn cut(&self) -> Cut {
        Cut::Whole
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut file = Vec::new();
        let mut reader = SourceReader::buffered(source).take(WHOLE_BYTES_MAX + 1);
        reader.read_to_end(&mut file)?;
        if file.len() as u64 > WHOLE_BYTES_MAX {
            return Err(Error::RecordTooLong { offset: split.start }.into());
        }
        each(split.start, &file)
    }

    fn bytes<'r>(record: &Self::Record<'r>) -> Option<&'r [u8]> {
        Some(record)
    }
}

/// Records of a fixed length, without anything between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedLength {
    /// Bytes of a record.
    pub bytes: u32,
}

impl Format for FixedLength {
    type Record<'a> = &'a [u8];

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let length = u64::from(self.bytes.max(1));
        // A record belongs to the split in which it begins.
        let mut at = split.start.next_multiple_of(length);
        let mut carry: Vec<u8> = Vec::with_capacity(length as usize);
        let mut position = at;
        while at < split.end {
            let mut slice = source.slice(position)?;
            if slice.is_empty() {
                return match carry.len() {
                    0 => Ok(()),
                    _ => Err(Error::RecordCutOff { offset: at }.into()),
                };
            }
            position += slice.len() as u64;
            if !carry.is_empty() {
                let count = slice.len().min(length as usize - carry.len());
                carry.extend_from_slice(&slice[..count]);
                slice = &slice[count..];
                if carry.len() < length as usize {
                    continue;
                }
                each(at, &carry)?;
                carry.clear();
                at += length;
            }
            let mut records = slice.chunks_exact(length as usize);
            for record in records.by_ref() {
                if at >= split.end {
                    return Ok(());
                }
                each(at, record)?;
                at += length;
            }
            carry.extend_from_slice(records.remainder());
        }
        Ok(())
    }

    fn bytes<'r>(record: &Self::Record<'r>) -> Option<&'r [u8]> {
        Some(record)
    }
}

/// Hadoop's SequenceFiles: keys and values as serialised Writables; see [`crate::sequence`] for what they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequenceFiles;

impl Format for SequenceFiles {
    type Record<'a> = (&'a [u8], &'a [u8]);

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Self::Record<'_>) -> Result<()>,
    ) -> Result<()> {
        read_sequence(split, source, |_| Ok(()), each)
    }
}

/// Hadoop's SequenceFiles with keys of class `K::CLASS` and values of class `V::CLASS`; files with others are refused.
pub struct SequencePairs<K, V> {
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Writable, V: Writable> SequencePairs<K, V> {
    /// The format.
    pub fn new() -> Self {
        SequencePairs { types: PhantomData }
    }
}

impl<K: Writable, V: Writable> Default for SequencePairs<K, V> {
    fn default() -> Self {
        SequencePairs::new()
    }
}

impl<K, V> Clone for SequencePairs<K, V> {
    fn clone(&self) -> Self {
        SequencePairs { types: PhantomData }
    }
}

impl<K: Writable + 'static, V: Writable + 'static> Format for SequencePairs<K, V> {
    type Record<'a> = (K::View<'a>, V::View<'a>);

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Self::Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let check = |header: &Header| {
            let found = format!("{} and {}", header.key_class, header.value_class);
            let wanted = format!("{} and {}", K::CLASS, V::CLASS);
            if found == wanted { Ok(()) } else { Err(Error::InputClass { found, wanted }.into()) }
        };
        read_sequence(split, source, check, &mut |at, (key, value)| {
            each(at, (K::read(key)?, V::read(value)?))
        })
    }
}

fn read_sequence(
    split: SplitRange,
    source: &mut dyn Source,
    check: impl FnOnce(&Header) -> Result<()>,
    each: &mut impl for<'a> FnMut(u64, (&'a [u8], &'a [u8])) -> Result<()>,
) -> Result<()> {
    let source = RefCell::new(source);
    let open =
        |offset| BufReader::with_capacity(READ_BYTES, SharedReader { source: &source, offset });
    let mut reader = SequenceReader::split(split.start, split.end, open)?;
    check(reader.header())?;
    loop {
        let at = reader.position();
        match reader.next_pair()? {
            Some(pair) => each(at, pair)?,
            None => return Ok(()),
        }
    }
}

/// Several readers of one source, used one after the other.
struct SharedReader<'a, 'b> {
    source: &'a RefCell<&'b mut dyn Source>,
    offset: u64,
}

impl Read for SharedReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut source = self.source.borrow_mut();
        let mut reader = SourceReader { source: &mut **source, offset: self.offset };
        let count = reader.read(buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    struct Chopped<'a>(&'a [u8], usize);

    impl Source for Chopped<'_> {
        fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
            let rest = &self.0[(offset as usize).min(self.0.len())..];
            Ok(&rest[..rest.len().min(self.1)])
        }
    }

    #[test]
    fn records_of_a_fixed_length_belong_to_one_split_each() {
        let file: Vec<u8> = (0..70).collect();
        for bytes in [1, 7, 10, 35] {
            for split in 1..=70u64 {
                for slice in [1, 3, 100] {
                    let mut found = Vec::new();
                    for start in (0..70).step_by(split as usize) {
                        let range = SplitRange { start, end: (start + split).min(70) };
                        let mut each = |at: u64, record: &[u8]| {
                            assert_eq!((at % u64::from(bytes), record.len()), (0, bytes as usize));
                            found.extend_from_slice(record);
                            Ok(())
                        };
                        FixedLength { bytes }
                            .read(range, &mut Chopped(&file, slice), &mut each)
                            .unwrap();
                    }
                    assert_eq!(found, file, "{bytes} {split} {slice}");
                }
            }
        }
        let range = SplitRange { start: 0, end: 70 };
        let cut = FixedLength { bytes: 8 }.read(range, &mut Chopped(&file, 9), &mut |_, _| Ok(()));
        assert!(cut.unwrap_err().to_string().contains("64"));
    }

    #[test]
    fn windows_and_whole_files() {
        let file = b"one\ntwo\nthree\n";
        let mut lines = Vec::new();
        let range = SplitRange { start: 4, end: 8 };
        let mut each = |at: u64, line: Line<'_>| {
            lines.push((at, line.to_vec()));
            Ok(())
        };
        NLines { count: 1 }.read(range, &mut Chopped(file, 3), &mut each).unwrap();
        assert_eq!(lines, [(4, b"two".to_vec())]);
        let mut whole = Vec::new();
        let range = SplitRange { start: 0, end: 14 };
        let mut each = |_: u64, bytes: &[u8]| {
            whole.extend_from_slice(bytes);
            Ok(())
        };
        WholeFiles.read(range, &mut Chopped(file, 5), &mut each).unwrap();
        assert_eq!(whole, file);
    }
}

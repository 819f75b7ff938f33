//! Formats whose records are fixed-length parts of a file, or the whole file.

use std::io::Read;

use super::input::{Cut, Format, Source, SplitRange};
use super::sources::SourceReader;
use crate::error::{Error, Result};

/// Files in another format, each read by one task from beginning to end, for records that depend on their neighbours.
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
        let length = u64::from(self.bytes);
        if length == 0 {
            return Err(Error::NoRecordLength.into());
        }
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

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::{Line, NLines};

    struct Chopped<'a>(&'a [u8], usize);

    impl Source for Chopped<'_> {
        fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
            let rest = &self.0[(offset as usize).min(self.0.len())..];
            Ok(&rest[..rest.len().min(self.1)])
        }

        fn length(&self) -> Option<u64> {
            Some(self.0.len() as u64)
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
        let error = cut.unwrap_err();
        assert!(
            matches!(error.downcast_ref(), Some(Error::RecordCutOff { offset: 64 })),
            "{error}"
        );
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

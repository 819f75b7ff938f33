//! The record that a map is processing: its process notes it in a file of the attempt, which survives the process.
//!
//! The file [`RECORD_FILE`] in the attempt's directory is [`PLACE_BYTES`] long: two unsigned 64-bit numbers in the machine's byte order, because the process
//! maps the file and only stores to it.
//!
//! | bytes | content |
//! |---|---|
//! | 0–7 | number of the part of the split, from 1; 0 while the map is in no record |
//! | 8–15 | where the record begins in its file, bytes |
//!
//! The process sets the offset before the number. Writer: the task runner. Reader: the worker, when the attempt has ended.

use serde::{Deserialize, Serialize};

use super::split::Split;

/// Prefix of the message of a map that failed in a record; the file follows, then [`AT_BYTE`], a number and a colon.
pub const MAP_FAILED: &str = "map failed at ";
/// Between file and offset in such a message.
pub const AT_BYTE: &str = ", byte ";
/// Name of the file in the directory of an attempt.
pub const RECORD_FILE: &str = ".record";
/// Below a job's output: for each map that skipped records, a file that names them.
pub const SKIP_DIRECTORY: &str = "_logs/skip";
/// Length of the file.
pub const PLACE_BYTES: usize = 16;

/// Where a record of a split begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RecordAt {
    /// The part of the split, from 0.
    pub part: u32,
    /// First byte of the record in the part's file.
    pub offset: u64,
}

impl RecordAt {
    /// Reads the file; `None` if the map was in no record, or if this is not that file.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (number, offset) = bytes.split_at_checked(PLACE_BYTES / 2)?;
        let number = u64::from_ne_bytes(number.try_into().ok()?);
        let part = u32::try_from(number.checked_sub(1)?).ok()?;
        Some(RecordAt { part, offset: u64::from_ne_bytes(offset.try_into().ok()?) })
    }

    /// For people: `map failed at PATH, byte OFFSET`; `None` if the split has no such part.
    pub fn failure(&self, split: &Split) -> Option<String> {
        let path = match self.part.checked_sub(1) {
            None => &split.path,
            Some(index) => &split.more.get(index as usize)?.path,
        };
        Some(format!("{MAP_FAILED}{path}{AT_BYTE}{}", self.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DfsPath;
    use crate::jobs::SplitPart;

    fn file(number: u64, offset: u64) -> Vec<u8> {
        [number.to_ne_bytes(), offset.to_ne_bytes()].concat()
    }

    #[test]
    fn a_place_is_read_and_nothing_else_is_one() {
        assert_eq!(RecordAt::decode(&file(3, 77)), Some(RecordAt { part: 2, offset: 77 }));
        let whole = file(1, u64::MAX);
        assert_eq!(RecordAt::decode(&whole), Some(RecordAt { part: 0, offset: u64::MAX }));
        assert_eq!(RecordAt::decode(&file(0, 77)), None, "in no record");
        assert_eq!(RecordAt::decode(&file(1 << 40, 77)), None, "no split has so many parts");
        for length in 0..PLACE_BYTES {
            assert_eq!(RecordAt::decode(&whole[..length]), None, "{length}");
        }
        assert_eq!(RecordAt::decode(&[0; PLACE_BYTES + 1]), None);
    }

    #[test]
    fn it_is_named_by_its_file() {
        let path = |text| DfsPath::parse(text).unwrap();
        let more = vec![SplitPart { path: path("/b"), offset: 0, length: 1 }];
        let (hosts, racks) = (Vec::new(), Vec::new());
        let split = Split { path: path("/a"), offset: 0, length: 9, hosts, racks, input: 0, more };
        let named = |part| RecordAt { part, offset: 5 }.failure(&split);
        assert_eq!(named(0).as_deref(), Some("map failed at /a, byte 5"));
        assert_eq!(named(1).as_deref(), Some("map failed at /b, byte 5"));
        assert_eq!(named(2), None);
    }
}

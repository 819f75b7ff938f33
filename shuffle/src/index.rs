//! Format of the index file of a map output: the position of each partition's segment in the data file.
//!
//! ```text
//! little endian
//!   0  8 bytes  magic "HNNOMIDX"
//!   8  u32      version, 1
//!  12  u32      number of partitions n
//!  16  n x { u64 offset, u64 stored, u64 raw, u64 records }
//!  ..  u32      CRC-32 (IEEE) of everything before it
//! ```
//!
//! Invariants: segments are adjacent from offset 0 in partition order; none claims more than its stored bytes can hold; the file becomes
//! visible by rename.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use crate::block::HEADER_BYTES;
use crate::error::{Damage, Error, Origin, Result, io_error};

/// Most partitions a job may have (one million): each costs 32 index bytes in every map output.
pub const PARTITIONS_MAX: u32 = 1 << 20;

/// One partition of a map output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentInfo {
    /// Offset of the segment in the data file.
    pub offset: u64,
    /// Bytes of the segment as stored, headers included.
    pub stored: u64,
    /// Bytes of the segment's blocks before compression.
    pub raw: u64,
    /// Records in the segment.
    pub records: u64,
}

impl SegmentInfo {
    /// False if no segment can hold this much in its stored bytes.
    fn can_be(&self) -> bool {
        self.stored >= HEADER_BYTES as u64
            && self.raw <= self.stored.saturating_mul(EXPANSION_MAX)
            && self.records <= self.raw / RECORD_BYTES_MIN
    }
}

/// Reads and checks the index file at `path`, which nobody else can change.
pub fn read_index(path: &Path) -> Result<Vec<SegmentInfo>> {
    read_open_index(File::open(path).map_err(io_error("open", path))?, path)
}

/// Reads and checks an open index file; `path` names it in errors.
pub fn read_open_index(file: File, path: &Path) -> Result<Vec<SegmentInfo>> {
    let mut bytes = Vec::new();
    let mut file = file.take(INDEX_BYTES_MAX as u64 + 1);
    file.read_to_end(&mut bytes).map_err(io_error("read", path))?;
    decode(&bytes).map_err(|(offset, damage)| Error::Corrupt {
        origin: Origin::File(path.to_owned()),
        offset,
        damage,
    })
}

/// Writes the index file at `path` through `temporary` in the same directory.
pub(crate) fn write_index(
    path: &Path,
    temporary: &Path,
    segments: &[SegmentInfo],
    sync: bool,
) -> Result<()> {
    let mut file = File::create(temporary).map_err(io_error("create", temporary))?;
    file.write_all(&encode_index(segments)).map_err(io_error("write to", temporary))?;
    if sync {
        file.sync_data().map_err(io_error("sync", temporary))?;
    }
    fs::rename(temporary, path).map_err(io_error("rename", temporary))
}

/// The bytes of an index file.
pub fn encode_index(segments: &[SegmentInfo]) -> Vec<u8> {
    let count = u32::try_from(segments.len()).expect("the number of partitions is a u32");
    let mut bytes = Vec::with_capacity(HEAD_BYTES + segments.len() * ENTRY_BYTES + CRC_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&count.to_le_bytes());
    for segment in segments {
        for word in [segment.offset, segment.stored, segment.raw, segment.records] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<SegmentInfo>, (u64, Damage)> {
    let Some((body, crc)) = bytes.split_last_chunk::<CRC_BYTES>() else {
        return Err((bytes.len() as u64, Damage::Truncated));
    };
    if body.len() < HEAD_BYTES {
        return Err((bytes.len() as u64, Damage::Truncated));
    }
    if !body.starts_with(MAGIC) {
        return Err((0, Damage::Magic));
    }
    let u32_at = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
    if u32_at(8) != VERSION {
        return Err((8, Damage::Version(u32_at(8))));
    }
    let (entries, want) = (&body[HEAD_BYTES..], u64::from(u32_at(12)) * ENTRY_BYTES as u64);
    match (entries.len() as u64).cmp(&want) {
        std::cmp::Ordering::Less => return Err((bytes.len() as u64, Damage::Truncated)),
        std::cmp::Ordering::Greater => {
            return Err((HEAD_BYTES as u64 + want, Damage::TrailingBytes));
        }
        std::cmp::Ordering::Equal => {}
    }
    if u32::from_le_bytes(*crc) != crc32fast::hash(body) {
        return Err((body.len() as u64, Damage::PayloadChecksum));
    }
    let mut end = 0;
    let mut segments = Vec::with_capacity(entries.len() / ENTRY_BYTES);
    for (position, entry) in entries.chunks_exact(ENTRY_BYTES).enumerate() {
        let word = |at: usize| {
            u64::from_le_bytes(entry[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
        };
        let segment =
            SegmentInfo { offset: word(0), stored: word(1), raw: word(2), records: word(3) };
        let place = (HEAD_BYTES + position * ENTRY_BYTES) as u64;
        if segment.offset != end || !segment.can_be() {
            return Err((place, Damage::Length));
        }
        end = segment.offset.checked_add(segment.stored).ok_or((place, Damage::Length))?;
        segments.push(segment);
    }
    Ok(segments)
}

const MAGIC: &[u8; 8] = b"HNNOMIDX";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 16;
const ENTRY_BYTES: usize = 32;
const CRC_BYTES: usize = 4;
/// Most raw bytes that one stored byte stands for: a byte of LZ4 adds up to 255 to the length of a match.
const EXPANSION_MAX: u64 = 255;
/// A record of an empty key and an empty value: three lengths.
const RECORD_BYTES_MIN: u64 = 3;
/// Longest accepted index: that of [`PARTITIONS_MAX`] partitions.
const INDEX_BYTES_MAX: usize = HEAD_BYTES + PARTITIONS_MAX as usize * ENTRY_BYTES + CRC_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<SegmentInfo> {
        vec![
            SegmentInfo { offset: 0, stored: 24, raw: 0, records: 0 },
            SegmentInfo { offset: 24, stored: 300, raw: 1000, records: 7 },
        ]
    }

    #[test]
    fn golden_bytes() {
        let want = "484e4e4f4d494458\
                    01000000\
                    02000000\
                    0000000000000000180000000000000000000000000000000000000000000000\
                    18000000000000002c01000000000000e8030000000000000700000000000000";
        let bytes = encode_index(&sample());
        let got: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(&got[..got.len() - 8], want);
        assert_eq!(&got[got.len() - 8..], "c6a17342");
        assert_eq!(decode(&bytes).unwrap(), sample());
        assert_eq!(decode(&encode_index(&[])).unwrap(), []);
    }

    #[test]
    fn flips_cuts_and_additions_are_noticed() {
        let good = encode_index(&sample());
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad).is_err(), "bit {bit}");
        }
        for cut in 0..good.len() {
            assert!(decode(&good[..cut]).is_err(), "cut {cut}");
        }
        let mut long = good;
        long.push(0);
        assert!(decode(&long).is_err());
    }

    #[test]
    fn a_gap_between_segments_is_refused() {
        let mut segments = sample();
        segments[1].offset = 25;
        assert_eq!(decode(&encode_index(&segments)), Err((48, Damage::Length)));
    }

    #[test]
    fn a_segment_that_claims_more_than_it_can_hold_is_refused() {
        let good = SegmentInfo { offset: 0, stored: 100, raw: 25_500, records: 8_500 };
        assert_eq!(decode(&encode_index(&[good])), Ok(vec![good]));
        for bad in [
            SegmentInfo { stored: 23, raw: 0, records: 0, ..good },
            SegmentInfo { raw: 25_501, ..good },
            SegmentInfo { records: 8_501, ..good },
            SegmentInfo { stored: u64::MAX, raw: u64::MAX, records: 1, ..good },
        ] {
            let damage = decode(&encode_index(&[good, SegmentInfo { offset: 100, ..bad }]));
            assert_eq!(damage, Err((48, Damage::Length)), "{bad:?}");
        }
    }

    #[test]
    fn files_name_themselves_in_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.index");
        write_index(&path, &dir.path().join("m.tmp"), &sample(), true).unwrap();
        assert_eq!(read_index(&path).unwrap(), sample());
        fs::write(&path, b"short").unwrap();
        let error = read_index(&path).unwrap_err();
        assert!(error.to_string().contains("m.index is corrupt at byte 5: truncated"), "{error}");
    }
}

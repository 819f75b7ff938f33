//! Format of the index file of a map output: the position of each partition's segment in the data file.
//!
//! ```text
//! little endian
//!   0  8 bytes  magic "HNNOMIDX"
//!   8  u32      version, 2
//!  12  u32      number of partitions n
//!  16  u32      CRC-32 (IEEE) of everything before it
//!  20  groups of 32 partitions; the last one has those that are left
//!        m x { u64 offset, u64 stored, u64 raw, u64 records }
//!        u32   CRC-32 of bytes 0 to 16 of the file, of the group's number as a u32, and of its entries
//! ```
//!
//! The CRC of a group leaves out that of the head: behind its own CRC, every head would be the same to it.
//!
//! A reduce reads the head and the groups of its partitions. Version 1, which programs of jobs may have been built with, has no CRC of the
//! head and none of groups but, at its end, one of everything before it; it is read as a whole.
//!
//! Invariants: segments are adjacent from offset 0 in partition order; none claims more than its stored bytes can hold; the file becomes
//! visible by rename; what is read of an index was checked, whatever the rest of it is.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
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
    decode(&bytes).map_err(|(offset, damage)| corrupt(path, offset, damage))
}

/// Reads and checks what an open index file says of some partitions; `path` names it in errors.
pub fn read_partitions(
    file: &File,
    path: &Path,
    partitions: Range<u32>,
) -> Result<Vec<SegmentInfo>> {
    decode_partitions(|bytes, offset| read_at(file, path, bytes, offset), path, partitions)
}

/// What an index says of some partitions; `read` fills a buffer with its bytes from an offset.
pub(crate) fn decode_partitions(
    read: impl Fn(&mut [u8], u64) -> Result<()>,
    path: &Path,
    partitions: Range<u32>,
) -> Result<Vec<SegmentInfo>> {
    let at = |(offset, damage)| corrupt(path, offset, damage);
    let mut head = [0; HEAD_BYTES];
    read(&mut head, 0)?;
    let (version, count) = parse_start(&head).map_err(at)?;
    if partitions.start > partitions.end || partitions.end > count {
        let partition = partitions.start.max(partitions.end.saturating_sub(1));
        return Err(Error::PartitionOutOfRange { partition, partitions: count });
    }
    let (first, mut segments) = if version == VERSION_WHOLE {
        let mut bytes = vec![0; whole_bytes(count)];
        read(&mut bytes, 0)?;
        (0, decode(&bytes).map_err(at)?)
    } else {
        check_head(&head).map_err(at)?;
        let groups = Groups::around(&partitions, count);
        let mut bytes = vec![0; groups.bytes()];
        read(&mut bytes, groups.place())?;
        (groups.entries.start, groups.decode(&head, &bytes).map_err(at)?)
    };
    segments.truncate((partitions.end - first) as usize);
    segments.drain(..(partitions.start - first) as usize);
    Ok(segments)
}

fn read_at(file: &File, path: &Path, bytes: &mut [u8], offset: u64) -> Result<()> {
    match file.read_exact_at(bytes, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(corrupt(path, offset, Damage::Truncated))
        }
        read => read.map_err(io_error("read", path)),
    }
}

fn corrupt(path: &Path, offset: u64, damage: Damage) -> Error {
    Error::Corrupt { origin: Origin::File(path.to_owned()), offset, damage }
}

/// Writes the index file at `path` through `temporary` in the same directory.
pub(crate) fn write_index(
    path: &Path,
    temporary: &Path,
    segments: &[SegmentInfo],
    sync: bool,
) -> Result<()> {
    let mut file = File::create_new(temporary).map_err(io_error("create", temporary))?;
    file.write_all(&encode_index(segments)).map_err(io_error("write to", temporary))?;
    if sync {
        file.sync_data().map_err(io_error("sync", temporary))?;
    }
    fs::rename(temporary, path).map_err(io_error("rename", temporary))
}

/// The bytes of an index file.
pub fn encode_index(segments: &[SegmentInfo]) -> Vec<u8> {
    let count = u32::try_from(segments.len()).expect("the number of partitions is a u32");
    let mut bytes = Vec::with_capacity(Groups::all(count).bytes() + HEAD_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    let head: [u8; HEAD_BYTES] = *bytes.first_chunk().expect("the head was written");
    for (number, group) in (0..).zip(segments.chunks(GROUP_ENTRIES as usize)) {
        let start = bytes.len();
        for segment in group {
            for word in [segment.offset, segment.stored, segment.raw, segment.records] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        let crc = group_crc(&head, number, &bytes[start..]);
        bytes.extend_from_slice(&crc.to_le_bytes());
    }
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<SegmentInfo>, (u64, Damage)> {
    let cut_off = (bytes.len() as u64, Damage::Truncated);
    let Some((head, body)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Err(cut_off) };
    let (version, count) = parse_start(head)?;
    if version == VERSION_WHOLE {
        return decode_whole(bytes, count);
    }
    check_head(head)?;
    let groups = Groups::all(count);
    let body = exactly(body, HEAD_BYTES, groups.bytes())?;
    groups.decode(head, body)
}

/// Version 1, with one checksum.
fn decode_whole(bytes: &[u8], count: u32) -> Result<Vec<SegmentInfo>, (u64, Damage)> {
    exactly(bytes, 0, whole_bytes(count))?;
    let (body, crc) = bytes.split_last_chunk().expect("it is as long as it has to be");
    if u32::from_le_bytes(*crc) != crc32fast::hash(body) {
        return Err((body.len() as u64, Damage::PayloadChecksum));
    }
    let mut segments = Vec::with_capacity(count as usize);
    decode_entries(&body[START_BYTES..], START_BYTES as u64, Some(0), &mut segments)?;
    Ok(segments)
}

/// Length of an index of version 1.
fn whole_bytes(count: u32) -> usize {
    START_BYTES + count as usize * ENTRY_BYTES + CRC_BYTES
}

/// `body`, which begins at byte `place`, if it is as long as it should be.
fn exactly(body: &[u8], place: usize, want: usize) -> Result<&[u8], (u64, Damage)> {
    match body.len().cmp(&want) {
        std::cmp::Ordering::Less => Err(((place + body.len()) as u64, Damage::Truncated)),
        std::cmp::Ordering::Greater => Err(((place + want) as u64, Damage::TrailingBytes)),
        std::cmp::Ordering::Equal => Ok(body),
    }
}

/// Version and number of partitions: what every version begins with.
fn parse_start(head: &[u8; HEAD_BYTES]) -> Result<(u32, u32), (u64, Damage)> {
    if !head.starts_with(MAGIC) {
        return Err((0, Damage::Magic));
    }
    let (version, count) = (u32_at(head, 8), u32_at(head, 12));
    if version != VERSION && version != VERSION_WHOLE {
        return Err((8, Damage::Version(version)));
    }
    if count > PARTITIONS_MAX {
        return Err((12, Damage::Length));
    }
    Ok((version, count))
}

fn check_head(head: &[u8; HEAD_BYTES]) -> Result<(), (u64, Damage)> {
    match u32_at(head, START_BYTES) == crc32fast::hash(&head[..START_BYTES]) {
        true => Ok(()),
        false => Err((START_BYTES as u64, Damage::HeaderChecksum)),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn group_crc(head: &[u8; HEAD_BYTES], number: u32, entries: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[..START_BYTES]);
    crc.update(&number.to_le_bytes());
    crc.update(entries);
    crc.finalize()
}

/// Neighbouring groups of an index.
struct Groups {
    numbers: Range<u32>,
    /// The partitions in them.
    entries: Range<u32>,
}

impl Groups {
    /// Those of all partitions.
    fn all(count: u32) -> Self {
        Groups { numbers: 0..count.div_ceil(GROUP_ENTRIES), entries: 0..count }
    }

    /// Those of some of `count` partitions.
    fn around(partitions: &Range<u32>, count: u32) -> Self {
        let numbers = partitions.start / GROUP_ENTRIES..partitions.end.div_ceil(GROUP_ENTRIES);
        let entries = numbers.start * GROUP_ENTRIES..(numbers.end * GROUP_ENTRIES).min(count);
        Groups { numbers, entries }
    }

    fn place(&self) -> u64 {
        HEAD_BYTES as u64 + u64::from(self.numbers.start) * GROUP_BYTES as u64
    }

    fn bytes(&self) -> usize {
        self.entries.len() * ENTRY_BYTES + self.numbers.len() * CRC_BYTES
    }

    /// Reads their bytes, which are as many as [`Groups::bytes`].
    fn decode(
        &self,
        head: &[u8; HEAD_BYTES],
        bytes: &[u8],
    ) -> Result<Vec<SegmentInfo>, (u64, Damage)> {
        let mut segments = Vec::with_capacity(self.entries.len());
        let mut end = (self.numbers.start == 0).then_some(0);
        let mut place = self.place();
        for (number, group) in self.numbers.clone().zip(bytes.chunks(GROUP_BYTES)) {
            let (entries, crc) = group.split_last_chunk().ok_or((place, Damage::Truncated))?;
            if u32::from_le_bytes(*crc) != group_crc(head, number, entries) {
                return Err((place + entries.len() as u64, Damage::PayloadChecksum));
            }
            end = decode_entries(entries, place, end, &mut segments)?;
            place += GROUP_BYTES as u64;
        }
        Ok(segments)
    }
}

/// Reads entries that begin at byte `place`, the first one's segment at `end` if that is known. Returns where the last one's ends.
fn decode_entries(
    entries: &[u8],
    place: u64,
    mut end: Option<u64>,
    segments: &mut Vec<SegmentInfo>,
) -> Result<Option<u64>, (u64, Damage)> {
    for (position, entry) in entries.chunks_exact(ENTRY_BYTES).enumerate() {
        let word = |at: usize| {
            u64::from_le_bytes(entry[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
        };
        let segment =
            SegmentInfo { offset: word(0), stored: word(1), raw: word(2), records: word(3) };
        let wrong = (place + (position * ENTRY_BYTES) as u64, Damage::Length);
        if end.is_some_and(|end| segment.offset != end) || !segment.can_be() {
            return Err(wrong);
        }
        end = Some(segment.offset.checked_add(segment.stored).ok_or(wrong)?);
        segments.push(segment);
    }
    Ok(end)
}

/// What an index that is all here says of some partitions.
#[cfg(any(test, fuzzing))]
pub(crate) fn partitions_in(bytes: &[u8], partitions: Range<u32>) -> Result<Vec<SegmentInfo>> {
    let path = Path::new("m.index");
    let read = |into: &mut [u8], offset: u64| {
        let from = bytes.get(offset as usize..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(from.ok_or_else(|| corrupt(path, offset, Damage::Truncated))?);
        Ok(())
    };
    decode_partitions(read, path, partitions)
}

/// The bytes with a right checksum wherever this version has one.
#[cfg(any(test, fuzzing))]
pub(crate) fn seal_index(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    if let Some((head, body)) = sealed.split_first_chunk_mut::<HEAD_BYTES>() {
        let crc = crc32fast::hash(&head[..START_BYTES]);
        head[START_BYTES..].copy_from_slice(&crc.to_le_bytes());
        for (number, group) in (0..).zip(body.chunks_mut(GROUP_BYTES)) {
            if let Some((entries, crc)) = group.split_last_chunk_mut() {
                *crc = group_crc(head, number, entries).to_le_bytes();
            }
        }
    }
    sealed
}

const MAGIC: &[u8; 8] = b"HNNOMIDX";
const VERSION: u32 = 2;
/// The version with one checksum at its end.
const VERSION_WHOLE: u32 = 1;
/// Magic number, version and number of partitions.
const START_BYTES: usize = 16;
const HEAD_BYTES: usize = START_BYTES + CRC_BYTES;
const ENTRY_BYTES: usize = 32;
/// Partitions that are read and checked together: as few as make their checksum a small part of the file.
const GROUP_ENTRIES: u32 = 32;
const GROUP_BYTES: usize = GROUP_ENTRIES as usize * ENTRY_BYTES + CRC_BYTES;
const CRC_BYTES: usize = 4;
/// Most raw bytes that one stored byte stands for: a byte of LZ4 adds up to 255 to the length of a match.
const EXPANSION_MAX: u64 = 255;
/// A record of an empty key and an empty value: three lengths.
const RECORD_BYTES_MIN: u64 = 3;
/// Longest accepted index: that of [`PARTITIONS_MAX`] partitions.
const INDEX_BYTES_MAX: usize =
    HEAD_BYTES + PARTITIONS_MAX.div_ceil(GROUP_ENTRIES) as usize * GROUP_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<SegmentInfo> {
        vec![
            SegmentInfo { offset: 0, stored: 24, raw: 0, records: 0 },
            SegmentInfo { offset: 24, stored: 300, raw: 1000, records: 7 },
        ]
    }

    /// Segments of different lengths, in this many partitions.
    fn many(count: u64) -> Vec<SegmentInfo> {
        let mut offset = 0;
        let segment = |number: u64| {
            let stored = 24 + number * 7 % 50;
            let segment = SegmentInfo { offset, stored, raw: number, records: number / 3 };
            offset += stored;
            segment
        };
        (0..count).map(segment).collect()
    }

    /// The sample as version 1 wrote it.
    const WHOLE: &str = "484e4e4f4d494458\
                         01000000\
                         02000000\
                         0000000000000000180000000000000000000000000000000000000000000000\
                         18000000000000002c01000000000000e8030000000000000700000000000000\
                         c6a17342";

    fn whole() -> Vec<u8> {
        let digits = |at: usize| u8::from_str_radix(&WHOLE[at..at + 2], 16).unwrap();
        (0..WHOLE.len()).step_by(2).map(digits).collect()
    }

    #[test]
    fn golden_bytes() {
        let want = "484e4e4f4d494458\
                    02000000\
                    02000000\
                    31bdbf33\
                    0000000000000000180000000000000000000000000000000000000000000000\
                    18000000000000002c01000000000000e8030000000000000700000000000000\
                    9096928b";
        let bytes = encode_index(&sample());
        let got: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(got, want);
        assert_eq!(decode(&bytes).unwrap(), sample());
        assert_eq!(decode(&encode_index(&[])).unwrap(), []);
    }

    #[test]
    fn the_version_before_is_read() {
        assert_eq!(decode(&whole()).unwrap(), sample());
        assert_eq!(partitions_in(&whole(), 0..2).unwrap(), sample());
        assert_eq!(partitions_in(&whole(), 1..2).unwrap(), sample()[1..]);
        for bytes in [whole(), encode_index(&sample())] {
            for (start, end) in [(1, 3), (3, 3), (2, 1), (40, 0), (0, u32::MAX)] {
                let found = partitions_in(&bytes, start..end);
                assert!(matches!(found, Err(Error::PartitionOutOfRange { .. })), "{start} {end}");
            }
        }
    }

    #[test]
    fn flips_cuts_and_additions_are_noticed() {
        for good in [whole(), encode_index(&sample()), encode_index(&many(70))] {
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
    }

    #[test]
    fn some_partitions_are_read_alone() {
        for count in [1, 31, 32, 33, 64, 70] {
            let all = many(u64::from(count));
            let path = Path::new("m.index");
            let bytes = encode_index(&all);
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            for start in 0..=count {
                for end in [start, start + 1, start + 2, start + 40, count] {
                    match read_partitions(&file, path, start..end) {
                        Ok(found) => assert_eq!(found, all[start as usize..end as usize]),
                        Err(Error::PartitionOutOfRange { partition, partitions }) => {
                            assert!(end > count);
                            assert_eq!((partition, partitions), (end - 1, count));
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    }

    /// Damage in one group hides the others from nobody, and is found by all who read the group.
    #[test]
    fn damage_is_noticed_where_it_is_read() {
        let (all, count) = (many(70), 70);
        let good = encode_index(&all);
        let group_of = |at: usize| at.checked_sub(HEAD_BYTES).map(|at| (at / GROUP_BYTES) as u32);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            for partition in [0, 31, 32, 40, 63, 64, 69] {
                let found = partitions_in(&bad, partition..partition + 1);
                let is_hit = group_of(at).is_none_or(|group| group == partition / GROUP_ENTRIES);
                assert_eq!(found.is_err(), is_hit, "byte {at}, partition {partition}");
            }
            assert!(partitions_in(&bad, 0..count).is_err());
        }
        for cut in 0..good.len() {
            for partition in [0, 31, 32, 40, 63, 64, 69] {
                let groups = Groups::around(&(partition..partition + 1), count);
                let is_hit = cut < groups.place() as usize + groups.bytes();
                let found = partitions_in(&good[..cut], partition..partition + 1);
                assert_eq!(found.is_err(), is_hit, "cut {cut}, partition {partition}");
            }
        }
    }

    #[test]
    fn a_group_in_the_place_of_another_and_one_of_another_index_are_refused() {
        let mut swapped = encode_index(&many(64));
        let (first, second) = swapped[HEAD_BYTES..].split_at_mut(GROUP_BYTES);
        first.swap_with_slice(second);
        let damage = |found: Result<_>| match found.unwrap_err() {
            Error::Corrupt { damage, .. } => damage,
            other => panic!("{other}"),
        };
        assert_eq!(damage(partitions_in(&swapped, 0..1)), Damage::PayloadChecksum);
        assert_eq!(damage(partitions_in(&swapped, 40..41)), Damage::PayloadChecksum);
        let mut mixed = encode_index(&many(65));
        mixed[HEAD_BYTES..][..2 * GROUP_BYTES]
            .copy_from_slice(&encode_index(&many(64))[HEAD_BYTES..]);
        assert_eq!(damage(partitions_in(&mixed, 0..1)), Damage::PayloadChecksum);
    }

    #[test]
    fn more_partitions_than_a_job_may_have_are_refused() {
        for version in [VERSION, VERSION_WHOLE] {
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&version.to_le_bytes());
            bytes.extend_from_slice(&(PARTITIONS_MAX + 1).to_le_bytes());
            bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
            assert_eq!(decode(&bytes), Err((12, Damage::Length)));
            assert!(partitions_in(&bytes, 0..1).is_err());
        }
    }

    #[test]
    fn a_gap_between_segments_is_refused() {
        let mut segments = many(40);
        for segment in &mut segments[35..] {
            segment.offset += 1;
        }
        let bytes = encode_index(&segments);
        let place = (HEAD_BYTES + GROUP_BYTES + 3 * ENTRY_BYTES) as u64;
        assert_eq!(decode(&bytes), Err((place, Damage::Length)));
        assert!(partitions_in(&bytes, 36..37).is_err());
        let late = [SegmentInfo { offset: 1, ..sample()[0] }];
        assert!(partitions_in(&encode_index(&late), 0..1).is_err());
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
            let bytes = encode_index(&[good, SegmentInfo { offset: 100, ..bad }]);
            assert_eq!(decode(&bytes), Err((52, Damage::Length)), "{bad:?}");
            assert!(partitions_in(&bytes, 1..2).is_err(), "{bad:?}");
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

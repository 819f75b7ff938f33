//! Decoders that accept any bytes, for `fuzz/`: map outputs and their indexes, which tasks write and others fetch.

use crate::block::{HEADER_BYTES, Header};
use crate::codec::Codec;
use crate::index::{decode, encode_index, partitions_in, seal_index};
use crate::segment::verify_segment;

/// The name of a target, and its decoder.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] =
    &[("shuffle_index", shuffle_index), ("shuffle_segment", shuffle_segment)];

/// The index of a map output: unchanged, with the checksum of version 1, and with those of version 2. Some partitions are what the whole says of them.
pub fn shuffle_index(bytes: &[u8]) {
    let mut sealed_whole = bytes.to_vec();
    if let Some(at) = bytes.len().checked_sub(4) {
        let crc = crc32fast::hash(&bytes[..at]);
        sealed_whole[at..].copy_from_slice(&crc.to_le_bytes());
    }
    for bytes in [bytes, &sealed_whole, &seal_index(bytes)] {
        if let Ok(segments) = decode(bytes) {
            // A file of version 1 is read, and written as version 2.
            assert_eq!(decode(&encode_index(&segments)).as_ref(), Ok(&segments));
            let ends = segments.iter().map(|segment| segment.offset.checked_add(segment.stored));
            assert!(ends.into_iter().all(|end| end.is_some()));
            let count = segments.len();
            for (start, end) in [(0, count), (count / 2, count), (count / 3, count / 2)] {
                let some = partitions_in(bytes, start as u32..end as u32);
                assert_eq!(some.expect("the whole is good"), segments[start..end]);
            }
        }
        let _ = partitions_in(bytes, 1..2);
    }
}

/// A segment, unchanged, and one made of blocks with matching checksums. For each block the input holds codec (one byte), raw length,
/// number of records and stored length (two bytes each), then the stored bytes.
pub fn shuffle_segment(bytes: &[u8]) {
    let _ = verify_segment(bytes);
    let (mut segment, mut rest) = (Vec::new(), bytes);
    let (mut record_count, mut raw_count) = (0, 0);
    while let Some((head, behind)) = rest.split_first_chunk::<7>() {
        let number = |at: usize| u32::from(u16::from_le_bytes([head[at], head[at + 1]]));
        let codec = if head[0].is_multiple_of(2) { Codec::None } else { Codec::Lz4 };
        let (stored, behind) = behind.split_at(behind.len().min(number(5) as usize));
        let (records, raw) = (number(3), number(1));
        let crc = crc32fast::hash(stored);
        let header = Header::Block { codec, raw, stored: stored.len() as u32, records, crc };
        segment.extend_from_slice(&header.encode());
        segment.extend_from_slice(stored);
        (record_count, raw_count) = (record_count + u64::from(records), raw_count + u64::from(raw));
        rest = behind;
    }
    let end = Header::End { records: record_count, raw: raw_count };
    segment.extend_from_slice(&end.encode());
    if let Ok(totals) = verify_segment(&segment) {
        assert_eq!((totals.records, totals.raw), (record_count, raw_count));
        assert!(verify_segment(&segment[..segment.len() - HEADER_BYTES]).is_err());
    }
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;

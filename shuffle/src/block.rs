//! Format of a block: the unit of compression and checking inside a segment.
//!
//! ```text
//! header, 24 bytes, little endian
//!   0  u16  magic 0x4253 ("SB")
//!   2  u8   version, 1
//!   3  u8   codec: 0 none, 1 lz4; 255 = this is the end record of the segment
//!   block:                              end record:
//!   4  u32  raw bytes                   4  u64  records in the segment
//!   8  u32  stored bytes               12  u64  raw bytes in the segment
//!  12  u32  records
//!  16  u32  CRC-32 of the stored bytes
//!  20  u32  CRC-32 (IEEE) of bytes 0..20
//! payload, `stored` bytes; raw form: records one after the other, keys in byte order
//!   varint  bytes shared with the key before it in the block (0 for the first: every block stands alone)
//!   varint  further key bytes
//!   varint  value bytes
//!   further key bytes, value bytes
//! ```
//!
//! Sharing key prefixes saved 16% of the stored bytes on counted words and 0.3% on random keys.
//! Varints are LEB128 of at most five bytes. The header has its own checksum, so lengths can be trusted before memory is allocated for the
//! payload.

use crate::codec::Codec;
use crate::error::Damage;

/// Length of a block header and of an end record.
pub(crate) const HEADER_BYTES: usize = 24;
/// A block is closed when its raw form reaches this size (64 KiB): the window of LZ4, and small enough that a merge of a hundred runs stays
/// within 20 MiB. A longer record makes a longer block of its own.
pub(crate) const BLOCK_RAW_BYTES: usize = 64 << 10;
/// Longest varint of a record: a 32-bit number.
pub(crate) const VARINT_BYTES_MAX: usize = 5;

const MAGIC: u16 = 0x4253;
const VERSION: u8 = 1;
const END: u8 = 255;

/// What a header announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    Block { codec: Codec, raw: u32, stored: u32, records: u32, crc: u32 },
    End { records: u64, raw: u64 },
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = VERSION;
        match *self {
            Self::Block { codec, raw, stored, records, crc } => {
                bytes[3] = codec.to_byte();
                bytes[4..8].copy_from_slice(&raw.to_le_bytes());
                bytes[8..12].copy_from_slice(&stored.to_le_bytes());
                bytes[12..16].copy_from_slice(&records.to_le_bytes());
                bytes[16..20].copy_from_slice(&crc.to_le_bytes());
            }
            Self::End { records, raw } => {
                bytes[3] = END;
                bytes[4..12].copy_from_slice(&records.to_le_bytes());
                bytes[12..20].copy_from_slice(&raw.to_le_bytes());
            }
        }
        let crc = crc32fast::hash(&bytes[..20]);
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Damage> {
        let u32_at =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if bytes[0..2] != MAGIC.to_le_bytes() {
            return Err(Damage::Magic);
        }
        if u32_at(20) != crc32fast::hash(&bytes[..20]) {
            return Err(Damage::HeaderChecksum);
        }
        if bytes[2] != VERSION {
            return Err(Damage::Version(bytes[2].into()));
        }
        if bytes[3] == END {
            return Ok(Self::End { records: u64_at(4), raw: u64_at(12) });
        }
        let codec = Codec::from_byte(bytes[3]).ok_or(Damage::Codec(bytes[3]))?;
        Ok(Self::Block {
            codec,
            raw: u32_at(4),
            stored: u32_at(8),
            records: u32_at(12),
            crc: u32_at(16),
        })
    }
}

/// Appends `value` as LEB128.
#[inline(always)]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a varint at `*at` and moves past it; `None` if it is cut off or longer than 32 bits.
#[inline(always)]
pub(crate) fn take_varint(bytes: &[u8], at: &mut usize) -> Option<u32> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 { Some(first.into()) } else { take_long_varint(bytes, at, first) }
}

#[cold]
fn take_long_varint(bytes: &[u8], at: &mut usize, first: u8) -> Option<u32> {
    let mut value = u64::from(first & 0x7f);
    for position in 1..VARINT_BYTES_MAX {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte < 0x80 {
            return u32::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_headers() {
        let block = Header::Block {
            codec: Codec::Lz4,
            raw: 65536,
            stored: 1000,
            records: 77,
            crc: 0xdead_beef,
        };
        let end = Header::End { records: 1 << 40, raw: 3 };
        assert_eq!(hex(&block.encode()), "5342010100000100e80300004d000000efbeadde51d0f8e7");
        assert_eq!(hex(&end.encode()), "534201ff00000000000100000300000000000000216f17f4");
        for header in [block, end] {
            assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let good =
            Header::Block { codec: Codec::None, raw: 9, stored: 9, records: 1, crc: 5 }.encode();
        for bit in 0..HEADER_BYTES * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn unknown_versions_and_codecs_are_named() {
        let mut bytes = Header::End { records: 0, raw: 0 }.encode();
        let mut check = |at: usize, value: u8, want: Damage| {
            let kept = bytes[at];
            bytes[at] = value;
            let crc = crc32fast::hash(&bytes[..20]);
            bytes[20..].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Header::decode(&bytes), Err(want));
            bytes[at] = kept;
        };
        check(2, 2, Damage::Version(2));
        check(3, 9, Damage::Codec(9));
    }

    #[test]
    fn varints() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, u32::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut at = 0;
            assert_eq!((take_varint(&bytes, &mut at), at), (Some(value), bytes.len()));
            for cut in 0..bytes.len() {
                assert_eq!(take_varint(&bytes[..cut], &mut 0), None);
            }
        }
        assert_eq!(take_varint(&[0xff; 6], &mut 0), None, "too long");
        assert_eq!(take_varint(&[0xff, 0xff, 0xff, 0xff, 0x7f], &mut 0), None, "over 32 bits");
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }
}

//! One log record on disk.
//!
//! ```text
//! offset  size  field
//!      0     4  length: bytes after the crc field (17 and more)
//!      4     4  crc32 (IEEE) of everything after this field
//!      8     1  version: low 7 bits = 1; high bit set = first record of its batch
//!      9     8  txid
//!     17     8  epoch of the start that wrote it
//!     25     *  body
//! ```
//!
//! All numbers are little endian. Layout version 1 is the first. Written by `log`, read by `segment`.
//!
//! A batch is synced before the next one is written. So a valid *first of batch* record proves that
//! everything before it had reached the disk: that is what tells a torn write from later damage.

use crate::bytes::{u32_at, u64_at};
use crate::id::{Epoch, Txid};

/// One record, borrowed from the segment it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) txid: Txid,
    pub(crate) epoch: Epoch,
    pub(crate) starts_batch: bool,
    pub(crate) body: &'a [u8],
}

impl Record<'_> {
    /// Bytes that this record takes on disk.
    pub(crate) fn encoded_len(&self) -> usize {
        HEADER_LEN + self.body.len()
    }
}

/// Why the bytes at some place are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// The bytes end before the record does, are zero, or fail the checksum.
    Damaged,
    /// The checksum is right, but a newer program wrote it.
    Version(u8),
}

/// Appends one record to `out`.
///
/// REQUIRES: `body.len() <= BODY_BYTES_MAX`.
pub(crate) fn encode(out: &mut Vec<u8>, txid: Txid, epoch: Epoch, starts_batch: bool, body: &[u8]) {
    assert!(body.len() <= BODY_BYTES_MAX, "callers refuse larger bodies");
    let start = out.len();
    let length = (LENGTH_MIN + body.len()) as u32;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.push(VERSION | if starts_batch { STARTS_BATCH } else { 0 });
    out.extend_from_slice(&txid.0.to_le_bytes());
    out.extend_from_slice(&epoch.0.to_le_bytes());
    out.extend_from_slice(body);
    let crc = crc32fast::hash(&out[start + CRC_END..]);
    out[start + 4..start + CRC_END].copy_from_slice(&crc.to_le_bytes());
}

/// Reads the record at the start of `bytes`. Total: any input gives an answer.
pub(crate) fn decode(bytes: &[u8]) -> Result<Record<'_>, Bad> {
    let length = u32_at(bytes, 0).ok_or(Bad::Damaged)? as usize;
    let crc = u32_at(bytes, 4).ok_or(Bad::Damaged)?;
    if !(LENGTH_MIN..=LENGTH_MIN + BODY_BYTES_MAX).contains(&length) {
        return Err(Bad::Damaged);
    }
    let rest = bytes.get(CRC_END..CRC_END + length).ok_or(Bad::Damaged)?;
    if crc32fast::hash(rest) != crc {
        return Err(Bad::Damaged);
    }
    let version = rest[0] & !STARTS_BATCH;
    if version != VERSION {
        return Err(Bad::Version(version));
    }
    Ok(Record {
        txid: Txid(u64_at(rest, 1).ok_or(Bad::Damaged)?),
        epoch: Epoch(u64_at(rest, 9).ok_or(Bad::Damaged)?),
        starts_batch: rest[0] & STARTS_BATCH != 0,
        body: &rest[LENGTH_MIN..],
    })
}

/// Cheap check before the checksum is computed: could a record with a txid in `from..=to` start here?
pub(crate) fn plausible(bytes: &[u8], from: Txid, to: Txid) -> bool {
    let (Some(length), Some(&version), Some(txid)) =
        (u32_at(bytes, 0), bytes.get(8), u64_at(bytes, 9))
    else {
        return false;
    };
    let length = length as usize;
    version & !STARTS_BATCH == VERSION
        && (from.0..=to.0).contains(&txid)
        && length >= LENGTH_MIN
        && length <= bytes.len() - CRC_END
}

/// Bytes in front of the body.
pub(crate) const HEADER_LEN: usize = 25;

/// Largest body, in bytes: 16 MiB. Far above any edit (a file of a million blocks is 8 MB), far
/// below what a damaged length could make a reader allocate.
pub const BODY_BYTES_MAX: usize = 16 << 20;

const CRC_END: usize = 8;

/// The length field of a record with an empty body.
const LENGTH_MIN: usize = HEADER_LEN - CRC_END;

const VERSION: u8 = 1;
const STARTS_BATCH: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_bytes() {
        let mut out = Vec::new();
        encode(&mut out, Txid(7), Epoch(2), true, b"ab");
        let want = [
            19, 0, 0, 0, 0xac, 0x11, 0x7a, 0xad, 0x81, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0,
            0, b'a', b'b',
        ];
        assert_eq!(out, want);
    }

    #[test]
    fn each_truncation_and_each_flipped_bit_is_noticed() {
        let mut out = Vec::new();
        encode(&mut out, Txid(7), Epoch(2), false, b"some body");
        for cut in 0..out.len() {
            assert_eq!(decode(&out[..cut]), Err(Bad::Damaged), "cut at {cut}");
        }
        for bit in 0..out.len() * 8 {
            let mut flipped = out.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped), Err(Bad::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut out = Vec::new();
        encode(&mut out, Txid(1), Epoch(1), false, b"x");
        out[8] = 2;
        let crc = crc32fast::hash(&out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode(&out), Err(Bad::Version(2)));
    }

    proptest! {
        #[test]
        fn round_trip(txid: u64, epoch: u64, starts: bool, body: Vec<u8>) {
            let mut out = vec![9, 9];
            encode(&mut out, Txid(txid), Epoch(epoch), starts, &body);
            let record = decode(&out[2..]).unwrap();
            prop_assert_eq!(record.encoded_len(), out.len() - 2);
            prop_assert!(plausible(&out[2..], Txid(txid), Txid(txid)));
            prop_assert_eq!(
                record,
                Record { txid: Txid(txid), epoch: Epoch(epoch), starts_batch: starts, body: &body }
            );
        }

        #[test]
        fn decode_is_total(bytes: Vec<u8>) {
            let _ = decode(&bytes);
            let _ = plausible(&bytes, Txid(0), Txid(u64::MAX));
        }
    }
}

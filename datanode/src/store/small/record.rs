//! The format of a segment: a header, then records, each a small replica with its checksums.
//!
//! ```text
//! segment    magic     8 bytes  "hnsmall1"
//!            nonce     u64 LE   drawn for each segment: no writer of data can know it and write what looks like a record
//!            crc       u32 LE   CRC-32 of the 16 bytes before
//!            zeros     to 512
//!            records, each at a multiple of 512
//!
//! record     nonce     u64 LE   the segment's
//!            position  u64 LE   of the record in the segment
//!            synced    u64 LE   the first so many bytes of the segment were on disk when the record was written
//!            block     u64 LE
//!            stamp     u64 LE
//!            length    u32 LE   bytes of data
//!            meta      u32 LE   bytes of checksums, in the form of a meta file
//!            zeros     8 bytes
//!            crc       u32 LE   CRC-32 of the 56 bytes before
//!            state     u32 LE   "gone": the replica was deleted or moved; anything else: it is here. Overwritten in place
//!            meta, then data, then zeros to a multiple of 512
//! ```
//!
//! The state is the only thing in a segment that changes. It lies in one sector with the rest of its header, so a power cut leaves the old state or the new one.

use protocol::meta::Layout;
use protocol::{BlockId, GenerationStamp};

/// Records begin at multiples of this: a sector, which a disk writes as a whole.
pub(super) const ALIGNMENT_BYTES: u64 = 512;
/// Bytes of a record before its checksums.
pub(super) const HEADER_BYTES: usize = 64;
/// Where the state is in a header.
const STATE_AT: usize = 60;
const CRC_AT: usize = 56;
const MAGIC: [u8; 8] = *b"hnsmall1";
const GONE: u32 = u32::from_le_bytes(*b"gone");

/// The header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) position: u64,
    pub(super) synced: u64,
    pub(super) block: BlockId,
    pub(super) stamp: GenerationStamp,
    pub(super) length: u32,
    pub(super) meta_bytes: u32,
    pub(super) is_gone: bool,
}

impl Header {
    /// Its bytes in the segment with this nonce.
    pub(super) fn encode(&self, nonce: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let words = [nonce, self.position, self.synced, self.block.0, self.stamp.0];
        for (at, word) in bytes.chunks_exact_mut(8).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        bytes[40..44].copy_from_slice(&self.length.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.meta_bytes.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..CRC_AT]);
        bytes[CRC_AT..STATE_AT].copy_from_slice(&crc.to_le_bytes());
        let state = if self.is_gone { GONE } else { 0 };
        bytes[STATE_AT..].copy_from_slice(&state.to_le_bytes());
        bytes
    }

    /// The header at a position; `None` if there is none.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES], nonce: u64, position: u64) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes[at..].first_chunk()?));
        let half = |at: usize| Some(u32::from_le_bytes(*bytes[at..].first_chunk()?));
        let is_whole = half(CRC_AT)? == crc32fast::hash(&bytes[..CRC_AT]);
        if !is_whole || word(0)? != nonce || word(8)? != position {
            return None;
        }
        let header = Header {
            position,
            synced: word(16)?,
            block: BlockId(word(24)?),
            stamp: GenerationStamp(word(32)?),
            length: half(40)?,
            meta_bytes: half(44)?,
            is_gone: half(STATE_AT)? == GONE,
        };
        let fits = Layout::CURRENT.file_bytes(header.length.into()) == u64::from(header.meta_bytes);
        (fits && header.synced <= position).then_some(header)
    }

    /// Where its checksums begin.
    pub(super) fn meta_at(&self) -> u64 {
        self.position + HEADER_BYTES as u64
    }

    /// Where its data begins.
    pub(super) fn data_at(&self) -> u64 {
        self.meta_at() + u64::from(self.meta_bytes)
    }

    /// Where the next record begins.
    pub(super) fn end(&self) -> u64 {
        (self.data_at() + u64::from(self.length)).next_multiple_of(ALIGNMENT_BYTES)
    }

    /// Where its state is, and the bytes that say that the replica is gone.
    pub(super) fn gone(&self) -> (u64, [u8; 4]) {
        (self.position + STATE_AT as u64, GONE.to_le_bytes())
    }
}

/// The first bytes of a segment.
pub(super) fn segment_header(nonce: u64) -> [u8; ALIGNMENT_BYTES as usize] {
    let mut bytes = [0; ALIGNMENT_BYTES as usize];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&nonce.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..16]);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The nonce of a segment; `None` if its header is damaged.
pub(super) fn nonce_of(bytes: &[u8; ALIGNMENT_BYTES as usize]) -> Option<u64> {
    let crc = u32::from_le_bytes(*bytes[16..].first_chunk()?);
    let is_whole = bytes.starts_with(&MAGIC) && crc == crc32fast::hash(&bytes[..16]);
    let nonce = u64::from_le_bytes(*bytes[8..].first_chunk()?);
    is_whole.then_some(nonce)
}

/// Reads bytes as the header of a segment and of a record, as they are and with a CRC that fits.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_any(bytes: &[u8]) {
    let mut segment = [0; ALIGNMENT_BYTES as usize];
    let mut record = [0; HEADER_BYTES];
    let (in_record, in_segment) = bytes.split_at(bytes.len().min(HEADER_BYTES));
    record[..in_record.len()].copy_from_slice(in_record);
    let in_segment = &in_segment[..in_segment.len().min(segment.len())];
    segment[..in_segment.len()].copy_from_slice(in_segment);
    if let Some(nonce) = nonce_of(&segment) {
        assert_eq!(nonce_of(&segment_header(nonce)), Some(nonce));
    }
    let word = |at: usize| record[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let (nonce, position) = (word(0), word(8));
    let crc = crc32fast::hash(&record[..CRC_AT]).to_le_bytes();
    let mut sealed = record;
    sealed[CRC_AT..STATE_AT].copy_from_slice(&crc);
    // No file is longer than a signed number can say.
    for bytes in [record, sealed].into_iter().filter(|_| i64::try_from(position).is_ok()) {
        if let Some(header) = Header::decode(&bytes, nonce, position) {
            assert_eq!(Header::decode(&header.encode(nonce), nonce, position), Some(header));
            assert!(header.meta_at() <= header.data_at() && header.data_at() <= header.end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: u64 = 0x0102_0304_0506_0708;

    fn header() -> Header {
        let (block, stamp) = (BlockId(0x21), GenerationStamp(0x31));
        let (position, synced, is_gone) = (1024, 512, false);
        Header { position, synced, block, stamp, length: 1000, meta_bytes: 56, is_gone }
    }

    #[test]
    fn golden_bytes_and_damage() {
        let bytes = header().encode(NONCE);
        let mut golden = [0; HEADER_BYTES];
        golden[..8].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
        golden[9] = 4;
        golden[17] = 2;
        golden[24] = 0x21;
        golden[32] = 0x31;
        golden[40..42].copy_from_slice(&[0xe8, 3]);
        golden[44] = 56;
        let crc = crc32fast::hash(&golden[..56]);
        golden[56..60].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(bytes, golden);
        assert_eq!(Header::decode(&bytes, NONCE, 1024), Some(header()));
        assert_eq!(Header::decode(&bytes, NONCE + 1, 1024), None, "of another segment");
        assert_eq!(Header::decode(&bytes, NONCE, 1536), None, "of another place");
        for at in 0..STATE_AT {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(Header::decode(&bad, NONCE, 1024), None, "flipped at {at}");
        }
        let (at, state) = header().gone();
        let mut gone = bytes;
        gone[at as usize - 1024..].copy_from_slice(&state);
        assert_eq!(Header::decode(&gone, NONCE, 1024), Some(Header { is_gone: true, ..header() }));
        assert_eq!((header().meta_at(), header().data_at(), header().end()), (1088, 1144, 2560));
    }

    #[test]
    fn a_segment_is_known_by_its_header() {
        let bytes = segment_header(NONCE);
        assert_eq!(&bytes[..16], b"hnsmall1\x08\x07\x06\x05\x04\x03\x02\x01");
        assert_eq!(nonce_of(&bytes), Some(NONCE));
        for at in 0..20 {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(nonce_of(&bad), None, "flipped at {at}");
        }
    }
}

//! One sector of the log: the smallest unit that a disk writes as a whole, and the unit by which the log distinguishes what was never
//! written from what has changed since.
//!
//! ```text
//! offset  size  field
//!      0    40  head
//!     40   432  payload, zeros behind what is used
//!    472    40  the same head again
//!
//! head
//!      0     4  crc32 of: the segment's first txid u64, the sector's index in the file u64, the 36 bytes below
//!      4     1  kind: 0xb1, part of a batch
//!      5     1  zero
//!      6     2  used bytes of the payload
//!      8     8  epoch of the start that wrote it
//!     16     8  first txid of the batch
//!     24     4  records in the batch
//!     28     4  sectors of the batch
//!     32     4  index of this sector in the batch
//!     36     4  crc32 of the payload, all 432 bytes
//! ```
//!
//! Little endian. Each sector says by itself which records its batch holds, and says it twice: a sector that is damaged in one place still
//! says what is lost with it, and loses nothing if the place is in a head.
//!
//! Invariants:
//! - the last head of a sector that was written is never all zeros;
//! - a sector is not accepted at any other position of any segment.

use crate::bytes::{u32_at, u64_at};
use crate::id::{Epoch, Txid};

/// What a sector says about itself and its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) used: u16,
    pub(crate) epoch: Epoch,
    pub(crate) batch: BatchName,
    /// Index of the sector in the batch.
    pub(crate) index: u32,
    payload_crc: u32,
}

/// Which batch a sector belongs to; the same in all of its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchName {
    pub(crate) first: Txid,
    pub(crate) record_count: u32,
    pub(crate) sector_count: u32,
}

impl BatchName {
    /// The batch's last record.
    pub(crate) fn last(self) -> Txid {
        Txid(self.first.0.saturating_add(u64::from(self.record_count)).saturating_sub(1))
    }
}

/// Where a sector is: the first txid of its segment, and its index in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SectorPosition {
    pub(crate) segment: Txid,
    pub(crate) index: u64,
}

/// The state of a sector, from reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectorState<'a> {
    /// It was never written, or not to its end: its last head is zeros, or the file ends before it does.
    Missing,
    /// It was written and has changed; nobody can say what it was.
    Lost,
    /// It was written and its payload has changed; it still says what it was.
    Damaged(Head),
    /// Its payload is as it was written; one of its heads may not be.
    Good {
        /// Its head.
        head: Head,
        /// The used part of its payload.
        payload: &'a [u8],
        /// Whether every byte is as it was written.
        is_whole: bool,
    },
}

impl SectorState<'_> {
    /// Of two copies the one with the higher rank is taken. What a later start wrote replaces what an earlier one left.
    pub(crate) fn rank(&self) -> (u8, Epoch, bool) {
        match self {
            SectorState::Missing => (0, Epoch(0), false),
            SectorState::Lost => (1, Epoch(0), false),
            SectorState::Damaged(head) => (2, head.epoch, false),
            SectorState::Good { head, is_whole, .. } => (3, head.epoch, *is_whole),
        }
    }
}

/// Examines the sector at `position` of a segment's `bytes`. Total: any input gives an answer.
pub(crate) fn inspect(bytes: &[u8], position: SectorPosition) -> SectorState<'_> {
    let from = usize::try_from(position.index).ok().and_then(|at| at.checked_mul(SECTOR_BYTES));
    let sector = from.and_then(|from| bytes.get(from..from.checked_add(SECTOR_BYTES)?));
    let Some(sector) = sector else { return SectorState::Missing };
    let has_end = sector[SECTOR_BYTES - HEAD_LEN..].iter().any(|&byte| byte != 0);
    let payload = &sector[HEAD_LEN..HEAD_LEN + PAYLOAD_LEN];
    let payload_crc = crc32fast::hash(payload);
    let heads =
        [decode_head(sector, position), decode_head(&sector[SECTOR_BYTES - HEAD_LEN..], position)];
    let fitting = heads.iter().flatten().find(|head| head.payload_crc == payload_crc);
    match (fitting, heads[0].or(heads[1])) {
        (Some(&head), _) => SectorState::Good {
            head,
            payload: &payload[..usize::from(head.used)],
            is_whole: sector[..HEAD_LEN] == sector[SECTOR_BYTES - HEAD_LEN..],
        },
        // A write that ended early: it goes from front to back.
        (None, _) if !has_end => SectorState::Missing,
        (None, Some(head)) => SectorState::Damaged(head),
        (None, None) => SectorState::Lost,
    }
}

/// Appends the sectors of a batch of the start `epoch` to `out`; `position` is where the first of them goes.
///
/// REQUIRES: `stream` is not empty.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    mut position: SectorPosition,
    (first, record_count): (Txid, u32),
    epoch: Epoch,
    stream: &[u8],
) {
    let sector_count = u32::try_from(sectors_of(stream.len())).expect("batches are bounded");
    let batch = BatchName { first, record_count, sector_count };
    for (index, part) in (0..).zip(stream.chunks(PAYLOAD_LEN)) {
        let start = out.len();
        out.resize(start + SECTOR_BYTES, 0);
        let sector = &mut out[start..];
        sector[HEAD_LEN..HEAD_LEN + part.len()].copy_from_slice(part);
        let payload_crc = crc32fast::hash(&sector[HEAD_LEN..HEAD_LEN + PAYLOAD_LEN]);
        let used = u16::try_from(part.len()).expect("a payload is shorter than a sector");
        let head = encode_head(Head { used, epoch, batch, index, payload_crc }, position);
        sector[..HEAD_LEN].copy_from_slice(&head);
        sector[SECTOR_BYTES - HEAD_LEN..].copy_from_slice(&head);
        position.index += 1;
    }
}

/// A good sector with both of its heads as they were written.
pub(crate) fn restore(sector: &mut [u8], head: Head, position: SectorPosition) {
    let head = encode_head(head, position);
    sector[..HEAD_LEN].copy_from_slice(&head);
    sector[SECTOR_BYTES - HEAD_LEN..].copy_from_slice(&head);
}

/// A sector with these head fields and this payload, whatever they are, under checksums that fit.
#[cfg(any(test, fuzzing))]
pub(crate) fn sealed(
    position: SectorPosition,
    (used, epoch, batch, index): (u16, Epoch, BatchName, u32),
    payload: &[u8; PAYLOAD_LEN],
) -> [u8; SECTOR_BYTES] {
    let mut sector = [0; SECTOR_BYTES];
    sector[HEAD_LEN..HEAD_LEN + PAYLOAD_LEN].copy_from_slice(payload);
    let payload_crc = crc32fast::hash(payload);
    restore(&mut sector, Head { used, epoch, batch, index, payload_crc }, position);
    sector
}

/// Sectors that a stream of this many bytes takes.
pub(crate) fn sectors_of(bytes: usize) -> usize {
    bytes.div_ceil(PAYLOAD_LEN)
}

fn encode_head(head: Head, position: SectorPosition) -> [u8; HEAD_LEN] {
    let mut out = [0; HEAD_LEN];
    out[4] = KIND_BATCH;
    out[6..8].copy_from_slice(&head.used.to_le_bytes());
    out[8..16].copy_from_slice(&head.epoch.0.to_le_bytes());
    out[16..24].copy_from_slice(&head.batch.first.0.to_le_bytes());
    out[24..28].copy_from_slice(&head.batch.record_count.to_le_bytes());
    out[28..32].copy_from_slice(&head.batch.sector_count.to_le_bytes());
    out[32..36].copy_from_slice(&head.index.to_le_bytes());
    out[36..].copy_from_slice(&head.payload_crc.to_le_bytes());
    let crc = head_crc(&out, position);
    out[..4].copy_from_slice(&crc.to_le_bytes());
    out
}

fn head_crc(head: &[u8], position: SectorPosition) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&position.segment.0.to_le_bytes());
    crc.update(&position.index.to_le_bytes());
    crc.update(&head[4..HEAD_LEN]);
    crc.finalize()
}

/// The head at the start of `bytes`, if it was written for this position.
fn decode_head(bytes: &[u8], position: SectorPosition) -> Option<Head> {
    let used = u16::from_le_bytes([bytes[6], bytes[7]]);
    let head = Head {
        used,
        epoch: Epoch(u64_at(bytes, 8)?),
        batch: BatchName {
            first: Txid(u64_at(bytes, 16)?),
            record_count: u32_at(bytes, 24)?,
            sector_count: u32_at(bytes, 28)?,
        },
        index: u32_at(bytes, 32)?,
        payload_crc: u32_at(bytes, 36)?,
    };
    let is_sound = u32_at(bytes, 0)? == head_crc(bytes, position)
        && bytes[4..6] == [KIND_BATCH, 0]
        && usize::from(used) <= PAYLOAD_LEN
        && head.batch.record_count > 0
        && head.batch.first.0.checked_add(u64::from(head.batch.record_count)).is_some()
        && head.index < head.batch.sector_count
        && head.batch.sector_count as usize <= sectors_of(STREAM_BYTES_MAX)
        && u64::from(head.index) < position.index;
    is_sound.then_some(head)
}

/// Bytes of a sector: the smallest unit that a disk writes as a whole. Disks with larger ones write several at once.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Bytes of all payloads of a batch, at most: one record of the largest size.
pub(crate) const STREAM_BYTES_MAX: usize = (16 << 20) + 4;

/// Bytes of a sector that hold records.
pub(crate) const PAYLOAD_LEN: usize = SECTOR_BYTES - 2 * HEAD_LEN;

const HEAD_LEN: usize = 40;
const KIND_BATCH: u8 = 0xb1;

#[cfg(test)]
mod tests {
    use super::*;

    const POSITION: SectorPosition = SectorPosition { segment: Txid(5), index: 1 };

    fn file(stream: &[u8]) -> Vec<u8> {
        let mut out = vec![0; SECTOR_BYTES];
        encode(&mut out, POSITION, (Txid(7), 2), Epoch(3), stream);
        out
    }

    #[test]
    fn golden_bytes() {
        let bytes = file(b"ab");
        let head = [
            0xd0, 0x3c, 0x57, 0x69, 0xb1, 0, 2, 0, 3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x34, 0x59, 0xab, 0x54,
        ];
        let mut want = vec![0; 2 * SECTOR_BYTES];
        want[SECTOR_BYTES..SECTOR_BYTES + HEAD_LEN].copy_from_slice(&head);
        want[2 * SECTOR_BYTES - HEAD_LEN..].copy_from_slice(&head);
        want[SECTOR_BYTES + HEAD_LEN..][..2].copy_from_slice(b"ab");
        assert_eq!(bytes, want);
    }

    #[test]
    fn each_flipped_bit_is_noticed_and_one_never_hides_what_the_sector_was() {
        let good = file(&[7; 300]);
        let SectorState::Good { head, payload, is_whole: true } = inspect(&good, POSITION) else {
            panic!("{:?}", inspect(&good, POSITION))
        };
        assert_eq!((head.batch.last(), payload), (Txid(8), &[7; 300][..]));
        for bit in SECTOR_BYTES * 8..good.len() * 8 {
            let mut flipped = good.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let in_payload = (HEAD_LEN..HEAD_LEN + PAYLOAD_LEN).contains(&(bit / 8 - SECTOR_BYTES));
            match inspect(&flipped, POSITION) {
                SectorState::Damaged(found) => assert!(in_payload && found == head, "bit {bit}"),
                SectorState::Good { head: found, payload, is_whole } => {
                    assert!(!in_payload && !is_whole && found == head, "bit {bit}");
                    assert_eq!(payload, [7; 300]);
                    restore(&mut flipped[SECTOR_BYTES..], found, POSITION);
                    assert!(flipped == good, "bit {bit}");
                }
                other => panic!("bit {bit}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_sector_that_is_cut_zero_or_elsewhere_is_not_taken() {
        let good = file(&[7; 432]);
        for cut in 0..good.len() {
            assert_eq!(inspect(&good[..cut], POSITION), SectorState::Missing, "cut at {cut}");
            let mut early = good[..cut].to_vec();
            early.resize(good.len(), 0);
            let found = inspect(&early, POSITION);
            let is_there = matches!(found, SectorState::Good { is_whole: false, .. });
            assert!(found == SectorState::Missing || is_there, "cut at {cut}: {found:?}");
            assert!(!is_there || cut >= SECTOR_BYTES + HEAD_LEN + PAYLOAD_LEN, "cut at {cut}");
        }
        assert_eq!(inspect(&vec![0; 1024], POSITION), SectorState::Missing);
        assert_eq!(
            inspect(&good, SectorPosition { segment: Txid(6), index: 1 }),
            SectorState::Lost
        );
        let mut moved = vec![0; 2 * SECTOR_BYTES];
        moved.extend_from_slice(&good[SECTOR_BYTES..]);
        assert_eq!(
            inspect(&moved, SectorPosition { segment: Txid(5), index: 2 }),
            SectorState::Lost
        );
    }

    proptest::proptest! {
        #[test]
        fn looks_are_total(bytes: Vec<u8>, index: u64) {
            let _ = inspect(&bytes, SectorPosition { segment: Txid(1), index });
            let mut sector = bytes;
            sector.resize(2 * SECTOR_BYTES, 1);
            let _ = inspect(&sector, POSITION);
        }
    }
}

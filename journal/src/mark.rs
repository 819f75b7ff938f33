//! What a start leaves in the file `epoch` beside the log: how far the log must reach.
//!
//! ```text
//! magic "HANNOEPO" | layout u32 = 2 | epoch u64 | last txid u64 | closed u32, 0 or 1 | crc32 of these u32
//! ```
//!
//! Little endian. Written when a start has made its segment, when the first record of all is durable, and at a clean stop.
//!
//! Invariants:
//! - the log holds a segment of this epoch or a later one, as long as none of its files are lost;
//! - every record up to `last` was durable when the file was written;
//! - `closed` says that none came after it: it is taken back, durably, before the next one is written.

use std::path::Path;

use crate::bytes::{u32_at, u64_at};
use crate::disk::{self, Disk, publish};
use crate::error::JournalError;
use crate::id::{Epoch, Txid};

/// The contents of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) epoch: Epoch,
    pub(crate) last: Txid,
    pub(crate) is_closed: bool,
}

/// What was found where the file should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No file: the journal was never started, or the file is lost.
    Nothing,
    /// A file that is damaged: the journal was started once.
    Damaged,
    Mark(Mark),
}

impl Found {
    /// The mark, if it can be read.
    pub(crate) fn mark(self) -> Option<Mark> {
        match self {
            Found::Mark(mark) => Some(mark),
            Found::Nothing | Found::Damaged => None,
        }
    }
}

impl Mark {
    fn encode(self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&LAYOUT.to_le_bytes());
        out[12..20].copy_from_slice(&self.epoch.0.to_le_bytes());
        out[20..28].copy_from_slice(&self.last.0.to_le_bytes());
        out[28..32].copy_from_slice(&u32::from(self.is_closed).to_le_bytes());
        let crc = crc32fast::hash(&out[..LEN - 4]);
        out[LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `Err` is the version of another layout.
    fn decode(bytes: &[u8]) -> Result<Option<Mark>, u32> {
        let Some(body) = bytes.len().checked_sub(4).filter(|_| bytes.starts_with(MAGIC)) else {
            return Ok(None);
        };
        if u32_at(bytes, body) != Some(crc32fast::hash(&bytes[..body])) {
            return Ok(None);
        }
        match u32_at(bytes, 8) {
            Some(LAYOUT) if bytes.len() == LEN => {}
            Some(LAYOUT) | None => return Ok(None),
            Some(layout) => return Err(layout),
        }
        let fields = u64_at(bytes, 12).zip(u64_at(bytes, 20)).zip(u32_at(bytes, 28));
        Ok(fields.map(|((epoch, last), closed)| Mark {
            epoch: Epoch(epoch),
            last: Txid(last),
            is_closed: closed == 1,
        }))
    }

    /// Replaces the file in `dir`, durably.
    pub(crate) fn write(self, disk: &dyn Disk, dir: &Path) -> Result<(), JournalError> {
        publish(disk, dir, NAME, |file| file.append(&self.encode())).map(drop)
    }
}

/// Reads the file in `dir`.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Found, JournalError> {
    let names = disk.list(dir).map_err(crate::error::disk("list", dir))?;
    if !names.iter().any(|name| name == NAME) {
        return Ok(Found::Nothing);
    }
    let path = dir.join(NAME);
    match Mark::decode(&disk::read(disk, &path)?) {
        Ok(mark) => Ok(mark.map_or(Found::Damaged, Found::Mark)),
        Err(version) => Err(JournalError::Foreign { path, version, known: LAYOUT }),
    }
}

/// The file's name.
pub(crate) const NAME: &str = "epoch";
const MAGIC: &[u8; 8] = b"HANNOEPO";
const LAYOUT: u32 = 2;
const LEN: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { epoch: Epoch(3), last: Txid(9), is_closed: true };

    #[test]
    fn golden_bytes() {
        let want = b"HANNOEPO\x02\0\0\0\x03\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0";
        assert_eq!(MARK.encode()[..32], want[..32]);
        assert_eq!(Mark::decode(&MARK.encode()), Ok(Some(MARK)));
    }

    #[test]
    fn each_truncation_and_each_flipped_bit_is_noticed() {
        let good = MARK.encode();
        for cut in 0..LEN {
            assert_eq!(Mark::decode(&good[..cut]), Ok(None), "cut at {cut}");
        }
        for bit in 0..LEN * 8 {
            let mut flipped = good;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::decode(&flipped), Ok(None), "bit {bit}");
        }
    }

    #[test]
    fn another_layout_is_named() {
        let mut other = MARK.encode();
        other[8] = 3;
        let crc = crc32fast::hash(&other[..LEN - 4]);
        other[LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Mark::decode(&other), Err(3));
    }
}

//! What a start leaves in the file `epoch` of every directory of a journal: how far its log must reach, and which starts it has seen.
//!
//! ```text
//! magic "HANNOEPO" | layout u32 = 3 | epoch u64 | last txid u64 | closed u32, 0 or 1
//! count u32 | (epoch u64 | nonce u64)* | crc32 of all before u32
//! ```
//!
//! Little endian. Written when a start has made its segment, when the first record of all is durable, and at a clean stop. Also written,
//! with what the others say, before a directory that lacks something is filled.
//!
//! Each start has a random number, its nonce. Two directories hold one journal if one of them has seen the newest start of the other: then
//! that other is merely behind. A directory of another journal, or of one that went on elsewhere from an older state, has a start that the
//! first one never saw.
//!
//! Invariants:
//! - the log holds a segment of this epoch or a later one, as long as none of its files are lost;
//! - every record up to `last` was durable when the file was written;
//! - `closed` says that none came after it: it is taken back, durably, before the next one is written.

use std::path::Path;

use crate::bytes::{u32_at, u64_at};
use crate::disk::{self, Disk, publish};
use crate::error::JournalError;
use crate::home::sealed;
use crate::id::{Epoch, Txid};

/// What the file says of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) epoch: Epoch,
    pub(crate) last: Txid,
    pub(crate) is_closed: bool,
}

/// One start of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) epoch: Epoch,
    /// Random: two starts from one state have the same epoch, but not this.
    pub(crate) nonce: u64,
}

/// The last starts of a journal, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Starts(Vec<Start>);

impl Starts {
    pub(crate) fn newest(&self) -> Option<Start> {
        self.0.last().copied()
    }

    pub(crate) fn contains(&self, start: Start) -> bool {
        self.0.contains(&start)
    }

    /// These and one more.
    pub(crate) fn and(&self, start: Start) -> Starts {
        let from = (self.0.len() + 1).saturating_sub(STARTS_MAX);
        Starts(self.0[from..].iter().copied().chain([start]).collect())
    }

    /// The same history with another end: a directory that has seen the newest of these no longer belongs to it.
    pub(crate) fn turned(&self, start: Start) -> Starts {
        Starts(self.0[..self.0.len().saturating_sub(1)].to_vec()).and(start)
    }
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

pub(crate) fn encode(mark: Mark, starts: &Starts) -> Vec<u8> {
    let mut out = sealed::begin(MAGIC, LAYOUT);
    out.extend_from_slice(&mark.epoch.0.to_le_bytes());
    out.extend_from_slice(&mark.last.0.to_le_bytes());
    out.extend_from_slice(&u32::from(mark.is_closed).to_le_bytes());
    out.extend_from_slice(&(starts.0.len() as u32).to_le_bytes());
    for start in &starts.0 {
        out.extend_from_slice(&start.epoch.0.to_le_bytes());
        out.extend_from_slice(&start.nonce.to_le_bytes());
    }
    sealed::seal(out)
}

/// `Err` is the version of another layout.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Mark, Starts)>, u32> {
    Ok(sealed::open(bytes, MAGIC, LAYOUT)?.and_then(fields))
}

fn fields(body: &[u8]) -> Option<(Mark, Starts)> {
    let mark = Mark {
        epoch: Epoch(u64_at(body, 12)?),
        last: Txid(u64_at(body, 20)?),
        is_closed: u32_at(body, 28)? == 1,
    };
    let count = u32_at(body, 32)? as usize;
    let starts = body.get(HEAD_LEN..)?;
    if count > STARTS_MAX || starts.len() != count * START_LEN {
        return None;
    }
    let starts = starts.chunks_exact(START_LEN).map(|start| {
        u64_at(start, 0)
            .zip(u64_at(start, 8))
            .map(|(epoch, nonce)| Start { epoch: Epoch(epoch), nonce })
    });
    Some((mark, Starts(starts.collect::<Option<_>>()?)))
}

/// Replaces the file in `dir`, durably.
pub(crate) fn write(
    disk: &dyn Disk,
    dir: &Path,
    mark: Mark,
    starts: &Starts,
) -> Result<(), JournalError> {
    publish(disk, dir, NAME, |file| file.append(&encode(mark, starts))).map(drop)
}

/// Reads the file in `dir`. One that its disk does not return is damaged.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<(Found, Starts), JournalError> {
    let names = disk.list(dir).map_err(crate::error::disk("list", dir))?;
    if !names.iter().any(|name| name == NAME) {
        return Ok((Found::Nothing, Starts::default()));
    }
    let path = dir.join(NAME);
    match decode(&disk::salvage(disk, &path)?.bytes) {
        Ok(Some((mark, starts))) => Ok((Found::Mark(mark), starts)),
        Ok(None) => Ok((Found::Damaged, Starts::default())),
        Err(version) => Err(JournalError::Foreign { path, version, known: LAYOUT }),
    }
}

/// The file's name.
pub(crate) const NAME: &str = "epoch";

/// Starts that are kept: 1,024, 16 KiB. A directory that was away for more of them is no longer recognised.
const STARTS_MAX: usize = 1024;

const MAGIC: &[u8; 8] = b"HANNOEPO";
const LAYOUT: u32 = 3;
const HEAD_LEN: usize = 36;
const START_LEN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { epoch: Epoch(3), last: Txid(9), is_closed: true };

    fn start(epoch: u64) -> Start {
        Start { epoch: Epoch(epoch), nonce: epoch + 4 }
    }

    fn starts() -> Starts {
        Starts::default().and(start(2)).and(start(3))
    }

    #[test]
    fn golden_bytes() {
        let want = b"HANNOEPO\x03\0\0\0\x03\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\
            \x02\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0";
        let bytes = encode(MARK, &starts());
        assert_eq!(bytes[..bytes.len() - 4], want[..]);
        assert_eq!(decode(&bytes), Ok(Some((MARK, starts()))));
    }

    #[test]
    fn each_truncation_and_each_flipped_bit_is_noticed() {
        let good = encode(MARK, &starts());
        for cut in 0..good.len() {
            assert_eq!(decode(&good[..cut]), Ok(None), "cut at {cut}");
        }
        for bit in 0..good.len() * 8 {
            let mut flipped = good.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped), Ok(None), "bit {bit}");
        }
    }

    #[test]
    fn another_layout_is_named() {
        let mut other = encode(MARK, &starts());
        other[8] = 4;
        let body = other.len() - 4;
        let crc = crc32fast::hash(&other[..body]);
        other[body..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode(&other), Err(4));
    }

    #[test]
    fn the_oldest_starts_go_and_a_turned_history_has_another_end() {
        let mut all = Starts::default();
        (1..=1030).for_each(|epoch| all = all.and(start(epoch)));
        assert_eq!(all.0.len(), STARTS_MAX);
        assert!(!all.contains(start(6)) && all.contains(start(7)));
        let other = Start { epoch: Epoch(1030), nonce: 1 };
        let turned = all.turned(other);
        assert_eq!(turned.newest(), Some(other));
        assert!(!turned.contains(start(1030)) && turned.contains(start(1029)));
        assert_eq!(Starts::default().turned(other).newest(), Some(other));
    }
}

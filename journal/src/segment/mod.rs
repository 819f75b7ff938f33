//! One file of the log: a header and then batches of records with consecutive txids, each batch from a sector's start.
//!
//! ```text
//! offset  size  field
//!      0    32  header
//!    256    32  the same header again; zeros around both
//!    512     *  batches, each a whole number of sectors (see `sector`)
//!      *     *  zeros: room for more
//!
//! header: magic "HANNOLOG" | layout u32 = 2 | first txid u64 | epoch u64 | crc32 of these u32
//! batch:  its sectors' payloads, one behind the other: (body length u32 | body)*
//! ```
//!
//! Little endian. The file's name is its first txid; the epoch is that of the start that made it. The file is made by temporary, sync,
//! rename, so no crash leaves it without its header. Written by `log`, read by `chain`.
//!
//! Several copies of a file are read as one: of each sector the best copy is taken. A batch is in all of them before the next one is
//! written to any. So a copy that has the last batch and then nothing proves that nothing was acknowledged after it.
//!
//! Invariant: [`scan`] never reports as good what was not written, and it distinguishes two kinds of bad ends. **Torn**: sectors of the
//! last batch were never written (they are zeros, or the file ends), and all its other sectors are as they were written. Nobody was ever
//! promised this batch, unless something else proves that it had been synced. **Damaged**: a sector was written and has changed, or is
//! missing although a later batch was written.

use crate::bytes::{u32_at, u64_at};
use crate::id::{Epoch, Txid};
use crate::sector::{self, BatchName, SECTOR_BYTES, SectorPosition, SectorState};

/// What a segment's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) first: Txid,
    pub(crate) epoch: Epoch,
}

impl Header {
    pub(crate) fn encode(self) -> [u8; SECTOR_BYTES] {
        let mut out = [0; SECTOR_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&LAYOUT.to_le_bytes());
        out[12..20].copy_from_slice(&self.first.0.to_le_bytes());
        out[20..28].copy_from_slice(&self.epoch.0.to_le_bytes());
        let crc = crc32fast::hash(&out[..28]);
        out[28..HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
        out.copy_within(..HEADER_LEN, HEADER_COPY_AT);
        out
    }

    /// The header of a file that should be segment `first`: from either of its places.
    fn read(bytes: &[u8], first: Txid) -> Result<Option<Header>, Foreign> {
        let mut found = None;
        for at in [0, HEADER_COPY_AT] {
            let Some(part) = bytes.get(at..at + HEADER_LEN) else { continue };
            if &part[..8] != MAGIC || u32_at(part, 28) != Some(crc32fast::hash(&part[..28])) {
                continue;
            }
            let layout = u32_at(part, 8).unwrap_or_default();
            if layout != LAYOUT {
                return Err(Foreign(layout));
            }
            let header = u64_at(part, 12).zip(u64_at(part, 20));
            found =
                found
                    .or(header
                        .map(|(first, epoch)| Header { first: Txid(first), epoch: Epoch(epoch) }));
        }
        // A right header under a wrong name: the file was moved or renamed by hand, and its sectors will not fit either.
        Ok(found.filter(|header| header.first == first && bytes.len() >= SECTOR_BYTES))
    }
}

/// A segment of another layout version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign(pub(crate) u32);

/// Records that no copy has, though they were on the disk once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) from: Txid,
    /// [`Txid::MAX`] where nothing says how many there were.
    pub(crate) to: Txid,
    /// The first bad byte.
    pub(crate) at: u64,
}

/// What a segment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Largest epoch seen; zero if there was nothing to see.
    pub(crate) epoch: Epoch,
    /// In txid order.
    pub(crate) losses: Vec<Loss>,
    /// A last batch that was never written in full.
    pub(crate) torn: Option<Loss>,
    /// The last record that is there, lost or not, the torn batch aside; the txid before the first if there is none.
    pub(crate) last: Txid,
    /// Good records.
    pub(crate) record_count: u64,
    /// Bytes of the header and of all batches up to the last that is not torn.
    pub(crate) len: u64,
    /// Where the last good batch starts: everything before it had been synced before it was written.
    pub(crate) last_batch_at: u64,
    /// Whether the header was readable.
    pub(crate) has_header: bool,
}

impl Scan {
    /// The last record of which it has any trace.
    pub(crate) fn reach(&self) -> Txid {
        let bad = self.losses.iter().chain(&self.torn).map(|loss| loss.to).max();
        self.last.max(bad.unwrap_or_default())
    }
}

/// Called for each good record of a scan.
pub(crate) type SeeRecord<'a> = dyn FnMut(Txid, Epoch, &[u8]) + 'a;

/// The file name of the segment whose first record is `first`.
pub(crate) fn file_name(first: Txid) -> String {
    format!("{:020}.log", first.0)
}

/// The first txid of a segment with this file name; `None` if it is not a segment.
pub(crate) fn first_of(name: &str) -> Option<Txid> {
    let digits = name.strip_suffix(".log")?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(Txid).filter(|first| *first > Txid::ZERO)
}

/// Appends a record to the stream of its batch.
///
/// REQUIRES: `body.len() <= BODY_BYTES_MAX`.
pub(crate) fn put_record(stream: &mut Vec<u8>, body: &[u8]) {
    assert!(body.len() <= BODY_BYTES_MAX, "callers refuse larger bodies");
    stream.extend_from_slice(&(body.len() as u32).to_le_bytes());
    stream.extend_from_slice(body);
}

/// Reads a whole segment from its copies and passes each good record to `see`. `first` comes from the file's name.
pub(crate) fn scan(
    copies: &[&[u8]],
    first: Txid,
    see: &mut SeeRecord<'_>,
) -> Result<Scan, Foreign> {
    let mut scanner = Scanner::new(copies, first)?;
    let end = copies.iter().map(|bytes| bytes.len().div_ceil(SECTOR_BYTES)).max().unwrap_or(0);
    let mut index = 1;
    while index < end as u64 {
        index = match scanner.inspect(index) {
            SectorState::Missing => index + 1,
            SectorState::Lost => scanner.lost(index),
            SectorState::Damaged(head) | SectorState::Good { head, .. } => {
                match index.checked_sub(u64::from(head.index)) {
                    Some(start)
                        if start >= scanner.next && head.batch.first >= scanner.expected =>
                    {
                        scanner.batch(start, head.batch, see)
                    }
                    // It does not continue what is before it.
                    _ => scanner.lost(index),
                }
            }
        };
    }
    Ok(scanner.finish())
}

/// The segment as it should be on every disk: each sector from its best copy, up to `scan.len`. Sectors that are good in no copy are
/// taken as they are in the first copy that has anything.
pub(crate) fn merged(copies: &[&[u8]], first: Txid, scan: &Scan) -> Vec<u8> {
    let made_by = copies.iter().filter_map(|bytes| header_epoch(bytes, first)).max();
    let mut out = Header { first, epoch: made_by.unwrap_or(scan.epoch) }.encode().to_vec();
    for index in 1..scan.len / SECTOR_BYTES as u64 {
        let position = SectorPosition { segment: first, index };
        let start = out.len();
        let (best, state) = best_copy(copies, position);
        let from = start.min(best.len());
        out.extend_from_slice(&best[from..best.len().min(start + SECTOR_BYTES)]);
        out.resize(start + SECTOR_BYTES, 0);
        if let SectorState::Good { head, .. } = state {
            sector::restore(&mut out[start..], head, position);
        }
    }
    out
}

/// The start that made a copy of segment `first`, if its header can be read.
pub(crate) fn header_epoch(bytes: &[u8], first: Txid) -> Option<Epoch> {
    Header::read(bytes, first).ok().flatten().map(|header| header.epoch)
}

/// The copy with the best state of a sector, and that state.
fn best_copy<'a>(copies: &[&'a [u8]], position: SectorPosition) -> (&'a [u8], SectorState<'a>) {
    let mut best: (&[u8], SectorState<'_>) = (&[], SectorState::Missing);
    for bytes in copies {
        let state = sector::inspect(bytes, position);
        if state.rank() > best.1.rank() {
            best = (bytes, state);
        }
    }
    best
}

struct Scanner<'a> {
    copies: &'a [&'a [u8]],
    first: Txid,
    out: Scan,
    /// The txid that comes next.
    expected: Txid,
    /// The sector after the last batch.
    next: u64,
    /// The first sector after the last batch about which nothing is known.
    lost_at: Option<u64>,
    /// The stream of the batch that is being read; reused.
    stream: Vec<u8>,
}

impl<'a> Scanner<'a> {
    fn new(copies: &'a [&'a [u8]], first: Txid) -> Result<Scanner<'a>, Foreign> {
        let mut epoch = None;
        for bytes in copies {
            epoch = epoch.max(Header::read(bytes, first)?.map(|header| header.epoch));
        }
        let out = Scan {
            epoch: epoch.unwrap_or_default(),
            losses: Vec::new(),
            torn: None,
            last: Txid(first.0 - 1),
            record_count: 0,
            len: SECTOR_BYTES as u64,
            last_batch_at: SECTOR_BYTES as u64,
            has_header: epoch.is_some(),
        };
        let stream = Vec::new();
        Ok(Scanner { copies, first, out, expected: first, next: 1, lost_at: None, stream })
    }

    fn inspect(&self, index: u64) -> SectorState<'a> {
        best_copy(self.copies, SectorPosition { segment: self.first, index }).1
    }

    fn lost(&mut self, index: u64) -> u64 {
        self.lost_at.get_or_insert(index);
        index + 1
    }

    /// Takes in the batch that starts at sector `start`; returns the sector after it.
    fn batch(&mut self, start: u64, batch: BatchName, see: &mut SeeRecord<'_>) -> u64 {
        // What came before it had been synced.
        if let Some(torn) = self.out.torn.take() {
            self.out.losses.push(torn);
        }
        if batch.first > self.expected {
            let at = self.lost_at.unwrap_or(self.next) * SECTOR_BYTES as u64;
            let to = Txid(batch.first.0 - 1);
            self.out.losses.push(Loss { from: self.expected, to, at });
        }
        self.lost_at = None;
        let end = start + u64::from(batch.sector_count);
        let at = start * SECTOR_BYTES as u64;
        let whole = Loss { from: batch.first, to: batch.last(), at };
        match self.read_batch(start, batch, see) {
            Ok(epoch) => {
                self.out.epoch = self.out.epoch.max(epoch);
                self.out.record_count += u64::from(batch.record_count);
                self.out.last_batch_at = at;
            }
            Err(Unread::Damaged(index)) => {
                self.out.losses.push(Loss { at: index * SECTOR_BYTES as u64, ..whole });
            }
            Err(Unread::Torn) => self.out.torn = Some(whole),
        }
        if self.out.torn.is_none() {
            self.out.len = end * SECTOR_BYTES as u64;
            self.out.last = batch.last();
        }
        self.expected = batch.last().next();
        self.next = end;
        end
    }

    fn read_batch(
        &mut self,
        start: u64,
        batch: BatchName,
        see: &mut SeeRecord<'_>,
    ) -> Result<Epoch, Unread> {
        self.stream.clear();
        let (mut epoch, mut is_torn) = (None, false);
        for part in 0..batch.sector_count {
            let index = start + u64::from(part);
            match self.inspect(index) {
                SectorState::Missing => is_torn = true,
                SectorState::Good { head, payload, .. }
                    if head.batch == batch
                        && head.index == part
                        && epoch.is_none_or(|epoch| epoch == head.epoch) =>
                {
                    epoch = Some(head.epoch);
                    if !is_torn {
                        self.stream.extend_from_slice(payload);
                    }
                }
                _ => return Err(Unread::Damaged(index)),
            }
        }
        let (false, Some(epoch)) = (is_torn, epoch) else { return Err(Unread::Torn) };
        let records = Records { stream: &self.stream };
        if records.clone().count() != batch.record_count as usize || !records.clone().fit() {
            return Err(Unread::Damaged(start));
        }
        for (txid, body) in (batch.first.0..=batch.last().0).zip(records) {
            see(Txid(txid), epoch, body);
        }
        Ok(epoch)
    }

    /// Whether a copy that has all that was written has nothing after the last batch: what another copy has there was never written.
    fn is_unwritten_in_a_copy(&self) -> bool {
        let newest = self.copies.iter().filter_map(|bytes| header_epoch(bytes, self.first)).max();
        let last_good = self.out.len / SECTOR_BYTES as u64 - 1;
        self.copies.iter().any(|bytes| {
            let position = SectorPosition { segment: self.first, index: last_good };
            let has_all = last_good == 0
                || matches!(sector::inspect(bytes, position), SectorState::Good { .. });
            let behind = usize::try_from(self.next * SECTOR_BYTES as u64).unwrap_or(usize::MAX);
            let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
            let header = header_epoch(bytes, self.first);
            header.is_some()
                && header == newest
                && has_all
                && is_zero(bytes.get(behind..).unwrap_or_default())
        })
    }

    fn finish(mut self) -> Scan {
        let lost_at = self.lost_at.filter(|_| !self.is_unwritten_in_a_copy());
        if let Some(index) = lost_at {
            self.out.losses.extend(self.out.torn.take());
            let at = index * SECTOR_BYTES as u64;
            self.out.losses.push(Loss { from: self.expected, to: Txid::MAX, at });
            self.out.last = Txid(self.expected.0 - 1);
        } else if !self.out.has_header && self.next == 1 {
            self.out.losses.push(Loss { from: self.first, to: Txid::MAX, at: 0 });
        }
        self.out
    }
}

/// Why the records of a batch are not there.
enum Unread {
    /// Sectors of it are missing, all others are good.
    Torn,
    /// This sector has changed.
    Damaged(u64),
}

/// The records in the stream of a batch.
#[derive(Clone)]
struct Records<'a> {
    stream: &'a [u8],
}

impl Records<'_> {
    /// Whether they take all of the stream.
    fn fit(mut self) -> bool {
        self.by_ref().for_each(drop);
        self.stream.is_empty()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let len = u32_at(self.stream, 0)? as usize;
        let body = self.stream.get(RECORD_HEAD_LEN..RECORD_HEAD_LEN.checked_add(len)?)?;
        self.stream = &self.stream[RECORD_HEAD_LEN + len..];
        Some(body)
    }
}

/// Bytes in front of a record's body.
pub(crate) const RECORD_HEAD_LEN: usize = 4;

/// Largest body, in bytes: 16 MiB. Far above any edit (a file of a million blocks is 8 MB), far
/// below what a damaged length could make a reader allocate.
pub const BODY_BYTES_MAX: usize = sector::STREAM_BYTES_MAX - RECORD_HEAD_LEN;

/// The layout version of segments.
pub(crate) const LAYOUT: u32 = 2;

const HEADER_LEN: usize = 32;
const HEADER_COPY_AT: usize = 256;
const MAGIC: &[u8; 8] = b"HANNOLOG";

#[cfg(test)]
mod tests;

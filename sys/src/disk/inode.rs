//! The bytes of a simulated file: what a reader sees, what is on the disk, and what may get there in a power cut.
//!
//! - Each sector written since the last sync is on the disk or is not, independent of the others; the system may also write any of them earlier.
//! - The length on the disk is any that the file had since the last sync.
//! - A sector that is spoiled cannot be read until all of it is written.
//! - A sector that a failed sync did not write counts as clean: it can be read, but no later sync writes it.

use std::collections::BTreeSet;
use std::ops::Range;

/// What a disk writes whole.
pub(super) const SECTOR_BYTES: usize = 512;

/// Numbers that follow from a seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // Neighbouring seeds begin alike.
        for _ in 0..8 {
            random.next();
        }
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 11) % bound as u64) as usize
    }

    /// True once in `one_in` times.
    pub(super) fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// A file, whatever its names.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) data: Vec<u8>,
    /// The sectors on the disk.
    durable: Vec<u8>,
    durable_length: usize,
    /// The lengths since then, in order.
    lengths: Vec<usize>,
    /// Sectors written since they were last written to the disk.
    dirty: BTreeSet<usize>,
    /// Sectors that count as clean and are not on the disk.
    dropped: BTreeSet<usize>,
    /// Sectors that cannot be read.
    spoiled: BTreeSet<usize>,
    /// Names that it has.
    pub(super) links: usize,
    /// How often it is open.
    pub(super) open: usize,
}

impl Inode {
    /// Bytes that it takes from the disk.
    pub(super) fn room(&self) -> u64 {
        self.data.len().next_multiple_of(SECTOR_BYTES) as u64
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8], random: &mut Random) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if end > self.data.len() {
            self.resize(end);
        }
        self.data[offset..end].copy_from_slice(bytes);
        self.mark(offset, end);
        let whole = offset.div_ceil(SECTOR_BYTES)..end / SECTOR_BYTES;
        self.spoiled.retain(|sector| !whole.contains(sector));
        if random.chance(8) {
            self.write_back(random);
        }
    }

    /// Makes the sectors of these bytes unreadable.
    pub(super) fn spoil(&mut self, bytes: Range<usize>) {
        self.spoiled.extend(bytes.start / SECTOR_BYTES..bytes.end.div_ceil(SECTOR_BYTES));
    }

    /// False if one of the sectors of these bytes is spoiled.
    pub(super) fn is_readable(&self, bytes: &Range<usize>) -> bool {
        let mut sectors = bytes.start / SECTOR_BYTES..bytes.end.div_ceil(SECTOR_BYTES);
        self.spoiled.is_empty() || !sectors.any(|sector| self.spoiled.contains(&sector))
    }

    pub(super) fn resize(&mut self, length: usize) {
        let before = self.data.len();
        if length == before {
            return;
        }
        self.data.resize(length, 0);
        self.lengths.push(length);
        if length > before {
            self.mark(before, length);
        } else {
            let is_left = |sector: &usize| sector * SECTOR_BYTES < length;
            self.dirty.retain(is_left);
            self.dropped.retain(is_left);
            self.spoiled.retain(is_left);
            self.mark(length - length % SECTOR_BYTES, length);
        }
    }

    fn mark(&mut self, begin: usize, end: usize) {
        for sector in begin / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            self.dirty.insert(sector);
            self.dropped.remove(&sector);
        }
    }

    /// Writes a sector to the disk.
    fn put(&mut self, sector: usize) {
        let begin = sector * SECTOR_BYTES;
        let end = self.data.len().min(begin + SECTOR_BYTES);
        if self.durable.len() < end {
            self.durable.resize(end, 0);
        }
        self.durable[begin..end].copy_from_slice(&self.data[begin..end]);
    }

    /// What the system does on its own at any time.
    fn write_back(&mut self, random: &mut Random) {
        for sector in std::mem::take(&mut self.dirty) {
            if random.chance(2) {
                self.put(sector);
            } else {
                self.dirty.insert(sector);
            }
        }
        if !self.lengths.is_empty() {
            let until = random.below(self.lengths.len());
            self.durable_length = self.lengths[until];
            self.lengths.drain(..=until);
        }
    }

    pub(super) fn sync(&mut self) {
        self.durable.resize(self.data.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            self.put(sector);
        }
        self.durable_length = self.data.len();
        self.lengths.clear();
    }

    /// A sync that fails: any of the sectors are written, and the others never will be.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        for sector in std::mem::take(&mut self.dirty) {
            if random.chance(2) {
                self.put(sector);
            } else {
                self.dropped.insert(sector);
            }
        }
    }

    /// A power cut: what is on the disk is all there is.
    pub(super) fn cut(&mut self, random: &mut Random) {
        for sector in std::mem::take(&mut self.dirty) {
            if random.chance(2) {
                self.put(sector);
            }
        }
        if !self.lengths.is_empty() && !random.chance(4) {
            // Often the last one, which is what a disk that is not busy holds.
            let last = self.lengths.len() - 1;
            let at = if random.chance(2) { last } else { random.below(last + 1) };
            self.durable_length = self.lengths[at];
        }
        self.durable.resize(self.durable_length, 0);
        self.data = self.durable.clone();
        self.lengths.clear();
        self.dropped.clear();
    }

    /// Makes what a reader sees durable, whatever failed before.
    pub(super) fn settle(&mut self) {
        self.durable = self.data.clone();
        self.durable_length = self.data.len();
        self.lengths.clear();
        self.dirty.clear();
        self.dropped.clear();
    }
}

//! K-way merge of sorted segments with a loser tree, and the choice of segments to merge first if there are too many.
//!
//! Invariants: records leave in key order; among equal keys the segment given first comes first, so the result does not depend on the
//! number of passes, as long as each pass joins neighbours.

use std::cmp::Ordering;
use std::ops::Range;

use crate::error::Result;
use crate::segment::SegmentReader;

/// Streams the records of several segments in order.
#[derive(Debug)]
pub(crate) struct Merge {
    readers: Vec<SegmentReader<'static>>,
    heads: Vec<Head>,
    /// `losers[0]` is the winner, `losers[1..]` the losers of the inner nodes; leaf `i` is node `i + readers.len()`.
    losers: Vec<u32>,
    started: bool,
    repeated: bool,
}

/// The data that a comparison needs first.
#[derive(Debug, Clone, Copy)]
struct Head {
    prefix: u64,
    exhausted: bool,
}

impl Merge {
    /// Takes readers that have not advanced yet; reads the first record of each.
    pub(crate) fn new(mut readers: Vec<SegmentReader<'static>>) -> Result<Self> {
        let mut heads = Vec::with_capacity(readers.len());
        for reader in &mut readers {
            let exhausted = !reader.advance()?;
            heads.push(Head { prefix: reader.prefix(), exhausted });
        }
        let mut merge =
            Self { readers, heads, losers: Vec::new(), started: false, repeated: false };
        merge.build();
        Ok(merge)
    }

    /// Moves to the next record; false at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if self.readers.is_empty() {
            return Ok(false);
        }
        if !self.started {
            self.started = true;
            return Ok(!self.heads[self.winner()].exhausted);
        }
        let winner = self.winner();
        if self.heads[winner].exhausted {
            return Ok(false);
        }
        let reader = &mut self.readers[winner];
        let exhausted = !reader.advance()?;
        // The same key from the same segment is still the first: no match needs to be replayed.
        self.repeated = !exhausted && reader.same_key();
        if self.repeated {
            return Ok(true);
        }
        self.heads[winner] = Head { prefix: reader.prefix(), exhausted };
        self.replay(winner);
        Ok(!self.heads[self.winner()].exhausted)
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.readers[self.winner()].key()
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        self.readers[self.winner()].value()
    }

    /// True if the current key is known to equal that of the record before; false if it must be compared.
    #[inline]
    pub(crate) fn repeated(&self) -> bool {
        self.repeated
    }

    #[inline]
    fn winner(&self) -> usize {
        self.losers[0] as usize
    }

    fn build(&mut self) {
        let count = self.readers.len();
        self.losers = vec![0; count.max(1)];
        let mut winners = vec![0u32; 2 * count];
        for leaf in 0..count {
            winners[count + leaf] = leaf as u32;
        }
        for node in (1..count).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let left_wins = self.before(left as usize, right as usize);
            winners[node] = if left_wins { left } else { right };
            self.losers[node] = if left_wins { right } else { left };
        }
        if count > 1 {
            self.losers[0] = winners[1];
        }
    }

    #[inline]
    fn replay(&mut self, leaf: usize) {
        let mut winner = leaf as u32;
        let mut node = (leaf + self.readers.len()) / 2;
        while node > 0 {
            let loser = self.losers[node];
            if self.before(loser as usize, winner as usize) {
                self.losers[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.losers[0] = winner;
    }

    /// True if the head of `a` comes before that of `b`.
    #[inline]
    fn before(&self, a: usize, b: usize) -> bool {
        let (x, y) = (self.heads[a], self.heads[b]);
        if x.exhausted || y.exhausted {
            return (x.exhausted, a) < (y.exhausted, b);
        }
        match x.prefix.cmp(&y.prefix) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => (self.readers[a].key(), a) < (self.readers[b].key(), b),
        }
    }
}

/// The neighbours to merge into one before `sizes.len()` runs can be merged at once; `None` if they already can.
///
/// The first pass merges just as many as make all later passes full, and the neighbours with the fewest bytes.
pub(crate) fn next_pass(sizes: &[u64], merge_factor: usize) -> Option<Range<usize>> {
    let factor = merge_factor.max(2);
    if sizes.len() <= factor {
        return None;
    }
    let width = match (sizes.len() - 1) % (factor - 1) {
        0 => factor,
        remainder => remainder + 1,
    };
    let mut bytes: u64 = sizes[..width].iter().sum();
    let (mut best, mut best_bytes) = (0, bytes);
    for start in 1..=sizes.len() - width {
        bytes = bytes - sizes[start - 1] + sizes[start + width - 1];
        if bytes < best_bytes {
            (best, best_bytes) = (start, bytes);
        }
    }
    Some(best..best + width)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::Codec;
    use crate::segment::{SegmentSource, SegmentWriter};

    #[test]
    fn the_first_pass_is_as_narrow_and_cheap_as_possible() {
        assert_eq!(next_pass(&[1, 1, 1], 3), None);
        assert_eq!(next_pass(&[5, 9, 1, 2], 3), Some(2..4));
        assert_eq!(next_pass(&[9, 9, 4, 1, 1, 9, 9], 3), Some(2..5));
        assert_eq!(next_pass(&[1, 1, 1], 0), Some(0..2));
    }

    proptest! {
        #[test]
        fn merges_stably(runs in prop::collection::vec(prop::collection::vec(prop::collection::vec(0u8..3, 0..11), 0..12), 0..9)) {
            let mut want = Vec::new();
            let mut readers = Vec::new();
            for (index, mut keys) in runs.into_iter().enumerate() {
                keys.sort();
                let (mut writer, mut bytes) = (SegmentWriter::new(Codec::Lz4), Vec::new());
                for (position, key) in keys.iter().enumerate() {
                    let value = [index as u8, position as u8];
                    writer.push(&mut bytes, key, &value);
                    want.push((key.clone(), value.to_vec()));
                }
                writer.finish(&mut bytes);
                readers.push(SegmentReader::open(SegmentSource::Memory(bytes), index).unwrap());
            }
            want.sort_by(|a, b| a.0.cmp(&b.0));
            let mut merge = Merge::new(readers).unwrap();
            let mut got: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            while merge.advance().unwrap() {
                if merge.repeated() {
                    prop_assert_eq!(&got.last().unwrap().0[..], merge.key());
                }
                got.push((merge.key().to_vec(), merge.value().to_vec()));
            }
            prop_assert!(!merge.advance().unwrap());
            prop_assert_eq!(got, want);
        }

        #[test]
        fn passes_end_and_are_full(count in 1usize..400, factor in 2usize..20) {
            let mut sizes: Vec<u64> = (0..count as u64).map(|i| i * 7919 % 31).collect();
            let mut first = true;
            while let Some(range) = next_pass(&sizes, factor) {
                prop_assert!(range.len() >= 2 && range.len() <= factor);
                prop_assert!(first || range.len() == factor);
                first = false;
                let sum = sizes[range.clone()].iter().sum();
                sizes.splice(range, [sum]);
            }
            prop_assert!(sizes.len() <= factor);
        }
    }
}

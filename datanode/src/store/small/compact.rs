//! Space that deleted and moved replicas leave: a segment is removed once no replica is in it, and what is left in one that is mostly empty moves to the
//! current segment. So does what is in short ones, where it fits into one with others: each start leaves one, with its descriptor.
//!
//! Invariant: a replica leaves its segment only after its copy is on disk.

use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use protocol::BlockId;
use protocol::meta::Layout;
use sys::disk;

use super::segment::Segment;
use super::{Extent, SEGMENT_BYTES_MAX, SmallLog};
use crate::core::replica::{Replica, State};
use crate::error::StoreError;
use crate::store::Store;
use crate::store::folder::Unsynced;
use crate::store::verify;

/// Time between two looks for segments to compact: each that finds one walks the table. Default 30 s.
const INTERVAL: Duration = Duration::from_secs(30);
/// Replicas that are moved under one sync.
const MOVED_AT_ONCE: usize = 64;
/// Entries of the table that are looked at under one lock, which others wait for: some hundred microseconds.
const ENTRIES_AT_ONCE: usize = 1000;

/// Which segment to empty, of those with so many bytes in use of so many in all, beside a current one of `current` bytes: the one with the smallest part in use,
/// if that is less than half. Otherwise the one with the fewest bytes in use, if these fit into the current one, or there is none and they fit into one with
/// those of another. What is more than half of the largest size stays where it is: merging it would not halve the number of files.
fn choose(sizes: &[(u64, u64)], current: Option<u64>) -> Option<usize> {
    let all = || sizes.iter().enumerate();
    let part = |(used, end): (u64, u64)| used * 100 / end;
    let sparsest = all().min_by_key(|(_, size)| part(**size));
    if let Some((at, _)) = sparsest.filter(|(_, size)| part(**size) < 50) {
        return Some(at);
    }
    let mut short: Vec<(u64, usize)> = all().map(|(at, (used, _))| (*used, at)).collect();
    short.retain(|(used, _)| *used <= SEGMENT_BYTES_MAX / 2);
    short.sort_unstable();
    let (used, at) = *short.first()?;
    let beside = current.or_else(|| short.get(1).map(|(other, _)| *other))?;
    (used + beside <= SEGMENT_BYTES_MAX).then_some(at)
}

impl SmallLog {
    /// The segment to empty next, of those that are due; `None` if there would be no less of them, or of their bytes.
    fn to_empty(&self, is_due: impl Fn(&Segment) -> bool) -> Option<Arc<Segment>> {
        let (mut sealed, current) = {
            let inner = self.inner.lock();
            (inner.sealed.clone(), inner.current.as_ref().map(|segment| segment.end()))
        };
        sealed.retain(|segment| !segment.is_stuck() && is_due(segment));
        let sizes: Vec<_> = sealed.iter().map(|one| (one.used(), one.end())).collect();
        choose(&sizes, current).map(|at| Arc::clone(&sealed[at]))
    }

    /// Removes segments that no replica is in, and in which none was deleted since `grace`.
    fn remove_empty(&self, is_over: impl Fn(&Segment) -> bool) {
        let mut inner = self.inner.lock();
        inner.sealed.retain(|segment| {
            // Every replica in it holds it, in the table or not yet.
            if Arc::strong_count(segment) > 1 || !is_over(segment) {
                return true;
            }
            // What has its name now is somebody else's.
            if segment.has_vanished() {
                return false;
            }
            match disk::remove_file(segment.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(segment = %segment.path().display(), %error, "cannot remove");
                    true
                }
                _ => false,
            }
        });
    }

    /// Copies a replica to the current segment.
    pub(in crate::store) fn copy(
        &self,
        from: &Extent,
        (meta, data): (&[u8], &[u8]),
    ) -> Result<Extent, Unsynced> {
        let (block, stamp, _) = from.id();
        self.append_parts((block, stamp), [meta, &[]], data)
    }
}

impl Store {
    /// Gives back the space of deleted small replicas, until `is_over`: at most one segment of each volume is compacted.
    pub(crate) fn compact_small(&self, is_over: &dyn Fn() -> bool) {
        let now = disk::now(self.volumes[0].path());
        {
            let mut last = self.compacted.lock();
            if last.is_some_and(|last| now.duration_since(last) < INTERVAL) {
                return;
            }
            *last = Some(now);
        }
        for (index, volume) in self.volumes.iter().enumerate() {
            if volume.is_fenced() || is_over() {
                continue;
            }
            // Until its end it may change files, so the volume does not come back before.
            let Some(_moving) = volume.small().quiet() else { continue };
            volume.small().remove_empty(|segment| volume.is_grace_over(segment.last_gone()));
            let segment = volume.small().to_empty(|one| volume.is_grace_over(one.last_gone()));
            if let Some(segment) = segment
                && self.empty(index, &segment, is_over)
            {
                drop(segment);
                volume.small().remove_empty(|segment| volume.is_grace_over(segment.last_gone()));
            }
        }
    }

    /// Moves the replicas of a segment; false if one of them could not be moved.
    fn empty(&self, index: usize, segment: &Arc<Segment>, is_over: &dyn Fn() -> bool) -> bool {
        let mut after = Some(Bound::Unbounded);
        let mut all = true;
        while let Some(from) = after {
            let (chunk, next) = self.small_at_rest(index, from);
            after = next;
            let here: Vec<_> = chunk.into_iter().filter(|(_, at)| at.is_in(segment)).collect();
            for few in here.chunks(MOVED_AT_ONCE) {
                match self.move_few(index, few) {
                    Ok(moved) => all &= moved,
                    Err(Unsynced::Untried(error)) => {
                        tracing::debug!(%error, "cannot compact small replicas now");
                        return false;
                    }
                    Err(Unsynced::Failed(error)) => {
                        self.fence(index, &error);
                        return false;
                    }
                    // Those that were to be moved are where they were; a later turn moves them elsewhere.
                    Err(Unsynced::Vanished) => return false,
                }
            }
            if is_over() || self.volumes[index].is_fenced() {
                return false;
            }
        }
        all
    }

    fn move_few(&self, index: usize, few: &[(Replica, Extent)]) -> Result<bool, Unsynced> {
        let log = self.volumes[index].small();
        let mut copies = Vec::with_capacity(few.len());
        for (replica, from) in few {
            let (meta, data) = match from.contents() {
                Ok(contents) => contents,
                Err(error) if sys::fs::is_shortage(&error) => return Err(Unsynced::Untried(error)),
                // It stays where it is, and those beside it leave.
                Err(error) => {
                    from.is_bad();
                    self.note_unread(replica, &StoreError::io(replica.block, error));
                    continue;
                }
            };
            let crcs = &meta[Layout::CURRENT.header_bytes()..];
            if protocol::checksum::verify(&data, crcs).is_err()
                || verify::check_header(replica.block, &from.open().1).is_err()
            {
                from.is_bad();
                self.report_bad(replica);
                continue;
            }
            copies.push((from, log.copy(from, (&meta, &data))?));
        }
        for (_, copy) in &copies {
            if let Err(unsynced) = copy.sync() {
                log.seal(copy);
                return Err(match unsynced {
                    Unsynced::Failed(error) if sys::fs::is_full(&error) => Unsynced::Untried(error),
                    Unsynced::Vanished => {
                        self.give_up_segment_of(index, copy);
                        Unsynced::Vanished
                    }
                    unsynced => unsynced,
                });
            }
        }
        let all = copies.len() == few.len();
        let moved = copies.into_iter().map(|(from, copy)| self.move_one(from, copy));
        Ok(moved.fold(all, |all, moved| all & moved))
    }

    /// Puts a copy in the place of a replica, unless that has changed meanwhile.
    fn move_one(&self, from: &Extent, copy: Extent) -> bool {
        let (block, ..) = from.id();
        let _moving = self.moves.moving(block);
        let mut replicas = self.replicas.lock();
        let entry = replicas.get_mut(&block).filter(|entry| {
            let is_same = entry.small.as_ref().is_some_and(|small| small.is(from));
            is_same && entry.writer.is_none() && entry.replica.is_in_finalized()
        });
        let Some(entry) = entry else {
            drop(replicas);
            copy.discard();
            return false;
        };
        entry.small = Some(copy);
        drop(replicas);
        from.discard();
        true
    }

    /// Small replicas of a volume without a writer, with their places, among the next entries of the table; and where those begin that come after.
    pub(crate) fn small_at_rest(
        &self,
        index: usize,
        after: Bound<BlockId>,
    ) -> (Vec<(Replica, Extent)>, Option<Bound<BlockId>>) {
        let replicas = self.replicas.lock();
        let (mut found, mut last) = (Vec::new(), None);
        for (block, entry) in replicas.range((after, Bound::Unbounded)).take(ENTRIES_AT_ONCE) {
            last = Some(Bound::Excluded(*block));
            let is_at_rest = entry.volume == index
                && entry.writer.is_none()
                && matches!(entry.replica.state, State::Finalized | State::Recovering { .. });
            if let Some(small) = entry.small.as_ref().filter(|_| is_at_rest) {
                found.push((entry.replica, small.clone()));
            }
        }
        (found, last)
    }

    /// Gives up the replicas in segments whose files somebody has removed; returns how many.
    pub(crate) fn give_up_lost_segments(&self, index: usize) -> usize {
        let lost = self.volumes[index].small().lost();
        let mut count = 0;
        let mut after = Some(Bound::Unbounded).filter(|_| !lost.is_empty());
        while let Some(from) = after {
            let (chunk, next) = self.small_at_rest(index, from);
            after = next;
            for (replica, extent) in chunk {
                if lost.iter().any(|segment| extent.is_in(segment)) && self.give_up_small(&extent) {
                    tracing::error!(block = %replica.block, stamp = %replica.stamp, "the file of a small replica is gone from the disk");
                    count += 1;
                }
            }
        }
        count
    }

    /// Handles a segment whose file has vanished while replicas were added to it: it gets no more, and those that were in it before are given up, unless the
    /// whole disk is away.
    pub(crate) fn give_up_segment_of(&self, index: usize, one: &Extent) {
        self.volumes[index].small().seal(one);
        if !one.begin_giving_up() {
            return;
        }
        match self.volumes[index].check() {
            Ok(()) => drop(self.give_up_lost_segments(index)),
            Err(cause) => self.fence_unless_short(index, &cause),
        }
    }

    /// Gives up the replica at a place that is lost; false if it has moved or changed meanwhile.
    fn give_up_small(&self, place: &Extent) -> bool {
        let (block, ..) = place.id();
        let _moving = self.moves.moving(block);
        let mut replicas = self.replicas.lock();
        let is_there = replicas.get(&block).is_some_and(|entry| {
            entry.writer.is_none() && entry.small.as_ref().is_some_and(|small| small.is(place))
        });
        if is_there {
            replicas.remove(&block);
            self.note_loss();
            // Before somebody else changes it: the last report counts.
            self.changes.push(|pending| pending.deleted(block));
            drop(replicas);
            self.forget_failed_read(block);
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = SEGMENT_BYTES_MAX;

    #[test]
    fn what_is_sparse_is_emptied_before_what_is_short() {
        assert_eq!(choose(&[], None), None);
        assert_eq!(choose(&[(60, 100), (49, 100), (10, 100)], None), Some(2));
        assert_eq!(choose(&[(MAX, MAX), (MAX / 4, MAX)], None), Some(1));
        // One alone would only get another file.
        assert_eq!(choose(&[(60, 100)], None), None);
        assert_eq!(choose(&[(60, 100)], Some(512)), Some(0));
        assert_eq!(choose(&[(60, 100), (90, 100), (55, 100)], None), Some(2));
    }

    #[test]
    fn what_would_not_fit_into_one_stays() {
        let half = MAX / 2;
        assert_eq!(choose(&[(half, half), (half, half)], None), Some(0));
        assert_eq!(choose(&[(half + 1, half + 1), (half, half)], None), None);
        assert_eq!(choose(&[(half, half)], Some(half + 1)), None);
        assert_eq!(choose(&[(MAX, MAX), (MAX, MAX)], Some(512)), None);
    }

    /// However many starts there were: in the end there is one file for what fits into one.
    #[test]
    fn short_ones_become_one() {
        let (mut sizes, mut current, mut moved) = (vec![(1 << 20, 1 << 20); 40], None, 0);
        while let Some(at) = choose(&sizes, current) {
            let (used, _) = sizes.remove(at);
            current = Some(current.unwrap_or(512) + used);
            moved += used;
        }
        assert!(sizes.is_empty() && current == Some((40 << 20) + 512), "{sizes:?} {current:?}");
        assert_eq!(moved, 40 << 20, "each is moved once");
    }
}

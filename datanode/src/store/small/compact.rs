//! Space that deleted and moved replicas leave: a segment is removed once no replica is in it, and what is left in one that is mostly empty moves to the
//! current segment.
//!
//! Invariant: a replica leaves its segment only after its copy is on disk.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use protocol::BlockId;
use protocol::meta::Layout;
use sys::disk;

use super::segment::Segment;
use super::{Extent, SmallLog};
use crate::core::replica::{Replica, State};
use crate::error::StoreError;
use crate::store::Store;
use crate::store::folder::Unsynced;
use crate::store::verify;
use crate::store::volume::Volume;

/// Time between two looks for segments to compact: each walks the table. Default 30 s.
const INTERVAL: Duration = Duration::from_secs(30);
/// Replicas that are moved under one sync.
const MOVED_AT_ONCE: usize = 64;

impl SmallLog {
    /// Segments that get no more records.
    fn sealed(&self) -> Vec<Arc<Segment>> {
        self.inner.lock().sealed.clone()
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
            let sealed = volume.small().sealed();
            if let Some(segment) = self.sparsest(index, volume, &sealed)
                && self.empty(index, &segment, is_over)
            {
                drop((segment, sealed));
                volume.small().remove_empty(|segment| volume.is_grace_over(segment.last_gone()));
            }
        }
    }

    /// The segment with the smallest part in use, if that is less than half.
    fn sparsest(
        &self,
        index: usize,
        volume: &Volume,
        sealed: &[Arc<Segment>],
    ) -> Option<Arc<Segment>> {
        if sealed.is_empty() {
            return None;
        }
        let mut used = vec![0; sealed.len()];
        let mut after = std::ops::Bound::Unbounded;
        loop {
            let chunk = self.small_at_rest(index, after);
            let Some((last, _)) = chunk.last() else { break };
            after = std::ops::Bound::Excluded(last.block);
            for (_, extent) in chunk {
                if let Some(at) = sealed.iter().position(|segment| extent.is_in(segment)) {
                    used[at] += extent.bytes();
                }
            }
        }
        let part = |(segment, used): (&Arc<Segment>, u64)| used * 100 / segment.end();
        let all = sealed.iter().zip(used);
        let due = all.filter(|(segment, _)| volume.is_grace_over(segment.last_gone()));
        let sparsest = due.min_by_key(|(segment, used)| part((segment, *used)));
        sparsest.filter(|(segment, used)| part((segment, *used)) < 50).map(|(one, _)| one.clone())
    }

    /// Moves the replicas of a segment; false if one of them could not be moved.
    fn empty(&self, index: usize, segment: &Arc<Segment>, is_over: &dyn Fn() -> bool) -> bool {
        let mut after = std::ops::Bound::Unbounded;
        let mut all = true;
        loop {
            let chunk = self.small_at_rest(index, after);
            let Some((last, _)) = chunk.last() else { return all };
            after = std::ops::Bound::Excluded(last.block);
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
                    self.note_unread(replica, &StoreError::io(replica.block, error));
                    continue;
                }
            };
            let crcs = &meta[Layout::CURRENT.header_bytes()..];
            if protocol::checksum::verify(&data, crcs).is_err()
                || verify::check_header(replica.block, &from.open().1).is_err()
            {
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

    /// The next small replicas of a volume without a writer, with their places.
    pub(crate) fn small_at_rest(
        &self,
        index: usize,
        after: std::ops::Bound<BlockId>,
    ) -> Vec<(Replica, Extent)> {
        const CHUNK: usize = 1000;
        let replicas = self.replicas.lock();
        let here = replicas.range((after, std::ops::Bound::Unbounded));
        let at_rest = here.filter(|(_, entry)| {
            entry.volume == index
                && entry.writer.is_none()
                && matches!(entry.replica.state, State::Finalized | State::Recovering { .. })
        });
        let small = at_rest.filter_map(|(_, entry)| Some((entry.replica, entry.small.clone()?)));
        small.take(CHUNK).collect()
    }

    /// Gives up the replicas in segments whose files somebody has removed; returns how many.
    pub(crate) fn give_up_lost_segments(&self, index: usize) -> usize {
        let lost = self.volumes[index].small().lost();
        let mut count = 0;
        let mut after = std::ops::Bound::Unbounded;
        while !lost.is_empty() {
            let chunk = self.small_at_rest(index, after);
            let Some((last, _)) = chunk.last() else { break };
            after = std::ops::Bound::Excluded(last.block);
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

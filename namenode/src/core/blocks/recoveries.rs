//! Recoveries under way of files whose writers are gone, and the members of a pipeline that cannot take part.
//!
//! ```text
//! due -> nobody can lead it -> due after `retry_ms`
//!     -> an attempt is ordered: under way -> committed -> out
//!                                         -> its leader could not do it, is dead, or has registered again -> due `retry_ms` after the order
//!                                         -> no word of it for so long that there will be none -> due at once
//! ```
//!
//! Invariants: no attempt is ordered while another is under way, so that one which takes long can end; files have their turns in the order in which they
//! became due; what an attempt made counts only if no leader can have begun a later one.

use std::collections::BTreeMap;

use protocol::namenode::DatanodeState;
use protocol::{BlockId, DatanodeId, GenerationStamp, InodeId};

use crate::core::inodes::Open;
use crate::core::nodes::{Datanodes, NodeIndex};

/// How many times `retry_ms` the first attempt may take without a word. By default that is longer than the minute for which its leader waits for a silent member.
const PATIENCE_RETRIES: u64 = 8;
/// Bytes per millisecond that a leader copies or compares at least: 8 MB/s is left of a disk that is busy with something else.
const BYTES_PER_MS: u64 = 8_000;
/// Most time for that, milliseconds. A block that takes longer gets it from a later attempt.
const COPYING_MS_MAX: u64 = 600_000;
/// How often the patience doubles: an order that was lost is given again within the hour, however many were.
const DOUBLINGS_MAX: usize = 3;

/// Recoveries under way.
#[derive(Default, Debug)]
pub struct Recoveries {
    files: BTreeMap<InodeId, Attempts>,
}

/// The attempts at one recovery.
#[derive(Debug)]
struct Attempts {
    first_ms: u64,
    /// No attempt is ordered before this.
    turn_ms: u64,
    /// How many were ordered.
    count: usize,
    last: Option<Attempt>,
    /// Stamp of the one before the last, if a leader may have begun it.
    before: Option<GenerationStamp>,
}

/// An attempt that was ordered.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    stamp: GenerationStamp,
    leader: NodeIndex,
    /// The leader's registration: another one may be of another process, which knows nothing of the order.
    registration: u64,
    /// Nothing will be heard of it after this.
    until_ms: u64,
}

impl Attempt {
    fn has_leader(&self, nodes: &Datanodes) -> bool {
        nodes.node(self.leader).state != DatanodeState::Dead
            && nodes.registration(self.leader) == self.registration
    }
}

impl Attempts {
    fn new(now_ms: u64) -> Self {
        Attempts { first_ms: now_ms, turn_ms: now_ms, count: 0, last: None, before: None }
    }

    fn due_ms(&self, nodes: &Datanodes) -> u64 {
        let under_way = self.last.filter(|attempt| attempt.has_leader(nodes));
        under_way.map_or(self.turn_ms, |attempt| attempt.until_ms.max(self.turn_ms))
    }

    /// How long a word of the next attempt is waited for.
    fn patience_ms(&self, bytes: u64, retry_ms: u64) -> u64 {
        let copying_ms = (bytes / BYTES_PER_MS).min(COPYING_MS_MAX);
        let first_ms = retry_ms.saturating_mul(PATIENCE_RETRIES).saturating_add(copying_ms);
        first_ms.saturating_mul(1 << self.count.min(DOUBLINGS_MAX))
    }
}

impl Recoveries {
    /// Up to `count_max` of these files whose turn has come, those first that have waited for it longest. One that is new is due.
    pub(in crate::core) fn due(
        &mut self,
        files: impl Iterator<Item = InodeId>,
        nodes: &Datanodes,
        now_ms: u64,
        count_max: usize,
    ) -> Vec<InodeId> {
        let due_ms = |file| {
            let attempts = self.files.entry(file).or_insert_with(|| Attempts::new(now_ms));
            (attempts.due_ms(nodes), file)
        };
        let mut due: Vec<_> = files.map(due_ms).filter(|(due_ms, _)| *due_ms <= now_ms).collect();
        due.sort_unstable();
        due.into_iter().take(count_max).map(|(_, file)| file).collect()
    }

    /// True while an attempt can end that was ordered.
    pub(in crate::core) fn is_under_way(
        &self,
        file: InodeId,
        nodes: &Datanodes,
        now_ms: u64,
    ) -> bool {
        let last = self.files.get(&file).and_then(|attempts| attempts.last);
        last.is_some_and(|attempt| attempt.has_leader(nodes) && now_ms < attempt.until_ms)
    }

    /// A file has its turn. Returns how many attempts there were, and for how long it has been waiting.
    pub(in crate::core) fn take_turn(
        &mut self,
        file: InodeId,
        now_ms: u64,
        retry_ms: u64,
    ) -> (usize, u64) {
        let attempts = self.files.entry(file).or_insert_with(|| Attempts::new(now_ms));
        attempts.turn_ms = now_ms.saturating_add(retry_ms);
        (attempts.count, now_ms.saturating_sub(attempts.first_ms))
    }

    /// Notes an attempt, in which up to `bytes` are copied or compared. An order that its leader has not fetched is taken back.
    pub(in crate::core) fn note_ordered(
        &mut self,
        nodes: &mut Datanodes,
        (file, block): (InodeId, BlockId),
        (stamp, leader, bytes): (GenerationStamp, NodeIndex, u64),
        (now_ms, retry_ms): (u64, u64),
    ) {
        let Some(attempts) = self.files.get_mut(&file) else { return };
        if let Some(last) = attempts.last.take()
            && !nodes.take_back(last.leader, block, last.stamp)
        {
            attempts.before = Some(last.stamp);
        }
        let until_ms = now_ms.saturating_add(attempts.patience_ms(bytes, retry_ms));
        let registration = nodes.registration(leader);
        attempts.last = Some(Attempt { stamp, leader, registration, until_ms });
        attempts.count += 1;
    }

    /// A DataNode could not do what it was ordered.
    pub(in crate::core) fn note_failed(&mut self, file: InodeId, leader: NodeIndex) {
        self.end_if(file, |attempt| attempt.leader == leader);
    }

    /// The end of an attempt was refused.
    pub(in crate::core) fn note_refused(&mut self, file: InodeId, stamp: GenerationStamp) {
        self.end_if(file, |attempt| attempt.stamp == stamp);
    }

    fn end_if(&mut self, file: InodeId, is_it: impl Fn(&Attempt) -> bool) {
        if let Some(attempts) = self.files.get_mut(&file)
            && attempts.last.take_if(|attempt| is_it(attempt)).is_some()
        {
            // It was begun, so the one before it is over, too.
            attempts.before = None;
        }
    }

    /// Whether an attempt before the last one may end the recovery of a block: nobody has begun the last one, and now nobody can.
    pub(in crate::core) fn is_last_taken_back(
        &self,
        nodes: &mut Datanodes,
        (file, block): (InodeId, BlockId),
        stamp: GenerationStamp,
    ) -> bool {
        let attempts = self.files.get(&file).filter(|attempts| attempts.before == Some(stamp));
        let last = attempts.and_then(|attempts| attempts.last);
        last.is_some_and(|last| nodes.take_back(last.leader, block, last.stamp))
    }

    /// How long a file has been in recovery.
    pub(in crate::core) fn waited_ms(&self, file: InodeId, now_ms: u64) -> u64 {
        self.files.get(&file).map_or(0, |attempts| now_ms.saturating_sub(attempts.first_ms))
    }

    /// True if a file is in recovery.
    pub(in crate::core) fn contains(&self, file: InodeId) -> bool {
        self.files.contains_key(&file)
    }

    /// The recovery of a file is over.
    pub(in crate::core) fn remove(&mut self, file: InodeId) {
        self.files.remove(&file);
    }

    /// Forgets files that are in recovery no more.
    pub(in crate::core) fn retain(&mut self, is_in_recovery: impl Fn(InodeId) -> bool) {
        self.files.retain(|file, _| is_in_recovery(*file));
    }
}

/// Members of the pipeline of a file's last block that are dead or unknown.
pub(in crate::core) fn away(nodes: &Datanodes, open: &Open) -> Vec<DatanodeId> {
    let is_away = |id: &DatanodeId| {
        let node = nodes.index(*id).map(|index| nodes.node(index).state);
        node.is_none_or(|state| state == DatanodeState::Dead)
    };
    open.members().filter(is_away).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY_MS: u64 = 10;

    #[test]
    fn every_file_has_its_turn_however_many_there_are() {
        let nodes = Datanodes::new(1000, 2000, 100);
        let mut recoveries = Recoveries::default();
        let all = || (1..=1000).map(InodeId);
        let mut turns: BTreeMap<InodeId, u64> = BTreeMap::new();
        // The first ones are due again before the last ones have had a turn.
        for now_ms in (0..).step_by(5).take(20) {
            for file in recoveries.due(all(), &nodes, now_ms, 100) {
                recoveries.take_turn(file, now_ms, RETRY_MS);
                *turns.entry(file).or_default() += 1;
            }
        }
        assert_eq!(turns.len(), 1000);
        assert!(turns.values().all(|count| *count == 2), "{turns:?}");
    }

    #[test]
    fn the_patience_grows_with_the_bytes_and_the_attempts() {
        let mut attempts = Attempts::new(0);
        let of = |attempts: &Attempts, bytes| attempts.patience_ms(bytes, 10_000);
        assert_eq!((of(&attempts, 0), of(&attempts, 2 << 30)), (80_000, 348_435));
        assert_eq!(of(&attempts, u64::MAX), 680_000);
        let mut before = of(&attempts, 0);
        for _ in 0..3 {
            attempts.count += 1;
            assert_eq!(of(&attempts, 0), before * 2);
            before *= 2;
        }
        attempts.count = usize::MAX;
        assert_eq!(of(&attempts, 0), before, "for no longer");
    }
}
